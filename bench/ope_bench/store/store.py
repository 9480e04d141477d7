"""The SQLite store of runs and trial records."""

from __future__ import annotations

import json
import os
import sqlite3
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Self

from ope_bench.base.canonical import canonical_json, digest
from ope_bench.base.errors import StoreError
from ope_bench.base.files import file_identity
from ope_bench.contracts.data import TruthKind
from ope_bench.outcomes import Outcomes
from ope_bench.plugins.spec import PluginSpec
from ope_bench.store import exported, file, maintenance
from ope_bench.store.reader import (
    RUN_COLUMNS,
    Conflict,
    Freshness,
    Reader,
    Result,
    Run,
    Seconds,
    StoreCheck,
    StoreInfo,
)
from ope_bench.trials.record import (
    RECORD_COLUMNS,
    SPEC_COLUMNS,
    Trial,
    TrialRecord,
    from_row,
    spec_row,
    to_row,
    trial_row,
)

KEYS_AT_ONCE = 20_000
"""Number of trials per query."""

_INSERT_MACHINE = "INSERT OR IGNORE INTO machine (digest, facts) VALUES (?, ?)"
_INSERT_RUN = """
    INSERT INTO run (id, suite, truth, command, started, planned, plan, machine, number)
    VALUES (?, ?, ?, ?, ?, ?, ?, (SELECT id FROM machine WHERE digest = ?),
        (SELECT coalesce(max(number), 0) + 1 FROM run))
"""
_END_RUN = "UPDATE run SET finished = started + ?, exit_code = ? WHERE id = ?"

_ADDED = (*file.COVERED, "checksum")
_INSERT = (
    f"INSERT INTO record ({', '.join(_ADDED)}) "  # noqa: S608
    f"VALUES ({', '.join('?' * len(_ADDED))})"
)
_INSERT_SPEC = (
    f"INSERT OR IGNORE INTO spec (digest, {', '.join(SPEC_COLUMNS)}) "  # noqa: S608
    f"VALUES ({', '.join('?' * (1 + len(SPEC_COLUMNS)))})"
)
# In the order in which they were written: clocks of machines differ, and are set back.
_CURRENT = (
    f"SELECT key, timeout, memory, {', '.join(f'record.{name}' for name in RECORD_COLUMNS)} "  # noqa: S608
    "FROM record JOIN run ON run.id = record.run "
    "WHERE key IN (SELECT value FROM json_each(?)) ORDER BY run.number, record.id"
)


