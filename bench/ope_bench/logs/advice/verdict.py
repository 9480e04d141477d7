"""The verdict: checks of the log, of the candidates and of the made worlds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ope_bench.logs.advice.figures import CandidateFigures, WorldFigures, worlds_of_errors
from ope_bench.logs.checking.checks import LEAST_ESS, MOST_UNSUPPORTED
from ope_bench.logs.checking.findings import Finding
from ope_bench.logs.result_rows import EstimateRow

__all__ = ["Case", "Verdict", "judge", "verdict_of"]

Verdict = Literal["trust", "caution", "run-an-experiment"]

DECISIVE = ("unsupported mass", "effective sample size", "an estimate")
"""Checks without which a log cannot answer, whatever the estimator."""

MOST_RATIO = 1.5
"""Error over that of the best candidate, on any world, up to which the order is called stable."""

LEAST_COVERAGE = 0.85
LEAST_LIKENESS = 0.75
"""Area under the curve up to which a world is like the log."""

MOST_APART = 2.0
"""Distance of two estimates in standard errors of the wider one."""

LEAST_REPLICATES = 5
LEAST_WORLDS = 3


@dataclass(frozen=True, kw_only=True)
class Case:
    """What a verdict is about.

    Parameters
    ----------
    checks : findings of `Log.check` on the log and the policy, by name without the policy's.
    rows : candidates on the log, by label.
    worlds : figures of each made world.
    candidates : figures of each candidate over worlds.
    chosen : label of the recommended estimator, None if none has a value.
    n : rows of the log.
    """

    checks: Sequence[Finding]
    rows: Mapping[str, EstimateRow]
    worlds: Sequence[WorldFigures]
    candidates: Mapping[str, CandidateFigures]
    chosen: str | None
    n: int


def judge(case: Case) -> list[Finding]:
    """Return all checks, the decisive ones first."""
    found = [_support(case), _effective_size(case), _estimate(case)]
    if case.chosen is not None:
        found += [_interval(case), _agreement(case)]
        found += list(_worlds(case, case.chosen))
    taken = {one.name for one in found}
    found += [one for one in case.checks if one.passed is not None and one.name not in taken]
    return found


def verdict_of(checks: Sequence[Finding]) -> tuple[Verdict, list[str]]:
    """Return the verdict and its reasons.

    >>> verdict_of([Finding(name="leaks", passed=True, message="none")])[0]
    'trust'
    """
    failed = [one for one in checks if one.passed is False]
    reasons = [f"{one.name}: {one.message}" for one in failed]
    if any(one.name in DECISIVE for one in failed):
        return "run-an-experiment", reasons
    if failed:
        return "caution", reasons
    return "trust", [f"all {len(checks)} checks passed"]


def _named(case: Case, name: str) -> Finding | None:
    return next((one for one in case.checks if one.name == name), None)


def _support(case: Case) -> Finding:
    known = _named(case, "unsupported mass")
    if known is not None:
        return known
    name, mean = "unsupported mass", _named(case, "mean weight")
    if mean is None or mean.value is None:
        return Finding(name=name, passed=False, limit=MOST_UNSUPPORTED, message="unknown")
    # Weights average the mass of the policy on what the log supports.
    mass = max(0.0, 1.0 - mean.value)
    return Finding(
        name=name,
        value=mass,
        limit=MOST_UNSUPPORTED,
        passed=mass <= MOST_UNSUPPORTED,
        message=f"{mass:.1%} of the policy, by the mean weight, is on actions that the log "
        "cannot speak of",
    )


def _effective_size(case: Case) -> Finding:
    known = _named(case, "effective sample size")
    if known is not None:
        return known
    name = "effective sample size"
    shares = [row.ess_fraction for row in case.rows.values() if row.ess_fraction is not None]
    own = case.rows[case.chosen].ess_fraction if case.chosen is not None else None
    share = own if own is not None else min(shares, default=None)
    if share is None:
        message = "unknown: no estimator here weights the rows"
        return Finding(name=f"{name} is known", passed=False, message=message)
    size = share * case.n
    return Finding(
        name=name,
        value=size,
        limit=LEAST_ESS,
        passed=size >= LEAST_ESS,
        message=f"the estimated weights of {case.n:,} rows are worth {size:,.0f} rows",
    )


def _estimate(case: Case) -> Finding:
    working = [label for label, row in case.rows.items() if row.value is not None]
    return Finding(
        name="an estimate",
        value=float(len(working)),
        limit=1.0,
        passed=case.chosen is not None,
        message=f"{len(working)} of {len(case.rows)} candidates have a value",
    )


def _interval(case: Case) -> Finding:
    row = case.rows[str(case.chosen)]
    passed = row.low is not None
    message = f"{row.label} offers one" if passed else f"{row.label} offers none: {row.message}"
    return Finding(name="an interval", passed=passed, message=message)


def _agreement(case: Case) -> Finding:
    """Compare the recommended value with those of other candidates."""
    own = case.rows[str(case.chosen)]
    worst, who = 0.0, ""
    for label, row in case.rows.items():
        errors = [one for one in (row.standard_error, own.standard_error) if one]
        if label == case.chosen or row.value is None or own.value is None or not errors:
            continue
        apart = abs(row.value - own.value) / max(errors)
        if apart > worst:
            worst, who = apart, label
    return Finding(
        name="candidates agree",
        value=worst,
        limit=MOST_APART,
        passed=worst <= MOST_APART,
        message=f"{who} differs from {own.label} by {worst:.1f} standard errors"
        if who
        else "no other candidate to compare with",
    )


def _worlds(case: Case, chosen: str) -> Iterator[Finding]:
    full = [world for world in case.worlds if world.replicates >= LEAST_REPLICATES]
    yield Finding(
        name="made worlds",
        value=float(len(full)),
        limit=float(LEAST_WORLDS),
        passed=len(full) >= LEAST_WORLDS,
        message=f"{len(full)} of {len(case.worlds)} made worlds have {LEAST_REPLICATES} data "
        "sets or more",
    )
    if len(full) < LEAST_WORLDS:
        return
    figures = case.candidates[chosen]
    if figures.worst_ratio is not None:
        yield Finding(
            name="order over worlds",
            value=figures.worst_ratio,
            limit=MOST_RATIO,
            passed=figures.worst_ratio <= MOST_RATIO,
            message=f"{chosen} errs {figures.worst_ratio:.2f} times as much as the best "
            f"candidate on '{figures.worst_world}', and less elsewhere",
        )
    if figures.coverage is not None:
        yield Finding(
            name="coverage on worlds",
            value=figures.coverage,
            limit=LEAST_COVERAGE,
            passed=figures.coverage >= LEAST_COVERAGE,
            message=f"the 95 % intervals of {chosen} held the truth in {figures.coverage:.0%}",
        )
    # Rows of sub-samples are the log's, so that no classifier tells them apart.
    areas = [
        (world.likeness, world.name)
        for world in worlds_of_errors([world for world in case.worlds if world.rmse])
        if world.likeness is not None
    ]
    if areas:
        area, name = min(areas)
        yield Finding(
            name="likeness of worlds",
            value=area,
            limit=LEAST_LIKENESS,
            passed=area <= LEAST_LIKENESS,
            message=f"a classifier tells rows of '{name}' from the log's with an area under the "
            f"curve of {area:.2f} (.5 is chance)",
        )
