"""Run a gate: run trials, repeat those that hit a limit, judge, extend, compare times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from ope_bench.gate.baseline import Baseline
from ope_bench.gate.decision import judge
from ope_bench.gate.pairing import PairedRow, paired_rows, with_outcomes
from ope_bench.gate.timing import TimeReport, compare_times
from ope_bench.gate.verdict import Judgement, Rules, Verdict
from ope_bench.trials.record import Trial, TrialRecord

__all__ = ["TrialSource", "GateReport", "Options", "run_gate"]


class TrialSource(Protocol):
    """Runs a gate's trials."""

    @property
    def reused(self) -> int:
        """Number of outcomes of `run` so far that were taken from the store."""

    def run(self, trials: Sequence[Trial]) -> Iterable[TrialRecord]:
        """Run the trials and yield their outcomes."""

    def alone(self, trials: Sequence[Trial], *, limits: float = 1.0) -> Iterable[TrialRecord]:
        """Run the trials now, one at a time, with their limits multiplied by `limits`."""

    def machine_mismatch(self) -> str:
        """Return why times cannot be compared with the baseline's; empty where they can."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a gate.

    Parameters
    ----------
    seed : run on fresh data of this seed, where nothing is paired; None for the baseline's seeds.
    extend : most replicates to take from the baseline's reserve for rows that are undecided, or
        on fresh data alike with a larger error.
    time : whether to compare times.
    margin, level : see `ope_bench.gate.decision.Rules`.
    """

    seed: int | None = None
    extend: int = 0
    time: bool = True
    margin: float = 0.02
    level: float = 0.01


@dataclass(frozen=True, kw_only=True)
class GateReport:
    """The result of a gate.

    Parameters
    ----------
    judgements : one per row.
    planned : trials of the baseline's suite.
    outcomes : number of planned trials that have an outcome.
    asked, executed, reused : number of trials including those of an extension; how many of them
        this gate ran, and for how many it used stored outcomes.
    times : comparison of seconds; advisory.
    notices : lines for the user.
    fresh : whether the data are other than the baseline's.
    """

    judgements: tuple[Judgement, ...]
    planned: int
    outcomes: int
    asked: int = 0
    executed: int = 0
    reused: int = 0
    times: TimeReport = field(default_factory=TimeReport)
    notices: tuple[str, ...] = ()
    fresh: bool = False

    @property
    def verdicts(self) -> Counter[Verdict]:
        """Number of rows by verdict."""
        return Counter(judgement.verdict for judgement in self.judgements)

    @property
    def trials_run(self) -> str:
        """Return how many of the outcomes are new: ``3 of 8 trials run, 5 reused``."""
        reused = f", {self.reused} reused" if self.reused else ""
        return f"{self.executed} of {self.asked} trial{'s' * (self.asked != 1)} run{reused}"

    def exit_code(self, *, gate_time: bool = False) -> tuple[int, str]:
        """Return the exit code (0 clean, 1 regression, 4 trials missing) and its reason."""
        verdicts = self.verdicts
        compared = [one for one in self.judgements if one.verdict is not Verdict.INCOMPARABLE]
        missing = self.planned - self.outcomes
        if self.planned == 0:
            return 4, "the baseline holds no trial to run"
        if missing or verdicts[Verdict.MISSING]:
            return 4, f"{missing} of {self.planned} planned trials have no outcome"
        failing = verdicts[Verdict.WORSE] + verdicts[Verdict.FAILED]
        if failing:
            return 1, f"{failing} of {len(self.judgements)} rows are worse or fail"
        if not compared:
            return 4, "no row could be compared; accept a new baseline"
        if gate_time and self.times.slower:
            return 1, "slower (--gate-time)"
        if gate_time and self.times.notice:
            return 4, f"times could not be compared: {self.times.notice}"
        undecided = verdicts[Verdict.UNDECIDED]
        if undecided:
            return 0, f"no regression shown; {undecided} rows undecided"
        beyond = " beyond what chance explains on fresh data" if self.fresh else ""
        return 0, f"no regression{beyond} in {len(compared)} rows"


