"""Suites: what to run, read from a file or named on the command line.

This module reads a file and checks its form; `ope_bench.suites.manifest` resolves names and
parameters.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import inspect
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Le, MaxLen, MinLen

from ope_bench.base.canonical import canonical_json
from ope_bench.base.errors import USER_EXITS, OpeBenchError, SuiteError, UsageError, did_you_mean
from ope_bench.base.units import parse_duration, parse_size
from ope_bench.contracts.data import TruthKind
from ope_bench.contracts.parameters import signature
from ope_bench.plugins.registry import BUILT_IN, Kind, entry_points, registry
from ope_bench.plugins.spec import PluginSpec
from ope_bench.suites.yaml_document import Document, Place, load_file, load_flow
from ope_bench.trials.status import Device

# Selectors of plugins: ``name``, ``name[a=1,grid=[2,3]]``, ``my.py:Class[...]``.

_SHAPE = re.compile(r"(?P<reference>[^\[\]]+?)\s*(?:\[(?P<body>.*)\])?", re.DOTALL)
_NAME = re.compile(r"[^\W\d]\w*")
_CLOSING = {"]": "[", "}": "{"}
_BARE = re.compile(r"[A-Za-z_/][\w./+-]*", re.ASCII)
_RUN = re.compile(r"(\d{1,6})\.\.(\d{1,6})", re.ASCII)
_RESERVED = re.compile(r"null|true|false", re.IGNORECASE)


@dataclass(frozen=True)
class Selector:
    """A plugin's reference with the parameters that a user sets.

    Parameters
    ----------
    reference : an id, ``distribution:id`` or ``path.py:Class``.
    params : values by name; a list is a grid, in which ``a..b`` is the integers from a to b.
    label : value of ``as=``, empty by default.
    """

    reference: str
    params: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""

    def __post_init__(self) -> None:
        params = {
            name: list(itertools.chain.from_iterable(map(_run_of_integers, value)))
            if isinstance(value, list)
            else value
            for name, value in self.params.items()
        }
        object.__setattr__(self, "params", params)


def _run_of_integers(item: Any) -> Iterable[Any]:
    """Return the integers from a to b for ``a..b`` in a list; else the item alone."""
    ends = _RUN.fullmatch(item) if isinstance(item, str) else None
    return [item] if ends is None else range(int(ends[1]), int(ends[2]) + 1)


def parse_selector(text: str) -> Selector:
    """Read a selector; values are YAML in flow style.

    Raises
    ------
    UsageError : the text is no selector.

    >>> parse_selector("epws[classifier=[gbm,xgboost],clip=1e3]").params
    {'classifier': ['gbm', 'xgboost'], 'clip': 1000.0}
    >>> parse_selector("population[world=[1..3,9]]").params
    {'world': [1, 2, 3, 9]}
    """
    match = _SHAPE.fullmatch(text.strip())
    if match is None:
        msg = f"cannot read {text!r}; write name or name[parameter=value,grid=[a,b]]"
        raise UsageError(msg)
    params: dict[str, Any] = {}
    for part in _parts(match["body"] or "", text):
        name, equals, value = part.partition("=")
        name = name.strip()
        if not (equals and value.strip() and _NAME.fullmatch(name)):
            msg = f"in {text!r}: {part.strip()!r} is not parameter=value"
            raise UsageError(msg)
        if name in params:
            msg = f"in {text!r}: parameter '{name}' is set twice"
            raise UsageError(msg)
        params[name] = load_flow(value.strip(), f"in {text!r}")
    label = params.pop("as", "")
    if not isinstance(label, str):
        msg = f"in {text!r}: as={label!r} is not text"
        raise UsageError(msg)
    return Selector(match["reference"], params, label)


def format_selector(reference: str, params: Mapping[str, Any]) -> str:
    """Format the selector of exactly one setting; `parse_selector` is its inverse.

    >>> format_selector("epw", {"classifier": "gbm", "hidden": [64, 64], "clip": None})
    'epw[classifier=gbm,hidden=[[64,64]],clip=null]'
    """
    parts = []
    for name, value in params.items():
        text = _flow(value)
        parts.append(f"{name}=[{text}]" if isinstance(value, list | tuple) else f"{name}={text}")
    return f"{reference}[{','.join(parts)}]" if parts else reference


def _flow(value: Any) -> str:
    """Format a value as YAML in flow style; strings without quotes where they stay strings."""
    if isinstance(value, str) and _BARE.fullmatch(value) and not _RESERVED.fullmatch(value):
        return value
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json.dumps(k)}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_flow, value)) + "]"
    return json.dumps(value)


def _parts(body: str, text: str) -> Iterator[str]:
    """Split at commas outside brackets and quotes."""
    if not body.strip():
        return
    depth: list[str] = []
    quote, escaped = "", False
    start = 0
    for position, letter in enumerate(body):
        if escaped:
            escaped = False
        elif quote:
            # Backslash escapes work in double quotes only; two single quotes close and reopen.
            escaped = quote == '"' and letter == "\\"
            quote = "" if letter == quote else quote
        elif letter in "\"'" and body[:position].rstrip()[-1:] in ("", *"=,[{:'"):
            quote = letter
        elif letter in "[{":
            depth.append(letter)
        elif letter in "]}":
            if not depth or depth.pop() != _CLOSING[letter]:
                msg = f"in {text!r}: brackets do not match"
                raise UsageError(msg)
        elif letter == "," and not depth:
            yield body[start:position]
            start = position + 1
    if quote or depth:
        msg = f"in {text!r}: {'a quote' if quote else 'a bracket'} is not closed"
        raise UsageError(msg)
    yield body[start:]


def selector_of(spec: PluginSpec, cls: type | None = None) -> str:
    """Return the shortest selector of a setting: its id with non-default parameters.

    Parameters
    ----------
    spec : the setting.
    cls : the plugin's class; by default that of its reference.
    """
    differing = differing_params(spec, cls or registry().find(spec.kind, spec.reference).cls)
    if spec.worlds != "redrawn":
        differing["worlds"] = spec.worlds
    in_file = spec.reference.rpartition(":")[0].endswith(".py")
    namesakes = [one for one in registry().plugins(spec.kind) if one.id == spec.id]
    # An id of several distributions means the built-in plugin.
    unclear = len(namesakes) > 1 and not spec.reference.startswith(BUILT_IN)
    named = spec.reference if in_file or unclear else spec.id
    return format_selector(named, differing)


def differing_params(spec: PluginSpec, cls: type) -> dict[str, Any]:
    """Return the parameters of a spec that differ from the defaults of its class."""
    parameters = signature(cls)
    differing = {}
    for name, value in spec.params.items():
        if name in parameters and parameters[name].default is not inspect.Parameter.empty:
            default = parameters[name].default
            # Equal as JSON: a tuple as default is stored as a list.
            with contextlib.suppress(TypeError, ValueError):
                if canonical_json(value) == canonical_json(default) or value == default:
                    continue
        differing[name] = value
    return differing


# Suites: their entries and exclusions, and the place of each in its file.


@dataclass(frozen=True, kw_only=True)
class _Placed:
    """A part of a suite with its file and position, for messages.

    ``document`` is None for what the command line names.
    """

    document: Document | None = field(default=None, repr=False, compare=False)
    place: Place = ()

    def error(self, message: str, *parameter: str) -> OpeBenchError:
        """Return an error that names file and line."""
        if self.document is None:
            return UsageError(message)
        return self.document.error(message, *self.place, *parameter)


@dataclass(frozen=True)
class Entry(_Placed):
    """One line of ``environments`` or ``estimators``: plugin and parameters; lists are grids.

    Parameters
    ----------
    typed : whether a user named the plugin, and not this package.
    """

    selector: Selector
    _: KW_ONLY
    typed: bool = field(default=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class Exclusion(_Placed):
    """Cells to exclude: those that match every given part."""

    environment: Selector | None = None
    estimator: Selector | None = None
    device: Device | None = None


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
    salt : text that makes every random stream another; empty for none.
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
    salt: str = ""
    devices: tuple[Device, ...] = (Device.CPU,)
    timeout: float = 600.0
    memory: int | None = None
    timing: bool | int = False
    exclude: tuple[Exclusion, ...] = ()


def adhoc(environments: Sequence[str], estimators: Sequence[str]) -> Suite:
    """Return the suite that crosses the plugins named on a command line."""
    return Suite(
        "adhoc",
        environments=tuple(Entry(parse_selector(text), typed=True) for text in environments),
        estimators=tuple(Entry(parse_selector(text), typed=True) for text in estimators),
    )


# Suite files.

_Part = Literal["environment", "estimator", "device"]
_Excluded = dict[_Part, str | Annotated[dict[str, Any], MinLen(1)]]


@dataclass(frozen=True)
class _Keys:
    """The keys of a suite file, with the types that pydantic checks."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "allow_inf_nan": False}

    schema: Literal[1]
    environments: Annotated[list[Any], MinLen(1)]
    estimators: Annotated[list[Any], MinLen(1)]
    title: str = Suite.title
    truth: TruthKind = Suite.truth
    replicates: Annotated[int, Ge(1), Le(1_000_000)] = Suite.replicates
    seed: Annotated[int, Ge(0), Le(2**63 - 1)] = Suite.seed
    salt: Annotated[str, MinLen(1), MaxLen(200)] | None = None
    devices: Annotated[tuple[Device, ...], MinLen(1)] = Suite.devices
    timeout: Any = Suite.timeout
    memory: Any = Suite.memory
    timing: bool | Annotated[int, Ge(0)] = Suite.timing
    exclude: list[Annotated[_Excluded, MinLen(1)]] = field(default_factory=list)


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
    keys = document.validate(_Keys, strict=False)
    home = next((one for one in suite_files() if one.path.resolve() == path.resolve()), None)
    for key, value in document.value.items():
        # pydantic takes true for 1.
        if isinstance(value, bool) and key != "timing":
            msg = f"{key}: {value} is not allowed here"
            raise document.error(msg, key)
    plain = ("title", "truth", "replicates", "seed")
    values: dict[str, Any] = {name: getattr(keys, name) for name in plain}
    for key, parse in (("timeout", parse_duration), ("memory", parse_size)):
        value = getattr(keys, key)
        try:
            values[key] = value if value is None else parse(value)
        except UsageError as exc:
            msg = f"{key}: {exc}"
            raise document.error(msg, key) from exc

    def entries(kind: Kind) -> tuple[Entry, ...]:
        part = f"{kind}s"
        return tuple(
            Entry(
                _of_home(_read_entry(document, item, (part, k)), kind, home),
                document=document,
                place=(part, k),
                typed=home is None,
            )
            for k, item in enumerate(getattr(keys, part))
        )

    return Suite(
        name or path.stem,
        environments=entries("environment"),
        estimators=entries("estimator"),
        devices=tuple(dict.fromkeys(keys.devices)),
        salt=keys.salt or "",
        timing=keys.timing or False,
        exclude=tuple(
            _read_exclusion(document, item, ("exclude", k)) for k, item in enumerate(keys.exclude)
        ),
        **values,
    )


