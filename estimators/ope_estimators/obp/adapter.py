"""What the adapters share: a view in the shapes that the Open Bandit Pipeline takes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from ope_bench.arrays import FloatArray
from ope_bench.data import Estimate
from ope_bench.errors import UnavailableError
from ope_bench.estimator import Estimator
from ope_bench.policies import DiscretePolicy, Policy
from ope_bench.view import View

__all__ = ["Adapter", "table"]

MOST_ENTRIES = 50_000_000
"""Entries of the largest (n, n_actions) table that is written out: 400 MB of floats."""


class Adapter(Estimator):
    """An estimator of the Open Bandit Pipeline; a subclass says which, and with which arrays."""

    @property
    def requires(self) -> tuple[str, ...]:
        """The peer, so that its import is not part of any fit."""
        return ("obp.ope",)

    def estimate(self, view: View) -> Estimate:
        """The peer's number."""
        from ope_estimators.obp.peer import incompatibility_told, versions

        with incompatibility_told():
            value = float(self._value(view))
        return Estimate(value, diagnostics={"peer": versions()})

    @abstractmethod
    def _value(self, view: View) -> float:
        """What the peer says."""

    def _arrays(self, view: View) -> dict[str, Any]:
        """Arguments that most of its estimators take; there is one position."""
        return {
            "reward": view.reward,
            "action": view.action,
            "pscore": view.propensity,
            "action_dist": table(view.target_policy, view),
            "position": np.zeros(view.n, dtype=np.int64),
        }


def table(policy: Policy, view: View) -> FloatArray:
    """All probabilities at the logged contexts, as the peer wants them: (n, n_actions, 1).

    Raises
    ------
    UnavailableError : actions are continuous, or the table would be too large.
    """
    if view.n_actions is None or not isinstance(policy, DiscretePolicy):
        msg = "the Open Bandit Pipeline's estimator is for finitely many actions"
        raise UnavailableError(msg)
    if view.n * view.n_actions > MOST_ENTRIES:
        msg = (
            f"the Open Bandit Pipeline takes a table of {view.n} rows x {view.n_actions} actions; "
            f"at most {MOST_ENTRIES:,} entries are written out"
        )
        raise UnavailableError(msg)
    return np.concatenate([block for _, block in policy.blocks(view.context)])[:, :, None]
