"""From a path to a connection, or to one line that says why not."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from ope_bench.errors import StoreError
from ope_bench.store.schema import APPLICATION_ID, MIGRATIONS, migrate

__all__ = ["connected", "explained"]

_REASONS = {
    "SQLITE_FULL": "the disk is full; what was stored before is safe",
    "SQLITE_READONLY": "it is read-only",
    "SQLITE_CANTOPEN": "it cannot be opened: are file and folder readable?",
    "SQLITE_NOTADB": "it is not an ope-bench store",
    "SQLITE_CORRUPT": "it is damaged",
    "SQLITE_BUSY": "another program holds it locked",
    "SQLITE_PERM": "no permission",
}


def explained(path: Path, exc: sqlite3.Error) -> StoreError:
    """One line for what SQLite says."""
    name = getattr(exc, "sqlite_errorname", "") or ""
    told = next((reason for code, reason in _REASONS.items() if name.startswith(code)), str(exc))
    return StoreError(f"store {path}: {told}")


def connected(path: Path, *, write: bool) -> sqlite3.Connection:
    """A connection to a store of the current schema.

    Raises
    ------
    StoreError : the file is missing, foreign, newer, or cannot be opened.
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
        connection = _opened(path, write=write)
        _check(connection, path, write=write)
    except BaseException as exc:
        if connection:
            connection.close()
        if isinstance(exc, sqlite3.Error):
            raise explained(path, exc) from exc
        raise
    return connection


def _opened(path: Path, *, write: bool) -> sqlite3.Connection:
    uri = path.absolute().as_uri()
    if write:
        return sqlite3.connect(f"{uri}?mode=rwc", uri=True, isolation_level=None)
    if os.access(path, os.W_OK) and os.access(path.absolute().parent, os.W_OK):
        # Able to write, so that the last to close can tidy up after a run that was killed.
        connection = sqlite3.connect(f"{uri}?mode=rw", uri=True, isolation_level=None)
        connection.execute("PRAGMA query_only = ON")
        return connection
    connection = sqlite3.connect(f"{uri}?mode=ro", uri=True, isolation_level=None)
    try:
        connection.execute("PRAGMA application_id").fetchone()
    except sqlite3.OperationalError:
        # Read-only media: without its index file a store can be read only if nobody writes.
        connection.close()
        if os.access(path.absolute().parent, os.W_OK) or not os.access(path, os.R_OK):
            raise
        connection = sqlite3.connect(f"{uri}?mode=ro&immutable=1", uri=True, isolation_level=None)
    return connection


def _check(connection: sqlite3.Connection, path: Path, *, write: bool) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    # A run killed while it made its store leaves an empty one.
    unborn = application == 0 and version == 0 and tables == 0
    if application != APPLICATION_ID and not (write and unborn):
        msg = f"{path} is not an ope-bench store"
        raise StoreError(msg)
    if version > len(MIGRATIONS):
        msg = (
            f"store {path} was made by a newer ope-bench (schema {version}; "
            f"this one reads up to {len(MIGRATIONS)}): upgrade ope-bench"
        )
        raise StoreError(msg)
    if not write and version < len(MIGRATIONS):
        msg = f"store {path} is of an older schema; `ope-bench run` upgrades it"
        raise StoreError(msg)
    if write:
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        migrate(connection)
    # A file system without shared memory has no such mode; reading works all the same.
    with contextlib.suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA mmap_size = 268435456")