def _of_home(selector: Selector, kind: Kind, home: SuiteFile | None) -> Selector:
    """Return a selector of an installed suite; its distribution's own plugins come first."""
    dist = home.reference.rpartition(":")[0] if home else ""
    own = f"{dist}:{selector.reference}"
    known = dist and f"{dist}:" != BUILT_IN and registry().plugins(kind)
    found = any(one.reference == own for one in known or ())
    return replace(selector, reference=own) if found else selector


def _read_entry(document: Document, item: object, place: Place) -> Selector:
    """Read an entry: ``ipw``, ``epws[clip=10]`` or ``epws: {clip: 10, as: EPWS}``."""
    params: object = None
    if isinstance(item, dict) and len(item) == 1:
        ((name, params),) = item.items()
    elif isinstance(item, dict) and item:
        msg = f"{len(item)} keys in one entry; indent the parameters under '{next(iter(item))}:'"
        raise document.error(msg, *place)
    else:
        name = item
    if not isinstance(name, str):
        msg = f"{item!r} is not an entry; write name or name: {{parameter: value}}"
        raise document.error(msg, *place)
    if not isinstance(params, dict | None):
        msg = f"the parameters of '{name}' must be a mapping, {name}: {{parameter: value}}"
        raise document.error(msg, *place)
    try:
        selector = parse_selector(name)
    except UsageError as exc:
        raise document.error(str(exc), *place) from exc
    values = {**selector.params, **(params or {})}
    label = values.pop("as", selector.label)
    if not isinstance(label, str):
        msg = f"as: {label!r} is not text"
        raise document.error(msg, *place, name, "as")
    reference = selector.reference
    head, _, tail = reference.rpartition(":")
    if head.endswith(".py"):
        # Paths are relative to the suite's folder.
        reference = f"{Path(document.source).resolve().parent / head}:{tail}"
    return Selector(reference, values, label)


