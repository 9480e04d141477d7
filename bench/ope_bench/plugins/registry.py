"""The registry of plugins: entry points with names and versions, loaded when used.

A reference is an id (``ipw``), an id of one distribution (``acme-ope:ipw``) or a class in a file
(``./my.py:MyIPW``). Classes of the harness itself are named by their module
(``ope_bench.logs.problem:OwnLog``). An id that several distributions have means the built-in
plugin, unless a user typed it: that is ambiguous.

stevedore also loads entry points, but logs and skips broken plugins; here they are listed with the
reason, and plugins with the same name from different distributions can both be used.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Literal

from ope_bench import __version__
from ope_bench.base.errors import USER_EXITS, PluginError, did_you_mean
from ope_bench.plugins.requirements import class_name, message_of

Kind = Literal["environment", "estimator"]

GROUPS: dict[Kind, str] = {
    "environment": "ope_bench.environments",
    "estimator": "ope_bench.estimators",
}

ALIASES = "ope_bench.aliases"
"""Group of entry points that are mappings: the id of the estimator that another name means."""

_HARNESS = "ope_bench"
"""Package whose classes may be named by their module, as ``ope_bench.MODULE:Class``."""

OURS = ("ope_bench", "ope_estimators", "ope_environments")
"""Packages of this project."""

APART = os.environ.get("OPE_BENCH_APART", "")
"""Folder of an installation that is known here, and none of whose modules is ever found."""

BUILT_IN = "ope-bench:"
"""Beginning of the references of built-in plugins."""

FILE_MODULE = "ope_bench_file_"
"""Prefix of the names of modules that were loaded from a file."""

FILE_FOLDERS: set[str] = set()
"""Folders that loading a file has added to the module search path."""


MOST_SHOWN = 1_000
"""Characters of a broken plugin's message that are shown."""


class _Apart(importlib.metadata.DistributionFinder):
    """Finds the distributions of that folder."""

    def find_spec(self, *_: object) -> None:
        """Find no module."""

    def find_distributions(
        self, context: importlib.metadata.DistributionFinder.Context | None = None
    ) -> Iterable[importlib.metadata.Distribution]:
        """Find distributions, unless others' folders are asked about."""
        asked = vars(context) if context else {}
        finder = importlib.metadata.MetadataPathFinder
        return (
            ()
            if "path" in asked
            else finder.find_distributions(self.Context(**asked, path=[APART]))
        )


if APART:
    sys.meta_path.append(_Apart())


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

    @property
    def is_ours(self) -> bool:
        """Whether its code is that of this project, not of another distribution or file."""
        ours = self.target.partition(".")[0] in OURS
        return ours and self.reference.startswith((BUILT_IN, f"{_HARNESS}."))

    @cached_property
    def cls(self) -> type:
        """The class; a PluginError names distribution, version and reason."""
        stand_in = None if self.is_ours else registry().stand_in
        if stand_in is not None and (replaced := stand_in(self)) is not None:
            return replaced
        from ope_bench.contracts.plugins import Environment, Estimator

        module, _, name = self.target.rpartition(":")
        try:
            in_file = module.endswith(".py")
            home = file_module(module) if in_file else importlib.import_module(module)
            cls = getattr(home, name) if not in_file or hasattr(home, name) else None
        # A broken plugin may raise anything at import, SystemExit included.
        except BaseException as exc:
            if isinstance(exc, USER_EXITS):
                raise
            msg = (
                f"{self.kind} '{self.id}' ({self.origin}, {self.target}) cannot be loaded: "
                f"{class_name(exc)}: {message_of(exc)[:MOST_SHOWN]}"
            )
            raise PluginError(msg) from exc
        base = Environment if self.kind == "environment" else Estimator
        if in_file and cls is None:
            known = [
                one
                for one, value in vars(home).items()
                if isinstance(value, type)
                and issubclass(value, base)
                and value.__module__ == home.__name__
            ]
            hint = did_you_mean(name, known) or f" (it has {', '.join(known) or 'none'})"
            msg = f"{self.origin} has no {self.kind} '{name}'{hint}"
            raise PluginError(msg)
        if not (isinstance(cls, type) and issubclass(cls, base)):
            msg = (
                f"{self.kind} '{self.id}' ({self.origin}, {self.target}) is not a subclass of "
                f"ope_bench.{base.__name__}; write `class {name}({base.__name__}):`"
            )
            raise PluginError(msg)
        return cls

    @property
    def summary(self) -> str:
        """The first line of the class's docstring."""
        lines = (self.cls.__doc__ or "").strip().splitlines()
        return lines[0] if lines else ""


