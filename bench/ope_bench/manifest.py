"""Suite -> trials: the only place where environments are crossed with estimators."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ope_bench.devices import BLOCK, Device, is_batched
from ope_bench.errors import OpeBenchError, ParameterError, PluginError, UsageError, did_you_mean
from ope_bench.parameters import signature
from ope_bench.records import PluginSpec, Trial
from ope_bench.registry import Kind, registry
from ope_bench.resolve import resolve
from ope_bench.selector import Selector, parse_selector
from ope_bench.shard import Shard
from ope_bench.suite import Entry, Exclusion, Suite
from ope_bench.trial import build, devices_of

__all__ = ["MAX_TRIALS", "Cell", "Manifest", "plan", "selects", "settings"]

MAX_TRIALS = 2_000_000


@dataclass(frozen=True)
class Cell:
    """One estimator on one environment setting and device, over all replicates."""

    environment: PluginSpec
    estimator: PluginSpec
    device: Device


@dataclass(frozen=True)
class Manifest:
    """What a suite asks for.

    Parameters
    ----------
    suite : whose it is.
    cells : environment settings crossed with estimators and devices, exclusions left out.
    threads : a trial.
    without_device : estimators that run on none of the suite's devices, and where they do run.
    shard : the part that runs here, None for all of it.
    """

    suite: Suite
    cells: tuple[Cell, ...]
    threads: int = 1
    without_device: tuple[tuple[PluginSpec, tuple[str, ...]], ...] = ()
    shard: Shard | None = None

    def plugins(self) -> list[PluginSpec]:
        """The settings of environments and estimators, each once."""
        specs = [spec for cell in self.cells for spec in (cell.environment, cell.estimator)]
        return list({id(spec): spec for spec in specs}.values())

    @cached_property
    def trials(self) -> tuple[Trial, ...]:
        """All trials; those on the same data stand together, so that a worker samples it once.

        Batched ones come after the others of their environment, block by block.
        """
        shard = self.shard
        return tuple(trial for trial in self._trials() if shard is None or shard.holds(trial))

    def _trials(self) -> Iterator[Trial]:
        suite = self.suite
        for _, group in itertools.groupby(self.cells, key=lambda cell: cell.environment):
            cells = list(group)
            single = [cell for cell in cells if not is_batched(cell.device)]
            for replicate in range(suite.replicates):
                yield from self._on(replicate, single)
            for device in BLOCK:
                together = [cell for cell in cells if cell.device == device]
                for replicate in range(suite.replicates):
                    yield from self._on(replicate, together)

    def _on(self, replicate: int, cells: Iterable[Cell]) -> Iterator[Trial]:
        for cell in cells:
            yield Trial(
                cell.environment,
                cell.estimator,
                replicate,
                self.suite.seed,
                cell.device,
                self.threads,
            )

    @property
    def exclusive_replicates(self) -> int:
        """Replicates ``0 ... k-1`` run alone at the end, so that their times may be compared."""
        timing = self.suite.timing
        if isinstance(timing, bool):
            return self.suite.replicates if timing else 0
        return min(timing, self.suite.replicates)

    def exclusive(self, trial: Trial) -> bool:
        """Whether the trial is to run alone."""
        return trial.replicate < self.exclusive_replicates


def plan(suite: Suite, *, threads: int = 1) -> Manifest:
    """Resolve every name and parameter, expand the grids and cross.

    Raises
    ------
    UsageError : an id or a parameter is unknown or wrong, a grid is empty, an entry is there
        twice under two labels, or there are too many trials.
    """
    environments = _expand("environment", suite.environments)
    estimators = _expand("estimator", suite.estimators)
    for exclusion in suite.exclude:
        _check(exclusion, environments, estimators)
    devices = {id(spec): _devices(spec) for spec in estimators}
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
    return Manifest(suite, cells, threads, without_device)


def settings(kind: Kind, selector: str) -> list[PluginSpec]:
    """What one selector on a line of its own asks for: a list is a grid.

    >>> both = settings("environment", "saito-toy[n_actions=[2,3]]")
    >>> [spec.params["n_actions"] for spec in both]
    [2, 3]
    """
    return _expand(kind, [Entry(parse_selector(selector))])


def _expand(kind: Kind, entries: Iterable[Entry]) -> list[PluginSpec]:
    """The settings that entries ask for, each once."""
    found: dict[str, PluginSpec] = {}
    names: dict[str, PluginSpec] = {}
    for entry in entries:
        for spec in _settings(kind, entry):
            namesake = names.setdefault(spec.id, spec)
            if namesake.reference != spec.reference:
                owners = f"{namesake.reference} ({namesake.origin}) and {spec.reference}"
                msg = f"two {kind}s named '{spec.id}': {owners}; keep one of them"
                raise entry.error(msg)
            known = found.setdefault(repr(spec.identity), spec)
            if known.label != spec.label:
                labels = " and ".join(f"'{one.label or one.id}'" for one in (known, spec))
                msg = f"the same {kind} is there twice, as {labels}"
                raise entry.error(msg)
            labelled = names.setdefault(f"={spec.label}", spec)
            if spec.label and labelled.identity != spec.identity:
                msg = f"two {kind}s are called '{spec.label}'; give them different labels"
                raise entry.error(msg)
    return list(found.values())


def _settings(kind: Kind, entry: Entry) -> Iterator[PluginSpec]:
    params = entry.selector.params
    varied = [name for name, value in params.items() if isinstance(value, list)]
    for name in varied:
        if not params[name]:
            msg = f"{entry.selector.reference}: the grid of '{name}' is empty"
            raise entry.error(msg, entry.selector.reference, name)
    for values in itertools.product(*(params[name] for name in varied)):
        point = dict(zip(varied, values, strict=True))
        spec = _resolved(kind, entry, {**params, **point})
        # A label that several settings share would hide which is which.
        told = ", ".join(f"{n}={v}" for n, v in point.items() if len(params[n]) > 1)
        if told and entry.selector.label:
            spec = replace(spec, label=f"{spec.label} [{told}]")
        yield spec


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
    """Where a list was meant as one value: how to write that."""
    for name, value in selector.params.items():
        if isinstance(value, list):
            try:
                resolve(kind, selector.reference, {**params, name: value})
            except UsageError:
                continue
            return f"; a list is a grid: for one list-valued {name} write [{value}]"
    return ""


def _devices(spec: PluginSpec) -> tuple[str, ...]:
    try:
        return devices_of(build(spec))
    except OpeBenchError:
        raise
    except Exception as exc:
        reason = f"{type(exc).__name__}: {exc}"
        msg = f"estimator '{spec.id}' ({spec.origin}) fails when built: {reason}"
        raise PluginError(msg) from exc


def _excluded(exclusions: Iterable[Exclusion], cell: Cell) -> bool:
    return any(
        (one.environment is None or selects(one.environment, cell.environment))
        and (one.estimator is None or selects(one.estimator, cell.estimator))
        and one.device in (None, cell.device)
        for one in exclusions
    )


def selects(selector: Selector, spec: PluginSpec) -> bool:
    """Whether a setting is among those that a selector names; a list means any of its values.

    An empty reference names every plugin.
    """
    reference = selector.reference
    if reference.rpartition(":")[0].endswith(".py"):
        reference = str(Path(reference).resolve())
    if reference not in ("", spec.id, spec.reference):
        return False
    have = {**spec.params, **({"worlds": spec.worlds} if spec.kind == "environment" else {})}
    return all(
        name in have and any(_same(have[name], wanted) for wanted in _choices(value, have[name]))
        for name, value in selector.params.items()
    )


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
    return [*{name for spec in planned for name in spec.params}, *extra]


def _refused(exclusion: Exclusion, message: str, *place: str) -> OpeBenchError:
    if exclusion.document is None:
        return UsageError(message)
    return exclusion.document.error(message, *exclusion.place, *place)
