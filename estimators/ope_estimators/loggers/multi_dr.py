"""Doubly robust estimation from several loggers."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge

from ope_bench import Access, Estimate, View
from ope_estimators.loggers.stratified import Stratified
from ope_estimators.nuisance.reward_based import ActionRewardBased

__all__ = ["MultiDR"]


class MultiDR(Stratified, ActionRewardBased):
    """The direct method plus residuals that are weighted against the mixture of loggers.

        V̂ = (1/n) sum_i [ sum_a π1(a|x_i) q̂(x_i, a) + w_i (r_i - q̂(x_i, a_i)) ],
        w_i = π1(a_i|x_i) / sum_k (n_k/n) π0k(a_i|x_i)

    With a consistent q̂ the least variance that any estimator has for rows of several loggers.
    One logger gives `DR`.

    Assumptions: the policies of all loggers are known; the mixture has every action of the target.
    Fails when: no logger takes an action of the target policy, and q̂ is wrong there.

    Parameters
    ----------
    regressor : a regressor's name; ``given`` takes the problem's predictions.
    regressor_params : its parameters.
    action_features : as for `DM`.
    cross_fit : number of folds, by unit; 1 fits in-sample.

    References
    ----------
    Optimal off-policy evaluation from multiple logging policies (Kallus, Saito and Uehara, 2021),
    section 4.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(MultiDR("ridge"), "linear-bandit[loggers=[[-1,1,2]]]", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    # The loggers' shares are counts of rows.
    row_weights = False

    cross_fit: Annotated[int, Ge(1)] = 5

    @property
    def access(self) -> Access:
        """The loggers, and predictions that are given."""
        return self._with_predictions(super().access)

    def estimate(self, view: View) -> Estimate:
        """Return the mean of the doubly robust terms, with the standard error by loggers."""
        weight = self._balanced_weight(view)
        residual = view.reward - self.reward_.logged(view.context, view.action)
        return self._estimate(view, weight, self._expected_reward(view) + weight * residual)
