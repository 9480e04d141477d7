"""Find suites: those of the entry-point group ``ope_bench.suites``, and files.

An entry point's value is a module; every ``*.yaml`` in its folder is a suite, named as the file.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ope_bench.errors import SuiteError, did_you_mean
from ope_bench.plugins.guarded_import import USER_EXITS
from ope_bench.suites.suite import Suite, read_suite
from ope_bench.suites.yaml_document import load_file

__all__ = [
    "GROUP",
    "BrokenSuites",
    "SuiteFile",
    "broken_suites",
    "find_suite",
    "scan",
    "suite_files",
    "suite_path",
]

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

    def read(self) -> Suite:
        """Read the suite.

        Raises
        ------
        SuiteError : the file is wrong.
        """
        return read_suite(self.path, self.id)


@dataclass(frozen=True)
class BrokenSuites:
    """An entry point of suites that cannot be loaded."""

    id: str
    origin: str
    reason: str


@cache
def _scan() -> tuple[tuple[SuiteFile, ...], tuple[BrokenSuites, ...]]:
    return scan(importlib.metadata.entry_points(group=GROUP))


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
            folder = _folder(point.module)
        # Finding a submodule imports its parents, which may raise any exception.
        except BaseException as exc:
            if isinstance(exc, USER_EXITS):
                raise
            broken.append(BrokenSuites(point.name, origin, f"{type(exc).__name__}: {exc}"))
            continue
        for path in sorted(folder.glob("*.yaml")):
            suite = SuiteFile(path.stem, f"{dist}:{path.stem}", origin, path)
            found[dist, path.resolve()] = suite
    ordered = sorted(found.values(), key=lambda suite: (suite.id, suite.origin))
    return tuple(ordered), tuple(broken)


def _folder(module: str) -> Path:
    spec = importlib.util.find_spec(module)
    if spec is None:
        msg = f"no module {module}"
        raise ModuleNotFoundError(msg)
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    return Path(spec.origin or "").parent


def suite_files() -> tuple[SuiteFile, ...]:
    """Return the installed suites, ordered by id."""
    return _scan()[0]


def broken_suites() -> tuple[BrokenSuites, ...]:
    """Return the entry points of suites that cannot be read."""
    return _scan()[1]


def find_suite(name: str) -> Suite:
    """Find the suite that a user names: an id, ``distribution:id`` or a path.

    Raises
    ------
    SuiteError : no suite or more than one has that name, or the file is wrong.
    """
    found = _find(name)
    return found.read() if isinstance(found, SuiteFile) else read_suite(found)


def suite_path(name: str) -> Path:
    """Return the file of the suite that a user names.

    Raises
    ------
    SuiteError : no suite or more than one has that name, or the file cannot be read.
    """
    found = _find(name)
    path = found.path if isinstance(found, SuiteFile) else found
    load_file(path)
    return path


def _find(name: str) -> SuiteFile | Path:
    named = [suite for suite in suite_files() if name in (suite.id, suite.reference)]
    if len(named) > 1:
        owners = " and ".join(f"{suite.reference} ({suite.origin})" for suite in named)
        msg = f"suite '{name}' is ambiguous: {owners}; write one of these references"
        raise SuiteError(msg)
    if named:
        return named[0]
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or len(path.parts) > 1 or path.is_file():
        return path
    hint = did_you_mean(name, [suite.id for suite in suite_files()])
    hint = hint or "; `ope-bench list suites` lists all; a file name needs its .yaml"
    msg = f"unknown suite '{name}'{hint}"
    raise SuiteError(msg)
