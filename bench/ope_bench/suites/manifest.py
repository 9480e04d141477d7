"""Plan a suite's trials: the only code that crosses environments with estimators.

Shards are parts of a plan, for machines that share no storage. They hold whole replicates: all
estimators on the same data are in the same shard. Each shard samples its data and shares its
nuisance fits as the whole run would; its boards are fair and paired; and the numbers of replicates
of a setting differ by at most one between shards, so that all take about as long. A trial's shard
depends on the trial alone: neither on the rest of the plan, nor on its order, nor on stored
results.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache, cached_property
from typing import Any

from ope_bench.base.canonical import digest
from ope_bench.base.errors import ParameterError, PluginError, UsageError, did_you_mean
from ope_bench.contracts.parameters import hints_of, signature
from ope_bench.plugins.registry import Kind, registry
from ope_bench.plugins.spec import PluginSpec, complete_params, resolve
from ope_bench.suites.nested import (
    EnvironmentSpec,
    EstimatorSpec,
    environment_parameters,
    is_one_list,
)
from ope_bench.suites.suite import Entry, Exclusion, Selector, Suite, parse_selector, selector_of
from ope_bench.trials.record import Trial
from ope_bench.trials.status import Device
from ope_bench.trials.trial import build_checked, devices_of

MAX_TRIALS = 2_000_000


@dataclass(frozen=True)
class Shard:
    """Shard ``number`` of ``count``, counted from one.

    >>> str(Shard(2, 8))
    '2/8'
    """

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def holds(self, trial: Trial) -> bool:
        """Return whether the trial is in this shard; each trial is in exactly one.

        Replicates that are trained together are in the same shard.
        """
        unit = trial.replicate // trial.device.block_size
        # Each setting starts at another shard, so that incomplete last rounds are spread evenly.
        first = _number(f"[{trial.environment.identity_json},{trial.seed}]")
        return (first + unit) % self.count == self.number - 1


@cache
def _number(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16)


def parse_shard(text: str) -> Shard:
    """Parse a shard such as ``2/8``.

    Raises
    ------
    UsageError : the text is no shard.
    """
    match = re.fullmatch(r"\s*(\d+)\s*/\s*(\d+)\s*", text)
    number, count = map(int, match.groups()) if match else (0, 0)
    if not 1 <= number <= count:
        msg = f"{text!r} is not a shard; the second of eight is written 2/8"
        raise UsageError(msg)
    return Shard(number, count)


@dataclass(frozen=True)
class Combination:
    """One estimator on one environment setting and device, over all replicates."""

    environment: PluginSpec
    estimator: PluginSpec
    device: Device


@dataclass(frozen=True)
class Manifest:
    """The trials of a suite.

    Parameters
    ----------
    suite : the suite.
    cells : environment settings crossed with estimators and devices, exclusions left out.
    threads : numerical threads of each trial.
    without_device : estimators that run on none of the suite's devices, with their own devices.
    shard : the part to run, None for all trials.
    """

    suite: Suite
    cells: tuple[Combination, ...]
    _: KW_ONLY
    threads: int = 1
    without_device: tuple[tuple[PluginSpec, tuple[str, ...]], ...] = ()
    shard: Shard | None = None

    def plugins(self) -> list[PluginSpec]:
        """Return the distinct settings of environments and of estimators."""
        specs = [spec for cell in self.cells for spec in (cell.environment, cell.estimator)]
        return list({id(spec): spec for spec in specs}.values())

    @cached_property
    def trials(self) -> tuple[Trial, ...]:
        """Return all trials, those on the same data in sequence, so that a worker samples it once.

        Batched trials follow the others of their environment, block by block.
        """
        suite, shard = self.suite, self.shard
        planned = []
        for _, group in itertools.groupby(self.cells, key=lambda cell: cell.environment):
            cells = list(group)
            parts = [[cell for cell in cells if not cell.device.batched]]
            parts += [
                [cell for cell in cells if cell.device == device]
                for device in Device
                if device.batched
            ]
            planned += [
                Trial(
                    cell.environment,
                    cell.estimator,
                    replicate,
                    seed=suite.seed,
                    device=cell.device,
                    threads=self.threads,
                    salt=suite.salt,
                )
                for part in parts
                for replicate in range(suite.replicates)
                for cell in part
            ]
        return tuple(trial for trial in planned if shard is None or shard.holds(trial))

    @property
    def digest(self) -> str:
        """A digest of what determines the planned keys, which all shards share."""
        cells = sorted(
            [one.environment.identity_json, one.estimator.identity_json, one.device.value]
            for one in self.cells
        )
        suite = self.suite
        return digest([cells, suite.replicates, suite.seed, suite.salt, self.threads])

    def exclusive(self, trial: Trial) -> bool:
        """Return whether the trial is to run alone at the end, for comparable times."""
        timing = self.suite.timing
        return timing is True or trial.replicate < timing


def plan(suite: Suite, *, threads: int = 1) -> Manifest:
    """Resolve every name and parameter, expand the grids and cross.

    Raises
    ------
    UsageError : an id or a parameter is unknown or wrong, a grid is empty, one setting has two
        labels, or there are too many trials.
    """
    environments = _expand("environment", suite.environments)
    estimators = _expand("estimator", suite.estimators)
    for exclusion in suite.exclude:
        _check("environment", exclusion.environment, environments, exclusion)
        _check("estimator", exclusion.estimator, estimators, exclusion)
    devices = {id(spec): devices_of(build_checked(spec)) for spec in estimators}
    cells = tuple(
        cell
        for environment, estimator, device in itertools.product(
            environments, estimators, suite.devices
        )
        if device in devices[id(estimator)]
        and not _excluded(suite.exclude, cell := Combination(environment, estimator, device))
    )
    n_trials = len(cells) * suite.replicates
    if n_trials > MAX_TRIALS:
        msg = f"suite '{suite.name}' asks for {n_trials:,} trials; the limit is {MAX_TRIALS:,}"
        raise UsageError(msg)
    without_device = tuple(
        (spec, devices[id(spec)])
        for spec in estimators
        if not any(device in devices[id(spec)] for device in suite.devices)
    )
    return Manifest(suite, cells, threads=threads, without_device=without_device)


def specs_of(kind: Kind, selector: str | Selector, *, typed: bool = False) -> list[PluginSpec]:
    """Return the settings of one selector; a list of values is a grid.

    Parameters
    ----------
    kind, selector : what is named.
    typed : whether a user typed it.

    >>> both = specs_of("environment", "saito-toy[n_actions=[2,3]]")
    >>> [spec.params["n_actions"] for spec in both]
    [2, 3]
    """
    parsed = parse_selector(selector) if isinstance(selector, str) else selector
    return _expand(kind, [Entry(parsed, typed=typed)])


def given_parameters(suite: Suite) -> list[tuple[PluginSpec, tuple[str, ...]]]:
    """Return every setting of a suite, with the names of the parameters that its entry sets.

    The other parameters of the setting are defaults of its class, which may change.
    """
    parts: list[tuple[Kind, tuple[Entry, ...]]] = [
        ("environment", suite.environments),
        ("estimator", suite.estimators),
    ]
    return [
        (spec, tuple(name for name in entry.selector.params if name in spec.params))
        for kind, entries in parts
        for entry in entries
        for spec in _entry_specs(kind, entry)
    ]


def _expand(kind: Kind, entries: Iterable[Entry]) -> list[PluginSpec]:
    """Return the distinct settings of the entries."""
    specs: dict[str, PluginSpec] = {}
    by_id: dict[str, PluginSpec] = {}
    by_label: dict[str, PluginSpec] = {}
    for entry in entries:
        for spec in _entry_specs(kind, entry):
            namesake = by_id.setdefault(spec.id, spec)
            if namesake.reference != spec.reference:
                owners = f"{namesake.reference} ({namesake.origin}) and {spec.reference}"
                msg = f"two {kind}s named '{spec.id}': {owners}; keep one of them"
                raise entry.error(msg)
            known = specs.setdefault(repr(spec.identity), spec)
            if known.label != spec.label:
                labels = " and ".join(f"'{item.label or item.id}'" for item in (known, spec))
                msg = f"the same {kind} has two labels, {labels}; keep one"
                raise entry.error(msg)
            if spec.label and by_label.setdefault(spec.label, spec).identity != spec.identity:
                msg = f"two {kind}s are called '{spec.label}'; give them different labels"
                raise entry.error(msg)
    return list(specs.values())


def _entry_specs(kind: Kind, entry: Entry) -> Iterator[PluginSpec]:
    """Yield the settings of one entry: the product of its lists."""
    selector, params = entry.selector, entry.selector.params
    varied: list[str] = []
    if entry.typed:
        try:
            _refuse_ambiguous(kind, selector)
        except PluginError as exc:
            raise entry.error(str(exc)) from exc
    # An unknown plugin is reported by `resolve` below, with the entry's line.
    with contextlib.suppress(PluginError):
        cls = registry().find(kind, selector.reference).cls
        params = {**params, **_nested_grids(cls, params)}
        varied = [name for name, value in params.items() if isinstance(value, list)]
        # A list is one value of a parameter that is a list; a list of such lists is a grid.
        varied = [name for name in varied if not is_one_list(cls, name, params[name])]
    for name in varied:
        if not params[name]:
            msg = f"{selector.reference}: the grid of '{name}' is empty"
            raise entry.error(msg, selector.reference, name)
    for values in itertools.product(*(params[name] for name in varied)):
        point = {**params, **dict(zip(varied, values, strict=True))}
        try:
            spec = resolve(kind, selector.reference, point, label=selector.label)
        except PluginError as exc:
            raise entry.error(str(exc)) from exc
        except ParameterError as exc:
            wrong = [name for name in point if f"'{name}'" in str(exc)]
            raise entry.error(str(exc), selector.reference, *wrong[:1]) from exc
        # Distinguish settings of a grid that share one label.
        varying = ", ".join(f"{name}={point[name]}" for name in varied if len(params[name]) > 1)
        if varying and selector.label:
            spec = replace(spec, label=f"{spec.label} [{varying}]")
        yield spec


def _refuse_ambiguous(kind: Kind, selector: Selector) -> None:
    """Refuse an id of several distributions that a user typed, also as a plugin's parameter.

    Raises
    ------
    PluginError : there is one. What else is wrong is reported with its parameter.
    """
    if sum(one.id == selector.reference for one in registry().plugins(kind)) > 1:
        registry().find(kind, selector.reference, typed=True)
    hints: Mapping[str, Any] = {}
    with contextlib.suppress(UsageError):
        hints = hints_of(registry().find(kind, selector.reference).cls)
    for name, given in selector.params.items():
        for nested in _plugin_kinds(hints.get(name)):
            for item in _flat(given):
                named = Selector("")
                with contextlib.suppress(UsageError):
                    named = parse_selector(item)
                _refuse_ambiguous(nested, named)


def _plugin_kinds(hint: Any) -> set[Kind]:
    """Return the kinds of the plugins that a parameter names."""
    marks: list[tuple[Any, Kind]] = [
        (typing.get_args(EstimatorSpec)[1], "estimator"),
        (typing.get_args(EnvironmentSpec)[1], "environment"),
    ]
    found = {kind for mark, kind in marks if mark in getattr(hint, "__metadata__", ())}
    return found.union(*map(_plugin_kinds, typing.get_args(hint)))


def _flat(given: Any) -> Iterator[str]:
    """Yield the texts of a parameter's value: of lists, and the references of mappings."""
    if isinstance(given, str):
        yield given
    elif isinstance(given, list | Mapping):
        for one in given:
            yield from _flat(one)


