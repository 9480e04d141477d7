"""Outcomes of many trials by column, of which boards are made without holding records."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.plugins import STANDARD_ERROR_WITHHELD
from ope_bench.plugins.spec import PluginSpec
from ope_bench.trials.record import TrialRecord
from ope_bench.trials.status import Status

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
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the trials of at least one part, one part behind another."""
        starts = itertools.accumulate((len(one.tables) for one in parts[:-1]), initial=0)
        shifted = [one.table + start for one, start in zip(parts, starts, strict=True)]
        tables = itertools.chain.from_iterable(one.tables for one in parts)
        places = np.concatenate([one.place for one in parts])
        return cls(tuple(tables), np.concatenate(shifted), places)

    def only(self, names: Collection[str]) -> Self:
        """Return the same trials with the values of these names alone."""
        tables = tuple({name: one[name] for name in one if name in names} for one in self.tables)
        return type(self)(tables, self.table, self.place)

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
            numbers = np.full(len(self), np.nan)
            for table, trials in self._parts:
                if name in table:
                    values = table[name][self.place[trials]]
                    exact = values.dtype == np.float64
                    numbers[trials] = values if exact else [*map(_number, values.tolist())]
            finite = np.isfinite(numbers)
            if finite.any():
                first = int(finite.argmax())
                order = list(self.tables[self.table[first]]).index(name)
                found[first, order] = name, numbers[finite]
        return dict(found[at] for at in sorted(found))


def _array(values: Sequence[Any]) -> npt.NDArray[Any]:
    if set(map(type, values)) == {float}:
        return np.array(values, np.float64)
    # A word is that of thousands of trials.
    return _objects([sys.intern(one) if type(one) is str else one for one in values])


def _number(value: object) -> float:
    try:
        return float(value) if isinstance(value, int | float) else np.nan
    except OverflowError:  # an integer of an older store
        return np.nan


BoolArray = npt.NDArray[np.bool_]
ObjectArray = npt.NDArray[np.object_]
Rows = IntArray | BoolArray | slice

STATUSES = tuple(Status)
"""The statuses in the order of their numbers in `Outcomes.status`."""

_NUMBER = {status: number for number, status in enumerate(STATUSES)}


