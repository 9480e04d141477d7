"""Declare the parameters of estimators and environments.

A parameter is an annotated class attribute of a class with the decorator `params`, or an argument
of an ``__init__`` that the class defines itself. Its annotation gives type and range, for example
``clip: Annotated[float, Gt(0)] | None = None``. Nothing is checked in ``__init__`` itself, as in
scikit-learn; ``validation`` does.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from keyword import iskeyword
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, dataclass_transform

from ope_bench.canonical import canonical_json
from ope_bench.errors import ParameterError, did_you_mean

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

__all__ = [
    "Parametrized",
    "added_defaults",
    "hints_of",
    "params",
    "signature",
    "unknown_parameter",
    "without_added_defaults",
]

C = TypeVar("C", bound=type)


@dataclass_transform(eq_default=False, field_specifiers=(field, Field))
def params(cls: C) -> C:
    """Make annotated class attributes the parameters, in their order (class decorator).

    This is ``dataclass(eq=False, repr=False)``: it generates the ``__init__`` that stores every
    parameter under its own name. A subclass inherits the parameters of its base class; it needs
    the decorator where it adds a parameter or changes a default, and repeats the annotation of
    a parameter whose default it changes. An attribute that is a ``ClassVar``, is not annotated,
    or has the value ``field(init=False)`` is no parameter. A name does not end in ``_``, as
    attributes that fit sets do, unless it is a keyword of Python's: ``lambda_``. A list or a
    mapping as default is written ``field(default_factory=...)``.

    Raises
    ------
    ParameterError : the parameters would differ from those that the class text suggests.

    >>> @params
    ... class Clipped(Parametrized):
    ...     clip: float = 100.0
    ...     folds: int = 5
    >>> @params
    ... class InSample(Clipped):
    ...     folds: int = 0
    >>> InSample(2.0), InSample(folds=3).get_params()
    (InSample(clip=2.0), {'clip': 100.0, 'folds': 3})
    """
    _refuse_explicit_constructor(cls)
    doc = cls.__doc__
    try:
        dataclass(eq=False, repr=False)(cls)
    except (TypeError, ValueError) as exc:
        msg = f"{cls.__name__}: {exc}; {_ADVICE}"
        raise ParameterError(msg) from exc
    # dataclass gives a class without docstring its signature as docstring.
    cls.__doc__ = doc
    for name, declared in _fields(cls).items():
        if declared.init:
            _refuse_misleading_field(cls, name)
    return cls


_ADVICE = (
    "an attribute that is no parameter has no annotation, is a ClassVar, or is field(init=False)"
)


def _refuse_explicit_constructor(cls: type) -> None:
    """Refuse an explicit ``__init__``, which a dataclass neither calls nor replaces."""
    if "__init__" in vars(cls):
        msg = f"{cls.__name__} has both @params and an __init__; keep one of them"
        raise ParameterError(msg)
    base = _constructor_class(cls)
    if not _fields(base) and signature(base):
        msg = (
            f"{cls.__name__} has @params, but its base class {base.__name__} has an explicit "
            f"__init__, which would not be called: use @params in {base.__name__} too, or write "
            f"an __init__ in {cls.__name__}"
        )
        raise ParameterError(msg)


def _refuse_misleading_field(cls: type, name: str) -> None:
    """Refuse a parameter whose declaration and constructor would disagree."""
    if name.endswith("_") and not iskeyword(name[:-1]):
        msg = (
            f"{cls.__name__}: '{name}' would be a parameter, but ends in '_' like attributes that "
            f"fit sets do; {_ADVICE}"
        )
        raise ParameterError(msg)
    declared, bases = _fields(cls)[name], cls.__mro__[1:]
    inherited = any(_fields(base).get(name) is declared for base in bases)
    if inherited and name in vars(cls):
        msg = (
            f"{cls.__name__}: '{name}' is a parameter of a base class; repeat its annotation to "
            "change its default"
        )
        raise ParameterError(msg)
    owner = next((b for b in bases if name in vars(b) and name not in _fields(b)), None)
    if not inherited and owner is not None:
        msg = (
            f"{cls.__name__}: '{name}' would be a parameter, but is an attribute of "
            f"{owner.__name__} that is none; leave its annotation out, or make it a ClassVar"
        )
        raise ParameterError(msg)


def _refuse_forgotten_decorator(cls: type, owner: type) -> None:
    """Refuse a class without `params` that sets a parameter without changing the constructor."""
    other = next((b for b in cls.__mro__ if _fields(b) and b not in owner.__mro__), None)
    if other is not None:
        msg = (
            f"{cls.__name__} inherits parameters of {owner.__name__} and of {other.__name__}; "
            f"write @params above {cls.__name__}"
        )
        raise ParameterError(msg)
    for base in cls.__mro__[: cls.__mro__.index(owner)]:
        for name in vars(base).keys() & _fields(owner).keys():
            msg = (
                f"{base.__name__} sets '{name}', a parameter of {owner.__name__}, without effect "
                f"on its default; write @params above {base.__name__} and repeat the annotation"
            )
            raise ParameterError(msg)


def _fields(cls: type) -> dict[str, Field[Any]]:
    """Return the dataclass fields that the class itself declares, by name."""
    own = "__dataclass_fields__" in vars(cls)
    return {declared.name: declared for declared in fields(cls)} if own else {}


def _constructor_class(cls: type) -> type:
    """Return the class, or its base class, whose ``__init__`` is called."""
    return next(base for base in cls.__mro__ if "__init__" in vars(base))


class Parametrized:
    """Parameters of the constructor, read back by ``get_params``: scikit-learn's convention.

    Works with ``sklearn.base.clone`` without importing scikit-learn.

    ``check_params`` are parameters that keep the conformance checks quick; ``expected_failures``
    names the checks that the class is known to fail, each with the reason. ``added_parameters``
    names parameters that the class gained after trials of it were stored, each with the value at
    which results are the same as before. Keys omit a parameter with that value, so that stored
    trials stay valid. A subclass lists only its own.
    """

    check_params: ClassVar[Mapping[str, Any]] = {}
    added_parameters: ClassVar[Mapping[str, Any]] = {}
    expected_failures: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreSchema:
        # As another class's parameter, accept objects only; pydantic would build one from a
        # mapping.
        from pydantic_core.core_schema import is_instance_schema

        return is_instance_schema(cls)

    @classmethod
    def _names(cls) -> list[str]:
        return list(signature(cls))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; with ``deep``, nested ones as ``outer__inner``."""
        params: dict[str, Any] = {}
        for name in self._names():
            value = getattr(self, name)
            params[name] = value
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                params |= {f"{name}__{sub}": v for sub, v in value.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, nested ones as ``outer__inner``; return self."""
        known = self._names()
        for name, value in params.items():
            outer, _, inner = name.partition("__")
            if outer not in known:
                raise ParameterError(unknown_parameter(type(self), outer, known))
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
    """Return the parameters of the class's ``__init__`` without self, with their defaults.

    Raises
    ------
    ParameterError : a parameter has no name, or the class sets a default without `params`.
    """
    declared = _fields(_constructor_class(cls))
    return {
        name: _with_default(parameter, declared.get(name))
        for name, parameter in _parameters(cls).items()
    }


@cache
def _parameters(cls: type) -> dict[str, inspect.Parameter]:
    """Return the constructor's parameters; dataclasses mark defaults made by a factory."""
    owner = _constructor_class(cls)
    if owner is object:
        return {}
    parameters = list(inspect.signature(owner.__init__).parameters.values())[1:]  # type: ignore[misc]
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            msg = f"{cls.__name__}.__init__ takes *{parameter.name}; name every parameter"
            raise ParameterError(msg)
    if _fields(owner):
        _refuse_forgotten_decorator(cls, owner)
    return {parameter.name: parameter for parameter in parameters}


def _with_default(parameter: inspect.Parameter, declared: Field[Any] | None) -> inspect.Parameter:
    """Replace the mark of a factory default by a new value from the factory."""
    if declared is None or declared.default_factory is MISSING:
        return parameter
    return parameter.replace(default=declared.default_factory())


def added_defaults(cls: type) -> dict[str, Any]:
    """Return ``added_parameters`` of the class and its bases whose value is still the default.

    A value that is no longer the default is excluded: a key without the parameter would then
    belong to another computation.
    """
    added: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        added |= vars(base).get("added_parameters", {})
    parameters = signature(cls)
    return {
        name: value
        for name, value in added.items()
        if name in parameters and _equal(parameters[name].default, value)
    }


def without_added_defaults(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that enter keys: all but added ones at their former value.

    >>> @params
    ... class Clipped(Parametrized):
    ...     added_parameters = {"normalize": False}
    ...     clip: float = 100.0
    ...     normalize: bool = False
    >>> without_added_defaults(Clipped, {"clip": 2.0, "normalize": False})
    {'clip': 2.0}
    >>> without_added_defaults(Clipped, {"clip": 2.0, "normalize": True})
    {'clip': 2.0, 'normalize': True}
    """
    added = added_defaults(cls)
    return {
        name: value
        for name, value in values.items()
        if name not in added or not _equal(value, added[name])
    }


def _equal(left: object, right: object) -> bool:
    """Compare stored forms: ``False`` differs from 0, a tuple equals a list."""
    try:
        return canonical_json(left) == canonical_json(right)
    except (TypeError, ValueError):
        return False


def hints_of(cls: type) -> dict[str, Any]:
    """Return the parameters' annotations by name, each evaluated in the module that declares it.

    Raises
    ------
    ParameterError : an annotation cannot be evaluated.
    """
    owner = _constructor_class(cls)
    declared = _fields(owner)
    try:
        if not declared:
            hints = typing.get_type_hints(owner.__init__, include_extras=True)  # type: ignore[misc]
            return {name: hint for name, hint in hints.items() if name != "return"}
        return {name: _field_hint(owner, item) for name, item in declared.items() if item.init}
    except NameError as exc:
        msg = f"{cls.__name__}.__init__: annotation cannot be read: {exc}"
        raise ParameterError(msg) from exc


def _field_hint(owner: type, declared: Field[Any]) -> Any:
    """Evaluate the annotation of one field in the module of the class that declares it."""
    name = declared.name
    base = next(cls for cls in reversed(owner.__mro__) if _fields(cls).get(name) is declared)
    module = getattr(sys.modules.get(base.__module__), "__dict__", {})
    annotated = SimpleNamespace(__annotations__={name: declared.type})
    # As typing does for classes: names of the module come before those of the class.
    return typing.get_type_hints(annotated, dict(vars(base)), module, include_extras=True)[name]


def unknown_parameter(cls: type, given: str, known: list[str], shown: str | None = None) -> str:
    """Return the message that a class has no such parameter, with advice."""
    listed = ", ".join(known) if known else "none"
    hint = did_you_mean(given, known)
    inherited = any(hasattr(base, given) for base in cls.__bases__)
    if given in vars(cls) and not inherited and not _fields(cls):
        hint = f"; the class sets '{given}', but is without @params"
    return f"{shown or cls.__name__} has no parameter '{given}'{hint} (it has: {listed})"
