"""What the weighting estimators share: averages of weighted rewards, and support in samples."""

from __future__ import annotations

import math

import numpy as np

from ope_bench import (
    Diagnostic,
    FloatArray,
    IntArray,
    Mass,
    PositivityViolation,
    View,
    standard_error,
    sum_by_unit,
    unknown_mass,
    weight_shares,
)

__all__ = [
    "clipped",
    "effective_units",
    "never_logged",
    "require_overlap",
    "self_normalized_mean",
    "standard_error_of_sum",
    "standard_errors",
]


def clipped(weights: FloatArray, limit: float | None) -> tuple[FloatArray, dict[str, Diagnostic]]:
    """Clip weights at ``limit``, None for no limit; also return diagnostics.

    The diagnostics are the mean weight (one in expectation, were it not for missing support) and,
    with a limit, the share of rows that it touched.
    """
    diagnostics: dict[str, Diagnostic] = {"mean_weight": float(weights.mean())}
    if limit is not None:
        diagnostics |= {"clip": limit, "clipped_share": float((weights > limit).mean())}
        weights = np.minimum(weights, limit)
    return weights, diagnostics


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
    sums = sum_by_unit(np.concatenate(scores), np.concatenate([view.unit, view.target_unit]))
    return float(np.sqrt(np.square(sums).sum()))


def _sums_of_rows(scores: FloatArray, unit: IntArray) -> FloatArray:
    """`_sums` of several rows of scores: (k, number of units)."""
    if (unit[1:] > unit[:-1]).all():
        return scores
    order = np.argsort(unit, kind="stable")
    start = np.unique(unit[order], return_index=True)[1]
    sums: FloatArray = np.add.reduceat(scores[:, order], start, axis=1)
    return sums


def self_normalized_mean(
    weights: FloatArray, reward: FloatArray, *, unsupported_mass: Mass = unknown_mass
) -> float:
    """sum(w r) / sum(w).

    Raises
    ------
    PositivityViolation : all weights are zero.
    """
    return float(weight_shares(weights, unsupported_mass) @ reward)


def never_logged(view: View) -> float | None:
    """Share of the target sample whose action was never logged.

    None for continuous actions, and where there is no target sample.
    """
    if view.n_actions is None or not view.has_target_sample:
        return None
    logged = np.zeros(view.n_actions, dtype=bool)
    logged[view.action] = True
    return float((~logged[view.target_action]).mean())


def require_overlap(view: View, weights: FloatArray, value: float) -> None:
    """Refuse weights that are all zero where actions are continuous.

    With finitely many actions this is a draw like others, and 0 part of being unbiased.

    Parameters
    ----------
    view : of the weights.
    weights : (n,)
    value : what the estimate would be.
    """
    if view.n_actions is None and not weights.any():
        msg = f"all {len(weights)} weights are 0: the logs and the target policy share no action"
        raise PositivityViolation(msg, fallback=value)
