"""Specification of a plugin: its id with all its parameters, and how it is written."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import itertools
import json
import os
import re
import site
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cache, cached_property
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path
from typing import Any, cast

from ope_bench.base.canonical import canonical_json, sha256
from ope_bench.base.errors import ParameterError, PluginError
from ope_bench.contracts.parameters import (
    LearnerName,
    added_defaults,
    hints_of,
    learner_source,
    validated,
    without_added_defaults,
)
from ope_bench.contracts.plugins import Environment, Estimator
from ope_bench.contracts.random import ProblemSampling
from ope_bench.plugins.registry import FILE_MODULE, Kind, Plugin, class_id, registry

_BUILT_IN = ("ope_estimators", "ope_environments")
_OURS = ("ope_bench", *_BUILT_IN)
_FILE_NAME = re.compile(r"[\w. /+-]+\.\w{1,20}")
_FOLDER_NAME = re.compile(r"\w[\w-]*(/\w[\w-]*)*")
_IMPORTERS = ("import_module", "__import__")
_COMPUTING = (
    "ope_bench.contracts",
    "ope_bench.logs.policy_code",
    "ope_bench.logs.loading",
    "ope_bench.logs.log_data",
    "ope_bench.logs.log_file",
    "ope_bench.logs.policies",
    "ope_bench.logs.source",
    "ope_bench.logs.targets",
    "ope_bench.reader",
    "ope_bench.statistics.linear_scores",
    "ope_bench.statistics.unit_errors",
    "ope_bench.statistics.value_intervals",
    "ope_bench.suites.nested",
    "ope_bench.trials",
)
"""Packages, with all that lies in them, and modules of the harness that compute numbers."""

LONGEST = 200
"""Characters of a text that may name a file."""

LARGE = 1 << 26
"""Bytes beyond which a data file is identified by size and modification time, not by content."""


def result_digest(*plugins: Environment | Estimator) -> str:
    """Return the `code_digest` of their classes, of nested plugins, and of data files."""
    code, *marks = _marks(*plugins)
    return hashlib.sha256("\n".join([code, *marks]).encode()).hexdigest()[:16] if marks else code


def digests_of(plugin: Environment | Estimator) -> tuple[str, str]:
    """Return the digests of the code and of the data files of one object."""
    code, *marks = _marks(plugin)
    return code, hashlib.sha256("\n".join(marks).encode()).hexdigest()[:16]


def _marks(*plugins: Environment | Estimator) -> list[str]:
    """Return the digest of the code of all, and a mark of each of their data files."""
    estimators = [x for one in plugins if isinstance(one, Estimator) for x in _with_nested(one)]
    environments = [
        x for one in plugins if isinstance(one, Environment) for x in _with_wrapped(one)
    ]
    learners = [learner for one in estimators for learner in _learners(one)]
    modules = [type(one).__module__ for one in (*environments, *estimators)]
    modules += [module for module, _ in learners if module.partition(".")[0] != "sklearn"]
    names = tuple(filter(None, modules))
    declared = [getattr(one, "data_files", ()) for one in (*environments, *estimators)]
    found = [file for _, file in learners if file]
    # Of code that is not loaded here, what its own process says.
    foreign = [getattr(one, "foreign_code", "") for one in estimators]
    marks = [_combined(names), *filter(None, foreign)]
    for path in (*itertools.chain(*declared), *found, *_files_named_in(names)):
        root = Path(path)
        files = sorted(root.rglob("*")) if root.is_dir() else [root]
        # A missing file has a mark too: an empty one.
        facts = [(file, file.stat()) for file in files if file.is_file()]
        each = [f"{file.name} {_mark(file, now.st_size, now.st_mtime_ns)}" for file, now in facts]
        marks.append("\n".join(each))
    return marks


def _with_nested(estimator: Estimator) -> Iterator[Estimator]:
    """Yield an estimator and those that it runs."""
    yield estimator
    for nested in estimator.nested:
        yield from _with_nested(nested)


def _with_wrapped(environment: Environment | None) -> Iterator[Environment]:
    """Yield an environment and those that it wraps."""
    while environment is not None:
        yield environment
        environment = environment.wrapped


def _learners(estimator: Estimator) -> Iterator[tuple[str, str]]:
    """Yield module and file of each learner that a parameter names by its path."""
    for name, kind in _learner_names(type(estimator)):
        if (value := getattr(estimator, name)) not in kind.known:
            yield learner_source(value)


@cache
def _learner_names(cls: type) -> list[tuple[str, LearnerName]]:
    """Return the parameters of a class that name learners; every trial asks."""
    return [
        (name, kind)
        for name, hint in hints_of(cls).items()
        for kind in getattr(hint, "__metadata__", ())
        if isinstance(kind, LearnerName)
    ]


@cache
def _mark(file: Path, size: int, changed: int) -> str:
    if size > LARGE:
        return f"{size} {changed}"
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def code_digest(*classes: type) -> str:
    """Hash the sources behind ``classes`` and the harness's packages that compute numbers.

    Returns
    -------
    Sixteen hexadecimal digits.
    """
    return _combined(tuple(cls.__module__ for cls in classes))


def source_files(cls: type) -> set[str]:
    """Return the files of a plugin's class: its module and the first-party modules it imports."""
    return {str(_path(module)) for module in _closure(cls.__module__)}


