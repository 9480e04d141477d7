"""Scikit-learn's pipelines of a few steps, without what a pipeline checks again at every step.

Every number has the bits that the pipeline itself would give.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ope_bench import FloatArray, IntArray, row_chunks
from ope_estimators.learning.logistic import fit_logistic

__all__ = [
    "LinearPrediction",
    "fit_steps",
    "is_pipeline",
    "linear_prediction",
    "softmax_scores",
]

LINEAR = ("LinearRegression", "Ridge")
"""Classes of scikit-learn that predict by coefficients and an intercept alone."""

EPSILON = float(np.finfo(np.float64).eps)


def is_pipeline(model: Any) -> bool:
    """Return whether a model is a pipeline of scikit-learn."""
    return _is(model, "sklearn.pipeline", ("Pipeline",))


def fit_steps(pipeline: Any, features: FloatArray, outcome: FloatArray | IntArray) -> Any:
    """Fit each step to what the steps before it make of the features; return the pipeline.

    Parameters
    ----------
    pipeline : of scikit-learn, without a cache; its scalers center and scale.
    features : (k, d)
    outcome : (k,)
    """
    *transformers, last = (step for _, step in pipeline.steps)
    for transformer in transformers:
        if _is(transformer, "sklearn.preprocessing.", ("StandardScaler",)):
            features = _standardized(transformer, features)
        else:
            features = transformer.fit_transform(features, outcome)
    if _is(last, "sklearn.linear_model.", ("LogisticRegression",)):
        fit_logistic(last, features, outcome)
    else:
        last.fit(features, outcome)
    return pipeline


def _standardized(scaler: Any, features: FloatArray) -> FloatArray:
    """Fit a scaler, and return what it makes of the features: (k, d)."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = features.sum(axis=0)
    n = len(features)
    if n == 0 or features.dtype != np.float64 or not np.isfinite(total).all():
        # Numbers that are missing or infinite are for scikit-learn to refuse.
        scaler.fit(features)
        scaled: FloatArray = features - scaler.mean_
    else:
        # The sums of scikit-learn's `StandardScaler`, where no rows were seen before.
        scaler.mean_ = total / n
        scaled = features - scaler.mean_
        off = scaled.sum(axis=0)
        scaler.var_ = (np.square(scaled, out=scaled).sum(axis=0) - off**2 / n) / n
        # Subtracted again, instead of held in a second table.
        np.subtract(features, scaler.mean_, out=scaled)
        limit = n * EPSILON * scaler.var_ + (n * scaler.mean_ * EPSILON) ** 2
        scaler.scale_ = np.where(scaler.var_ <= limit, 1.0, np.sqrt(scaler.var_))
        scaler.n_samples_seen_, scaler.n_features_in_ = n, features.shape[1]
    scaled /= scaler.scale_
    return scaled


@dataclass(frozen=True)
class LinearPrediction:
    """Predictions ``(x - mean) / scale @ coefficients + intercept``.

    Parameters
    ----------
    mean, scale : (d,)
    coefficients : (d,) or (d, n_outcomes)
    intercept : added to every row; a number or (n_outcomes,).
    """

    mean: FloatArray
    scale: FloatArray
    coefficients: FloatArray
    intercept: float | FloatArray

    def __call__(self, features: FloatArray, scaled: FloatArray | None = None) -> FloatArray:
        """Predict each row: (k,), or (k, n_outcomes).

        Parameters
        ----------
        features : (k, d)
        scaled : (k, d), overwritten by the standardized features; a new array where None.
        """
        scaled = np.subtract(features, self.mean, out=scaled)
        np.divide(scaled, self.scale, out=scaled)
        predicted: FloatArray = scaled @ self.coefficients
        predicted += self.intercept
        return predicted

    def everywhere(self, context: FloatArray, action: FloatArray) -> FloatArray:
        """Predict each context beside each action, in the order of `np.ndindex`: (k * a,).

        Context and action are standardized once, instead of in every pair.

        Parameters
        ----------
        context : (k, d_context), the first features.
        action : (a, d - d_context), the others.
        """
        own, others = np.split(np.stack([self.mean, self.scale]), [context.shape[1]], axis=1)
        context = (context - own[0]) / own[1]
        action = (action - others[0]) / others[1]
        out = np.empty(len(context) * len(action))
        table = np.empty((0, len(self.mean)))
        for rows in row_chunks(len(out), len(self.mean)):
            size = rows.stop - rows.start
            table = table[:size] if size <= len(table) else np.empty((size, len(self.mean)))
            _write_pairs(context, action, rows.start, table)
            np.matmul(table, self.coefficients, out=out[rows])
        out += self.intercept
        return out


def _write_pairs(context: FloatArray, action: FloatArray, start: int, out: FloatArray) -> None:
    """Write pairs of a context and an action next to each other, from the pair ``start`` on."""
    n_actions, width = len(action), context.shape[1]
    done = 0
    while done < len(out):
        row, first = divmod(start + done, n_actions)
        # As many whole contexts as there are, or a part of one.
        whole = 0 if first else (len(out) - done) // n_actions
        size = whole * n_actions or min(n_actions - first, len(out) - done)
        block = out[done : done + size].reshape(max(1, whole), -1, out.shape[1])
        block[:, :, :width] = context[row : row + max(1, whole), None]
        block[:, :, width:] = action[first : first + block.shape[1]]
        done += size


def linear_prediction(model: Any) -> LinearPrediction | None:
    """Return the coefficients of a fitted linear model after standardization; None for others."""
    if not _is_standardized(model, LINEAR):
        return None
    (_, scaler), (_, linear) = model.steps
    if np.ndim(linear.coef_) != 1:
        return None
    return LinearPrediction(scaler.mean_, scaler.scale_, linear.coef_, float(linear.intercept_))


def softmax_scores(model: Any) -> LinearPrediction | None:
    """Return the scores of a fitted classifier whose softmax its probabilities are.

    Of a multinomial logistic regression after standardization; None for other classifiers.
    """
    if not _is_standardized(model, ("LogisticRegression",)):
        return None
    (_, scaler), (_, logistic) = model.steps
    multinomial = getattr(logistic, "multi_class", "auto") in ("auto", "deprecated")
    if not multinomial or logistic.solver != "lbfgs" or len(logistic.classes_) < 3:
        return None
    return LinearPrediction(scaler.mean_, scaler.scale_, logistic.coef_.T, logistic.intercept_)


def _is_standardized(model: Any, names: tuple[str, ...]) -> bool:
    """Return whether a model is a pipeline of a scaler and a linear model named so."""
    if not is_pipeline(model) or len(model.steps) != 2:
        return False
    (_, scaler), (_, linear) = model.steps
    scales = _is(scaler, "sklearn.preprocessing.", ("StandardScaler",))
    return scales and _is(linear, "sklearn.linear_model.", names)


def _is(model: Any, module: str, names: tuple[str, ...]) -> bool:
    """Return whether the class of a model is named so, without importing scikit-learn."""
    cls = type(model)
    return cls.__name__ in names and cls.__module__.startswith(module)
