"""The classifiers of policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np

from ope_bench import FloatArray, IntArray, LearnerName, ParameterError, learner_from_path

__all__ = ["UNIFORM", "ClassifierName", "fit_classifier"]

UNIFORM = "uniform"
"""No classifier: the policy that gives every label the same probability."""

ClassifierName = Annotated[
    str, LearnerName(("logistic", "naive-bayes", "forest", UNIFORM), "classifier")
]
"""Annotation of a parameter that names a classifier."""


def fit_classifier(
    name: str,
    params: Mapping[str, Any],
    features: FloatArray,
    label: IntArray,
    rng: np.random.Generator,
) -> Any:
    """Fit a classifier.

    Parameters
    ----------
    name : a name of `ClassifierName` except ``uniform``, or an import path.
    params : parameters that differ from their defaults.
    features : (n, d)
    label : (n,)
    rng : draws its seed.

    Raises
    ------
    ParameterError : no such classifier or parameter, or it cannot be fitted to these rows.
    """
    seed = int(rng.integers(2**31))
    model = _unfitted(name, dict(params), seed)
    try:
        return model.fit(features, label)
    except ValueError as exc:
        msg = f"multiclass: {name} cannot be fitted to {len(label)} rows: {exc}"
        raise ParameterError(msg) from exc


def _unfitted(name: str, params: dict[str, Any], seed: int) -> Any:
    if name == "logistic":
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        path = "sklearn.linear_model.LogisticRegression"
        model = learner_from_path(path, seed=seed, params={"max_iter": 5000} | params)
        return make_pipeline(StandardScaler(), model)
    if name == "naive-bayes":
        path = "sklearn.naive_bayes.GaussianNB"
        return learner_from_path(path, seed=seed, params={"var_smoothing": 1e-3} | params)
    if name == "forest":
        path = "sklearn.ensemble.RandomForestClassifier"
        return learner_from_path(path, seed=seed, params={"min_samples_leaf": 2} | params)
    model = learner_from_path(name, seed=seed, params=params)
    if not callable(getattr(model, "predict_proba", None)):
        msg = f"multiclass: {name} is no classifier with probabilities: it has no predict_proba"
        raise ParameterError(msg)
    return model
