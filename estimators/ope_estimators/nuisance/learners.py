"""Learners by name: the regressors and classifiers that nuisance models are made of.

Each is an unfitted object with scikit-learn's ``fit`` and ``predict`` (``predict_proba``), seeded,
single-threaded, and imported only when asked for.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from ope_bench.errors import ParameterError, UnavailableError, did_you_mean

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

__all__ = [
    "CLASSIFIERS",
    "REGRESSORS",
    "ActionClassifierName",
    "ClassifierName",
    "Params",
    "RegressorName",
    "classifier",
    "devices",
    "frozen",
    "regressor",
    "requires",
]

Params = Mapping[str, Any] | Iterable[tuple[str, Any]]
"""Parameters of a learner, as a mapping or as pairs."""

Maker = Callable[[int, str, dict[str, Any]], Any]
"""(seed, device, params) -> the unfitted learner."""


def _sklearn(path: str) -> Maker:
    def make(seed: int, _device: str, params: dict[str, Any]) -> Any:
        return _seeded(_imported(path), path, seed, params)

    return make


def _scaled(path: str, **defaults: Any) -> Maker:
    """A linear model after standardisation and, with ``degree``, polynomial features."""

    def make(seed: int, _device: str, params: dict[str, Any]) -> Any:
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import PolynomialFeatures, StandardScaler

        degree = params.pop("degree", 1)
        model = _seeded(_imported(path), path, seed, defaults | params)
        if degree == 1:
            return make_pipeline(StandardScaler(), model)
        # Scaled before and after: powers of unscaled columns swamp each other.
        powers = PolynomialFeatures(degree, include_bias=False)
        return make_pipeline(StandardScaler(), powers, StandardScaler(), model)

    return make


def _xgboost(name: str) -> Maker:
    def make(seed: int, device: str, params: dict[str, Any]) -> Any:
        try:
            import xgboost
        except ImportError as exc:
            raise UnavailableError(_missing("xgboost", "xgboost")) from exc
        # XGBModel takes anything and ignores what it does not know.
        _known("XGBModel", [*inspect.signature(xgboost.XGBModel).parameters], params)
        fixed = {"random_state": seed, "n_jobs": 1, "device": device, "tree_method": "hist"}
        return getattr(xgboost, name)(**(fixed | params))

    return make


def _mlp(name: str) -> Maker:
    def make(seed: int, device: str, params: dict[str, Any]) -> Any:
        try:
            module = importlib.import_module("ope_estimators.nuisance.mlp")
        except ModuleNotFoundError as exc:
            raise UnavailableError(_missing("torch", "flow")) from exc
        return getattr(module, name)(random_state=seed, device=device, **params)

    return make


CLASSIFIERS: Mapping[str, Maker] = {
    "logistic": _scaled("sklearn.linear_model.LogisticRegression", max_iter=1000),
    "gbm": _sklearn("sklearn.ensemble.GradientBoostingClassifier"),
    "hist-gbm": _sklearn("sklearn.ensemble.HistGradientBoostingClassifier"),
    "random-forest": _sklearn("sklearn.ensemble.RandomForestClassifier"),
    "xgboost": _xgboost("XGBClassifier"),
    "mlp": _mlp("MLPClassifier"),
}
"""Classifiers by name; ``logistic`` standardises and takes ``degree`` for polynomial features."""

REGRESSORS: Mapping[str, Maker] = {
    "linear": _scaled("sklearn.linear_model.LinearRegression"),
    "ridge": _scaled("sklearn.linear_model.Ridge"),
    "gbm": _sklearn("sklearn.ensemble.GradientBoostingRegressor"),
    "hist-gbm": _sklearn("sklearn.ensemble.HistGradientBoostingRegressor"),
    "random-forest": _sklearn("sklearn.ensemble.RandomForestRegressor"),
    "xgboost": _xgboost("XGBRegressor"),
    "mlp": _mlp("MLPRegressor"),
}
"""Regressors by name; ``linear`` and ``ridge`` standardise and take ``degree``."""


def classifier(name: str, *, seed: int, device: str = "cpu", params: Params = ()) -> Any:
    """An unfitted classifier with ``fit``, ``predict_proba`` and, mostly, ``decision_function``.

    Parameters
    ----------
    name : one of `CLASSIFIERS`, or the import path of a scikit-learn class.
    seed : of everything random in it.
    device : ``cpu`` or ``cuda``; scikit-learn's own stay on the CPU.
    params : its parameters, beyond their defaults.

    Raises
    ------
    ParameterError : no such learner, or it has no such parameter.
    UnavailableError : the package that it comes from is not installed.

    >>> classifier("logistic", seed=0, params={"C": 0.5})[-1]
    LogisticRegression(C=0.5, max_iter=1000, random_state=0)
    """
    return _made(CLASSIFIERS, "classifier", "predict_proba", name, seed, device, params)


def regressor(name: str, *, seed: int, device: str = "cpu", params: Params = ()) -> Any:
    """An unfitted regressor with ``fit`` and ``predict``; otherwise as `classifier`.

    >>> regressor("gbm", seed=0, params={"n_estimators": 10})
    GradientBoostingRegressor(n_estimators=10, random_state=0)
    """
    return _made(REGRESSORS, "regressor", "predict", name, seed, device, params)


def requires(name: str) -> tuple[str, ...]:
    """Modules that a learner needs, for an estimator's ``requires``.

    >>> requires("gbm"), requires("xgboost")
    (('sklearn.ensemble',), ('xgboost', 'sklearn'))
    """
    if name == "xgboost":
        return ("xgboost", "sklearn")
    if name == "mlp":
        return ("torch",)
    if name in ("logistic", "linear", "ridge"):
        return ("sklearn.linear_model", "sklearn.pipeline", "sklearn.preprocessing")
    if name in CLASSIFIERS:
        return ("sklearn.ensemble",)
    return (name.rpartition(".")[0],)


def devices(name: str) -> tuple[str, ...]:
    """Where a learner can train."""
    return ("cpu", "cuda") if name in ("xgboost", "mlp") else ("cpu",)


def frozen(params: Params | None) -> tuple[tuple[str, Any], ...]:
    """Parameters as sorted pairs, so that equal ones have one ``repr``.

    >>> frozen({"b": [1, 2], "a": {"x": 0}})
    (('a', (('x', 0),)), ('b', (1, 2)))
    """
    return tuple(sorted((str(name), _frozen(value)) for name, value in dict(params or ()).items()))


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return frozen(value)
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


def _made(
    known: Mapping[str, Maker],
    kind: str,
    method: str,
    name: str,
    seed: int,
    device: str,
    params: Params,
) -> Any:
    _checked(name, known, kind)
    make = known.get(name) or _sklearn(name)
    try:
        learner = make(seed, device, dict(params))
    except TypeError as exc:
        msg = f"{kind} {name!r}: {exc}"
        raise ParameterError(msg) from exc
    if not callable(getattr(learner, method, None)):
        msg = f"{name!r} is no {kind}: it has no {method}"
        raise ParameterError(msg)
    return learner


def _seeded(cls: Any, path: str, seed: int, params: dict[str, Any]) -> Any:
    """The class with its parameters, seeded and single-threaded where it can be told so."""
    accepted = list(inspect.signature(cls).parameters)
    _known(path.rpartition(".")[2], accepted, params)
    # LogisticRegression's n_jobs is deprecated and never starts threads of its own.
    fixed = {"random_state": seed} | ({"n_jobs": 1} if "Forest" in path or "Trees" in path else {})
    return cls(**({k: v for k, v in fixed.items() if k in accepted} | params))


def _known(shown: str, accepted: list[str], params: Iterable[str]) -> None:
    for given in params:
        if given not in accepted:
            msg = f"{shown} has no parameter {given!r}{did_you_mean(given, accepted)}"
            raise ParameterError(msg)


def _imported(path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        home = importlib.import_module(module)
    except ImportError as exc:
        msg = f"{path!r} cannot be imported: {exc}"
        raise ParameterError(msg) from exc
    found = getattr(home, name, None)
    if not isinstance(found, type):
        hint = did_you_mean(name, (word for word in dir(home) if not word.startswith("_")))
        msg = f"{module!r} has no class {name!r}{hint}"
        raise ParameterError(msg)
    return found


def _missing(module: str, extra: str) -> str:
    return f"{module} is not installed; run: pip install 'ope-bench[{extra}]'"


def _checked(name: str, known: Iterable[str], kind: str) -> str:
    if name in known:
        return name
    # Only scikit-learn: a suite file must not be able to import and call just anything.
    if name.startswith("sklearn.") and all(word.isidentifier() for word in name.split(".")):
        return name
    names = ", ".join(known)
    hint = did_you_mean(name, known)
    msg = f"{name!r} is no {kind}{hint} (known: {names}, or an import path sklearn.*)"
    raise ParameterError(msg)


class _NameOf:
    """Annotation: a learner's name, checked where parameters are validated."""

    def __init__(self, known: Mapping[str, Maker], kind: str) -> None:
        self.known = known
        self.kind = kind

    def __get_pydantic_core_schema__(
        self, source: Any, handler: Callable[[Any], CoreSchema]
    ) -> CoreSchema:
        from pydantic_core import PydanticCustomError, core_schema

        def check(name: str) -> str:
            try:
                _checked(name, self.known, self.kind)
                if name not in self.known:
                    _imported(name)
            except ParameterError as exc:
                kind = "learner"
                raise PydanticCustomError(kind, "{reason}", {"reason": str(exc)}) from exc
            return name

        return core_schema.no_info_after_validator_function(check, handler(source))


ClassifierName = Annotated[str, _NameOf(CLASSIFIERS, "classifier")]
"""Annotation of a parameter that names a classifier."""

ActionClassifierName = Annotated[
    str,
    _NameOf(
        {name: maker for name, maker in CLASSIFIERS.items() if name != "mlp"},
        "classifier of many actions",
    ),
]
"""Annotation of a parameter that names a classifier of actions; ``mlp`` knows two classes."""

RegressorName = Annotated[str, _NameOf(REGRESSORS, "regressor")]
"""Annotation of a parameter that names a regressor."""
