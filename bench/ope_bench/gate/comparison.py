"""Compare two stores or baselines, one estimator on one environment setting after another.

Of the rows read before, only the errors are kept.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ope_bench.base.errors import UsageError
from ope_bench.base.files import gc_disabled
from ope_bench.contracts.data import TruthKind
from ope_bench.execution.machine import same_arithmetic
from ope_bench.gate.baseline import is_baseline, load
from ope_bench.gate.pairing import pair_records
from ope_bench.gate.verdict import Judgement, RowCase, Rules, decide, screen
from ope_bench.store import Store
from ope_bench.trials.record import ANSWER_FIELDS, TrialRecord

LEVEL = 0.025
"""Level of either side: together 5 %, over all rows that differ."""

COMPARED = (
    *ANSWER_FIELDS,
    *("truth_expected", "truth_empirical", "logging_average", "error_type"),
)
"""The columns of records that `ope_bench.gate.verdict` reads."""


@dataclass(frozen=True)
class Comparison:
    """The verdicts on the rows of two stores or baselines.

    Parameters
    ----------
    judgements : one per row, without the trials behind it.
    pairs : number of trials that both have.
    only_a, only_b : number of trials that only one of them has.
    same_arithmetic : whether numbers were compared bit by bit, else up to rounding.
    """

    judgements: Sequence[Judgement]
    pairs: int
    only_a: int
    only_b: int
    same_arithmetic: bool


@dataclass(frozen=True)
class _Side:
    """A store or a baseline.

    Parameters
    ----------
    truths : kinds of truth, in the order of their first trials.
    machines : facts of the machines of its runs.
    rows : the places of each row's trials, by the identities of setting and estimator.
    read : returns the truth and the record at each place.
    """

    truths: Sequence[TruthKind]
    machines: Sequence[Mapping[str, Any]]
    rows: Mapping[tuple[str, str], Sequence[int]]
    read: Callable[[Sequence[int]], Iterable[tuple[int, TruthKind, TrialRecord]]]

    def trials(self, row: tuple[str, str]) -> dict[TruthKind, dict[str, tuple[int, TrialRecord]]]:
        """Return place and record of a row's trials by key, for each kind of truth."""
        found: dict[TruthKind, dict[str, tuple[int, TrialRecord]]]
        found = {truth: {} for truth in self.truths}
        for place, truth, record in self.read(self.rows.get(row, ())):
            found[truth][record.key] = place, record
        return found


def compare(a: Path, b: Path) -> Comparison:
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
    return Comparison(judgements, pairs, only_a, only_b, same)


def _side(path: Path, opened: ExitStack) -> _Side:
    if is_baseline(path):
        baseline = load(path)
        truth, records = baseline.suite.truth, baseline.records
        rows: dict[tuple[str, str], list[int]] = {}
        for place, record in enumerate(records):
            specs = record.trial.environment, record.trial.estimator
            rows.setdefault((specs[0].identity_json, specs[1].identity_json), []).append(place)
        return _Side(
            (truth,),
            (baseline.machine,),
            rows,
            lambda places: ((one, truth, records[one]) for one in places),
        )
    store = opened.enter_context(Store.open(path))
    reader = store.reader()
    return _Side(
        reader.truths,
        tuple(run.machine for run in store.runs()),
        reader.by_row(),
        lambda places: (
            (place, one.run.truth, one.record) for place, one in reader.results(places, COMPARED)
        ),
    )
