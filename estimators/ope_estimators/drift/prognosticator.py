"""Forecasts of a policy's value from its series over the periods of a log."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np
from annotated_types import Ge

from ope_bench import Estimate, FloatArray, View, standard_error
from ope_estimators.drift.drifting import Drifting

__all__ = ["Prognosticator"]


class Prognosticator(Drifting):
    """A least squares forecast of the values of periods, each estimated doubly robustly.

        V̂ = ψ(t')' (sum_k n_k ψ_k ψ_k')⁻¹ sum_k n_k ψ_k V̂_k

    V̂_k is the mean of the terms of `DR` over the n_k rows of period k, ψ_k powers of its mean time
    (and waves, where there is a cycle), t' the wanted time. Degree 0 gives `DR`.

    Assumptions: those of `DR` in every period; values follow the basis ψ.
    Fails when: they do not: forecasts far beyond the log, or of high degree, have large errors.

    Parameters
    ----------
    periods : number of periods of equal time.
    degree : highest power of the time.
    waves : number of pairs of sine and cosine, with periods of 1, 1/2, ... of the log's time.
    time : context column that holds the time; None where rows are in the order of time.
    horizon : how long after the last row the value is wanted, in shares of the time of the log.
    regressor, regressor_params, action_features, cross_fit : the reward model, as for `DR`.

    References
    ----------
    Optimizing for the future in non-stationary MDPs (Chandak et al., 2020), equation 6, there
    with importance weighting in each period.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> fits = Prognosticator("ridge", degree=0), "dr[regressor=ridge]"
    >>> same, today = evaluate(fits, "saito-toy", replicates=1)
    >>> abs(same.estimate - today.estimate) < 1e-12
    True
    """

    row_weights = False

    periods: Annotated[int, Ge(1)] = 10
    degree: Annotated[int, Ge(0)] = 1
    waves: Annotated[int, Ge(0)] = 0

    def estimate(self, view: View) -> Estimate:
        """Return the forecast; the standard error is that of the rows around the fit."""
        plain = super().estimate(view)
        weight, expected, residual = self._parts(view)
        terms = expected + weight * residual
        time = self._times(view)
        period = np.minimum((time * self.periods).astype(np.int64), self.periods - 1)
        _, row, count = np.unique(period, return_inverse=True, return_counts=True)
        basis = self._basis(np.bincount(row, time) / count)
        means = np.bincount(row, terms) / count
        gram = basis.T @ (count[:, None] * basis)
        coefficients = np.linalg.pinv(gram, hermitian=True) @ basis.T * count
        influence = self._basis(np.array([1.0 + self.horizon]))[0] @ coefficients
        fit = basis @ (coefficients @ means)
        value = float(influence @ means)
        used = (influence / count * view.n)[row]
        around = value + used * (terms - fit[row])
        return replace(
            plain,
            value=value,
            standard_error=standard_error(around, view.unit),
            weights=np.abs(used) * weight,
            interval=None,
            terms=around + (value - around.mean()),
        )

    def _basis(self, time: FloatArray) -> FloatArray:
        """Return ψ at some times: (k, d)."""
        angle = 2.0 * np.pi * time[:, None] * np.arange(1, self.waves + 1)
        powers = time[:, None] ** np.arange(self.degree + 1)
        return np.concatenate([powers, np.sin(angle), np.cos(angle)], axis=1)
