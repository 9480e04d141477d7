"""What the weighting estimators share: averages of weighted rewards, and support in samples."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ope_bench import Diagnostic, FloatArray, IntArray, PositivityViolation, View

__all__ = [
    "Mass",
    "clipped",
    "effective_units",
    "mean",
    "never_logged",
    "self_normalized",
    "self_normalized_mean",
    "standard_error",
    "standard_error_of_sum",
    "standard_errors",
    "unknown_mass",
]

Mass = Callable[[], float | None]
"""The target policy's mass without support, or None, for messages: computed when asked for."""


def unknown_mass() -> float | None:
    """Return no mass: nothing is known of it."""
    return None


def mean(values: FloatArray) -> float:
    """Mean with the bits of `numpy.mean`, whose checks cost more than a sum of a thousand numbers.

    >>> mean(np.array([1.0, 2.0]))
    1.5
    """
    return float(np.add.reduce(values)) / len(values)


def clipped(weights: FloatArray, limit: float | None) -> tuple[FloatArray, dict[str, Diagnostic]]:
    """Weights no larger than ``limit``, None leaving them alone, and what it did.

    The diagnostics are the mean weight (one in expectation, were it not for missing support) and,
    with a limit, the share of rows that it touched.
    """
    diagnostics: dict[str, Diagnostic] = {"mean_weight": float(weights.mean())}
    if limit is not None:
        diagnostics |= {"clip": limit, "clipped_share": float((weights > limit).mean())}
        weights = np.minimum(weights, limit)
    return weights, diagnostics


def standard_error(terms: FloatArray, unit: IntArray) -> float | None:
    """Standard error of the mean of terms that are independent from unit to unit.

    With scores s_i = (t_i - mean) / n, summed to S_u over the rows of a unit, it is
    sqrt(k / (k - 1) sum_u S_u²) for k units; the usual one where every row is a unit. None for
    a single unit.

    Parameters
    ----------
    terms : (n,)
    unit : (n,), as `View.unit`.

    References
    ----------
    Longitudinal data analysis using generalized linear models (Liang and Zeger, 1986), for the
    variance by sums over clusters.

    >>> round(standard_error(np.array([1.0, 4.0]), np.array([0, 1])), 9)
    1.5
    >>> round(standard_error(np.array([1.0, 4.0, 1.0, 4.0]), np.array([0, 1, 0, 1])), 9)
    1.5
    """
    n = len(terms)
    scores = terms - mean(terms)
    if not _ascend(unit):
        sums = _sums(scores, unit)
        if len(sums) < n:
            return _spread(sums) / n if len(sums) > 1 else None
    return math.sqrt(np.square(scores).sum() / (n - 1)) / math.sqrt(n) if n > 1 else None


def standard_errors(terms: FloatArray, unit: IntArray) -> FloatArray:
    """`standard_error` of several rows of terms, for at least two units: (k,).

    Parameters
    ----------
    terms : (k, n)
    unit : (n,), as `View.unit`.
    """
    n = terms.shape[1]
    scores = _sums_of_rows(terms - terms.mean(axis=1, keepdims=True), unit)
    k = scores.shape[1]
    errors: FloatArray = np.sqrt(k / (k - 1) * np.square(scores).sum(axis=1)) / n
    return errors


def effective_units(weights: FloatArray, unit: IntArray) -> FloatArray:
    """Number of units of equal weight that several rows of weights are worth: (k,).

    (sum_u W_u)² / sum_u W_u², with W_u the sum of the weights over the rows of unit u; 0 where all
    weights are 0. Where it is near 1, one unit carries the weight, and the spread of the terms
    says little of the error: with weights that sum to one, a single unit has a spread of 0.

    Parameters
    ----------
    weights : (k, n)
    unit : (n,), as `View.unit`.

    >>> effective_units(np.array([[0.0, 0.0], [3.0, 0.0], [2.0, 2.0]]), np.array([0, 1])).tolist()
    [0.0, 1.0, 2.0]
    """
    sums = _sums_of_rows(weights, unit)
    largest = np.abs(sums).max(axis=1, keepdims=True)
    # Shares of the largest sum: squares of the sums themselves could overflow.
    share = np.divide(sums, largest, out=np.zeros_like(sums), where=largest > 0)
    units: FloatArray = np.square(share.sum(axis=1)) / np.maximum(np.square(share).sum(axis=1), 1)
    return units


