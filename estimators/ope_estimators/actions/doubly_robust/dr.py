"""The doubly robust estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt

from ope_bench import (
    Access,
    Estimate,
    FloatArray,
    LinearEstimator,
    LinearScore,
    UnavailableError,
    View,
    betting_interval_of_terms,
    check_rewards,
    largest_shortfall,
)
from ope_estimators.actions.doubly_robust.bounded_terms import bounded_terms
from ope_estimators.actions.weighting.intervals import IntervalOptions
from ope_estimators.actions.weighting.reward_limits import declared_limits, without_interval
from ope_estimators.actions.weighting.weighted_mean import clipped
from ope_estimators.nuisance.propensity import EstimatedPropensity, refuse_bets
from ope_estimators.nuisance.reward import FittedReward
from ope_estimators.nuisance.reward_based import ActionRewardBased

__all__ = ["DR"]


DRInterval = Literal["asymptotic", "guaranteed", "bootstrap"]


class DR(IntervalOptions, EstimatedPropensity, ActionRewardBased, LinearEstimator):
    """The direct method plus importance-weighted residuals of its model.

        V̂ = (1/n) sum_i [ sum_a π1(a|x_i) q̂(x_i, a) + w_i (r_i - q̂(x_i, a_i)) ],
        w_i = π1(a_i|x_i) / π0(a_i|x_i)

    q̂ at row i comes from a model that was fitted without the row's fold, in the sum over actions
    and in the residual: given the other folds, the terms of a fold are then independent and
    unbiased for any q̂, and their variance gives the standard error.

    Assumptions: known propensities; π0(a|x) > 0 wherever π1(a|x) > 0.
    Fails when: support is missing: the bias is E sum_a 1{π0(a|x) = 0} π1(a|x) (q̂ - q)(x, a).
    Large weights inflate the variance of the residuals.

    Parameters
    ----------
    regressor : a regressor's name; ``given`` takes the problem's predictions.
    regressor_params : its parameters.
    action_features : ``one-hot``, ``ordinal``, ``embedding`` or ``separate``; as for `DM`.
    cross_fit : number of folds, by unit; 1 fits in-sample, which shrinks residuals and standard
        error.
    clip : largest weight of a residual; larger ones are cut.
    interval : what is given beside the standard error. ``asymptotic``: nothing, the standard error
        has a normal interval; ``bootstrap``, with all models fitted anew; ``guaranteed``, which
        covers at least its level, by bets on terms that are bounded below. It needs the logging
        policy's probabilities of all actions, finitely many, and its models are fitted to the
        rows before.
    level : of the interval.
    reward_range : smallest and largest possible reward, for ``guaranteed``, where the environment
        does not declare them.
    largest_unit : the most rows that a unit can have, known before the log: ``guaranteed`` needs
        it where rows have units, because sizes may tell of rewards.
    resamples : number of bootstrap samples.
    propensity : ``given``, or ``estimated`` by a classifier of actions, out of fold, calibrated.
    propensity_calibration : of estimated ones: ``mixture``, or ``isotonic`` inverse weights.
    propensity_classifier : its name.
    propensity_folds : its folds, by unit; 1 fits in-sample.

    References
    ----------
    Doubly robust policy evaluation and learning (Dudík, Langford and Li, 2011). Double/debiased
    machine learning for treatment and structural parameters (Chernozhukov et al., 2018), for
    cross-fitting.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(DR("ridge"), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    added_parameters: ClassVar[Mapping[str, Any]] = {"reward_range": None, "largest_unit": None}

    cross_fit: Annotated[int, Ge(1)] = 5
    clip: Annotated[float, Gt(0)] | None = None
    _: KW_ONLY
    interval: DRInterval = "asymptotic"  # type: ignore[assignment]  # has one more than the base
    reward_range: tuple[float, float] | None = None
    largest_unit: Annotated[int, Ge(1)] | None = None

    @property
    def access(self) -> Access:
        """The logging policy as well, where the interval sums over its actions."""
        needed = super().access if self._estimates else Access.PROPENSITY | super().access
        return needed | Access.LOGGING_POLICY if self.interval == "guaranteed" else needed

    def score(self, view: View) -> LinearScore:
        """Return the model's averages, and the residuals with their weights."""
        return self._score(view, self._ratio(view))

    def _ratio(self, view: View) -> FloatArray:
        return view.target_policy.probability(view.context, view.action) / self._propensity(view)

    def _score(self, view: View, ratio: FloatArray) -> LinearScore:
        return LinearScore(
            weight=ratio if self.clip is None else np.minimum(ratio, self.clip),
            outcome=view.reward - self.reward_.logged(view.context, view.action),
            baseline=self._expected_reward(view),
        )

    def estimate(self, view: View) -> Estimate:
        """Return the mean of the doubly robust terms and its standard error."""
        ratio = self._ratio(view)
        score = self._score(view, ratio)
        _, diagnostics = clipped(ratio, self.clip)
        if view.row_weight is not None:
            diagnostics["mean_weight"] = float(np.average(ratio, weights=view.row_weight))
        if self.cross_fit > 1 and score.outcome is not None:  # in-sample it is no signal
            diagnostics |= self._signal(view, score.outcome)
        solved = score.solve(view.unit, view.row_weight)
        found = Estimate(
            solved.value,
            solved.standard_error,
            score.weight,
            diagnostics,
            weight_space="action",
            terms=solved.terms,
        )
        return found if self.interval == "asymptotic" else self._with_interval(found, view)

    def _with_interval(self, found: Estimate, view: View) -> Estimate:
        if self.interval == "bootstrap":
            return super()._with_interval(found, view)
        refuse_bets(self)
        if view.n_actions is None:
            msg = "interval=guaranteed of dr sums over finitely many actions; these are continuous"
            raise UnavailableError(msg)
        limits = check_rewards(view.reward, declared_limits(view, self.reward_range))
        if view.has_units and self.largest_unit is None:
            return without_interval(found)
        shortfall = largest_shortfall(len(np.unique(view.unit)))
        lower, upper = bounded_terms(view, self._fitted_to_all, limits, shortfall)
        interval = betting_interval_of_terms(
            lower,
            upper,
            shortfall,
            reward_range=limits,
            unit=view.unit,
            level=self.level,
            largest_unit=self.largest_unit,
        )
        return replace(found, interval=interval)

    def _fitted_to_all(self, view: View) -> FittedReward:
        """Return the reward model fitted to all rows of a view."""
        return self._fitted_reward(view, "action", 1, self.action_features)
