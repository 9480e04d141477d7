"""Marginalized importance weighting with embeddings learned from rewards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from annotated_types import Ge

from ope_bench import Access, Column, Diagnostic, Estimate, FloatArray, View
from ope_estimators.features.actions import design, encoded
from ope_estimators.learning.learners import classifier, fitted, frozen
from ope_estimators.nuisance.action_clusters import require_actions
from ope_estimators.nuisance.classifier_based import ClassifierBased
from ope_estimators.nuisance.partial_expectation import probability_table
from ope_estimators.nuisance.policy import FittedPolicy

__all__ = ["LearnedMIPS"]


@dataclass(frozen=True, eq=False)
class LearnedActions:
    """Embeddings of actions and the classifier of actions given context and embedding.

    Parameters
    ----------
    embedding : (n_actions, d)
    policy : π̂0(a|x, e).
    """

    embedding: FloatArray
    policy: FittedPolicy


@dataclass(frozen=True)
class LearnedActionModel:
    """Specification of a fit: embeddings from a reward model, and a classifier of them.

    Parameters
    ----------
    dimensions : of the embeddings.
    learner : a classifier's name.
    params : its parameters, as `learners.frozen` gives them.
    """

    dimensions: int
    learner: str
    params: tuple[tuple[str, Any], ...]

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> LearnedActions:
        """Fit embeddings and classifier, both to all logged rows."""
        n_actions = require_actions(view, "it learns embeddings of finitely many actions")
        context = encoded(view.schema.context, view.context)
        table = reward_coefficients(context, view.action, view.reward, n_actions)
        # The leading directions in which the coefficients of actions differ.
        left, scale, _ = np.linalg.svd(table, full_matrices=False)
        kept = min(self.dimensions, len(scale))
        embedding = left[:, :kept] * scale[:kept]
        seen, label = np.unique(view.action, return_inverse=True)
        model = None
        if len(seen) > 1:
            seed = int(rng.integers(2**31))
            model = classifier(self.learner, seed=seed, device=device, params=self.params)
            fitted(model, design(context, embedding[view.action]), label.reshape(-1), None)
        columns = view.schema.context + (Column(),) * kept
        return LearnedActions(embedding, FittedPolicy(model, columns, seen, n_actions, view.n))


def reward_coefficients(
    context: FloatArray, action: Any, reward: FloatArray, n_actions: int
) -> FloatArray:
    """Return each action's ridge coefficients, of a constant and the context: (n_actions, d+1).

    They are deviations from the mean reward in standardized contexts with a penalty of one row;
    those of an action that was never logged are 0.
    """
    spread = context.std(axis=0)
    scaled = (context - context.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    rows = np.column_stack([np.ones(len(scaled)), scaled])
    residual = reward - reward.mean()
    table = np.zeros((n_actions, rows.shape[1]))
    penalty = np.eye(rows.shape[1])
    for one in np.unique(action):
        own = rows[action == one]
        table[one] = np.linalg.solve(own.T @ own + penalty, own.T @ residual[action == one])
    return table


class LearnedMIPS(ClassifierBased):
    """`MIPS` with embeddings of the actions that are learned from the rewards.

        V̂ = (1/n) sum_i ŵ_i r_i,   ŵ_i = sum_a w(x_i, a) π̂0(a|x_i, e(a_i)),
        w(x, a) = π1(a|x) / π0(a|x)

    e(a) are the coefficients of a linear reward model of action a, in their leading directions.
    It needs no embeddings from the environment. The classifier, which knows e(a_i) only, pools
    actions that earn alike. No standard error: that of a weighted mean would overlook both fits.

    Assumptions: both policies are known; π0(a|x) > 0 wherever π1(a|x) > 0; linear reward models
    tell actions apart as far as their rewards differ; the classifier's family holds π0(a|x, e).
    Fails when: actions have few rows: their embeddings are noise. An action that was never logged
    has no class and counts as of weight 0, as for `MIPS`; the mass that is lost is 1 minus
    ``mean_weight``.

    Parameters
    ----------
    classifier : a classifier's name.
    classifier_params : its parameters.
    dimensions : of the embeddings, at most as many as there are coefficients.

    Raises
    ------
    UnavailableError : actions are continuous.

    References
    ----------
    Learning action embeddings for off-policy evaluation (Cief, Golebiowski, Schmidt, Abedjan and
    Bekasov, 2024).

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(LearnedMIPS(), "saito-toy", replicates=1)[0]
    >>> 0.5 < record.diagnostics["mean_weight"] < 1.5
    True
    """

    access = Access.LOGGING_POLICY | Access.TARGET_POLICY

    dimensions: Annotated[int, Ge(1)] = 5

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Fit embeddings and classifier; other estimators may share the fit."""
        require_actions(view, "it learns embeddings of finitely many actions")
        spec = LearnedActionModel(self.dimensions, self.classifier, frozen(self.classifier_params))
        self.learned_ = view.fitted(spec)
        return self

    def estimate(self, view: View) -> Estimate:
        """Return the weighted mean."""
        n_actions = require_actions(view, "it learns embeddings of finitely many actions")
        model, embedding = self.learned_.policy, self.learned_.embedding
        weights, logged = np.empty(view.n), np.empty(view.n)
        given = np.hstack([view.context, embedding[view.action]])
        column = model.column(view.action)
        for rows, table in model.blocks(given):
            logged[rows] = np.take_along_axis(table, column[rows, None], axis=1)[:, 0]
            context = view.context[rows]
            target, logging = (
                probability_table(policy, context, n_actions)[:, model.seen]
                for policy in (view.target_policy, view.logging_policy)
            )
            ratio = np.divide(target, logging, out=np.zeros_like(target), where=logging > 0)
            weights[rows] = np.einsum("ka,ka->k", ratio, table)
        value = float((weights * view.reward).mean())
        facts: dict[str, Diagnostic] = {"mean_weight": float(weights.mean())}
        return Estimate(value, None, weights, facts | model.quality(logged))
