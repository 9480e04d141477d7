"""The digest of what of a submission is reviewed, installed and run.

It holds every file of the distributions that an entry brings; what nobody can review, and what
replaces others' packages, is refused.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from ope_bench.base.canonical import digest, sha256
from ope_bench.base.errors import UsageError
from ope_bench.plugins.registry import APART, Plugin, imported_packages, registry
from ope_bench.suites.suite import parse_selector

_OURS = {"ope_bench", "ope_estimators", "ope_environments"}

_METADATA = re.compile(
    r"METADATA|RECORD|WHEEL|INSTALLER|REQUESTED|direct_url\.json|(entry_points|top_level)\.txt"
    r"|(licenses/.*)?(licen[cs]e|copying|notice|authors)[\w-]*(\.(txt|md|rst))?|licenses/.*\.txt",
    re.IGNORECASE,
)
"""Files that describe a distribution; any other beside them counts."""

_HOOK = re.compile(r"[^/]+\.pth|(__editable__|_editable_impl_)[^/]*")
"""What the RECORD of a distribution has whose code lies apart."""

_COMPILED = {".so", ".pyd", ".dll", ".dylib", ".pyc", ".pyo"}


def submission_digest(estimators: Sequence[str]) -> str:
    """Return the digest of all code that estimators bring, and of the selectors.

    That is every file of their distributions, and of those that these require and ope-bench with
    its extras does not.

    Raises
    ------
    UsageError : a file cannot be reviewed, replaces another package's, or is no part of them.
    """
    plugins = [registry().find("estimator", parse_selector(one).reference) for one in estimators]
    own = {_normal(plugin.reference.partition(":")[0]) for plugin in plugins}
    shared = _shared()
    contents: list[Any] = [list(estimators)]
    for name in sorted(_required(own, shared, extras=False)):
        found = importlib.metadata.distribution(name)
        mine = [one for one in plugins if _normal(one.reference.partition(":")[0]) == name]
        files = _recorded(found, mine)
        whole = files is not None
        files = _in_place(mine, shared) if files is None else files
        for shown, path in files.items():
            if reason := _refusal(name, shown, path, whole=whole):
                msg = f"{name} {found.version}: {shown} {reason}; leave it out of the package"
                raise UsageError(msg)
        for plugin in mine:
            _check_module(plugin, files)
        contents.append([name, *([shown, sha256(path)] for shown, path in sorted(files.items()))])
    return digest(contents)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def _shared() -> frozenset[str]:
    """Return the distributions that ope-bench and its extras require."""
    return _required({"ope-bench"}, frozenset(), extras=True)


def _required(names: Collection[str], without: frozenset[str], *, extras: bool) -> frozenset[str]:
    """Return distributions and what they require, as far as it is installed."""
    known, waiting = set[str](), set(names)
    while waiting:
        name = waiting.pop()
        try:
            needs = importlib.metadata.distribution(name).requires or []
        except importlib.metadata.PackageNotFoundError:
            continue
        known.add(name)
        for need in needs:
            match = re.match(r"[\w.-]+", need)
            if match and ("extra ==" not in need or (extras and name in names)):
                waiting |= {_normal(match[0])} - known - without
    return frozenset(known)


def _recorded(
    found: importlib.metadata.Distribution, plugins: Sequence[Plugin]
) -> dict[str, Path] | None:
    """Return the files that the RECORD of a distribution names; None where its code lies apart."""
    if found.files is None:
        return None
    files = {
        one.as_posix(): Path(str(found.locate_file(one)))
        for one in found.files
        # What the installation adds: facts about it, commands, and caches, which have no hash.
        if not (
            (_describes(found, one.parts[0]) and _METADATA.fullmatch("/".join(one.parts[1:])))
            or (one.parts[0] == ".." and {"bin", "Scripts"} & {*one.parts})
            or (one.suffix == ".pyc" and one.hash is None and "__pycache__" in one.parts)
        )
    }
    url = json.loads(found.read_text("direct_url.json") or "{}")
    # An archive may say so, too, but it brings its code.
    brought = any(f"{one.target.partition(':')[0]}.py" in files for one in plugins)
    apart = not brought and all(map(_HOOK.fullmatch, files))
    return None if apart and url.get("dir_info", {}).get("editable") else files


def _describes(found: importlib.metadata.Distribution, folder: str) -> bool:
    name = folder.removesuffix(".dist-info").partition("-")[0]
    return folder.endswith(".dist-info") and _normal(name) == _normal(found.name)


def _in_place(plugins: Sequence[Plugin], shared: frozenset[str]) -> dict[str, Path]:
    """Return the files of packages that are installed in place, which no RECORD lists.

    These are the plugins' packages, and what they import from the same folder.
    """
    waiting = [plugin.target.partition(".")[0].partition(":")[0] for plugin in plugins]
    homes, known, files = set[Path](), set[str](), dict[str, Path]()
    first = len(set(waiting))
    while waiting:
        if (top := waiting.pop(0)) in known or _owners().get(top, set()) & shared:
            continue
        known.add(top)
        for place in _places(top):
            if len(known) <= first:
                homes.add(place.parent)
            for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
                source = path.parents[1] / f"{path.name.partition('.')[0]}.py"
                cached = path.suffix == ".pyc" and path.parent.name == "__pycache__"
                if (
                    place.parent not in homes
                    or not path.is_file()
                    or (cached and source.is_file())
                ):
                    continue
                files[path.relative_to(place.parent).as_posix()] = path
                if path.suffix == ".py":
                    # A template or data, where it is no Python.
                    with contextlib.suppress(SyntaxError, ValueError):
                        waiting += sorted(imported_packages(path.read_bytes()))
    return files


def _places(top: str) -> list[Path]:
    """Return the folders or the file of a package or module, none where it is not in files."""
    try:
        spec = importlib.util.find_spec(top) or PathFinder.find_spec(top, [APART])
    except ValueError:
        return []
    folders = (spec and spec.submodule_search_locations) or []
    files = folders or [(spec and spec.origin) or ""]
    return [Path(one) for one in files if one and Path(one).exists()]


def _owners() -> dict[str, set[str]]:
    """Return the distributions whose RECORD has files of each package."""
    owners = dict[str, set[str]]()
    for place in map(Path, [*sys.path, *filter(None, [APART])]):
        if place.is_dir():
            for top, names in _owners_in(place, place.stat().st_mtime_ns).items():
                owners[top] = owners.get(top, set()) | names
    return owners


@cache
def _owners_in(place: Path, changed: int) -> dict[str, set[str]]:
    owners = dict[str, set[str]]()
    for found in importlib.metadata.distributions(path=[str(place)]):
        for top in {one.parts[0].removesuffix(".py") for one in found.files or ()}:
            owners.setdefault(top, set()).add(_normal(found.name))
    return owners


def _refusal(name: str, shown: str, path: Path, *, whole: bool) -> str:
    """Return why a file may not be in a distribution; empty where it may."""
    top = shown.partition("/")[0].removesuffix(".py")
    if path.suffix == ".pth":
        return "runs at every start of Python"
    if re.search(r"\.(dist|egg)-info(/|$)", shown):
        return "describes no package"
    if path.suffix in _COMPILED:
        return "is compiled, so that nobody can review it"
    if top in {*sys.stdlib_module_names, "sitecustomize", "usercustomize"}:
        return "has the name of a module of Python"
    foreign = whole and top != ".." and _owners().get(top, {name}) != {name}
    if (top in _OURS and name != "ope-bench") or foreign:
        return "has the name of another distribution's package"
    return ""


def _check_module(plugin: Plugin, files: Mapping[str, Path]) -> None:
    """Raise UsageError if a plugin's module is not one of its distribution's files."""
    module = plugin.target.partition(":")[0].replace(".", "/")
    homes = [files[one] for one in (f"{module}.py", f"{module}/__init__.py") if one in files]
    top = module.partition("/")[0]
    tops = {path.resolve() for path in _places(top)}
    if not homes or not any(tops & {one.resolve(), *one.resolve().parents} for one in homes):
        msg = (
            f"{plugin.reference}: its module {plugin.target} is no file of its distribution, or "
            "another is imported instead; install the package again, alone"
        )
        raise UsageError(msg)