class Sources(NamedTuple):
    """What tells the code of some trials of an estimator.

    Parameters
    ----------
    names : digests of the trials, and the runs that made or hold them.
    estimator : digests of the estimator alone, which are the same on every environment.
    """

    names: frozenset[str] = frozenset()
    estimator: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcomes:
    """Trials by column; all columns are (n,), and a number that does not exist is NaN.

    Parameters
    ----------
    environment, estimator : specs.
    key, data_key : of the trial, and of the data that it ran on.
    status : index in `STATUSES`.
    interval_kind : a word or None.
    diagnostics : mappings of each trial's own.
    made_by, selected_by : ids of the run that executed the trial, and of the newest one that has
        it among its trials; empty outside of stores.
    machine : processor that ran the trial; empty outside of stores.
    run : number of the newest run that has the trial, in the order of runs; 0 outside of stores.
    code : digest of the code; empty where a trial ended before it was known.
    own_code : digest of the estimator's code alone; empty where unknown and outside of stores.
    part : number of the setting, where several are averaged as one; else 0.
    seed ... exclusive : see `ope_bench.trials.record.TrialRecord`.
    """

    environment: ObjectArray
    estimator: ObjectArray
    key: ObjectArray
    data_key: ObjectArray
    seed: IntArray
    replicate: IntArray
    device: ObjectArray
    threads: IntArray
    salt: ObjectArray
    status: IntArray
    estimate: FloatArray
    standard_error: FloatArray
    fallback: FloatArray
    truth_expected: FloatArray
    truth_expected_se: FloatArray
    truth_empirical: FloatArray
    logging_average: FloatArray
    unsupported_mass: FloatArray
    observed_unsupported_mass: FloatArray
    n_logged_actions: FloatArray
    n_target_actions: FloatArray
    ess_fraction: FloatArray
    max_weight_share: FloatArray
    fit_seconds: FloatArray
    fit_cpu_seconds: FloatArray
    estimate_seconds: FloatArray
    peak_rss_bytes: FloatArray
    interval_low: FloatArray
    interval_high: FloatArray
    interval_level: FloatArray
    interval_kind: ObjectArray
    exclusive: BoolArray
    access: ObjectArray
    origin: ObjectArray
    environment_origin: ObjectArray
    error_type: ObjectArray
    error_message: ObjectArray
    traceback: ObjectArray
    output_tail: ObjectArray
    note: ObjectArray
    diagnostics: DiagnosticColumn
    made_by: ObjectArray
    selected_by: ObjectArray
    machine: ObjectArray
    own_code: ObjectArray
    run: IntArray
    code: ObjectArray
    part: IntArray

    @classmethod
    def of(cls, records: Iterable[TrialRecord]) -> Self:
        """Return the columns of records, in their order."""
        kept = list(records)
        trials = [record.trial for record in kept]
        columns: dict[str, list[Any]] = {
            name: [getattr(trial, name) for trial in trials] for name in OF_TRIAL
        }
        columns["device"] = [trial.device.value for trial in trials]
        columns |= {name: [getattr(record, name) for record in kept] for name in OF_RECORD}
        columns |= {name: [""] * len(kept) for name in OF_STORE}
        columns["code"] = [record.code_digest for record in kept]
        return cls.from_columns(columns)

    @classmethod
    def by_setting(cls, records: Iterable[TrialRecord]) -> Iterator[Self]:
        """Yield the outcomes of each setting of an environment, as they first come."""
        settings: dict[str, list[TrialRecord]] = {}
        for record in records:
            settings.setdefault(record.trial.environment.identity_json, []).append(record)
        return map(cls.of, settings.values())

    @classmethod
    def from_columns(cls, columns: Mapping[str, Sequence[Any]]) -> Self:
        """Return outcomes of columns of plain values; None for numbers that do not exist.

        Parameters
        ----------
        columns : by the names of this class's parameters; of one run and part by default.

        Raises
        ------
        ValueError, LookupError : a value is none of its column.
        """
        given = {**dict.fromkeys(("run", "part"), [0] * len(columns["key"])), **columns}
        return cls(**{name: make(given[name]) for name, make in _ARRAYS.items()})

    @classmethod
    def joined(cls, parts: Iterable[Self], most: int) -> Self:
        """Return the trials of at least one part, one part behind another.

        Parts may be made one after another: of each, only its diagnostics are kept.

        Parameters
        ----------
        parts : the trials.
        most : number of all trials, or more.
        """
        columns: dict[str, Any] = {}
        diagnostics: list[DiagnosticColumn] = []
        filled = 0
        for part in parts:
            arrays = {name: one for name, one in vars(part).items() if name != "diagnostics"}
            if not columns:
                columns = {name: np.empty(most, one.dtype) for name, one in arrays.items()}
            for name, one in arrays.items():
                columns[name][filled : filled + len(one)] = one
            diagnostics.append(part.diagnostics)
            filled += len(part)
        known = {name: one[:filled] for name, one in columns.items()}
        return cls(**known, diagnostics=DiagnosticColumn.joined(diagnostics))

    def __len__(self) -> int:
        return len(self.key)

    def take(self, rows: Rows) -> Self:
        """Return some of the trials, in the order of ``rows``; itself if that is all, in order."""
        n = len(self)
        if isinstance(rows, slice):
            everything = rows == slice(0, n)
        elif rows.dtype == np.bool_:
            everything = bool(rows.all())
        else:
            everything = len(rows) == n and bool((rows == np.arange(n)).all())
        if everything:
            return self
        return type(self)(**{name: column[rows] for name, column in vars(self).items()})

    def where(
        self, name: Literal["environment", "estimator"], chosen: Callable[[PluginSpec], bool]
    ) -> Self:
        """Return the trials whose spec is chosen; each spec is asked about once."""
        specs = getattr(self, name).tolist()
        distinct = {id(spec): spec for spec in specs}
        answers = {number: chosen(spec) for number, spec in distinct.items()}
        return self.take(np.array([answers[id(spec)] for spec in specs], dtype=np.bool_))

    def newest(self) -> Self:
        """Return the last trial of each key, ordered by key, if its data are today's.

        An environment whose code has changed draws other data for the same key. Errors on both
        have no common truth, so what ran on the older ones is left out.
        """
        last = {key: place for place, key in enumerate(self.key.tolist())}
        places = np.array([last[key] for key in sorted(last)], np.int64)
        other = self._on_older_data(places)
        if other.any():
            older = {*self.code[places][other].tolist()} - {""}
            other |= np.array([code in older for code in self.code[places].tolist()], np.bool_)
        return self.take(places[~other])

    def _on_older_data(self, places: IntArray) -> BoolArray:
        """Return which of some trials have other facts than the newest on the same data."""
        numbers: dict[str, int] = {}
        keys = self.data_key[places].tolist()
        at = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
        order = np.lexsort((places, self.run[places]))
        other = np.zeros(len(places), np.bool_)
        for values in (self.truth_expected, self.truth_empirical, self.logging_average):
            fact = values[places]
            newest = np.full(len(numbers), np.nan)
            known = order[~np.isnan(fact[order])]
            # Of assignments to one place the last counts.
            newest[at[known]] = fact[known]
            # Other processors round otherwise.
            other |= ~np.isnan(fact) & ~np.isclose(fact, newest[at], rtol=1e-6, atol=1e-9)
        return other

    def by_row(self, *, threads: bool = True) -> Iterator[Self]:
        """Yield the trials of each estimator and device, as they first come.

        Parameters
        ----------
        threads : numbers of threads are different rows, too.
        """
        # Thousands of trials share a spec.
        specs = {id(spec): spec for spec in self.estimator.tolist()}
        known = {name: spec.identity_json for name, spec in specs.items()}
        identities = [known[id(spec)] for spec in self.estimator.tolist()]
        numbers = self.threads.tolist() if threads else [1] * len(self)
        cells = zip(identities, self.device.tolist(), numbers, strict=True)
        rows: dict[tuple[str, str, int], list[int]] = {}
        for place, cell in enumerate(cells):
            rows.setdefault(cell, []).append(place)
        for places in rows.values():
            first, last = places[0], places[-1]
            # Columns of a slice are views.
            consecutive = last - first == len(places) - 1
            yield self.take(slice(first, last + 1) if consecutive else np.array(places, np.int64))

    def by_data(self) -> Self:
        """Order the trials by salt, seed and replicate."""
        return self.take(np.lexsort((self.replicate, self.seed, self.salt.astype(np.str_))))

    def with_diagnostics(self, names: Collection[str]) -> Self:
        """Return the same trials with these diagnostics alone: all take most of the memory."""
        return replace(self, diagnostics=self.diagnostics.only(names))

    @property
    def codes(self) -> int:
        """Return how many digests the trials have, at least one."""
        return max(1, len({*self.code.tolist()} - {""}))

    @property
    def sources(self) -> Sources:
        """Return what tells the code of the trials."""
        columns = (self.code, self.made_by, self.selected_by)
        names = frozenset(name for column in columns for name in column.tolist())
        return Sources(names, frozenset(self.own_code.tolist()) - {""})

    @property
    def tried(self) -> BoolArray:
        """Return whether each trial's estimator ran: (n,)."""
        return _TRIED[self.status]

    def has(self, status: Status) -> BoolArray:
        """Return whether each trial ended with a status: (n,)."""
        return np.asarray(self.status == _NUMBER[status])

    def withheld(self) -> list[str]:
        """Return the reasons that trials gave for a withheld standard error."""
        without = np.isnan(self.standard_error)
        if not without.any():
            return []
        reasons = self.diagnostics[without].values(STANDARD_ERROR_WITHHELD)
        return [str(reason) for reason in reasons if reason]


