"""Weights that bring the weighted logs near the target sample: kernel means, energy distance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ope_bench import FloatArray, UnavailableError, View, row_chunks
from ope_estimators.density_ratio.basis import standardized
from ope_estimators.density_ratio.kernels import median_distance
from ope_estimators.density_ratio.sample_weights import SampleWeights

__all__ = ["MOST_ROWS", "EnergyWeights", "KernelMeanWeights", "least_quadratic"]

PAIRED_ROWS = 4_000
"""Rows of a sample up to which all pairs are compared: a table of 128 MB, read at each step.

With more, steps use the kernel's projection on landmarks, logged rows, and what that leaves over
of the diagonal: without it weights would cost less than they do, and be too uneven.
"""

LANDMARKS, PASSES = 600, 4
"""For energy weights, with passes over all pairs, which bring them near those of all pairs."""

KERNEL_LANDMARKS = 1_200
"""For kernel means, whose minimum on landmarks is found at once."""

RIDGE = 3e-6
"""What is added to the diagonal on landmarks, beside the largest eigenvalue: in directions of
smaller ones `STEPS` steps on all pairs have hardly moved (results/performance/landmarks)."""

PIVOTS = 40
"""Most systems of equations for one minimum; five or ten are usual."""

MOST_ROWS = 100_000
"""Rows of a sample beyond which the table of rows and landmarks, 480 MB, is not made."""

Kernel = Callable[[Any, Any], FloatArray]
"""Values at all pairs of rows, (k, d), (m, d) -> (k, m), in single precision if the rows are."""

STEPS, TOLERANCE = 2000, 1e-9
"""Most steps, and the largest move of a weight after which steps end.