class Store:
    """One SQLite file; open it with ``with Store.open(path, write=True) as store``.

    It is consistent after the death of its process at any moment, but not after a power failure:
    transactions do not wait for the disk.
    """

    def __init__(
        self, path: Path, connection: sqlite3.Connection, lock: file.WriterLock | None
    ) -> None:
        self.path = path
        self._db = connection
        self._lock = lock
        self._file = file_identity(path)
        self._spec_ids: dict[str, int] = {}
        self._labelled: set[tuple[str, str]] = set()
        self._begun: dict[str, float] = {}

    @classmethod
    def open(cls, path: str | Path, *, write: bool = False) -> Self:
        """Open a store; with ``write`` it is created if missing, and locked for other writers.

        A ``.parquet`` file of ``ope-bench export`` can be read, too.

        Raises
        ------
        StoreError : it is missing, no store, newer, in use by another run or not writable.
        """
        path = Path(path)
        file.require_utf8(path)
        if path.suffix.lower() == ".parquet":
            if write:
                msg = f"{path} is an export, which is only read; name a store, such as new.sqlite"
                raise StoreError(msg)
            return cls(path, exported.connect(path), None)
        lock = None
        if write:
            if not path.parent.is_dir():
                msg = f"store {path} cannot be created: the folder {path.parent} does not exist"
                raise StoreError(msg)
            # Behind a link, too, one file has one lock.
            lock = file.WriterLock(Path(os.path.realpath(path)))
        try:
            return cls(path, file.connect(path, write=write), lock)
        except BaseException:
            if lock:
                lock.release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and release the lock."""
        self._db.close()
        if self._lock:
            self._lock.release()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            with file.transaction(self._db):
                yield self._db
        except sqlite3.Error as exc:
            raise file.store_error(self.path, exc) from exc

    def _fetched(self, query: str, parameters: Any = ()) -> list[Any]:
        with file.reading(self.path):
            return self._db.execute(query, parameters).fetchall()

    def begin_run(
        self,
        *,
        suite: str,
        truth: TruthKind,
        command: str = "",
        planned: int = 0,
        plan: str | None = None,
        machine: Mapping[str, Any] | None = None,
    ) -> str:
        """Add a run; return its id."""
        facts = canonical_json(machine or {})
        now = time.time()
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
        run_id = f"{stamp}-{uuid.uuid4().hex[:6]}"
        with self._transaction() as db:
            db.execute(_INSERT_MACHINE, (digest(facts), facts))
            row = (run_id, suite, truth, command, now, planned, plan, digest(facts))
            db.execute(_INSERT_RUN, row)
        self._begun[run_id] = time.monotonic()
        return run_id

    def end_run(self, run_id: str, exit_code: int) -> None:
        """Record the end of a run that this store began.

        Raises
        ------
        StoreError : the file is no longer where it was: what was written is lost.
        """
        if file_identity(self.path) != self._file:
            msg = (
                f"store {self.path} was deleted or replaced during the run; what it stored is "
                "lost, run it again"
            )
            raise StoreError(msg)
        with self._transaction() as db:
            # The system's clock may have been set during the run.
            seconds = time.monotonic() - self._begun[run_id]
            db.execute(_END_RUN, (seconds, exit_code, run_id))

    def add(
        self,
        record: TrialRecord,
        run_id: str,
        *,
        timeout: float | None = None,
        memory: int | None = None,
        estimator_digest: str | None = None,
    ) -> None:
        """Store one record, its limits and its estimator's own code, in one transaction."""
        trial = record.trial
        with self._transaction() as db:
            specs = self._specs_of(trial, run_id)
            limit = None if timeout is None else float(timeout)
            made = (trial.key, run_id, time.time(), limit, memory, estimator_digest)
            facts = (*trial_row(trial), *to_row(record))
            names = (spec_row(trial.environment)[0], spec_row(trial.estimator)[0])
            row = (*made, *facts, *specs, file.checksum((*made, *facts, *names)))
            done = db.execute(_INSERT, row)
            db.execute(
                "INSERT OR REPLACE INTO run_record VALUES (?, ?, ?)",
                (run_id, trial.key, done.lastrowid),
            )

    def _specs_of(self, trial: Trial, run_id: str) -> tuple[int, int]:
        return self._spec(trial.environment, run_id), self._spec(trial.estimator, run_id)

    def _spec(self, spec: PluginSpec, run_id: str) -> int:
        name, row = spec_row(spec)
        if name not in self._spec_ids:
            self._db.execute(_INSERT_SPEC, (name, *row))
            found = self._db.execute("SELECT id FROM spec WHERE digest = ?", (name,))
            (self._spec_ids[name],) = found.fetchone()
        if spec.label and (run_id, name) not in self._labelled:
            self._db.execute(
                "INSERT OR REPLACE INTO label VALUES (?, ?, ?)",
                (run_id, self._spec_ids[name], spec.label),
            )
            self._labelled.add((run_id, name))
        return self._spec_ids[name]

    def reuse(self, records: Iterable[TrialRecord], run_id: str) -> None:
        """Add stored records to a run."""
        with self._transaction() as db:
            for record in records:
                self._specs_of(record.trial, run_id)
                db.execute(
                    "INSERT OR REPLACE INTO run_record SELECT ?, key, id FROM record "
                    "WHERE key = ? AND code_digest = ? ORDER BY "
                    "(SELECT number FROM run WHERE run.id = record.run) DESC, id DESC LIMIT 1",
                    (run_id, record.key, record.code_digest),
                )

    def current(self, trials: Iterable[Trial], freshness: Freshness) -> dict[str, TrialRecord]:
        """Return the stored records that may replace these trials, by key.

        Of each key, the newest record of the current code counts.
        """
        if freshness.retry == "all":
            return {}
        found: dict[str, TrialRecord] = {}
        waiting = iter(trials)
        # In chunks, because all keys of a large plan would be one text of gigabytes.
        while some := {trial.key: trial for trial in islice(waiting, KEYS_AT_ONCE)}:
            # Newest last, so that it replaces older ones; a refused one removes them too.
            for row in self._fetched(_CURRENT, (json.dumps(list(some)),)):
                key, timeout, memory, *facts = row
                trial = some[key]
                if facts[0] != freshness.code_digest(trial):
                    continue
                with file.reading(self.path):
                    record = from_row(trial, tuple(facts))
                if freshness.accepts(record, timeout, memory):
                    found[key] = record
                else:
                    found.pop(key, None)
        return found

    def results(self, *, suite: str | None = None, run: str | None = None) -> Iterator[Result]:
        """Yield the newest selected run's record of each key, once for each truth.

        The order depends on the content of the records only, not on their time.

        Parameters
        ----------
        suite : only runs of this suite.
        run : only this run; the beginning of its id is enough.

        Raises
        ------
        StoreError : no run id, or more than one, begins like this.
        """
        for _, result in self.reader(suite=suite, run=run).results():
            yield result

    def outcomes(self, **selected: Any) -> Iterator[Outcomes]:
        """Yield what `reader` selects by column, one setting after another, to bound memory.

        Of each row, only the trials whose code is that of the newest.
        """
        yield from self.reader(**selected, one_code=True).outcomes()

    def reader(
        self,
        *,
        suite: str | None = None,
        run: str | None = None,
        truth: TruthKind | None = None,
        plan: str | None = None,
        one_code: bool = False,
    ) -> Reader:
        """Select results, to read some of them at a time; see `Reader`."""
        runs = {one.id: one for one in self.runs()}
        if run is not None:
            run = self._only_name("run", run, runs)
        part = {"suite": suite, "run": run, "plan": plan}
        return Reader(self._db, self.path, runs, **part, truth=truth, one_code=one_code)

    def records(
        self, *, suite: str | None = None, run: str | None = None
    ) -> Iterator[TrialRecord]:
        """Yield the records of `results`, once per key, from the newest run."""
        newest: dict[str, Result] = {}
        for result in self.results(suite=suite, run=run):
            known = newest.get(result.record.key)
            if known is None or known.run.number < result.run.number:
                newest[result.record.key] = result
        for result in newest.values():
            yield result.record

    def find(self, prefix: str) -> TrialRecord:
        """Find the newest run's record of the key with this prefix.

        Raises
        ------
        StoreError : no key, or more than one, has this prefix.
        """
        pattern = prefix.lower().replace("*", "?").replace("[", "?") + "*"
        found = self._fetched("SELECT DISTINCT key FROM record WHERE key GLOB ?", (pattern,))
        key = self._only_name("key", prefix, [key for (key,) in found])
        return next(record for record in self.records() if record.key == key)

    def _only_name(self, kind: str, prefix: str, names: Iterable[str]) -> str:
        """Return the one name that begins with ``prefix``, whatever its case."""
        matches = [name for name in names if name.startswith(prefix.lower())]
        # No prefix is the beginning of every name.
        if len(matches) != 1 or not prefix:
            count = f"{len(matches)} {kind}s begin" if matches else f"no {kind} begins"
            msg = f"{count} with '{prefix}' in store {self.path}"
            raise StoreError(msg)
        return matches[0]

    def seconds(self, trials: Iterable[Trial]) -> dict[str, Seconds]:
        """Return mean seconds of fit and estimate of each trial's cell, by key, if stored."""
        rows = self._fetched(
            "SELECT environment.digest, estimator.digest, device, "
            "avg(fit_seconds + estimate_seconds - coalesce(shared_seconds, 0)), "
            "avg(fit_seconds + estimate_seconds) "
            "FROM record JOIN spec AS environment ON environment.id = record.environment "
            "JOIN spec AS estimator ON estimator.id = record.estimator "
            "WHERE fit_seconds + estimate_seconds IS NOT NULL "
            "GROUP BY environment.digest, estimator.digest, device"
        )
        means = {tuple(cell): Seconds(max(own, 0.0), whole) for *cell, own, whole in rows}
        found = {}
        for trial in trials:
            specs = spec_row(trial.environment)[0], spec_row(trial.estimator)[0]
            if (mean := means.get((*specs, trial.device))) is not None:
                found[trial.key] = mean
        return found

    def machine_of(self, key: str) -> Mapping[str, Any]:
        """Return the machine that made the newest record of a key."""
        rows = self._fetched(
            "SELECT machine.facts FROM record JOIN run ON run.id = record.run "
            "JOIN machine ON machine.id = run.machine WHERE key = ? "
            "ORDER BY run.number DESC, record.id DESC LIMIT 1",
            (key,),
        )
        facts: Mapping[str, Any] = json.loads(rows[0][0])
        return facts

    def machines_of_reused(self, run: str) -> list[tuple[Mapping[str, Any], int]]:
        """Return the machines of the records that this run reused, with counts."""
        rows = self._fetched(
            "SELECT machine.facts, count(*) FROM run_record "
            "JOIN record ON record.id = run_record.record "
            "JOIN run ON run.id = record.run JOIN machine ON machine.id = run.machine "
            "WHERE run_record.run = ? AND record.run != ? GROUP BY machine.id",
            (run, run),
        )
        return [(json.loads(facts), count) for facts, count in rows]

    def missing_suite_message(self, suite: str | None) -> str | None:
        """Return the message that a suite has no stored runs."""
        held = sorted({run.suite for run in self.runs()})
        if suite is None or suite in held or not held:
            return None
        return f"no run of suite '{suite}' in {self.path}; it holds {', '.join(held)}"

    def runs(self) -> list[Run]:
        """Return all runs, oldest first."""
        with file.reading(self.path):
            facts = self._db.execute("SELECT id, facts FROM machine").fetchall()
            machines = {number: json.loads(text) for number, text in facts}
            rows = self._db.execute(
                f"SELECT machine, {', '.join(RUN_COLUMNS)} FROM run ORDER BY number"  # noqa: S608
            ).fetchall()
            return [
                Run(machine=machines[machine], **dict(zip(RUN_COLUMNS, row, strict=True)))
                for machine, *row in rows
            ]

    def info(self) -> StoreInfo:
        """Count the contents."""
        counted = {
            "runs": "SELECT count(*) FROM run",
            "machines": "SELECT count(*) FROM machine",
            "records": "SELECT count(*) FROM record",
            "trials": "SELECT count(DISTINCT key) FROM record",
            "schema": "PRAGMA user_version",
        }
        numbers = {name: self._fetched(query)[0][0] for name, query in counted.items()}
        status = "SELECT status, count(*) FROM record GROUP BY status ORDER BY status"
        suites = "SELECT suite, count(*) FROM run GROUP BY suite ORDER BY suite"
        return StoreInfo(
            path=str(self.path),
            bytes=self.path.stat().st_size,
            status=dict(self._fetched(status)),
            suites=dict(self._fetched(suites)),
            **numbers,
        )

    def check(self) -> StoreCheck:
        """Compare the file, its records and its specs with their checksums."""
        with file.reading(self.path):
            return maintenance.check(self._db)

    def require_sound(self) -> None:
        """Raise StoreError if the structure of the file is damaged; checksums are not compared."""
        with file.reading(self.path):
            found = self._db.execute("PRAGMA quick_check(1)").fetchone()
        if found != ("ok",):
            cure = f"`ope-bench store check --store {self.path}` says where"
            msg = f"store {self.path} is damaged: {cure}"
            raise StoreError(msg)

    def prune(self) -> int:
        """Delete records that newer runs replaced; return their number.

        Raises
        ------
        StoreError : they cannot be deleted, or the file cannot be made smaller then.
        """
        with self._transaction() as db:
            dropped = maintenance.prune(db)
        try:
            self._db.execute("VACUUM")
        except sqlite3.Error as exc:
            error = file.store_error(self.path, exc)
            msg = (
                f"{error}; {dropped} outcomes are deleted, but the file keeps its size; try again"
            )
            raise StoreError(msg) from exc
        return dropped

    def merge(self, other: Store) -> int:
        """Copy another store's runs and records; return the number of new records."""
        with self._attached(other), self._transaction() as db:
            return maintenance.merge(db)

    def conflicts(self, other: Store) -> list[Conflict]:
        """Return trials with different outcomes of the same code in both stores."""
        with self._attached(other) as db:
            return maintenance.conflicts(db)

    def count_code_mismatches(self, other: Store) -> int:
        """Count the trials in both stores whose code digests differ."""
        with self._attached(other):
            ((count,),) = self._fetched(
                "SELECT count(DISTINCT key) FROM main.record AS mine WHERE EXISTS "
                "(SELECT 1 FROM other.record AS theirs WHERE theirs.key = mine.key) AND NOT "
                "EXISTS (SELECT 1 FROM other.record AS theirs WHERE theirs.key = mine.key "
                "AND theirs.code_digest = mine.code_digest)"
            )
        return int(count)

    @contextmanager
    def _attached(self, other: Store) -> Iterator[sqlite3.Connection]:
        """Attach another store as ``other`` for a block of code."""
        uri = f"{other.path.absolute().as_uri()}?mode=ro"
        self._fetched("ATTACH ? AS other", (uri,))
        try:
            yield self._db
        except sqlite3.Error as exc:
            raise file.store_error(self.path, exc) from exc
        finally:
            self._db.execute("DETACH other")


def outcomes_of(path: Path) -> Iterator[Outcomes]:
    """Yield the outcomes of a store, an export, or a folder with ``trials.parquet``."""
    with Store.open(path / "trials.parquet" if path.is_dir() else path) as opened:
        yield from opened.outcomes()
