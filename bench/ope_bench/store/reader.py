"""Runs and results of a store, and its reader: the newest outcomes of some runs, part by part.

What is selected is held as four numbers a trial; the records themselves are read in parts, so
that no more than one part of a large store is in memory at once.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import cached_property, partial
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ope_bench.contracts.arrays import IntArray
from ope_bench.contracts.data import TruthKind
from ope_bench.outcomes import OF_RECORD, BoolArray, Outcomes
from ope_bench.plugins.spec import PluginSpec
from ope_bench.store.file import reading
from ope_bench.trials.record import (
    RECORD,
    RECORD_COLUMNS,
    SPEC_COLUMNS,
    TRIAL_COLUMNS,
    Trial,
    TrialRecord,
    from_row,
    part_from_row,
    spec_from,
    trial_from,
)
from ope_bench.trials.status import Retry


class Seconds(NamedTuple):
    """Mean seconds of the trials of a cell.

    Parameters
    ----------
    own : without reused shared fits.
    whole : with reused shared fits.
    """

    own: float
    whole: float


@dataclass(frozen=True, kw_only=True)
class Run:
    """A stored run.

    Parameters
    ----------
    id : identifier that sorts by time.
    number : place among the runs of its store, in the order in which they began.
    suite : name of the suite, ``adhoc`` without one.
    truth : the value against which its boards measure errors.
    command : the command line.
    started, finished : seconds since 1970; finished is None for a killed run.
    planned : number of trials.
    exit_code : None for a killed run.
    plan : digest of the planned keys, equal for the shards of one plan; None where unknown.
    machine : facts of the machine.
    """

    id: str
    number: int = 0
    suite: str
    truth: TruthKind
    command: str = ""
    started: float = 0.0
    finished: float | None = None
    planned: int = 0
    exit_code: int | None = None
    plan: str | None = None
    machine: Mapping[str, Any] = field(default_factory=dict)


RUN_COLUMNS = tuple(one.name for one in fields(Run) if one.name != "machine")
"""The columns of the table of runs, without the machine."""


@dataclass(frozen=True)
class Result:
    """A stored record and the run from which it is read.

    The labels of the record's specs are those of this run.

    Parameters
    ----------
    record : the outcome.
    run : the newest of the selected runs that contains the trial.
    made_by : id of the run that executed the trial; others reuse it.
    estimator_digest : digest of the estimator's own code; None where unknown.
    """

    record: TrialRecord
    run: Run
    made_by: str
    estimator_digest: str | None


@dataclass(frozen=True, kw_only=True)
class StoreCheck:
    """Findings of a check of a store.

    Parameters
    ----------
    records : number of records.
    unchecked : of them, those that an older version stored without a checksum.
    damage : descriptions of what is damaged, at most 20 of each kind.
    """

    records: int
    unchecked: int
    damage: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Conflict:
    """A trial with different outcomes of the same code in two stores.

    Parameters
    ----------
    key : key of the trial.
    estimator, environment, replicate : parts of the trial.
    run, status, estimate : outcome in this store.
    other_run, other_status, other_estimate : outcome in the other store.
    """

    key: str
    estimator: str
    environment: str
    replicate: int
    run: str
    status: str
    estimate: float | None
    other_run: str
    other_status: str
    other_estimate: float | None


@dataclass(frozen=True, kw_only=True)
class StoreInfo:
    """Contents of a store.

    Parameters
    ----------
    path, bytes, schema : of the file.
    runs, machines, records : numbers of them.
    trials : number of distinct keys among the records.
    status : numbers of records by status.
    suites : numbers of runs by suite.
    """

    path: str
    bytes: int
    schema: int
    runs: int
    machines: int
    records: int
    trials: int
    status: Mapping[str, int]
    suites: Mapping[str, int]


@dataclass(frozen=True)
class Freshness:
    """The rule by which stored records replace planned trials.

    Parameters
    ----------
    code_digest : digest of the current code of the trial.
    exclusive : whether the trial is to run alone.
    timeout, memory : the current limits; a failure at a lower limit runs again.
    retry : run failed trials, or all, again.
    """

    code_digest: Callable[[Trial], str]
    _: KW_ONLY
    exclusive: Callable[[Trial], bool] = lambda trial: False
    timeout: float | None = None
    memory: int | None = None
    retry: Retry | None = None

    def accepts(self, record: TrialRecord, timeout: float | None, memory: float | None) -> bool:
        """Return whether a record that was made under these limits may replace the trial."""
        status = record.status
        if status.limit is not None:
            limits = {"timeout": (timeout, self.timeout), "memory": (memory, self.memory)}
            before, now = limits[status.limit]
            if before is not None and (now is None or now > before):
                return False
        return not (
            not status.tried
            or (self.retry == "failed" and status.broken)
            or (self.exclusive(record.trial) and not record.exclusive)
        )


READ_AT_ONCE = 1_000

COLUMNS_AT_ONCE = 5_000
"""Rows that are values of Python at once, some 20 MB, before they are columns."""


_SELECTED = """
    SELECT run_record.record, max(run.number), record.environment, record.estimator,
        record.code_digest, record.device || ' ' || record.threads
    FROM run CROSS JOIN run_record ON run_record.run = run.id
        CROSS JOIN record ON record.id = run_record.record
    WHERE (:suite IS NULL OR run.suite = :suite) AND (:run IS NULL OR run.id = :run)
        AND (:plan IS NULL OR run.plan = :plan)
        AND (:truth IS NULL OR run.truth = :truth)
    GROUP BY run_record.key, run.truth ORDER BY run_record.key, run.id
