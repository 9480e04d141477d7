"""Validate the parameters of estimators and environments, and describe them in words.

Pydantic validates by the annotations, for suites, the command line and objects alike.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from ope_bench.contracts.parameters.declaration import hints_of, signature, unknown_parameter
from ope_bench.errors import ParameterError, did_you_mean

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["describe", "validated"]


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

    hints = hints_of(cls)
    fields: dict[str, Any] = {}
    for name, parameter in signature(cls).items():
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[name] = (hints.get(name, Any), default)
    return create_model(cls.__name__, __base__=Base, **fields)


def validated(cls: type, params: Mapping[str, Any], *, name: str | None = None) -> dict[str, Any]:
    """Validate and coerce parameters of ``cls``, and add the defaults of the others.

    Parameters
    ----------
    cls : an estimator or environment class.
    params : values from the user.
    name : name of the class in messages; its own by default.

    Raises
    ------
    ParameterError : a name is unknown, a value has the value type or is out of range.
    """
    from pydantic import ValidationError

    title = name or cls.__name__
    known = list(signature(cls))
    for parameter in params:
        if parameter not in known:
            raise ParameterError(unknown_parameter(cls, str(parameter), known, title))
    try:
        model = _model(cls).model_validate(dict(params))
    except ValidationError as exc:
        problem = _most_informative(exc.errors(include_url=False))
        field = str(problem["loc"][0]) if problem["loc"] else "parameters"
        if problem["type"] == "missing":
            msg = f"{title}: parameter '{field}' is required"
            raise ParameterError(msg) from exc
        value = params.get(field, problem["input"])
        hint = ""
        allowed = problem.get("ctx", {}).get("expected")
        if isinstance(value, str) and isinstance(allowed, str):
            hint = did_you_mean(
                value, [word.strip(" '") for word in allowed.replace(" or ", ",").split(",")]
            )
        reason = problem["msg"][0].lower() + problem["msg"][1:]
        msg = f"{title}: parameter '{field}' = {value!r}: {reason}{hint}"
        raise ParameterError(msg) from exc
    return {field: getattr(model, field) for field in known}


def _most_informative(problems: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the first problem; for a wrong word, the one that lists the allowed words."""
    first = problems[0]
    if first["type"] in ("float_parsing", "int_parsing"):
        for other in problems:
            if other["type"] == "literal_error" and other["loc"][:1] == first["loc"][:1]:
                return {**other, "msg": f"{other['msg']}, or a number"}
    return first


def describe(cls: type) -> list[dict[str, str]]:
    """Describe each parameter by name, type and default as text, for ``ope-bench show``."""
    hints = hints_of(cls)
    rows = []
    for name, parameter in signature(cls).items():
        required = parameter.default is inspect.Parameter.empty
        rows.append(
            {
                "name": name,
                "type": _format_hint(hints.get(name, Any)),
                "default": "required" if required else repr(parameter.default),
            }
        )
    return rows


_BOUNDS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}


def _format_hint(hint: Any) -> str:
    """Format an annotation: ``int >= 1``, ``'rbf' | 'epanechnikov' | None``."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        shown = [limit.shown for limit in arguments[1:] if hasattr(limit, "shown")]
        if shown:
            return str(shown[0])
        bounds = [
            f"{sign} {getattr(limit, name)}"
            for limit in arguments[1:]
            for name, sign in _BOUNDS.items()
            if getattr(limit, name, None) is not None
        ]
        return " ".join([_format_hint(arguments[0]), ", ".join(bounds)]).strip()
    if origin is typing.Literal:
        return " | ".join(repr(value) for value in arguments)
    if origin is not None and (str(origin) == "typing.Union" or origin.__name__ == "UnionType"):
        return " | ".join(_format_hint(argument) for argument in arguments)
    if hint is type(None):
        return "None"
    if origin is not None:
        inside = ", ".join("..." if inner is ... else _format_hint(inner) for inner in arguments)
        return f"{origin.__name__}[{inside}]"
    return getattr(hint, "__name__", str(hint))
