"""One validation for the parameters of estimators and environments.

A parameter is an argument of ``__init__``; its annotation says type and range, for example
``clip: Annotated[float, Gt(0)] | None = None``. Pydantic reads the signature; nothing is checked
in ``__init__`` itself, as in scikit-learn.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ope_bench.errors import ParameterError, did_you_mean

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["Parametrized", "describe", "signature", "validated"]


class Parametrized:
    """Parameters in ``__init__``, read back by ``get_params``: scikit-learn's convention.

    Works with ``sklearn.base.clone`` without importing scikit-learn.

    ``check_params`` are parameters that keep the conformance checks quick; ``expected_failures``
    names the checks that the class is known to fail, each with the reason.
    """

    check_params: ClassVar[Mapping[str, Any]] = {}
    expected_failures: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def _names(cls) -> list[str]:
        return list(signature(cls))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; with ``deep``, those of nested objects as ``outer__inner``."""
        params: dict[str, Any] = {}
        for name in self._names():
            value = getattr(self, name)
            params[name] = value
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                params |= {f"{name}__{sub}": v for sub, v in value.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, nested ones as ``outer__inner``; returns self."""
        known = self._names()
        for name, value in params.items():
            outer, _, inner = name.partition("__")
            if outer not in known:
                raise ParameterError(_unknown(type(self), outer, known))
            if inner:
                getattr(self, outer).set_params(**{inner: value})
            else:
                setattr(self, outer, value)
        return self

    def __repr__(self) -> str:
        parameters = signature(type(self))
        shown = [
            f"{name}={value!r}"
            for name, value in self.get_params(deep=False).items()
            if value is not parameters[name].default and value != parameters[name].default
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


def signature(cls: type) -> dict[str, inspect.Parameter]:
    """The parameters of the class's ``__init__`` without self."""
    if cls.__init__ is object.__init__:  # type: ignore[misc]
        return {}
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]  # type: ignore[misc]
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            msg = f"{cls.__name__}.__init__ takes *{parameter.name}; name every parameter"
            raise ParameterError(msg)
    return {parameter.name: parameter for parameter in parameters}


@cache
def _model(cls: type) -> type[BaseModel]:
    from pydantic import BaseModel, ConfigDict, create_model

    class Base(BaseModel):
        model_config: ClassVar[ConfigDict] = ConfigDict(
            extra="forbid",
            arbitrary_types_allowed=True,
            allow_inf_nan=False,
            protected_namespaces=(),
        )

    try:
        hints = typing.get_type_hints(cls.__init__, include_extras=True)  # type: ignore[misc]
    except NameError as exc:
        msg = f"{cls.__name__}.__init__: annotation cannot be read: {exc}"
        raise ParameterError(msg) from exc
    fields: dict[str, Any] = {}
    for name, parameter in signature(cls).items():
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[name] = (hints.get(name, Any), default)
    return create_model(cls.__name__, __base__=Base, **fields)


def validated(cls: type, params: Mapping[str, Any], *, name: str | None = None) -> dict[str, Any]:
    """All parameters of ``cls``, given ones checked and coerced, the rest at their defaults.

    Parameters
    ----------
    cls : an estimator or environment class.
    params : what the user gave.
    name : what messages call the class; its own name by default.

    Raises
    ------
    ParameterError : a name is unknown, a value has the wrong type or is out of range.
    """
    from pydantic import ValidationError

    shown = name or cls.__name__
    known = list(signature(cls))
    for given in params:
        if given not in known:
            raise ParameterError(_unknown(cls, str(given), known, shown))
    try:
        model = _model(cls).model_validate(dict(params))
    except ValidationError as exc:
        problem = exc.errors(include_url=False)[0]
        where = str(problem["loc"][0]) if problem["loc"] else "parameters"
        if problem["type"] == "missing":
            msg = f"{shown}: parameter '{where}' is required"
            raise ParameterError(msg) from exc
        wrong = params.get(where, problem["input"])
        hint = ""
        allowed = problem.get("ctx", {}).get("expected")
        if isinstance(wrong, str) and isinstance(allowed, str):
            hint = did_you_mean(
                wrong, [word.strip(" '") for word in allowed.replace(" or ", ",").split(",")]
            )
        reason = problem["msg"][0].lower() + problem["msg"][1:]
        msg = f"{shown}: parameter '{where}' = {wrong!r}: {reason}{hint}"
        raise ParameterError(msg) from exc
    return {field: getattr(model, field) for field in known}


def _unknown(cls: type, given: str, known: list[str], shown: str | None = None) -> str:
    listed = ", ".join(known) if known else "none"
    hint = did_you_mean(given, known)
    return f"{shown or cls.__name__} has no parameter '{given}'{hint} (it has: {listed})"


def describe(cls: type) -> list[dict[str, str]]:
    """Name, type and default of each parameter as words, for ``ope-bench show``."""
    hints = typing.get_type_hints(cls.__init__, include_extras=True)  # type: ignore[misc]
    rows = []
    for name, parameter in signature(cls).items():
        required = parameter.default is inspect.Parameter.empty
        rows.append(
            {
                "name": name,
                "type": _words(hints.get(name, Any)),
                "default": "required" if required else repr(parameter.default),
            }
        )
    return rows


_BOUNDS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}


def _words(hint: Any) -> str:
    """An annotation in words: ``int >= 1``, ``'rbf' | 'epanechnikov' | None``."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        bounds = [
            f"{sign} {getattr(limit, name)}"
            for limit in arguments[1:]
            for name, sign in _BOUNDS.items()
            if getattr(limit, name, None) is not None
        ]
        return " ".join([_words(arguments[0]), ", ".join(bounds)]).strip()
    if origin is typing.Literal:
        return " | ".join(repr(value) for value in arguments)
    if origin is not None and (str(origin) == "typing.Union" or origin.__name__ == "UnionType"):
        return " | ".join(_words(argument) for argument in arguments)
    if hint is type(None):
        return "None"
    if origin is not None:
        inside = ", ".join("..." if inner is ... else _words(inner) for inner in arguments)
        return f"{origin.__name__}[{inside}]"
    return getattr(hint, "__name__", str(hint))
