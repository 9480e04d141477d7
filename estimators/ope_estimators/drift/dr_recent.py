"""The doubly robust estimator on the last part of a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Self, cast

import numpy as np
from annotated_types import Gt, Le

from ope_bench import Estimate, FloatArray, View
from ope_estimators.drift.drifting import Drifting

__all__ = ["DRRecent"]


class DRRecent(Drifting):
    """`DR` on the last rows alone, its reward model fitted to them.

        V̂ = mean over rows i with t_i >= 1 - s of
            sum_a π1(a|x_i) q̂(x_i, a) + w_i (r_i - q̂(x_i, a_i))

    The plainest answer to drift: forget what is old. s = 1 gives `DR`.

    Assumptions: those of `DR`; the value stays what it was in the last part of the log.
    Fails when: there is a trend or a season within that part or after it, or it has few rows.

    Parameters
    ----------
    share : s, the last part of the time of the log.
    time : context column that holds the time; None where rows are in the order of time.
    regressor, regressor_params, action_features, cross_fit : the reward model, as for `DR`.

    References
    ----------
    Learning from time-changing data with adaptive windowing (Bifet and Gavaldà, 2007), for windows
    of recent rows; here the window is fixed.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> fits = DRRecent("ridge", share=1.0), "dr[regressor=ridge]"
    >>> same, today = evaluate(fits, "saito-toy", replicates=1)
    >>> abs(same.estimate - today.estimate) < 0.1
    True
    """

    # Its last part is a share of rows, whatever they weigh.
    row_weights = False
    # Conformance checks shuffle rows: then a column must tell their order.
    check_params: ClassVar[Mapping[str, Any]] = {"time": 0, "share": 0.9}

    share: Annotated[float, Gt(0), Le(1)] = 0.25

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Fit the reward model to the last rows."""
        self.rows_ = np.flatnonzero(self._times(view) >= 1.0 - self.share)
        every = np.arange(view.m if view.has_target_sample else 0)
        self.recent_ = view.rows(self.rows_, every)
        return super().fit(self.recent_, rng=rng, device=device)

    def estimate(self, view: View) -> Estimate:
        """Return the mean of the terms of the last rows and its standard error."""
        found = super().estimate(self.recent_)
        view.violations += self.recent_.violations
        # Of all rows, of which the old ones add nothing to the value.
        weights, terms = np.zeros(view.n), np.full(view.n, found.value)
        more = view.n / len(self.rows_)
        weights[self.rows_] = more * cast(FloatArray, found.weights)
        terms[self.rows_] += more * (cast(FloatArray, found.terms) - found.value)
        return replace(found, weights=weights, terms=terms)
