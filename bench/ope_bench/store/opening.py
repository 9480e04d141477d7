"""Open a connection to a store, or raise an error of one line."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from ope_bench.errors import StoreError
from ope_bench.store.schema import APPLICATION_ID, MIGRATIONS, migrate, view_older

__all__ = ["connect", "reading", "require_utf8", "store_error"]

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
    told = next((reason for code, reason in _REASONS.items() if name.startswith(code)), str(exc))
    return StoreError(f"store {path}: {told}")


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
    """Convert what damaged rows raise, of SQLite and of those who parse them, to a StoreError."""
    try:
        yield
    except sqlite3.Error as exc:
        raise store_error(path, exc) from exc
    except (ValueError, TypeError, LookupError, AttributeError) as exc:
        msg = f"store {path} is damaged: `ope-bench store check --store {path}` says where"
        raise StoreError(msg) from exc


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
            connection = _opened(path, write=write)
            _check(connection, path, write=write)
    except BaseException:
        if connection:
            connection.close()
        raise
    return connection


def _opened(path: Path, *, write: bool) -> sqlite3.Connection:
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
    if version > len(MIGRATIONS):
        msg = (
            f"store {path} was made by a newer ope-bench (schema {version}; "
            f"this one reads up to {len(MIGRATIONS)}): upgrade ope-bench"
        )
        raise StoreError(msg)
    if not write and version < len(MIGRATIONS):
        view_older(connection, version)
    if not write:
        connection.execute("PRAGMA query_only = ON")
    else:
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        migrate(connection)
        if unborn:
            # Until then all is in the log beside the file, and a copy of the file alone is empty.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
