"""Learners by name: the regressors and classifiers of nuisance models.

Each is an unfitted object with scikit-learn's ``fit`` and ``predict`` (``predict_proba``), seeded,
single-threaded, and imported when used.
"""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

import numpy as np

from ope_bench import (
    FloatArray,
    IntArray,
    LearnerName,
    ParameterError,
    UnavailableError,
    did_you_mean,
    learner_from_path,
)
from ope_estimators.learning.pipelines import fit_steps, is_pipeline
from ope_estimators.learning.trees import by_columns, fit_boosting, is_boosting
from ope_estimators.learning.unit_validation import fit_by_units

__all__ = [
    "CLASSIFIERS",
    "MIXED",
    "MIXED_MODELS",
    "POOLED",
    "REGRESSORS",
    "ActionClassifierName",
    "ClassifierName",
    "Params",
    "ProbabilityRegressor",
    "RegressorName",
    "classifier",
    "devices",
    "fit_weighted",
    "fitted",
    "frozen",
    "regressor",
    "requires",
]

Params = Mapping[str, Any] | Iterable[tuple[str, Any]]
"""Parameters of a learner, as a mapping or as pairs."""

Maker = Callable[[int, str, dict[str, Any]], Any]
"""(seed, device, params) -> the unfitted learner."""


def _of_class(path: str) -> Maker:
    def make(seed: int, _device: str, params: dict[str, Any]) -> Any:
        return learner_from_path(path, seed=seed, params=params)

    return make


def _scaled(path: str, **defaults: Any) -> Maker:
    """Make a linear model after standardization and, with ``degree``, polynomial features."""

    def make(seed: int, _device: str, params: dict[str, Any]) -> Any:
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import PolynomialFeatures, StandardScaler

        degree = params.pop("degree", 1)
        model = learner_from_path(path, seed=seed, params=defaults | params)
        if degree == 1:
            return make_pipeline(StandardScaler(), model)
        # Scaled before and after, because powers of unscaled columns have very different scales.
        powers = PolynomialFeatures(degree, include_bias=False)
        return make_pipeline(StandardScaler(), powers, StandardScaler(), model)

    return make


def _bounded(path: str) -> Maker:
    def make(seed: int, _device: str, params: dict[str, Any]) -> Any:
        return learner_from_path(path, seed=seed, params={"bounded": True} | params)

    return make


def _xgboost(name: str) -> Maker:
    def make(seed: int, device: str, params: dict[str, Any]) -> Any:
        try:
            import xgboost
        except ImportError as exc:
            raise UnavailableError(_missing("xgboost", "xgboost")) from exc
        # XGBModel accepts and ignores unknown parameters.
        accepted = list(inspect.signature(xgboost.XGBModel).parameters)
        for given in params:
            if given not in accepted:
                msg = f"XGBModel has no parameter {given!r}{did_you_mean(given, accepted)}"
                raise ParameterError(msg)
        fixed = {"random_state": seed, "n_jobs": 1, "device": device, "tree_method": "hist"}
        return getattr(xgboost, name)(**(fixed | params))

    return make


def _mlp(name: str) -> Maker:
    def make(seed: int, device: str, params: dict[str, Any]) -> Any:
        try:
            module = importlib.import_module("ope_estimators.learning.mlp")
        except ModuleNotFoundError as exc:
            raise UnavailableError(_missing("torch", "flow")) from exc
        return getattr(module, name)(random_state=seed, device=device, **params)

    return make


CLASSIFIERS: Mapping[str, Maker] = {
    "logistic": _scaled("sklearn.linear_model.LogisticRegression", max_iter=1000),
    "softmax": _of_class("ope_estimators.learning.softmax.SoftmaxClassifier"),
    "gbm": _of_class("sklearn.ensemble.GradientBoostingClassifier"),
    "hist-gbm": _of_class("sklearn.ensemble.HistGradientBoostingClassifier"),
    "random-forest": _of_class("sklearn.ensemble.RandomForestClassifier"),
    "xgboost": _xgboost("XGBClassifier"),
    "mlp": _mlp("MLPClassifier"),
}
"""Classifiers by name; ``logistic`` standardizes and takes ``degree`` for polynomial features.
``softmax`` has the objective of ``logistic`` and passes over chunks of rows in single precision,
for very many classes."""

POOLED = "pooled"
"""The default regressor of rewards until November 2026: trials that are committed name it."""

MIXED = "mixed"
"""The default regressor of rewards: `POOLED`, kept to what the fit has seen."""

MIXED_MODELS = (POOLED, MIXED)

EXACT = "gbm-exact"
"""Boosting with the trees of ``gbm``, grown faster."""

