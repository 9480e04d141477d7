"""Parameters of estimators and environments: declared, validated, described.

A parameter is an annotated class attribute, or an argument of an ``__init__`` that the class
defines itself. Its annotation gives type and range, for example
``clip: Annotated[float, Gt(0)] | None = None``. Nothing is checked in ``__init__`` itself, as in
scikit-learn; `validated` does, by pydantic, for suites, the command line and objects alike.

A parameter may hold the import path of a learner's class, in any installed package, or name
a function in a file, ``FILE.py:FUNCTION``, that returns the learner. A suite must not be able to
call arbitrary code: a class needs scikit-learn's ``fit``, modules of the working directory are no
packages, and files are refused where classes in files are.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import runpy
import sys
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from importlib.machinery import PathFinder
from keyword import iskeyword
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast, dataclass_transform

from ope_bench.base.canonical import canonical_json
from ope_bench.base.errors import ParameterError, did_you_mean

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import CoreSchema


C = TypeVar("C", bound=type)

_REQUIRED = inspect.Parameter.empty


def params(cls: C) -> C:
    """Return the class unchanged: the mark of a class with parameters, which no class needs."""
    return cls


@dataclass_transform(eq_default=False, field_specifiers=(field, Field))
class Parametrized:
    """Parameters of the constructor, read back by ``get_params``: scikit-learn's convention.

    Annotated class attributes are the parameters, in their order: every subclass becomes a
    ``dataclass(eq=False, repr=False)``, whose ``__init__`` stores each parameter under its own
    name. A subclass inherits the parameters of its base classes; it repeats the annotation of
    a parameter whose default it changes. No parameters are a ``ClassVar``, an attribute without
    annotation, an attribute of a base class that is none there, and a name that begins with ``_``
    or ends in it, as attributes that fit sets do, unless it is a keyword of Python's: ``lambda_``.
    A list or a mapping as default is written ``field(default_factory=...)``. Where a class defines
    an ``__init__``, its arguments are the parameters instead.

    Works with ``sklearn.base.clone`` without importing scikit-learn.

    ``check_params`` are parameters that keep the conformance checks quick; ``expected_failures``
    names the checks that the class is known to fail, each with the reason. ``added_parameters``
    names parameters that the class gained after trials of it were stored, each with the value at
    which results are the same as before. Keys omit a parameter with that value, so that stored
    trials stay valid. A subclass lists only its own.

    >>> class Clipped(Parametrized):
    ...     clip: float = 100.0
    ...     folds: int = 5
    >>> class InSample(Clipped):
    ...     folds: int = 0
    >>> InSample(2.0), InSample(folds=3).get_params()
    (InSample(clip=2.0), {'clip': 100.0, 'folds': 3})
    """

    check_params: ClassVar[Mapping[str, Any]] = {}
    added_parameters: ClassVar[Mapping[str, Any]] = {}
    expected_failures: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        owner = _constructor_class(cls)
        if owner is not object and not _is_dataclass(owner):
            return
        bases = cls.__mro__[1:]
        inherited = {name for base in bases for name in _fields(base)}
        annotations = _own_annotations(cls)
        for name in inherited & vars(cls).keys() - annotations.keys():
            msg = (
                f"{cls.__name__}: '{name}' is a parameter of a base class; repeat its annotation "
                "to change its default"
            )
            raise ParameterError(msg)
        for name in annotations.keys() - inherited:
            fitted = name.endswith("_") and name != "_" and not iskeyword(name[:-1])
            private = name.startswith("_") and name != "_"  # KW_ONLY has the name _
            if private or fitted or any(name in vars(base) for base in bases):
                annotations[name] = ClassVar
        cls.__annotations__ = annotations
        doc = cls.__doc__
        try:
            dataclass(eq=False, repr=False)(cls)
        except (TypeError, ValueError) as exc:
            msg = (
                f"{cls.__name__}: {exc}; an attribute that is no parameter has no annotation, is "
                "a ClassVar, or is field(init=False)"
            )
            raise ParameterError(msg) from exc
        # dataclass gives a class without docstring its signature as docstring.
        cls.__doc__ = doc

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreSchema:
        # As another class's parameter, accept objects only; pydantic would build one from a
        # mapping.
        from pydantic_core.core_schema import is_instance_schema

        return is_instance_schema(cls)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; with ``deep``, nested ones as ``outer__inner``."""
        params: dict[str, Any] = {}
        for name in signature(type(self)):
            value = getattr(self, name)
            params[name] = value
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                params |= {f"{name}__{sub}": v for sub, v in value.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, nested ones as ``outer__inner``; return self."""
        known = list(signature(type(self)))
        for name, value in params.items():
            outer, _, inner = name.partition("__")
            if outer not in known:
                raise ParameterError(_unknown_parameter(type(self), outer, known))
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
    ParameterError : a parameter has no name.
    """
    declared = _fields(_constructor_class(cls))
    parameters = dict(_parameters(cls))
    for name, item in declared.items():
        # Dataclasses mark a default made by a factory; show a new value from the factory.
        if item.default_factory is not MISSING and item.init:
            parameters[name] = parameters[name].replace(default=item.default_factory())
    return parameters


@cache
def _parameters(cls: type) -> dict[str, inspect.Parameter]:
    owner = _constructor_class(cls)
    if owner is object:
        return {}
    parameters = list(inspect.signature(owner.__init__).parameters.values())[1:]  # type: ignore[misc]
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            msg = f"{cls.__name__}.__init__ takes *{parameter.name}; name every parameter"
            raise ParameterError(msg)
    return {parameter.name: parameter for parameter in parameters}


def _constructor_class(cls: type) -> type:
    """Return the class, or its base class, whose ``__init__`` is called."""
    return next(base for base in cls.__mro__ if "__init__" in vars(base))


def _is_dataclass(cls: type) -> bool:
    """Return whether the class itself is a dataclass, not only one of its bases."""
    return "__dataclass_fields__" in vars(cls)


def _fields(cls: type) -> dict[str, Field[Any]]:
    """Return the fields of a class that is itself a dataclass, by name."""
    return {item.name: item for item in fields(cls)} if _is_dataclass(cls) else {}


def _own_annotations(cls: type) -> dict[str, Any]:
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF)
    return inspect.get_annotations(cls)


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

    >>> class Clipped(Parametrized):
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
        return {name: _field_hint(owner, declared[name]) for name in _parameters(cls)}
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


