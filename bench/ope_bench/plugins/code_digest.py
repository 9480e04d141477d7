"""Digest of the code behind a trial's result; stored results with another digest are out of date.

Covers the source of the two classes' modules, of all first-party modules that they import directly
or indirectly (for a class in a file: modules in the same folder), of the harness's packages that
numbers pass through, and the data files that the environment names. Reporting is excluded, so that
a new figure does not re-run a trial.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ope_bench.plugins.registry import FILE_MODULE

if TYPE_CHECKING:
    from ope_bench.contracts.environment import Environment
    from ope_bench.contracts.estimator import Estimator

__all__ = ["result_digest", "code_digest"]

_BUILT_IN = ("ope_estimators", "ope_environments")
_COMPUTING = (
    "ope_bench.contracts",
    "ope_bench.logs.policies",
    "ope_bench.logs.reading",
    "ope_bench.statistics.value_intervals",
    "ope_bench.suites.nested",
    "ope_bench.suites.nested_environment",
    "ope_bench.tables",
    "ope_bench.trials",
)
"""Packages, with all that lies in them, and modules of the harness that compute numbers."""

LARGE = 1 << 26
"""Bytes beyond which a data file is identified by size and modification time, not by content."""


def result_digest(environment: Environment, estimator: Estimator) -> str:
    """Return the `code_digest` of both classes and of nested estimators, and of data files."""
    code = code_digest(type(environment), *_classes(estimator))
    files = environment.data_files
    if not files:
        return code
    marks = [code, *map(_content, files)]
    return hashlib.sha256("\n".join(marks).encode()).hexdigest()[:16]


def _classes(estimator: Estimator) -> Iterator[type]:
    """Yield the class of an estimator and those of the estimators that it runs."""
    yield type(estimator)
    for nested in estimator.nested:
        yield from _classes(nested)


def _content(path: str) -> str:
    """Return the marks of a file, or of every file of a folder; a missing file has a mark too."""
    root = Path(path)
    files = sorted(root.rglob("*")) if root.is_dir() else [root]
    marks = []
    for file in files:
        if file.is_file():
            facts = file.stat()
            marks.append(f"{file.name} {_file_mark(file, facts.st_size, facts.st_mtime_ns)}")
    return "\n".join(marks)


@cache
def _file_mark(file: Path, size: int, changed: int) -> str:
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


@cache
def _combined(modules: tuple[str, ...]) -> str:
    names = set(_harness())
    for module in modules:
        names |= _closure(module)
    sources = sorted(filter(None, map(_source_hash, names)))
    return hashlib.sha256("\n".join(sources).encode()).hexdigest()[:16]


@cache
def _harness() -> tuple[str, ...]:
    """Return the modules of the harness that compute numbers."""
    modules = []
    for name in _COMPUTING:
        path = _path(name)
        if path is not None and path.name == "__init__.py":
            folder = path.parent
            files = (file.relative_to(folder) for file in sorted(folder.rglob("*.py")))
            modules += [".".join([name, *file.with_suffix("").parts]) for file in files]
        else:
            modules.append(name)
    return tuple(modules)


@cache
def _closure(module: str) -> frozenset[str]:
    """Return the module and its first-party imports, transitively."""
    top = module.partition(".")[0]
    visited: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in visited:
            continue
        visited.add(name)
        waiting += _imports(name, top)
    return frozenset(visited)


@cache
def _path(module: str) -> Path | None:
    loaded = sys.modules.get(module)
    origin = getattr(loaded, "__file__", None)
    if origin is None:
        parent = _path(module.rpartition(".")[0]) if "." in module else None
        if parent is not None and parent.name != "__init__.py":
            # An attribute of a module; `find_spec` would import that module.
            return None
        try:
            spec = importlib.util.find_spec(module)
        except (ImportError, ValueError, AttributeError):
            return None
        origin = spec.origin if spec else None
    return Path(origin) if origin and origin.endswith(".py") else None


@cache
def _imports(module: str, plugin: str) -> tuple[str, ...]:
    """Return the modules that a module imports from the built-ins and the package ``plugin``."""
    path = _path(module)
    if path is None:
        return ()
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_bytes())):
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
    # Finding a module imports its parents, so third-party names are dropped first.
    first_party = (name for name in names if _first_party(name.partition(".")[0], plugin))
    return tuple(name for name in first_party if _path(name) is not None)


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
    own = {sibling, sibling.with_suffix(".py"), sibling / "__init__.py"}
    return not own.isdisjoint(_locations(package))


def _locations(package: str) -> list[Path]:
    """Locate a top-level package: its file, or its folders if it has none."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    paths = [spec.origin] if spec.has_location else spec.submodule_search_locations
    return [Path(path).resolve() for path in paths or () if path]


@cache
def _source_hash(module: str) -> str | None:
    path = _path(module)
    if path is None or not os.access(path, os.R_OK):
        return None
    return hashlib.sha256(path.read_bytes()).hexdigest()
