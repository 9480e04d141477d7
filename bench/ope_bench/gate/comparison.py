"""Compare two stores or baselines, one environment setting after another.

Of the settings read before, only the errors of each row are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from operator import itemgetter
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
from ope_bench.trials.record import TrialRecord

__all__ = ["Comparison", "compare"]

LEVEL = 0.025
"""Level of either side: together 5 %, over all rows that differ."""


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
    settings : the places of each setting's trials, by the setting's identity.
    read : returns the truth and the record at each place.
    """

    truths: Sequence[TruthKind]
    settings: Mapping[str, Sequence[int]]
    read: Callable[[Sequence[int]], Iterable[tuple[int, TruthKind, TrialRecord]]]

    def trials(self, setting: str) -> dict[TruthKind, dict[str, tuple[int, TrialRecord]]]:
        """Return place and record of a setting's trials by key, for each kind of truth."""
        found: dict[TruthKind, dict[str, tuple[int, TrialRecord]]]
        found = {truth: {} for truth in self.truths}
        for place, truth, record in self.read(self.settings.get(setting, ())):
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
        for setting in dict.fromkeys([*before.settings, *after.settings]):
            ours = before.trials(setting)
            # Of a key under two truths, the record of the last counts.
            others = {
                key: record
                for trials in after.trials(setting).values()
                for key, (_, record) in trials.items()
            }
            for truth, trials in ours.items():
                cases[truth] += _screened(trials, others, truth, rules)
            known = {key for trials in ours.values() for key in trials}
            pairs += len(known & others.keys())
            only_a += len(known - others.keys())
            only_b += len(others.keys() - known)
    if not pairs:
        msg = f"{a} and {b} have no trial in common: nothing can be compared"
        raise UsageError(msg)
    judgements = [
        judgement
        for truth, rows in cases.items()
        for judgement in decide([case for _, case in sorted(rows, key=itemgetter(0))], rules)
    ]
    return Comparison(judgements, pairs, only_a, only_b)


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
        settings: dict[str, list[int]] = {}
        for place, record in enumerate(records):
            settings.setdefault(record.trial.environment.identity_json, []).append(place)
        return _Side(
            (truth,), settings, lambda places: ((one, truth, records[one]) for one in places)
        )
    selection = opened.enter_context(Store.open(path)).selection()
    return _Side(
        selection.truths,
        selection.by_setting(),
        lambda places: (
            (place, one.run.truth, one.record) for place, one in selection.results_at(places)
        ),
    )
