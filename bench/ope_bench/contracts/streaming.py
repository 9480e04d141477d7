"""Interface of what computes estimates from sums over batches of rows, and what it is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ope_bench.contracts.arrays import IntArray
from ope_bench.contracts.data import Problem
from ope_bench.contracts.plugins import Estimator

GROUP = "ope_bench.streaming"
"""The group of entry points with one `Streaming`."""


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


@dataclass(frozen=True, eq=False, kw_only=True)
class LogFacts:
    """What is known of a log before its rows are summed.

    Parameters
    ----------
    n : number of rows.
    units : of the log; None where each row is one.
    weight : sum of the row weights, or None
    pilot : some rows of the whole log.
    problem_of : returns the problem of some rows and a policy, by its name.
    streams : returns the random stream of a shared fit.
    reward_limits : smallest and largest reward, known or seen.
    """

    n: int
    units: Units | None
    weight: float | None
    pilot: Any
    problem_of: Callable[[Any, str], Problem]
    streams: Callable[[Any], np.random.Generator]
    reward_limits: tuple[float, float]

    @property
    def n_units(self) -> int:
        """Number of units."""
        return self.n if self.units is None else len(self.units.starts)


class StreamedSums(Protocol):
    """Estimates of a log's policies from sums over its batches.

    `sums` of every batch are `add`ed up and given to `advance`, until all is ``done``. It is sent
    to workers, and in them needs no rows but those of the batch.
    """

    done: bool

    def sums(self, log: Any, first: int, part: Any, weight_before: float) -> Any:
        """Return the sums over a batch of the present pass.

        Parameters
        ----------
        log : the rows.
        first : number of the first row.
        part : the task that they belong to, with ``starts``, the first rows of its units or None,
            and ``unit``, the number of the first of them.
        weight_before : sum of the row weights of all rows before.
        """

    def add(self, first: Any, second: Any) -> Any:
        """Return the sums of two sets of batches."""

    def advance(self, total: Any) -> None:
        """Take the sums over all batches, and decide what is to be summed next."""

    def records(self, p: int) -> list[dict[str, Any]]:
        """Return the fields of a trial's record for each estimator of a policy."""

    def differences(self, p: int, q: int) -> list[tuple[float, float | None, float] | None]:
        """Return for each estimator the difference of two policies, its error and a value's size.

        Parameters
        ----------
        p, q : numbers of the policies; p is the larger.
        """

    def weights_note(self, p: int) -> str:
        """Return what the weights of all rows are, in one sentence; "" where nobody used them."""

    @property
    def average(self) -> float | None:
        """The mean logged reward; None before all is summed."""

    def unsupported_mass(self, p: int) -> float | None:
        """Return the share of a policy on actions that no row logged."""


class Streaming(Protocol):
    """A class under an entry point of the group ``ope_bench.streaming``.

    ``default_estimators`` are those that run where nobody names any.
    """

    default_estimators: tuple[str, ...]

    def __call__(self, estimators: Sequence[Estimator], facts: LogFacts) -> StreamedSums:
        """Return the sums to be made; estimators that cannot be so computed have the reason."""
