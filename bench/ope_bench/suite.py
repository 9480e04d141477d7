"""Suite files: what to cross with what, how often, and under which limits.

Here a file is read and its form is checked; `ope_bench.manifest` resolves names and parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le, MinLen

from ope_bench.devices import DEVICES, Device
from ope_bench.errors import OpeBenchError, ParameterError, UsageError, did_you_mean
from ope_bench.parameters import signature, validated
from ope_bench.quantities import parse_duration, parse_size
from ope_bench.selector import Selector, parse_selector
from ope_bench.yaml_loader import Document, load_file

__all__ = ["Entry", "Exclusion", "Suite", "TruthKind", "adhoc", "read_suite"]

TruthKind = Literal["empirical", "expected"]

DEFAULT_TIMEOUT = 600.0


@dataclass(frozen=True)
class Entry:
    """One line of ``environments`` or ``estimators``.

    Parameters
    ----------
    selector : what it names and sets; lists are grids.
    document, place : where it stands; None for one from the command line.
    """

    selector: Selector
    document: Document | None = field(default=None, repr=False, compare=False)
    place: tuple[str | int, ...] = ()

    def error(self, message: str, *parameter: str) -> OpeBenchError:
        """An error that names where the entry stands."""
        if self.document is None:
            return UsageError(message)
        return self.document.error(message, *self.place, *parameter)


@dataclass(frozen=True)
class Exclusion:
    """Cells to leave out: all that match every part that is given."""

    environment: Selector | None = None
    estimator: Selector | None = None
    device: Device | None = None
    document: Document | None = field(default=None, repr=False, compare=False)
    place: tuple[str | int, ...] = ()


@dataclass(frozen=True)
class Suite:
    """What to run.

    Parameters
    ----------
    name : of the suite, as boards and stores know it.
    environments, estimators : crossed with one another.
    title : one line.
    truth : what errors are measured against.
    replicates : data sets an environment setting.
    seed : of everything random.
    devices : estimators are crossed with those of them that they can train on.
    timeout : seconds of fit and estimate together.
    memory : bytes a worker may use, None for no limit.
    timing : replicates that run alone at the end, so that times may be compared; True for all.
    exclude : cells that are left out.
    """

    name: str
    environments: tuple[Entry, ...]
    estimators: tuple[Entry, ...]
    title: str = ""
    truth: TruthKind = "empirical"
    replicates: int = 20
    seed: int = 0
    devices: tuple[Device, ...] = ("cpu",)
    timeout: float = DEFAULT_TIMEOUT
    memory: int | None = None
    timing: bool | int = False
    exclude: tuple[Exclusion, ...] = ()


@dataclass(frozen=True)
class _Keys:
    """The keys of a suite file; `ope_bench.parameters` checks them as it checks a plugin's."""

    environments: Annotated[list[Any], MinLen(1)]
    estimators: Annotated[list[Any], MinLen(1)]
    title: str = ""
    truth: TruthKind = "empirical"
    replicates: Annotated[int, Ge(1), Le(1_000_000)] = 20
    seed: Annotated[int, Ge(0), Le(2**63 - 1)] = 0
    devices: Annotated[list[Device], MinLen(1)] = field(default_factory=lambda: ["cpu"])
    timeout: str | float = DEFAULT_TIMEOUT
    memory: str | float | None = None
    timing: bool | Annotated[int, Ge(0)] = False
    exclude: list[Any] = field(default_factory=list)


def adhoc(environments: Sequence[str], estimators: Sequence[str]) -> Suite:
    """The cross product of what a command line names."""
    return Suite(
        "adhoc",
        tuple(Entry(parse_selector(text)) for text in environments),
        tuple(Entry(parse_selector(text)) for text in estimators),
    )


def read_suite(path: Path, name: str = "") -> Suite:
    """Read a suite file.

    Parameters
    ----------
    path : the file.
    name : of the suite; the file's without suffix by default.

    Raises
    ------
    SuiteError : file, line and what is wrong.
    """
    document = load_file(path)
    given = _checked(document)
    timing = given.get("timing", False)
    settings: dict[str, Any] = {
        key: given[key] for key in ("title", "truth", "replicates", "seed") if key in given
    }
    for key, parse in (("timeout", parse_duration), ("memory", parse_size)):
        if given.get(key) is not None:
            try:
                settings[key] = parse(given[key])
            except UsageError as exc:
                msg = f"{key}: {exc}"
                raise document.error(msg, key) from exc
    return Suite(
        name or path.stem,
        _entries(document, given, "environments"),
        _entries(document, given, "estimators"),
        devices=tuple(dict.fromkeys(given.get("devices", ["cpu"]))),
        timing=timing if isinstance(timing, bool) else (timing or False),
        exclude=tuple(
            _exclusion(document, item, ("exclude", index))
            for index, item in enumerate(given.get("exclude", []))
        ),
        **settings,
    )


def _checked(document: Document) -> dict[str, Any]:
    """The keys that the file gives, checked one by one so that an error knows its line."""
    given = document.value
    known = ["schema", *signature(_Keys)]
    if not isinstance(given, dict):
        what = "is empty" if given is None else "is not a mapping of keys"
        msg = f"the suite {what}; it needs schema, environments and estimators"
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
        msg = f"schema: {given['schema']!r} is unknown to this version; it reads schema: 1"
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
    """``ipw``, ``epws[clip=10]`` or ``epws: {clip: 10, as: EPWS}``."""
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
        # A suite and the file it names travel together.
        home = Path(document.source).resolve().parent / head
        selector = Selector(f"{home}:{tail}", selector.params, selector.label)
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
            if value not in DEVICES:
                msg = f"device: {value!r} is not {', '.join(DEVICES[:-1])} or {DEVICES[-1]}"
                raise document.error(msg, *place, key)
            parts[key] = value
        elif isinstance(value, str):
            parts[key] = _selector(document, value, (*place, key))
        elif isinstance(value, dict) and value:
            parts[key] = Selector("", value)
        else:
            msg = f"{key}: {value!r} is neither a name nor a mapping of parameters"
            raise document.error(msg, *place, key)
    return Exclusion(**parts, document=document, place=place)
