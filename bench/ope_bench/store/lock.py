"""One writer at a time: a lock file beside the store, held as long as its process lives."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from ope_bench.errors import StoreError

__all__ = ["WriterLock"]

try:
    import fcntl
except ImportError:  # not on this platform: two runs at once are then not refused
    fcntl = None  # type: ignore[assignment]


class WriterLock:
    """An exclusive lock on ``<store>-lock``.

    A file of its own, because closing any descriptor of the store itself would drop SQLite's own
    locks. The kernel releases it with the process, however that dies; workers do not inherit it.

    Parameters
    ----------
    store : path of the store.

    Raises
    ------
    StoreError : another run holds it, or the folder is not writable.
    """

    def __init__(self, store: Path) -> None:
        self._path = store.with_name(f"{store.name}-lock")
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
            # Its last holder may have removed the name between our open and our lock.
            with contextlib.suppress(FileNotFoundError):
                if os.fstat(file).st_ino == os.stat(self._path).st_ino:
                    break
            os.close(file)
        with contextlib.suppress(OSError):
            os.ftruncate(file, 0)
            os.write(file, f"process {os.getpid()} since {time.strftime('%H:%M:%S')}\n".encode())
        return file

    def release(self) -> None:
        """Let others write."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            os.close(self._file)
            self._file = None
