"""The classifiers of policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np

from ope_bench import FloatArray, IntArray, LearnerName, ParameterError, learner_from_path

__all__ = ["LABEL", "UNIFORM", "ClassifierName", "FittedName", "fit_classifier"]

UNIFORM = "uniform"
"""No classifier: the policy that gives every label the same probability."""

LABEL = "label"
"""No classifier: the policy knows the labels."""

FITTED = ("logistic", "naive-bayes", "forest")

FittedName = Annotated[str, LearnerName(FITTED, "classifier")]
"""Annotation of a parameter that names a classifier which is fitted."""

ClassifierName = Annotated[str, LearnerName((*FITTED, UNIFORM, LABEL), "classifier")]
"""Annotation of a parameter that names a classifier."""


def fit_classifier(
    name: str,
    params: Mapping[str, Any],
    features: FloatArray,
    label: IntArray,
    rng: np.random.Generator,
    weight: FloatArray | None = None,
) -> Any:
    """Fit a classifier.

    Parameters
    ----------
    name : a name of `FittedName`, or an import path.
    params : parameters that differ from their defaults.
    features : (n, d)
    label : (n,)
    rng : draws its seed.
    weight : (n,), weights of the rows; None for equal ones.

    Raises
    ------
    ParameterError : no such classifier or parameter, or it cannot be fitted to these rows.
    """
    seed = int(rng.integers(2**31))
    model = _unfitted(name, dict(params), seed)
    # A pipeline hands on what is addressed to its last step.
    step = f"{model.steps[-1][0]}__" if hasattr(model, "steps") else ""
    weights = {} if weight is None else {f"{step}sample_weight": weight}
    try:
        return model.fit(features, label, **weights)
    except (ValueError, TypeError) as exc:
        msg = f"{name} cannot be fitted to {len(label)} rows: {exc}"
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
        msg = f"{name} is no classifier with probabilities: it has no predict_proba"
        raise ParameterError(msg)
    return model
