"""A linear model for each action, shrunk toward one common model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from ope_bench import FloatArray, IntArray
from ope_estimators.learning.learners import fitted

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["OwnRegressor", "PerActionRegressor", "Rotated", "marginal_penalty", "ridge_of"]

PENALTIES = np.logspace(-4, 8, 97)


class Rotated(NamedTuple):
    """The rows of one action, in the axes of their singular value decomposition.

    Parameters
    ----------
    scale : (k,), singular values of the action's design.
    score : (k,), residuals along the left singular vectors.
    axes : (k, p), right singular vectors.
    """

    scale: FloatArray
    score: FloatArray
    axes: FloatArray


class PerActionRegressor:
    """E[y|x, a] = m(x, a) + b_a . phi(x), with m common to all actions and one b_a per action.

    m is fitted to all rows first. Then, with e_i = y_i - m(x_i, a_i),

        b_a = argmin_b  sum_{i: a_i = a} (e_i - b . phi(x_i))**2 + shrinkage |b|**2,

    ridge regression toward the common model. phi(x) is a one and the d standardized context
    columns over sqrt(d), so that intercept and slopes together have equal prior variance. An
    action with ``shrinkage`` rows has an intercept half-way between the common model and its own
    mean; an action without rows has the common model.

    With ``shrinkage`` None, it is the noise variance over the variance of the b_a, both by maximum
    marginal likelihood (empirical Bayes).

    Parameters
    ----------
    common : an unfitted regressor, for m.
    n_context : number of context columns.
    shrinkage : the penalty; 0 fits each action by least squares, None chooses it.

    Attributes
    ----------
    shrinkage_ : the penalty used.

    References
    ----------
    Parametric empirical Bayes inference: theory and applications (Morris, 1983).
    """

    takes_units = True

    def __init__(self, common: Any, n_context: int, shrinkage: float | None = None) -> None:
        self.common = common
        self.n_context = n_context
        self.shrinkage = shrinkage

    def fit(self, features: ArrayLike, outcome: ArrayLike, unit: IntArray | None = None) -> Self:
        """Fit to ``features`` (k, 1 + n_context + ...) and ``outcome`` (k,).

        The columns are the action's number, the context, and the features of the common model. The
        optional ``unit`` (k,) is for the common model.
        """
        table, y = np.asarray(features, dtype=np.float64), np.asarray(outcome, dtype=np.float64)
        action, context, pooled = self._parts(table)
        fitted(self.common, pooled, y, unit)
        residual = y - self._common(pooled)
        self.center_ = context.mean(axis=0)
        spread = context.std(axis=0)
        varying = max(1, int((spread > 0).sum()))
        self.scale_ = np.where(spread > 0, spread, np.inf) * np.sqrt(varying)
        design = self._design(context)
        order = np.argsort(action, kind="stable")
        self.seen_, start = np.unique(action[order], return_index=True)
        rotated = [_rotate(design[rows], residual[rows]) for rows in np.split(order, start[1:])]
        chosen = self.shrinkage
        if chosen is None:
            chosen = marginal_penalty(rotated, float(residual @ residual), len(y))
        self.shrinkage_ = chosen
        self.deviation_ = np.stack([ridge_of(one, chosen) for one in rotated])
        return self

    def predict(self, features: ArrayLike) -> FloatArray:
        """Return the fitted mean: (k,)."""
        action, context, pooled = self._parts(np.asarray(features, dtype=np.float64))
        at = np.minimum(np.searchsorted(self.seen_, action), len(self.seen_) - 1)
        own: FloatArray = np.einsum("kp,kp->k", self._design(context), self.deviation_[at])
        return self._common(pooled) + np.where(self.seen_[at] == action, own, 0.0)

    def _parts(self, table: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
        end = 1 + self.n_context
        return table[:, 0].astype(np.int64), table[:, 1:end], table[:, end:]

    def _common(self, pooled: FloatArray) -> FloatArray:
        return np.asarray(self.common.predict(pooled), dtype=np.float64).reshape(-1)

    def _design(self, context: FloatArray) -> FloatArray:
        """Return phi(x): (k, 1 + n_context)."""
        return np.column_stack([np.ones(len(context)), (context - self.center_) / self.scale_])


class OwnRegressor:
    """A regression of its own for each action, on the rows of that action.

    An action whose outcomes are all equal, as of a single row, has that constant; one without rows
    the mean outcome of all.

    Parameters
    ----------
    make : builds an unfitted regressor.
    """

    takes_units = True

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make

    def fit(self, features: ArrayLike, outcome: ArrayLike, unit: IntArray | None = None) -> Self:
        """Fit to ``features`` (k, 1 + d), action numbers first, and ``outcome`` (k,)."""
        table, y = np.asarray(features, dtype=np.float64), np.asarray(outcome, dtype=np.float64)
        self.mean_ = float(y.mean())
        self.models_: dict[int, Any] = {}
        for action in np.unique(table[:, 0]):
            rows = table[:, 0] == action
            own = float(y[rows][0])
            if table.shape[1] > 1 and (y[rows] != own).any():
                units = None if unit is None else unit[rows]
                self.models_[int(action)] = fitted(self.make(), table[rows, 1:], y[rows], units)
            else:
                self.models_[int(action)] = float(y[rows].mean())
        return self

    def predict(self, features: ArrayLike) -> FloatArray:
        """Return the fitted mean: (k,)."""
        table = np.asarray(features, dtype=np.float64)
        out = np.empty(len(table))
        for action in np.unique(table[:, 0]):
            rows, model = table[:, 0] == action, self.models_.get(int(action), self.mean_)
            if isinstance(model, float):
                out[rows] = model
            else:
                out[rows] = np.asarray(model.predict(table[rows, 1:])).reshape(-1)
        return out


def _rotate(design: FloatArray, residual: FloatArray) -> Rotated:
    left, scale, axes = np.linalg.svd(design, full_matrices=False)
    kept = scale > np.finfo(float).eps * max(design.shape) * scale[0]
    return Rotated(scale[kept], residual @ left[:, kept], axes[kept])


def ridge_of(rows: Rotated, penalty: float) -> FloatArray:
    """Return the coefficients of one action, of least norm where ``penalty`` is 0: (p,)."""
    weight = rows.scale / (np.square(rows.scale) + penalty)
    coefficients: FloatArray = (weight * rows.score) @ rows.axes
    return coefficients


def marginal_penalty(rotated: list[Rotated], squares: float, n: int) -> float:
    """Return the penalty with the largest marginal likelihood, on a grid.

    e_a = Phi_a b_a + noise with b_a ~ N(0, (s2 / penalty) I) and noise ~ N(0, s2 I): s2 has a
    closed form given the penalty, which leaves one number to search for.

    Parameters
    ----------
    rotated : the rows of each action.
    squares : sum of the squared residuals.
    n : number of rows.
    """
    scale2 = np.square(np.concatenate([one.scale for one in rotated]))
    score2 = np.square(np.concatenate([one.score for one in rotated]))
    if squares <= 0:
        return float(PENALTIES[-1])
    best, least = float(PENALTIES[-1]), np.inf
    for penalty in PENALTIES[::-1]:
        # The noise variance has a lower bound, since noise-free rewards are fitted without error.
        explained = float((score2 * scale2 / (scale2 + penalty)).sum())
        noise = max(squares - explained, 1e-12 * squares) / n
        minus_twice_log = n * np.log(noise) + float(np.log1p(scale2 / penalty).sum())
        if minus_twice_log < least:
            best, least = float(penalty), minus_twice_log
    return best
