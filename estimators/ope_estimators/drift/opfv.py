"""Doubly robust estimation of a future value from times that are like it."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Gt

from ope_bench import Estimate, PositivityViolation, View
from ope_estimators.baseline.weighting.weighted_mean import standard_error
from ope_estimators.drift.drifting import Drifting

__all__ = ["OPFV"]


class OPFV(Drifting):
    """A reward model, corrected by residuals of the rows whose time is like the wanted one.

        V̂ = (1/n) sum_i [ sum_a π1(a|x_i) q̂(x_i, a)
                          + w_i (r_i - q̂(x_i, a_i)) 1{φ(t_i) = φ(t')} / p̂(φ(t')) ]

    t' is the wanted time, φ says which times are alike: those at the same place of a cycle, or the
    last ones. p̂ is the share of rows with φ(t'). A constant φ gives `DR`.

    Assumptions: those of `DR`; times with equal φ have equal values, but for what q̂ explains.
    Fails when: the past does not repeat, or few rows have φ(t').

    Parameters
    ----------
    phi : ``constant``; ``cycle``, the bin of a cycle; ``recent``, the last share of the time.
    period : length of a cycle, or of what is recent, as a share of the time of the log.
    bins : parts of a cycle.
    time, horizon : the time of rows, and when the value is wanted; as in `Prognosticator`.
    regressor, regressor_params, action_features, cross_fit : the reward model, as for `DR`.

    References
    ----------
    Off-policy evaluation and learning for the future under non-stationarity (Shimizu, Saito,
    Kiyohara and Joachims, 2025), the OPFV estimator.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> fits = OPFV("ridge", phi="constant"), "dr[regressor=ridge]"
    >>> same, today = evaluate(fits, "saito-toy", replicates=1)
    >>> same.estimate == today.estimate
    True
    """

    _uses_row_weights = False

    phi: Literal["constant", "cycle", "recent"] = "recent"
    period: Annotated[float, Gt(0)] = 0.25
    bins: Annotated[int, Ge(1)] = 4

    def estimate(self, view: View) -> Estimate:
        """Return the mean of the terms and its standard error."""
        plain = super().estimate(view)
        if self.phi == "constant":
            return plain
        time, wanted = self._times(view), 1.0 + self.horizon
        if self.phi == "recent":
            alike = time >= wanted - self.horizon - self.period
        else:
            place = np.floor(np.append(time, wanted) / self.period % 1.0 * self.bins)
            alike = place[:-1] == place[-1]
        share = float(alike.mean())
        if share == 0:
            msg = "no row has a time like the wanted one"
            raise PositivityViolation(msg, fallback=plain.value)
        weight, expected, residual = self._parts(view)
        used = weight * alike / share
        terms = expected + used * residual
        return replace(
            plain,
            value=float(terms.mean()),
            standard_error=standard_error(terms, view.unit),
            weights=used,
            diagnostics={**plain.diagnostics, "alike_share": share},
            interval=None,
            terms=terms,
        )