"""
"""Records of the selected runs: CROSS JOIN has SQLite look at their trials alone."""


class Reader:
    """The newest selected run's record of each key, once for each truth, ordered by key.

    Parameters
    ----------
    db, path : of the store.
    runs : all runs of the store, by id.
    suite, run, truth, plan : only runs of this suite, id, kind of truth and plan.
    one_code : of each row only the trials whose code is that of its newest trial.
    """

    def __init__(
        self,
        db: sqlite3.Connection,
        path: Path,
        runs: Mapping[str, Run],
        *,
        suite: str | None = None,
        run: str | None = None,
        truth: TruthKind | None = None,
        plan: str | None = None,
        one_code: bool = False,
    ) -> None:
        self._db, self._path, self._runs = db, path, runs
        self._specs: dict[tuple[int, str | None], PluginSpec] = {}
        wanted = {"suite": suite, "run": run, "truth": truth, "plan": plan}
        numbers: dict[str, int] = {"": 0}
        with reading(path):
            # Row by row: all of them at once would be larger than what is kept.
            selected = (
                (*row[:4], *(numbers.setdefault(text, len(numbers)) for text in row[4:]))
                for row in db.execute(_SELECTED, wanted)
            )
            rows = np.fromiter(selected, np.dtype((np.int64, 6)))
        self._records, self._through, self._environments, self._estimators, *facts = rows.T
        if one_code and len(rows):
            kept = self._of_newest_code(*facts)
            self._records, self._through, self._environments, self._estimators = rows[kept].T[:4]

    def _of_newest_code(self, code: IntArray, cell: IntArray) -> BoolArray:
        """Return whether each result is of its row's newest code, or of unknown code: (n,).

        Parameters
        ----------
        code : (n,), number of the digest; 0 where unknown.
        cell : (n,), number of device and threads.
        """
        names = {name: place for place, name in enumerate(sorted({*self._identities.values()}))}
        place = np.zeros(1 + max(self._identities, default=0), np.int64)
        for number, name in self._identities.items():
            place[number] = names[name]
        row = place[self._environments] * len(names) + place[self._estimators]
        row = row * (1 + int(cell.max())) + cell
        known = np.flatnonzero(code)
        order = known[np.lexsort((self._records[known], self._through[known]))]
        _, row = np.unique(row, return_inverse=True)
        newest = np.zeros(1 + int(row.max()), np.int64)
        # Of assignments to one place the last counts: the newest.
        newest[row[order]] = code[order]
        return np.asarray((code == 0) | (code == newest[row]))

    def outcomes(self) -> Iterator[Outcomes]:
        """Yield the outcomes of one environment setting after another, each ordered by key."""
        for places in self.by_setting().values():
            parts = self._parts(places)
            if len(places) <= COLUMNS_AT_ONCE:
                yield from parts
            elif (first := next(parts, None)) is not None:
                yield Outcomes.joined(itertools.chain([first], parts), len(places))

    def by_row(self) -> dict[tuple[str, str], list[int]]:
        """Return the places of each setting's and estimator's results, by their identities."""
        names = self._identities
        found: dict[tuple[str, str], list[int]] = {}
        pairs = zip(self._environments.tolist(), self._estimators.tolist(), strict=True)
        for place, (environment, estimator) in enumerate(pairs):
            found.setdefault((names[environment], names[estimator]), []).append(place)
        return found

    def _parts(self, places: Sequence[int]) -> Iterator[Outcomes]:
        """Yield the outcomes of some of the results, a part at a time."""
        for start in range(0, len(places), COLUMNS_AT_ONCE):
            part = places[start : start + COLUMNS_AT_ONCE]
            rows = self._rows((*_OF_STORE, *OF_RECORD), part)
            if rows:
                with reading(self._path):
                    found = self._outcomes(rows, part)
                del rows
                yield found

    @property
    def truths(self) -> list[TruthKind]:
        """The kinds of truth of the results, in the order in which they come."""
        numbers = dict.fromkeys(self._through.tolist())
        return list(dict.fromkeys(self._numbered[number].truth for number in numbers))

    def by_setting(self) -> dict[str, list[int]]:
        """Return the places of each setting's results, ordered by the setting's identity."""
        names = self._identities
        found: dict[str, list[int]] = {}
        for place, environment in enumerate(self._environments.tolist()):
            found.setdefault(names[environment], []).append(place)
        return dict(sorted(found.items()))

    @cached_property
    def _identities(self) -> dict[int, str]:
        """The identities of the specs in use, by number; two specs may have the same."""
        with reading(self._path):
            specs = self._spec_rows
            used = {*self._environments.tolist(), *self._estimators.tolist()}
            return {number: spec_from(specs[number]).identity_json for number in used}

    def _rows(self, columns: Sequence[str], places: Sequence[int]) -> list[tuple[Any, ...]]:
        """Return columns of records, each row with its index in ``places`` first, in this order.

        Another program may have pruned the store since: records that are gone are left out.
        """
        query = (
            f"SELECT wanted.key, {', '.join(f'record.{name}' for name in columns)} "  # noqa: S608
            "FROM json_each(?) AS wanted CROSS JOIN record ON record.id = wanted.value"
        )
        wanted = json.dumps(self._records[np.array(places, np.int64)].tolist())
        with reading(self._path):
            rows = self._db.execute(query, (wanted,)).fetchall()
        # SQLite promises no order; to sort what is in order already takes no time.
        rows.sort(key=itemgetter(0))
        return rows

    def results(
        self, places: Sequence[int] | None = None, columns: Sequence[str] = RECORD_COLUMNS
    ) -> Iterator[tuple[int, Result]]:
        """Yield results with their places, a part at a time.

        Parameters
        ----------
        places : in this order; all by default, ordered by key.
        columns : of the records; with some of them alone, see
            `ope_bench.trials.record.part_from_row`.
        """
        build = from_row if columns is RECORD_COLUMNS else partial(part_from_row, columns)
        if places is None:
            places = range(len(self._records))
        for start in range(0, len(places), READ_AT_ONCE):
            part = places[start : start + READ_AT_ONCE]
            rows = self._rows((*_OF_TRIAL, *columns), part)
            found = []
            with reading(self._path):
                for row in rows:
                    through = self._numbered[int(self._through[part[row[0]]])]
                    index, made_by, own, *numbers = row[:_SPECS]
                    environment, estimator = (self._spec(one, through) for one in numbers)
                    trial = trial_from(environment, estimator, row[_SPECS:_FIRST])
                    record = build(trial, row[_FIRST:])
                    found.append((part[index], Result(record, through, sys.intern(made_by), own)))
            yield from found

    def _outcomes(self, rows: Sequence[tuple[Any, ...]], places: Sequence[int]) -> Outcomes:
        names = ("index", *_NAMES, *OF_RECORD)
        columns: dict[str, Sequence[Any]] = dict(zip(names, zip(*rows, strict=True), strict=True))
        read = np.array(places)[np.array(columns.pop("index"))]
        numbers: list[int] = self._through[read].tolist()
        for name in ("environment", "estimator"):
            pairs = list(zip(columns[name], numbers, strict=True))
            specs = {pair: self._spec(pair[0], self._numbered[pair[1]]) for pair in set(pairs)}
            columns[name] = [specs[pair] for pair in pairs]
        columns["salt"] = [salt or "" for salt in columns["salt"]]
        spec, names = columns["environment"][0], ("replicate", "seed", "salt")
        of_data = list(zip(*map(columns.__getitem__, names), strict=True))
        data = {
            at: Trial(spec, spec, at[0], seed=at[1], salt=at[2]).data_key for at in set(of_data)
        }
        columns["data_key"] = [data[at] for at in of_data]
        columns["selected_by"] = [self._numbered[number].id for number in numbers]
        machines = {run: _processors(self._runs[run].machine) for run in {*columns["made_by"]}}
        columns["machine"] = [machines[run] for run in columns["made_by"]]
        columns["run"] = numbers
        for name in ("code", "own_code"):
            columns[name] = [sys.intern(one or "") for one in columns[name]]
        columns["diagnostics"] = _objects(columns["diagnostics"])
        for name, restored in _RESTORED.items():
            # Thousands of trials share a value; None stays what it is.
            values = {value: restored(value) for value in {*columns[name]} - {None}}
            columns[name] = [*map(values.get, columns[name])]
        return Outcomes.from_columns(columns)

    def _spec(self, number: int, through: Run) -> PluginSpec:
        """Return a spec with its label in a run."""
        label = self._labels.get((through.id, number))
        if (number, label) not in self._specs:
            self._specs[number, label] = spec_from(self._spec_rows[number], label or "")
        return self._specs[number, label]

    @cached_property
    def _numbered(self) -> dict[int, Run]:
        return {one.number: one for one in self._runs.values()}

    @cached_property
    def _spec_rows(self) -> dict[int, dict[str, Any]]:
        with reading(self._path):
            rows = self._db.execute(
                f"SELECT id, {', '.join(SPEC_COLUMNS)} FROM spec"  # noqa: S608
            ).fetchall()
        return {row[0]: dict(zip(SPEC_COLUMNS, row[1:], strict=True)) for row in rows}

    @cached_property
    def _labels(self) -> dict[tuple[str, int], str]:
        with reading(self._path):
            rows = self._db.execute("SELECT run, spec, label FROM label").fetchall()
        return {(run, spec): label for run, spec, label in rows}


def _processors(machine: Mapping[str, Any]) -> str:
    """Return the processors of a machine or of a cluster's."""
    places = machine.get("cluster") or [machine]
    names = {str(place.get("cpu") or "") for place in places}
    return sys.intern(", ".join(sorted(names)))


_OF_TRIAL = ("run", "estimator_digest", "environment", "estimator", *TRIAL_COLUMNS)
_SPECS = 5
_FIRST = 1 + len(_OF_TRIAL)
"""Place of the first column of the record in a row, after the row's index."""
_NAMES = ("key", "made_by", "code", "own_code", "environment", "estimator", *TRIAL_COLUMNS)
_RESTORED: Mapping[str, Callable[[Any], Any]] = {
    one.name: one.from_plain
    for one in RECORD
    if one.from_plain
    and one.name in OF_RECORD
    and one.name not in ("status", "exclusive", "diagnostics")
} | {"made_by": sys.intern, "device": sys.intern}
"""Functions that restore plain values by column, where `Outcomes` does not do it for all."""
_OF_STORE = (
    *("key", "run", "code_digest", "estimator_digest", "environment", "estimator"),
    *TRIAL_COLUMNS,
)


def _objects(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Parse JSON objects, all at once: that shares their names, and is faster."""
    found: list[dict[str, Any]] = json.loads(f"[{','.join(texts)}]")
    if len(found) != len(texts) or any(type(one) is not dict for one in found):
        msg = "diagnostics are one JSON object a record"
        raise ValueError(msg)
    return found
