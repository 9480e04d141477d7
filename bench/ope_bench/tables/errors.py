"""Errors of data files."""

from __future__ import annotations

from pathlib import Path

from ope_bench.errors import UsageError

__all__ = ["DataFileError"]


class DataFileError(UsageError):
    """A data file is missing, damaged or of the wrong form; the message names file and place."""

    def __init__(self, path: Path | str, what: str, *, where: str = "") -> None:
        self.path, self.what, self.where = str(path), what, where
        super().__init__(f"{path}{f', {where}' if where else ''}: {what}")

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (self.path, self.what, self.where)


def _restore(path: str, what: str, where: str) -> DataFileError:
    return DataFileError(path, what, where=where)
