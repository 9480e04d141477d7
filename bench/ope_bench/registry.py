"""Entry points -> named, versioned plugins, loaded only when used.

A reference is an id (``ipw``), an id of one distribution (``acme-ope:ipw``) or a class in a file
(``./my.py:MyIPW``).
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import importlib.util
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Literal

from ope_bench.errors import PluginError, did_you_mean

__all__ = ["FILE_MODULE", "GROUPS", "Kind", "Plugin", "Registry", "class_id", "registry"]

Kind = Literal["environment", "estimator"]

GROUPS: dict[Kind, str] = {
    "environment": "ope_bench.environments",
    "estimator": "ope_bench.estimators",
}

FILE_MODULE = "ope_bench_file_"
"""How the names of modules begin that were loaded from a file."""


def class_id(cls: type) -> str:
    """The id of a class that no entry point names: its name in kebab case.

    >>> class IPWStar: ...
    >>> class_id(IPWStar)
    'ipw-star'
    """
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+|[A-Z]+|\d+", cls.__name__)
    return "-".join(word.lower() for word in words)


@dataclass(frozen=True)
class Plugin:
    """One environment or estimator that can be loaded.

    Parameters
    ----------
    kind : environment or estimator.
    id : its canonical name.
    reference : how the registry finds it again, in another process too.
    origin : distribution and version, or the file.
    target : ``module:Class``, or ``path.py:Class``.
    """

    kind: Kind
    id: str
    reference: str
    origin: str
    target: str

    @cached_property
    def cls(self) -> type:
        """The class. Raises PluginError with distribution, version and reason."""
        from ope_bench.environment import Environment
        from ope_bench.estimator import Estimator

        module, _, name = self.target.rpartition(":")
        try:
            in_file = module.endswith(".py")
            home = _file_module(module) if in_file else importlib.import_module(module)
            cls = getattr(home, name)
        # A broken plugin may raise anything at import, SystemExit included.
        except BaseException as exc:
            if isinstance(exc, KeyboardInterrupt):
                raise
            msg = (
                f"{self.kind} '{self.id}' ({self.origin}, {self.target}) cannot be loaded: "
                f"{type(exc).__name__}: {exc}"
            )
            raise PluginError(msg) from exc
        base = Environment if self.kind == "environment" else Estimator
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
    # It may import what lies beside it, as a script may; last, so that this shadows nothing.
    folder = str(source.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    # In sys.modules before it runs, so that its dataclasses can find their own module.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
        _check_neighbours(source.resolve())
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _check_neighbours(source: Path) -> None:
    """Python imports one module a name: of namesakes in two folders, the first for both."""
    for name in sorted(_imported(source)):
        beside = (source.parent / f"{name}.py", source.parent / name / "__init__.py")
        loaded = getattr(sys.modules.get(name), "__file__", None)
        if not any(path.is_file() for path in beside) or loaded is None:
            continue
        if Path(loaded).resolve() not in {path.resolve() for path in beside}:
            msg = f"it imports '{name}', which lies beside it, but got {loaded}; rename one"
            raise ImportError(msg)


def _imported(source: Path) -> set[str]:
    """Top-level names that a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source.read_bytes())):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


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

    def plugins(self, kind: Kind) -> list[Plugin]:
        """All of a kind, ordered by id, namesakes of different distributions included."""
        return self._by_kind[kind]

    @cached_property
    def _by_kind(self) -> dict[Kind, list[Plugin]]:
        found: dict[Kind, list[Plugin]] = {"environment": [], "estimator": []}
        for kind, group in GROUPS.items():
            points = self._given
            if points is None:
                points = list(importlib.metadata.entry_points(group=group))
            # The same distribution may be on the path twice; its entry points count once.
            seen: set[tuple[str, str, str]] = set()
            for point in points:
                dist = point.dist.name if point.dist else "unknown"
                version = point.dist.version if point.dist else "0"
                if point.group != group or (dist, point.name, point.value) in seen:
                    continue
                seen.add((dist, point.name, point.value))
                origin = f"{dist} {version}"
                found[kind].append(
                    Plugin(kind, point.name, f"{dist}:{point.name}", origin, point.value)
                )
            found[kind].sort(key=lambda plugin: (plugin.id, plugin.origin))
        return found

    def find(self, kind: Kind, reference: str) -> Plugin:
        """The one plugin that a reference names; its class is not loaded yet.

        Raises
        ------
        PluginError : nothing or more than one thing has that name.
        """
        head, _, tail = reference.rpartition(":")
        if head.endswith(".py"):
            return self._in_file(kind, head, tail)
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
            known = [plugin.id for plugin in self.plugins(kind)]
            hint = did_you_mean(tail, known) or f"; `ope-bench list {kind}s` shows what there is"
            if reference.endswith(".py"):
                hint = f"; a class in a file is written {reference}:CLASS"
            msg = f"unknown {kind} '{reference}'{hint}"
            raise PluginError(msg)
        return named[0]

    def _in_file(self, kind: Kind, path: str, name: str) -> Plugin:
        absolute = str(Path(path).resolve())
        plugin = Plugin(kind, name, f"{absolute}:{name}", path, f"{absolute}:{name}")
        return Plugin(kind, class_id(plugin.cls), plugin.reference, path, plugin.target)


@cache
def registry() -> Registry:
    """The registry of what is installed, read once a process."""
    return Registry()
