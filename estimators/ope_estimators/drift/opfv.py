"""Doubly robust estimation of a future value from times that are like it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Gt

from ope_bench import (
    Access,
    Estimate,
    FloatArray,
    PositivityViolation,
    UnavailableError,
    View,
    standard_error,
)
from ope_estimators.drift.drifting import Drifting
from ope_estimators.features.pairs import Points
from ope_estimators.learning.learners import GIVEN
from ope_estimators.nuisance.given import GivenReward
from ope_estimators.nuisance.reward import FittedFunction

__all__ = ["OPFV"]


class OPFV(Drifting):
    """A reward model, corrected by residuals of the rows whose time is like the wanted one.

        V̂ = (1/n) sum_i [ sum_a π1(a|x_i) q̂(x_i, t', a)
                          + w_i (r_i - q̂(x_i, t_i, a_i)) 1{φ(t_i) = φ(t')} / p̂(φ(t')) ]

    t' is the wanted time, φ says which times are alike: those at the same place of a cycle, or the
    last ones. p̂ is the share of rows with φ(t'). What differs between times with equal φ is left
    to q̂, which predicts at t'. A constant φ gives `DR` where q̂ knows no time.

    Assumptions: those of `DR`; times with equal φ have equal values, but for what q̂ explains.
    Fails when: the past does not repeat, q̂ is wrong at t' (trees and linear effects of time do not
    forecast a season), or few rows have φ(t'). The standard error takes q̂ at t' as given.

    Parameters
    ----------
    phi : ``constant``; ``cycle``, the bin of a cycle; ``recent``, the last share of the time.
    period : length of a cycle, or of what is recent, as a share of the time of the log.
    bins : parts of a cycle.
    time, horizon : the time of rows, and when the value is wanted; as in `Prognosticator`. With a
        column of times the model's predictions have t' in it; without, the model knows no time.
    regressor, regressor_params, action_features, cross_fit : the reward model, as for `DR`.
        ``given`` takes the problem's predictions, those at t' from ``predicted_reward_wanted``,
        without which φ must be constant and q̂ predicts at the rows' own times.

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

    row_weights = False

    phi: Literal["constant", "cycle", "recent"] = "recent"
    period: Annotated[float, Gt(0)] = 0.25
    bins: Annotated[int, Ge(1)] = 4

    @property
    def access(self) -> Access:
        """Predictions at the wanted time as well, where predictions are given."""
        return super().access | self._wanted

    @property
    def optional_access(self) -> Access:
        """Those at the wanted time, where all times are alike."""
        return self._wanted if self.phi == "constant" else Access.SAMPLES

    @property
    def _wanted(self) -> Access:
        return Access.PREDICTED_REWARD_WANTED if self.regressor == GIVEN else Access.SAMPLES

    def estimate(self, view: View) -> Estimate:
        """Return the mean of the terms and its standard error."""
        plain = super().estimate(view)
        time, wanted = self._times(view), 1.0 + self.horizon
        if self.phi == "constant":
            alike = np.ones(view.n, dtype=bool)
        elif self.phi == "recent":
            alike = time >= wanted - self.horizon - self.period
        else:
            part = np.append(time, wanted) / self.period % 1.0 * self.bins
            # Whole numbers round to less.
            place = np.floor(np.round(part, 9)) % self.bins
            alike = place[:-1] == place[-1]
        share = float(alike.mean())
        if share == 0:
            msg = "no row has a time like the wanted one"
            raise PositivityViolation(msg, fallback=plain.value)
        weight, _, residual = self._parts(view)
        used = weight * alike / share
        terms = self._expected_then(view) + used * residual
        return replace(
            plain,
            value=float(terms.mean()),
            standard_error=standard_error(terms, view.unit),
            weights=used,
            diagnostics={**plain.diagnostics, "alike_share": share},
            interval=None,
            terms=terms,
        )

    def _expected_then(self, view: View) -> FloatArray:
        """Return sum_a π1(a|x_i) q̂(x_i, t', a), q̂ not having seen row i: (n,)."""
        if self.regressor == GIVEN:
            try:
                given = GivenReward(view.predicted_reward_wanted)
            except UnavailableError:
                return self._expected_reward(view)
            return given.logged_expected(view.target_policy, view.context)
        if self.time is None:
            return self._expected_reward(view)
        expected, logged = np.empty(view.n), self._column(view)
        wanted = float(logged.max()) + self.horizon * float(np.ptp(logged))
        for model, rows in self.reward_.parts():
            f = partial(_at_time, model, self.time, wanted)
            expected[rows] = view.target_policy.expect(view.context[rows], f)
        return expected


def _at_time(
    model: FittedFunction, column: int, time: float, context: FloatArray, points: Points
) -> FloatArray:
    """Predict with another time in the context: (k,)."""
    moved = np.array(context)
    moved[:, column] = time
    return model(moved, points)
