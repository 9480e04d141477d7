"""Folders of installed packages."""

from __future__ import annotations

import importlib.util
from pathlib import Path

__all__ = ["installed_folder"]


def installed_folder(package: str) -> Path | None:
    """Find the folder of an installed top-level package, without importing it.

    >>> installed_folder("numpy").name, installed_folder("no_such_package_at_all")
    ('numpy', None)
    """
    spec = importlib.util.find_spec(package.partition(".")[0])
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))
