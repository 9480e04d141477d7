"""Errors and coverage of candidates on made worlds, and the verdict on a log."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ope_bench.base.units import all_passed, counted
from ope_bench.boards.board import ReplicateFacts, aggregate
from ope_bench.logs.advice_worlds import UNITS, World
from ope_bench.logs.checks import effective_size_finding
from ope_bench.logs.estimation import interval_of
from ope_bench.logs.finding import Check, Finding
from ope_bench.logs.result import EstimateRow
from ope_bench.outcomes import Outcomes
from ope_bench.plugins.spec import PluginSpec
from ope_bench.trials.record import Trial, TrialRecord

LEVEL = 0.95

_SUB_SAMPLES = "resample"
"""The maker whose worlds tell who is better, and not how wrong an estimate of the log is."""

Verdict = Literal["trust", "caution", "run-an-experiment"]

LEAST_OVER_WEIGHT = 5.0
"""n / max weight from which one row does not decide the answer."""

HANDFUL = 10.0
"""Effective sample size below which differences of estimators have no error that can be known."""


@dataclass(frozen=True, kw_only=True)
class WorldFigures:
    """Candidates on one world.

    Parameters
    ----------
    name, maker : of the world.
    likeness : area under the curve of a classifier of its rows and the log's; None if unknown.
    replicates : data sets on which every candidate ran.
    rmse : root mean squared error by candidate; failures count with the logging average's error,
        and the standard error of an estimated truth is added.
    held, intervals : by candidate, intervals that held the truth, and intervals.
    message : why there is no replicate.
    """

    name: str
    maker: str
    likeness: float | None
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
    rmse : root of the mean of its squared error over the worlds that are no sub-samples of the
        log, or over these where there are no others.
    rank : its place by that.
    worlds_best : worlds on which it has the least error.
    coverage : share of its intervals that held the truth, over the worlds of ``rmse``.
    """

    rmse: float | None = None
    rank: int | None = None
    worlds_best: int = 0
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
    world: World,
    candidates: Mapping[str, PluginSpec],
    records: Mapping[str, TrialRecord],
    replicates: int,
    likeness: PluginSpec,
) -> WorldFigures:
    """Compute the figures of a world, over the replicates that all candidates ended.

    Parameters
    ----------
    candidates : by label.
    records : by trial key.
    """
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
    alike = records.get(Trial(world.spec, likeness, 0).key)
    units = alike.diagnostics.get(UNITS) if alike else None
    facts = ReplicateFacts.of(
        Outcomes.of([one for own in found.values() for one in own]), "expected"
    )
    rmse: dict[str, float] = {}
    held: dict[str, int] = {}
    intervals: dict[str, int] = {}
    for label, own in found.items():
        statistics = aggregate(Outcomes.of(own), facts)
        errors = np.fromiter(statistics.imputed.values(), np.float64)
        if len(errors):
            # The truth's own standard error adds to every error.
            truth = [one.truth_expected_se for one in own if one.truth_expected_se is not None]
            variance = float(np.square(truth).mean()) if truth else 0.0
            rmse[label] = float(np.sqrt(np.square(errors).mean() + variance))
        held[label] = intervals[label] = 0
        for record in own:
            low, high = interval_of(
                record, LEVEL, "asymptotic", None if units is None else int(units)
            )
            if low is not None and high is not None and record.truth_expected is not None:
                intervals[label] += 1
                held[label] += low <= record.truth_expected <= high
    return WorldFigures(
        name=world.name,
        maker=world.maker,
        likeness=alike.estimate if alike else None,
        replicates=min(map(len, found.values()), default=0),
        rmse=rmse,
        held=held,
        intervals=intervals,
        message=message,
    )


def candidate_figures(
    worlds: Sequence[WorldFigures], labels: Sequence[str]
) -> dict[str, CandidateFigures]:
    """Compute the figures of each candidate over the worlds that have replicates."""
    usable = [world for world in worlds if set(labels) <= world.rmse.keys()]
    if not usable:
        return {label: CandidateFigures() for label in labels}
    # Sub-samples have fewer rows than the log, and a truth with errors of its own.
    whole = [world for world in usable if world.maker != _SUB_SAMPLES] or usable
    rmse = {
        label: math.sqrt(sum(world.rmse[label] ** 2 for world in whole) / len(whole))
        for label in labels
    }
    order = sorted(labels, key=lambda label: rmse[label])
    found = {}
    for label in labels:
        of = sum(world.intervals[label] for world in whole)
        found[label] = CandidateFigures(
            rmse=rmse[label],
            rank=order.index(label) + 1,
            worlds_best=sum(world.best == label for world in usable),
            coverage=sum(world.held[label] for world in whole) / of if of else None,
        )
    return found


