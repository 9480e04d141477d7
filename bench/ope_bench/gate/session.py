"""Run a gate: run trials, repeat those that hit a limit, and judge."""

from __future__ import annotations

import contextlib
import operator
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any

from ope_bench.base.errors import UsageError
from ope_bench.base.exit_codes import CLEAN, EMPTY, REGRESSION
from ope_bench.base.files import gc_disabled
from ope_bench.boards.tracks import SettingAnswers, rule, settings_of
from ope_bench.contracts.data import TruthKind
from ope_bench.execution import Executor, Finished, Reused, RunEvent
from ope_bench.execution.machine import same_arithmetic
from ope_bench.execution.runner import RunCounts, interruptible, run
from ope_bench.gate.baseline import (
    Baseline,
    is_baseline,
    load,
    pair_records,
    paired_rows,
    with_outcomes,
)
from ope_bench.gate.track_changes import TrackChange, track_changes
from ope_bench.gate.verdict import Judgement, RowCase, Rules, Verdict, decide, judge, screen
from ope_bench.outcomes import Outcomes
from ope_bench.store import Store
from ope_bench.trials.record import ANSWER_FIELDS, Trial, TrialRecord


@dataclass(frozen=True, kw_only=True)
class GateReport:
    """The result of a gate.

    Parameters
    ----------
    judgements : one per row.
    planned : trials of the baseline's suite.
    outcomes : number of planned trials that have an outcome.
    asked, executed, reused : number of trials that could be planned; how many of them this gate
        ran, and for how many it used stored outcomes.
    notices : lines for the user.
    tracks : changes on the leaderboard of the baseline's trials.
    """

    judgements: tuple[Judgement, ...]
    planned: int
    outcomes: int
    asked: int = 0
    executed: int = 0
    reused: int = 0
    notices: tuple[str, ...] = ()
    tracks: tuple[TrackChange, ...] = ()

    @property
    def verdicts(self) -> Counter[Verdict]:
        """Number of rows by verdict."""
        return Counter(judgement.verdict for judgement in self.judgements)

    @property
    def trials_run(self) -> str:
        """Return how many of the outcomes are new: ``3 of 8 trials run, 5 reused``."""
        reused = f", {self.reused} reused" if self.reused else ""
        return f"{self.executed} of {self.asked} trial{'s' * (self.asked != 1)} run{reused}"

    def exit_code(self) -> tuple[int, str]:
        """Return the exit code (0 clean, 1 regression, 4 trials missing) and its reason."""
        verdicts = self.verdicts
        compared = [one for one in self.judgements if one.verdict is not Verdict.INCOMPARABLE]
        missing = self.planned - self.outcomes
        if self.planned == 0:
            return EMPTY, "the baseline holds no trial to run"
        if missing or verdicts[Verdict.MISSING]:
            return EMPTY, f"{missing} of {self.planned} planned trials have no outcome"
        failing = verdicts[Verdict.WORSE] + verdicts[Verdict.FAILED]
        if failing:
            return REGRESSION, f"{failing} of {len(self.judgements)} rows are worse or fail"
        if not compared:
            return EMPTY, "no row could be compared; accept a new baseline"
        undecided = verdicts[Verdict.UNDECIDED]
        if undecided:
            return CLEAN, f"no regression shown; {undecided} rows undecided"
        return CLEAN, f"no regression in {len(compared)} rows"


def run_gate(baseline: Baseline, source: StoreTrials, rules: Rules | None = None) -> GateReport:
    """Run a baseline's trials again and judge every row.

    Parameters
    ----------
    baseline : the accepted numbers.
    source : runs the trials.
    rules : margin and level.
    """
    rows = paired_rows(baseline)
    notices = list(dict.fromkeys(note for row in rows for note in row.notes))
    planned = [
        pair.trial
        for row in rows
        if not row.incomparable
        for pair in row.pairs
        if pair.trial is not None
    ]
    # Trials on the same data run one after the other, so that they share its fits.
    order = {key: i for i, key in enumerate(dict.fromkeys(trial.group for trial in planned))}
    planned.sort(key=lambda trial: order[trial.group])
    lost = sum(len(row.pairs) for row in rows if row.gone)
    outcomes = {record.key: record for record in source.run(planned)}
    # New timeouts and memory failures get a second chance alone, with doubled limits.
    suspects = [
        pair.trial
        for row in rows
        for pair in row.pairs
        if pair.trial is not None
        and (outcome := outcomes.get(pair.trial.key)) is not None
        and outcome.status.limit
        and not pair.before.status.limit
    ]
    for record in source.alone(suspects, limits=2.0) if suspects else ():
        was = outcomes[record.key].status
        outcomes[record.key] = record
        if not record.status.limit:
            trial = record.trial
            notices.append(
                f"{trial.environment.id} / {trial.estimator.id}, replicate {trial.replicate}: "
                f"{was}, but {record.status} alone with doubled limits"
            )
    rows = [with_outcomes(row, outcomes) for row in rows]
    found = sum(trial.key in outcomes for trial in planned)
    pairs = [(x.before, x.after) for row in rows for x in row.pairs if x.after is not None]
    sides = [one for one, _ in pairs], [replace(x, trial=one.trial) for one, x in pairs]
    return GateReport(
        judgements=tuple(judge(rows, baseline.suite.truth, rules)),
        planned=len(planned) + lost,
        outcomes=found,
        asked=len(planned),
        executed=found - source.reused,
        reused=source.reused,
        notices=tuple(notices),
        tracks=track_changes(*(settings_of([Outcomes.by_setting(one)]) for one in sides)),
    )


