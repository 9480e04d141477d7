"""Allow one writer at a time, by a lock file next to the store that the writer's process holds.

A lock of the package filelock does not say which process holds it; this one does.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from ope_bench.errors import StoreError

__all__ = ["WriterLock"]

try:
    import fcntl
except ImportError:  # not on this platform, where two runs at once are not refused
    fcntl = None  # type: ignore[assignment]


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
        self._file: int | None = self._acquired(store)

    def _acquired(self, store: Path) -> int:
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
        return file

    def release(self) -> None:
        """Release the lock."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            os.close(self._file)
            self._file = None
