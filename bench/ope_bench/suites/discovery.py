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

from ope_bench.base.errors import USER_EXITS, SuiteError, did_you_mean
from ope_bench.suites.suite import Suite, read_suite
from ope_bench.suites.yaml_document import load_file

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


def find_suite(name: str) -> Suite:
    """Find the suite that a user names: an id, ``distribution:id`` or a path.

    Raises
    ------
    SuiteError : no suite or more than one has that name, or the file is wrong.
    """
    return read_suite(*_find(name))


def suite_path(name: str) -> Path:
    """Return the file of the suite that a user names.

    Raises
    ------
    SuiteError : no suite or more than one has that name, or the file cannot be read.
    """
    path, _ = _find(name)
    load_file(path)
    return path


def _find(name: str) -> tuple[Path, str]:
    """Return the file that a user names, and the suite's id if it is an installed one."""
    named = [suite for suite in suite_files() if name in (suite.id, suite.reference)]
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
