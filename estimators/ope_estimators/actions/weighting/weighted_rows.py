"""Logged rows and their importance weights, and averages of them with transformed weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ope_bench import (
    FloatArray,
    IntArray,
    LinearScore,
    Mass,
    Solution,
    unknown_mass,
    weighted_terms,
)
from ope_estimators.actions.weighting.weighted_mean import standard_errors
from ope_estimators.learning.folds import multiplicity
from ope_estimators.tuning.theory import shrinkage_by_theory

__all__ = ["WeightedRows"]


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """What a transform of the importance weights is applied to.

    Row i adds ``baseline_i + u_i outcome_i`` to the estimate, u being the transformed weights.

    Parameters
    ----------
    weight : (n,), importance weights w.
    propensity : (n,), the logging policy's probability (or density) of the logged action.
    outcome : (n,), what the weights multiply: the reward, or the residual of a reward model.
    unit : (n,), rows of one unit depend on each other.
    row_weight : (n,), for how many rows each row stands; None for one each.
    baseline : (n,), what is added to it, sum_a π1(a|x) q̂(x, a) in doubly robust forms; None
        for nothing.
    reward_range : computes the largest logged reward minus the smallest, which few rules use.
    unsupported_mass : computes the share of the target sample whose action was never logged, for
        messages.
    """

    weight: FloatArray
    propensity: FloatArray
    outcome: FloatArray
    unit: IntArray
    row_weight: FloatArray | None = None
    baseline: FloatArray | None = None
    reward_range: Callable[[], float] = float
    unsupported_mass: Mass = unknown_mass

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.weight)

    @property
    def n_units(self) -> int:
        """Number of units, by which rules say how much is known."""
        return len(np.unique(self.unit))

    def take(self, index: IntArray) -> WeightedRows:
        """Some of the rows."""
        return replace(
            self,
            weight=self.weight[index],
            propensity=self.propensity[index],
            outcome=self.outcome[index],
            unit=self.unit[index],
            row_weight=None if self.row_weight is None else self.row_weight[index],
            baseline=None if self.baseline is None else self.baseline[index],
        )

    def terms(self, score: LinearScore) -> FloatArray:
        """Each row's term of a score whose weights are not normalized: (..., n)."""
        weight: Any = score.weight
        terms = weight * score.outcome
        return weighted_terms(
            terms if score.baseline is None else score.baseline + terms, self.row_weight
        )

    def counted(self, used: FloatArray) -> FloatArray:
        """Weights times the rows that each row stands for, of mean one: (..., n)."""
        return (
            used if self.row_weight is None else used * (self.row_weight / self.row_weight.mean())
        )

    def repeated(self, values: FloatArray) -> FloatArray:
        """Return values of rows as often as the rows count in fits, for quantiles."""
        if self.row_weight is None:
            return values
        return np.repeat(values, multiplicity(self.row_weight))

    def score(self, used: FloatArray, *, normalize: bool = False) -> LinearScore:
        """Return what the value is made of with some weights."""
        return LinearScore(
            weight=used, outcome=self.outcome, baseline=self.baseline, normalized=normalize
        )

    def solve(self, score: LinearScore) -> Solution:
        """Return the value of these rows.

        Raises
        ------
        PositivityViolation : normalized weights are all zero.
        """
        return score.solve(self.unit, self.row_weight, self.unsupported_mass)

    @property
    def plain(self) -> float:
        """The estimate with the weights as they are."""
        return self.solve(self.score(self.weight)).value

    @property
    def mean_weight(self) -> float:
        """The mean of the weights, with those of rows."""
        return float(np.add.reduce(self.counted(self.weight))) / self.n

    @property
    def largest(self) -> float:
        """The largest weight."""
        return float(self.weight.max())

    def positive_quantiles(self, power: int = 1) -> tuple[float, float]:
        """Return the 5 % and 95 % quantiles of a power of the positive weights; zeros without any.

        A row counts as often as it does in fits.
        """
        positive = self.repeated(self.weight)
        positive = positive[positive > 0]
        if not len(positive):
            return 0.0, 0.0
        low, high = np.quantile(positive**power, [0.05, 0.95]).tolist()
        return low, high

    def shrinkage(self, delta: float) -> float:
        """Return the λ of `shrinkage_by_theory`."""
        return shrinkage_by_theory(self.weight, delta, self.n_units, self.row_weight)

    def _counted_parts(self, score: LinearScore) -> tuple[FloatArray, Any]:
        """Return weights and baseline, 0 for none, with the rows that each row stands for."""
        weight: Any = score.weight
        used, baseline = self.counted(weight), score.baseline
        return used, 0.0 if baseline is None else weighted_terms(baseline, self.row_weight)

    def value(self, score: LinearScore) -> float:
        """The value alone; normalized weights that are all zero give the mean baseline."""
        outcome: Any = score.outcome
        used, base = self._counted_parts(score)
        total = float(used.sum()) if score.normalized else float(self.n)
        return float(np.mean(base)) + (float(used @ outcome) / total if total > 0 else 0.0)

    def values(self, score: LinearScore) -> tuple[FloatArray, FloatArray]:
        """Values and standard errors with several rows of weights: (k,), (k,).

        There are at least two units. Normalized weights that are all zero give the mean baseline.

        Parameters
        ----------
        score : with weights (k, n), and a baseline (n,), (k, n) or None.
        """
        if not score.normalized:
            terms = self.terms(score)
            estimate: FloatArray = terms.mean(axis=1)
            return estimate, standard_errors(terms, self.unit)
        outcome: Any = score.outcome
        used, base = self._counted_parts(score)
        total = used.sum(axis=1, keepdims=True)
        share = np.divide(used, total, out=np.zeros_like(used), where=total > 0)
        ratio = share @ outcome
        terms = base + self.n * share * (outcome - ratio[:, None])
        return ratio + np.mean(base), standard_errors(terms, self.unit)