REGRESSORS: Mapping[str, Maker] = {
    "linear": _scaled("sklearn.linear_model.LinearRegression"),
    "ridge": _scaled("sklearn.linear_model.Ridge"),
    "quadratic": _of_class("ope_estimators.learning.quadratic.QuadraticRegressor"),
    POOLED: _of_class("ope_estimators.learning.pooled.PooledRegressor"),
    MIXED: _bounded("ope_estimators.learning.pooled.PooledRegressor"),
    "gbm": _of_class("sklearn.ensemble.GradientBoostingRegressor"),
    EXACT: _of_class("ope_estimators.learning.exact_boosting.ExactBoostingRegressor"),
    "hist-gbm": _of_class("sklearn.ensemble.HistGradientBoostingRegressor"),
    "random-forest": _of_class("sklearn.ensemble.RandomForestRegressor"),
    "xgboost": _xgboost("XGBRegressor"),
    "mlp": _mlp("MLPRegressor"),
}
"""Regressors by name; ``linear`` and ``ridge`` standardize and take ``degree``; ``quadratic`` is a
ridge regression on squares and products whose penalty is chosen by leave-one-out error;
``gbm-exact`` grows the trees of ``gbm`` by XGBoost, faster, above all for one-hot actions."""


def classifier(name: str, *, seed: int, device: str = "cpu", params: Params = ()) -> Any:
    """Build an unfitted classifier with ``fit`` and ``predict_proba``.

    Parameters
    ----------
    name : one of `CLASSIFIERS`, the import path of a class of an installed package, or
        ``FILE.py:FUNCTION``, whose result is the learner.
    seed : seed of its random numbers.
    device : ``cpu`` or ``cuda``; learners of scikit-learn use the CPU.
    params : parameters that differ from their defaults.

    Raises
    ------
    ParameterError : no such learner, or it has no such parameter.
    UnavailableError : its package is not installed.

    >>> classifier("logistic", seed=0, params={"C": 0.5})[-1]
    LogisticRegression(C=0.5, max_iter=1000, random_state=0)
    """
    return _build(CLASSIFIERS, "classifier", "predict_proba", name, seed, device, params)


def regressor(name: str, *, seed: int, device: str = "cpu", params: Params = ()) -> Any:
    """Build an unfitted regressor with ``fit`` and ``predict``; otherwise like `classifier`.

    A classifier is made a `ProbabilityRegressor`: its ``predict`` gives labels, not means.

    >>> regressor("gbm", seed=0, params={"n_estimators": 10})
    GradientBoostingRegressor(n_estimators=10, random_state=0)
    """
    learner = _build(REGRESSORS, "regressor", "predict", name, seed, device, params)
    if callable(getattr(learner, "predict_proba", None)):
        return ProbabilityRegressor(learner)
    if name not in REGRESSORS:
        from sklearn.base import is_classifier

        if is_classifier(learner):
            msg = f"{name!r} is no regressor: it predicts classes, and has no predict_proba"
            raise ParameterError(msg)
    return learner


class ProbabilityRegressor:
    """A classifier that regresses outcomes of 0 and 1: it predicts the probability of 1.

    Parameters
    ----------
    classifier : unfitted, with ``predict_proba``.

    >>> model = regressor("sklearn.dummy.DummyClassifier", seed=0, params={"strategy": "prior"})
    >>> model.fit(np.zeros((4, 1)), np.array([0.0, 1.0, 1.0, 1.0])).predict(np.zeros((2, 1)))
    array([0.75, 0.75])
    """

    takes_units = True

    def __init__(self, classifier: Any) -> None:
        self.classifier = classifier

    def fit(
        self,
        features: FloatArray,
        outcome: FloatArray,
        unit: IntArray | None = None,
        sample_weight: FloatArray | None = None,
    ) -> ProbabilityRegressor:
        """Fit the classifier to the outcomes; to a single value of them there is nothing to fit.

        Raises
        ------
        ParameterError : an outcome is neither 0 nor 1.
        """
        other = (outcome != 0) & (outcome != 1)
        if other.any():
            msg = (
                f"regressor {type(self.classifier).__name__} is a classifier, for outcomes of 0 "
                f"and 1; here one is {outcome[int(np.argmax(other))]:g}: choose a regressor"
            )
            raise ParameterError(msg)
        self.constant_ = float(outcome[0]) if (outcome == outcome[0]).all() else None
        if self.constant_ is None:
            label = outcome.astype(np.int64)
            if sample_weight is None:
                fitted(self.classifier, features, label, unit)
            else:
                fit_weighted(self.classifier, features, label, sample_weight)
        return self

    def predict(self, features: FloatArray) -> FloatArray:
        """Return the probability of 1: (k,)."""
        if self.constant_ is not None:
            return np.full(len(features), self.constant_)
        return np.asarray(self.classifier.predict_proba(features)[:, 1], dtype=np.float64)


