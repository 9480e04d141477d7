"""Inverse propensity weighting, its base, and its weights transformed or clipped."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, replace
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

import numpy as np
from annotated_types import Gt

from ope_bench import (
    Access,
    Estimate,
    FloatArray,
    IntArray,
    LinearEstimator,
    LinearScore,
    ParameterError,
    Solution,
    UnavailableError,
    View,
    row_chunks,
    standard_error,
)
from ope_estimators.actions.weighting.intervals import WeightIntervals
from ope_estimators.actions.weighting.weighted_mean import never_logged, require_overlap
from ope_estimators.actions.weighting.weighted_rows import WeightedRows
from ope_estimators.tuning.cross_validation import cross_validate
from ope_estimators.tuning.estimated_mse import least_mse
from ope_estimators.tuning.rules import DataRule
from ope_estimators.tuning.slope import NORMAL_QUANTILE, slope

__all__ = [
    "GRID",
    "IPW",
    "ActionWeighting",
    "ClippedWeights",
    "TransformedWeights",
    "zero_and_geometric",
]

DATA_RULES = get_args(DataRule)

GRID = 30
"""Candidates of a tuned parameter."""


class ActionWeighting(LinearEstimator):
    """Base: an estimate from the logged rows and their importance weights.

        V̂ = (1/n) sum_i [ b_i + w_i y_i ],   w_i = π1(a_i|x_i) / π0(a_i|x_i)

    Here y is the reward and b is 0; `ResidualWeighted` replaces them by residuals of a reward
    model and its averages. A subclass with another formula has its own ``_score``, or
    ``_answer`` where its value is no mean of terms.
    """

    @property
    def action_masks(self) -> bool:
        """The policies respect them."""
        return True

    @property
    def access(self) -> Access:
        """Propensities and the target policy."""
        return Access.PROPENSITY | Access.TARGET_POLICY

    def _propensity(self, view: View) -> FloatArray:
        """The propensities of the logged actions: (n,)."""
        return view.propensity

    def _rows(self, view: View) -> WeightedRows:
        """The logged rows with their importance weights."""
        propensity = self._propensity(view)
        weight = view.target_policy.probability(view.context, view.action) / propensity
        return WeightedRows(
            weight,
            propensity,
            view.reward,
            view.unit,
            view.row_weight,
            reward_range=lambda: float(np.ptp(view.reward)),
            unsupported_mass=lambda: never_logged(view),
        )

    def _score(self, rows: WeightedRows, used: FloatArray) -> LinearScore:
        """What the value is made of with some weights, (n,) or (k, n)."""
        return rows.score(used)

    def score(self, view: View) -> LinearScore:
        """Return what the value is made of."""
        rows = self._rows(view)
        return self._score(rows, rows.weight)

    def _answer(self, rows: WeightedRows) -> Solution:
        """The estimate from the rows."""
        return rows.solve(self._score(rows, rows.weight))

    def estimate(self, view: View) -> Estimate:
        """The estimate, its standard error and the weights that were used.

        Raises
        ------
        PositivityViolation : weights that are to sum to n are all zero; or, with continuous
            actions, all importance weights are zero.
        """
        rows = self._rows(view)
        answer = self._answer(rows)
        require_overlap(view, rows.weight, answer.value)
        return Estimate(
            answer.value,
            answer.standard_error,
            answer.used,
            {"mean_weight": rows.mean_weight, **answer.diagnostics},
            weight_space=self.weight_space,
            terms=answer.centered_terms,
        )


class TransformedWeights(ActionWeighting):
    """Base: a mean of terms in which u(w_i), not w_i, multiplies what was observed.

        V̂ = (1/n) sum_i [ b_i + u(w_i) y_i ]

    Here y is the reward and b is 0; in doubly robust forms y is the residual of a reward model,
    b its average over the target policy. A subclass names its parameter in ``tuned``; the
    parameter is a number or the name of a rule. It implements ``_transform`` and, for the rules
    ``mse``, ``slope`` and ``ocv``, ``_candidates``; for another rule, ``_by_formula``.

    Parameters
    ----------
    ladder : values among which the rule chooses, from the least bias on: ``slope`` walks them as
        given. None for values made from the weights, which ``slope`` orders by the widths of
        their intervals.
    """

    added_parameters: ClassVar[Mapping[str, Any]] = {"ladder": None}

    tuned: ClassVar[str]
    """The name of the transform's parameter."""

    _: KW_ONLY
    ladder: tuple[float, ...] | None = None

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Draw the seed of the splits for ``ocv``; other rules draw nothing."""
        super().fit(view, rng=rng, device=device)
        if self.ladder is not None and getattr(self, self.tuned) not in DATA_RULES:
            msg = (
                f"ladder is for {self.tuned}={'|'.join(DATA_RULES)}, which choose among its values"
            )
            raise ParameterError(msg)
        if getattr(self, self.tuned) == "ocv":
            self.splits_seed_ = int(rng.integers(2**63))
        return self

    @abstractmethod
    def _transform(self, rows: WeightedRows, parameter: float | FloatArray) -> FloatArray:
        """The transformed weights, (n,), or (k, n) for a (k, 1) column of parameters."""

    @abstractmethod
    def _candidates(self, rows: WeightedRows) -> FloatArray:
        """Values among which rules choose, the first leaving the weights as they are: (k,)."""

    def _by_formula(self, rows: WeightedRows) -> float:
        """The value of the rule that is none of ``mse``, ``slope`` and ``ocv``."""
        raise NotImplementedError

    def _score_at(self, rows: WeightedRows, parameter: float | FloatArray | None) -> LinearScore:
        """What the value is made of with a parameter or several; None leaves weights alone."""
        used = rows.weight if parameter is None else self._transform(rows, parameter)
        return self._score(rows, used)

    def score(self, view: View) -> LinearScore:
        """Return the score with the parameter, chosen now where a rule was named."""
        rows = self._rows(view)
        return self._score_at(rows, self._parameter(rows))

    def scores(self, view: View, parameters: FloatArray | Sequence[float]) -> list[LinearScore]:
        """Return the score with each parameter, and that of the weights as they are."""
        if getattr(self, self.tuned) == "ocv":
            msg = f"{self.tuned}=ocv needs all rows at once; name another rule, or sample rows"
            raise UnavailableError(msg)
        rows = self._rows(view)
        found = [self._score_at(rows, float(one)) for one in parameters]
        return found if len(found) == 1 else [*found, self._score_at(rows, None)]

    def _answer(self, rows: WeightedRows) -> Solution:
        parameter = self._parameter(rows)
        found = rows.solve(self._score_at(rows, parameter))
        return replace(found, diagnostics={self.tuned.rstrip("_"): parameter})

    def parameters(self, rows: WeightedRows) -> FloatArray:
        """Return the parameter; where a rule of the data chooses, its candidates."""
        rule = getattr(self, self.tuned)
        if not isinstance(rule, str):
            return np.array([rule], dtype=np.float64)
        if rule not in DATA_RULES:
            return np.array([self._by_formula(rows)])
        return self._candidates(rows) if self.ladder is None else np.array(self.ladder)

    def choose(
        self, rows: WeightedRows, candidates: FloatArray, estimates: FloatArray, errors: FloatArray
    ) -> int:
        """Return the number of the candidate that the rule ``mse`` or ``slope`` chooses."""
        if getattr(self, self.tuned) == "slope":
            return slope(estimates, NORMAL_QUANTILE * errors, in_order=self.ladder is not None)
        return least_mse(errors, self._bias(rows, candidates, estimates))

    def _parameter(self, rows: WeightedRows) -> float:
        """The parameter as a number, chosen now where a rule was named."""
        values, rule = self.parameters(rows), getattr(self, self.tuned)
        return float(values[self._choice(rule, rows, values) if rule in DATA_RULES else 0])

    def _choice(self, rule: str, rows: WeightedRows, candidates: FloatArray) -> int:
        """Index of the candidate that the rule chooses."""
        if (rows.unit == rows.unit[0]).all() or len(candidates) < 2:
            # One unit has no spread to compare candidates by.
            return 0
        estimate, error = self._evaluate(rows, candidates)
        if rule != "ocv":
            return self.choose(rows, candidates, estimate, error)

        def on_part(k: int, index: IntArray) -> float:
            return self._point(rows.take(index), candidates[k])

        validate = rows.terms(rows.score(rows.weight))
        errors = error, standard_error(validate, rows.unit) or 0.0
        rng = np.random.default_rng(self.splits_seed_)
        return cross_validate(on_part, validate, errors, rows.unit, rng)

    def _bias(
        self, rows: WeightedRows, candidates: FloatArray, estimate: FloatArray
    ) -> FloatArray:
        """Estimated bias of each candidate, or a bound on it, for the rule ``mse``: (k,)."""
        bias: FloatArray = estimate - estimate[0]
        return bias

    def _point(self, rows: WeightedRows, parameter: float) -> float:
        """The estimate alone, which exists for a single row, too."""
        return rows.value(self._score_at(rows, parameter))

    def _evaluate(
        self, rows: WeightedRows, candidates: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Estimate and standard error with each candidate: (k,), (k,)."""
        parts = [
            rows.values(self._score_at(rows, candidates[chunk, None]))
            for chunk in row_chunks(len(candidates), rows.n)
        ]
        estimates, errors = zip(*parts, strict=True)
        return np.concatenate(estimates), np.concatenate(errors)


