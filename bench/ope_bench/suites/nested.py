"""Plugins as parameters of other plugins.

An estimator that runs other estimators annotates a parameter with `EstimatorSpec`, or with a list
of them, and runs each with `NestedEstimator`; an environment that changes the data of another
annotates a parameter with `EnvironmentSpec`, and builds it with `wrapped_environment`. Users write
a selector, ``sg-ipw[normalize=true]``; in a suite also ``{sg-ipw: {normalize: true}}``, and in
Python an object.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

from ope_bench.base.errors import AccessError, ParameterError, UsageError
from ope_bench.contracts.parameters import hints_of, signature
from ope_bench.contracts.plugins import (
    Environment,
    Estimate,
    Estimator,
    checked_estimate,
    refuse_unused,
)
from ope_bench.contracts.view import View
from ope_bench.plugins.registry import Kind, registry
from ope_bench.plugins.requirements import import_all
from ope_bench.plugins.spec import resolve, spec_of
from ope_bench.suites.suite import Selector, parse_selector, selector_of


@dataclass(frozen=True)
class _PluginText:
    """Annotation that turns what names a plugin into its shortest selector."""

    shown: Kind

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import PydanticCustomError, core_schema

        def check(given: Any) -> str:
            try:
                return _named(self.shown, given)[0]
            except UsageError as exc:
                raise PydanticCustomError(self.shown, "{reason}", {"reason": str(exc)}) from exc

        return core_schema.no_info_plain_validator_function(check)


EstimatorSpec = Annotated[str | Estimator, _PluginText("estimator")]
"""Annotation of a parameter that names an estimator: a selector, or an estimator object.

