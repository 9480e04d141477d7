"""Open, add, look up."""

from __future__ import annotations

import json
import sqlite3
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Self

from ope_bench.errors import StoreError
from ope_bench.records import PluginSpec, Trial, TrialRecord
from ope_bench.rows import (
    RECORD_COLUMNS,
    SPEC_COLUMNS,
    record_from,
    record_row,
    spec_from,
    spec_row,
)
from ope_bench.seeding import canonical_json, digest
from ope_bench.store import maintenance, queries
from ope_bench.store.freshness import Freshness
from ope_bench.store.lock import WriterLock
from ope_bench.store.opening import connected, explained
from ope_bench.store.results import Conflict, Result, Run, Seconds

__all__ = ["Store"]

KEYS_AT_ONCE = 20_000
"""Trials looked up by one query."""


class Store:
    """One SQLite file; open it with ``with Store.open(path, write=True) as store``.

    It survives the death of its process at any moment, though not a power cut: a transaction
    is durable against the former without waiting for the disk.
    """

    def __init__(
        self, path: Path, connection: sqlite3.Connection, lock: WriterLock | None
    ) -> None:
        self.path = path
        self._db = connection
        self._lock = lock
        self._spec_ids: dict[str, int] = {}
        self._labelled: set[tuple[str, str]] = set()

    @classmethod
    def open(cls, path: str | Path, *, write: bool = False) -> Self:
        """Open a store; with ``write`` it is created where missing, and nobody else may write.

        Raises
        ------
        StoreError : it is missing, foreign, newer, in use by another run or not writable.
        """
        path = Path(path)
        lock = None
        if write:
            if not path.parent.is_dir():
                msg = f"store {path} cannot be made: there is no folder {path.parent}"
                raise StoreError(msg)
            lock = WriterLock(path)
        try:
            return cls(path, connected(path, write=write), lock)
        except BaseException:
            if lock:
                lock.release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and let others write."""
        self._db.close()
        if self._lock:
            self._lock.release()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                # SQLite has already rolled back after some errors, a full disk among them.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        except sqlite3.Error as exc:
            raise explained(self.path, exc) from exc

    def _fetched(self, query: str, parameters: Any = ()) -> list[Any]:
        try:
            return self._db.execute(query, parameters).fetchall()
        except sqlite3.Error as exc:
            raise explained(self.path, exc) from exc

    def _streamed(self, query: str, parameters: Any = ()) -> Iterator[Any]:
        """Rows one by one: all of a large store's would stand beside what is made of them."""
        try:
            yield from self._db.execute(query, parameters)
        except sqlite3.Error as exc:
            raise explained(self.path, exc) from exc

    def begin_run(
        self,
        *,
        suite: str,
        truth: str,
        command: str = "",
        planned: int = 0,
        machine: Mapping[str, Any] | None = None,
    ) -> str:
        """A new run's id."""
        facts = canonical_json(machine or {})
        now = time.time()
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
        run_id = f"{stamp}-{uuid.uuid4().hex[:6]}"
        with self._transaction() as db:
            db.execute(
                "INSERT OR IGNORE INTO machine (digest, facts) VALUES (?, ?)",
                (digest(facts), facts),
            )
            db.execute(
                "INSERT INTO run (id, suite, truth, command, started, planned, machine) "
                "VALUES (?, ?, ?, ?, ?, ?, (SELECT id FROM machine WHERE digest = ?))",
                (run_id, suite, truth, command, now, planned, digest(facts)),
            )
        return run_id

    def end_run(self, run_id: str, exit_code: int) -> None:
        """Note how a run ended."""
        with self._transaction() as db:
            db.execute(
                "UPDATE run SET finished = ?, exit_code = ? WHERE id = ?",
                (time.time(), exit_code, run_id),
            )

    def add(
        self,
        record: TrialRecord,
        run_id: str,
        *,
        timeout: float | None = None,
        memory: int | None = None,
    ) -> None:
        """Store one outcome, and the limits under which it came about, in one transaction."""
        trial = record.trial
        with self._transaction() as db:
            specs = self._specs_of(trial, run_id)
            asked = (trial.replicate, trial.seed, trial.device, trial.threads)
            made = (trial.key, run_id, time.time(), timeout, memory)
            row = (*made, *specs, *asked, *record_row(record))
            done = db.execute(queries.INSERT, row)
            db.execute(
                "INSERT OR REPLACE INTO run_record VALUES (?, ?, ?)",
                (run_id, trial.key, done.lastrowid),
            )

    def _specs_of(self, trial: Trial, run_id: str) -> tuple[int, int]:
        first, second = (self._spec(spec, run_id) for spec in (trial.environment, trial.estimator))
        return first, second

    def _spec(self, spec: PluginSpec, run_id: str) -> int:
        name, row = spec_row(spec)
        if name not in self._spec_ids:
            self._db.execute(queries.INSERT_SPEC, (name, *row))
            self._spec_ids[name] = self._db.execute(
                "SELECT id FROM spec WHERE digest = ?", (name,)
            ).fetchone()[0]
        if spec.label and (run_id, name) not in self._labelled:
            self._db.execute(
                "INSERT OR REPLACE INTO label VALUES (?, ?, ?)",
                (run_id, self._spec_ids[name], spec.label),
            )
            self._labelled.add((run_id, name))
        return self._spec_ids[name]

    def reuse(self, records: Iterable[TrialRecord], run_id: str) -> None:
        """Make stored outcomes part of a run."""
        with self._transaction() as db:
            for record in records:
                self._specs_of(record.trial, run_id)
                db.execute(
                    "INSERT OR REPLACE INTO run_record SELECT ?, key, id FROM record "
                    "WHERE key = ? AND code_digest = ? ORDER BY finished DESC, id DESC LIMIT 1",
                    (run_id, record.key, record.code_digest),
                )

    def current(self, trials: Iterable[Trial], freshness: Freshness) -> dict[str, TrialRecord]:
        """Stored outcomes, by key, that may stand for these trials.

        Of each key the newest that today's code made counts.
        """
        if freshness.retry == "all":
            return {}
        found: dict[str, TrialRecord] = {}
        waiting = iter(trials)
        # So many at once, because all keys of a large plan would be one text of gigabytes.
        while some := {trial.key: trial for trial in islice(waiting, KEYS_AT_ONCE)}:
            # Newest last, so that it is the one which stays; a refused one removes older ones too.
            for row in self._fetched(queries.CURRENT, (json.dumps(list(some)),)):
                key, timeout, memory, *facts = row
                trial = some[key]
                if facts[0] != freshness.code_digest(trial):
                    continue
                record = record_from(trial, tuple(facts))
                if freshness.accepts(record, timeout, memory):
                    found[key] = record
                else:
                    found.pop(key, None)
        return found

    def results(self, *, suite: str | None = None, run: str | None = None) -> Iterator[Result]:
        """What the newest run of those asked for says of each key, once for each truth.

        The order depends on the records' content only, not on when they were made.

        Parameters
        ----------
        suite : only runs of this suite.
        run : only this run; the beginning of its id is enough.

        Raises
        ------
        StoreError : no run, or more than one, begins so.
        """
        return self._results(suite, run, queries.BY_KEY)

    def settings(
        self, *, suite: str | None = None, run: str | None = None
    ) -> Iterator[list[Result]]:
        """The `results` of one environment setting after another: all that is in memory."""
        found = self._results(suite, run, queries.BY_SETTING)
        for _, group in groupby(found, lambda one: one.record.trial.environment.identity_json):
            yield list(group)

    def _results(self, suite: str | None, run: str | None, order: str) -> Iterator[Result]:
        runs = {one.id: one for one in self.runs()}
        if run is not None:
            run = _one("run", run, list(runs), self.path)
        specs = {row[0]: row[1:] for row in self._fetched(queries.ALL_SPECS)}
        built: dict[tuple[int, str | None], PluginSpec] = {}

        def spec(number: int, label: str | None) -> PluginSpec:
            if (number, label) not in built:
                row = dict(zip(SPEC_COLUMNS, specs[number], strict=True))
                built[number, label] = spec_from(row, label or "")
            return built[number, label]

        n = len(RECORD_COLUMNS)
        for row in self._streamed(queries.RESULTS + order, {"suite": suite, "run": run}):
            world, method, *asked, made_by, through, world_label, method_label = row[n:]
            trial = Trial(spec(world, world_label), spec(method, method_label), *asked)
            yield Result(record_from(trial, row[:n]), runs[through], sys.intern(made_by))

    def records(
        self, *, suite: str | None = None, run: str | None = None
    ) -> Iterator[TrialRecord]:
        """The records of `results`, each key once: that of the newest run."""
        newest: dict[str, Result] = {}
        for result in self.results(suite=suite, run=run):
            known = newest.get(result.record.key)
            if known is None or known.run.started < result.run.started:
                newest[result.record.key] = result
        for result in newest.values():
            yield result.record

    def find(self, prefix: str) -> TrialRecord:
        """The newest run's record of the one key that begins so.

        Raises
        ------
        StoreError : no key, or more than one, begins so.
        """
        pattern = prefix.lower().replace("*", "?").replace("[", "?") + "*"
        found = self._fetched(
            "SELECT DISTINCT key FROM record WHERE key GLOB ? LIMIT 3", (pattern,)
        )
        key = _one("key", prefix, [key for (key,) in found], self.path)
        return next(record for record in self.records() if record.key == key)

    def seconds(self, trials: Iterable[Trial]) -> dict[str, Seconds]:
        """Mean seconds of fit and estimate in each trial's cell, by key, where any is stored."""
        rows = self._fetched(
            "SELECT world.digest, method.digest, device, "
            "avg(fit_seconds + estimate_seconds - coalesce(shared_seconds, 0)), "
            "avg(fit_seconds + estimate_seconds) "
            "FROM record JOIN spec AS world ON world.id = record.environment "
            "JOIN spec AS method ON method.id = record.estimator "
            "WHERE fit_seconds + estimate_seconds IS NOT NULL "
            "GROUP BY world.digest, method.digest, device"
        )
        means = {tuple(cell): Seconds(max(own, 0.0), whole) for *cell, own, whole in rows}
        found = {}
        for trial in trials:
            specs = spec_row(trial.environment)[0], spec_row(trial.estimator)[0]
            if (mean := means.get((*specs, trial.device))) is not None:
                found[trial.key] = mean
        return found

    def makers(self, run: str) -> list[tuple[Mapping[str, Any], int]]:
        """The machines that executed what other runs did for this one, and how many trials."""
        rows = self._fetched(
            "SELECT machine.facts, count(*) FROM run_record "
            "JOIN record ON record.id = run_record.record "
            "JOIN run ON run.id = record.run JOIN machine ON machine.id = run.machine "
            "WHERE run_record.run = ? AND record.run != ? GROUP BY machine.id",
            (run, run),
        )
        return [(json.loads(facts), count) for facts, count in rows]

    def without_runs_of(self, suite: str | None) -> str | None:
        """What to tell a user who asks for a suite of which no run is here."""
        held = sorted({run.suite for run in self.runs()})
        if suite is None or suite in held or not held:
            return None
        return f"no run of suite '{suite}' in {self.path}; it holds {', '.join(held)}"

    def runs(self) -> list[Run]:
        """All runs, oldest first."""
        machines = {
            number: json.loads(facts)
            for number, facts in self._fetched("SELECT id, facts FROM machine")
        }
        names = ("id", "suite", "truth", "command", "started", "finished", "planned", "exit_code")
        rows = self._fetched(
            f"SELECT machine, {', '.join(names)} FROM run ORDER BY started, id"  # noqa: S608
        )
        return [
            Run(machine=machines[machine], **dict(zip(names, row, strict=True)))
            for machine, *row in rows
        ]

    def info(self) -> dict[str, Any]:
        """Counts and sizes, as plain values."""
        return maintenance.info(self._db, self.path)

    def prune(self) -> int:
        """Drop records that newer runs replaced; how many."""
        with self._transaction() as db:
            dropped = maintenance.prune(db)
        self._db.execute("VACUUM")
        return dropped

    def merge(self, other: Store) -> int:
        """Take over another store's runs and records; how many records were new."""
        with self._beside(other), self._transaction() as db:
            return maintenance.merge(db)

    def conflicts(self, other: Store) -> list[Conflict]:
        """What the same code answered differently here and there; equal seeds should not."""
        with self._beside(other) as db:
            return [Conflict(*row) for row in maintenance.conflicts(db)]

    def told_by_other_code(self, other: Store) -> int:
        """How many trials both stores hold, though not from the same code."""
        with self._beside(other) as db:
            return maintenance.told_by_other_code(db)

    @contextmanager
    def _beside(self, other: Store) -> Iterator[sqlite3.Connection]:
        """With another store attached as ``other``."""
        uri = f"{other.path.absolute().as_uri()}?mode=ro"
        self._fetched("ATTACH ? AS other", (uri,))
        try:
            yield self._db
        except sqlite3.Error as exc:
            raise explained(self.path, exc) from exc
        finally:
            self._db.execute("DETACH other")


def _one(what: str, prefix: str, known: list[str], path: Path) -> str:
    found = [name for name in known if name.startswith(prefix.lower())]
    if len(found) != 1 or not prefix:
        many = f"{len(found)} {what}s begin" if found else f"no {what} begins"
        msg = f"{many} with '{prefix}' in store {path}"
        raise StoreError(msg)
    return found[0]