def zero_and_geometric(first: float, last: float) -> FloatArray:
    """Zero, then values in geometric progression from the first to the last: (GRID,)."""
    return np.concatenate([[0.0], np.geomspace(first, last, GRID - 1)])


class ClippedWeights(TransformedWeights):
    """Base: weights cut at a limit, u(w) = min(w, clip).

    Parameters
    ----------
    clip : largest weight; larger ones are cut. A number; None for no limit; ``root-n``, the
        square root of the number of units (rows, where there are none); or a rule that chooses
        among 30 limits in geometric progression, from the largest weight to the 5 % quantile of
        the positive ones: ``mse``, ``slope`` or ``ocv``.
    """

    tuned = "clip"

    clip: Annotated[float, Gt(0)] | Literal["root-n", "mse", "slope", "ocv"] | None = None

    def _transform(self, rows: WeightedRows, parameter: float | FloatArray) -> FloatArray:
        return np.minimum(rows.weight, parameter)

    def _candidates(self, rows: WeightedRows) -> FloatArray:
        low, high = rows.positive_quantiles()[0], rows.largest
        return np.geomspace(high, low, GRID) if 0 < low < high else np.array([high or 1.0])

    def parameters(self, rows: WeightedRows) -> FloatArray:
        """Return the limit, or its candidates."""
        return np.array([math.inf]) if self.clip is None else super().parameters(rows)

    def _by_formula(self, rows: WeightedRows) -> float:
        return math.sqrt(rows.n_units)

    def _answer(self, rows: WeightedRows) -> Solution:
        if self.clip is None:
            return rows.solve(self._score(rows, rows.weight))
        answer = super()._answer(rows)
        answer.diagnostics["clipped_share"] = float((rows.weight > answer.used).mean())
        return answer


