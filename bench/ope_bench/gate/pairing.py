"""A baseline's records, and the trials that ask the same of today's code."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ope_bench.baseline import Baseline
from ope_bench.errors import UsageError
from ope_bench.records import PluginSpec, Trial, TrialRecord
from ope_bench.resolve import resolve
from ope_bench.seeding import canonical_json

__all__ = ["Pair", "PairedRow", "completed", "matched", "paired_rows"]


@dataclass(frozen=True)
class Pair:
    """One replicate then and now.

    Parameters
    ----------
    before : the baseline's record.
    trial : that asks the same now; None where it cannot be asked any more.
    after : its outcome; None where there is none.
    """

    before: TrialRecord
    trial: Trial | None
    after: TrialRecord | None = None


@dataclass(frozen=True)
class PairedRow:
    """One estimator on one setting, then and now.

    Parameters
    ----------
    environment, estimator : as the baseline has them.
    device : where it runs.
    pairs : that a gate runs, ordered by replicate.
    reserve : further replicates of the baseline, for a row that stays undecided.
    incomparable : why nothing can be compared; empty where it can.
    gone : why the trials cannot be planned any more; empty where they can.
    notes : what else changed in what is asked.
    """

    environment: PluginSpec
    estimator: PluginSpec
    device: str
    pairs: tuple[Pair, ...]
    reserve: tuple[Pair, ...] = ()
    incomparable: str = ""
    gone: str = ""
    notes: tuple[str, ...] = ()


def paired_rows(baseline: Baseline, *, seed: int | None = None) -> list[PairedRow]:
    """The rows that a gate runs, with today's specs in their trials.

    Specs are resolved anew, so that a parameter that has come with a default since is no reason
    to lose a row.

    Parameters
    ----------
    baseline : what was.
    seed : run on this seed's data instead of the baseline's; what stands in a pair has then
        nothing but the replicate's number in common.
    """
    now = _Resolver()
    groups: dict[str, list[TrialRecord]] = {}
    for record in baseline.records:
        trial = record.trial
        what = [trial.environment.identity, trial.estimator.identity, trial.device, trial.threads]
        groups.setdefault(canonical_json(what), []).append(record)
    rows = []
    for records in groups.values():
        records.sort(key=lambda record: (record.trial.seed, record.trial.replicate))
        rows.append(_row(records, baseline.suite.replicates, seed, now))
    return rows


def _row(
    records: list[TrialRecord], replicates: int, seed: int | None, now: _Resolver
) -> PairedRow:
    first = records[0].trial
    environment, lost_environment = now.spec(first.environment)
    estimator, lost_estimator = now.spec(first.estimator)
    gone = lost_environment or lost_estimator
    incomparable = ""
    notes = [*_added(first.environment, environment), *_added(first.estimator, estimator)]
    if environment is not None and environment.version != first.environment.version:
        incomparable = (
            f"{environment.id} is now version {environment.version}, the baseline has "
            f"{first.environment.version}"
        )
    elif seed not in (None, first.seed) and first.environment.worlds == "fixed":
        incomparable = f"its one world is drawn anew for seed {seed}: errors there compare nothing"
    pairs = [
        Pair(record, _again(record.trial, environment, estimator, seed)) for record in records
    ]
    return PairedRow(
        first.environment,
        first.estimator,
        first.device,
        tuple(pair for pair in pairs if pair.before.trial.replicate < replicates),
        tuple(pair for pair in pairs if pair.before.trial.replicate >= replicates),
        incomparable,
        gone,
        tuple(notes),
    )


def _again(
    trial: Trial, environment: PluginSpec | None, estimator: PluginSpec | None, seed: int | None
) -> Trial | None:
    if environment is None or estimator is None:
        return None
    return replace(
        trial,
        environment=environment,
        estimator=estimator,
        seed=trial.seed if seed is None else seed,
    )


def _added(before: PluginSpec, now: PluginSpec | None) -> list[str]:
    if now is None:
        return []
    return [
        f"{now.id} has a new parameter {name}={value!r}"
        for name, value in now.params.items()
        if name not in before.params
    ]


class _Resolver:
    """Resolves each spec once."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[PluginSpec | None, str]] = {}

    def spec(self, before: PluginSpec) -> tuple[PluginSpec | None, str]:
        """Today's spec, or None and why there is none."""
        name = before.kind + before.reference + canonical_json(before.identity)
        if name not in self._known:
            params: dict[str, Any] = dict(before.params)
            if before.kind == "environment":
                params["worlds"] = before.worlds
            try:
                found = resolve(before.kind, before.reference, params, label=before.label)
                self._known[name] = found, ""
            except UsageError as exc:
                self._known[name] = None, str(exc)
        return self._known[name]


def matched(
    before: Iterable[TrialRecord], after: Mapping[str, TrialRecord]
) -> tuple[list[PairedRow], int]:
    """Rows of two sets of records that answer the same keys, and how many had no partner.

    Parameters
    ----------
    before : one set.
    after : the other, by key.
    """
    groups: dict[str, list[Pair]] = {}
    alone = 0
    for record in before:
        partner = after.get(record.key)
        if partner is None:
            alone += 1
            continue
        trial = record.trial
        what = [trial.environment.identity, trial.estimator.identity, trial.device, trial.threads]
        groups.setdefault(canonical_json(what), []).append(Pair(record, partner.trial, partner))
    rows = []
    for pairs in groups.values():
        pairs.sort(key=operator.attrgetter("before.trial.seed", "before.trial.replicate"))
        first = pairs[0].before.trial
        rows.append(PairedRow(first.environment, first.estimator, first.device, tuple(pairs)))
    return rows, alone


def completed(row: PairedRow, outcomes: Mapping[str, TrialRecord]) -> PairedRow:
    """The row with the outcomes that are known, by key."""

    def filled(pair: Pair) -> Pair:
        return replace(pair, after=outcomes.get(pair.trial.key) if pair.trial else None)

    return replace(
        row, pairs=tuple(map(filled, row.pairs)), reserve=tuple(map(filled, row.reserve))
    )
