"""Checks of parameters and copies, for estimators and environments."""

from __future__ import annotations

import inspect
import json
import pickle
import sys
from typing import Any, Protocol

from ope_bench.canonical import canonical_json
from ope_bench.contracts.environment import Environment
from ope_bench.contracts.estimator import Estimator
from ope_bench.contracts.parameters.declaration import hints_of, signature
from ope_bench.contracts.parameters.validation import validated
from ope_bench.errors import ParameterError
from ope_bench.testing.checks import CheckFailed, NotApplicable, require

__all__ = [
    "Subject",
    "check_added_parameters_are_parameters",
    "check_class_can_be_pickled",
    "check_clone_and_set_params_copy_parameters",
    "check_constructor_only_stores_annotated_parameters",
    "check_nested_parameters_can_be_set",
    "check_parameters_survive_json",
    "importable",
]


class Subject(Protocol):
    """A plugin under test."""

    cls: type[Any]
    params: dict[str, Any]

    def make(self) -> Estimator | Environment:
        """Return a fresh copy."""


def check_constructor_only_stores_annotated_parameters(subject: Subject) -> None:
    """`__init__` must store each annotated argument under its own name and do nothing else."""
    cls = subject.cls
    require(
        not hasattr(cls, "__post_init__"),
        "the class has `__post_init__`; constructors only store parameters, so leave all work to "
        "fit or sample",
    )
    try:
        parameters = signature(cls)
        hints = hints_of(cls) if parameters else {}
        validated(cls, subject.params)
    except ParameterError as exc:
        msg = f"{exc}; defaults and check_params must satisfy the annotations"
        raise CheckFailed(msg) from exc
    forgotten = [] if parameters else _annotated_values(cls)
    require(
        not forgotten,
        f"{', '.join(forgotten)}: annotated in a class without parameters; write @params above "
        "the class, or make it a ClassVar",
    )
    bare = [name for name in parameters if name not in hints]
    require(
        not bare,
        f"parameters without annotation: {', '.join(bare)}; the annotation is what suite files "
        "are checked against, for example `clip: Annotated[float, Gt(0)] = 10.0`",
    )
    defaults = {
        name: parameter.default
        for name, parameter in parameters.items()
        if parameter.default is not parameter.empty
    }
    for params in (subject.params, subject.params | defaults):
        made = cls(**params)
        for name, given in params.items():
            require(hasattr(made, name), f"__init__ must store `self.{name} = {name}`")
            stored = getattr(made, name)
            require(
                stored is given or stored == given,
                f"self.{name} is {stored!r}, but {given!r} was given; __init__ must store "
                "arguments unchanged and leave all work to fit or sample",
            )
    more = sorted(set(vars(made)) - set(parameters))
    require(
        not more,
        f"__init__ also sets {', '.join(more)}; set it where the work is done, with a name that "
        "ends in `_`",
    )


def _annotated_values(cls: type) -> list[str]:
    """Return annotated class attributes that have a value and are no ClassVar."""
    return [
        name
        for base in cls.__mro__
        for name, annotation in inspect.get_annotations(base).items()
        if name in vars(base) and "ClassVar" not in str(annotation)
    ]


def check_added_parameters_are_parameters(subject: Subject) -> None:
    """`added_parameters` must name parameters, with values that they accept."""
    cls, added = subject.cls, dict(subject.cls.added_parameters)
    if not added:
        msg = "the class lists no added_parameters"
        raise NotApplicable(msg)
    try:
        validated(cls, subject.params | added)
    except ParameterError as exc:
        msg = f"added_parameters: {exc}"
        raise CheckFailed(msg) from exc


def check_parameters_survive_json(subject: Subject) -> None:
    """Parameters must be unchanged after storing them as JSON."""
    before = validated(subject.cls, subject.params)
    try:
        stored = canonical_json(before)
    except (TypeError, ValueError) as exc:
        msg = f"parameters cannot be stored as JSON: {exc}; use numbers, strings, lists, mappings"
        raise CheckFailed(msg) from exc
    after = canonical_json(validated(subject.cls, json.loads(stored)))
    require(
        after == stored,
        f"parameters change in the store: {stored} became {after}",
    )


def check_clone_and_set_params_copy_parameters(subject: Subject) -> None:
    """Copies made by `clone` and by `set_params` must have the same parameters."""
    from sklearn.base import clone

    made = subject.make()
    want = made.get_params(deep=False)
    copies: dict[str, Any] = {
        "set_params(**get_params())": subject.make().set_params(**want),
        "sklearn.base.clone": clone(made),
    }
    for how, copy in copies.items():
        have = copy.get_params(deep=False)
        require(
            canonical_json(have) == canonical_json(want),
            f"{how} gives {have}; expected {want}",
        )
    try:
        made.set_params(no_such_parameter=1)
    except ParameterError:
        return
    msg = "set_params(no_such_parameter=1) raises nothing; keep the base class's set_params"
    raise CheckFailed(msg)


def check_nested_parameters_can_be_set(subject: Subject) -> None:
    """`set_params(outer__inner=...)` must set parameters of objects that are parameters."""
    made = subject.make()
    nested = {name: value for name, value in made.get_params().items() if "__" in name}
    if not nested:
        msg = "no parameter is an object with parameters of its own"
        raise NotApplicable(msg)
    made.set_params(**nested)
    have = made.get_params()
    wrong = [name for name, value in nested.items() if have[name] is not value]
    require(not wrong, f"set_params does not set {', '.join(wrong)}")


def check_class_can_be_pickled(subject: Subject) -> None:
    """A pickled copy must have the same parameters; workers receive plugins by pickle."""
    made = subject.make()
    importable(subject.cls)
    try:
        copy = pickle.loads(pickle.dumps(made))  # noqa: S301  our own bytes
    except Exception as exc:
        msg = f"pickle raised {type(exc).__name__}: {exc}; store no lambdas or open files in it"
        raise CheckFailed(msg) from exc
    require(
        canonical_json(copy.get_params(deep=False)) == canonical_json(subject.params),
        f"the pickled copy has parameters {copy.get_params(deep=False)}",
    )


def importable(cls: type) -> None:
    """Raise NotApplicable for a class that other processes cannot import."""
    where = cls.__module__
    here = getattr(sys.modules.get(where), cls.__name__, None) is cls
    if where == "__main__" or "<locals>" in cls.__qualname__ or not here:
        msg = f"{cls.__qualname__} is defined in {where}, which other processes cannot import"
        raise NotApplicable(msg)
