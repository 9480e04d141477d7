"""The diagnostics of many trials, in tables."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ope_bench.contracts.arrays import FloatArray, IntArray

__all__ = ["DiagnosticColumn"]

Table = Mapping[str, npt.NDArray[Any]]
"""The values of trials with the same names, by name: (trials,), floats or objects."""

AT_ONCE = 1_000
"""Trials whose mappings are in memory at once."""


@dataclass(frozen=True, eq=False)
class DiagnosticColumn:
    """The diagnostics of trials, which mostly have the same names.

    A mapping for each trial would take eight times the memory of its numbers.

    Parameters
    ----------
    tables : one for each order of names.
    table : (n,), the table of each trial.
    place : (n,), its place in that table.
    """

    tables: tuple[Table, ...]
    table: IntArray
    place: IntArray

    @classmethod
    def of(cls, mappings: Sequence[Mapping[str, Any]]) -> Self:
        """Return the column of each trial's mapping."""
        groups: dict[tuple[str, ...], list[int]] = {}
        for trial, one in enumerate(mappings):
            groups.setdefault(tuple(one), []).append(trial)
        table, place = (np.empty(len(mappings), np.int64) for _ in range(2))
        tables: list[Table] = []
        for number, (names, trials) in enumerate(groups.items()):
            table[trials], place[trials] = number, np.arange(len(trials))
            values = zip(*(mappings[trial].values() for trial in trials), strict=True)
            tables.append(dict(zip(map(sys.intern, names), map(_array, values), strict=True)))
        return cls(tuple(tables), table, place)

    @classmethod
    def empty(cls, n: int) -> Self:
        """Return the column of n trials without diagnostics."""
        return cls.of([{}] * n)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the trials of at least one part, one part behind another."""
        starts = itertools.accumulate((len(one.tables) for one in parts[:-1]), initial=0)
        shifted = [one.table + start for one, start in zip(parts, starts, strict=True)]
        tables = itertools.chain.from_iterable(one.tables for one in parts)
        places = np.concatenate([one.place for one in parts])
        return cls(tuple(tables), np.concatenate(shifted), places)

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, rows: Any) -> Self:
        """Return some of the trials; they share the tables."""
        return type(self)(self.tables, self.table[rows], self.place[rows])

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the mapping of each trial."""
        for start in range(0, len(self), AT_ONCE):
            yield from self[start : start + AT_ONCE].tolist()

    def tolist(self) -> list[dict[str, Any]]:
        """Return the mapping of each trial."""
        found: list[dict[str, Any]] = [{} for _ in range(len(self))]
        for table, trials in self._parts:
            places = self.place[trials]
            columns = [values[places].tolist() for values in table.values()]
            for trial, values in zip(trials.tolist(), zip(*columns, strict=True), strict=False):
                found[trial] = dict(zip(table, values, strict=True))
        return found

    @cached_property
    def _parts(self) -> list[tuple[Table, IntArray]]:
        """The tables in use, each with its trials."""
        used = np.unique(self.table).tolist()
        return [(self.tables[number], np.flatnonzero(self.table == number)) for number in used]

    @property
    def names(self) -> list[str]:
        """Return the names that at least one trial has."""
        return list(dict.fromkeys(name for table, _ in self._parts for name in table))

    def values(self, name: str) -> list[Any]:
        """Return each trial's value of this name; None where it has none."""
        found = np.full(len(self), None, np.object_)
        for table, trials in self._parts:
            if name in table:
                found[trials] = table[name][self.place[trials]]
        return list(found.tolist())

    def finite_numbers(self) -> dict[str, FloatArray]:
        """Return the finite numbers of each name that has any, in the order of their trials.

        Names come in the order in which trials first have a finite number of them.
        """
        found: dict[tuple[int, int], tuple[str, FloatArray]] = {}
        for name in self.names:
            numbers = self._numbers(name)
            finite = np.isfinite(numbers)
            if finite.any():
                first = int(finite.argmax())
                order = list(self.tables[self.table[first]]).index(name)
                found[first, order] = name, numbers[finite]
        return dict(found[at] for at in sorted(found))

    def _numbers(self, name: str) -> FloatArray:
        """Return each trial's number of this name; NaN where it has none: (n,)."""
        found = np.full(len(self), np.nan)
        for table, trials in self._parts:
            if name in table:
                values = table[name][self.place[trials]]
                exact = values.dtype == np.float64
                found[trials] = values if exact else [_number(one) for one in values.tolist()]
        return found


def _array(values: Sequence[Any]) -> npt.NDArray[Any]:
    if set(map(type, values)) == {float}:
        return np.array(values, np.float64)
    column = np.empty(len(values), np.object_)
    # A word is that of thousands of trials.
    column[:] = [sys.intern(one) if type(one) is str else one for one in values]
    return column


def _number(value: object) -> float:
    try:
        return float(value) if isinstance(value, int | float) else np.nan
    except OverflowError:  # an integer of an older store
        return np.nan
