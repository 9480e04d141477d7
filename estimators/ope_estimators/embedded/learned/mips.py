"""Marginalized importance weighting with weights estimated from the logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from annotated_types import Ge, Gt

from ope_bench import (
    Access,
    Diagnostic,
    DiscretePolicy,
    Estimate,
    FloatArray,
    IntArray,
    ParameterError,
    Policy,
    RowIndex,
    View,
    row_chunks,
    standard_error,
)
from ope_estimators.actions.weighting.weighted_mean import clipped
from ope_estimators.learning import learners
from ope_estimators.nuisance.action_clusters import require_actions
from ope_estimators.nuisance.classifier_based import ClassifierBased
from ope_estimators.nuisance.embedding_weights import regressed_weights
from ope_estimators.nuisance.policy import FittedPolicy, PartialPolicyModel, PolicyModel
from ope_estimators.tuning.slope import NORMAL_QUANTILE, slope

__all__ = ["MIPS"]


@dataclass(frozen=True, eq=False)
class FittedWeights:
    """Weights of the logged rows before they are cut.

    Parameters
    ----------
    value : (n,)
    facts : about the classifier; none for a regression.
    """

    value: FloatArray
    facts: dict[str, Diagnostic]


class MIPS(ClassifierBased):
    """Weighting of embeddings whose weights come from a model of the action given them.

        V̂ = (1/n) sum_i ŵ_i r_i,   ŵ_i = sum_a w(x_i, a) π̂0(a|x_i, g_i),
        w(x, a) = π1(a|x) / π0(a|x)

    π̂0(a|x, g) is a classifier of the logged actions; it needs no p(g|a), which `EIPW` does. Where
    embeddings are deterministic, actions with another embedding than the logged one get
    probability 0, so that embeddings as telling as actions give `IPW` exactly. No standard error:
    that of a weighted mean would overlook the classifier.

    ŵ_i is the mean of w(x, a) given context and embedding, under the logging policy. With
    ``weights`` = ``regression`` it is just that: a regression of w(x_i, a_i) on (x_i, g_i),
    without a classifier of all actions, each row predicted by a model that has not seen its fold.

    The classifier is fitted once, on all rows, because folds lack the rare actions.
    ``log_likelihood``, its mean over them, and ``iterations`` are diagnostics. ``softmax`` has the
    objective of ``logistic`` at a fraction of its time, the more so with fewer iterations
    (``classifier_params``: ``max_iter``).

    Fewer dimensions of the embedding give less variance, and a bias where the reward depends on
    those left out. ``slope`` drops one after the other, each time the one without which the
    interval of the estimate is the narrowest, and keeps the last estimate whose interval agrees
    with all wider ones.

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
    weights : ``classifier`` or ``regression``.
    dimensions : columns of the embedding that are used: ``all``, a list of their numbers from 0
        on, or ``slope``, chosen from the logs.
    regressor : for ``regression``, a regressor's name; weights below 0 become 0.
    regressor_params : its parameters.

    Raises
    ------
    UnavailableError : actions are continuous.
    ParameterError : ``dimensions`` names a column that the embedding does not have, or none.

    References
    ----------
    Off-policy evaluation for large action spaces via embeddings (Saito and Joachims, 2022), the
    estimation of the marginal weights and the choice of dimensions. Improved estimator selection
    for off-policy evaluation (Tucker and Lee, 2021), for the rule ``slope``.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(MIPS(weights="regression"), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 0.5
    True
    """

    access = Access.LOGGING_POLICY | Access.TARGET_POLICY

    added_parameters: ClassVar[Mapping[str, Any]] = {
        "weights": "classifier",
        "dimensions": "all",
        "regressor": "gbm",
        "regressor_params": None,
    }

    clip: Annotated[float, Gt(0)] | None = None
    weights: Literal["classifier", "regression"] = "classifier"
    dimensions: Literal["all", "slope"] | list[Annotated[int, Ge(0)]] = "all"
    regressor: learners.RegressorName = "gbm"
    regressor_params: Mapping[str, Any] | None = None

    @property
    def requires(self) -> tuple[str, ...]:
        """Modules of the classifier or regressor."""
        if self.weights == "regression":
            return learners.requires(self.regressor)
        return super().requires

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of the classifier or regressor."""
        if self.weights == "regression":
            return learners.devices(self.regressor)
        return super().devices

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Fit the weights of the logged rows, and choose the dimensions where that is asked."""
        require_actions(view, "it weighs finitely many actions")
        every = tuple(range(view.embedding.shape[1]))
        if self.dimensions == "slope":
            self.used_, self.fitted_ = self._chosen(view, every, rng, device)
            return self
        self.used_ = every
        if isinstance(self.dimensions, list):
            self.used_ = tuple(sorted(set(self.dimensions)))
            if not self.used_ or self.used_[-1] >= len(every):
                msg = f"dimensions: {self.dimensions}; expected some of 0 to {len(every) - 1}"
                raise ParameterError(msg)
        self.fitted_ = self._fitted(view, self.used_, rng, device)
        return self

    def estimate(self, view: View) -> Estimate:
        """Return the weighted mean."""
        weights, facts = clipped(self.fitted_.value, self.clip)
        facts = facts | self.fitted_.facts
        if self.dimensions != "all":
            facts = facts | {"dimensions": len(self.used_), "used": str(list(self.used_))}
        value = float((weights * view.reward).mean())
        return Estimate(value, None, weights, facts, weight_space="embedding")

    def _chosen(
        self, view: View, every: tuple[int, ...], rng: np.random.Generator, device: str
    ) -> tuple[tuple[int, ...], FittedWeights]:
        """Return the dimensions by the rule ``slope``, and their weights."""
        kept = [(every, self._fitted(view, every, rng, device))]
        values, widths = (np.array([part]) for part in self._interval(view, kept[0][1]))
        while len(kept[-1][0]) > 1:
            last = kept[-1][0]
            fewer = [tuple(one for one in last if one != left_out) for left_out in last]
            weights = [self._fitted(view, used, rng, device) for used in fewer]
            intervals = [self._interval(view, one) for one in weights]
            best = int(np.argmin([width for _, width in intervals]))
            values = np.append(values, intervals[best][0])
            # An interval counts as no wider than those with more dimensions: these come first.
            widths = np.append(widths, min(widths[-1], intervals[best][1]))
            if slope(values, widths) < len(kept):
                break
            kept.append((fewer[best], weights[best]))
        return kept[-1]

    def _interval(self, view: View, weights: FittedWeights) -> tuple[float, float]:
        """Return the estimate and half the width of its interval."""
        terms = clipped(weights.value, self.clip)[0] * view.reward
        error = standard_error(terms, view.unit)
        return float(terms.mean()), NORMAL_QUANTILE * (0.0 if error is None else error)

    def _fitted(
        self, view: View, used: tuple[int, ...], rng: np.random.Generator, device: str
    ) -> FittedWeights:
        """Return the weights of the logged rows by some dimensions of the embedding."""
        group = None
        if view.action_embedding is not None:
            table = view.action_embedding[:, used]
            group = RowIndex(table)(table)
            if len(np.unique(group)) == view.n_actions:
                # Each embedding names its action.
                return FittedWeights(_ratio_of_logged(view), {})
        if self.weights == "regression":
            regressed = regressed_weights(
                view,
                _ratio_of_logged(view),
                used,
                lambda seed: learners.regressor(
                    self.regressor,
                    seed=seed,
                    device=device,
                    params=learners.frozen(self.regressor_params),
                ),
                rng,
            )
            return FittedWeights(regressed, {})
        params = learners.frozen(self.classifier_params)
        if len(used) == view.embedding.shape[1]:
            whole = PolicyModel("logged", self.classifier, params, "context and embedding")
            return self._marginal(view, view.fitted(whole), used, group)
        part = PartialPolicyModel(self.classifier, params, used)
        return self._marginal(view, view.fitted(part), used, group)

    def _marginal(
        self, view: View, model: FittedPolicy, used: tuple[int, ...], group: IntArray | None
    ) -> FittedWeights:
        """Return sum_a w(x, a) π̂0(a|x, g) of each logged row."""
        seen, column = model.seen, model.column(view.action)
        weights, logged = np.empty(view.n), np.empty(view.n)
        for rows, table in model.blocks(np.hstack([view.context, view.embedding[:, used]])):
            logged[rows] = np.take_along_axis(table, column[rows, None], axis=1)[:, 0]
            if group is not None:
                # Only the actions whose one embedding was logged can have been taken.
                table = table * (group[seen] == group[view.action[rows], None])
                empty = np.flatnonzero(table.sum(axis=1) == 0)
                table[empty, column[rows][empty]] = 1.0
                table /= table.sum(axis=1, keepdims=True)
            ratio = _ratio(view, view.context[rows], seen)
            weights[rows] = np.einsum("ka,ka->k", ratio, table)
        return FittedWeights(weights, model.quality(logged))


def _ratio_of_logged(view: View) -> FloatArray:
    """Return w(x, a) of the logged actions: (n,)."""
    target = view.target_policy.probability(view.context, view.action)
    ratio: FloatArray = target / view.logging_policy.probability(view.context, view.action)
    return ratio


def _ratio(view: View, context: FloatArray, action: IntArray) -> FloatArray:
    """Return w(x, a) for a chunk of contexts and some actions, 0 where π0 is 0: (k, n_some)."""
    out = np.zeros((len(context), len(action)))
    target = _table(view.target_policy, context, action)
    logging = _table(view.logging_policy, context, action)
    return np.divide(target, logging, out=out, where=logging > 0)


def _table(policy: Policy, context: FloatArray, action: IntArray) -> FloatArray:
    """Return the probabilities of some actions in a chunk of contexts: (k, n_some)."""
    if isinstance(policy, DiscretePolicy):
        blocks: Iterator[tuple[slice, FloatArray]] = policy.blocks(context)
        return np.vstack([block[:, action] for _, block in blocks])
    out = np.empty((len(context), len(action)))
    for rows in row_chunks(len(context), len(action)):
        part = context[rows]
        pairs = np.repeat(part, len(action), axis=0), np.tile(action, len(part))
        out[rows] = policy.probability(*pairs).reshape(len(part), len(action))
    return out
