"""Who answered: a digest of the code behind a trial.

Covers the source of the two classes' modules, of everything first-party that they import
(directly or not, at any depth of nesting; for a class in a file that is what lies beside it), of
the harness's own modules that numbers pass through, and the data files that the environment
names. Reporting is left out, so that a new figure does not re-run a trial.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ope_bench.registry import FILE_MODULE

if TYPE_CHECKING:
    from ope_bench.environment import Environment
    from ope_bench.estimator import Estimator

__all__ = ["answer_digest", "code_digest"]

_BUILT_IN = ("ope_estimators", "ope_environments")
_HARNESS = (
    *("arrays", "batching", "data", "devices", "embeddings"),
    *("memo", "policies", "seeding", "trial", "view"),
)


LARGE = 1 << 26
"""Bytes beyond which a data file is known by its size and time instead of its content."""


def answer_digest(environment: Environment, estimator: Estimator) -> str:
    """`code_digest` of both classes, and the content of the environment's data files."""
    code = code_digest(type(environment), type(estimator))
    files = environment.data_files
    if not files:
        return code
    marks = [code, *map(_content, files)]
    return hashlib.sha256("\n".join(marks).encode()).hexdigest()[:16]


def _content(path: str) -> str:
    """What a file, or every file of a folder, holds; a missing one counts as such."""
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
    """SHA-256 over the sources behind ``classes`` and the harness's numeric core.

    Returns
    -------
    Sixteen hexadecimal digits.
    """
    return _combined(tuple(cls.__module__ for cls in classes))


@cache
def _combined(modules: tuple[str, ...]) -> str:
    names = {f"ope_bench.{name}" for name in _HARNESS}
    for module in modules:
        names |= _closure(module)
    sources = sorted(filter(None, map(_source_hash, names)))
    return hashlib.sha256("\n".join(sources).encode()).hexdigest()[:16]


@cache
def _closure(module: str) -> frozenset[str]:
    """The module and its first-party imports, transitively."""
    top = module.partition(".")[0]
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        waiting += _imports(name, top)
    return frozenset(seen)


@cache
def _path(module: str) -> Path | None:
    loaded = sys.modules.get(module)
    origin = getattr(loaded, "__file__", None)
    if origin is None:
        parent = _path(module.rpartition(".")[0]) if "." in module else None
        if parent is not None and parent.name != "__init__.py":
            # A thing inside a module; asking for its spec would import that module.
            return None
        try:
            spec = importlib.util.find_spec(module)
        except (ImportError, ValueError, AttributeError):
            return None
        origin = spec.origin if spec else None
    return Path(origin) if origin and origin.endswith(".py") else None


@cache
def _imports(module: str, plugin: str) -> tuple[str, ...]:
    """What a module imports of the built-ins and of the package ``plugin``."""
    path = _path(module)
    if path is None:
        return ()
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                kept = parents[: len(parents) - node.level + 1]
                base = ".".join([*kept, base] if base else kept)
            # `from a import b` may name a module a.b or a thing inside a.
            found += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    # Looking a module up imports its parents, so third-party names are dropped before.
    ours = (name for name in found if _first_party(name.partition(".")[0], plugin))
    return tuple(name for name in ours if _path(name) is not None)


@cache
def _first_party(package: str, plugin: str) -> bool:
    """Whether a top-level package is the plugin's own; for a file, what lies beside it."""
    if package in (plugin, *_BUILT_IN):
        return True
    file = _path(plugin) if plugin.startswith(FILE_MODULE) else None
    if file is None or package == "ope_bench":
        return False
    beside = file.resolve().parent / package
    if not (beside.is_dir() or beside.with_suffix(".py").is_file()):
        return False
    # Something installed may have that name too, and be what is imported.
    own = {beside, beside.with_suffix(".py"), beside / "__init__.py"}
    return not own.isdisjoint(_places(package))


def _places(package: str) -> list[Path]:
    """Where a top-level package is: its file, or its folders if it has none."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    found = [spec.origin] if spec.has_location else spec.submodule_search_locations
    return [Path(place).resolve() for place in found or () if place]


@cache
def _source_hash(module: str) -> str | None:
    path = _path(module)
    if path is None or not os.access(path, os.R_OK):
        return None
    return hashlib.sha256(path.read_bytes()).hexdigest()
