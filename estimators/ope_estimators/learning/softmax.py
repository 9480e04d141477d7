"""Logistic regression on very many classes: rows in chunks, in single precision."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt

from ope_bench import FloatArray, IntArray, row_chunks
from ope_estimators.learning.lbfgs import minimized

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["SoftmaxClassifier", "SoftmaxLoss"]

Table = npt.NDArray[np.floating[Any]]


class SoftmaxClassifier:
    """P(k|x) proportional to exp(b_k + w_k . z), z = x standardized, by penalized likelihood.

        min_{b, w}  -(1/n) sum_i log P(y_i|x_i) + sum_k |w_k|² / (2 C n)

    With three classes or more this is the objective of scikit-learn's `LogisticRegression`, and
    L-BFGS from zero minimizes it as there; two classes have a vector of coefficients each, too.
    The table of rows and classes is never held: each evaluation passes over chunks of rows.

    Parameters
    ----------
    C : inverse strength of the penalty.
    max_iter : most iterations.
    tol : largest entry of the gradient at which it stops.
    precision : of the chunks, ``single`` or ``double``; sums over chunks are double.

    Attributes
    ----------
    classes_ : (n_classes,), sorted.
    coefficients_ : (1 + d, n_classes), the b first.
    n_iter_ : iterations made.
    converged_ : whether the gradient became small enough, or the objective stopped falling.
    log_likelihood_ : (1/n) sum_i log P(y_i|x_i) at the end.

    >>> rows = np.array([[-2.0], [-1.0], [0.0], [1.0], [2.0], [3.0]])
    >>> model = SoftmaxClassifier().fit(rows, [0, 0, 1, 1, 2, 2])
    >>> model.predict_proba(rows).argmax(axis=1).tolist()
    [0, 0, 1, 1, 2, 2]
    """

    def __init__(
        self,
        C: float = 1.0,
        max_iter: int = 1000,
        tol: float = 1e-4,
        precision: Literal["single", "double"] = "single",
    ) -> None:
        self.C = C
        self.max_iter = max_iter
        self.tol = tol
        self.precision = precision

    def fit(self, features: ArrayLike, outcome: ArrayLike) -> Self:
        """Fit to ``features`` (k, d) and ``outcome`` (k,) of at least two classes."""
        rows = np.asarray(features, dtype=np.float64)
        self.center_, spread = rows.mean(axis=0), rows.std(axis=0)
        self.scale_: FloatArray = np.where(spread > 0, spread, 1.0)
        table = self._with_one(rows)
        self.classes_, label = np.unique(np.asarray(outcome), return_inverse=True)
        loss = SoftmaxLoss(table, label.reshape(-1), len(self.classes_), self.C)
        done = minimized(
            loss,
            math.prod(loss.shape),
            max_iter=self.max_iter,
            tol=self.tol,
            rounding=float(np.finfo(table.dtype).eps),
        )
        self.coefficients_: FloatArray = done.x.reshape(loss.shape)
        self.n_iter_ = int(done.nit)
        self.converged_ = bool(done.success)
        self.log_likelihood_ = -loss(done.x)[0] + loss.penalty(self.coefficients_)
        return self

    def predict_proba(self, features: ArrayLike) -> Table:
        """Return the probability of each class: (k, n_classes)."""
        table = self._with_one(np.asarray(features, dtype=np.float64))
        return _softmax(table @ self.coefficients_.astype(table.dtype))[0]

    def _with_one(self, rows: FloatArray) -> Table:
        dtype = np.float32 if self.precision == "single" else np.float64
        table = np.empty((len(rows), 1 + rows.shape[1]), dtype=dtype)
        table[:, 0] = 1.0
        scaled = rows - self.center_
        scaled /= self.scale_
        table[:, 1:] = scaled
        return table


class SoftmaxLoss:
    """The objective and its gradient, as functions of the flat coefficients.

    Parameters
    ----------
    table : (n, 1 + d), features with ones before them.
    label : (n,), 0 to n_classes - 1.
    n_classes : number of classes.
    inverse_penalty : C.
    """

    def __init__(
        self, table: Table, label: IntArray, n_classes: int, inverse_penalty: float
    ) -> None:
        self._table, self._label = table, label
        self._strength = 1.0 / (inverse_penalty * len(table))
        self.shape = table.shape[1], n_classes
        # Features summed by class, which the gradient needs whatever the coefficients are.
        self._sums = np.zeros((n_classes, table.shape[1]))
        np.add.at(self._sums, label, table.astype(np.float64))

    def __call__(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Evaluate both: a number, and (n_coefficients,)."""
        coefficients = flat.reshape(self.shape)
        weights = coefficients.astype(self._table.dtype)
        value, gradient = 0.0, -self._sums.T
        for rows in row_chunks(len(self._table), self.shape[1]):
            part, own = self._table[rows], self._label[rows, None]
            score = part @ weights
            logged = np.take_along_axis(score, own, axis=1)[:, 0]
            probability, log_sum = _softmax(score)
            value += float((log_sum - logged).sum(dtype=np.float64))
            gradient += part.T @ probability
        n = len(self._table)
        gradient /= n
        gradient[1:] += self._strength * coefficients[1:]
        return value / n + self.penalty(coefficients), gradient.ravel()

    def penalty(self, coefficients: FloatArray) -> float:
        """Return the part of the objective that is no likelihood."""
        return 0.5 * self._strength * float(np.square(coefficients[1:]).sum())


def _softmax(score: Table) -> tuple[Table, Table]:
    """Return probabilities, written over the scores, and the log of the sum of exponentials."""
    top = score.max(axis=1, keepdims=True)
    score -= top
    np.exp(score, out=score)
    total = score.sum(axis=1, keepdims=True)
    score /= total
    return score, (top + np.log(total))[:, 0]
