"""Data files that environments read: their errors, and the folders of installed packages."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from ope_bench.errors import UsageError

__all__ = ["DataFileError", "installed_folder"]


class DataFileError(UsageError):
    """A data file is missing, damaged or not what it should be; the line names file and place."""

    def __init__(self, path: Path | str, what: str, *, where: str = "") -> None:
        self.path, self.what, self.where = str(path), what, where
        super().__init__(f"{path}{f', {where}' if where else ''}: {what}")

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (self.path, self.what, self.where)


def _restore(path: str, what: str, where: str) -> DataFileError:
    return DataFileError(path, what, where=where)


def installed_folder(package: str) -> Path | None:
    """The folder of an installed top-level package, which is found without being imported.

    >>> installed_folder("numpy").name, installed_folder("no_such_package_at_all")
    ('numpy', None)
    """
    spec = importlib.util.find_spec(package.partition(".")[0])
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))
