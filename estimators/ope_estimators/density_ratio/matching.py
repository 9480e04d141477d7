"""Weights that bring the weighted logs near the target sample: kernel means, energy distance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from ope_bench import FloatArray, UnavailableError, View, row_chunks
from ope_estimators.density_ratio.basis import standardized
from ope_estimators.density_ratio.kernels import median_distance
from ope_estimators.density_ratio.sample_weights import SampleWeights

__all__ = ["MOST_ROWS", "EnergyWeights", "KernelMeanWeights", "least_quadratic"]

PAIRED_ROWS = 4_000
"""Rows of a sample up to which all pairs are compared: a table of 128 MB, read at each step.

With more, the kernel is replaced by its projection on landmarks, rows drawn from both samples.
"""

LANDMARKS = 600

MOST_ROWS = 100_000
"""Rows of a sample beyond which the table of rows and landmarks, 480 MB, is not made."""

Kernel = Callable[[FloatArray, FloatArray], FloatArray]
"""Values at all pairs of rows, (k, d), (m, d) -> (k, m)."""

STEPS, TOLERANCE = 2000, 1e-9
"""Most steps, and the largest move of a weight after which steps end.

Energy weights come to rest. Kernel means seldom do, nor should they: on smooth data the exact
minimum follows the scatter of both samples, and some weights grow up to the bound. That steps end
is what keeps weights smooth.
"""


@dataclass(frozen=True)
class KernelMeanWeights:
    """Weights 0 <= α <= B of the least kernel distance between weighted logs and target sample.

    |sum α - n| <= n ε with ε = (√n - 1) / √n; a Gaussian kernel with the median distance as
    width.

    Parameters
    ----------
    bound : B.
    """

    bound: float

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> SampleWeights:
        """Return the weights of the logged rows.

        Raises
        ------
        UnavailableError : more than `MOST_ROWS` rows in a sample.
        """
        return self.weigh(view, *standardized(view), rng)

    def weigh(
        self, view: View, logged: FloatArray, target: FloatArray, rng: np.random.Generator
    ) -> SampleWeights:
        """Fit the weights on given features, (n, d) and (m, d)."""
        from scipy.spatial.distance import cdist

        _require_few(view)
        n, width = len(logged), median_distance(np.concatenate([logged, target]))

        def kernel(rows: FloatArray, others: FloatArray) -> FloatArray:
            table: FloatArray = cdist(rows, others, "sqeuclidean")
            table *= -0.5
            table /= width**2
            return np.exp(table, out=table)

        slack = (math.sqrt(n) - 1.0) / math.sqrt(n)
        product, means = matched(kernel, logged, target, rng)
        weights = least_quadratic(product, means, self.bound, n * (1 - slack), n * (1 + slack))
        return SampleWeights(weights, None, {"bandwidth": width})


@dataclass(frozen=True)
class EnergyWeights:
    """Weights α >= 0, sum α = n, of the least energy distance to the target sample.

    2 mean_i mean_j α_i |x_i - t_j| - mean_i mean_k α_i α_k |x_i - x_k|
    """

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> SampleWeights:
        """Return the weights of the logged rows.

        Raises
        ------
        UnavailableError : more than `MOST_ROWS` rows in a sample.
        """
        return self.weigh(view, *standardized(view), rng)

    def weigh(
        self, view: View, logged: FloatArray, target: FloatArray, rng: np.random.Generator
    ) -> SampleWeights:
        """Fit the weights on given features, (n, d) and (m, d)."""
        from scipy.spatial.distance import cdist

        _require_few(view)
        n = len(logged)

        def kernel(rows: FloatArray, others: FloatArray) -> FloatArray:
            table: FloatArray = cdist(rows, others)
            np.negative(table, out=table)
            if len(logged) > PAIRED_ROWS or len(target) > PAIRED_ROWS:
                # With sum α fixed this moves no weight, and a projection needs a kernel that is
                # positive definite on all vectors.
                table += np.linalg.norm(rows, axis=1)[:, None] + np.linalg.norm(others, axis=1)
            return table

        product, means = matched(kernel, logged, target, rng)
        return SampleWeights(least_quadratic(product, means, float(n), n, n), None)


def _require_few(view: View) -> None:
    if max(view.n, view.m) > MOST_ROWS:
        msg = f"it takes at most {MOST_ROWS:,} rows a sample, these are {max(view.n, view.m):,}"
        raise UnavailableError(msg)


def matched(
    kernel: Kernel, logged: FloatArray, target: FloatArray, rng: np.random.Generator
) -> tuple[Callable[[FloatArray], FloatArray], FloatArray]:
    """Return α -> Kα / n over logged rows, and their mean kernel with the target sample: (n,).

    With more than `PAIRED_ROWS` rows, k(x, y) becomes k(x, L) k(L, L)^-1 k(L, y), where L are
    `LANDMARKS` rows of both samples.
    """
    from scipy.linalg import eigh
    from scipy.linalg.blas import dsymv

    n, m = len(logged), len(target)
    if max(n, m) <= PAIRED_ROWS:
        pairs = kernel(logged, logged)
        pairs /= n
        # Steps take as long as it takes to read the table: this product reads half of it.
        return partial(dsymv, 1.0, pairs.T), means_of_rows(kernel, logged, target)
    drawn = np.sort(rng.choice(n + m, LANDMARKS, replace=False))
    landmarks = np.concatenate([logged, target])[drawn]
    values, vectors = eigh(kernel(landmarks, landmarks))
    # Landmarks that coincide, or nearly, give eigenvalues of 0 whose inverse would be noise.
    kept = values > values[-1] * 1e-10
    root = vectors[:, kept] / np.sqrt(values[kept])
    table = kernel(logged, landmarks) @ root
    means = table @ (means_of_rows(kernel, landmarks, target) @ root)
    return lambda alpha: table @ ((alpha @ table) / n), means


def means_of_rows(table: Kernel, rows: FloatArray, others: FloatArray) -> FloatArray:
    """Average a function of two rows over the second, in chunks of the first: (n,).

    Parameters
    ----------
    table : values at all pairs, (k, d), (m, d) -> (k, m).
    rows : (n, d)
    others : (m, d)
    """
    means = np.empty(len(rows))
    for part in row_chunks(len(rows), len(others)):
        means[part] = table(rows[part], others).mean(axis=1)
    return means


def least_quadratic(
    product: Callable[[FloatArray], FloatArray],
    linear: FloatArray,
    bound: float,
    low: float,
    high: float,
) -> FloatArray:
    """Return α that minimizes α'Qα / 2 - c'α with 0 <= α <= bound and low <= sum α <= high: (n,).

    Projected gradient steps with momentum, begun anew where they turn uphill.

    Parameters
    ----------
    product : α -> Qα; Q is symmetric, positive semidefinite on vectors that sum to 0.
    linear : c, (n,)
    """
    n = len(linear)
    alpha = ahead = project(np.ones(n), bound, low, high)
    # The largest eigenvalue on vectors that sum to 0 bounds steps within the constraint; that of
    # the whole matrix, if positive, bounds all.
    vector = np.random.default_rng(0).standard_normal(n)
    for _ in range(30):
        vector -= vector.mean() if low == high else 0.0
        vector = product(vector)
        size = float(np.linalg.norm(vector)) or 1.0
        vector /= size
    rate, momentum = 1.0 / (1.1 * size), 1.0
    for _ in range(STEPS):
        step = project(ahead - rate * (product(ahead) - linear), bound, low, high)
        if float((ahead - step) @ (step - alpha)) > 0:
            momentum = 1.0
        following = (1.0 + math.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        ahead = step + (momentum - 1.0) / following * (step - alpha)
        moved = float(np.abs(step - alpha).max())
        alpha, momentum = step, following
        if moved < TOLERANCE:
            break
    return alpha


def project(point: FloatArray, bound: float, low: float, high: float) -> FloatArray:
    """Return the nearest point with 0 <= α <= bound and low <= sum α <= high: (n,)."""
    plain: FloatArray = np.clip(point, 0.0, bound)
    total = float(plain.sum())
    if low <= total <= high:
        return plain
    wanted = low if total < low else high
    below, above = float(point.min()) - bound, float(point.max())
    for _ in range(100):
        middle = (below + above) / 2.0
        if float(np.clip(point - middle, 0.0, bound).sum()) > wanted:
            below = middle
        else:
            above = middle
    moved: FloatArray = np.clip(point - above, 0.0, bound)
    return moved
