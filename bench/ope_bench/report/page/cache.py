"""Parts of a page that depend on installed packages alone, kept in the user's cache folder.

Where that folder cannot be written, a part is made anew for every page.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ope_bench.errors import OpeBenchError
from ope_bench.files import atomic_write

__all__ = ["cached", "is_cached", "keep"]


def cached(name: str, make: Callable[[], str]) -> str:
    """Return what is kept under a name; make it and keep it where there is nothing.

    Parameters
    ----------
    name : file name that differs for every version of what the part is made of.
    """
    with suppress(OSError, UnicodeError, RuntimeError):
        return _file(name).read_text(encoding="utf-8")
    return keep(name, make())


def is_cached(name: str) -> bool:
    """Return whether something is kept under a name."""
    with suppress(OSError, RuntimeError):
        return _file(name).is_file()
    return False


def keep(name: str, text: str) -> str:
    """Return the text, and keep it if that is possible."""
    with suppress(OSError, OpeBenchError, RuntimeError):
        _file(name).parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(_file(name), OpeBenchError) as partial:
            partial.write_text(text, encoding="utf-8")
    return text


def _file(name: str) -> Path:
    # A user without a home folder: RuntimeError.
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder, "ope-bench", name)