def standard_error_of_sum(logged: FloatArray, target: FloatArray, view: View) -> float | None:
    """Standard error of the mean of the logged terms plus the mean of the target terms.

    Rows of one unit depend on each other in whichever sample: the scores of both samples are
    summed by unit. It is hypot(e_0, e_1) of the two means' standard errors where no unit is in
    both samples, and that of the mean of pairs where row i of both is one unit.

    Parameters
    ----------
    logged : (n,)
    target : (m,)
    view : whose units.
    """
    if not view.has_units:
        if view.shared_contexts:
            return standard_error(target + logged, view.unit)
        parts = standard_error(target, view.target_unit), standard_error(logged, view.unit)
        return None if None in parts else math.hypot(*(part for part in parts if part is not None))
    scores = []
    for terms, unit in ((logged, view.unit), (target, view.target_unit)):
        k = len(np.unique(unit))
        if k < 2:
            return None
        scores.append((terms - terms.mean()) / len(terms) * math.sqrt(k / (k - 1)))
    sums = _sums(np.concatenate(scores), np.concatenate([view.unit, view.target_unit]))
    return float(np.sqrt(np.square(sums).sum()))


def _sums(scores: FloatArray, unit: IntArray) -> FloatArray:
    """Sums of the scores over the rows of each unit: (number of units,)."""
    if _ascend(unit):
        return scores
    row = np.unique(unit, return_inverse=True)[1].reshape(-1)
    return np.bincount(row, weights=scores).astype(np.float64)


def _sums_of_rows(scores: FloatArray, unit: IntArray) -> FloatArray:
    """`_sums` of several rows of scores: (k, number of units)."""
    if _ascend(unit):
        return scores
    order = np.argsort(unit, kind="stable")
    start = np.unique(unit[order], return_index=True)[1]
    sums: FloatArray = np.add.reduceat(scores[:, order], start, axis=1)
    return sums


def _ascend(unit: IntArray) -> bool:
    """Return whether units ascend, so that each row is one."""
    return bool((unit[1:] > unit[:-1]).all())


def _spread(sums: FloatArray) -> float:
    k = len(sums)
    return float(np.sqrt(k / (k - 1) * np.square(sums).sum()))


def self_normalized_mean(
    weights: FloatArray, reward: FloatArray, *, unsupported_mass: Mass = unknown_mass
) -> float:
    """sum(w r) / sum(w).

    Raises
    ------
    PositivityViolation : all weights are zero.
    """
    return float(_shares(weights, unsupported_mass) @ reward)


def _shares(weights: FloatArray, unsupported_mass: Mass) -> FloatArray:
    """Weights over their sum: (n,)."""
    total = float(weights.sum())
    if total == 0:
        msg = f"all {len(weights)} weights are 0: nothing that the target policy does was logged"
        raise PositivityViolation(msg, unsupported_mass=unsupported_mass())
    # Shares first: the products then stay finite where the weights are very large.
    return weights / total


def self_normalized(
    weights: FloatArray,
    reward: FloatArray,
    unit: IntArray,
    *,
    unsupported_mass: Mass = unknown_mass,
) -> tuple[float, float | None]:
    """sum(w r) / sum(w) and its standard error, linearized in both sums (the delta method).

    Scores are summed over the rows of a unit, and the factor sqrt(k / (k - 1)) for k units is
    that of `standard_error`; the delta method alone has none. None where a single unit has
    weight: the value is then its reward, and all scores are 0 whatever the error.

    Raises
    ------
    PositivityViolation : all weights are zero.
    """
    share = _shares(weights, unsupported_mass)
    value = float(share @ reward)
    scores = share * (reward - value)
    sums, mass = (scores, share) if _ascend(unit) else (_sums(scores, unit), _sums(share, unit))
    if np.count_nonzero(mass) < 2:
        return value, None
    # Rows that are units are summed in their own order, whatever that of the units.
    return value, _spread(sums if len(sums) < len(scores) else scores)


def never_logged(view: View) -> float | None:
    """Share of the target sample whose action was never logged.

    None for continuous actions, and where there is no target sample.
    """
    if view.n_actions is None or not view.has_target_sample:
        return None
    logged = np.zeros(view.n_actions, dtype=bool)
    logged[view.action] = True
    return float((~logged[view.target_action]).mean())