def _read_exclusion(document: Document, item: _Excluded, place: Place) -> Exclusion:
    parts: dict[str, Any] = {}
    for key, value in item.items():
        if key == "device":
            if value not in list(Device):
                msg = f"device: {value!r} is not one of {', '.join(Device)}"
                raise document.error(msg, *place, key)
            parts[key] = Device(str(value))
        elif isinstance(value, str):
            parts[key] = _read_entry(document, value, (*place, key))
        else:
            parts[key] = Selector("", value)
    return Exclusion(**parts, document=document, place=place)


def overrides(suite: Suite, changes: Iterable[str]) -> Suite:
    """Return a suite in which parameters have other values, under a name that says so.

    A change applies to every entry of its environment or estimator; grids of other parameters
    stay as they are.

    Parameters
    ----------
    suite : the suite.
    changes : ``ID.PARAMETER=VALUE``, values in YAML's flow style; a list is a grid.

    Raises
    ------
    UsageError : a change cannot be read, or the suite does not have its environment or estimator.
    """
    texts = list(changes)
    parts = {"environments": suite.environments, "estimators": suite.estimators}
    known = {entry.selector.reference for part in parts.values() for entry in part}
    for text in texts:
        target, equals, value = text.partition("=")
        reference, dot, parameter = target.strip().rpartition(".")
        if not (equals and dot and reference and parameter.isidentifier() and value.strip()):
            msg = f"--set {text}: write ID.PARAMETER=VALUE, for example saito-toy.beta=-3"
            raise UsageError(msg)
        given = load_flow(value.strip(), f"in --set {text}")
        if reference not in known:
            hint = did_you_mean(reference, known) or f" (it has {', '.join(sorted(known))})"
            msg = f"--set {text}: suite '{suite.name}' has no '{reference}'{hint}"
            raise UsageError(msg)
        for part, entries in parts.items():
            parts[part] = tuple(
                replace(
                    entry, selector=replace(chosen, params={**chosen.params, parameter: given})
                )
                if (chosen := entry.selector).reference == reference
                else entry
                for entry in entries
            )
    name = f"{suite.name}[{','.join(texts)}]" if texts else suite.name
    environments, estimators = parts["environments"], parts["estimators"]
    return replace(suite, name=name, environments=environments, estimators=estimators)


