"""The order of events: run, retry what ran out of its limits, judge, extend, time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from ope_bench.baseline import Baseline
from ope_bench.gate.judging import Judgement, Rules, Verdict, judge
from ope_bench.gate.pairing import PairedRow, completed, paired_rows
from ope_bench.gate.timing import TimeReport, compare_times
from ope_bench.records import Status, Trial, TrialRecord

__all__ = ["Bench", "GateReport", "Options", "run_gate"]


class Bench(Protocol):
    """Where a gate's trials run."""

    def run(self, trials: Sequence[Trial]) -> Iterable[TrialRecord]:
        """The outcomes of the trials, stored and current ones reused."""

    def alone(self, trials: Sequence[Trial], *, limits: float = 1.0) -> Iterable[TrialRecord]:
        """The outcomes of the trials run now, one at a time, with their limits multiplied."""

    def machine_mismatch(self) -> str:
        """Why times cannot be compared with the baseline's; empty where they can."""


@dataclass(frozen=True)
class Options:
    """What a gate is asked to do.

    Parameters
    ----------
    seed : run on fresh data of this seed, where nothing is paired; None for the baseline's own.
    extend : most replicates to take from the baseline's reserve for rows that are undecided, or
        on fresh data alike with a larger error.
    time : compare times.
    margin, level : see `ope_bench.gate.judging.Rules`.
    """

    seed: int | None = None
    extend: int = 0
    time: bool = True
    margin: float = 0.02
    level: float = 0.01


@dataclass(frozen=True)
class GateReport:
    """What a gate found.

    Parameters
    ----------
    judgements : one a row.
    planned : trials of the baseline's suite.
    outcomes : how many of them have an outcome.
    times : seconds, advisory.
    notices : lines that the user should read.
    fresh : on other data than the baseline's.
    """

    judgements: tuple[Judgement, ...]
    planned: int
    outcomes: int
    times: TimeReport = field(default_factory=TimeReport)
    notices: tuple[str, ...] = ()
    fresh: bool = False

    @property
    def verdicts(self) -> Counter[Verdict]:
        """How many rows have each verdict."""
        return Counter(judgement.verdict for judgement in self.judgements)

    def exit_code(self, *, gate_time: bool = False) -> tuple[int, str]:
        """0 clean, 1 regression, 4 nothing or less than planned ran; and the reason."""
        verdicts = self.verdicts
        compared = [one for one in self.judgements if one.verdict is not Verdict.INCOMPARABLE]
        missing = self.planned - self.outcomes
        if self.planned == 0:
            return 4, "the baseline holds no trial to run"
        if missing or verdicts[Verdict.MISSING]:
            return 4, f"{missing} of {self.planned} planned trials have no outcome"
        bad = verdicts[Verdict.WORSE] + verdicts[Verdict.FAILED]
        if bad:
            return 1, f"{bad} of {len(self.judgements)} rows are worse or fail"
        if not compared:
            return 4, "no row could be compared; accept a new baseline"
        if gate_time and self.times.slower:
            return 1, "slower (--gate-time)"
        if gate_time and self.times.notice:
            return 4, f"times could not be compared: {self.times.notice}"
        open_rows = verdicts[Verdict.UNDECIDED]
        if open_rows:
            return 0, f"no regression shown; {open_rows} rows undecided"
        beyond = " beyond what chance explains on fresh data" if self.fresh else ""
        return 0, f"no regression{beyond} in {len(compared)} rows"


def run_gate(baseline: Baseline, bench: Bench, options: Options | None = None) -> GateReport:
    """Run a baseline's trials again and judge every row.

    Parameters
    ----------
    baseline : what was accepted.
    bench : where trials run.
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
    rules = Rules(options.margin, options.level, 2 if options.extend else 1, fresh)
    truth = baseline.suite.truth
    planned = _planned(rows)
    lost = sum(len(row.pairs) for row in rows if row.gone)
    outcomes = {record.key: record for record in bench.run(planned)}
    notices += _second_chance(rows, outcomes, bench)
    finished = [completed(row, outcomes) for row in rows]
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
    have = sum(trial.key in outcomes for trial in planned)
    return GateReport(tuple(judgements), len(planned) + lost, have, times, tuple(notices), fresh)


TIMES_ARE_PAIRED = "times compare on the baseline's own data only, without --seed"
FRESH = (
    "seed {seed} gives other data than the baseline's: nothing is paired, so only large changes "
    "show, and no row can be the same; without --seed much smaller ones do"
)


def _planned(rows: Iterable[PairedRow]) -> list[Trial]:
    """The trials to run, those on the same data together; none of rows beyond comparison."""
    trials = [
        pair.trial
        for row in rows
        if not row.incomparable
        for pair in row.pairs
        if pair.trial is not None
    ]
    place = {key: i for i, key in enumerate(dict.fromkeys(trial.group for trial in trials))}
    return sorted(trials, key=lambda trial: place[trial.group])


LIMITED = (Status.TIMEOUT, Status.MEMORY)


def _second_chance(
    rows: Iterable[PairedRow], outcomes: dict[str, TrialRecord], bench: Bench
) -> list[str]:
    """Run new timeouts and memory failures alone with doubled limits: the machine may be busy."""
    suspects = [
        pair.trial
        for row in rows
        for pair in row.pairs
        if pair.trial is not None
        and (found := outcomes.get(pair.trial.key)) is not None
        and found.status in LIMITED
        and pair.before.status not in LIMITED
    ]
    if not suspects:
        return []
    notices = []
    for record in bench.alone(suspects, limits=2.0):
        was = outcomes[record.key].status
        outcomes[record.key] = record
        if record.status not in LIMITED:
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
    bench: Bench,
    extend: int,
    margin: float,
) -> tuple[list[PairedRow], list[str]]:
    """Open rows with more replicates, as far as the baseline has them in reserve."""
    notices: list[str] = []
    chosen: dict[int, PairedRow] = {}
    for index, (row, judged) in enumerate(zip(rows, judgements, strict=True)):
        larger = judged.verdict is Verdict.ALIKE and (judged.ratio or 0) > 1 + margin
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
        completed(chosen[index], outcomes) if index in chosen else row
        for index, row in enumerate(rows)
    ], notices


def _times(rows: Sequence[PairedRow], bench: Bench) -> TimeReport:
    mismatch = bench.machine_mismatch()
    if mismatch:
        return TimeReport(notice=mismatch)
    return compare_times(rows, bench.alone)