# Run a gate's trials through the runner, into a store.


@dataclass(eq=False)
class StoreTrials:
    """Runs trials into a store.

    A stored outcome does not show the effect of a changed environment variable, data file or C
    library, which no code digest covers. So stored outcomes are reused only on request.

    Parameters
    ----------
    baseline : gives the limits of a trial.
    store : a store open for writing.
    executor_of : makes an executor of ``timeout`` (seconds) and ``memory`` (bytes).
    machine : facts of this machine, see `machine_facts`.
    watch : given the trials of a run, returns what is called with every event.
    reuse : use stored outcomes of the current code instead of running their trials.

    Attributes
    ----------
    unfinished : number of trials of the current or last run without an outcome; None before any
        run.
    reused : number of stored outcomes used so far.
    """

    baseline: Baseline
    store: Store
    executor_of: Callable[..., Executor]
    machine: Mapping[str, Any]
    watch: Callable[[Sequence[Trial]], Callable[[RunEvent], None]]
    _: KW_ONLY
    reuse: bool = False
    unfinished: int | None = field(default=None, init=False)
    reused: int = field(default=0, init=False)

    def run(self, trials: Sequence[Trial]) -> Iterator[TrialRecord]:
        """Run the trials and yield their outcomes."""
        if not trials:
            return
        suite = self.baseline.suite
        outcome = RunCounts(planned=len(trials))
        self.unfinished, watch = len(trials), self.watch(trials)
        executor = self.executor_of(timeout=suite.timeout, memory=suite.memory)
        run_id = self.store.begin_run(
            suite=suite.name,
            truth=suite.truth,
            command=shlex.join(["ope-bench", *sys.argv[1:]]),
            planned=len(trials),
            machine=self.machine,
        )
        try:
            for event in run(
                trials,
                store=self.store,
                run_id=run_id,
                executor=executor,
                outcome=outcome,
                retry=None if self.reuse else "all",
                rerun_hint="without --reuse they run again",
            ):
                watch(event)
                self.unfinished = len(trials) - outcome.reused - outcome.executed
                self.reused += isinstance(event, Reused)
                if isinstance(event, Finished | Reused):
                    yield event.record
        finally:
            executor.close()
            self.store.end_run(run_id, outcome.exit_code(allow_failures=True))
        if outcome.interrupted:
            raise KeyboardInterrupt

    def alone(self, trials: Sequence[Trial], *, limits: float) -> Iterable[TrialRecord]:
        """Run the trials now, one at a time, with their limits multiplied by `limits`.

        The outcomes are not stored: a repetition is not a planned trial.
        """
        suite = self.baseline.suite
        executor = self.executor_of(
            timeout=None if suite.timeout is None else suite.timeout * limits,
            memory=None if suite.memory is None else int(suite.memory * limits),
        )
        outcome = RunCounts(planned=len(trials))
        with contextlib.closing(executor), interruptible(executor, outcome, at_once=True):
            records = [
                event.record
                for event in executor.run(trials, exclusive=True)
                if isinstance(event, Finished)
            ]
        if outcome.interrupted:
            raise KeyboardInterrupt
        return records


# Compare two stores or baselines, one setting after another; of what is read, errors are kept.

LEVEL = 0.025
"""Level of either side: together 5 %, over all rows that differ."""

COMPARED = (
    *ANSWER_FIELDS,
    *("truth_expected", "truth_empirical", "logging_average", "error_type"),
)
"""The columns of records that `ope_bench.gate.verdict` reads."""


