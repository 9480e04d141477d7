"""Columns as arrays: codes of words, indicators of missing values."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.schema import Column
from ope_bench.tables.errors import DataFileError
from ope_bench.tables.table import Table

__all__ = ["Encoded", "encode"]


@dataclass(frozen=True, eq=False)
class Encoded:
    """Columns of a table as numbers.

    Parameters
    ----------
    values : (n, d)
    columns : (d,), kinds of the columns.
    names : (d,), column of the table from which each was made.
    notes : what was done about missing values, one line each.
    words : the categories of each categorical column, in the order of their codes.
    """

    values: FloatArray
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    notes: tuple[str, ...]
    words: dict[str, tuple[str, ...]]


def encode(
    table: Table, names: Sequence[str], categorical: Collection[str], *, atoms: bool = False
) -> Encoded:
    """Encode columns: words as codes; numbers as they are.

    A missing number is replaced by the column's median, and a further column says where; a missing
    word is a category of its own.

    Parameters
    ----------
    table : the columns, with NaN and empty words where values are missing.
    names : columns, in this order.
    categorical : those of them that hold words or codes.
    atoms : numbers describe finitely many items.
    """
    arrays: list[FloatArray] = []
    kinds: list[Column] = []
    origin: list[str] = []
    notes: list[str] = []
    words: dict[str, tuple[str, ...]] = {}
    for name in names:
        if name in categorical:
            code, distinct = table.words(name)
            arrays.append(code.astype(np.float64))
            kinds.append(Column("categorical", tuple(map(float, range(len(distinct))))))
            origin.append(name)
            words[name] = tuple(distinct)
            if "" in distinct:
                missing = int((code == distinct.index("")).sum())
                notes.append(f"{name}: {missing:,} missing, a category of their own")
            continue
        values = table.number(name)
        missing_at = np.isnan(values)
        if missing_at.all():
            raise DataFileError(table.path, f"column '{name}' has no value; remove it")
        arrays.append(values)
        kinds.append(Column("atoms") if atoms else Column())
        origin.append(name)
        if missing_at.any():
            median = float(np.median(values[~missing_at]))
            arrays[-1] = np.where(missing_at, median, values)
            arrays.append(missing_at.astype(np.float64))
            kinds.append(Column("categorical", (0.0, 1.0)))
            origin.append(name)
            notes.append(
                f"{name}: {int(missing_at.sum()):,} missing, set to the median {median:g} and "
                "marked by an indicator"
            )
    values = np.stack(arrays, axis=1)
    return Encoded(values, tuple(kinds), tuple(origin), tuple(notes), words)
