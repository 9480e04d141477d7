"""The file of a store: its lock, its connection, its tables and their migrations."""

from __future__ import annotations

import contextlib
import marshal
import os
import sqlite3
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from ope_bench.base.errors import StoreError
from ope_bench.trials.record import RECORD_COLUMNS, TRIAL_COLUMNS

try:
    import fcntl
except ImportError:  # not on this platform, where two runs at once are not refused
    fcntl = None  # type: ignore[assignment]

# Errors of SQLite in one line.

_REASONS = {
    "SQLITE_FULL": "the disk is full; what was stored before is safe",
    "SQLITE_READONLY": "it is read-only",
    "SQLITE_CANTOPEN": "it cannot be opened: are file and folder readable?",
    "SQLITE_NOTADB": "it is not an ope-bench store",
    "SQLITE_CORRUPT": "it is damaged",
    "SQLITE_BUSY": "another program has locked it",
    "SQLITE_PERM": "no permission",
}


def store_error(path: Path, exc: sqlite3.Error) -> StoreError:
    """Convert an error of SQLite to an error of one line."""
    name = getattr(exc, "sqlite_errorname", "") or ""
    reason = next((text for code, text in _REASONS.items() if name.startswith(code)), str(exc))
    return StoreError(f"store {path}: {reason}")


def require_utf8(path: Path) -> None:
    """Refuse paths that SQLite cannot store in the command line of a run.

    Raises
    ------
    StoreError : the path is not UTF-8.
    """
    try:
        str(path).encode()
    except UnicodeEncodeError as exc:
        shown = str(path).encode(errors="backslashreplace").decode()
        msg = f"store {shown}: the path is not UTF-8; rename the file or its folder"
        raise StoreError(msg) from exc


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Convert SQLite and parsing errors to StoreError."""
    try:
        yield
    except sqlite3.Error as exc:
        raise store_error(path, exc) from exc
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as exc:
        msg = f"store {path} is damaged: `ope-bench store check --store {path}` says where"
        raise StoreError(msg) from exc


# Tables, as ordered, named migrations; each in one transaction with its own record.

APPLICATION_ID = 0x4F504542
"""``OPEB`` in the file's header distinguishes stores from other SQLite files."""

_FIRST_TABLES = Path(__file__).with_name("first_tables.sql").read_text(encoding="utf-8")

MIGRATIONS: Sequence[tuple[str, Sequence[str]]] = (
    # `executescript` would commit the transaction that a migration is.
    (
        "first tables",
        (*_FIRST_TABLES.split(";"), f"PRAGMA application_id = {APPLICATION_ID}"),
    ),
    (
        "notes of records, order of runs",
        (
            "ALTER TABLE record ADD COLUMN note TEXT",
            "ALTER TABLE run ADD COLUMN number INTEGER",
            """
            UPDATE run SET number = (
                SELECT count(*) FROM run AS other
                WHERE (other.started, other.id) <= (run.started, run.id)
            )
            """,
        ),
    ),
    (
        "intervals",
        (
            "ALTER TABLE record ADD COLUMN interval_low REAL",
            "ALTER TABLE record ADD COLUMN interval_high REAL",
            "ALTER TABLE record ADD COLUMN interval_level REAL",
            "ALTER TABLE record ADD COLUMN interval_kind TEXT",
        ),
    ),
    ("checksums of records", ("ALTER TABLE record ADD COLUMN checksum INTEGER",)),
    ("salts", ("ALTER TABLE record ADD COLUMN salt TEXT",)),
    ("plans", ("ALTER TABLE run ADD COLUMN plan TEXT",)),
    ("code of estimators", ("ALTER TABLE record ADD COLUMN estimator_digest TEXT",)),
)

ADDED: Mapping[int, Mapping[str, Mapping[str, str]]] = {
    2: {
        "record": {"note": "NULL"},
        "run": {"number": "row_number() OVER (ORDER BY started, id)"},
    },
    3: {
        "record": dict.fromkeys(
            ("interval_low", "interval_high", "interval_level", "interval_kind"), "NULL"
        )
    },
    4: {"record": {"checksum": "NULL"}},
    5: {"record": {"salt": "NULL"}},
    6: {"run": {"plan": "NULL"}},
    7: {"record": {"estimator_digest": "NULL"}},
}
"""Columns by the migration that adds them, by table, and what stands for them before it."""


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit what the block writes, or nothing of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # After some errors, such as a full disk, SQLite has rolled back already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def view_older(connection: sqlite3.Connection, version: int) -> None:
    """Let a store of an older schema be read as one of today's, without a change of its file."""
    missing: dict[str, dict[str, str]] = {}
    for number, tables in ADDED.items():
        for table, columns in tables.items() if number > version else ():
            missing.setdefault(table, {}).update(columns)
    for table, columns in missing.items():
        shown = ", ".join(["*", *(f"{value} AS {name}" for name, value in columns.items())])
        # Temporary views hide the tables of the file that have the same name.
        view = f"CREATE TEMP VIEW {table} AS SELECT {shown} FROM main.{table}"  # noqa: S608
        connection.execute(view)


def migrate(
    connection: sqlite3.Connection,
    migrations: Sequence[tuple[str, Sequence[str]]] = MIGRATIONS,
) -> None:
    """Apply the missing migrations, in order."""
    (have,) = connection.execute("PRAGMA user_version").fetchone()
    for number, (name, statements) in enumerate(migrations, start=1):
        if number <= have:
            continue
        with transaction(connection):
            connection.execute(
                "CREATE TABLE IF NOT EXISTS migration "
                "(number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied REAL NOT NULL) STRICT"
            )
            for statement in statements:
                connection.execute(statement)
            connection.execute(
                "INSERT INTO migration VALUES (?, ?, ?)", (number, name, time.time())
            )
            connection.execute(f"PRAGMA user_version = {number}")


