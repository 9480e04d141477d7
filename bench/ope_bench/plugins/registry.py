"""The registry of plugins: entry points with names and versions, loaded when used.

A reference is an id (``ipw``), an id of one distribution (``acme-ope:ipw``) or a class in a file
(``./my.py:MyIPW``). Classes of the harness itself are named by their module
(``ope_bench.logs.environment:OwnLog``).

stevedore also loads entry points, but logs and skips broken plugins; here they are listed with the
reason, and plugins with the same name from different distributions can both be used.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Literal

from ope_bench import __version__
from ope_bench.errors import PluginError, did_you_mean
from ope_bench.plugins.guarded_import import USER_EXITS, guarded_import
from ope_bench.plugins.imported_packages import imported_packages

__all__ = [
    "FILE_MODULE",
    "GROUPS",
    "Kind",
    "Plugin",
    "Registry",
    "class_id",
    "file_hint",
    "registry",
]

Kind = Literal["environment", "estimator"]

GROUPS: dict[Kind, str] = {
    "environment": "ope_bench.environments",
    "estimator": "ope_bench.estimators",
}

_HARNESS = "ope_bench"
"""Package whose classes may be named by their module, as ``ope_bench.MODULE:Class``."""

FILE_MODULE = "ope_bench_file_"
"""Prefix of the names of modules that were loaded from a file."""


def class_id(cls: type) -> str:
    """Return the id of a class that no entry point names: its name in kebab case.

    >>> class IPWStar: ...
    >>> class Reward2D: ...
    >>> class_id(IPWStar), class_id(Reward2D)
    ('ipw-star', 'reward-2d')
    """
    # A number of dimensions, as in Reward2D, is one word with its D.
    name = re.sub(r"(?<=[a-z])(\d+D)(?![a-z])", r"_\1_", cls.__name__)
    words = re.findall(r"\d+D(?=_)|[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+|[A-Z]+|\d+", name)
    return "-".join(word.lower() for word in words)


@dataclass(frozen=True)
class Plugin:
    """One environment or estimator that can be loaded.

    Parameters
    ----------
    kind : environment or estimator.
    id : its canonical name.
    reference : text by which the registry finds it, in other processes too.
    origin : distribution and version, or the file.
    target : ``module:Class``, or ``path.py:Class``.
    """

    kind: Kind
    id: str
    _: KW_ONLY
    reference: str
    origin: str
    target: str

    @cached_property
    def cls(self) -> type:
        """The class; a PluginError names distribution, version and reason."""
        from ope_bench.contracts.environment import Environment
        from ope_bench.contracts.estimator import Estimator

        module, _, name = self.target.rpartition(":")
        try:
            in_file = module.endswith(".py")
            with guarded_import():
                home = _file_module(module) if in_file else importlib.import_module(module)
                cls = getattr(home, name) if not in_file or hasattr(home, name) else None
        # A broken plugin may raise anything at import, SystemExit included.
        except BaseException as exc:
            if isinstance(exc, USER_EXITS):
                raise
            msg = (
                f"{self.kind} '{self.id}' ({self.origin}, {self.target}) cannot be loaded: "
                f"{type(exc).__name__}: {exc}"
            )
            raise PluginError(msg) from exc
        base = Environment if self.kind == "environment" else Estimator
        if in_file and cls is None:
            known = [one for one, value in vars(home).items() if _is_own(value, base, home)]
            hint = did_you_mean(name, known) or f" (it has {', '.join(known) or 'none'})"
            msg = f"{self.origin} has no {self.kind} '{name}'{hint}"
            raise PluginError(msg)
        if not (isinstance(cls, type) and issubclass(cls, base)):
            msg = (
                f"{self.kind} '{self.id}' ({self.origin}, {self.target}) is not a subclass of "
                f"ope_bench.{base.__name__}"
            )
            raise PluginError(msg)
        return cls

    @property
    def summary(self) -> str:
        """The first line of the class's docstring."""
        lines = (self.cls.__doc__ or "").strip().splitlines()
        return lines[0] if lines else ""


