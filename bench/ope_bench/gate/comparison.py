"""Compare two stores or baselines, one estimator on one environment setting after another.

Of the rows read before, only the errors are kept.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from ope_bench.contracts.data import TruthKind
from ope_bench.errors import UsageError
from ope_bench.garbage import gc_disabled
from ope_bench.gate.baseline import is_baseline, load
from ope_bench.gate.decision import decide
from ope_bench.gate.pairing import pair_records
from ope_bench.gate.screening import RowCase, screen
from ope_bench.gate.verdict import Judgement, Rules
from ope_bench.store import Store
from ope_bench.trials.record import ANSWER_FIELDS, TrialRecord

__all__ = ["Comparison", "compare"]

LEVEL = 0.025
"""Level of either side: together 5 %, over all rows that differ."""

COMPARED = (
    *ANSWER_FIELDS,
    *("truth_expected", "truth_empirical", "logging_average", "error_type"),
)
"""The columns of records that `ope_bench.gate.screening` reads."""


@dataclass(frozen=True)
class Comparison:
    """The verdicts on the rows of two stores or baselines.

    Parameters
    ----------
    judgements : one per row, without the trials behind it.
    pairs : number of trials that both have.
    only_a, only_b : number of trials that only one of them has.
    """

    judgements: Sequence[Judgement]
    pairs: int
    only_a: int
    only_b: int


@dataclass(frozen=True)
class _Side:
    """A store or a baseline.

    Parameters
    ----------
    truths : kinds of truth, in the order of their first trials.
    rows : the places of each row's trials, by the identities of setting and estimator.
    read : returns the truth and the record at each place.
    """

    truths: Sequence[TruthKind]
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
    rules = Rules(margin=0.0, level=LEVEL, symmetric=True)
    pairs = only_a = only_b = 0
    with gc_disabled(), ExitStack() as opened:
        before, after = _side(a, opened), _side(b, opened)
        cases: dict[TruthKind, list[tuple[int, RowCase]]]
        cases = {truth: [] for truth in before.truths}
        for row in dict.fromkeys([*before.rows, *after.rows]):
            found, *counts = _compared(before, after, row, rules)
            for truth, screened in found.items():
                cases[truth] += screened
            pairs, only_a, only_b = map(operator.add, (pairs, only_a, only_b), counts)
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
    return Comparison(judgements, pairs, only_a, only_b)


def _compared(
    before: _Side, after: _Side, row: tuple[str, str], rules: Rules
) -> tuple[dict[TruthKind, list[tuple[int, RowCase]]], int, int, int]:
    """Return a row's cases for each kind of truth, and the trials of both sides and of either."""
    ours = before.trials(row)
    # Of a key under two truths, the record of the last counts.
    others = {
        key: record for trials in after.trials(row).values() for key, (_, record) in trials.items()
    }
    cases = {truth: _screened(trials, others, truth, rules) for truth, trials in ours.items()}
    known = {key for trials in ours.values() for key in trials}
    shared = len(known & others.keys())
    return cases, shared, len(known) - shared, len(others) - shared


def _screened(
    trials: Mapping[str, tuple[int, TrialRecord]],
    others: Mapping[str, TrialRecord],
    truth: TruthKind,
    rules: Rules,
) -> list[tuple[int, RowCase]]:
    """Return each row with the place of its first pair; its records are not kept."""
    rows, _ = pair_records([record for _, record in trials.values()], others)
    found = []
    for row in rows:
        case = screen(row, truth, rules)
        case.judgement = replace(case.judgement, row=replace(row, pairs=()))
        found.append((min(trials[pair.before.key][0] for pair in row.pairs), case))
    return found


def _side(path: Path, opened: ExitStack) -> _Side:
    if is_baseline(path):
        baseline = load(path)
        truth, records = baseline.suite.truth, baseline.records
        rows: dict[tuple[str, str], list[int]] = {}
        for place, record in enumerate(records):
            specs = record.trial.environment, record.trial.estimator
            rows.setdefault((specs[0].identity_json, specs[1].identity_json), []).append(place)
        return _Side((truth,), rows, lambda places: ((one, truth, records[one]) for one in places))
    selection = opened.enter_context(Store.open(path)).selection()
    return _Side(
        selection.truths,
        selection.by_row(),
        lambda places: selection.parts_at(places, COMPARED),
    )