def _unknown_parameter(cls: type, given: str, known: list[str], shown: str | None = None) -> str:
    """Return the message that a class has no such parameter, with advice."""
    listed = ", ".join(known) if known else "none"
    hint = did_you_mean(given, known)
    inherited = any(hasattr(base, given) for base in cls.__bases__)
    if given in vars(cls) and not inherited:
        hint = f"; the class sets '{given}', but without annotation, or its __init__ lacks it"
    return f"{shown or cls.__name__} has no parameter '{given}'{hint} (it has: {listed})"


# --- learners by import path

ALLOWED = "an import path into an installed package, or FILE.py:FUNCTION"

_GROUPS = ("ope_bench.environments", "ope_bench.estimators")


def is_import_path(path: str) -> bool:
    """Return whether a path may be imported: dotted names that begin with an installed package.

    >>> is_import_path("sklearn.linear_model.Ridge"), is_import_path("os.system")
    (True, False)
    """
    words = path.split(".")
    if len(words) < 2 or not all(word.isidentifier() for word in words):
        return False
    return words[0] in _packages() or _is_installed(words[0])


def _is_installed(package: str) -> bool:
    """Return whether a package is neither Python's own nor a module of the working directory."""
    if package in sys.stdlib_module_names:
        return False
    here = Path.cwd()
    folders = [folder for folder in sys.path if folder and Path(folder).resolve() != here]
    return PathFinder.find_spec(package, folders) is not None


@cache
def _packages() -> frozenset[str]:
    points = [point for group in _GROUPS for point in importlib.metadata.entry_points(group=group)]
    return frozenset({"sklearn", *(point.value.partition(".")[0] for point in points)})


def import_class(path: str) -> type[Any]:
    """Import the class at a path.

    Raises
    ------
    ParameterError : the path is not allowed, cannot be imported, or is no class.
    """
    if not is_import_path(path):
        msg = f"{path!r} is not {ALLOWED}"
        raise ParameterError(msg)
    module, _, name = path.rpartition(".")
    try:
        parent = importlib.import_module(module)
    except ImportError as exc:
        msg = f"{path!r} cannot be imported: {exc}"
        raise ParameterError(msg) from exc
    cls = getattr(parent, name, None)
    if not isinstance(cls, type):
        hint = did_you_mean(name, (word for word in dir(parent) if not word.startswith("_")))
        msg = f"{module!r} has no class {name!r}{hint}"
        raise ParameterError(msg)
    if not callable(getattr(cls, "fit", None)):
        msg = f"{path!r} has no fit; expected a class like scikit-learn's"
        raise ParameterError(msg)
    return cls


LEARNER_FILES = {"allowed": True}
"""Permission to make learners by functions in files: reading a parameter runs the file."""


def _is_file_path(path: str) -> bool:
    return ".py:" in path


