"""The base of adapters: a view's data in the shapes of the Open Bandit Pipeline."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from ope_bench import (
    DiscretePolicy,
    Estimate,
    Estimator,
    FloatArray,
    Policy,
    UnavailableError,
    View,
)

__all__ = ["Adapter", "table"]

MOST_ENTRIES = 50_000_000
"""Most entries of an (n, n_actions) table: 400 MB of floats."""


class Adapter(Estimator):
    """Base of estimators of the Open Bandit Pipeline; a subclass calls one of them."""

    @property
    def requires(self) -> tuple[str, ...]:
        """The Pipeline, so that its import is not part of any fit."""
        return ("obp.ope",)

    def estimate(self, view: View) -> Estimate:
        """Return the Pipeline's estimate."""
        from ope_estimators.obp.peer import translate_incompatibility, versions

        with translate_incompatibility():
            value = float(self._value(view))
        return Estimate(value, diagnostics={"peer": versions()})

    @abstractmethod
    def _value(self, view: View) -> float:
        """Return the Pipeline's estimate."""

    def _arrays(self, view: View) -> dict[str, Any]:
        """Return the arguments that most of its estimators need; there is one position."""
        return {
            "reward": view.reward,
            "action": view.action,
            "pscore": view.propensity,
            "action_dist": table(view.target_policy, view),
            "position": np.zeros(view.n, dtype=np.int64),
        }


def table(policy: Policy, view: View) -> FloatArray:
    """Return all probabilities at the logged contexts, in the Pipeline's shape: (n, n_actions, 1).

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
