"""Plan a suite's trials: the only code that crosses environments with estimators."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any

from ope_bench.contracts.parameters.declaration import signature
from ope_bench.errors import OpeBenchError, ParameterError, PluginError, UsageError, did_you_mean
from ope_bench.plugins.registry import Kind, registry
from ope_bench.plugins.resolution import complete_params, resolve
from ope_bench.plugins.spec import PluginSpec
from ope_bench.suites.nested import is_estimator_list
from ope_bench.suites.selector import Selector, parse_selector
from ope_bench.suites.shard import Shard
from ope_bench.suites.suite import Entry, Exclusion, Suite
from ope_bench.trials.building import build_checked
from ope_bench.trials.devices import Device
from ope_bench.trials.record import Trial
from ope_bench.trials.trial import devices_of

__all__ = [
    "MAX_TRIALS",
    "Cell",
    "Manifest",
    "given_parameters",
    "plan",
    "selects",
    "settings",
]

MAX_TRIALS = 2_000_000


@dataclass(frozen=True)
class Cell:
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
    cells: tuple[Cell, ...]
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
        shard = self.shard
        return tuple(trial for trial in self._trials() if shard is None or shard.holds(trial))

    def _trials(self) -> Iterator[Trial]:
        suite = self.suite
        for _, group in itertools.groupby(self.cells, key=lambda cell: cell.environment):
            cells = list(group)
            single = [cell for cell in cells if not cell.device.batched]
            for replicate in range(suite.replicates):
                yield from self._replicate_trials(replicate, single)
            for device in (device for device in Device if device.batched):
                batched = [cell for cell in cells if cell.device == device]
                for replicate in range(suite.replicates):
                    yield from self._replicate_trials(replicate, batched)

    def _replicate_trials(self, replicate: int, cells: Iterable[Cell]) -> Iterator[Trial]:
        for cell in cells:
            yield Trial(
                cell.environment,
                cell.estimator,
                replicate,
                seed=self.suite.seed,
                device=cell.device,
                threads=self.threads,
            )

    @property
    def exclusive_replicates(self) -> int:
        """Number k of replicates ``0 ... k-1`` that run alone at the end, for comparable times."""
        timing = self.suite.timing
        if isinstance(timing, bool):
            return self.suite.replicates if timing else 0
        return min(timing, self.suite.replicates)

    def exclusive(self, trial: Trial) -> bool:
        """Return whether the trial is to run alone."""
        return trial.replicate < self.exclusive_replicates


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
        _check(exclusion, environments, estimators)
    devices = {id(spec): devices_of(build_checked(spec)) for spec in estimators}
    cells = tuple(
        cell
        for environment, estimator, device in itertools.product(
            environments, estimators, suite.devices
        )
        if device in devices[id(estimator)]
        and not _excluded(suite.exclude, cell := Cell(environment, estimator, device))
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


def settings(kind: Kind, selector: str | Selector) -> list[PluginSpec]:
    """Return the settings of one selector; a list of values is a grid.

    >>> both = settings("environment", "saito-toy[n_actions=[2,3]]")
    >>> [spec.params["n_actions"] for spec in both]
    [2, 3]
    """
    parsed = parse_selector(selector) if isinstance(selector, str) else selector
    return _expand(kind, [Entry(parsed)])


def given_parameters(suite: Suite) -> list[tuple[PluginSpec, tuple[str, ...]]]:
    """Return every setting of a suite, with the names of the parameters that its entry sets.

    The other parameters of the setting are defaults of its class, which may change.
    """
    return [
        (spec, tuple(name for name in entry.selector.params if name in spec.params))
        for kind, entries in _entries_by_kind(suite)
        for entry in entries
        for spec in _settings(kind, entry)
    ]


def _entries_by_kind(suite: Suite) -> list[tuple[Kind, tuple[Entry, ...]]]:
    return [("environment", suite.environments), ("estimator", suite.estimators)]


def _expand(kind: Kind, entries: Iterable[Entry]) -> list[PluginSpec]:
    """Return the distinct settings of the entries."""
    specs: dict[str, PluginSpec] = {}
    names: dict[str, PluginSpec] = {}
    for entry in entries:
        for spec in _settings(kind, entry):
            namesake = names.setdefault(spec.id, spec)
            if namesake.reference != spec.reference:
                owners = f"{namesake.reference} ({namesake.origin}) and {spec.reference}"
                msg = f"two {kind}s named '{spec.id}': {owners}; keep one of them"
                raise entry.error(msg)
            known = specs.setdefault(repr(spec.identity), spec)
            if known.label != spec.label:
                labels = " and ".join(f"'{item.label or item.id}'" for item in (known, spec))
                msg = f"the same {kind} has two labels, {labels}; keep one"
                raise entry.error(msg)
            same_label = names.setdefault(f"={spec.label}", spec)
            if spec.label and same_label.identity != spec.identity:
                msg = f"two {kind}s are called '{spec.label}'; give them different labels"
                raise entry.error(msg)
    return list(specs.values())


def _settings(kind: Kind, entry: Entry) -> Iterator[PluginSpec]:
    params = entry.selector.params
    whole = _values_in_lists(kind, entry.selector)
    varied = [
        name for name, value in params.items() if isinstance(value, list) and name not in whole
    ]
    for name in varied:
        if not params[name]:
            msg = f"{entry.selector.reference}: the grid of '{name}' is empty"
            raise entry.error(msg, entry.selector.reference, name)
    for values in itertools.product(*(params[name] for name in varied)):
        point = dict(zip(varied, values, strict=True))
        spec = _resolved(kind, entry, {**params, **point})
        # Distinguish settings of a grid that share one label.
        varying = ", ".join(f"{n}={v}" for n, v in point.items() if len(params[n]) > 1)
        if varying and entry.selector.label:
            spec = replace(spec, label=f"{spec.label} [{varying}]")
        yield spec


def _values_in_lists(kind: Kind, selector: Selector) -> set[str]:
    """Return parameters whose list is one value: a list of estimators, no list of such lists."""
    try:
        cls = registry().find(kind, selector.reference).cls
    except PluginError:
        # `_resolved` reports it with the entry's line.
        return set()
    return {name for name, value in selector.params.items() if is_estimator_list(cls, name, value)}


def _resolved(kind: Kind, entry: Entry, params: Mapping[str, Any]) -> PluginSpec:
    selector = entry.selector
    try:
        return resolve(kind, selector.reference, params, label=selector.label)
    except PluginError as exc:
        raise entry.error(str(exc)) from exc
    except ParameterError as exc:
        hint = _nesting_hint(kind, selector, params)
        wrong = [name for name in params if f"'{name}'" in str(exc)]
        msg = f"{exc}{hint}"
        raise entry.error(msg, selector.reference, *wrong[:1]) from exc


def _nesting_hint(kind: Kind, selector: Selector, params: Mapping[str, Any]) -> str:
    """Return how to write one list-valued parameter, if that would have been valid."""
    for name, value in selector.params.items():
        if isinstance(value, list):
            try:
                resolve(kind, selector.reference, {**params, name: value})
            except UsageError:
                continue
            return f"; a list is a grid: for one list-valued {name} write [{value}]"
    return ""


def _excluded(exclusions: Iterable[Exclusion], cell: Cell) -> bool:
    return any(
        (item.environment is None or selects(item.environment, cell.environment))
        and (item.estimator is None or selects(item.estimator, cell.estimator))
        and item.device in (None, cell.device)
        for item in exclusions
    )


def selects(selector: Selector, spec: PluginSpec) -> bool:
    """Return whether a selector names a setting; a list matches any of its values.

    An empty reference names every plugin.
    """
    reference = selector.reference
    if reference.rpartition(":")[0].endswith(".py"):
        reference = os.path.realpath(reference)
    if reference not in ("", spec.id, spec.reference):
        return False
    have = {**spec.params, **({"worlds": spec.worlds} if spec.kind == "environment" else {})}
    if selector.params.keys() - have.keys():
        have |= _all_params(spec)
    return all(
        name in have and any(_same(have[name], choice) for choice in _choices(value, have[name]))
        for name, value in selector.params.items()
    )


def _all_params(spec: PluginSpec) -> dict[str, Any]:
    return complete_params(spec.kind, spec.reference, spec.params)


def _choices(value: Any, have: Any) -> list[Any]:
    return [*value, value] if isinstance(value, list) else [value]


def _same(left: Any, right: Any) -> bool:
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def _check(
    exclusion: Exclusion, environments: list[PluginSpec], estimators: list[PluginSpec]
) -> None:
    """Refuse an exclusion that names a plugin or a parameter which does not exist."""
    parts: list[tuple[Kind, Selector | None, list[PluginSpec]]] = [
        ("environment", exclusion.environment, environments),
        ("estimator", exclusion.estimator, estimators),
    ]
    for kind, selector, planned in parts:
        if selector is None:
            continue
        try:
            known = _parameters(kind, selector, planned)
        except PluginError as exc:
            raise _refused(exclusion, str(exc), kind) from exc
        for name in selector.params:
            if name not in known:
                hint = did_you_mean(name, known)
                owner = selector.reference or f"no {kind} of this suite"
                verb = "has no" if selector.reference else "has a"
                msg = f"exclude: {owner} {verb} parameter '{name}'{hint}"
                raise _refused(exclusion, msg, kind, name)


def _parameters(kind: Kind, selector: Selector, planned: list[PluginSpec]) -> list[str]:
    extra = ["worlds"] if kind == "environment" else []
    if selector.reference:
        return [*signature(registry().find(kind, selector.reference).cls), *extra]
    names = {name for spec in planned for name in _all_params(spec)}
    return [*names, *extra]


def _refused(exclusion: Exclusion, message: str, *place: str) -> OpeBenchError:
    if exclusion.document is None:
        return UsageError(message)
    return exclusion.document.error(message, *exclusion.place, *place)