# The verdict.


def verdict_checks(
    checks: Sequence[Finding],
    rows: Mapping[str, EstimateRow],
    chosen: str | None,
    n: int,
    *,
    over_weight: float | None = None,
    interval: str | None = None,
    gives: str = "",
    against: Sequence[str] = (),
    learned_from: int | None = None,
) -> list[Finding]:
    """Return all checks, the decisive ones first.

    Parameters
    ----------
    checks : findings of `Log.check` on the log and the policy, by name without the policy's.
    rows : candidates on the log, by label.
    chosen : label of the recommended estimator, None if none has a value.
    n : rows of the log.
    over_weight : n / max weight; None where weights are not known.
    interval : kind of the interval that is stated; None where none is.
    gives : what the user must give for one.
    against : what estimators say against each other.
    learned_from : rows from which weights were learned; None for all.
    """
    known = {one.check: one for one in checks}
    working = [label for label, row in rows.items() if row.value is not None]
    found = [
        known.get(Check.SUPPORT)
        or Finding(check=Check.SUPPORT, passed=False, message="unknown", far=True),
        known.get(Check.EFFECTIVE_SIZE) or _effective_size(rows, chosen, n, learned_from),
    ]
    if over_weight is not None:
        what = f"the largest weight is {n / over_weight:.3g} on {n:,} rows"
        found.append(Finding.at_least(Check.LARGEST_WEIGHT, over_weight, LEAST_OVER_WEIGHT, what))
    what = f"{len(working)} of {counted(len(rows), 'candidate')} have a value"
    given = Finding.at_least(Check.ESTIMATE, float(len(working)), 1.0, what)
    found.append(replace(given, passed=chosen is not None))
    if chosen is not None:
        said = f"{chosen}: {interval or 'none is stated for such a log'}"
        fine = interval is not None
        found.append(Finding(check=Check.INTERVAL, passed=fine, message=said, cure=gives))
    what = "; ".join(against) or "no two estimators of one value contradict each other"
    agree: bool | None = not against
    size = found[1].value
    if against and size is not None and size < HANDFUL:
        agree, what = (
            None,
            f"{what}, or the standard errors, which {size:.1f} effective rows leave",
        )
    found.append(Finding(check=Check.CONTRADICTION, passed=agree, message=what, cure=gives))
    taken = {one.check for one in found}
    return found + [one for one in checks if one.passed is not None and one.check not in taken]


def verdict_of(checks: Sequence[Finding]) -> tuple[Verdict, list[str]]:
    """Return the verdict and its reasons.

    >>> verdict_of([Finding(check=Check.LEAK, passed=True, message="none")])[0]
    'trust'
    """
    failed = [one for one in checks if one.passed is False]
    reasons = [f"{one.name}: {one.message}" for one in failed]
    if any(one.decisive for one in failed):
        return "run-an-experiment", reasons
    if failed:
        return "caution", reasons
    return "trust", [all_passed(len(checks))]


def first_action(checks: Sequence[Finding]) -> str:
    """Return what to repair or to do first, in one sentence; "" where no check failed."""
    urgency = list(Check)
    failed = [one for one in checks if one.passed is False]
    failed.sort(key=lambda one: (not one.withholds, not one.decisive, urgency.index(one.check)))
    return failed[0].first_action if failed else ""


def _effective_size(
    rows: Mapping[str, EstimateRow], chosen: str | None, n: int, learned_from: int | None
) -> Finding:
    """Return the effective sample size where only the candidates' own weights are known."""
    shares = [row.ess_fraction for row in rows.values() if row.ess_fraction is not None]
    own = rows[chosen].ess_fraction if chosen is not None else None
    share = own if own is not None else min(shares, default=None)
    if share is None:
        message = "unknown: no estimator here weights the rows"
        return Finding(check=Check.KNOWN_SIZE, passed=False, message=message)
    size = share * n
    what = f"{size:,.0f} of {n:,} rows, by estimated weights"
    if learned_from is not None and learned_from < n:
        what += f" of {learned_from:,} random rows"
    return effective_size_finding(size, what)
