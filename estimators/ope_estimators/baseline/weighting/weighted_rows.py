"""Logged rows and their importance weights, and averages of them with transformed weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ope_bench import FloatArray, IntArray, weighted_terms
from ope_estimators.baseline.weighting.weighted_mean import (
    Mass,
    mean,
    self_normalized,
    standard_error,
    standard_errors,
    unknown_mass,
)
from ope_estimators.learning.folds import multiplicity

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

    def terms(self, used: FloatArray) -> FloatArray:
        """Each row's term with some weights, one row of weights or several: (..., n)."""
        terms: FloatArray = used * self.outcome
        return weighted_terms(
            terms if self.baseline is None else self.baseline + terms, self.row_weight
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

    @property
    def _counted_baseline(self) -> FloatArray | None:
        """The baseline with row weights: (n,)."""
        return None if self.baseline is None else weighted_terms(self.baseline, self.row_weight)

    def mean(self, used: FloatArray) -> tuple[float, float | None, FloatArray]:
        """Return the mean of the terms, its standard error, and the terms, (n,)."""
        terms = self.terms(used)
        return mean(terms), standard_error(terms, self.unit), terms

    def normalized(self, used: FloatArray) -> tuple[float, float | None, FloatArray]:
        """Return the same with weights that sum to n; terms and error are of first order.

        The standard error is None where a single unit has weight, as that of `self_normalized`.

        Raises
        ------
        PositivityViolation : all weights are zero.
        """
        mass, baseline = self.unsupported_mass, self._counted_baseline
        used = self.counted(used)
        value, error = self_normalized(used, self.outcome, self.unit, unsupported_mass=mass)
        total = float(used.sum())
        relative = used / (total / len(used))
        ratio = float(used @ self.outcome) / total
        linear: FloatArray = relative * (self.outcome - ratio)
        if baseline is None:
            return value, error, linear
        spread = baseline + relative * (self.outcome - value)
        error = None if error is None else standard_error(spread, self.unit)
        return value + float(baseline.mean()), error, baseline + linear

    def average(self, used: FloatArray, *, normalize: bool) -> float:
        """The estimate alone; weights that are all zero then give the mean baseline."""
        baseline, used = self._counted_baseline, self.counted(used)
        base = 0.0 if baseline is None else float(baseline.mean())
        total = float(used.sum()) if normalize else float(self.n)
        return base + (float(used @ self.outcome) / total if total > 0 else 0.0)

    def averages(self, used: FloatArray, *, normalize: bool) -> tuple[FloatArray, FloatArray]:
        """Estimates and standard errors with several rows of weights: (k,), (k,).

        There are at least two units.

        Parameters
        ----------
        used : (k, n)
        normalize : as `normalized`; weights that are all zero then give the mean baseline.
        """
        baseline = self._counted_baseline
        base = 0.0 if baseline is None else baseline
        estimate: FloatArray
        if normalize:
            used = self.counted(used)
            total = used.sum(axis=1, keepdims=True)
            share = np.divide(used, total, out=np.zeros_like(used), where=total > 0)
            ratio = share @ self.outcome
            terms = base + self.n * share * (self.outcome - ratio[:, None])
            estimate = ratio + np.mean(base)
        else:
            terms = self.terms(used)
            estimate = terms.mean(axis=1)
        return estimate, standard_errors(terms, self.unit)