In keys and stores it is the shortest selector of the setting, with parameters that differ from
their defaults. A list of them, ``list[EstimatorSpec]``, is one value in suites and on the command
line, where other lists are grids.
"""

EnvironmentSpec = Annotated[str | Environment, _PluginText("environment")]
"""Annotation of a parameter that names an environment; see `EstimatorSpec`."""


def wrapped_environment(given: str | Environment | Mapping[str, Any]) -> Environment:
    """Return the environment that a value of a parameter names.

    Parameters
    ----------
    given : a selector; a mapping of one reference to parameters; or an environment.

    Raises
    ------
    UsageError : it names no environment, or more than one.
    """
    environment: Environment = _named("environment", given)[2]
    return environment


@dataclass(frozen=True, eq=False)
class NestedEstimator:
    """An estimator that another estimator runs.

    Parameters
    ----------
    text : its shortest selector.
    id : its id, from which its random stream derives.
    estimator : an object that is never fitted itself; every run takes a copy.
    """

    text: str
    id: str
    estimator: Estimator

    @classmethod
    def of(cls, given: str | Estimator | Mapping[str, Any]) -> NestedEstimator:
        """Return the estimator that a value of a parameter names.

        Parameters
        ----------
        given : a selector; a mapping of one reference to parameters; or an estimator.

        Raises
        ------
        UsageError : it names no estimator, or more than one.

        >>> from ope_bench import NestedEstimator
        >>> NestedEstimator.of("sg-ipw[normalize=true, delta=0.05]").text
        'sg-ipw[normalize=true]'
        """
        return cls(*_named("estimator", given))

    def run(self, view: View, *, device: str = "cpu") -> Estimate:
        """Fit a copy on a view and return its estimate, as a trial of its own would.

        The copy sees what its ``access`` declares and nothing else. Its random stream is that of
        a trial of its own on the same data, and shared fits are shared.

        Parameters
        ----------
        view : data; it must grant the estimator's access.
        device : device of the trial, if the estimator trains there; otherwise the CPU.

        Raises
        ------
        UnavailableError : a module or data that it needs are missing.
        AccessError : it read what it does not declare, even if it caught the exception.
        DataError : what it returned is not an estimate for these rows.
        """
        estimator = type(self.estimator)(**self.estimator.get_params(deep=False))
        import_all(estimator.requires)
        refuse_unused(estimator, view)
        own = view.restricted(estimator.access, optional=estimator.optional_access)
        rng = view.estimator_rng(self.id)
        where = device if device in estimator.devices else "cpu"
        estimator.fit(own, rng=rng, device=where)
        estimate = estimator.estimate(own)
        if own.violations:
            msg = f"read undeclared view.{', view.'.join(own.violations)}"
            raise AccessError(msg)
        return checked_estimate(estimate, view.n, view.m if view.has_target_sample else 0)


def _named(kind: Kind, given: object) -> tuple[str, str, Any]:
    """Return the plugin that a parameter names: its shortest selector, its id, and an object."""
    if isinstance(given, Estimator if kind == "estimator" else Environment):
        spec = spec_of(given)
        return selector_of(spec, type(given)), spec.id, given
    selector = _selector(kind, given)
    if selector.label or "worlds" in selector.params:
        word, why = (
            ("as", "for rows of a board") if selector.label else ("worlds", "of the outer one")
        )
        msg = f"{selector.reference}: '{word}' is {why}, not for a nested {kind}"
        raise UsageError(msg)
    params = {name: _only(kind, selector, name) for name in selector.params}
    spec = resolve(kind, selector.reference, params)
    found = registry().find(kind, spec.reference).cls
    return selector_of(spec, found), spec.id, found(**spec.params)


def _selector(kind: Kind, given: object) -> Selector:
    if isinstance(given, str):
        return parse_selector(given)
    if isinstance(given, Mapping) and len(given) == 1:
        ((reference, params),) = given.items()
        if isinstance(reference, str) and isinstance(params, Mapping | None):
            # Values stand as they are: a list in a mapping is no grid.
            single = {
                name: [value] if isinstance(value, list) else value
                for name, value in (params or {}).items()
            }
            return Selector(reference, single)
    example = {"estimator": "epw[clip=10]", "environment": "saito-toy[n_actions=50]"}[kind]
    msg = f"{given!r} names no {kind}; write a selector such as '{example}'"
    raise UsageError(msg)


def _only(kind: Kind, selector: Selector, name: str) -> Any:
    """Return the only value of a parameter; one in a list of one, as in a grid of one."""
    value = selector.params[name]
    cls = registry().find(kind, selector.reference).cls
    if not isinstance(value, list) or is_one_list(cls, name, value):
        return value
    if len(value) == 1:
        return value[0]
    msg = (
        f"{selector.reference}: a list is a grid, and '{name}' needs one value here; list one "
        f"{kind} for each, or write [{value}] for one list"
    )
    raise UsageError(msg)


def is_one_list(cls: type, name: str, value: object) -> bool:
    """Return whether a list is one value of a parameter that is a list.

    A list of lists is a grid of such values.
    """
    if not isinstance(value, list) or not value:
        return False
    flat = not any(item is None or isinstance(item, list) for item in value)
    return flat and name in list_parameters(cls)


@cache
def environment_parameters(cls: type) -> frozenset[str]:
    """Return the parameters of a class that name an environment."""
    return frozenset(
        name
        for name, hint in _hints(cls).items()
        if _PluginText("environment") in getattr(hint, "__metadata__", ())
    )


@cache
def list_parameters(cls: type) -> frozenset[str]:
    """Return the parameters of a class that are lists."""
    return frozenset(name for name, hint in _hints(cls).items() if _is_list(hint))


def _hints(cls: type) -> dict[str, Any]:
    """Return the annotations of a class's parameters; none where resolving it reports why."""
    try:
        hints = hints_of(cls)
    except ParameterError:
        return {}
    return {name: hints.get(name) for name in signature(cls)}


def _is_list(hint: Any) -> bool:
    """Return whether a parameter takes nothing else, or lists of estimators."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _is_list(arguments[0])
    if origin in (typing.Union, types.UnionType):
        others = [one for one in arguments if one is not types.NoneType]
        return all(map(_is_list, others)) or any(
            _is_list(one) and _plugin_items(one) for one in others
        )
    return origin in (list, tuple)


def _plugin_items(hint: Any) -> bool:
    metadata = getattr([*typing.get_args(hint), None][0], "__metadata__", ())
    return any(isinstance(item, _PluginText) for item in metadata)
