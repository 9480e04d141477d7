"""Balance of weighted logs with the target sample, before and after weighting.

Weights on actions and weights on embeddings both move the law of (context, embedding) in the logs
to that of the target sample, so all are judged on the same columns.
"""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass

import numpy as np

from ope_bench.contracts.arrays import FloatArray, row_chunks
from ope_bench.contracts.data import Problem
from ope_bench.contracts.estimate import Estimate
from ope_bench.contracts.schema import Column

__all__ = ["weight_balance"]

FREQUENCIES = 64
"""Random frequencies of the kernel distance; the same for all data with equally many columns."""

MOST_ENTRIES = 10_000_000
"""Rows times columns and features above which no balance is computed."""


@dataclass(frozen=True, eq=False)
class _Sides:
    """Columns and kernel features of the logs, and their means over the target sample.

    Parameters
    ----------
    logged : (n, d + 2 `FREQUENCIES`), standardized columns, then features.
    target : (d + 2 `FREQUENCIES`,)
    columns : d.
    """

    logged: FloatArray
    target: FloatArray
    columns: int

    def distances(self, share: FloatArray) -> tuple[float, float]:
        """Return the largest mean difference and the kernel distance for shares (n,)."""
        gap = share @ self.logged - self.target
        return float(np.abs(gap[: self.columns]).max()), float(np.linalg.norm(gap[self.columns :]))


_SIDES: weakref.WeakKeyDictionary[Problem, _Sides | None] = weakref.WeakKeyDictionary()


def weight_balance(problem: Problem, estimate: Estimate) -> dict[str, float]:
    """Compare the logs with the target sample; empty without weights or a target sample.

    ``smd_before``, ``smd_after``
        largest absolute standardized mean difference over the columns of context and embedding,

            |Σ w c / Σ w - mean_target c| / sqrt((var_logged c + var_target c) / 2)

        with all w equal, and with the estimate's weights. Categories count as one column each;
        the variances are those without weights in both, so that a change is one of the means.
    ``mmd_before``, ``mmd_after``
        kernel distance of (context, embedding), sqrt(Σ_ij u_i u_j k(z_i, z_j)) with u the shares
        of the logs and minus those of the target sample, z the standardized columns and
        k(z, z') = exp(-|z - z'|² / (2d)), by the same `FREQUENCIES` random frequencies for all:
        "Random Features for Large-Scale Kernel Machines" (Rahimi and Recht, 2007), Algorithm 1.

    The target sample is finite, so exact weights do not reach 0. Nothing is said where a column is
    constant in each sample but not the same: no weights balance it.
    """
    weights, space = estimate.weights, estimate.weight_space
    if weights is None or space is None or weights.shape != problem.reward.shape:
        return {}
    largest = float(weights.max())
    if not (problem.has_target_sample and largest > 0 and math.isfinite(largest)):
        return {}
    # The sum of the weights themselves may overflow.
    share = weights / largest
    total = float(share.sum())
    if total <= 0:
        return {}
    with np.errstate(all="ignore"):
        if problem not in _SIDES:
            _SIDES[problem] = _sides(problem)
        sides = _SIDES[problem]
        if sides is None:
            return {}
        n = len(weights)
        smd, mmd = sides.distances(share / total)
        smd_logs, mmd_logs = sides.distances(np.full(n, 1.0 / n))
    facts = {"smd_before": smd_logs, "smd_after": smd, "mmd_before": mmd_logs, "mmd_after": mmd}
    return {name: value for name, value in facts.items() if math.isfinite(value)}


def _sides(problem: Problem) -> _Sides | None:
    """Prepare both samples; None where they are too large, or no column can be compared."""
    schema = problem.schema
    assert schema is not None  # noqa: S101  set by the problem itself
    columns = (*schema.context, *schema.embedding)
    width = sum(max(1, len(column.categories)) for column in columns)
    n, m = len(problem.reward), len(problem.target_sample[0])
    if not columns or (n + m) * (width + 2 * FREQUENCIES) > MOST_ENTRIES:
        return None
    context, _, embedding = problem.target_sample
    logged = _indicators(np.hstack([problem.context, problem.embedding]), columns)
    target = _indicators(np.hstack([context, embedding]), columns)
    varies = (np.ptp(logged, axis=0) > 0) | (np.ptp(target, axis=0) > 0)
    if not varies.any() or (logged[0] != target[0])[~varies].any():
        return None
    logged, target = logged[:, varies], target[:, varies]
    center = target.mean(axis=0)
    scale = np.sqrt((logged.var(axis=0) + target.var(axis=0)) / 2)
    logged, target = (logged - center) / scale, (target - center) / scale
    d = logged.shape[1]
    frequency = np.random.default_rng(d).normal(scale=1 / math.sqrt(d), size=(d, FREQUENCIES))
    features = [_features(rows, frequency) for rows in (logged, target)]
    return _Sides(
        np.hstack([logged, features[0]]),
        np.concatenate([target.mean(axis=0), features[1].mean(axis=0)]),
        d,
    )


def _indicators(rows: FloatArray, columns: tuple[Column, ...]) -> FloatArray:
    """Replace categorical columns by an indicator of each category."""
    parts = [
        (values[:, None] == np.asarray(column.categories)).astype(np.float64)
        if column.kind == "categorical"
        else values[:, None]
        for values, column in zip(rows.T, columns, strict=True)
    ]
    return np.hstack(parts)


def _features(rows: FloatArray, frequency: FloatArray) -> FloatArray:
    """Return cosines and sines, (n, 2 k), whose inner products approximate the kernel."""
    k = frequency.shape[1]
    features = np.empty((len(rows), 2 * k))
    for part in row_chunks(len(rows), 2 * k):
        angle = rows[part] @ frequency
        np.cos(angle, out=features[part, :k])
        np.sin(angle, out=features[part, k:])
    return features / math.sqrt(k)
