"""Suite files: environments, estimators, replicates and limits of a run.

This module reads a file and checks its form; `ope_bench.suites.manifest` resolves names and
parameters.

Own checks instead of a pydantic model, whose errors name a path in the data, not the line of the
file that the user needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Le, MinLen

from ope_bench.contracts.data import TruthKind
from ope_bench.contracts.parameters.declaration import signature
from ope_bench.contracts.parameters.validation import validated
from ope_bench.errors import OpeBenchError, ParameterError, UsageError, did_you_mean
from ope_bench.suites.selector import Selector, parse_selector
from ope_bench.suites.yaml_document import Document, load_file
from ope_bench.trials.devices import Device
from ope_bench.units import parse_duration, parse_size

__all__ = ["Entry", "Exclusion", "Suite", "adhoc", "read_suite"]

DEFAULT_TIMEOUT = 600.0


@dataclass(frozen=True)
class Entry:
    """One line of ``environments`` or ``estimators``.

    Parameters
    ----------
    selector : plugin and parameters; lists are grids.
    document, place : file and position, for messages; None for an entry of the command line.
    """

    selector: Selector
    document: Document | None = field(default=None, repr=False, compare=False)
    place: tuple[str | int, ...] = ()

    def error(self, message: str, *parameter: str) -> OpeBenchError:
        """Return an error that names file and line of the entry."""
        if self.document is None:
            return UsageError(message)
        return self.document.error(message, *self.place, *parameter)


@dataclass(frozen=True)
class Exclusion:
    """Cells to exclude: those that match every given part."""

    _: KW_ONLY
    environment: Selector | None = None
    estimator: Selector | None = None
    device: Device | None = None
    document: Document | None = field(default=None, repr=False, compare=False)
    place: tuple[str | int, ...] = ()


@dataclass(frozen=True)
class Suite:
    """The content of a suite: what to run, how often, under which limits.

    Parameters
    ----------
    name : name of the suite on boards and in stores.
    environments, estimators : entries, which are crossed.
    title : one line of text.
    truth : the value against which errors are measured.
    replicates : number of data sets of each environment setting.
    seed : from which all random streams derive.
    devices : each estimator runs on those of them that it supports.
    timeout : seconds of fit and estimate together.
    memory : bytes a worker may use, None for no limit.
    timing : number of replicates that run alone at the end, for comparable times; True for all.
    exclude : cells to leave out.
    """

    name: str
    _: KW_ONLY
    environments: tuple[Entry, ...]
    estimators: tuple[Entry, ...]
    title: str = ""
    truth: TruthKind = "expected"
    replicates: int = 20
    seed: int = 0
    devices: tuple[Device, ...] = (Device.CPU,)
    timeout: float = DEFAULT_TIMEOUT
    memory: int | None = None
    timing: bool | int = False
    exclude: tuple[Exclusion, ...] = ()


@dataclass(frozen=True)
class _Keys:
    """The keys of a suite file, validated like the parameters of a plugin."""

    environments: Annotated[list[Any], MinLen(1)]
    estimators: Annotated[list[Any], MinLen(1)]
    title: str = ""
    truth: TruthKind = "expected"
    replicates: Annotated[int, Ge(1), Le(1_000_000)] = 20
    seed: Annotated[int, Ge(0), Le(2**63 - 1)] = 0
    devices: Annotated[list[Device], MinLen(1)] = field(default_factory=lambda: [Device.CPU])
    timeout: str | float = DEFAULT_TIMEOUT
    memory: str | float | None = None
    timing: bool | Annotated[int, Ge(0)] = False
    exclude: list[Any] = field(default_factory=list)


def adhoc(environments: Sequence[str], estimators: Sequence[str]) -> Suite:
    """Return the suite that crosses the plugins named on a command line."""
    return Suite(
        "adhoc",
        environments=tuple(Entry(parse_selector(text)) for text in environments),
        estimators=tuple(Entry(parse_selector(text)) for text in estimators),
    )


def read_suite(path: Path, name: str = "") -> Suite:
    """Read a suite file.

    Parameters
    ----------
    path : the file.
    name : name of the suite; by default the file's without suffix.

    Raises
    ------
    SuiteError : the file is wrong; the message has file and line.
    """
    document = load_file(path)
    keys = _validated_keys(document)
    timing = keys.get("timing", False)
    settings: dict[str, Any] = {
        key: keys[key] for key in ("title", "truth", "replicates", "seed") if key in keys
    }
    for key, parse in (("timeout", parse_duration), ("memory", parse_size)):
        if keys.get(key) is not None:
            try:
                settings[key] = parse(keys[key])
            except UsageError as exc:
                msg = f"{key}: {exc}"
                raise document.error(msg, key) from exc
    return Suite(
        name or path.stem,
        environments=_entries(document, keys, "environments"),
        estimators=_entries(document, keys, "estimators"),
        devices=tuple(dict.fromkeys(keys.get("devices", [Device.CPU]))),
        timing=timing if isinstance(timing, bool) else (timing or False),
        exclude=tuple(
            _exclusion(document, item, ("exclude", index))
            for index, item in enumerate(keys.get("exclude", []))
        ),
        **settings,
    )


def _validated_keys(document: Document) -> dict[str, Any]:
    """Validate the file's keys one at a time, so that an error can name its line."""
    given = document.value
    known = ["schema", *signature(_Keys)]
    if not isinstance(given, dict):
        problem = "is empty" if given is None else "is not a mapping of keys"
        msg = f"the suite {problem}; it needs schema, environments and estimators"
        raise document.error(msg)
    for key in given:
        if key not in known:
            hint = did_you_mean(key, known)
            msg = f"unknown key '{key}'{hint} (known: {', '.join(known)})"
            raise document.error(msg, key)
    for key in ("schema", "environments", "estimators"):
        if key not in given:
            example = "; add 'schema: 1'" if key == "schema" else ""
            msg = f"the key '{key}' is required{example}"
            raise document.error(msg)
    if given["schema"] != 1 or isinstance(given["schema"], bool):
        msg = f"schema: {given['schema']!r} is unknown to this version, which reads schema: 1"
        raise document.error(msg, "schema")
    placeholder = {"environments": [0], "estimators": [0]}
    checked: dict[str, Any] = {}
    for key, value in given.items():
        if key == "schema":
            continue
        if isinstance(value, bool) and key != "timing":
            msg = f"{key}: {value} is not allowed here"
            raise document.error(msg, key)
        try:
            checked[key] = validated(_Keys, placeholder | {key: value}, name="suite")[key]
        except ParameterError as exc:
            reason = str(exc).removeprefix("suite: parameter ")
            raise document.error(reason, key) from exc
    return checked


