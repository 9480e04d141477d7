"""Errors and coverage of candidates on made worlds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ope_bench.boards.aggregation import ReplicateFacts, aggregate
from ope_bench.logs.advice.likeness import UNITS, WEIGHT_DISTANCE
from ope_bench.logs.advice.worlds import World
from ope_bench.logs.estimation import interval_of
from ope_bench.plugins.spec import PluginSpec
from ope_bench.trials.outcomes import Outcomes
from ope_bench.trials.record import Trial, TrialRecord

__all__ = [
    "CandidateFigures",
    "WorldFigures",
    "candidate_figures",
    "plan_trials",
    "world_figures",
    "worlds_of_errors",
]

LEVEL = 0.95

SUB_SAMPLES = "resample"
"""The maker whose worlds tell who is better, and not how wrong an estimate of the log is."""


@dataclass(frozen=True, kw_only=True)
class WorldFigures:
    """Candidates on one world.

    Parameters
    ----------
    name, maker : of the world.
    likeness : area under the curve of a classifier of its rows and the log's; None if unknown.
    weight_distance : between the distributions of the weights; None if unknown.
    replicates : data sets on which every candidate ran.
    rmse : root mean squared error by candidate; failures count with the logging average's error,
        and the standard error of an estimated truth is added.
    held, intervals : by candidate, intervals that held the truth, and intervals.
    message : why there is no replicate.
    """

    name: str
    maker: str
    likeness: float | None
    weight_distance: float | None
    replicates: int
    rmse: Mapping[str, float]
    held: Mapping[str, int]
    intervals: Mapping[str, int]
    message: str = ""

    @property
    def best(self) -> str | None:
        """The candidate with the least error."""
        return min(self.rmse, key=lambda label: self.rmse[label]) if self.rmse else None


@dataclass(frozen=True, kw_only=True)
class CandidateFigures:
    """One candidate over all worlds; None where there is no world.

    Parameters
    ----------
    rmse : root of the mean of its squared error over `worlds_of_errors`.
    rank : its place by that.
    worlds_best : worlds on which it has the least error.
    worst_ratio : largest error over that of the best candidate of the same world.
    worst_world : where.
    coverage : share of its intervals that held the truth, over the worlds of ``rmse``.
    """

    rmse: float | None = None
    rank: int | None = None
    worlds_best: int = 0
    worst_ratio: float | None = None
    worst_world: str | None = None
    coverage: float | None = None


def plan_trials(
    worlds: Sequence[World],
    candidates: Sequence[PluginSpec],
    likeness: PluginSpec,
    replicates: int,
) -> list[Trial]:
    """Return all trials, replicate by replicate, so that an early end leaves whole replicates.

    Parameters
    ----------
    worlds, candidates : to be crossed.
    likeness : run once on each world.
    replicates : of each world.
    """
    trials = []
    for replicate in range(replicates):
        for world in worlds:
            specs = [*candidates, *([likeness] if replicate == 0 else [])]
            trials += [Trial(world.spec, spec, replicate) for spec in specs]
    return trials


def world_figures(
    worlds: Sequence[World],
    candidates: Mapping[str, PluginSpec],
    records: Mapping[str, TrialRecord],
    replicates: int,
    likeness: PluginSpec,
) -> list[WorldFigures]:
    """Compute the figures of each world, over the replicates that all candidates ended.

    Parameters
    ----------
    candidates : by label.
    records : by trial key.
    """
    return [_figures(world, candidates, records, replicates, likeness) for world in worlds]


def _figures(
    world: World,
    candidates: Mapping[str, PluginSpec],
    records: Mapping[str, TrialRecord],
    replicates: int,
    likeness: PluginSpec,
) -> WorldFigures:
    found: dict[str, list[TrialRecord]] = {label: [] for label in candidates}
    message = ""
    for replicate in range(replicates):
        group = {
            label: record
            for label, spec in candidates.items()
            if (record := records.get(Trial(world.spec, spec, replicate).key)) is not None
        }
        known = any(record.truth_expected is not None for record in group.values())
        if len(group) == len(candidates) and known:
            for label, record in group.items():
                found[label].append(record)
        elif group and not known:
            message = next(iter(group.values())).error_message or ""
    outcomes = Outcomes.of([one for group in found.values() for one in group])
    facts = ReplicateFacts.of(outcomes, "expected")
    rmse: dict[str, float] = {}
    for label, own in found.items():
        statistics = aggregate(Outcomes.of(own), facts)
        errors = np.fromiter(statistics.imputed.values(), np.float64)
        if len(errors):
            rmse[label] = float(np.sqrt(np.square(errors).mean() + _truth_variance(own)))
    alike = records.get(Trial(world.spec, likeness, 0).key)
    distance, units = (
        alike.diagnostics.get(name) if alike else None for name in (WEIGHT_DISTANCE, UNITS)
    )
    held = {
        label: _held(group, None if units is None else int(units))
        for label, group in found.items()
    }
    return WorldFigures(
        name=world.name,
        maker=world.maker,
        likeness=alike.estimate if alike else None,
        weight_distance=None if distance is None else float(distance),
        replicates=min(map(len, found.values()), default=0),
        rmse=rmse,
        held={label: hits for label, (hits, _) in held.items()},
        intervals={label: of for label, (_, of) in held.items()},
        message=message,
    )


def _truth_variance(records: Sequence[TrialRecord]) -> float:
    """Return the mean squared standard error of the truth, which adds to every error."""
    known = [one.truth_expected_se for one in records if one.truth_expected_se is not None]
    return float(np.square(known).mean()) if known else 0.0


def _held(records: Sequence[TrialRecord], units: int | None) -> tuple[int, int]:
    """Return how many intervals held the truth, of how many; they are those of `estimate_row`."""
    hits = of = 0
    for record in records:
        low, high = interval_of(record, LEVEL, "asymptotic", units)
        truth = record.truth_expected
        if low is None or high is None or truth is None:
            continue
        of += 1
        hits += low <= truth <= high
    return hits, of


def candidate_figures(
    worlds: Sequence[WorldFigures], labels: Sequence[str]
) -> dict[str, CandidateFigures]:
    """Compute the figures of each candidate over the worlds that have replicates."""
    usable = [world for world in worlds if set(labels) <= world.rmse.keys()]
    if not usable:
        return {label: CandidateFigures() for label in labels}
    whole = worlds_of_errors(usable)
    rmse = {
        label: math.sqrt(sum(world.rmse[label] ** 2 for world in whole) / len(whole))
        for label in labels
    }
    order = sorted(labels, key=lambda label: rmse[label])
    found = {}
    for label in labels:
        ratios = [(_ratio(world, label), world.name) for world in usable]
        worst, where = max(ratios)
        of = sum(world.intervals[label] for world in whole)
        found[label] = CandidateFigures(
            rmse=rmse[label],
            rank=order.index(label) + 1,
            worlds_best=sum(world.best == label for world in usable),
            worst_ratio=worst,
            worst_world=where,
            coverage=sum(world.held[label] for world in whole) / of if of else None,
        )
    return found


def worlds_of_errors(worlds: Sequence[WorldFigures]) -> list[WorldFigures]:
    """Return the worlds that tell errors and coverage: all but sub-samples, if there are others.

    Sub-samples have fewer rows than the log, and a truth with errors of its own.
    """
    return [world for world in worlds if world.maker != SUB_SAMPLES] or list(worlds)


def _ratio(world: WorldFigures, label: str) -> float:
    best = min(world.rmse.values())
    if best > 0:
        return world.rmse[label] / best
    return 1.0 if world.rmse[label] == best else math.inf