def _file_module(path: str) -> object:
    source = Path(path)
    if not source.is_file():
        msg = f"no such file: {path}"
        raise FileNotFoundError(msg)
    name = FILE_MODULE + hashlib.sha256(str(source.resolve()).encode()).hexdigest()[:12]
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, source)
    if spec is None or spec.loader is None:
        msg = f"not a Python file: {path}"
        raise ImportError(msg)
    module = importlib.util.module_from_spec(spec)
    # Like a script, it may import modules of its folder; last in the path, so it shadows no
    # others.
    folder = str(source.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    # Register the module before running it: dataclasses look up their module in sys.modules.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
        _check_folder_imports(source.resolve())
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _is_own(value: object, base: type, module: object) -> bool:
    """Return whether a value is a subclass of a base that a module defines."""
    is_plugin = isinstance(value, type) and issubclass(value, base)
    return is_plugin and value.__module__ == getattr(module, "__name__", None)


def file_hint(path: str) -> str:
    """Return how to name a class of a file, with those that it defines; the file is not run."""
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return f"a class in a file is written {path}:CLASS"
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    return f"add the class, {path}:CLASS (it has {', '.join(classes) or 'none'})"


def _check_folder_imports(source: Path) -> None:
    """Refuse a file whose import of a module in its folder got a module of another folder."""
    for name in sorted(imported_packages(source.read_bytes())):
        candidates = (source.parent / f"{name}.py", source.parent / name / "__init__.py")
        loaded = getattr(sys.modules.get(name), "__file__", None)
        if not any(path.is_file() for path in candidates) or loaded is None:
            continue
        if Path(loaded).resolve() not in {path.resolve() for path in candidates}:
            msg = f"it imports '{name}', a file of its folder, but got {loaded}; rename one"
            raise ImportError(msg)


class Registry:
    """The plugins that are installed.

    Parameters
    ----------
    entry_points : for tests; the installed ones by default.
    """

    def __init__(
        self, entry_points: Iterable[importlib.metadata.EntryPoint] | None = None
    ) -> None:
        self._given = None if entry_points is None else list(entry_points)
        self._named: dict[tuple[Kind, str], Plugin] = {}
        self._files: dict[tuple[Kind, str, str], Plugin] = {}
        self.files_allowed = True
        """Whether classes in files may be loaded; those of installed packages always may."""

    def plugins(self, kind: Kind) -> list[Plugin]:
        """Return all plugins of a kind, ordered by id; several may have the same id."""
        return self._by_kind[kind]

    @cached_property
    def _by_kind(self) -> dict[Kind, list[Plugin]]:
        found: dict[Kind, list[Plugin]] = {"environment": [], "estimator": []}
        for kind, group in GROUPS.items():
            points = self._given
            if points is None:
                points = list(importlib.metadata.entry_points(group=group))
            # A distribution may be on the path twice; its entry points count once.
            seen: set[tuple[str, str, str]] = set()
            for point in points:
                dist = point.dist.name if point.dist else "unknown"
                version = point.dist.version if point.dist else "0"
                if point.group != group or (dist, point.name, point.value) in seen:
                    continue
                seen.add((dist, point.name, point.value))
                origin = f"{dist} {version}"
                found[kind].append(
                    Plugin(
                        kind,
                        point.name,
                        reference=f"{dist}:{point.name}",
                        origin=origin,
                        target=point.value,
                    )
                )
            found[kind].sort(key=lambda plugin: (plugin.id, plugin.origin))
        return found

    def find(self, kind: Kind, reference: str) -> Plugin:
        """Find the plugin that a reference names, without loading its class.

        Raises
        ------
        PluginError : no plugin, or more than one, has that name.
        """
        # Every trial asks for its two plugins.
        known = self._named.get((kind, reference))
        if known is not None:
            return known
        head, _, tail = reference.rpartition(":")
        if head.endswith(".py"):
            return self._in_file(kind, head, tail)
        if head.startswith(f"{_HARNESS}."):
            name = f"{_HARNESS} {__version__}"
            return Plugin(kind, tail, reference=reference, origin=name, target=reference)
        named = [
            plugin
            for plugin in self.plugins(kind)
            if plugin.id == tail and (not head or plugin.reference == reference)
        ]
        if len(named) > 1:
            owners = " and ".join(f"{plugin.reference} ({plugin.origin})" for plugin in named)
            msg = f"{kind} '{reference}' is ambiguous: {owners}; write one of these references"
            raise PluginError(msg)
        if not named:
            ids = [plugin.id for plugin in self.plugins(kind)]
            hint = did_you_mean(tail, ids) or f"; `ope-bench list {kind}s` shows what there is"
            if reference.endswith(".py"):
                hint = f"; {file_hint(reference)}"
            msg = f"unknown {kind} '{reference}'{hint}"
            raise PluginError(msg)
        self._named[kind, reference] = named[0]
        return named[0]

    def named(self, reference: str) -> list[Plugin]:
        """Find the environments and estimators that a reference names: none, one, or one of each.

        Raises
        ------
        PluginError : two of a kind have that name, or a class in a file cannot be loaded.
        """
        if reference.rpartition(":")[0].endswith(".py"):
            return [self._of_either_kind(reference)]
        return [
            self.find(kind, reference)
            for kind in GROUPS
            if any(reference in (plugin.id, plugin.reference) for plugin in self.plugins(kind))
        ]

    def _of_either_kind(self, reference: str) -> Plugin:
        try:
            return self.find("environment", reference)
        except PluginError:
            # If the class is no estimator either, this raises the error to show.
            return self.find("estimator", reference)

    def _in_file(self, kind: Kind, path: str, name: str) -> Plugin:
        if not self.files_allowed:
            msg = f"{kind} '{path}:{name}' is a file whose code would run; --no-code refuses that"
            raise PluginError(msg)
        known = self._files.get((kind, path, name))
        if known is not None:
            return known
        absolute = os.path.realpath(path)
        target = f"{absolute}:{name}"
        plugin = Plugin(kind, name, reference=target, origin=path, target=target)
        plugin = replace(plugin, id=class_id(plugin.cls))
        # A relative path is another file in another working directory.
        if path == absolute:
            self._files[kind, path, name] = plugin
        return plugin


@cache
def registry() -> Registry:
    """Return the registry of installed plugins, read once per process."""
    return Registry()