def _entries(document: Document, given: Mapping[str, Any], key: str) -> tuple[Entry, ...]:
    return tuple(
        Entry(_selector(document, item, (key, index)), document, (key, index))
        for index, item in enumerate(given[key])
    )


def _selector(document: Document, item: object, place: tuple[str | int, ...]) -> Selector:
    """Read an entry: ``ipw``, ``epws[clip=10]`` or ``epws: {clip: 10, as: EPWS}``."""
    selector = Selector("")
    if isinstance(item, str):
        selector = _parsed(document, item, place)
    elif isinstance(item, dict) and len(item) == 1:
        ((name, params),) = item.items()
        if not isinstance(params, dict | None):
            msg = f"the parameters of '{name}' must be a mapping, {name}: {{parameter: value}}"
            raise document.error(msg, *place)
        selector = _parsed(document, name, place)
        label = (params or {}).get("as", selector.label)
        if not isinstance(label, str):
            msg = f"as: {label!r} is not text"
            raise document.error(msg, *place, name, "as")
        given = {key: value for key, value in (params or {}).items() if key != "as"}
        selector = Selector(selector.reference, {**selector.params, **given}, label)
    elif isinstance(item, dict) and len(item) > 1:
        name = next(iter(item))
        msg = f"{len(item)} keys in one entry; indent the parameters under '{name}:'"
        raise document.error(msg, *place)
    else:
        msg = f"{item!r} is not an entry; write name or name: {{parameter: value}}"
        raise document.error(msg, *place)
    head, _, tail = selector.reference.rpartition(":")
    if head.endswith(".py"):
        # Paths are relative to the suite's folder.
        file = Path(document.source).resolve().parent / head
        selector = Selector(f"{file}:{tail}", selector.params, selector.label)
    return selector


def _parsed(document: Document, text: str, place: tuple[str | int, ...]) -> Selector:
    try:
        return parse_selector(text)
    except UsageError as exc:
        raise document.error(str(exc), *place) from exc


def _exclusion(document: Document, item: object, place: tuple[str | int, ...]) -> Exclusion:
    known = ["environment", "estimator", "device"]
    if not isinstance(item, dict) or not item:
        msg = f"{item!r} is not an exclusion; write {{environment: ..., estimator: ...}}"
        raise document.error(msg, *place)
    parts: dict[str, Any] = {}
    for key, value in item.items():
        if key not in known:
            hint = did_you_mean(key, known)
            msg = f"unknown key '{key}'{hint} (known: {', '.join(known)})"
            raise document.error(msg, *place, key)
        if key == "device":
            *others, last = Device
            if value not in (*others, last):
                msg = f"device: {value!r} is not {', '.join(others)} or {last}"
                raise document.error(msg, *place, key)
            parts[key] = Device(value)
        elif isinstance(value, str):
            parts[key] = _selector(document, value, (*place, key))
        elif isinstance(value, dict) and value:
            parts[key] = Selector("", value)
        else:
            msg = f"{key}: {value!r} is neither a name nor a mapping of parameters"
            raise document.error(msg, *place, key)
    return Exclusion(**parts, document=document, place=place)
