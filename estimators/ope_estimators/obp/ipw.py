"""Inverse propensity weighting by the Open Bandit Pipeline."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from annotated_types import Gt

from ope_bench import Access, View
from ope_estimators.obp.adapter import Adapter

__all__ = ["IPW"]


class IPW(Adapter):
    """Open Bandit Pipeline's inverse propensity weighting.

        V̂ = (1/n) sum_i min(w_i, clip) r_i,   w_i = π1(a_i|x_i) / π0(a_i|x_i)

    Assumptions: known propensities; finitely many actions; π0(a|x) > 0 wherever π1(a|x) > 0.
    Fails when: the policies overlap little; without support it stays finite and is biased.

    Parameters
    ----------
    clip : the Pipeline's ``lambda_``, the upper bound of the weights.

    References
    ----------
    Open Bandit Dataset and Pipeline (Saito, Aihara, Matsutani and Narita, 2021).
    """

    access = Access.PROPENSITY | Access.TARGET_POLICY

    clip: Annotated[float, Gt(0)] | None = None

    def _value(self, view: View) -> float:
        from obp.ope import InverseProbabilityWeighting

        peer = InverseProbabilityWeighting(lambda_=np.inf if self.clip is None else self.clip)
        return float(peer.estimate_policy_value(**self._arrays(view)))
