"""Batches of a log's rows, and what is known of the log before they are summed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ope_bench import Column, FloatArray, IntArray, Problem

__all__ = ["Batch", "Facts", "Units", "bounds"]


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of a log, all rows of their units among them.

    Parameters
    ----------
    log : the rows, with the log's attributes ``context``, ``action``, ``reward``, ``propensity``,
        ``weight`` and ``targets``.
    first : number of the first row.
    part : the task that they belong to, with ``starts``, the first rows of its units or None, and
        ``unit``, the number of the first of them; None for rows from anywhere.
    weight_before : sum of the row weights of all rows before.
    """

    log: Any
    first: int = 0
    part: Any = None
    weight_before: float = 0.0

    @property
    def reward(self) -> FloatArray:
        """The rewards: (k,)."""
        reward: FloatArray = self.log.reward
        return reward

    @property
    def action(self) -> IntArray:
        """The actions: (k,)."""
        action: IntArray = self.log.action
        return action

    @cached_property
    def tables(self) -> list[FloatArray | None]:
        """For each policy its probabilities, (k, n_actions), or None."""
        every = [one.matrix for one in self.log.targets.values()]
        return [None if one is None else np.asarray(one.toarray()) for one in every]

    @cached_property
    def weights(self) -> list[FloatArray]:
        """For each policy its importance weights: (k,)."""
        at = np.arange(len(self.reward))
        logged = [
            one.probability if table is None else table[at, self.action]
            for one, table in zip(self.log.targets.values(), self.tables, strict=True)
        ]
        return [one / self.log.propensity for one in logged]

    @cached_property
    def units(self) -> tuple[int, int]:
        """The number of the first unit, and that after the last."""
        if self.part is None or self.part.starts is None:
            return self.first, self.first + len(self.reward)
        ends = np.searchsorted(self.part.starts, [self.first, self.first + len(self.reward)])
        first, last = (ends + self.part.unit).tolist()
        return first, last

    @cached_property
    def starts(self) -> IntArray | None:
        """The rows of the batch at which a unit begins; None where each row is one: (units,)."""
        if self.part is None or self.part.starts is None:
            return None
        first, last = self.units
        starts: IntArray = self.part.starts[first - self.part.unit : last - self.part.unit]
        return starts - self.first

    def by_unit(self, values: FloatArray) -> FloatArray:
        """Return the sums over the rows of each unit."""
        if self.starts is None:
            return values
        return np.asarray(np.add.reduceat(values, self.starts, axis=0))


@dataclass(frozen=True, eq=False)
class Units:
    """The units of a log whose rows follow one another.

    Parameters
    ----------
    starts : (n_units,), the first row of each.
    rank : (n_units,), the place of each among the sorted names; None where they are sorted.
    apart : name of a unit whose rows do not follow one another, or None
    """

    starts: IntArray
    rank: IntArray | None
    apart: str | None

    @classmethod
    def of(cls, runs: Sequence[tuple[IntArray, Any]]) -> Units:
        """Return the units of runs of equal names, in parts: first rows and names."""
        starts, names = (np.concatenate(one) for one in zip(*runs, strict=True))
        names = names.astype(str) if names.dtype == object else names
        first = np.append(True, names[1:] != names[:-1])
        starts, names = starts[first], names[first]
        order = np.argsort(names, kind="stable")
        same = names[order][1:] == names[order][:-1]
        apart = str(names[order][1:][same][0]) if same.any() else None
        rank = None
        if not (np.diff(order) > 0).all():
            rank = np.empty(len(order), dtype=np.int64)
            rank[order] = np.arange(len(order))
        return cls(starts, rank, apart)

    def inside(self, first: int, last: int) -> tuple[IntArray, int]:
        """Return the first rows of the units between two rows, and the number of the first."""
        begin, end = np.searchsorted(self.starts, [first, last]).tolist()
        return self.starts[begin:end], begin


def bounds(sizes: Sequence[int], most: int, units: Units | None) -> list[int]:
    """Return the rows at which tasks begin, and the number of rows.

    Tasks have about ``most`` rows and end where row groups do, or at a unit's begin before.

    >>> bounds([4, 4, 4], 8, None)
    [0, 8, 12]
    """
    ends = np.cumsum(sizes)
    before = ends - sizes
    cuts = ends[:-1][ends[:-1] // most > before[:-1] // most]
    if units is not None and len(cuts):
        cuts = units.starts[np.searchsorted(units.starts, cuts, "right") - 1]
    return sorted({0, *cuts.tolist(), int(ends[-1])})


@dataclass(frozen=True, eq=False, kw_only=True)
class Facts:
    """What is known of a log before its rows are summed.

    Parameters
    ----------
    n : number of rows.
    units : of the log; None where each row is one.
    weight : sum of the row weights, or None
    pilot : some rows of the whole log.
    problem : of the pilot rows and a policy; None in a worker.
    streams : returns the random stream of a shared fit.
    reward_limits : smallest and largest reward, known or seen.
    """

    n: int
    units: Units | None
    weight: float | None
    pilot: Any
    problem: Problem | None
    streams: Any
    reward_limits: tuple[float, float]

    @property
    def n_units(self) -> int:
        """Number of units."""
        return self.n if self.units is None else len(self.units.starts)

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return len(self.pilot.actions)

    @property
    def context(self) -> tuple[Column, ...]:
        """Kinds of the context's columns."""
        columns: tuple[Column, ...] = self.pilot.schema.context
        return columns
