"""The direct method."""

from __future__ import annotations

from ope_bench import DiscretePolicy, Estimate, FloatArray, IntArray, LinearScore, View
from ope_estimators.actions.confounding import MarginalSensitivityBounds, Residuals, sharp_mean
from ope_estimators.learning.learners import GIVEN
from ope_estimators.nuisance.reward import expectation
from ope_estimators.nuisance.reward_based import ActionRewardBased

__all__ = ["DM"]


class DM(MarginalSensitivityBounds, ActionRewardBased):
    """A reward model averaged over the target policy's actions in the logged contexts.

        V̂ = (1/n) sum_i sum_a π1(a|x_i) q̂(x_i, a)

    No standard error: the variance of the terms does not reflect the error of q̂.

    Assumptions: q̂ is accurate where the target policy acts.
    Fails when: q̂ extrapolates: for target actions that are missing from the logs, the bias is not
    detected.

    Parameters
    ----------
    regressor : a regressor's name. The default ``mixed`` is a linear mixed model: effects of
        context and embedding that all actions share, with squares and products where these are
        few, and an intercept and slopes of each action, shrunk toward zero by an amount chosen
        from the data. An action with few rows stays near what is shared; one that was never
        logged has that alone, so its embedding is what is known of it. Others are ``gbm``,
        ``ridge``, ``quadratic`` (squares and products of features, with a penalty chosen from the
        data) or ``mlp``; ``given`` takes the problem's predictions.
    regressor_params : its parameters.
    action_features : how actions become features of other regressors than ``mixed``: ``one-hot``
        (an action never logged has zeros only), ``ordinal`` (its number), ``embedding`` (its
        embedding, or the mean of its embeddings in both samples). ``separate`` fits the regressor
        to context and embedding and then, to its residuals, a linear model of the context for each
        action, shrunk toward zero: an action with few rows stays near the common model, one
        without rows has it. The amount is chosen from the data, or is ``shrinkage`` in
        ``regressor_params``: the number of rows that move an action half-way. ``own`` fits one
        regressor, or classifier of rewards of 0 and 1, to the rows of each action alone.
    cross_fit : number of folds of the logs; the model for a row is fitted without its fold; 1 fits
        one model on all rows.
    hidden_cause : strengths of a hidden cause whose sharp bounds (`sharp_mean`) are diagnostics;
        None for none. They take the model as true and its residuals as equally distributed in all
        contexts; rewards of 0 and 1 are coins. Logged actions stand in for the logging policy.

    References
    ----------
    Doubly robust policy evaluation and learning (Dudík, Langford and Li, 2011), for the name.
    Off-Policy Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022) prints another
    sum, which is `DMPaper`.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> forms = DM("gbm", action_features="embedding"), DM("gbm", action_features="ordinal")
    >>> embedding, ordinal = evaluate(forms, "saito-toy", replicates=1)
    >>> truth = embedding.truth_expected
    >>> abs(embedding.estimate - truth) < abs(ordinal.estimate - truth)
    True
    """

    def score(self, view: View) -> LinearScore:
        """Return the model's averages over the target policy."""
        return LinearScore(baseline=self._expected_reward(view))

    def estimate(self, view: View) -> Estimate:
        """Average the model over contexts and actions."""
        estimate = super().estimate(view)
        if self.hidden_cause is None or view.row_weight is not None:
            return estimate
        logged = self.reward_.logged(view.context, view.action)
        residuals, policy = Residuals(view.reward, logged), view.target_policy
        chance = policy.probability(view.context, view.action)

        def bound(strength: float, end: int) -> float:
            # The mean over logged actions of π1 times anything is its sum over all of π1 π0 times.
            if not residuals.binary:
                mean = float(estimate.value)
                tail = residuals.tail(strength, end)
                return sharp_mean(mean, tail, float(chance.mean()), strength)

            def coins(context: FloatArray, points: IntArray) -> FloatArray:
                return Residuals.coin_tail(self.reward_(context, points), strength, end)

            def given(rows: slice) -> FloatArray:
                table = self.reward_.table(view.context, rows)
                return Residuals.coin_tail(table, strength, end)

            # Given predictions are of rows, not of contexts.
            if isinstance(policy, DiscretePolicy) and self.regressor == GIVEN:
                whole = policy.contract(view.context, given).mean()
            else:
                whole = expectation(policy, view.context, coins).mean()
            tail = whole - (chance * Residuals.coin_tail(logged, strength, end)).mean()
            return sharp_mean(estimate.value, float(tail), 0.0, strength)

        return self._with_bounds(estimate, view, bound)