def file_module(path: str) -> ModuleType:
    """Run a file as a module, once."""
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
        FILE_FOLDERS.add(folder)
    # Register the module before running it: dataclasses look up their module in sys.modules.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def file_hint(path: str) -> str:
    """Return how to name a class of a file, with those that it defines; the file is not run."""
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return f"a class in a file is written {path}:CLASS"
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    return f"add the class, {path}:CLASS (it has {', '.join(classes) or 'none'})"


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
        self._installed: dict[Kind, list[Plugin]] = {}
        self._named: dict[tuple[Kind, str], Plugin] = {}
        self.on_alias: Callable[[str], None] = warnings.warn
        """Called once with the message that an estimator has another name."""
        self.files_allowed = True
        """Whether classes in files may be loaded; those of installed packages always may."""
        self.stand_in: Callable[[Plugin], type | None] | None = None
        """What classes of others are replaced by where their code must not run; None: nothing."""

    def plugins(self, kind: Kind) -> list[Plugin]:
        """Return all plugins of a kind, ordered by id; several may have the same id."""
        if kind not in self._installed:
            points = self._given
            if points is None:
                points = list(importlib.metadata.entry_points(group=GROUPS[kind]))
            # A distribution may be on the path twice; its entry points count once.
            found: dict[tuple[str, str, str], Plugin] = {}
            names: dict[int, tuple[str, str]] = {}
            for point in points:
                # Python reads the file of a distribution anew for each of its facts.
                if id(point.dist) not in names:
                    told = point.dist.metadata if point.dist else None
                    names[id(point.dist)] = (
                        (told["Name"], told["Version"]) if told else ("unknown", "0")
                    )
                dist, version = names[id(point.dist)]
                reference, target = f"{dist}:{point.name}", point.value
                plugin = Plugin(
                    kind,
                    point.name,
                    reference=reference,
                    origin=f"{dist} {version}",
                    target=target,
                )
                if point.group == GROUPS[kind]:
                    found.setdefault((dist, point.name, target), plugin)
            ordered = sorted(found.values(), key=lambda plugin: (plugin.id, plugin.origin))
            self._installed[kind] = ordered
        return self._installed[kind]

    def find(self, kind: Kind, reference: str, *, typed: bool = False) -> Plugin:
        """Find the plugin that a reference names, without loading its class.

        Parameters
        ----------
        kind : environment or estimator.
        reference : see the module.
        typed : whether a user typed it, so that an id of several distributions is ambiguous.

        Raises
        ------
        PluginError : no plugin, or more than one, has that name.
        """
        # Every trial asks for its two plugins.
        known = None if typed else self._named.get((kind, reference))
        if known is not None and (self.files_allowed or ".py:" not in reference):
            return known
        head, _, tail = reference.rpartition(":")
        if head.endswith(".py"):
            if not self.files_allowed:
                msg = (
                    f"{kind} '{reference}' runs the code of a file; --no-code refuses that, and "
                    "verify without --allow-code"
                )
                raise PluginError(msg)
            path = os.path.realpath(head)
            target = f"{path}:{tail}"
            plugin = Plugin(kind, tail, reference=target, origin=head, target=target)
            plugin = replace(plugin, id=class_id(plugin.cls))
            # A relative path is another file in another working directory.
            if head == path:
                self._named[kind, reference] = plugin
            return plugin
        if head.startswith(f"{_HARNESS}."):
            name = f"{_HARNESS} {__version__}"
            return Plugin(kind, tail, reference=reference, origin=name, target=reference)
        named = [
            plugin
            for plugin in self.plugins(kind)
            if plugin.id == tail and (not head or plugin.reference == reference)
        ]
        if len(named) > 1 and not typed:
            own = [plugin for plugin in named if plugin.reference.startswith(BUILT_IN)]
            named = own if len(own) == 1 else named
        if len(named) > 1:
            owners = " and ".join(f"{plugin.reference} ({plugin.origin})" for plugin in named)
            msg = f"{kind} '{reference}' is ambiguous: {owners}; write one of these references"
            raise PluginError(msg)
        meant = self.meant(kind, reference) if not named else None
        if meant is not None:
            if (kind, reference) not in self._named:
                self.on_alias(f"{reference} is named {meant} here")
            self._named[kind, reference] = self.find(kind, meant)
            return self._named[kind, reference]
        if not named:
            ids = [plugin.id for plugin in self.plugins(kind)]
            hint = (
                did_you_mean(tail, [*ids, *self.aliases])
                or f"; `ope-bench list {kind}s` shows what there is"
            )
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
            try:
                return [self.find("environment", reference)]
            except PluginError:
                # If the class is no estimator either, this raises the error to show.
                return [self.find("estimator", reference)]
        return [
            self.find(kind, reference, typed=True)
            for kind in GROUPS
            if any(reference in (plugin.id, plugin.reference) for plugin in self.plugins(kind))
            or self.meant(kind, reference)
        ]

    @cached_property
    def aliases(self) -> dict[str, str]:
        """The id of the estimator that another name means, as distributions declare them."""
        found: dict[str, str] = {}
        for point in entry_points(ALIASES):
            # That of a broken distribution.
            with contextlib.suppress(Exception):
                found = {**point.load(), **found}
        return found

    def aliases_of(self, estimator: str) -> list[str]:
        """Return the other names of an estimator."""
        return [alias for alias, meant in self.aliases.items() if meant == estimator]

    def meant(self, kind: Kind, name: str) -> str | None:
        """Return the id that an alias, or an id in capital letters, means; None for ids."""
        found = self._meanings.get(name.lower()) if kind == "estimator" else None
        return None if name == found else found

    @cached_property
    def _meanings(self) -> dict[str, str]:
        """Ids of estimators, by themselves and their aliases in small letters."""
        ids = {plugin.id.lower(): plugin.id for plugin in self.plugins("estimator")}
        small = {alias.lower(): meant for alias, meant in self.aliases.items()}
        return {alias: ids[meant] for alias, meant in small.items() if meant in ids} | ids