# Find suites: every `*.yaml` in the folder of a module that an entry point names, and files.

GROUP = "ope_bench.suites"

_TITLE = re.compile(r"^title:[ \t]*(.*?)[ \t]*$", re.MULTILINE)


@dataclass(frozen=True)
class SuiteFile:
    """A suite file with its name.

    Parameters
    ----------
    id : the file's name without suffix.
    reference : ``distribution:id``.
    origin : distribution and version.
    path : the file.
    """

    id: str
    reference: str
    origin: str
    path: Path

    @property
    def title(self) -> str:
        """The title, read without parsing the whole file."""
        try:
            match = _TITLE.search(self.path.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            return ""
        return match[1].strip("\"'") if match else ""


@dataclass(frozen=True)
class BrokenSuites:
    """An entry point of suites that cannot be loaded."""

    id: str
    origin: str
    reason: str


@cache
def _scan() -> tuple[tuple[SuiteFile, ...], tuple[BrokenSuites, ...]]:
    return scan(entry_points(GROUP))


def scan(
    points: Iterable[importlib.metadata.EntryPoint],
) -> tuple[tuple[SuiteFile, ...], tuple[BrokenSuites, ...]]:
    """Return the suites of entry points, ordered by id, and the broken entry points."""
    found: dict[tuple[str, Path], SuiteFile] = {}
    broken = []
    for point in points:
        dist = point.dist.name if point.dist else "unknown"
        origin = f"{dist} {point.dist.version if point.dist else '0'}"
        try:
            spec = importlib.util.find_spec(point.module)
            if spec is None:
                msg = f"no module {point.module}"
                raise ModuleNotFoundError(msg)
        # Finding a submodule imports its parents, which may raise any exception.
        except BaseException as exc:
            if isinstance(exc, USER_EXITS):
                raise
            broken.append(BrokenSuites(point.name, origin, f"{type(exc).__name__}: {exc}"))
            continue
        # The folder of a package, else that of the module.
        places = spec.submodule_search_locations or [str(Path(spec.origin or "").parent)]
        for path in sorted(Path(next(iter(places))).glob("*.yaml")):
            suite = SuiteFile(path.stem, f"{dist}:{path.stem}", origin, path)
            found[dist, path.resolve()] = suite
    ordered = sorted(found.values(), key=lambda suite: (suite.id, suite.origin))
    return tuple(ordered), tuple(broken)


def suite_files() -> tuple[SuiteFile, ...]:
    """Return the installed suites, ordered by id."""
    return _scan()[0]


def broken_suites() -> tuple[BrokenSuites, ...]:
    """Return the entry points of suites that cannot be read."""
    return _scan()[1]


def find_suite(name: str, *, typed: bool = True) -> Suite:
    """Find a suite by an id, ``distribution:id`` or a path.

    Parameters
    ----------
    name : of the suite.
    typed : whether a user typed it, so that an id of several distributions is ambiguous.

    Raises
    ------
    SuiteError : no suite or more than one has that name, or the file is wrong.
    """
    return read_suite(*_find(name, typed=typed))


def suite_path(name: str) -> Path:
    """Return the file of the suite that a user names.

    Raises
    ------
    SuiteError : no suite or more than one has that name, or the file cannot be read.
    """
    path, _ = _find(name)
    load_file(path)
    return path


def _find(name: str, *, typed: bool = True) -> tuple[Path, str]:
    """Return the file that a name means, and the suite's id if it is an installed one."""
    named = [suite for suite in suite_files() if name in (suite.id, suite.reference)]
    if not typed:
        named = [one for one in named if one.reference.startswith(BUILT_IN)] or named
    if len(named) > 1:
        owners = " and ".join(f"{suite.reference} ({suite.origin})" for suite in named)
        msg = f"suite '{name}' is ambiguous: {owners}; write one of these references"
        raise SuiteError(msg)
    if named:
        return named[0].path, named[0].id
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or len(path.parts) > 1 or path.is_file():
        return path, ""
    hint = did_you_mean(name, [suite.id for suite in suite_files()])
    hint = hint or "; `ope-bench list suites` lists all; a file name needs its .yaml"
    msg = f"unknown suite '{name}'{hint}"
    raise SuiteError(msg)
