"""Covariances of estimates on the same rows, from their terms or by resampling units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ope_bench import DrawnRows, FloatArray, IntArray, View
from ope_estimators.actions.weighting.weighted_mean import effective_units
from ope_estimators.selection.candidates import Candidate

__all__ = ["LEAST_UNITS", "Spread", "covariance", "mean_of_terms", "resample", "target_units"]

LEAST_UNITS = 1.01
"""Units below which weights say nothing of a variance: one has over 99.5 % of the weight.

With weights that sum to one, the spread of the terms then is next to 0. A limit of 2 would take
away much of the bias that an anchor sees, and ``anchored`` would err more.
"""


@dataclass(frozen=True, eq=False)
class Spread:
    """Covariances of some estimates.

    Parameters
    ----------
    covariance : (k, k); infinite for a candidate that fails on nearly all resamples, and for one
        whose weights (equal ones where it has none) are worth fewer than `LEAST_UNITS`.
    reruns : estimates that were computed anew for it.
    """

    covariance: FloatArray
    reruns: int = 0

    @property
    def variance(self) -> FloatArray:
        """Variances: (k,)."""
        return np.diag(self.covariance).copy()

    def of_difference(self, k: int) -> FloatArray:
        """Variance of each estimate's difference from estimate k: (k,)."""
        variance = self.variance
        with np.errstate(invalid="ignore"):
            difference = variance + variance[k] - 2.0 * self.covariance[k]
        return np.where(np.isnan(difference), np.inf, np.maximum(difference, 0.0))


def covariance(
    candidates: Sequence[Candidate],
    view: View,
    *,
    n_resamples: int,
    seed: int,
    device: str = "cpu",
) -> Spread:
    """Covariances of estimates on the same rows.

    Where all estimates have terms, sum_u s_ku s_ju over units u, with the sums s of centered
    terms over their number: the limit of infinitely many resamples of the terms' means, at no
    cost. Otherwise units are drawn with replacement ``n_resamples`` times; estimates with terms
    then are means of the drawn rows' terms, the others are computed anew on the drawn rows, their
    shared fits included.

    Parameters
    ----------
    candidates : k estimators with their estimates.
    view : the rows.
    n_resamples : number of resamples.
    seed : of the draws.
    device : where estimates are computed anew.
    """
    weights = np.stack([_weights(one, view) for one in candidates])
    units = effective_units(weights, view.unit)
    if all(one.estimate.terms is not None for one in candidates):
        return Spread(_infinite_where_few(units, _from_terms(candidates, view)))
    rng = np.random.default_rng(seed)
    values = np.empty((n_resamples, len(candidates)))
    reruns = 0
    for index in range(n_resamples):
        rows = resample(view, rng)
        drawn = view.rows(*rows)
        for k, one in enumerate(candidates):
            if one.estimate.terms is not None:
                values[index, k] = mean_of_terms(one, rows.logged, rows.target)
            else:
                values[index, k] = one.value_on(drawn, device)
                reruns += 1
    return Spread(_infinite_where_few(units, _from_values(values)), reruns)


def mean_of_terms(candidate: Candidate, logged: IntArray, target: IntArray | None) -> float:
    """Return the mean of an estimate's terms over some rows; all target rows where None."""
    estimate = candidate.estimate
    assert estimate.terms is not None  # noqa: S101  callers have checked
    mean = float(estimate.terms[logged].mean())
    if estimate.target_terms is not None:
        rows = slice(None) if target is None else target
        mean += float(estimate.target_terms[rows].mean())
    return mean


def resample(view: View, rng: np.random.Generator) -> DrawnRows:
    """Draw units with replacement; return their logged and target rows.

    Units in both samples, in the logs alone and in the target sample alone are drawn apart, so
    that the logs are never empty, nor is a target sample if there is one. Row i of both samples
    stays together where contexts are shared.

    Parameters
    ----------
    view : source of the units.
    rng : draws them.
    """
    target_unit = target_units(view)
    logged, target = np.unique(view.unit), np.unique(target_unit)
    strata = (
        np.intersect1d(logged, target),
        np.setdiff1d(logged, target),
        np.setdiff1d(target, logged),
    )
    drawn = [rng.choice(units, len(units)) for units in strata if len(units)]
    units = np.concatenate(drawn)
    (rows, unit), (target_rows, target_unit) = (
        _rows_of(units, known) for known in (view.unit, target_unit)
    )
    return DrawnRows(rows, target_rows, unit, target_unit)


def target_units(view: View) -> IntArray:
    """Units of the target rows: (m,); without a target sample m is 0."""
    return view.target_unit if view.has_target_sample else np.empty(0, dtype=np.int64)


def _rows_of(drawn: IntArray, unit: IntArray) -> tuple[IntArray, IntArray]:
    """Indices of the rows of each drawn unit, as often as it was drawn, and each row's draw."""
    order = np.argsort(unit, kind="stable")
    ranked = unit[order]
    start, end = np.searchsorted(ranked, drawn, "left"), np.searchsorted(ranked, drawn, "right")
    count = end - start
    offset = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    rows: IntArray = order[np.repeat(start, count) + offset]
    return rows, np.repeat(np.arange(len(drawn)), count)


def _weights(candidate: Candidate, view: View) -> FloatArray:
    """Weights of the logged rows, equal ones where the estimate has none: (n,)."""
    weights = candidate.estimate.weights
    return np.ones(view.n) if weights is None else weights


def _infinite_where_few(units: FloatArray, matrix: FloatArray) -> FloatArray:
    """Covariances, infinite where either estimate rests on too few units: (k, k)."""
    return np.where(np.minimum.outer(units, units) < LEAST_UNITS, np.inf, matrix)


def _from_terms(candidates: Sequence[Candidate], view: View) -> FloatArray:
    target_unit = target_units(view)
    units, place = np.unique(np.concatenate([view.unit, target_unit]), return_inverse=True)
    place = place.reshape(-1)
    sums = np.zeros((len(candidates), len(units)))
    for row, one in zip(sums, candidates, strict=True):
        parts = (
            (one.estimate.terms, view.unit, place[: view.n]),
            (one.estimate.target_terms, target_unit, place[view.n :]),
        )
        for terms, unit, at in parts:
            k = len(np.unique(unit))
            if terms is not None and k > 1:
                scores = (terms - terms.mean()) / len(terms) * math.sqrt(k / (k - 1))
                row += np.bincount(at, weights=scores, minlength=len(units))
    products: FloatArray = sums @ sums.T
    return products


def _from_values(values: FloatArray) -> FloatArray:
    """Covariances, about their means, over the resamples with both estimates: (k, k)."""
    known = np.isfinite(values)
    size = values.shape[1]
    found = np.full((size, size), np.inf)
    for i in range(size):
        for j in range(i + 1):
            both = known[:, i] & known[:, j]
            if 2 * both.sum() >= max(4, len(values)):
                left, right = values[both, i], values[both, j]
                product = (left - left.mean()) @ (right - right.mean()) / (both.sum() - 1)
                found[i, j] = found[j, i] = product
    return found
