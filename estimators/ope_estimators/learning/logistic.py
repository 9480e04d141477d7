"""Scikit-learn's logistic regression on three classes or more, without its checks of the input.

Every number has the bits that `LogisticRegression.fit` itself would give, but for very large
tables of rows and classes: the same objective is minimized there in single precision.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ope_bench import FloatArray, IntArray
from ope_estimators.learning.lbfgs import minimized
from ope_estimators.learning.softmax import SoftmaxLoss

__all__ = ["fit_logistic"]

RELEASES = ((1, 9),)
"""Releases of scikit-learn whose fit is the one below, bit for bit; others fit by themselves."""

Objective = Callable[[FloatArray], tuple[float, FloatArray]]
"""Value and gradient, (size,), at a point, (size,)."""

FREE = ("C", "max_iter", "tol", "random_state")
"""Parameters that may differ from their defaults."""

LARGE = 1 << 22
"""Rows times classes beyond which evaluations are in single precision and by chunks of rows: in a
third of the time, and coefficients differ by less than where the search ends."""

OBJECTIVE_TOLERANCE = 64.0 * float(np.finfo(np.float64).eps)


def fit_logistic(model: Any, features: FloatArray, label: FloatArray | IntArray) -> Any:
    """Fit a logistic regression of scikit-learn, and return it.

    By its own method, unless all of this holds: its release is one of `RELEASES`, no parameter but
    those of `FREE` differs from its default, and there are three classes or more.

    Parameters
    ----------
    model : ``sklearn.linear_model.LogisticRegression``.
    features : (k, d)
    label : (k,)
    """
    classes, code = np.unique(label, return_inverse=True)
    if len(classes) < 3 or not (_is_plain(features, label) and _is_covered(model)):
        return model.fit(features, label)
    shape = len(classes), features.shape[1] + 1
    single = len(features) * len(classes) > LARGE
    if single:
        table = np.empty((len(features), shape[1]), dtype=np.float32)
        table[:, 0], table[:, 1:] = 1.0, features
        objective: Objective = SoftmaxLoss(table, code.reshape(-1), len(classes), model.C)
        rounding = float(np.finfo(np.float32).eps)
    else:
        objective = _objective(features, code.astype(np.float64), len(classes), model.C)
        rounding = OBJECTIVE_TOLERANCE
    done = minimized(
        objective, math.prod(shape), max_iter=model.max_iter, tol=model.tol, rounding=rounding
    )
    if done.status != 0:
        _warn_of_no_convergence(done)
    coefficients = done.x.reshape(shape, order="F")
    if single:  # intercepts come first there
        coefficients = np.roll(coefficients, -1, axis=1)
    model.classes_, model.n_features_in_ = classes, features.shape[1]
    model.coef_, model.intercept_ = coefficients[:, :-1], coefficients[:, -1]
    model.n_iter_ = np.array([done.nit], dtype=np.int32)
    return model


def _warn_of_no_convergence(done: Any) -> None:
    from sklearn.exceptions import ConvergenceWarning

    message = f"lbfgs failed to converge after {done.nit} iteration(s): {done.message}"
    warnings.warn(message, ConvergenceWarning, stacklevel=3)


def _is_plain(features: FloatArray, label: FloatArray | IntArray) -> bool:
    """Return whether scikit-learn would use the arrays as they are."""
    rows = features.dtype == np.float64 and features.flags.c_contiguous
    return rows and label.dtype.kind in "iu" and bool(np.isfinite(features).all())


def _is_covered(model: Any) -> bool:
    """Return whether a model's release and parameters are those whose fit is known."""
    import sklearn

    if tuple(map(int, sklearn.__version__.split(".")[:2])) not in RELEASES:
        return False
    given, default = vars(model), vars(type(model)())
    if given.keys() != default.keys():  # fitted before, or with callbacks
        return False
    if any(given[name] != default[name] for name in given.keys() - FREE):
        return False
    # Other values are for scikit-learn to refuse.
    if not isinstance(model.max_iter, int) or model.max_iter < 1:
        return False
    return all(isinstance(one, int | float) and 0 < one < math.inf for one in (model.C, model.tol))


def _objective(
    features: FloatArray, label: FloatArray, n_classes: int, inverse_penalty: float
) -> Objective:
    """Return the objective and its gradient, as a function of the flat coefficients.

    The same operations as in scikit-learn's ``LinearModelLoss``, written to arrays that are
    reused; in the flat coefficients those of one feature are next to each other, intercepts last.

    Parameters
    ----------
    features : (k, d)
    label : (k,), 0 to n_classes - 1.
    n_classes : number of classes.
    inverse_penalty : C.
    """
    from sklearn._loss.loss import HalfMultinomialLoss

    n = len(features)
    strength = 1.0 / (inverse_penalty * n)
    pointwise = HalfMultinomialLoss(n_classes=n_classes)
    score, gradient = np.empty((n, n_classes)), np.empty((n, n_classes))
    loss = np.empty(n)

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        coefficients = flat.reshape((n_classes, -1), order="F")
        weights = coefficients[:, :-1]
        np.matmul(features, weights.T, out=score)
        np.add(score, coefficients[:, -1], out=score)
        pointwise.loss_gradient(label, score, loss_out=loss, gradient_out=gradient, n_threads=1)
        every = weights.ravel(order="K")
        value = float(loss.sum() / n) + float(0.5 * strength * np.dot(every, every))
        np.divide(gradient, n, out=gradient)
        slope = np.empty((n_classes, features.shape[1] + 1), order="F")
        slope[:, :-1] = gradient.T @ features + strength * weights
        slope[:, -1] = gradient.sum(axis=0)
        return value, slope.ravel(order="F")

    return objective