def _nested_grids(cls: type, params: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return lists for parameters that name an environment with a grid of its own."""
    grids = {}
    for name in environment_parameters(cls) & params.keys():
        given = params[name] if isinstance(params[name], list) else [params[name]]
        texts = [text for one in given for text in _points(one)]
        if len(texts) > len(given):
            grids[name] = texts
    return grids


def _points(given: Any) -> list[Any]:
    """Return the selectors of the points of an environment's grid; what is no grid as it is."""
    # What cannot be parsed or resolved is reported with its entry.
    with contextlib.suppress(UsageError):
        if isinstance(given, str) and any(
            isinstance(value, list) for value in parse_selector(given).params.values()
        ):
            specs = specs_of("environment", given)
            return [
                selector_of(one, registry().find(one.kind, one.reference).cls) for one in specs
            ]
    return [given]


def _excluded(exclusions: Iterable[Exclusion], cell: Combination) -> bool:
    return any(
        (item.environment is None or selects(item.environment, cell.environment))
        and (item.estimator is None or selects(item.estimator, cell.estimator))
        and item.device in (None, cell.device)
        for item in exclusions
    )


def selects(selector: Selector, spec: PluginSpec) -> bool:
    """Return whether a selector names a setting; a list matches any of its values.

    An empty reference names every plugin, an alias the estimator that it means.
    """
    reference = selector.reference
    if reference.rpartition(":")[0].endswith(".py"):
        reference = os.path.realpath(reference)
    names = ("", spec.id, spec.reference)
    if reference not in names and registry().meant(spec.kind, reference) != spec.id:
        return False
    have = {**spec.params, **({"worlds": spec.worlds} if spec.kind == "environment" else {})}
    if selector.params.keys() - have.keys():
        have |= complete_params(spec.kind, spec.reference, spec.params)

    def matches(name: str, value: Any) -> bool:
        choices = [*value, value] if isinstance(value, list) else [value]
        # Python holds True for 1.
        return name in have and any(
            have[name] == choice and isinstance(have[name], bool) == isinstance(choice, bool)
            for choice in choices
        )

    return all(matches(name, value) for name, value in selector.params.items())


def _check(
    kind: Kind, selector: Selector | None, planned: list[PluginSpec], exclusion: Exclusion
) -> None:
    """Refuse an exclusion that names a plugin or a parameter which does not exist."""
    if selector is None:
        return
    try:
        if selector.reference:
            known = list(signature(registry().find(kind, selector.reference).cls))
        else:
            whole = [complete_params(kind, spec.reference, spec.params) for spec in planned]
            known = list({name: None for params in whole for name in params})
    except PluginError as exc:
        raise exclusion.error(str(exc), kind) from exc
    known += ["worlds"] if kind == "environment" else []
    for name in selector.params:
        if name not in known:
            owner = selector.reference or f"no {kind} of this suite"
            verb = "has no" if selector.reference else "has a"
            msg = f"exclude: {owner} {verb} parameter '{name}'{did_you_mean(name, known)}"
            raise exclusion.error(msg, kind, name)