def fitted(
    learner: Any, features: FloatArray, outcome: FloatArray | IntArray, unit: IntArray | None
) -> Any:
    """Fit a learner; early stopping holds out whole units.

    Parameters
    ----------
    learner : a learner of `classifier` or `regressor`.
    features : (k, d)
    outcome : (k,)
    unit : (k,), units of the rows; None where every row is its own unit.
    """
    with warnings.catch_warnings():
        # Actions are classes, also where there are nearly as many of them as rows.
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        features = by_columns(learner, features)
        if is_boosting(learner):
            return fit_boosting(learner, features, outcome)
        if unit is None:
            fit = fit_steps if is_pipeline(learner) else type(learner).fit
            return fit(learner, features, outcome)
        return fit_by_units(learner, features, outcome, unit)


def fit_weighted(
    learner: Any,
    features: FloatArray,
    outcome: FloatArray | IntArray,
    weight: FloatArray,
) -> Any:
    """Fit the learner with weights of the rows; equal ones where all weights are 0.

    The weights are scaled to a mean of one, so that penalties keep their meaning.

    Parameters
    ----------
    learner : as `regressor` gives it.
    features : (k, d)
    outcome : (k,)
    weight : (k,), not negative.

    Raises
    ------
    ParameterError : the learner takes no weights.
    """
    mean = float(weight.mean())
    scaled = weight / mean if mean > 0 else np.ones_like(weight)
    # A pipeline hands on what is addressed to one of its steps.
    last = learner.steps[-1] if hasattr(learner, "steps") else None
    model, name = (learner, "") if last is None else (last[1], f"{last[0]}__")
    if "sample_weight" not in inspect.signature(model.fit).parameters:
        msg = f"regressor {type(model).__name__} takes no weights of rows; choose another"
        raise ParameterError(msg)
    features = by_columns(learner, features)
    if is_boosting(learner):
        return fit_boosting(learner, features, outcome, scaled)
    return learner.fit(features, outcome, **{f"{name}sample_weight": scaled})


def requires(name: str) -> tuple[str, ...]:
    """Return the modules that a learner needs, for an estimator's ``requires``.

    >>> requires("gbm"), requires("xgboost")
    (('sklearn.ensemble',), ('xgboost', 'sklearn'))
    """
    if name in ("xgboost", EXACT):
        return ("xgboost", "sklearn" if name == "xgboost" else "scipy.sparse")
    if name == "mlp":
        return ("torch",)
    if name == "softmax":
        return ("scipy.optimize",)
    if name in MIXED_MODELS:
        return ("scipy.sparse",)
    if name in ("logistic", "linear", "ridge", "quadratic"):
        return ("sklearn.linear_model", "sklearn.pipeline", "sklearn.preprocessing")
    if name in CLASSIFIERS:
        return ("sklearn.ensemble",)
    return () if name == GIVEN or ".py:" in name else (name.rpartition(".")[0],)


def devices(name: str) -> tuple[str, ...]:
    """Return the devices on which a learner can train."""
    return ("cpu", "cuda") if name in ("xgboost", "mlp") else ("cpu",)


def frozen(params: Params | None) -> tuple[tuple[str, Any], ...]:
    """Convert parameters to sorted pairs, so that equal ones have the same ``repr``.

    >>> frozen({"b": [1, 2], "a": {"x": 0}})
    (('a', (('x', 0),)), ('b', (1, 2)))
    """
    return tuple(sorted((str(name), _frozen(value)) for name, value in dict(params or ()).items()))


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return frozen(value)
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


def _build(
    known: Mapping[str, Maker],
    kind: str,
    method: str,
    name: str,
    seed: int,
    device: str,
    params: Params,
) -> Any:
    LearnerName(known, kind).check(name)
    make = known.get(name) or _of_class(name)
    try:
        learner = make(seed, device, dict(params))
    except TypeError as exc:
        msg = f"{kind} {name!r}: {exc}"
        raise ParameterError(msg) from exc
    if not callable(getattr(learner, method, None)):
        msg = f"{name!r} is no {kind}: it has no {method}"
        raise ParameterError(msg)
    return learner


def _missing(module: str, extra: str) -> str:
    return f"{module} is not installed; run: pip install 'ope-bench[{extra}]'"


ClassifierName = Annotated[str, LearnerName(CLASSIFIERS, "classifier")]
"""Annotation of a parameter that names a classifier."""

ActionClassifierName = Annotated[
    str,
    LearnerName(
        {name: maker for name, maker in CLASSIFIERS.items() if name != "mlp"},
        "classifier of many actions",
    ),
]
"""Annotation of a parameter that names a classifier of actions, not ``mlp`` (two classes)."""

RegressorName = Annotated[str, LearnerName(REGRESSORS, "regressor")]
"""Annotation of a parameter that names a regressor."""

GIVEN = "given"
"""In the place of a regressor's name: the predictions that the problem has."""

RewardModelName = Annotated[str, LearnerName((*REGRESSORS, GIVEN), "regressor")]
"""Annotation of a parameter that names a regressor of rewards, or ``given`` predictions."""