_TRIED: BoolArray = np.array([status.tried for status in STATUSES])

OF_TRIAL = (
    *("environment", "estimator", "key", "data_key"),
    *("seed", "replicate", "device", "threads", "salt"),
)
"""The columns that a trial has, and not its record."""

OF_STORE = ("made_by", "selected_by", "machine", "own_code")
"""The columns that a store adds."""

_OTHERS = (*OF_TRIAL, *OF_STORE, "run", "code", "part")
OF_RECORD = tuple(one.name for one in fields(Outcomes) if one.name not in _OTHERS)
"""The columns that a record has."""


def _objects(values: Sequence[Any]) -> ObjectArray:
    # An array made of tuples would be a table.
    column = np.empty(len(values), np.object_)
    column[:] = values
    return column


_MAKERS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "FloatArray": partial(np.array, dtype=np.float64),
    "IntArray": partial(np.array, dtype=np.int64),
    "BoolArray": partial(np.array, dtype=np.bool_),
    "ObjectArray": _objects,
    "DiagnosticColumn": DiagnosticColumn.of,
}
_ARRAYS: dict[str, Callable[[Sequence[Any]], Any]] = {
    **{one.name: _MAKERS[str(one.type)] for one in fields(Outcomes)},
    "status": lambda values: np.array([_NUMBER[value] for value in values], np.int64),
}
"""Functions that make each column from a sequence, by its type."""


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


def codes_over(cells: Iterable[tuple[str, Sources]]) -> int:
    """Return how many versions of the code the cells of a row over settings are of.

    Parameters
    ----------
    cells : id of the environment, and `Outcomes.sources`, of each setting. Of different
        environments, only digests of the estimator alone are compared. The sources of a JSON
        document are unknown.
    """
    by_environment: dict[str, list[frozenset[str]]] = {}
    own: set[str] = set()
    for environment, sources in cells:
        by_environment.setdefault(environment, []).append(sources.names)
        own |= sources.estimator
    return max(len(own), *(len(linked(filter(None, one))) for one in by_environment.values()), 1)
