"""The marginal ratio estimator: weights as a function of the reward."""

from __future__ import annotations

from typing import Annotated, Literal, Self

import numpy as np
from annotated_types import Ge

from ope_bench import Access, Estimate, FloatArray, View
from ope_estimators.learning.folds import logged_folds
from ope_estimators.learning.learners import RewardModelName, fitted, frozen, regressor
from ope_estimators.nuisance.reward_based import RewardBased

__all__ = ["MarginalRatio"]


class MarginalRatio(RewardBased):
    """Logged rewards weighted by the ratio of reward densities: marginal ratios.

        V̂ = (1/n) sum_i ŵ(r_i) r_i,   ŵ(r) = Ê[w | r],   w_i = π1(a_i|x_i) / π0(a_i|x_i)

    E[w | r] is the ratio of the densities of the reward under both policies: whatever else makes
    w vary is averaged out. With the form ``outcome`` it is the mean of Ê[w r | r]. Binary rewards
    and a regressor that fits both means give `IPW` with one fold. No standard error: that of a
    weighted mean would overlook the regression.

    Assumptions: known propensities; π0(a|x) > 0 wherever π1(a|x) > 0; the regressor's family
    holds E[w | r].
    Fails when: rewards are nearly functions of context and action: w given r then varies as much
    as w, and the regression adds bias. Few rows carry the weights: the regression is fitted to
    them.

    Parameters
    ----------
    regressor : a regressor's name, for weights given rewards.
    regressor_params : its parameters.
    form : ``ratio`` regresses w on r, ``outcome`` w r on r.
    cross_fit : folds, by unit, the model of a row not having seen its fold; 1 fits in-sample.

    References
    ----------
    Marginal density ratio for off-policy evaluation in contextual bandits (Taufiq, Doucet,
    Cornish and Ton, 2023).

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(MarginalRatio(), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 0.5
    True
    """

    access = Access.PROPENSITY | Access.TARGET_POLICY

    # Weights have heavy tails, which squares of rewards would follow; trees stay within them.
    regressor: RewardModelName = "gbm"
    form: Literal["ratio", "outcome"] = "ratio"
    cross_fit: Annotated[int, Ge(1)] = 5

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Fit the weights given the rewards, which no other estimator shares."""
        weight = view.target_policy.probability(view.context, view.action) / view.propensity
        outcome = weight * view.reward if self.form == "outcome" else weight
        n_folds = min(self.cross_fit, len(np.unique(view.fold_unit)))
        fold = logged_folds(view.fold_unit, n_folds, rng)
        table = view.reward[:, None]
        out: FloatArray = np.empty(view.n)
        for k in range(n_folds):
            held = fold == k
            train = held if n_folds == 1 else ~held
            model = regressor(
                self.regressor,
                seed=int(rng.integers(2**31)),
                device=device,
                params=frozen(self.regressor_params),
            )
            unit = view.fold_unit[train] if view.has_units else None
            fitted(model, table[train], outcome[train], unit)
            out[held] = np.asarray(model.predict(table[held]), dtype=np.float64).reshape(-1)
        self.fitted_ = out
        return self

    def estimate(self, view: View) -> Estimate:
        """Return the mean of the rewards with the fitted weights."""
        if self.form == "outcome":
            return Estimate(float(self.fitted_.mean()))
        facts = {"mean_weight": float(self.fitted_.mean())}
        return Estimate(float((self.fitted_ * view.reward).mean()), None, self.fitted_, facts)
