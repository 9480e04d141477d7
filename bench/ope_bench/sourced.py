"""Outcomes with what made them: the digest of their code, and the machine that ran them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ope_bench.contracts.arrays import IntArray
from ope_bench.trials.outcomes import ObjectArray, Outcomes
from ope_bench.trials.record import TrialRecord


@dataclass(frozen=True, eq=False, kw_only=True)
class SourcedOutcomes(Outcomes):
    """Trials by column, with what made them.

    Parameters
    ----------
    code : digest of the code; empty where a trial ended before it was known.
    machine : processor that ran the trial; empty where unknown.
    part : number of the setting, where several are averaged as one; else 0.
    """

    code: ObjectArray
    machine: ObjectArray
    part: IntArray

    @classmethod
    def of(cls, records: Iterable[TrialRecord]) -> Self:
        """Return the columns of records, in their order."""
        kept = list(records)
        return cls.extended(Outcomes.of(kept), [one.code_digest for one in kept])

    @classmethod
    def from_columns(cls, columns: Mapping[str, Sequence[Any]]) -> Self:
        """Return outcomes of columns of plain values."""
        plain = Outcomes.from_columns(columns)
        return cls.extended(plain, columns["code"], columns["machine"])

    @classmethod
    def extended(
        cls, outcomes: Outcomes, code: Sequence[str] = (), machine: Sequence[str] = ()
    ) -> Self:
        """Return outcomes with these columns, by default of unknown code and machine."""
        if isinstance(outcomes, cls):
            return outcomes
        columns = [np.full(len(outcomes), "", np.object_) for _ in range(2)]
        for column, values in zip(columns, (code, machine), strict=True):
            if len(values):
                column[:] = values
        part = np.zeros(len(outcomes), np.int64)
        return cls(**vars(outcomes), code=columns[0], machine=columns[1], part=part)

    @property
    def codes(self) -> int:
        """Return how many digests the trials have, at least one."""
        return max(1, len({*self.code.tolist()} - {""}))

    @property
    def sources(self) -> frozenset[str]:
        """Return the digests of the trials, and the runs that made or hold them."""
        columns = (self.code, self.made_by, self.selected_by)
        return frozenset(name for column in columns for name in column.tolist())


def linked(cells: Iterable[frozenset[str]]) -> list[frozenset[str]]:
    """Return the groups of cells that share a digest or a run, as all their sources.

    Of two settings the digests may differ since their environments do; the trials of one run are
    of one state of the code.
    """
    groups: list[frozenset[str]] = []
    for cell in cells:
        apart = [one for one in groups if one.isdisjoint(cell)]
        groups = [*apart, cell.union(*(one for one in groups if not one.isdisjoint(cell)))]
    return groups


def codes_over(cells: Iterable[tuple[str, frozenset[str]]]) -> int:
    """Return how many versions of the code the cells of a row over settings are of.

    Parameters
    ----------
    cells : id of the environment, and `SourcedOutcomes.sources`, of each setting. Digests of
        different environments are not compared, nor are cells whose sources are unknown, as
        those of a JSON document.
    """
    by_environment: dict[str, list[frozenset[str]]] = {}
    for environment, sources in cells:
        if sources:
            by_environment.setdefault(environment, []).append(sources)
    return max((len(linked(one)) for one in by_environment.values()), default=1)