def _function_of_file(path: str) -> Callable[[], Any]:
    """Run a file, once, and return the function of it that makes a learner."""
    file, _, name = path.rpartition(":")
    if not LEARNER_FILES["allowed"]:
        msg = f"{path!r} runs a file, which --no-code refuses, and verify without --allow-code"
        raise ParameterError(msg)
    try:
        function = _run_file(str(Path(file).resolve())).get(name)
    except Exception as exc:
        msg = f"{path!r} cannot be read: {type(exc).__name__}: {exc}"
        raise ParameterError(msg) from exc
    if not callable(function):
        msg = f"{file} has no function {name!r}"
        raise ParameterError(msg)
    return cast("Callable[[], Any]", function)


@cache
def _run_file(path: str) -> dict[str, Any]:
    return runpy.run_path(path)


def learner_source(path: str) -> tuple[str, str]:
    """Return the module of a learner's class and "", or "" and the file of its function.

    The code behind a number includes the learner's; see `code_digest`.
    """
    if _is_file_path(path):
        return "", path.rpartition(":")[0]
    return import_class(path).__module__, ""


class LearnerName:
    """Annotation of a parameter: a learner's name, or the import path of its class.

    Parameters
    ----------
    known : the names.
    kind : kind of learner, for messages.

    >>> LearnerName(["ridge", "gbm"], "regressor").check("rigde")
    Traceback (most recent call last):
    ...
    ope_bench.base.errors.ParameterError: 'rigde' is no regressor; did you mean 'ridge'? (known: \
ridge, gbm, or an import path into an installed package, or FILE.py:FUNCTION)
    """

    def __init__(self, known: Iterable[str], kind: str) -> None:
        self.known = tuple(known)
        self.kind = kind

    def check(self, name: str) -> str:
        """Return a valid name or allowed path; raise ParameterError for any other."""
        if name in self.known or _is_file_path(name) or is_import_path(name):
            return name
        hint = did_you_mean(name, self.known)
        msg = f"{name!r} is no {self.kind}{hint} (known: {', '.join(self.known)}, or {ALLOWED})"
        raise ParameterError(msg)

    def __get_pydantic_core_schema__(
        self, source: Any, handler: Callable[[Any], CoreSchema]
    ) -> CoreSchema:
        from pydantic_core import PydanticCustomError, core_schema

        def check(name: str) -> str:
            try:
                if self.check(name) not in self.known:
                    _function_of_file(name) if _is_file_path(name) else import_class(name)
            except ParameterError as exc:
                kind = "learner"
                raise PydanticCustomError(kind, "{reason}", {"reason": str(exc)}) from exc
            return name

        return core_schema.no_info_after_validator_function(check, handler(source))


def learner_from_path(path: str, *, seed: int, params: Mapping[str, Any]) -> Any:
    """Build the learner at an import path: seeded, single-threaded, not yet fitted.

    Parameters
    ----------
    path : import path of the class, or ``FILE.py:FUNCTION``, whose result is the learner.
    seed : value of ``random_state``, if the class has it and ``params`` does not set it; of each
        ``random_state`` that a function leaves at None.
    params : parameters that differ from their defaults; set after a function has returned, those
        of a pipeline's steps as ``step__name``.

    Raises
    ------
    ParameterError : as `import_class`, or the class has no such parameter.

    >>> learner_from_path("sklearn.linear_model.LogisticRegression", seed=1, params={"C": 0.5})
    LogisticRegression(C=0.5, random_state=1)
    """
    if _is_file_path(path):
        learner = _function_of_file(path)()
        known = learner.get_params()
        _require_known(params, known, path)
        seeds = {
            name: seed
            for name, value in known.items()
            if value is None and name.rpartition("__")[2] == "random_state"
        }
        return learner.set_params(**(seeds | {**params}))
    cls = import_class(path)
    accepted = list(inspect.signature(cls).parameters)
    _require_known(params, accepted, cls.__name__)
    # LogisticRegression's n_jobs is deprecated and never starts threads of its own.
    fixed = {"random_state": seed} | ({"n_jobs": 1} if "Forest" in path or "Trees" in path else {})
    return cls(**({name: value for name, value in fixed.items() if name in accepted} | {**params}))


def _require_known(params: Iterable[str], known: Iterable[str], owner: str) -> None:
    for name in params:
        if name not in known:
            msg = f"{owner} has no parameter {name!r}{did_you_mean(name, known)}"
            raise ParameterError(msg)


# --- validation and description


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
        default = ... if parameter.default is _REQUIRED else parameter.default
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
            raise ParameterError(_unknown_parameter(cls, str(parameter), known, title))
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
    return [
        {
            "name": name,
            "type": _format_hint(hints.get(name, Any)),
            "default": "required" if parameter.default is _REQUIRED else repr(parameter.default),
        }
        for name, parameter in signature(cls).items()
    ]


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