@dataclass(frozen=True)
class StoreComparison:
    """The verdicts on the rows of two stores or baselines.

    Parameters
    ----------
    judgements : one per row, without the trials behind it.
    pairs : number of trials that both have.
    only_a, only_b : number of trials that only one of them has.
    same_arithmetic : whether numbers were compared bit by bit, else up to rounding.
    tracks : changes on the leaderboard of each side's trials.
    """

    judgements: Sequence[Judgement]
    pairs: int
    only_a: int
    only_b: int
    same_arithmetic: bool
    tracks: tuple[TrackChange, ...] = ()


@dataclass(frozen=True)
class _Compared:
    """A store or a baseline.

    Parameters
    ----------
    truths : kinds of truth, in the order of their first trials.
    machines : facts of the machines of its runs.
    rows : the places of each row's trials, by the identities of setting and estimator.
    read : returns the truth and the record at each place.
    outcomes : returns the outcomes of each setting.
    """

    truths: Sequence[TruthKind]
    machines: Sequence[Mapping[str, Any]]
    rows: Mapping[tuple[str, str], Sequence[int]]
    read: Callable[[Sequence[int]], Iterable[tuple[int, TruthKind, TrialRecord]]]
    outcomes: Callable[[], Iterator[Outcomes]]

    @property
    def settings(self) -> list[SettingAnswers]:
        """The settings of the leaderboard."""
        fallback = any(f'"{rule().fallback}"' in estimator for _, estimator in self.rows)
        return settings_of([self.outcomes()]) if fallback else []

    def trials(self, row: tuple[str, str]) -> dict[TruthKind, dict[str, tuple[int, TrialRecord]]]:
        """Return place and record of a row's trials by key, for each kind of truth."""
        found: dict[TruthKind, dict[str, tuple[int, TrialRecord]]]
        found = {truth: {} for truth in self.truths}
        for place, truth, record in self.read(self.rows.get(row, ())):
            found[truth][record.key] = place, record
        return found


def compare(a: Path, b: Path) -> StoreComparison:
    """Pair the trials of two stores or baselines by key, and judge every row.

    Raises
    ------
    UsageError : they have no trial in common.
    """
    pairs = only_a = only_b = 0
    with gc_disabled(), ExitStack() as opened:
        before, after = _side(a, opened), _side(b, opened)
        same = same_arithmetic(*before.machines, *after.machines)
        rules = Rules(margin=0.0, level=LEVEL, symmetric=True, same_arithmetic=same)
        cases: dict[TruthKind, list[tuple[int, RowCase]]]
        cases = {truth: [] for truth in before.truths}
        for row in dict.fromkeys([*before.rows, *after.rows]):
            ours = before.trials(row)
            # Of a key under two truths, the record of the last counts.
            others = {
                key: record
                for trials in after.trials(row).values()
                for key, (_, record) in trials.items()
            }
            for truth, trials in ours.items():
                for paired in pair_records([record for _, record in trials.values()], others):
                    case = screen(paired, truth, rules)
                    # The records are not kept: a store may hold millions.
                    case.judgement = replace(case.judgement, row=replace(paired, pairs=()))
                    first = min(trials[pair.before.key][0] for pair in paired.pairs)
                    cases[truth].append((first, case))
            known = {key for trials in ours.values() for key in trials}
            shared = len(known & others.keys())
            pairs += shared
            only_a += len(known) - shared
            only_b += len(others) - shared
        tracks = track_changes(before.settings, after.settings)
    if not pairs:
        msg = f"{a} and {b} have no trial in common: nothing can be compared"
        raise UsageError(msg)
    judgements = [
        judgement
        for truth, rows in cases.items()
        for judgement in decide(
            [case for _, case in sorted(rows, key=operator.itemgetter(0))], rules
        )
    ]
    return StoreComparison(judgements, pairs, only_a, only_b, same, tracks)


def _side(path: Path, opened: ExitStack) -> _Compared:
    if is_baseline(path):
        baseline = load(path)
        truth, records = baseline.suite.truth, baseline.records
        rows: dict[tuple[str, str], list[int]] = {}
        for place, record in enumerate(records):
            specs = record.trial.environment, record.trial.estimator
            rows.setdefault((specs[0].identity_json, specs[1].identity_json), []).append(place)
        return _Compared(
            (truth,),
            (baseline.machine,),
            rows,
            lambda places: ((one, truth, records[one]) for one in places),
            lambda: Outcomes.by_setting(records),
        )
    store = opened.enter_context(Store.open(path))
    reader = store.reader(one_code=True)
    return _Compared(
        reader.truths,
        tuple(run.machine for run in store.runs()),
        reader.by_row(),
        lambda places: (
            (place, one.run.truth, one.record) for place, one in reader.results(places, COMPARED)
        ),
        reader.outcomes,
    )
