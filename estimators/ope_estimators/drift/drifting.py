"""Base of the doubly robust estimators that know the time of each row."""

from __future__ import annotations

import numpy as np

from ope_bench import FloatArray, ParameterError, View
from ope_estimators.actions.doubly_robust.dr import DR

__all__ = ["Drifting"]


class Drifting(DR):
    """Base: the terms of `DR`, and when each row was logged.

    Parameters
    ----------
    time : context column that holds the time; None where rows are in the order of time, which
        then goes from 0 to 1.
    horizon : how long after the last row the value is wanted, in shares of the time of the log.
    """

    time: int | None = None
    horizon: float = 0.0

    def _column(self, view: View) -> FloatArray:
        """Return when each row was logged, in the unit of the context's column: (n,)."""
        if self.time is None:
            return np.arange(view.n, dtype=np.float64)
        if not -view.context.shape[1] <= self.time < view.context.shape[1]:
            msg = f"time is {self.time}; the context has {view.context.shape[1]} columns"
            raise ParameterError(msg)
        return view.context[:, self.time]

    def _times(self, view: View) -> FloatArray:
        """Return the times of the rows, from 0 for the first to 1 for the last: (n,)."""
        raw = self._column(view)
        span = float(np.ptp(raw))
        scaled: FloatArray = (raw - raw.min()) / span if span > 0 else np.zeros(view.n)
        return scaled

    def _parts(self, view: View) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return w, the sum over actions of π1 q̂, and the residuals: (n,), (n,), (n,)."""
        weight = view.target_policy.probability(view.context, view.action) / self._propensity(view)
        residual = view.reward - self.reward_.logged(view.context, view.action)
        return weight, self._expected_reward(view), residual