class IPW(WeightIntervals, ClippedWeights):
    """Logged rewards weighted by how much more often the target policy takes the action.

        V̂ = (1/n) sum_i w_i r_i,   w_i = π1(a_i|x_i) / π0(a_i|x_i)

    With continuous actions the probabilities are densities. Rewards times c give c times the
    estimate; rewards plus c do not give the estimate plus c.

    Assumptions: known propensities; π0(a|x) > 0 wherever π1(a|x) > 0.
    Fails when: the policies overlap little: the variance is that of the weights. Where π0 is 0
    and π1 is not, it stays finite and is off by -E sum_a 1{π0(a|x) = 0} π1(a|x) q(x, a).
    Continuous actions and all weights zero: PositivityViolation.

    Parameters
    ----------
    clip : largest weight; larger ones are cut, which trades variance for bias toward zero. A
        number; ``root-n``, the square root of the number of units (rows, where there are none);
        ``mse``, ``slope`` or ``ocv`` to choose among 30 limits; None for no limit.
    normalize : divide by the sum of the clipped weights instead of n; then it is `IPWS`.
    interval : ``asymptotic``, ``empirical-likelihood``, ``guaranteed``, ``anytime`` or
        ``bootstrap``.
    reward_range : smallest and largest possible reward, where the environment does not declare
        them: ``guaranteed`` needs a range, ``empirical-likelihood`` else takes that of the logs.
    level : of the interval.
    resamples : number of bootstrap samples.
    ladder : values for a rule to choose among, in the order of ``slope``; None for those above.
    largest_unit : most rows of a unit, and upper_end : form of the upper end, of bets.
    propensity : ``given``, or ``estimated`` by a classifier of actions, out of fold, calibrated.
    propensity_calibration : of estimated ones: ``mixture``, or ``isotonic`` inverse weights.
    propensity_classifier : its name.
    propensity_folds : its folds, by unit; 1 fits in-sample.

    References
    ----------
    A generalization of sampling without replacement from a finite universe (Horvitz and
    Thompson, 1952). Truncated importance sampling (Ionides, 2008), for ``clip``. Logarithmic
    smoothing for pessimistic off-policy evaluation, selection and learning (Sakhi, Aouali,
    Alquier and Chopin, 2024), for ``root-n``; for rewards that are not binary that paper clips
    the products w r, here the weights are clipped.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(IPW(), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    added_parameters: ClassVar[Mapping[str, Any]] = {"normalize": False}

    normalize: bool = False

    def _score(self, rows: WeightedRows, used: FloatArray) -> LinearScore:
        """The estimate is the mean of weight times reward, or that over the mean weight."""
        return LinearScore(weight=used, outcome=rows.outcome, normalized=self.normalize)
