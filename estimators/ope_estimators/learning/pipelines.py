"""Scikit-learn's pipelines of a few steps, without what a pipeline checks again at every step.

Every number has the bits that the pipeline itself would give.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ope_bench import FloatArray, IntArray

__all__ = ["LinearPrediction", "fit_steps", "is_pipeline", "linear_prediction"]

LINEAR = ("LinearRegression", "Ridge")
"""Classes of scikit-learn that predict by coefficients and an intercept alone."""


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
            transformer.fit(features)
            features = (features - transformer.mean_) / transformer.scale_
        else:
            features = transformer.fit_transform(features, outcome)
    last.fit(features, outcome)
    return pipeline


@dataclass(frozen=True)
class LinearPrediction:
    """Predictions ``(x - mean) / scale @ coefficients + intercept``.

    Parameters
    ----------
    mean, scale, coefficients : (d,)
    intercept : added to every row.
    """

    mean: FloatArray
    scale: FloatArray
    coefficients: FloatArray
    intercept: float

    def __call__(self, features: FloatArray) -> FloatArray:
        """Predict each row, and leave the standardized features in the array: (k,).

        Parameters
        ----------
        features : (k, d), overwritten.
        """
        np.subtract(features, self.mean, out=features)
        np.divide(features, self.scale, out=features)
        predicted: FloatArray = features @ self.coefficients
        predicted += self.intercept
        return predicted


def linear_prediction(model: Any) -> LinearPrediction | None:
    """Return the coefficients of a fitted linear model after standardization; None for others."""
    if not is_pipeline(model) or len(model.steps) != 2:
        return None
    (_, scaler), (_, linear) = model.steps
    if not _is(scaler, "sklearn.preprocessing.", ("StandardScaler",)):
        return None
    if not _is(linear, "sklearn.linear_model.", LINEAR) or np.ndim(linear.coef_) != 1:
        return None
    return LinearPrediction(scaler.mean_, scaler.scale_, linear.coef_, float(linear.intercept_))


def _is(model: Any, module: str, names: tuple[str, ...]) -> bool:
    """Return whether the class of a model is named so, without importing scikit-learn."""
    cls = type(model)
    return cls.__name__ in names and cls.__module__.startswith(module)
