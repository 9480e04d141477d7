"""Fits of the linear mixed model to many rows, from sums of products of their columns."""

from __future__ import annotations

import numpy as np

from ope_bench import FloatArray, IntArray
from ope_estimators.learning.per_action import Rotated
from ope_estimators.learning.quadratic import RidgePath

__all__ = ["Sums"]

BLOCK = 4_096
"""Rows whose columns are made at once: they stay in the processor's cache."""

JUDGED = 20_000
"""Rows, about, on which a penalty is judged."""

CONSTANT = 1e-12
"""Variance, as a share of the mean square, up to which a column is constant."""

ROUNDING = 1e-7
"""Singular value, as a share of an action's largest, up to which an axis has no variance."""


class Sums:
    """Sums of products of all columns, for each action: all that ridge regressions need.

    The columns are features, their products, a one and the outcome. Leave-one-out errors alone
    are of rows themselves: of about `JUDGED` rows, evenly spaced.

    Parameters
    ----------
    table : (k, d), standardized features.
    inner : (k, d), the same as products see them.
    first, second : (q,), columns of each product.
    outcome : (k,)
    action : (k,); None where actions have no parts.
    slopes : number of features that the design of an action has beside the one.
    spread : what these are divided by.

    Attributes
    ----------
    mean, scale : (d + q,), of features and products.
    actions : (a,), the logged ones in order.
    """

    def __init__(
        self,
        table: FloatArray,
        inner: FloatArray,
        first: IntArray,
        second: IntArray,
        outcome: FloatArray,
        action: IntArray | None,
        slopes: int,
        spread: float,
    ) -> None:
        n, d = table.shape
        side = d + len(first) + 2

        def columns(rows: IntArray) -> FloatArray:
            own = inner[rows]
            block = np.ones((len(rows), side))
            block[:, :d], block[:, -1] = table[rows], outcome[rows]
            np.multiply(own[:, first], own[:, second], out=block[:, d:-2])
            return block

        self.actions, code = np.unique(
            np.zeros(n, dtype=np.int64) if action is None else action, return_inverse=True
        )
        design = np.append(side - 2, np.arange(slopes))
        along = np.zeros((len(self.actions), 1 + slopes, side))
        self._total = np.zeros((side, side))
        order = np.argsort(code, kind="stable")
        for a, rows in enumerate(np.split(order, np.cumsum(np.bincount(code))[:-1])):
            for at in range(0, len(rows), BLOCK):
                block = columns(rows[at : at + BLOCK])
                product = block.T @ block
                self._total += product
                along[a] += product[design]
        # Standardized columns by the same sums: each less its mean times the one, over its scale.
        square, mean = np.diag(self._total)[:-2] / n, self._total[-2, :-2] / n
        variance = square - np.square(mean)
        self.mean = mean
        constant = variance <= CONSTANT * np.maximum(square, CONSTANT)
        self.scale = np.sqrt(np.where(constant, 1.0, variance))
        change = np.diag(np.append(1 / self.scale, [1.0, 1.0]))
        change[-2, :-2] = -self.mean / self.scale
        self._total = change.T @ self._total @ change
        share = np.append(1.0, np.full(slopes, 1 / spread))[:, None]
        some = np.arange(0, n, max(1, n // JUDGED))
        self._rows, self._code = columns(some) @ change, code[some]
        self._design = columns(some)[:, design] * share[:, 0]
        squares = along[:, :, design] * share * share.T
        self._square, self._axes = np.linalg.eigh(squares)
        self._square = np.maximum(self._square, 0.0)
        # The designs along their axes, times all columns.
        self._along = self._axes.transpose(0, 2, 1) @ (along * share) @ change

    def path(self, shrinkage: float | None) -> tuple[RidgePath, FloatArray, FloatArray]:
        """Return the regressions, given the variance of deviations if there are some.

        Returns
        -------
        path, means (d + q + 1,) of its columns and the outcome, share (k,) of the rows of the one.
        """
        total, rows = self._total, self._rows
        if shrinkage is not None:
            # Rows times the inverse root of the covariance that deviations give them.
            kept = shrinkage / (self._square + shrinkage)
            each = np.sqrt(1 / (self._square + shrinkage))[:, :, None] * self._along
            total = total - np.tensordot(each, each, axes=((0, 1), (0, 1)))
            less = self._along / ((self._square + shrinkage) * (1 + np.sqrt(kept)))[:, :, None]
            less = self._axes @ less
            rows = rows.copy()
            for a in np.unique(self._code):
                own = self._code == a
                rows[own] -= self._design[own] @ less[a]
        norm = float(total[-2, -2])
        mean = np.delete(total[-2], -2) / norm
        inner = np.delete(np.delete(total, -2, 0), -2, 1) - norm * np.outer(mean, mean)
        table = np.delete(rows, -2, 1) - np.outer(rows[:, -2], mean)
        square, axes = np.linalg.eigh(inner[:-1, :-1])
        path = RidgePath(
            table[:, -1],
            np.maximum(square, 0.0),
            table[:, :-1] @ axes,
            axes,
            axes.T @ inner[:-1, -1],
        )
        return path, mean, np.square(rows[:, -2]) / norm

    def rotated(self, weight: FloatArray) -> tuple[list[Rotated], float]:
        """Return a residual, a sum of columns, in the axes of the actions, and its square.

        Parameters
        ----------
        weight : (d + q + 2,), of each column.
        """
        scale = np.sqrt(self._square)
        axis = scale > ROUNDING * scale.max(axis=1, keepdims=True)
        score = np.divide(self._along @ weight, scale, out=np.zeros_like(scale), where=axis)
        axes = self._axes.transpose(0, 2, 1).reshape(-1, scale.shape[1])
        found = Rotated(scale.reshape(-1), score.reshape(-1), axes)
        return [found], float(weight @ self._total @ weight)

    def deviations(self, weight: FloatArray, shrinkage: float) -> FloatArray:
        """Return the deviations of the actions that a residual leaves: (a, p)."""
        part = (self._along @ weight) / (self._square + shrinkage)
        found: FloatArray = (self._axes @ part[:, :, None])[:, :, 0]
        return found