@cache
def _combined(modules: tuple[str, ...]) -> str:
    names = _harness().union(*map(_closure, modules))
    sources = sorted(filter(None, map(_source_hash, names)))
    return hashlib.sha256("\n".join(sources).encode()).hexdigest()[:16]


@cache
def _harness() -> frozenset[str]:
    """Return the modules of the harness that compute numbers."""
    modules = set()
    for name in _COMPUTING:
        path = _path(name)
        if path is not None and path.name == "__init__.py":
            files = (file.relative_to(path.parent) for file in path.parent.rglob("*.py"))
            modules |= {".".join([name, *file.with_suffix("").parts]) for file in files}
        else:
            modules.add(name)
    return frozenset(modules)


@cache
def _closure(module: str) -> frozenset[str]:
    """Return the module and its first-party imports, transitively."""
    top = module.partition(".")[0]
    visited: set[str] = set()
    waiting = {module}
    while waiting:
        name = waiting.pop()
        visited.add(name)
        waiting |= {*_imports(name, top)} - visited
        # Python runs the packages that hold a module, too.
        parent = name.rpartition(".")[0]
        if parent and name.partition(".")[0] not in _OURS:
            waiting |= {parent} - visited
    return frozenset(visited)


@cache
def _files_named_in(modules: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the files whose names stand as texts in first-party modules.

    They lie in a folder of the package, or in one that such a text names there.
    """
    found: set[Path] = set()
    for name in frozenset().union(*map(_closure, modules)):
        path = _path(name) if name.partition(".")[0] not in _OURS else None
        if path is None:
            continue
        nodes = (node for node in ast.walk(_tree(path)) if isinstance(node, ast.Constant))
        texts = {one.value for one in nodes if isinstance(one.value, str)}
        texts = {text for text in texts if len(text) <= LONGEST}
        depth = name.count(".") + (path.stem == "__init__")
        folders = [*path.parents[: max(1, depth)]]
        named = [text for text in texts if _FOLDER_NAME.fullmatch(text)]
        for folder in folders:
            inner = [folder / text for text in named if (folder / text).is_dir()]
            folders += [one for one in inner if one not in folders]
        files = [text for text in texts if _FILE_NAME.fullmatch(text) and text[-3:] != ".py"]
        found |= {one for folder in folders for text in files if (one := folder / text).is_file()}
    return tuple(sorted(found))


@cache
def _tree(path: Path) -> ast.Module:
    """Return the syntax tree of a source; an empty one of what cannot be read as such."""
    try:
        return ast.parse(path.read_bytes() if path.suffix == ".py" else b"")
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])


@cache
def _path(module: str) -> Path | None:
    loaded = sys.modules.get(module)
    origin = getattr(loaded, "__file__", None)
    if origin is None and module.startswith("ope_bench."):
        # `find_spec` would import the packages that hold it.
        place = Path(__file__).parents[1].joinpath(*module.split(".")[1:])
        found = (place.with_suffix(".py"), place / "__init__.py")
        return next((one for one in found if one.is_file()), None)
    if origin is None:
        parent = _path(module.rpartition(".")[0]) if "." in module else None
        if parent is not None and parent.name != "__init__.py":
            # An attribute of a module; `find_spec` would import that module.
            return None
        spec = _found(module)
        origin = spec.origin if spec else None
    return Path(origin) if origin and origin.endswith((".py", *EXTENSION_SUFFIXES)) else None


def _found(module: str) -> ModuleSpec | None:
    """Return where Python finds a module; parents that raise have none."""
    try:
        return importlib.util.find_spec(module)
    except Exception:
        return None


@cache
def _imports(module: str, plugin: str) -> tuple[str, ...]:
    """Return the first-party modules that a module imports, for the plugin of a package."""
    path = _path(module)
    if path is None:
        return ()
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    ours = module.partition(".")[0] in _OURS
    names: list[str] = []
    # Ours import by statements alone; most nodes of a tree are expressions.
    for node in _statements(_tree(path)) if ours else ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                ancestors = parents[: len(parents) - node.level + 1]
                base = ".".join([*ancestors, base] if base else ancestors)
            # `from a import b` may name a module a.b or an attribute of a.
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Call) and node.args and not ours:
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in _IMPORTERS and isinstance(node.args[0], ast.Constant):
                names += _resolved(node.args[0].value, package)
    # Finding a module imports its parents, so third-party names are dropped first.
    first_party = (
        name
        for name in names
        if _first_party(name.partition(".")[0], plugin) or (not ours and _is_unversioned(name))
    )
    return tuple(name for name in first_party if _path(name) is not None)


def _statements(tree: ast.AST) -> list[ast.AST]:
    """Return the statements of a tree, also those within others."""
    found = [tree]
    for node in found:
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            found += getattr(node, block, ())
    return found


def _resolved(name: object, package: str) -> list[str]:
    """Return the module that a text names, from a package if it begins with a dot."""
    try:
        return [importlib.util.resolve_name(name, package)] if isinstance(name, str) else []
    except ImportError:
        return []


@cache
def _is_unversioned(module: str) -> bool:
    """Return whether no version of an installed distribution says which code a module has.

    That is so for what was installed from a folder or a repository, editable or not, and for what
    is on the module search path without a distribution. A package without ``__init__.py`` may be
    of several of them.
    """
    if module.partition(".")[0] in (*_OURS, *sys.stdlib_module_names):
        return False
    for name in itertools.accumulate(module.split("."), "{}.{}".format):
        spec = _found(name)
        if spec is None or (not spec.has_location and not spec.submodule_search_locations):
            return False
        if spec.origin and spec.has_location:
            return not _has_version(name, Path(spec.origin))
    return False


def _has_version(module: str, path: Path) -> bool:
    """Return whether a distribution whose version says its code lists the file of a module."""
    root = path.parents[module.count(".") + (path.stem.partition(".")[0] == "__init__")]
    top, listed = module.partition(".")[0], path.relative_to(root).as_posix()
    # Of a link to a checkout, the link alone is in the list.
    line = re.compile(rf'^"?({re.escape(listed)}|{re.escape(top)})"?,', re.MULTILINE)
    for folder in _recorded(root).get(top, ()):
        if line.search(folder.joinpath("RECORD").read_text(encoding="utf-8", errors="replace")):
            return not _of_checkout(folder)
    # Packages of a Linux distribution have no list; a checkout may hold such a folder, too.
    if str(root) not in (*site.getsitepackages(), site.getusersitepackages()):
        return False
    folders = list(root.glob("*-info"))
    named = [one.name.partition("-")[0].partition(".")[0].lower() for one in folders]
    tops = (one / "top_level.txt" for one in folders)
    words = {word for one in tops if one.is_file() for word in one.read_text().split()}
    return top in words or top.lower() in named


@cache
def _recorded(root: Path) -> Mapping[str, list[Path]]:
    """Return the metadata of a folder's distributions by the names at the top of their lists."""
    found: dict[str, list[Path]] = {}
    for record in root.glob("*.dist-info/RECORD"):
        lines = record.read_text(encoding="utf-8", errors="replace").splitlines()
        for top in {re.split("[/,.]", line.lstrip('"'), maxsplit=1)[0] for line in lines}:
            found.setdefault(top, []).append(record.parent)
    return found


def _of_checkout(folder: Path) -> bool:
    """Return whether a distribution was installed from a folder or a repository (PEP 610).

    Its version stays while its code changes. Packages of conda name the folder of their build.
    """
    try:
        facts = json.loads(folder.joinpath("direct_url.json").read_bytes())
        installer = folder.joinpath("INSTALLER").read_text(encoding="utf-8").strip()
        return not {"dir_info", "vcs_info"}.isdisjoint(facts) and installer != "conda"
    except (OSError, ValueError, TypeError):
        return False


@cache
def _first_party(package: str, plugin: str) -> bool:
    """Return whether a top-level package is the plugin's, or in the folder of its file."""
    if package in (plugin, *_BUILT_IN):
        return True
    file = _path(plugin) if plugin.startswith(FILE_MODULE) else None
    if file is None or package == "ope_bench":
        return False
    sibling = file.resolve().parent / package
    if not (sibling.is_dir() or sibling.with_suffix(".py").is_file()):
        return False
    # An installed package may have that name too and be imported instead.
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return False
    if spec is None:
        return False
    paths = [spec.origin] if spec.has_location else spec.submodule_search_locations
    places = [Path(path).resolve() for path in paths or () if path]
    if not {sibling, sibling.with_suffix(".py"), sibling / "__init__.py"}.isdisjoint(places):
        return True
    # Python has one module of a name: that of the file which was loaded first.
    loaded = [one for name, one in sys.modules.items() if name.startswith(FILE_MODULE)]
    folders = {Path(str(one.__file__)).resolve().parent for one in loaded}
    others = [one for one in places if {*one.parents[:2]} & folders]
    if others:
        msg = f"{file}: '{package}' beside it has the name of {others[0]}; rename one of them"
        raise PluginError(msg)
    return False


@cache
def _source_hash(module: str) -> str | None:
    path = _path(module)
    if path is None or not os.access(path, os.R_OK):
        return None
    return sha256(path)


@dataclass(frozen=True)
class PluginSpec:
    """One environment or estimator with all its parameters.

    Parameters
    ----------
    kind : environment or estimator.
    reference : text by which the registry finds it: ``ipw``, ``acme-ope:ipw`` or
        ``./my.py:MyIPW``.
    id : its canonical name, which enters keys and seeds.
    params : all parameters, validated, as JSON values; a parameter that the class gained later
        (``added_parameters``) is omitted while it has its former value, so that keys stay
        unchanged.
    label : its name on boards; empty for the default.
    worlds : environments only: the problem is redrawn in each replicate, or fixed for all.
    version : environments only: counts changes that alter numbers.
    origin : distribution and version of the plugin, or its file.
    """

    kind: Kind
    reference: str
    id: str
    params: Mapping[str, Any] = field(default_factory=dict)
    _: KW_ONLY
    label: str = ""
    worlds: ProblemSampling = "redrawn"
    version: int = 0
    origin: str = ""

    @cached_property
    def identity(self) -> dict[str, Any]:
        """The parts that enter a trial's key."""
        asked: dict[str, Any] = {"id": self.id, "params": dict(self.params)}
        if self.kind == "environment":
            asked |= {"worlds": self.worlds, "version": self.version}
        return asked

    @cached_property
    def identity_json(self) -> str:
        """The identity as canonical JSON, cached because thousands of trials share it."""
        return canonical_json(self.identity)

    @cached_property
    def stream_id(self) -> str:
        """The id in every stream of seeds: that of the environment that this one wraps, if any."""
        try:
            cls = cast(type[Environment], registry().find(self.kind, self.reference).cls)
        except PluginError:
            # An object of a class that is not installed.
            return self.id
        if cls.wrapped is Environment.wrapped:
            return self.id
        wrapped = cls(**self.params).wrapped
        return self.id if wrapped is None else spec_of(wrapped).stream_id


# Labels that show only the parameters in which settings or estimators of one id differ.

_ABSENT = object()


def distinct_label(spec: PluginSpec, among: Sequence[PluginSpec]) -> str:
    """Return a spec's label, or its id with the parameters in which specs of that id differ.

    >>> ten, fifty = (PluginSpec("environment", "toy", "toy", {"n": n}) for n in (10, 50))
    >>> distinct_label(ten, [ten, fifty])
    'toy n=10'
    """
    return distinct_labels([spec, *among])[0]


def distinct_labels(specs: Sequence[PluginSpec]) -> list[str]:
    """Return the `distinct_label` of each spec among all, in one pass for thousands of specs."""
    namesakes: dict[str, list[PluginSpec]] = {}
    for spec in specs:
        if not spec.label:
            namesakes.setdefault(spec.id, []).append(spec)
    varying = {name: _varying(group) for name, group in namesakes.items()}
    labels = []
    for spec in specs:
        parts = [
            f"{name}={value if isinstance(value, str) else canonical_json(value)}"
            for name, value in _said(spec).items()
            if not spec.label and name in varying[spec.id]
        ]
        labels.append(spec.label or " ".join([spec.id, *parts]))
    return labels


def _varying(namesakes: Sequence[PluginSpec]) -> set[str]:
    """Return the names of parameters, ``worlds`` and ``version`` that differ."""
    first, *others = map(_said, namesakes)
    return {
        name
        for other in others
        for name in first.keys() | other.keys()
        if other.get(name, _ABSENT) != first.get(name, _ABSENT)
    }


def _said(spec: PluginSpec) -> dict[str, Any]:
    # Estimators have neither, and may have parameters of these names.
    ours = {} if spec.kind == "estimator" else {"worlds": spec.worlds, "version": spec.version}
    return {**spec.params, **ours}


# Resolve what a user names to a validated PluginSpec.


def resolve(
    kind: Kind, reference: str, params: Mapping[str, Any] | None = None, *, label: str = ""
) -> PluginSpec:
    """Return the spec of a registered plugin or of a class in a file.

    Environments accept ``worlds: redrawn|fixed`` in addition to their own parameters.

    Raises
    ------
    PluginError : no plugin or more than one has that name, or it cannot be loaded.
    ParameterError : a parameter is unknown, of the wrong type or out of range.
    """
    plugin = registry().find(kind, reference)
    if ".py:" in plugin.target:
        # Refuses imports for which a file of another folder answers, before a number is computed.
        code_digest(plugin.cls)
    return spec_for(plugin, plugin.cls, params or {}, label)


def spec_of(plugin: Environment | Estimator, *, label: str = "") -> PluginSpec:
    """Return the spec of an object, under the id that its installed plugin has or would have."""
    kind: Kind = "environment" if isinstance(plugin, Environment) else "estimator"
    cls = type(plugin)
    target = f"{cls.__module__}:{cls.__qualname__}"
    known = [item for item in registry().plugins(kind) if item.target == target]
    unknown = Plugin(kind, class_id(cls), reference=target, origin=cls.__module__, target=target)
    return spec_for(known[0] if known else unknown, cls, plugin.get_params(deep=False), label)


def complete_params(kind: Kind, reference: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spec's parameters, with omitted added ones at their default.

    Nothing is added for a plugin that is not installed.
    """
    try:
        cls = registry().find(kind, reference).cls
    except PluginError:
        return dict(params)
    return {**added_defaults(cls), **params}


def spec_for(plugin: Plugin, cls: type, params: Mapping[str, Any], label: str = "") -> PluginSpec:
    """Return the spec of a plugin with parameters that are validated here."""
    values = dict(params)
    worlds: ProblemSampling = "redrawn"
    version = 0
    if plugin.kind == "environment":
        worlds = values.pop("worlds", "redrawn")
        version = cast(type[Environment], cls).version
        if worlds not in ("redrawn", "fixed"):
            msg = f"{plugin.id}: parameter 'worlds' = {worlds!r}: expected 'redrawn' or 'fixed'"
            raise ParameterError(msg)
    if (validated_there := getattr(cls, "foreign_params", None)) is not None:
        checked = validated_there(values)
    else:
        checked = without_added_defaults(cls, validated(cls, values, name=plugin.id))
    try:
        plain = json.loads(canonical_json(checked))
    except (TypeError, ValueError) as exc:
        msg = f"{plugin.id}: a parameter cannot be stored as JSON: {exc}"
        raise ParameterError(msg) from exc
    return PluginSpec(
        plugin.kind,
        plugin.reference,
        plugin.id,
        plain,
        label=label,
        worlds=worlds,
        version=version,
        origin=plugin.origin,
    )
