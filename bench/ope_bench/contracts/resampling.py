"""Draw units of logged and target rows with replacement; problems of some of their rows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ope_bench.contracts.arrays import IntArray
from ope_bench.contracts.data import ROW_ARRAYS, Problem

_TARGET = ("target_context", "target_action", "target_embedding", "target_unit")


class DrawnRows(NamedTuple):
    """Rows of units that were drawn with replacement, in the order of `View.rows`.

    Parameters
    ----------
    logged, target : indices of the rows.
    unit, target_unit : number of each row's draw, the same in both samples: the copies of a unit
        that was drawn twice have two numbers.
    """

    logged: IntArray
    target: IntArray
    unit: IntArray
    target_unit: IntArray


class UnitSampler:
    """Draws as many units as there are; a unit with rows in both samples brings those of both.

    Where no unit is in both samples, each keeps its number of units. Rows are in the order in
    which units were drawn, and within a unit as in the data. The target sample may be empty.

    Parameters
    ----------
    unit : (n,)
    target_unit : (m,)

    >>> sampler = UnitSampler(np.array([5, 5, 7]), np.array([9]))
    >>> for name, rows in sampler.draw(np.random.default_rng(0))._asdict().items():
    ...     print(name, rows)
    logged [2 2]
    target [0]
    unit [0 1]
    target_unit [2]
    """

    def __init__(self, unit: IntArray, target_unit: IntArray) -> None:
        known, target_known = np.unique(unit), np.unique(target_unit)
        self._together = bool(np.isin(known, target_known, assume_unique=True).any())
        if self._together:
            known = target_known = np.union1d(known, target_known)
        self._logged = _Groups(unit, known)
        self._target = _Groups(target_unit, target_known)

    def draw(self, rng: np.random.Generator, share: float = 1.0) -> DrawnRows:
        """Return the drawn rows of the logs and of the target sample.

        Parameters
        ----------
        rng : draws the units.
        share : units drawn over their number.
        """
        drawn = self._logged.draw(rng, share)
        target_drawn = drawn if self._together else self._target.draw(rng, share)
        first = 0 if self._together else len(drawn)
        logged, unit = self._logged.rows_of(drawn)
        target, target_unit = self._target.rows_of(target_drawn)
        return DrawnRows(logged, target, unit, first + target_unit)


class _Groups:
    """The rows of each unit."""

    def __init__(self, unit: IntArray, known: IntArray) -> None:
        self._order = np.argsort(unit, kind="stable")
        grouped = unit[self._order]
        self._first = np.searchsorted(grouped, known, side="left")
        self._count = np.searchsorted(grouped, known, side="right") - self._first

    def draw(self, rng: np.random.Generator, share: float) -> IntArray:
        """Draw positions of units; none where there are none."""
        n = len(self._count)
        return rng.integers(max(1, n), size=math.ceil(share * n))

    def rows_of(self, drawn: IntArray) -> tuple[IntArray, IntArray]:
        """Return the rows of each drawn unit, one unit after the other, and each row's draw."""
        count = self._count[drawn]
        before = np.cumsum(count) - count
        start = np.repeat(self._first[drawn] - before, count)
        return self._order[start + np.arange(len(start))], np.repeat(np.arange(len(drawn)), count)


def problem_rows(
    problem: Problem, logged: IntArray, target: IntArray | None = None, **changes: Any
) -> Problem:
    """Return the problem of some rows, repeated or in another order.

    Copies of a row have the unit of that row. Contexts that know which rows of a log they are
    still do.

    Parameters
    ----------
    problem : source of the rows.
    logged : indices of logged rows.
    target : indices of target rows, where the problem has any; as ``logged`` where contexts are
        shared.
    changes : fields of the new problem that are not those of the rows.
    """
    parts: dict[str, Any] = {"unit": problem.unit}
    if parts["unit"] is None:
        parts["unit"] = np.arange(len(problem.reward))
        if problem.has_target_sample and not problem.shared_contexts:
            parts["target_unit"] = len(problem.reward) + np.arange(len(problem.target_sample[1]))
    found = {}
    for names, rows in ((ROW_ARRAYS, logged), (_TARGET, target)):
        for name in names:
            values = parts.get(name, getattr(problem, name))
            found[name] = None if values is None or rows is None else values[rows]
    made = replace(problem, **{**found, **changes})
    for name in ("context", "target_context"):
        values = changes.get(name, found[name])
        if values is not None and type(values) is not np.ndarray:
            # Validation makes plain arrays.
            values.flags.writeable = False
            object.__setattr__(made, name, values)
    return made
