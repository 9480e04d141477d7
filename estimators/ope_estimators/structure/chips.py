"""Importance weighting by clusters of contexts."""

from __future__ import annotations

import math
from typing import Annotated, Self

import numpy as np
from annotated_types import Ge

from ope_bench import (
    Access,
    Estimate,
    Estimator,
    FloatArray,
    IntArray,
    View,
    standard_error,
    weighted_terms,
)
from ope_estimators.features.actions import encoded
from ope_estimators.nuisance.action_clusters import require_actions

__all__ = ["CHIPS"]


class CHIPS(Estimator):
    """Logged rewards weighted by the policies of the cluster of contexts that a row is in.

        V̂ = (1/n) sum_i w_i r_i,   w_i = π1(a_i|c_i) / π0(a_i|c_i),
        π(a|c) = mean of π(a|x_j) over the rows j of the cluster c

    An action that is rare in one context counts by how often its whole cluster takes it. Clusters
    of one row each, or of equal contexts, give `IPW`; one cluster gives weights of actions alone.

    Assumptions: both policies are known; within a cluster the reward of an action does not depend
    on the context, or the policies do not.
    Fails when: contexts of a cluster earn unlike rewards and have unlike policies: the bias is
    that of the mixed rewards, and the standard error, which takes clusters as given, says nothing
    of it.

    Parameters
    ----------
    clusters : number of clusters, by k-means of the standardized contexts; None for the square
        root of the number of different contexts. Where it is no less than that number, equal
        contexts are a cluster.

    Raises
    ------
    UnavailableError : actions are continuous.

    References
    ----------
    Clustering context in off-policy evaluation (Guzmán-Olivares, Schmidt, Golebiowski and Bekasov,
    2025), with the maximum likelihood reward of each action in a cluster.

    Note: the released code multiplies weights by the mean reward of the cluster over all actions,
    which gives the mean logged reward whatever the target policy.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(CHIPS(clusters=8), "saito-toy", replicates=1)[0]
    >>> record.diagnostics["clusters"]
    8
    """

    access = Access.LOGGING_POLICY | Access.TARGET_POLICY
    action_masks = True
    requires = ("sklearn.cluster",)

    clusters: Annotated[int, Ge(1)] | None = None

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Cluster the contexts."""
        require_actions(view, "weights of clusters compare finitely many actions")
        self.cluster_ = self._clusters(view, int(rng.integers(2**31)))
        return self

    def estimate(self, view: View) -> Estimate:
        """Return the mean of weighted rewards and its standard error."""
        number, counts = int(self.cluster_.max()) + 1, view.row_weight
        n_actions = require_actions(view, "weights of clusters compare finitely many actions")
        mass = [np.zeros((number, n_actions)) for _ in range(2)]
        for total, policy in zip(mass, (view.target_policy, view.logging_policy), strict=True):
            for rows, block in policy.blocks(view.context):  # type: ignore[attr-defined]
                part = block if counts is None else block * counts[rows, None]
                np.add.at(total, self.cluster_[rows], part)
        target, logging = (one[self.cluster_, view.action] for one in mass)
        weights: FloatArray = target / logging
        terms = weighted_terms(weights * view.reward, counts)
        facts = {"mean_weight": float(np.average(weights, weights=counts)), "clusters": number}
        error = standard_error(terms, view.unit)
        return Estimate(
            float(terms.mean()), error, weights, facts, weight_space="action", terms=terms
        )

    def _clusters(self, view: View, seed: int) -> IntArray:
        """Return the cluster of each row: (n,)."""
        table = encoded(view.schema.context, view.context)
        different, own = np.unique(table, axis=0, return_inverse=True)
        own = own.reshape(-1).astype(np.int64)
        number = math.isqrt(len(different)) if self.clusters is None else self.clusters
        if number >= len(different):
            return own
        from sklearn.cluster import KMeans

        spread = different.std(axis=0)
        scaled = (different - different.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        means = KMeans(number, n_init=3, random_state=seed)
        found = means.fit_predict(scaled, sample_weight=np.bincount(own, view.row_weight))
        cluster: IntArray = found.astype(np.int64)[own]
        return cluster
