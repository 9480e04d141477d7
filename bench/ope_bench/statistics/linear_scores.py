"""What the value of most estimators is made of: weights, outcomes and a baseline of each row.

An estimator that says so needs no more: value, standard error and terms follow here, those of a
log in batches from sums of the same columns.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ope_bench.contracts.arrays import FloatArray, IntArray, weighted_terms
from ope_bench.contracts.plugins import Diagnostic, Estimate, Estimator, WeightSpace
from ope_bench.contracts.view import View
from ope_bench.statistics.unit_errors import (
    Mass,
    mean,
    spread,
    standard_error,
    sum_by_unit,
    unknown_mass,
    weight_shares,
)


@dataclass(frozen=True, eq=False)
class Solution:
    """The estimate that follows from all rows.

    Parameters
    ----------
    value, standard_error : the estimate.
    used : (n,), the weights that were really used; none without weights.
    diagnostics : beside the mean weight.
    terms : (n,), terms with the spread of the value, but for a constant; None where unknown.
    """

    value: float
    standard_error: float | None
    used: FloatArray
    diagnostics: dict[str, Diagnostic] = field(default_factory=dict)
    terms: FloatArray | None = None

    @property
    def centered_terms(self) -> FloatArray | None:
        """The terms, shifted so that their mean is the value: (n,)."""
        return None if self.terms is None else self.terms + (self.value - mean(self.terms))


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearScore:
    """What a value is made of, row by row.

        V̂ = (1/n) sum_i b_i + sum_i u_i y_i / n

    In batches of rows, each number must depend on its own row (and on shared fits) alone.

    Parameters
    ----------
    weight : (n,), u; None without weighted rows, and then there is no standard error.
    outcome : (n,), y, what the weights multiply: rewards, or residuals of a reward model.
    baseline : (n,), b; None for zeros.
    normalized : divide by sum_i u_i in place of n.
    control : (n,), c; weigh around the constant sum_i c_i y_i / sum_i c_i, which is added; where
        sum_i c_i is not positive, the weights are normalized instead.
    """

    weight: FloatArray | None = None
    outcome: FloatArray | None = None
    baseline: FloatArray | None = None
    normalized: bool = False
    control: FloatArray | None = None

    def solve(
        self,
        unit: IntArray,
        row_weight: FloatArray | None = None,
        unsupported_mass: Mass = unknown_mass,
    ) -> Solution:
        """Return the value of all rows, and its standard error linearized in all means.

        The error is None for a single unit, and with normalized weights where a single unit has
        weight: the value is then its reward, and all scores are 0 whatever the error.

        Parameters
        ----------
        unit : (n,), rows of one unit depend on each other.
        row_weight : (n,), for how many rows each row stands; None for one each.
        unsupported_mass : for messages.

        Raises
        ------
        PositivityViolation : normalized weights are all zero.
        """
        weight, outcome = self.weight, self.outcome
        baseline: Any = self.baseline
        facts: dict[str, Diagnostic] = {}
        if weight is None or outcome is None:
            return Solution(_average(baseline, row_weight), None, np.empty(0))
        normalized = self.normalized
        if self.control is not None:
            total = _average(self.control, row_weight)
            normalized = total <= 0
            facts = {"baseline": None, "fallback": "ipws"}
            if not normalized:
                constant = _average(self.control * outcome, row_weight) / total
                facts = {"baseline": constant, "fallback": None}
                outcome = outcome - constant
                baseline = constant if baseline is None else baseline + constant
        if not normalized:
            terms = weight * outcome
            terms = weighted_terms(terms if baseline is None else baseline + terms, row_weight)
            return Solution(mean(terms), standard_error(terms, unit), weight, facts, terms)
        if baseline is not None:
            baseline = weighted_terms(baseline, row_weight)
        used = weight if row_weight is None else weight * (row_weight / row_weight.mean())
        value, error = self_normalized(used, outcome, unit, unsupported_mass=unsupported_mass)
        total = float(used.sum())
        relative = used / (total / len(used))
        linear = relative * (outcome - float(used @ outcome) / total)
        if baseline is None:
            return Solution(value, error, weight, facts, linear)
        terms = baseline + relative * (outcome - value)
        error = None if error is None else standard_error(terms, unit)
        value += float(baseline.mean())
        return Solution(value, error, weight, facts, baseline + linear)


def _average(values: Any, row_weight: FloatArray | None) -> float:
    return float(np.average(values, weights=row_weight))


def self_normalized(
    weights: FloatArray,
    reward: FloatArray,
    unit: IntArray,
    *,
    unsupported_mass: Mass = unknown_mass,
) -> tuple[float, float | None]:
    """Return sum(w r) / sum(w) and its standard error by the delta method.

    Scores are summed over the rows of a unit, and the factor sqrt(k / (k - 1)) for k units is
    that of `standard_error`; the delta method alone has none.
    """
    share = weight_shares(weights, unsupported_mass)
    value = float(share @ reward)
    if np.count_nonzero(sum_by_unit(share, unit)) < 2:
        return value, None
    return value, spread(sum_by_unit(share * (reward - value), unit))


class LinearEstimator(Estimator):
    """Base of estimators that say what their value is made of; those run on batches of rows, too.

    A subclass has the method ``score``. One that chooses among parameters by the weights of all
    rows has ``parameters`` and ``scores`` besides.
    """

    weight_space: ClassVar[WeightSpace] = "action"

    weight_intervals: ClassVar[bool] = False
    """Whether its parameter ``interval`` offers those of weights and rewards."""

    in_batches: ClassVar[bool] = True
    """Whether its scores are all of it; not in a class that has a ``fit`` or an ``estimate`` of
    its own, but inherits them, unless it says so."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = vars(cls).keys()
        if "in_batches" not in own and own & {"score", "scores", "fit", "estimate"}:
            cls.in_batches = bool(own & {"score", "scores"})

    @abstractmethod
    def score(self, view: View) -> LinearScore:
        """Return what the value is made of, for the view that ``fit`` was called with."""

    def parameters(self, rows: Any) -> FloatArray | Sequence[float]:
        """Return the parameters among which `choose` chooses; none where nothing is tuned.

        Parameters
        ----------
        rows : what is known of all weights: ``n_units``, ``largest``, ``shrinkage(delta)`` and
            ``positive_quantiles(power)``.
        """
        return ()

    def scores(self, view: View, parameters: FloatArray | Sequence[float]) -> list[LinearScore]:
        """Return what the value is made of with each parameter.

        Where there are several, one more is that with the weights as they are.
        """
        return [self.score(view)]

    def choose(
        self, rows: Any, candidates: FloatArray, estimates: FloatArray, errors: FloatArray
    ) -> int:
        """Return the number of the parameter to use.

        Parameters
        ----------
        rows : as for `parameters`, with ``plain``, the estimate with the weights as they are.
        candidates : (k,), the parameters.
        estimates, errors : (k,), with each of them.
        """
        return 0

    def estimate(self, view: View) -> Estimate:
        """Return the value, its standard error, and its terms."""
        score = self.score(view)
        found = score.solve(view.unit, view.row_weight)
        if score.weight is None:
            return Estimate(found.value)
        weight = _average(score.weight, view.row_weight)
        return Estimate(
            found.value,
            found.standard_error,
            score.weight,
            {"mean_weight": weight, **found.diagnostics},
            weight_space=self.weight_space,
            terms=found.centered_terms,
        )
