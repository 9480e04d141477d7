"""Features and labels: scikit-learn's bundled sets, or a table with a column of labels."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from ope_bench.arrays import FloatArray, IntArray
from ope_bench.errors import ParameterError, did_you_mean
from ope_environments.data_files import DataFileError
from ope_environments.tables import read_table

__all__ = ["BUNDLED", "Labelled", "labelled"]

BUNDLED = ("breast_cancer", "digits", "iris", "wine")


@dataclass(frozen=True, eq=False)
class Labelled:
    """A classification data set.

    Parameters
    ----------
    features : (n, d), categorical columns one-hot
    label : (n,), in [0, number of labels)
    names : of the labels, in their order
    """

    features: FloatArray
    label: IntArray
    names: tuple[str, ...]


def labelled(dataset: str, label: str | None) -> Labelled:
    """The data set of that name, or the table at that path.

    Raises
    ------
    UnavailableError : there is no such file.
    DataFileError : the table is damaged, or its labels are one only.
    ParameterError : neither a name nor a path, or a path without the name of its label column.
    """
    if dataset in BUNDLED:
        return _bundled(dataset)
    path = Path(dataset)
    if not path.suffix and len(path.parts) == 1 and not path.is_file():
        msg = (
            f"multiclass: no data set '{dataset}'{did_you_mean(dataset, BUNDLED)} (there are"
            f" {', '.join(BUNDLED)}, and any table by its path)"
        )
        raise ParameterError(msg)
    if label is None:
        msg = f"multiclass: name the column of {path.name} that holds the labels as 'label'"
        raise ParameterError(msg)
    stat = path.stat() if path.is_file() else None
    return _table(path, label, (stat.st_mtime_ns, stat.st_size) if stat else None)


@lru_cache(maxsize=4)
def _bundled(name: str) -> Labelled:
    bunch = getattr(importlib.import_module("sklearn.datasets"), f"load_{name}")()
    names = tuple(map(str, bunch.target_names))
    return Labelled(bunch.data.astype(np.float64), bunch.target.astype(np.int64), names)


@lru_cache(maxsize=4)
def _table(path: Path, label: str, _state: object) -> Labelled:
    table = read_table(path)
    if label not in table.names:
        from ope_environments.tables import column_index

        column_index(path, table.names, label)
    code, names = table.words(label)
    if len(names) < 2:
        raise DataFileError(path, f"column '{label}' holds one label only, {names[0]!r}")
    columns = []
    for name in table.names:
        if name == label:
            continue
        numbers = table.as_numbers(name)
        if numbers is not None:
            columns.append(numbers[:, None])
            continue
        word, words = table.words(name)
        if len(words) > max(20, table.n // 10):
            what = f"{len(words):,} different words in {table.n:,} rows are no feature"
            row = int(np.argmax(word == word.max()))
            table.fail(row, name, what)
        columns.append(np.eye(len(words))[word])
    if not columns:
        raise DataFileError(path, f"has no column but '{label}'")
    return Labelled(np.concatenate(columns, axis=1), code, tuple(names))
