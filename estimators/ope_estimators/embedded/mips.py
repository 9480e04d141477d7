"""Marginalised importance weighting with weights estimated from the logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self

import numpy as np
from annotated_types import Gt

from ope_bench.arrays import FloatArray, IntArray, row_chunks
from ope_bench.data import Estimate
from ope_bench.embeddings import RowIndex
from ope_bench.policies import DiscretePolicy, Policy
from ope_bench.view import Access, View
from ope_estimators.baseline.weighting import clipped
from ope_estimators.nuisance import learners
from ope_estimators.nuisance.classifier_based import ClassifierBased
from ope_estimators.nuisance.policy import FittedPolicy, PolicyModel

__all__ = ["MIPS"]


class MIPS(ClassifierBased):
    """Weighting of embeddings whose weights come from a model of the action given them.

        V̂ = (1/n) sum_i ŵ_i r_i,   ŵ_i = sum_a w(x_i, a) π̂0(a|x_i, g_i),
        w(x, a) = π1(a|x) / π0(a|x)

    π̂0(a|x, g) is a classifier of the logged actions; it needs no p(g|a), which `EIPW` does. Where
    embeddings are deterministic, actions with another embedding than the logged one get
    probability 0, so that embeddings as telling as actions give `IPW` exactly. No standard error:
    that of a weighted mean would overlook the classifier.

    Assumptions: the reward depends on the action only through its embedding (and the context);
    both policies are known; the classifier's family holds π0(a|x, g).
    Fails when: actions with like embeddings earn unlike rewards; there are too many actions for
    the classifier; support is missing: w(x, a) is set to 0 where π0(a|x) is 0, and actions that
    were never logged have no class.

    Parameters
    ----------
    classifier : a classifier's name.
    classifier_params : its parameters.
    clip : largest weight; larger ones are cut.

    Raises
    ------
    UnavailableError : actions are continuous.

    References
    ----------
    Off-policy evaluation for large action spaces via embeddings (Saito and Joachims, 2022), the
    estimation of the marginal weights.
    """

    access = Access.LOGGING_POLICY | Access.TARGET_POLICY
    group_: IntArray | None
    action_: FittedPolicy | None

    def __init__(
        self,
        classifier: learners.ActionClassifierName = "logistic",
        classifier_params: Mapping[str, Any] | None = None,
        clip: Annotated[float, Gt(0)] | None = None,
    ) -> None:
        self.classifier = classifier
        self.classifier_params = classifier_params
        self.clip = clip

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Fit the classifier of logged actions, unless each embedding names its action."""
        self.group_ = self.action_ = None
        if view.action_embedding is not None:
            self.group_ = RowIndex(view.action_embedding)(view.action_embedding)
            if len(np.unique(self.group_)) == view.n_actions:
                return self
        params = learners.frozen(self.classifier_params)
        spec = PolicyModel("logged", self.classifier, params, "context and embedding")
        self.action_ = view.fitted(spec)
        return self

    def estimate(self, view: View) -> Estimate:
        """The weighted mean."""
        if self.action_ is None:
            target = view.target_policy.probability(view.context, view.action)
            weights = target / view.logging_policy.probability(view.context, view.action)
        else:
            weights = self._marginal(view, self.action_)
        weights, diagnostics = clipped(weights, self.clip)
        value = float((weights * view.reward).mean())
        return Estimate(value, None, weights, diagnostics, weight_space="embedding")

    def _marginal(self, view: View, model: FittedPolicy) -> FloatArray:
        """sum_a w(x, a) π̂0(a|x, g) of each logged row: (n,)."""
        seen = model.seen
        weights = np.empty(view.n)
        for rows, table in model.blocks(np.hstack([view.context, view.embedding])):
            if self.group_ is not None:
                # Only the actions whose one embedding was logged can have been taken.
                action = view.action[rows]
                table = table * (self.group_[seen] == self.group_[action, None])
                empty = np.flatnonzero(table.sum(axis=1) == 0)
                table[empty, np.searchsorted(seen, action[empty])] = 1.0
                table /= table.sum(axis=1, keepdims=True)
            ratio = _ratio(view, view.context[rows], seen)
            weights[rows] = np.einsum("ka,ka->k", ratio, table)
        return weights


def _ratio(view: View, context: FloatArray, action: IntArray) -> FloatArray:
    """w(x, a) for a chunk of contexts and some actions, 0 where π0 is 0: (k, n_some)."""
    out = np.zeros((len(context), len(action)))
    target = _table(view.target_policy, context, action)
    logging = _table(view.logging_policy, context, action)
    return np.divide(target, logging, out=out, where=logging > 0)


def _table(policy: Policy, context: FloatArray, action: IntArray) -> FloatArray:
    """Probabilities of some actions in a chunk of contexts: (k, n_some)."""
    if isinstance(policy, DiscretePolicy):
        blocks: Iterator[tuple[slice, FloatArray]] = policy.blocks(context)
        return np.vstack([block[:, action] for _, block in blocks])
    out = np.empty((len(context), len(action)))
    for rows in row_chunks(len(context), len(action)):
        part = context[rows]
        pairs = np.repeat(part, len(action), axis=0), np.tile(action, len(part))
        out[rows] = policy.probability(*pairs).reshape(len(part), len(action))
    return out
