"""The doubly robust form of marginalized importance weighting."""

from __future__ import annotations

from typing import Annotated, Literal, Self

import numpy as np
from annotated_types import Ge

from ope_bench import Estimate, View, standard_error
from ope_estimators.embedded.known.eipw import EIPW
from ope_estimators.embedded.known.integral import embedding_expectation
from ope_estimators.nuisance.reward_based import RewardBased
from ope_estimators.nuisance.separate import ActionFeaturesOption

__all__ = ["MDR"]


class MDR(EIPW, RewardBased):
    """A reward model averaged over the target policy, its residuals weighted by embeddings.

        V̂ = (1/n) sum_i [ E_{g ~ π1(.|x_i)} q̂(x_i, g) + w_i (r_i - q̂(x_i, g_i)) ],
        w_i = π1(g_i|x_i) / π0(g_i|x_i),   πj(g|x) = sum_a πj(a|x) p(g|a)

    With q̂ = 0 it is `EIPW`. q̂ at row i comes from a model that has not seen the row's fold. With
    ``reward`` = ``action`` the model is q̂(x, a): weights of embeddings then correct q̂ only as far
    as embeddings tell actions apart, and where several actions share an embedding q̂ has to order
    them rightly.

    Assumptions: the reward depends on the action only through its embedding (and the context);
    both policies and p(g|a) are known; π0(g|x) > 0 wherever π1(g|x) > 0.
    Fails when: actions with like embeddings earn unlike rewards, as for `EIPW`.

    Parameters
    ----------
    clip : largest weight of a residual; larger ones are cut.
    regressor : a regressor's name.
    regressor_params : its parameters.
    reward : what the model is given beside the context: ``embedding`` or ``action``.
    action_features : how actions become features, for ``action``; as for `DM`.
    cross_fit : number of folds, by unit; 1 fits in-sample.
    interval, level, resamples : as for `EIPW`.
    draws : draws of action and embedding in each context, where embeddings cannot be listed.

    Raises
    ------
    DataError : the logging policy's marginal of a logged embedding is 0.

    References
    ----------
    Doubly robust estimator for off-policy evaluation with large action spaces (Shimizu and
    Forastiere, 2023).

    Note: the public code multiplies the weights of single embedding dimensions; here they are
    joint over the dimensions.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(MDR(regressor="ridge"), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    reward: Literal["embedding", "action"] = "embedding"
    action_features: ActionFeaturesOption = "one-hot"
    cross_fit: Annotated[int, Ge(1)] = 5
    draws: Annotated[int, Ge(1)] = 64

    row_weights = False

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Fit the reward model; other estimators may share the fit."""
        self.draw_seed_ = int(rng.integers(2**63))
        self.reward_ = self._fitted_reward(view, self.reward, self.cross_fit, self.action_features)
        return self

    def estimate(self, view: View) -> Estimate:
        """Return the mean of the terms and its standard error."""
        plain = super().estimate(view)
        weights = plain.weights
        assert weights is not None  # noqa: S101  EIPW reports its weights
        if self.reward == "action":
            model = self.reward_.logged(view.context, view.action)
            expected = self._expected_reward(view)
        else:
            model = self.reward_.logged(view.context, view.embedding)
            expected, rng = np.empty(view.n), np.random.default_rng(self.draw_seed_)
            for part, rows in self.reward_.parts():
                expected[rows], _ = embedding_expectation(
                    view, part, context=view.context[rows], draws=self.draws, rng=rng
                )
        terms = expected + weights * (view.reward - model)
        return Estimate(
            float(terms.mean()),
            standard_error(terms, view.unit),
            weights,
            plain.diagnostics,
            weight_space="embedding",
            terms=terms,
            interval=plain.interval,
        )
