"""Policy convolution: importance weighting of smoothed policies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self

import numpy as np
from annotated_types import Ge

from ope_bench import Access, FloatArray, IntArray, LinearScore, Solution, View, row_chunks
from ope_estimators.actions.weighting.ipw import TransformedWeights
from ope_estimators.actions.weighting.weighted_rows import WeightedRows
from ope_estimators.features.actions import ActionFeatures
from ope_estimators.nuisance.action_clusters import require_actions
from ope_estimators.nuisance.action_smoothing import (
    Smoother,
    Smoothing,
    action_smoother,
    usual_bandwidths,
)
from ope_estimators.nuisance.partial_expectation import probability_table

__all__ = ["PolicyConvolution", "convolved_ratios"]


@dataclass(frozen=True, eq=False, kw_only=True)
class ConvolvedRows(WeightedRows):
    """Logged rows, and the ratio of the smoothed policies at each bandwidth.

    Parameters
    ----------
    bandwidths : (k,)
    ratio : (k, n)
    """

    bandwidths: FloatArray
    ratio: FloatArray

    def take(self, index: IntArray) -> ConvolvedRows:
        """Return some of the rows."""
        part = super().take(index)
        assert isinstance(part, ConvolvedRows)  # noqa: S101  `replace` keeps the class
        return replace(part, ratio=self.ratio[:, index])


class PolicyConvolution(TransformedWeights):
    """Logged rewards weighted by the ratio of policies that are smoothed over like actions.

        V̂ = (1/n) sum_i w_i r_i,   w_i = (π1 S)(a_i|x_i) / (π0 S)(a_i|x_i),
        (π S)(a|x) = sum_b π(b|x) S(b, a),   sum_a S(b, a) = 1

    S moves the probability of an action to actions with embeddings near its own. Without
    smoothing it is `IPW`; with the probability spread over all actions evenly it is the mean
    logged reward.

    Assumptions: both policies are known; actions with like embeddings earn alike.
    Fails when: embeddings tell nothing of the reward: the bias is toward the mean logged reward,
    and the standard error says nothing of it. Smoothing both policies changes the weights also
    where the policies overlap well.

    Parameters
    ----------
    smoothing : ``kernel``, a Gaussian of embedding distances; ``knn``, evenly over the nearest
        actions; ``tree``, evenly over the actions of one cluster of an average-linkage tree.
    bandwidth : for ``kernel`` and ``tree`` the kernel's width and the height of the cut, in
        median distances of different embeddings; for ``knn`` the number of actions, itself
        included; ``slope`` chooses from a ladder from no smoothing on. Of more than 2,000 actions
        the median is that of 2,000.
    normalize : divide by the sum of the weights instead of n.
    ladder : values for ``slope`` to choose among, in that order; None for its own.

    Raises
    ------
    UnavailableError : actions are continuous, or so many that ``knn`` and ``tree`` cannot hold
        all pairs.

    References
    ----------
    Off-policy evaluation for large action spaces via policy convolution (Sachdeva, Wang, Liang,
    Kallus and McAuley, 2024).

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(PolicyConvolution(), "saito-toy", replicates=1)[0]
    >>> record.diagnostics["bandwidth"] >= 0
    True
    """

    access = Access.LOGGING_POLICY | Access.TARGET_POLICY
    # Smoothing reaches unavailable actions.
    action_masks = False
    tuned = "bandwidth"

    smoothing: Smoothing = "kernel"
    bandwidth: Annotated[float, Ge(0)] | Literal["slope"] = "slope"
    normalize: bool = False

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Refuse continuous actions; there is nothing to fit."""
        require_actions(view, "it smooths over finitely many actions")
        return super().fit(view, rng=rng, device=device)

    def _rows(self, view: View) -> WeightedRows:
        n_actions = require_actions(view, "it smooths over finitely many actions")
        rows = super()._rows(view)
        features = ActionFeatures(view, "embedding")(np.arange(n_actions))
        if isinstance(self.bandwidth, str):
            made = self.ladder is None
            usual = usual_bandwidths(self.smoothing, n_actions)
            bandwidths = usual if made else np.array(self.ladder)
        else:
            bandwidths = np.array([self.bandwidth])
        smoother = action_smoother(self.smoothing, features, bandwidths)
        ratio = convolved_ratios(view, smoother, len(bandwidths))
        return ConvolvedRows(
            rows.weight,
            rows.propensity,
            rows.outcome,
            rows.unit,
            reward_range=rows.reward_range,
            unsupported_mass=rows.unsupported_mass,
            bandwidths=bandwidths,
            ratio=ratio,
        )

    def _score(self, rows: WeightedRows, used: FloatArray) -> LinearScore:
        return rows.score(used, normalize=self.normalize)

    def _transform(self, rows: WeightedRows, parameter: float | FloatArray) -> FloatArray:
        assert isinstance(rows, ConvolvedRows)  # noqa: S101  made by `_rows`
        index = {float(width): k for k, width in enumerate(rows.bandwidths)}
        if np.ndim(parameter) == 0:
            used: FloatArray = rows.ratio[index[float(parameter)]]
            return used
        return rows.ratio[[index[float(width)] for width in np.ravel(parameter)]]

    def _candidates(self, rows: WeightedRows) -> FloatArray:
        assert isinstance(rows, ConvolvedRows)  # noqa: S101  made by `_rows`
        return rows.bandwidths

    def _answer(self, rows: WeightedRows) -> Solution:
        answer = super()._answer(rows)
        answer.diagnostics["mean_smoothed_weight"] = float(answer.used.mean())
        return answer


def convolved_ratios(view: View, smoother: Smoother, number: int) -> FloatArray:
    """Return (π1 S)(a_i|x_i) / (π0 S)(a_i|x_i) of each logged row: (number, n).

    Parameters
    ----------
    view : the logged rows and both policies.
    smoother : S at some bandwidths.
    number : of the bandwidths.
    """
    n_actions = require_actions(view, "it smooths over finitely many actions")
    ratio = np.empty((number, view.n))
    for rows in row_chunks(view.n, n_actions):
        target, logging = (
            probability_table(policy, view.context[rows], n_actions)
            for policy in (view.target_policy, view.logging_policy)
        )
        for k, columns in enumerate(smoother.columns(view.action[rows])):
            moved = np.einsum("ka,ka->k", target, columns)
            ratio[k, rows] = moved / np.einsum("ka,ka->k", logging, columns)
    return ratio
