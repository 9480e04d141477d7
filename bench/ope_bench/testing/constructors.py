"""Checks of parameters and copies, the same for estimators and environments."""

from __future__ import annotations

import json
import pickle
import sys
import typing
from typing import Any, Protocol

from ope_bench.environment import Environment
from ope_bench.errors import ParameterError
from ope_bench.estimator import Estimator
from ope_bench.parameters import signature, validated
from ope_bench.seeding import canonical_json
from ope_bench.testing.checks import CheckFailed, NotApplicable, require

__all__ = [
    "Subject",
    "check_class_can_be_pickled",
    "check_clone_and_set_params_copy_parameters",
    "check_constructor_only_stores_annotated_parameters",
    "check_nested_parameters_can_be_set",
    "check_parameters_survive_json",
    "importable",
]


class Subject(Protocol):
    """A plugin under examination."""

    cls: type[Any]
    params: dict[str, Any]

    def make(self) -> Estimator | Environment:
        """A fresh copy."""


def check_constructor_only_stores_annotated_parameters(subject: Subject) -> None:
    """`__init__` stores each annotated argument under its own name and does nothing else."""
    cls = subject.cls
    try:
        parameters = signature(cls)
        hints = typing.get_type_hints(cls.__init__, include_extras=True) if parameters else {}
        validated(cls, subject.params)
    except ParameterError as exc:
        msg = f"{exc}; defaults and check_params must satisfy the annotations"
        raise CheckFailed(msg) from exc
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


def check_parameters_survive_json(subject: Subject) -> None:
    """Parameters come back from the store as what they were."""
    before = validated(subject.cls, subject.params)
    try:
        stored = canonical_json(before)
    except (TypeError, ValueError) as exc:
        msg = f"parameters cannot be stored as JSON: {exc}; use numbers, words, lists, mappings"
        raise CheckFailed(msg) from exc
    after = canonical_json(validated(subject.cls, json.loads(stored)))
    require(
        after == stored,
        f"parameters change on their way through the store: {stored} became {after}",
    )


def check_clone_and_set_params_copy_parameters(subject: Subject) -> None:
    """Copies made by `clone` and by `set_params` have the same parameters."""
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
    """`outer__inner` reaches the parameters of objects given as parameters."""
    made = subject.make()
    nested = {name: value for name, value in made.get_params().items() if "__" in name}
    if not nested:
        msg = "no parameter is an object with parameters of its own"
        raise NotApplicable(msg)
    made.set_params(**nested)
    have = made.get_params()
    wrong = [name for name, value in nested.items() if have[name] is not value]
    require(not wrong, f"set_params does not reach {', '.join(wrong)}")


def check_class_can_be_pickled(subject: Subject) -> None:
    """A pickled copy has the same parameters; workers receive plugins this way."""
    made = subject.make()
    importable(subject.cls)
    try:
        copy = pickle.loads(pickle.dumps(made))  # noqa: S301  our own bytes
    except Exception as exc:
        msg = f"pickle raised {type(exc).__name__}: {exc}; keep lambdas and open files out of it"
        raise CheckFailed(msg) from exc
    require(
        canonical_json(copy.get_params(deep=False)) == canonical_json(subject.params),
        f"the pickled copy has parameters {copy.get_params(deep=False)}",
    )


def importable(cls: type) -> None:
    """Raise NotApplicable for a class that only this process knows."""
    where = cls.__module__
    here = getattr(sys.modules.get(where), cls.__name__, None) is cls
    if where == "__main__" or "<locals>" in cls.__qualname__ or not here:
        msg = f"{cls.__qualname__} is defined in {where}, which other processes cannot import"
        raise NotApplicable(msg)