def run_gate(baseline: Baseline, bench: TrialSource, options: Options | None = None) -> GateReport:
    """Run a baseline's trials again and judge every row.

    Parameters
    ----------
    baseline : the accepted numbers.
    bench : runs the trials.
    options : seed, extension, times, margin and level.
    """
    options = options or Options()
    rows = paired_rows(baseline, seed=options.seed)
    notices: list[str] = []
    fresh = options.seed is not None and any(
        pair.before.trial.seed != options.seed for row in rows for pair in row.pairs
    )
    if fresh:
        notices.append(FRESH.format(seed=options.seed))
    rules = Rules(
        margin=options.margin,
        level=options.level,
        looks=2 if options.extend else 1,
        fresh=fresh,
    )
    notices += dict.fromkeys(note for row in rows for note in row.notes)
    truth = baseline.suite.truth
    planned = _planned(rows)
    lost = sum(len(row.pairs) for row in rows if row.gone)
    outcomes = {record.key: record for record in bench.run(planned)}
    notices += _second_chance(rows, outcomes, bench)
    finished = [with_outcomes(row, outcomes) for row in rows]
    judgements = judge(finished, truth, rules)
    if options.extend:
        finished, more = _extended(
            finished, judgements, outcomes, bench, options.extend, options.margin
        )
        notices += more
        judgements = judge(finished, truth, rules)
    times = TimeReport()
    if options.time:
        times = TimeReport(notice=TIMES_ARE_PAIRED) if fresh else _times(finished, bench)
    n_outcomes = sum(trial.key in outcomes for trial in planned)
    reused = bench.reused
    asked = _planned(finished)
    return GateReport(
        judgements=tuple(judgements),
        planned=len(planned) + lost,
        outcomes=n_outcomes,
        asked=len(asked),
        executed=sum(trial.key in outcomes for trial in asked) - reused,
        reused=reused,
        times=times,
        notices=tuple(notices),
        fresh=fresh,
    )


TIMES_ARE_PAIRED = "times compare on the baseline's own data only, without --seed"
FRESH = (
    "seed {seed} gives other data than the baseline's: nothing is paired, so only large changes "
    "show, and no row can be the same; without --seed much smaller ones do"
)


def _planned(rows: Iterable[PairedRow]) -> list[Trial]:
    """Return the trials to run, grouped by data; none of rows that cannot be compared."""
    trials = [
        pair.trial
        for row in rows
        if not row.incomparable
        for pair in row.pairs
        if pair.trial is not None
    ]
    order = {key: i for i, key in enumerate(dict.fromkeys(trial.group for trial in trials))}
    return sorted(trials, key=lambda trial: order[trial.group])


def _second_chance(
    rows: Iterable[PairedRow], outcomes: dict[str, TrialRecord], bench: TrialSource
) -> list[str]:
    """Repeat new timeouts and memory failures alone, with doubled limits."""
    suspects = [
        pair.trial
        for row in rows
        for pair in row.pairs
        if pair.trial is not None
        and (outcome := outcomes.get(pair.trial.key)) is not None
        and outcome.status.limit
        and not pair.before.status.limit
    ]
    if not suspects:
        return []
    notices = []
    for record in bench.alone(suspects, limits=2.0):
        was = outcomes[record.key].status
        outcomes[record.key] = record
        if not record.status.limit:
            trial = record.trial
            notices.append(
                f"{trial.environment.id} / {trial.estimator.id}, replicate {trial.replicate}: "
                f"{was}, but {record.status} alone with doubled limits"
            )
    return notices


def _extended(
    rows: Sequence[PairedRow],
    judgements: Sequence[Judgement],
    outcomes: dict[str, TrialRecord],
    bench: TrialSource,
    extend: int,
    margin: float,
) -> tuple[list[PairedRow], list[str]]:
    """Add replicates to undecided rows, as far as the baseline has them in reserve."""
    notices: list[str] = []
    chosen: dict[int, PairedRow] = {}
    for index, (row, judged) in enumerate(zip(rows, judgements, strict=True)):
        larger = judged.verdict is Verdict.INDISTINGUISHABLE and (judged.ratio or 0) > 1 + margin
        if judged.verdict is not Verdict.UNDECIDED and not larger:
            continue
        more = row.reserve[:extend]
        if len(more) < extend:
            notices.append(
                f"{row.environment.id} / {row.estimator.id}: the baseline has {len(more)} "
                f"replicates in reserve of the {extend} asked for (`baseline save --reserve`)"
            )
        if more:
            chosen[index] = replace(row, pairs=row.pairs + more, reserve=row.reserve[extend:])
    trials = [
        pair.trial
        for index, row in chosen.items()
        for pair in row.pairs[len(rows[index].pairs) :]
        if pair.trial is not None
    ]
    outcomes |= {record.key: record for record in bench.run(trials)} if trials else {}
    notices += _second_chance(chosen.values(), outcomes, bench)
    return [
        with_outcomes(chosen[index], outcomes) if index in chosen else row
        for index, row in enumerate(rows)
    ], notices


def _times(rows: Sequence[PairedRow], bench: TrialSource) -> TimeReport:
    mismatch = bench.machine_mismatch()
    if mismatch:
        return TimeReport(notice=mismatch)
    return compare_times(rows, bench.alone)
