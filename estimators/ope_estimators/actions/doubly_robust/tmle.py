"""Targeted maximum likelihood estimation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, Self

import numpy as np
from annotated_types import Ge

from ope_bench import (
    ESTIMATE_WARNING,
    STANDARD_ERROR_WITHHELD,
    Access,
    Diagnostic,
    Estimate,
    FloatArray,
    IntArray,
    View,
    row_chunks,
    standard_error,
    weighted_terms,
)
from ope_estimators.nuisance.partial_expectation import probability_table
from ope_estimators.nuisance.propensity import EstimatedPropensity
from ope_estimators.nuisance.reward import expectation
from ope_estimators.nuisance.reward_based import RewardBased
from ope_estimators.nuisance.separate import ActionFeaturesOption

__all__ = ["TMLE"]

LEAST = 0.005
"""Probabilities of the reward model stay this far from 0 and 1."""

MOST_SHIFT = 30.0
"""Largest change of the logit that changes least: where no finite ε solves the equation, ε ends
here."""

LARGE_SHIFT = 3.0
"""A change of odds by a factor of 20, beyond which ``large_shift`` is true."""

SHIFTED = (
    "the shift changes the odds of some logged rows by more than a factor of 20: the estimate is "
    "made by the shift, not by the reward model"
)

UNSOLVED = (
    "no finite shift brings the weighted residuals to 0, as where all rows with weight have the "
    "smallest logged reward, or all the largest"
)

Shift = Callable[[FloatArray, FloatArray], FloatArray]
"""(q̂, covariate) -> q̂*"""


class TMLE(EstimatedPropensity, RewardBased):
    """The direct method with a reward model that is shifted until its weighted residuals sum to 0.

        V̂ = (1/n) sum_i sum_a π1(a|x_i) q̂*(x_i, a),   logit q̂* = logit q̂ + ε h(x, a),
        sum_i w_i (r_i - q̂*(x_i, a_i)) = 0,   w_i = π1(a_i|x_i) / π0(a_i|x_i)

    h is 1 in the form ``weighted`` and w(x, a) in the form ``covariate``. Rewards are scaled to
    [0, 1] by the least and the largest logged reward, q̂ is held within [.005, .995] of it: the
    estimate stays in the range of the logged rewards and shifts and scales with them. With the
    link ``linear``, q̂* = q̂ + ε h, nothing is scaled, and the form ``weighted`` is `SNDR`. The
    standard error is that of the doubly robust terms with q̂*, in the form ``weighted`` with
    residuals divided by the mean weight, as those of `SNDR`; it is withheld where no finite ε
    solves the equation. Diagnostics: ``epsilon``, and ``large_shift`` where it changes some logged
    odds by more than a factor of 20: a warning says that the estimate is then made by the shift,
    not by the model. Where no row has a weight, ε is 0.

    Assumptions: known propensities, and the logging policy for ``covariate``; π0(a|x) > 0
    wherever π1(a|x) > 0.
    Fails when: q̂ is poor and few rows carry the weights: they shift all predictions. In the form
    ``covariate`` large weights that were never logged move predictions to the end of the range.

    Parameters
    ----------
    form : ``weighted`` puts the weights into the equation only, ``covariate`` into the shift, too.
    link : ``logistic`` or ``linear``.
    regressor : a regressor's name.
    regressor_params : its parameters.
    action_features : ``one-hot``, ``ordinal``, ``embedding`` or ``separate``; as for `DM`.
    cross_fit : number of folds, by unit; 1 fits in-sample, which shrinks residuals and standard
        error.
    propensity : ``given``, or ``estimated`` by a classifier of actions, out of fold, calibrated.
    propensity_classifier : its name.
    propensity_folds : its folds, by unit; 1 fits in-sample.

    References
    ----------
    Targeted maximum likelihood learning (van der Laan and Rubin, 2006), for the method. A
    targeted maximum likelihood estimator of a causal effect on a bounded continuous outcome
    (Gruber and van der Laan, 2010), for rewards scaled to [0, 1].

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(TMLE(regressor="ridge"), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    form: Literal["weighted", "covariate"] = "weighted"
    link: Literal["logistic", "linear"] = "logistic"
    action_features: ActionFeaturesOption = "one-hot"
    cross_fit: Annotated[int, Ge(1)] = 5

    @property
    def access(self) -> Access:
        """Probabilities of actions that were not logged only where they are covariates."""
        if self.form == "covariate":
            return Access.LOGGING_POLICY | Access.TARGET_POLICY
        return (
            Access.TARGET_POLICY if self._estimates else Access.PROPENSITY | Access.TARGET_POLICY
        )

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Fit the reward model; other estimators may share the fit."""
        self.reward_ = self._fitted_reward(view, "action", self.cross_fit, self.action_features)
        return self

    def estimate(self, view: View) -> Estimate:
        """Return the average of the shifted model and its standard error."""
        policy, reward = view.target_policy, view.reward
        weight = policy.probability(view.context, view.action) / self._propensity(view)
        covariate = weight if self.form == "covariate" else np.ones(view.n)
        model = self.reward_.logged(view.context, view.action)
        counts, counted = view.row_weight, weight
        if counts is not None:
            counted = weight * (counts / counts.mean())
        shift, epsilon, solved = self._shift(counted, covariate, model, reward)
        expected = np.empty(view.n)
        everywhere = self.form == "weighted" and self.reward_.predicts_all
        for chunk in row_chunks(view.n, view.n_actions or 1) if everywhere else []:
            chance = probability_table(policy, view.context[chunk], view.n_actions or 1)
            moved = shift(self.reward_.table(view.context, chunk), np.ones(1))
            expected[chunk] = np.einsum("ka,ka->k", chance, moved)
        for part, rows in [] if everywhere else self.reward_.parts():

            def shifted(
                context: FloatArray,
                action: IntArray,
                part: Callable[[FloatArray, IntArray], FloatArray] = part,
            ) -> FloatArray:
                return shift(part(context, action), self._covariate(view, context, action))

            expected[rows] = expectation(policy, view.context[rows], shifted)
        mean = float(counted.mean())
        # The equation is one of a ratio in the form ``weighted``: its weights sum to n.
        used = weight / mean if self.form == "weighted" and mean > 0 else weight
        terms = weighted_terms(expected + used * (reward - shift(model, covariate)), counts)
        value = float(np.average(expected, weights=counts))
        reach = abs(epsilon) * float(covariate.max())
        large = self.link == "logistic" and reach > LARGE_SHIFT
        facts: dict[str, Diagnostic] = {
            "mean_weight": mean,
            "epsilon": epsilon,
            "large_shift": large,
        }
        if large:
            facts[ESTIMATE_WARNING] = SHIFTED
        if not solved:
            facts[STANDARD_ERROR_WITHHELD] = UNSOLVED
        return Estimate(
            value,
            standard_error(terms, view.unit) if solved else None,
            weight,
            facts,
            weight_space="action",
            terms=terms + (value - terms.mean()),
        )

    def _covariate(self, view: View, context: FloatArray, action: IntArray) -> FloatArray:
        """Return h of each pair; 0 where the logging policy never acts, so that q̂ stays."""
        if self.form == "weighted":
            return np.ones(len(action))
        target = view.target_policy.probability(context, action)
        logging = view.logging_policy.probability(context, action)
        return np.divide(target, logging, out=np.zeros_like(target), where=logging > 0)

    def _shift(
        self, weight: FloatArray, covariate: FloatArray, model: FloatArray, reward: FloatArray
    ) -> tuple[Shift, float, bool]:
        """Shift the model: return q̂*, ε, and whether ε solves the equation."""
        if self.link == "linear":
            scale = float(weight @ covariate)
            slope = float(weight @ (reward - model)) / scale if scale > 0 else 0.0
            return (lambda value, h: value + slope * h), slope, True
        low, width = float(reward.min()), float(np.ptp(reward))
        if width == 0:
            return (lambda value, _h: np.full_like(value, low)), 0.0, True

        def logit(value: FloatArray) -> FloatArray:
            share = np.clip((value - low) / width, LEAST, 1.0 - LEAST)
            odds: FloatArray = np.log(share) - np.log1p(-share)
            return odds

        epsilon, solved = solve_shift(weight, covariate, logit(model), (reward - low) / width)

        def shift(value: FloatArray, h: FloatArray) -> FloatArray:
            from scipy.special import expit

            moved: FloatArray = low + width * expit(logit(value) + epsilon * h)
            return moved

        return shift, epsilon, solved


def solve_shift(
    weight: FloatArray, covariate: FloatArray, logit: FloatArray, reward: FloatArray
) -> tuple[float, bool]:
    """Return ε with sum_i w_i (r_i - expit(logit_i + ε h_i)) = 0, rewards being within [0, 1].

    The sum falls as ε grows. Where it keeps its sign, as where all rows of positive weight have
    the reward 1, ε is the one that changes every logit by at least `MOST_SHIFT`; the second value
    is then false.
    """
    from scipy.optimize import brentq
    from scipy.special import expit

    if not weight.any():
        return 0.0, True
    kept = weight > 0
    weight, covariate, logit, reward = (part[kept] for part in (weight, covariate, logit, reward))

    def score(epsilon: float) -> float:
        return float(weight @ (reward - expit(logit + epsilon * covariate)))

    # Covariates next to 0 would need an ε beyond the range of floating point.
    most = MOST_SHIFT / max(float(covariate.min()), 1e-9 * float(covariate.max()))
    if score(most) >= 0:
        return most, False
    if score(-most) <= 0:
        return -most, False
    return float(brentq(score, -most, most, xtol=1e-14 * most, rtol=1e-14)), True
