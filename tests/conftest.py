"""Settings of all tests: one thread, compiled modules that are kept, the dearest files first.

Trials are pinned to one thread by the harness; tests that call estimators directly would else
start a thread pool a core, which on a busy machine costs minutes and buys nothing.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

# On a busy machine any example may take seconds, which says nothing of the code. In CI the
# examples are the same each time, so that a red run is about the change at hand.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# Tests start hundreds of processes, each of which would compile all of our modules anew. Tests of
# mutants, whose files change within a second, ask for that.
if os.environ.get("PYTHONDONTWRITEBYTECODE") != "mutants":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Freeze what is collected: the garbage collector would walk through it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, Any, list[Any]]:
    """Look for doctests in the packages only: tests have none."""
    return [one for one in (yield) if not isinstance(one, DoctestModule)]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that have a slow test, so that no process waits for one at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="session", autouse=True)
def _cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the user's cache folder unchanged: all processes of pytest use one that it removes."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "caches"))
        yield
