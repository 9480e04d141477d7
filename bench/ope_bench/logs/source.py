"""The tables of a log, from files and frames alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from scipy import sparse

from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.reader import DataFileError, Table, TextForm, read_table, table_of
from ope_bench.reader.mistakes import Columns


def load_table(source: Any, columns: Columns, *, spelled: Any = (), form: TextForm) -> Table:
    """Load the named columns of a path, a data frame or a mapping of columns.

    Parameters
    ----------
    source, columns, spelled, form : as for `ope_bench.reader.read_table`.

    Raises
    ------
    DataFileError : a column is missing, or the file is damaged; the message has the place.
    """
    if not isinstance(source, str | Path):
        return table_of(source, columns, spelled=spelled, form=form)
    path = Path(source)
    if not path.exists():
        raise DataFileError(path, "no such file; paths are relative to the log file's folder")
    return read_table(path, columns, spelled=spelled, form=form)


def probabilities_of(
    table: Table, name: str, *, positive: bool = False, of: str = "the logged action"
) -> FloatArray:
    """Return a column of probabilities of which none is missing: (n,).

    Up to `SLACK` above 1 counts as 1, and down to that below 0 as 0.

    Parameters
    ----------
    table, name : the column.
    positive : whether 0 is refused, as of an action that was logged.
    of : whose probability it is, for messages.
    """
    column = table.column(name)
    column.require_values()
    if positive and column.kind == "boolean":
        column.error(0, f"truth values are no probabilities; write the probability of {of}")
    percent = "percents are divided by 100"
    values = column.numbers(cure=f"write the probability of {of}; {percent}")
    high, low = values > 1 + SLACK, values < -SLACK
    low = (values <= 0) if positive else low
    if high.any() or low.any():
        hint = _what_they_are(values)
        cure = f"write the probability with which the log's policy chose {of}" if positive else ""
        cure = hint or cure or f"it is not a probability; write that of {of}, 0 to 1"
        column.refuse_first(high, lambda one: f"{one} is above 1; {cure}")
        kind = "not positive, but the action was logged" if positive else "below 0"
        column.refuse_first(low, lambda one: f"{one} is {kind}; {cure}")
    if positive:
        what = "is so small that 1/p overflows; write the probability of the logged action"
        tiny = values < np.finfo(np.float64).tiny
        column.refuse_first(tiny, lambda one: f"{one} {what}")
    return np.clip(values, 0.0, 1.0)


SLACK = 1e-6
"""Distance beyond 0 or 1 of a probability that is a matter of rounding."""

ROUNDING = 1e-3
"""Largest distance from one of the sum of a row's probabilities, which are divided by it."""

_DIGITS = 1e-9


def distribution(
    matrix: sparse.csr_array, rows: IntArray, error: Callable[[int, str], NoReturn]
) -> sparse.csr_array:
    """Return the probabilities of all actions, checked and scaled to sum to one: (n, n_actions).

    Parameters
    ----------
    matrix : (n, n_actions), changed in place.
    rows : (n,), rows of the log that these are, for messages.
    error : raises at one of the n.
    """
    # Written so that NaN is wrong.
    wrong = ~((matrix.data >= -SLACK) & (matrix.data <= 1 + ROUNDING))
    if wrong.any():
        at = int(np.argmax(wrong))
        row = int(np.searchsorted(matrix.indptr, at, "right")) - 1
        error(row, f"row {rows[row]:,}: {matrix.data[at]:g} is not a probability")
    count = np.diff(matrix.indptr)
    total = np.bincount(np.repeat(np.arange(len(rows)), count), matrix.data, len(rows))
    apart = np.abs(total - 1.0)
    if (apart > ROUNDING).any():
        row = int(np.argmax(apart > ROUNDING))
        what = f"the probabilities of row {rows[row]:,} sum to {total[row]:g}"
        error(row, f"{what}; they must sum to 1 in every row")
    # Rows that sum to one but for the last digits keep theirs.
    scale = np.repeat(np.where(apart > _DIGITS, total, 1.0), count)
    matrix.data = np.maximum(matrix.data, 0.0) / scale
    matrix.eliminate_zeros()
    return matrix


def _what_they_are(values: FloatArray) -> str:
    """Return what numbers are that are no probabilities, and the cure; empty if unknown."""
    if (values <= 0).all() and (values < 0).any():
        return "the column holds logarithms; write exp of them"
    if (values == np.round(values)).all() and values.min() == 0:
        return "the column holds labels, not probabilities; write that of the logged action"
    if (values >= 0).all() and (values >= 1).mean() > 0.5 and values.max() <= 100 + 1e-9:
        whole = (values == np.round(values)).mean() > 0.5
        return "the column holds percents; divide them by 100" if whole else _DENSITY
    return _DENSITY if (values > 0).all() and (values > 1 + SLACK).mean() > 0.05 else ""


_DENSITY = (
    "write the probability of the logged action; percents are divided by 100, and densities of "
    "continuous actions are not read from a log: `ope-bench show kernel-ipws` says who takes them"
)