Energy weights come to rest. Kernel means seldom do, nor should they: on smooth data the exact
minimum follows the scatter of both samples, and some weights grow up to the bound. That steps end
is what keeps weights smooth.
"""

CHUNKS = 10
"""Usual chunks of pairs that are computed at once."""

COARSE = 1e-3
"""The move of a weight after which steps on landmarks end."""


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
        few = max(n, len(target)) <= PAIRED_ROWS

        def kernel(rows: FloatArray, others: FloatArray) -> FloatArray:
            gaps: FloatArray = cdist(rows, others, "sqeuclidean") if few else squared(rows, others)
            gaps *= -0.5
            gaps /= width**2
            return np.exp(gaps, out=gaps)

        slack = (math.sqrt(n) - 1.0) / math.sqrt(n)
        limits = self.bound, n * (1 - slack), n * (1 + slack)
        if few:
            weights = least_quadratic(*paired(kernel, logged, target), *limits)
        else:
            count, own = min(n, KERNEL_LANDMARKS), np.ones(n)
            drawn = logged[np.sort(rng.choice(n, count, replace=False))]
            weights = ridged(kernel, own, logged, target, drawn, limits)
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
        limits = float(n), n, n
        if max(n, len(target)) <= PAIRED_ROWS:
            paired_rows = paired(lambda rows, others: -cdist(rows, others), logged, target)
            return SampleWeights(least_quadratic(*paired_rows, *limits), None)

        def kernel(rows: FloatArray, others: FloatArray) -> FloatArray:
            gaps = squared(rows, others)
            np.sqrt(gaps, out=gaps)
            np.negative(gaps, out=gaps)
            # With sum α fixed this moves no weight, and a projection needs a kernel that is
            # positive definite on all vectors.
            gaps += np.linalg.norm(rows, axis=1)[:, None]
            gaps += np.linalg.norm(others, axis=1)
            return gaps

        own = 2.0 * np.linalg.norm(logged, axis=1)
        drawn = logged[np.sort(rng.choice(n, min(n, LANDMARKS), replace=False))]
        weights = on_landmarks(kernel, own, logged, target, drawn, limits, passes=PASSES)
        return SampleWeights(weights, None)


def _require_few(view: View) -> None:
    if max(view.n, view.m) > MOST_ROWS:
        msg = f"it takes at most {MOST_ROWS:,} rows a sample, these are {max(view.n, view.m):,}"
        raise UnavailableError(msg)


def paired(
    kernel: Kernel, logged: FloatArray, target: FloatArray
) -> tuple[Callable[[FloatArray], FloatArray], FloatArray]:
    """Return α -> Kα / n over logged rows, and their mean kernel with the target sample: (n,)."""
    from scipy.linalg.blas import dsymv

    pairs = kernel(logged, logged)
    pairs /= len(logged)
    # Steps take as long as it takes to read the table: this product reads half of it.
    return partial(dsymv, 1.0, pairs.T), means_of_rows(kernel, logged, target)


def on_landmarks(
    kernel: Kernel,
    own: FloatArray,
    logged: FloatArray,
    target: FloatArray,
    landmarks: FloatArray,
    limits: tuple[float, float, float],
    *,
    passes: int,
) -> FloatArray:
    """Return weights as `least_quadratic` does, without a table of all pairs: (n,).

    Steps use k(x, L) k(L, L)^-1 k(L, y), where L are the landmarks, and of what that leaves over
    the diagonal. The kernel means with the target sample are exact. Each pass computes
    the exact slope at the weights reached, and moves towards the minimum that it gives on
    landmarks, as far as the exact distance falls.

    Parameters
    ----------
    own : (n,), the kernel of each logged row with itself.
    landmarks : (l, d), some logged rows.
    limits : bound, low and high.
    passes : their number.
    """
    n = len(logged)
    single, aim = logged.astype(np.float32), target.astype(np.float32)
    linear = means_of_rows(kernel, single, aim)
    # In single precision half the memory is read at each step.
    table, rest = projected(kernel, own, logged, landmarks, np.float32)

    def product(alpha: FloatArray) -> FloatArray:
        scores = (alpha.astype(np.float32) @ table) / np.float32(n)
        applied: FloatArray = (table @ scores).astype(np.float64)
        applied += rest * alpha
        return applied

    solve = partial(least_quadratic, product, tolerance=COARSE, nearest=project_quickly)
    alpha = solve(linear, *limits)
    if not passes:
        return alpha
    reached = means_of_rows(kernel, single, single, alpha)
    for _ in range(passes):
        slope = reached - linear
        step = solve(product(alpha) - slope, *limits, start=alpha) - alpha
        moved = means_of_rows(kernel, single, single, step)
        fall, curve = -float(slope @ step), float(step @ moved)
        share = min(1.0, fall / curve) if curve > 0 else 1.0
        if fall <= 0:
            break
        alpha = alpha + share * step
        reached = reached + share * moved
    return alpha


def projected(
    kernel: Kernel, own: FloatArray, logged: FloatArray, landmarks: FloatArray, dtype: Any
) -> tuple[Any, FloatArray]:
    """Return Z of the kernel's projection ZZ' on landmarks, and what ZZ'/n leaves of the diagonal.

    Returns
    -------
    (n, r), (n,)
    """
    from scipy.linalg import eigh

    n = len(logged)
    values, vectors = eigh(kernel(landmarks, landmarks))
    # Landmarks that coincide, or nearly, give eigenvalues of 0 whose inverse would be noise.
    kept = values > values[-1] * 1e-10
    root = vectors[:, kept] / np.sqrt(values[kept])
    table, rest = np.empty((n, root.shape[1]), dtype=dtype), np.empty(n)
    for rows in row_chunks(n, len(landmarks)):
        scores = kernel(logged[rows], landmarks) @ root
        rest[rows] = np.maximum(own[rows] - np.einsum("ij,ij->i", scores, scores), 0.0) / n
        table[rows] = scores
    return table, rest


def ridged(
    kernel: Kernel,
    own: FloatArray,
    logged: FloatArray,
    target: FloatArray,
    landmarks: FloatArray,
    limits: tuple[float, float, float],
) -> FloatArray:
    """Return the weights of the minimum on landmarks, with a ridge, by pivoting: (n,).

    Where the minimum is not found, or not within the limits, steps on landmarks look for it.

    Parameters
    ----------
    kernel, own, logged, target, landmarks, limits : as for `on_landmarks`.
    """
    n, (bound, low, high) = len(logged), limits
    linear = means_of_rows(kernel, logged.astype(np.float32), target.astype(np.float32))
    table, rest = projected(kernel, own, logged, landmarks, np.float64)
    table /= math.sqrt(n)
    largest = float(np.square(table.sum(axis=0)).sum() / n + rest.mean())
    weights = pivoted(table, rest + RIDGE * largest, linear)
    if weights is None or weights.max() > bound or not low <= weights.sum() <= high:
        return on_landmarks(kernel, own, logged, target, landmarks, limits, passes=0)
    return weights


def pivoted(table: FloatArray, diagonal: FloatArray, linear: FloatArray) -> FloatArray | None:
    """Return α >= 0 that minimizes α'(ZZ' + D)α / 2 - c'α: (n,); None where pivots do not end.

    By turns, the weights that are free have the minimum without bounds, and those on the wrong
    side of a bound change sides; few are left over after a handful of turns.

    Parameters
    ----------
    table : Z, (n, r)
    diagonal : D, (n,), positive.
    linear : c, (n,)

    References
    ----------
    Fast nonnegative matrix factorization: an active-set-like method and comparisons (Kim and Park,
    2011), block principal pivoting.
    """
    from scipy.linalg import cho_factor, cho_solve

    n, r = table.shape
    free = np.ones(n, dtype=np.bool_)
    for _ in range(PIVOTS):
        root = np.sqrt(diagonal[free])
        part = table[free]
        part /= root[:, None]
        gram = part.T @ part
        gram[np.diag_indices(r)] += 1.0
        shared = cho_solve(cho_factor(gram, overwrite_a=True), part.T @ (linear[free] / root))
        alpha = np.zeros(n)
        alpha[free] = (linear[free] / root - part @ shared) / root
        # Z'α is the solution of the small system.
        slope = table @ shared + diagonal * alpha - linear
        wrong = np.where(free, alpha < 0, slope < -1e-9 * np.abs(linear).max())
        if wrong.sum() <= n // 2000:
            return np.maximum(alpha, 0.0)
        free ^= wrong
    return None


def squared(rows: Any, others: Any) -> FloatArray:
    """Return the squared distances of rows, by one product of matrices: (k, m)."""
    ones = [np.ones((len(table), 1), dtype=table.dtype) for table in (rows, others)]
    norms = [np.square(table).sum(axis=1, keepdims=True) for table in (rows, others)]
    left = np.hstack([-2 * rows, norms[0], ones[0]])
    gaps: FloatArray = left @ np.hstack([others, ones[1], norms[1]]).T
    np.maximum(gaps, 0.0, out=gaps)
    return gaps


def means_of_rows(
    table: Kernel, rows: Any, others: Any, weight: FloatArray | None = None
) -> FloatArray:
    """Average a function of two rows over the second, in chunks of the first: (n,).

    Parameters
    ----------
    table : values at all pairs, (k, d), (m, d) -> (k, m).
    rows : (n, d)
    others : (m, d)
    weight : (m,), of the second rows; None for equal ones.
    """
    means = np.empty(len(rows))
    if weight is not None:
        weight = weight.astype(rows.dtype)
    # What a chunk repeats, of all the other rows, is little beside a hundred rows.
    for part in row_chunks(len(rows), max(1, len(others) // CHUNKS)):
        values = table(rows[part], others)
        means[part] = values.mean(axis=1) if weight is None else values @ weight / len(others)
    return means


def least_quadratic(
    product: Callable[[FloatArray], FloatArray],
    linear: FloatArray,
    bound: float,
    low: float,
    high: float,
    *,
    start: FloatArray | None = None,
    tolerance: float = TOLERANCE,
    nearest: Callable[[FloatArray, float, float, float], FloatArray] | None = None,
) -> FloatArray:
    """Return α that minimizes α'Qα / 2 - c'α with 0 <= α <= bound and low <= sum α <= high: (n,).

    Projected gradient steps with momentum, begun anew where they turn uphill.

    Parameters
    ----------
    product : α -> Qα; Q is symmetric, positive semidefinite on vectors that sum to 0.
    linear : c, (n,)
    start : (n,), where steps begin; None for equal weights.
    tolerance : the largest move of a weight after which steps end.
    nearest : the projection on the constraints; None for `project`.
    """
    n = len(linear)
    nearest = nearest or project
    alpha = ahead = nearest(np.ones(n), bound, low, high) if start is None else start
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
        step = nearest(ahead - rate * (product(ahead) - linear), bound, low, high)
        if float((ahead - step) @ (step - alpha)) > 0:
            momentum = 1.0
        following = (1.0 + math.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        ahead = step + (momentum - 1.0) / following * (step - alpha)
        moved = float(np.abs(step - alpha).max())
        alpha, momentum = step, following
        if moved < tolerance:
            break
    return alpha


def project(point: FloatArray, bound: float, low: float, high: float) -> FloatArray:
    """Return the nearest point with 0 <= α <= bound and low <= sum α <= high: (n,)."""
    plain: FloatArray = np.clip(point, 0.0, bound)
    total = float(plain.sum())
    if low <= total <= high:
        return plain
    wanted = low if total < low else high

    def excess(level: float) -> float:
        return float(np.clip(point - level, 0.0, bound).sum()) - wanted

    below, above = float(point.min()) - bound, float(point.max())
    # Newton's steps find the level up to rounding. Between `under` and `over`, where the sum is
    # known to be above and not above what is wanted, halves decide; outside of them, it is known
    # how. The level is that of halves alone, in a sixth of the sums.
    under, over, level = below, above, 0.0
    for _ in range(20):
        gap = excess(level)
        under, over = (max(under, level), over) if gap > 0 else (under, min(over, level))
        if abs(gap) <= 1e-14 * wanted:
            break
        free = (point > level) & (point < level + bound)
        level += gap / max(1, int(np.count_nonzero(free)))
    near = 4e-16 * float(np.abs(point).max())
    for end in (level - near, level + near):
        if under < end < over:
            under, over = (end, over) if excess(end) > 0 else (under, end)
    for _ in range(100):
        middle = (below + above) / 2.0
        if under < middle < over:
            under, over = (middle, over) if excess(middle) > 0 else (under, middle)
        below, above = (middle, above) if middle <= under else (below, middle)
    moved: FloatArray = np.clip(point - above, 0.0, bound)
    return moved


def project_quickly(point: FloatArray, bound: float, low: float, high: float) -> FloatArray:
    """Return what `project` does, to nine digits, in a tenth of the time for many rows: (n,)."""
    moved: FloatArray = np.clip(point, 0.0, bound)
    total = float(moved.sum())
    wanted = min(max(total, low), high)
    level = 0.0
    for _ in range(30):
        gap = float(moved.sum()) - wanted
        if abs(gap) <= 1e-9 * wanted:
            return moved
        # The sum is linear in the level as long as the same weights are within the bounds.
        level += gap / max(1, int(np.count_nonzero((moved > 0) & (moved < bound))))
        np.clip(point - level, 0.0, bound, out=moved)
    return project(point, bound, low, high)
