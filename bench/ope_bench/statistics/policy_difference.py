"""The difference of two randomized policies, from a log of each and both policies' probabilities.

With ρ the shares of rows of the two logs A and B, and the rows of both,

    V_A - V_B = E[g r],   g = (p_A - p_B) / (ρ_A p_A + ρ_B p_B)

which has no noise from actions that both policies like equally. Any f(x) may be subtracted from
the reward, since g averages 0 in every context. The ratio of the probabilities alone counts; given
context and action it says how likely a row is of log A,

    π = ρ_A p_A / (ρ_A p_A + ρ_B p_B)

so that sums of (1{row of A} - π) φ(x, a) test it, for any φ.

References
----------
Optimal balanced weighting of two loggers: "Effective Evaluation using Logged Bandit Feedback from
Multiple Loggers" (Agarwal, Basu, Schnabel and Joachims, 2017), equation 5, for a difference.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.plugins import Interval
from ope_bench.contracts.random import stream
from ope_bench.statistics.value_intervals import confidence_sequence

FEW_REWARDED = 20
"""Effective rewarded rows below which the spread of all rewards bounds the error from below."""

ERROR_OF_CHECKS = 0.04
"""Probability with which any check of right propensities fails, where rows are many."""

BINS, MOST_SUBJECTS, FOLDS = 5, 30, 5

LEAST_ROWS, LEAST_INFORMATION, SURE = 50, 10.0, 15.0
"""Rows and binomial variance below which a group is not tested, unless it is this far off."""


@dataclass(frozen=True, kw_only=True)
class TwoLogs:
    """The rows of two logs, each with both policies' probabilities of its action.

    Parameters
    ----------
    in_a : (n,), whether the row is of log A.
    a, b : (n,), the policies' probabilities.
    reward : (n,)
    row_weight : (n,), for how many rows each row stands.
    unit : (n,), rows of one unit depend on each other.
    """

    in_a: np.ndarray[tuple[int], np.dtype[np.bool_]]
    a: FloatArray
    b: FloatArray
    reward: FloatArray
    row_weight: FloatArray
    unit: IntArray

    @cached_property
    def share(self) -> float:
        """Share of the rows that are of log A."""
        return float(self.row_weight[self.in_a].sum() / self.row_weight.sum())

    @cached_property
    def mixed(self) -> FloatArray:
        """Probability of the action over both logs: (n,)."""
        return np.asarray(self.share * self.a + (1 - self.share) * self.b)

    @cached_property
    def g(self) -> FloatArray:
        """The weights g: (n,); 0 where the probabilities differ by rounding."""
        apart = ~np.isclose(self.a, self.b, rtol=1e-12, atol=0)
        return np.asarray(np.where(apart, self.a - self.b, 0.0) / self.mixed)

    def by_unit(self, terms: FloatArray) -> tuple[float, FloatArray]:
        """Return the sum of terms over the rows, and each unit's part of its error: (n_units,)."""
        weighted = self.row_weight * terms
        centered = np.empty_like(weighted)
        for arm in (self.in_a, ~self.in_a):
            weight = self.row_weight[arm]
            units = len(np.unique(self.unit[arm]))
            rest = weight * (terms[arm] - weighted[arm].sum() / weight.sum())
            centered[arm] = rest * math.sqrt(units / max(units - 1, 1))
        return float(weighted.sum()), np.asarray(np.bincount(self.unit, weights=centered), float)

    def total(self, terms: FloatArray) -> tuple[float, float]:
        """Return the sum of terms over the rows, and its standard error by unit."""
        total, parts = self.by_unit(terms)
        return total, math.sqrt(float(parts @ parts))

    def mean(self, terms: FloatArray) -> tuple[float, float, float]:
        """Return the mean of terms, its standard error, and how many units carry that error.

        Units count by their squared parts of the error: few large ones leave it uncertain.
        """
        total, parts = self.by_unit(terms)
        rows = float(self.row_weight.sum())
        largest, carry = float(np.abs(parts).max()), float(len(parts))
        if largest > 0:
            squares = (parts / largest) ** 2
            carry = 1 + float(squares.sum() ** 2 / (squares @ squares))
        return total / rows, math.sqrt(float(parts @ parts)) / rows, carry

    def difference(self, predicted: FloatArray | float = 0.0) -> tuple[float, float | None, float]:
        """Return the difference, its standard error, and how many units carry the error.

        There is no error where no reward tells the policies apart.

        Parameters
        ----------
        predicted : (n,), the reward that a row's context predicts, made without its unit.
        """
        rest = self.reward - predicted
        # What a model of a constant reward leaves is rounding.
        rest = np.where(np.abs(rest) > 1e-12 * np.abs(self.reward).max(), rest, 0.0)
        value, error, carry = self.mean(self.g * rest)
        size = np.abs(self.row_weight * self.g * (self.reward - np.median(self.reward)))
        size = np.bincount(self.unit, weights=size)
        if not self.g.any():
            return 0.0, 0.0, carry
        if size.sum() ** 2 < FEW_REWARDED * (size @ size) or not size.any():
            spread = math.sqrt(np.cov(rest, aweights=self.row_weight, ddof=0))
            least = np.bincount(self.unit, weights=np.abs(self.row_weight * self.g))
            floor = float(np.linalg.norm(least)) * spread / float(self.row_weight.sum())
            if error < floor:
                error, carry = floor, float(len(least))
            if error == 0:
                return value, None, carry
        return value, error, carry

    def difference_of_means(self) -> tuple[float, float, float]:
        """Return the mean reward of log A minus that of log B, with error and units as above."""
        return self.mean(self.reward * np.where(self.in_a, 1 / self.share, -1 / (1 - self.share)))

    def predict(self, features: FloatArray) -> FloatArray:
        """Return rewards that features predict, out of fold by unit, by ridge regression: (n,).

        Rows count with g², which makes the variance of the difference least. The constant takes
        the place of the features where these predict no better.

        Parameters
        ----------
        features : (n, d)
        """
        count = int(self.unit.max()) + 1
        fold = stream("two logs").permutation(count)[self.unit] % FOLDS
        weight = self.row_weight * self.g**2
        scale = features.std(axis=0)
        scaled = (features - features.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
        design = np.column_stack([np.ones(len(fold)), scaled])
        constant, linear = np.zeros(len(fold)), np.zeros(len(fold))
        for out in range(FOLDS):
            fit = fold != out
            used = weight[fit]
            if not used.any():
                continue
            root = np.sqrt(used / used.mean())
            gram = (design[fit] * root[:, None]).T
            penalty = np.diag([0.0, *np.ones(features.shape[1])])
            best = np.linalg.lstsq(gram @ gram.T + penalty, gram @ (root * self.reward[fit]))[0]
            constant[~fit] = used @ self.reward[fit] / used.sum()
            linear[~fit] = design[~fit] @ best
        left = [float(weight @ (self.reward - one) ** 2) for one in (linear, constant)]
        return linear if left[0] < left[1] else constant

    def sequence(
        self, reward_range: tuple[float, float], *, level: float = 0.95
    ) -> Interval | None:
        """Return the interval that holds after every row together; None for units and weights.

        Rows of the two logs are taken in blocks, in their order: one of the smaller log, and of
        the other as many as there are for it, a ratio that was set before the first row. In each
        block g r sums to its number of rows times the difference, in expectation.
        """
        n_a = int(self.in_a.sum())
        counts = n_a, len(self.in_a) - n_a
        if len(np.unique(self.unit)) < len(self.unit) or np.ptp(self.row_weight) > 0:
            return None
        blocks = min(counts)
        block = np.empty(len(self.in_a), dtype=np.int64)
        sizes = []
        for arm, count in zip((self.in_a, ~self.in_a), counts, strict=True):
            block[arm] = np.arange(count) * blocks // count
            sizes.append(np.bincount(block[arm], minlength=blocks))
        size = sizes[0] + sizes[1]
        share = (sizes[0] / size)[block]
        g = (self.a - self.b) / (share * self.a + (1 - share) * self.b)
        most = float(max((size / sizes[0]).max(), (size / sizes[1]).max()))
        order = np.argsort(block, kind="stable")
        found = confidence_sequence(
            np.maximum(1 + g[order] / most, 0.0),
            self.reward[order],
            reward_range=reward_range,
            unit=block[order],
            level=level,
            difference=True,
            largest_unit=int(size.max()),
        )
        span = reward_range[1] - reward_range[0]
        low, high = max(found.low * most, -span), min(found.high * most, span)
        return Interval(low, high, level, "anytime")

    def checks(
        self,
        action: IntArray | None = None,
        features: FloatArray | None = None,
        predicted: FloatArray | float = 0.0,
    ) -> tuple[dict[str, float], float]:
        """Return the largest statistic of each check, and the limit of all of them.

        Parameters
        ----------
        action : (n,), codes of the actions.
        features : (n, d), numbers of the contexts.
        predicted : as for `difference`.
        """
        of_a = self.share * self.a / self.mixed
        residual = self.in_a - of_a
        information = self.row_weight * of_a * (1 - of_a)
        found: dict[str, list[float]] = {}
        from scipy.special import ndtri

        def test(name: str, phi: FloatArray) -> None:
            total, error = self.total(residual * phi)
            rows = phi != 0
            known = float(information[rows].sum()) >= LEAST_INFORMATION or abs(total) > SURE
            if rows.sum() >= LEAST_ROWS and known:
                found.setdefault(name, []).append(_in_errors(total, error, phi))

        test("mean g-weight", np.ones(len(residual)))
        edges = np.unique(np.quantile(of_a, np.arange(1, BINS) / BINS))
        bins = np.searchsorted(edges, of_a)
        for one in np.unique(bins):
            test("ratio of the propensities", (bins == one).astype(np.float64))
        for code in frequent(action):
            test("actions", (action == code).astype(np.float64))
        if features is not None:
            # Ranks, because a few large values would decide.
            for column in features.T[:MOST_SUBJECTS]:
                _, place, count = np.unique(column, return_inverse=True, return_counts=True)
                test("context", ((count.cumsum() - count / 2) / len(column) - 0.5)[place])
        least = np.minimum(self.a, self.b)
        enough = least >= LEAST_INFORMATION / max(min(self.in_a.sum(), (~self.in_a).sum()), 1)
        chance = np.where(self.in_a, self.a, self.b)
        per_action = np.where(enough, np.where(self.in_a, 1 / self.share, 1 / (self.share - 1)), 0)
        per_action = per_action / chance
        if enough.sum() >= LEAST_ROWS:
            found["inverse propensities"] = [_in_errors(*self.total(per_action), per_action)]
        for name, arm in (("A", self.in_a), ("B", ~self.in_a)):
            for z in self._inverse(arm, chance, action):
                found.setdefault(f"inverse propensities of {name}", []).append(z)
        test("rewards beyond the actions", self.reward - predicted - float(np.mean(self.reward)))
        tests = max(1, sum(map(len, found.values())))
        limit = float(ndtri(1 - ERROR_OF_CHECKS / (2 * tests)))
        return {name: max(values) for name, values in found.items()}, limit

    def _inverse(
        self,
        arm: np.ndarray[tuple[int], np.dtype[np.bool_]],
        chance: FloatArray,
        action: IntArray | None,
    ) -> Iterator[float]:
        """Yield how far the mean of 1{a}/p of each frequent action is above 1, in errors."""
        rows = float(self.row_weight[arm].sum())
        for code in frequent(action):
            hit = arm & (action == code) & (chance >= LEAST_INFORMATION / rows)
            if hit.sum() >= LEAST_ROWS / 2:
                inverse = np.where(hit, 1 / chance, 0.0)
                total, error = self.total(inverse)
                yield _in_errors(max(total - rows, 0.0), error, inverse)


def _in_errors(total: float, error: float, terms: FloatArray) -> float:
    """Return a sum over its error; where no term varies it is 0 or infinite."""
    tiny = 1e-9 * float(np.abs(terms).sum())
    if error > tiny:
        return abs(total) / error
    return math.inf if abs(total) > tiny else 0.0


def frequent(action: IntArray | None) -> IntArray:
    """Return the codes of the most frequent actions."""
    if action is None:
        return np.empty(0, dtype=np.int64)
    return np.argsort(-np.bincount(action), kind="stable")[:MOST_SUBJECTS]