# Damage that SQLite does not notice: a checksum of each record.

COVERED: tuple[str, ...] = (
    *("key", "run", "finished", "timeout", "memory", "estimator_digest"),
    *TRIAL_COLUMNS,
    *RECORD_COLUMNS,
    *("environment", "estimator"),
)
"""Columns that a checksum covers; environment and estimator are the digests of their specs."""

_SORTED = tuple(sorted(COVERED))
_in_order = itemgetter(*map(COVERED.index, _SORTED))

_FORMAT = 2
"""The oldest format with binary floats, the same in every version of Python; JSON takes five times
as long, which every trial would pay."""


def checksum(values: Sequence[Any]) -> int:
    """Return the checksum of a record's values, in the order of ``COVERED``.

    Columns without a value do not count, so that a later version may add columns.
    """
    facts = [
        # SQLite stores no negative zero.
        (name, value + 0.0 if type(value) is float else value)
        for name, value in zip(_SORTED, _in_order(values), strict=True)
        if value is not None
    ]
    return zlib.crc32(marshal.dumps(facts, _FORMAT))


# Connections.


def connect(path: Path, *, write: bool) -> sqlite3.Connection:
    """Connect to a store of the current schema.

    Raises
    ------
    StoreError : the file is missing, no store, newer, or cannot be opened.
    """
    if path.is_dir():
        msg = f"store {path} is a folder; expected a file"
        raise StoreError(msg)
    if not write and not path.exists():
        msg = f"there is no store {path}; `ope-bench run` makes one, --store names another"
        raise StoreError(msg)
    if write and path.exists() and not os.access(path, os.W_OK):
        msg = f"store {path} is read-only"
        raise StoreError(msg)
    connection = None
    try:
        with reading(path):
            connection = _open(path, write=write)
            _check(connection, path, write=write)
    except BaseException:
        if connection:
            connection.close()
        raise
    return connection


def _open(path: Path, *, write: bool) -> sqlite3.Connection:
    uri = path.absolute().as_uri()
    if write:
        return sqlite3.connect(f"{uri}?mode=rwc", uri=True, isolation_level=None)
    if os.access(path, os.W_OK) and os.access(path.absolute().parent, os.W_OK):
        # Opened for writing, so that the last to close can remove the log of a killed run.
        return sqlite3.connect(f"{uri}?mode=rw", uri=True, isolation_level=None)
    connection = sqlite3.connect(f"{uri}?mode=ro", uri=True, isolation_level=None)
    try:
        connection.execute("PRAGMA application_id").fetchone()
    except sqlite3.OperationalError:
        # Read-only media: without its index file, a store is readable only if there is no writer.
        connection.close()
        if os.access(path.absolute().parent, os.W_OK) or not os.access(path, os.R_OK):
            raise
        connection = sqlite3.connect(f"{uri}?mode=ro&immutable=1", uri=True, isolation_level=None)
    return connection


def _check(connection: sqlite3.Connection, path: Path, *, write: bool) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    # A run that was killed while creating its store leaves an empty file.
    unborn = application == 0 and version == 0 and tables == 0
    if application != APPLICATION_ID and not (write and unborn):
        msg = f"{path} is not an ope-bench store"
        raise StoreError(msg)
    if version < 0:
        msg = f"store {path} is damaged: its schema is {version}; restore a copy"
        raise StoreError(msg)
    if version > len(MIGRATIONS):
        msg = (
            f"store {path} was made by a newer ope-bench (schema {version}; "
            f"this one reads up to {len(MIGRATIONS)}): upgrade ope-bench"
        )
        raise StoreError(msg)
    if not write:
        view_older(connection, version)
        connection.execute("PRAGMA query_only = ON")
    else:
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        migrate(connection)
        if unborn:
            # Until then all is in the log beside the file, and a copy of the file alone is empty.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


# One writer at a time. A lock of the package filelock does not say which process holds it.


class WriterLock:
    """An exclusive lock on ``<store>-lock``.

    A separate file, because closing any descriptor of the store would release SQLite's own locks.
    The kernel releases the lock when the process ends; workers do not inherit it.

    Parameters
    ----------
    store : path of the store.

    Raises
    ------
    StoreError : another run holds it, or the folder is not writable.
    """

    def __init__(self, store: Path) -> None:
        self._path = store.parent / f"{store.name}-lock"
        while True:
            try:
                file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except OSError as exc:
                msg = f"store {store} cannot be written: {exc.strerror} ({self._path})"
                raise StoreError(msg) from exc
            if fcntl is not None:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError as exc:
                    holder = os.read(file, 200).decode(errors="replace").strip()
                    os.close(file)
                    msg = f"store {store} is in use by another run{holder and f' ({holder})'}"
                    raise StoreError(msg) from exc
            # The last holder may have removed the file between open and lock.
            with contextlib.suppress(FileNotFoundError):
                if os.fstat(file).st_ino == os.stat(self._path).st_ino:
                    break
            os.close(file)
        with contextlib.suppress(OSError):
            os.ftruncate(file, 0)
            os.write(file, f"process {os.getpid()} since {time.strftime('%H:%M:%S')}\n".encode())
        self._file: int | None = file

    def release(self) -> None:
        """Release the lock."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            os.close(self._file)
            self._file = None
