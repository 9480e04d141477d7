"""Mistakes in data files, with their places."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from ope_bench.base.errors import UsageError, did_you_mean

Columns = Sequence[str] | Callable[[list[str]], Iterable[str]] | None
"""Names of columns, a function that chooses among those of a table, or None for all."""


class DataFileError(UsageError):
    """A data file is missing, damaged or of the wrong form; the message names file and place."""

    def __init__(self, path: Path | str, what: str, *, where: str = "") -> None:
        self.path, self.what, self.where = str(path), what, where
        super().__init__(f"{path}{f', {where}' if where else ''}: {what}")

    def __reduce__(self) -> tuple[object, ...]:
        return partial(DataFileError, where=self.where), (self.path, self.what)


def column_indices(
    path: Path | str, header: Sequence[str], names: Iterable[str]
) -> dict[str, int]:
    """Return the index of each column; a DataFileError lists the known ones."""
    # Not list.index: with as many names as columns the time would be quadratic.
    at = {name: k for k, name in enumerate(header)}
    for name in (names := list(names)):
        if name not in at:
            shown = ", ".join(header[:20]) + (", ..." if len(header) > 20 else "")
            cure = "correct the name where it is asked for, or in the table"
            if header and header[0].lower().startswith(("#", "sep=")):
                cure = "its first line is no header, take it out"
            elif "\0" in "".join(header[:2]):
                cure = "give its `encoding`, such as utf-16-le, if it is text"
            elif len(header) == 1 and any(mark in header[0] for mark in " ,;:\t|~^"):
                cure = "give `delimiter` if the fields are apart by another mark"
            what = f"has no column '{name}'{did_you_mean(name, header)} (it has: {shown}); {cure}"
            raise DataFileError(path, what)
    return {name: at[name] for name in names}


def is_index(name: str) -> bool:
    """Return whether a column is the unnamed index that pandas writes into a file.

    >>> [is_index(one) for one in ("", "Unnamed: 0", "__index_level_0__", "index")]
    [True, True, True, False]
    """
    return re.fullmatch(r"|Unnamed: \d+|__index_level_\d+__", name.strip()) is not None


def wanted_columns(path: Path | str, header: list[str], columns: Columns) -> list[str]:
    """Return the names of the columns that are asked for, each once.

    Raises
    ------
    DataFileError : there is none of a name, or two.
    """
    asked = header if columns is None else columns(header) if callable(columns) else columns
    names = list(dict.fromkeys(asked))
    count = Counter(header)
    for name in names:
        if count[name] > 1:
            places = [str(k) for k, one in enumerate(header, start=1) if one == name]
            what = f"two columns are called '{name}' ({' and '.join(places)}); rename one of them"
            raise DataFileError(path, what)
    column_indices(path, header, names)
    return names
