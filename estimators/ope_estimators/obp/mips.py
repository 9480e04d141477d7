"""Marginalized inverse propensity weighting by the Open Bandit Pipeline."""

from __future__ import annotations

import inspect

import numpy as np

from ope_bench import Access, UnavailableError, View
from ope_estimators.obp.adapter import Adapter, table

__all__ = ["MIPS"]


class MIPS(Adapter):
    """Open Bandit Pipeline's marginalized weighting, with weights estimated from data.

        V̂ = (1/n) sum_i ŵ(x_i, e_i) r_i,   ŵ(x, e) = sum_a π̂0(a|x, e) π1(a|x) / π0(a|x)

    The Pipeline's "true" weights, a product of one-dimensional marginals, are not provided: they
    are wrong where dimensions depend on each other.

    Assumptions: known policies; finitely many actions; rewards depend on actions through the
    embedding, which is categorical.
    Fails when: the classifier of actions by context and embedding is poor. Weights at actions with
    π0 = 0 are set to 0, so that the bias from missing support is not detected.
    Unavailable with scikit-learn 1.4 or newer, whose one-hot encoder has no argument ``sparse``.

    References
    ----------
    Off-Policy Evaluation for Large Action Spaces via Embeddings (Saito and Joachims, 2022).
    """

    access = Access.LOGGING_POLICY | Access.TARGET_POLICY

    def _value(self, view: View) -> float:
        from obp.ope import MarginalizedInverseProbabilityWeighting as Peer

        if view.n_actions is None or any(c.kind == "continuous" for c in view.schema.embedding):
            msg = "the Open Bandit Pipeline's marginalized weighting is for categorical embeddings"
            raise UnavailableError(msg)
        codes = np.column_stack(
            [np.unique(column, return_inverse=True)[1] for column in view.embedding.T]
        )
        arrays = self._arrays(view) | {
            "context": view.context,
            "action_embed": codes,
            "pi_b": table(view.logging_policy, view),
        }
        del arrays["pscore"]
        # Its default classifier is one object for all instances; this is a new one with the same
        # parameters.
        default = inspect.signature(Peer).parameters["pi_a_x_e_estimator"].default
        fresh = type(default)(**default.get_params())
        with np.errstate(divide="ignore", invalid="ignore"):
            peer = Peer(n_actions=view.n_actions, pi_a_x_e_estimator=fresh)
            return float(peer.estimate_policy_value(**arrays))
