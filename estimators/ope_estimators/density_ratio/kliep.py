"""Density ratios of least Kullback-Leibler divergence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_bench import FloatArray, View
from ope_estimators.density_ratio.basis import standardized
from ope_estimators.density_ratio.kernels import median_distance
from ope_estimators.density_ratio.sample_weights import SampleWeights
from ope_estimators.learning.folds import folds

__all__ = ["KLIEPRatio"]

CENTRES = 100
WIDTHS = (0.25, 0.5, 1.0, 2.0)
"""In median distances, among which the held-out likelihood chooses."""

FOLDS = 5
STEPS = 2000
MANY_ROWS = 6_000
"""Rows of the target sample from which Newton's steps replace those of expectation and
maximization: a few hundredths of their number, of which each costs more."""

LEAST = 1e-10
"""Shares below it count as 0."""

BLOCK = 64
"""Rows, or some more, whose differences from all centers fit into the processor's cache."""

GAP = 1e-4
"""The mean log-likelihood reached is at most this below the largest one."""


@dataclass(frozen=True)
class KLIEPRatio:
    """α = sum_j θ_j K(x, c_j), θ >= 0, of the largest mean_1 ln α with mean_0 α = 1.

    Gaussian kernels around up to `CENTRES` target rows, and a constant. The width is that with
    the largest likelihood of held-out target rows where none is given.

    Parameters
    ----------
    bandwidth : in median distances; None chooses.
    """

    bandwidth: float | None

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> SampleWeights:
        """Return the weights at both samples' rows."""
        return self.weigh(view, *standardized(view), rng)

    def weigh(
        self, view: View, logged: FloatArray, target: FloatArray, rng: np.random.Generator
    ) -> SampleWeights:
        """Fit the weights on given features, (n, d) and (m, d)."""
        centres = target[rng.permutation(len(target))[:CENTRES]]
        scale = median_distance(np.concatenate([logged, target]))

        squared = [squared_distances(rows, centres) for rows in (logged, target)]

        def kernels(gaps: FloatArray, width: float) -> FloatArray:
            near = np.exp(-0.5 * gaps / (width * scale) ** 2)
            return np.column_stack([np.ones(len(gaps)), near])

        width = self.bandwidth
        if width is None:
            fold = folds(view, FOLDS, rng)[1]
            score = []
            for candidate in WIDTHS:
                at_logged, at_target = (kernels(gaps, candidate) for gaps in squared)
                held = 0.0
                for k in np.unique(fold):
                    if (fold == k).all():
                        continue
                    theta = most_likely(at_logged, at_target[fold != k])
                    held += float(np.log(at_target[fold == k] @ theta).sum())
                score.append(held)
            width = WIDTHS[int(np.argmax(score))]
        at_logged, at_target = (kernels(gaps, width) for gaps in squared)
        theta = most_likely(at_logged, at_target)
        return SampleWeights(at_logged @ theta, at_target @ theta, {"bandwidth": float(width)})


def squared_distances(rows: FloatArray, centres: FloatArray) -> FloatArray:
    """Return the squared distance of each row from each center: (n, k).

    Parameters
    ----------
    rows : (n, d)
    centres : (k, d)
    """
    # In the layout of the rows, as numpy does: it decides how sums over them are rounded.
    by_columns = rows.strides[0] < rows.strides[1]
    squared = np.empty((len(rows), len(centres)), order="F" if by_columns else "C")
    # No block of one row: numpy would choose another layout for it.
    edges = np.linspace(0, len(rows), max(1, len(rows) // BLOCK) + 1).astype(np.int64)
    for part in map(slice, edges[:-1], edges[1:]):
        squared[part] = np.square(rows[part, None, :] - centres).sum(axis=2)
    return squared


def most_likely(logged: FloatArray, target: FloatArray) -> FloatArray:
    """Return θ >= 0 of the largest target mean of ln φ'θ, where φ'θ has mean 1 over the logs.

    θ_j mean_0 φ_j are shares of a mixture of known components: they are found by the EM steps of
    such a mixture, each of which keeps the constraint and raises the likelihood; with many rows
    by Newton's.

    Parameters
    ----------
    logged : (n, k), values of functions that are not negative, the first one constant.
    target : (m, k)
    """
    mass = logged.mean(axis=0)
    # A centre without any logged row in reach would have an endless ratio: it is left out.
    usable = mass > 1e-12
    component = target[:, usable] / mass[usable]
    share = np.full(int(usable.sum()), 1.0 / usable.sum())
    for _ in range(STEPS):
        # Two products of a matrix and a vector: a matrix of ratios would take ten times as long.
        growth = 1 / (component @ share) @ component / len(component)
        # By concavity the largest growth bounds what the likelihood can still gain.
        if growth.max() - 1 < GAP:
            break
        newton = len(component) >= MANY_ROWS
        share = newton_step(component, share, growth) if newton else share * growth
    theta = np.zeros(len(mass))
    theta[usable] = share / mass[usable]
    return theta


def newton_step(component: FloatArray, share: FloatArray, growth: FloatArray) -> FloatArray:
    """Return shares of a larger likelihood, by a quadratic form of it.

    Parameters
    ----------
    component : (m, k), the components' densities at the rows.
    share : (k,); those that are 0 and would not grow stay out.
    growth : (k,), derivatives of the mean log-likelihood.
    """
    from scipy.optimize import nnls

    mixture = component @ share
    some = np.flatnonzero((share > LEAST) | (growth > 1))
    relative = component[:, some] / mixture[:, None]
    curve = relative.T @ relative / len(component)
    # Relative to the largest: components without mass at most rows are large at the others.
    root = np.linalg.cholesky(curve + LEAST * curve.diagonal().max() * np.eye(len(some)))
    # Shares have a price of 1 each in place of the constraint on their sum: they then sum to 1.
    aim = np.zeros(len(share))
    slope = curve @ share[some] + growth[some] - 1
    aim[some] = nnls(root.T, np.linalg.solve(root, slope), maxiter=100 * len(some))[0]
    step = aim - share
    moved, gain, reached = component @ step, float((growth - 1) @ step), np.log(mixture).mean()
    part = 1.0
    while part > LEAST and gain > 0:
        ahead = mixture + part * moved
        rise = np.log(ahead).mean() - reached - part * step.sum() if ahead.min() > 0 else 0.0
        if rise >= 0.01 * part * gain:
            share = np.maximum(share + part * step, 0.0)
            return np.asarray(share / share.sum())
        part /= 2
    return share * growth