@cache
def registry() -> Registry:
    """Return the registry of installed plugins, read once per process."""
    return Registry()


def entry_points(group: str) -> list[importlib.metadata.EntryPoint]:
    """Return the entry points of a group; where foreign code must not run, those of ope-bench."""
    points = importlib.metadata.entry_points(group=group)
    ours = registry().stand_in is not None
    return [one for one in points if not ours or (one.dist and one.dist.name == BUILT_IN[:-1])]


def is_built_in(environment: type) -> bool:
    """Return whether a class is of the harness or an environment that comes with it."""
    module, target = environment.__module__, f"{environment.__module__}:{environment.__qualname__}"
    ours = (
        one for one in registry().plugins("environment") if one.origin.startswith("ope-bench ")
    )
    return module.startswith(f"{_HARNESS}.") or any(one.target == target for one in ours)


def imported_packages(source: str | bytes, cls: str | None = None) -> set[str]:
    """Return the top-level packages that a module imports, but for type checkers.

    Parameters
    ----------
    source : of the module.
    cls : a class of it; imports in its other classes are not counted. None for all of them.

    >>> sorted(imported_packages("import a.b\\nfrom c import d\\nfrom . import e"))
    ['a', 'c']
    """
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
            continue
        if cls is not None and isinstance(node, ast.ClassDef) and node.name != cls:
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
        waiting += ast.iter_child_nodes(node)
    return found
