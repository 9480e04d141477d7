"""Atomic file writes, temporary folders, and what reading much from files needs.

Readers of a file see the old content or the complete new one. `os.replace` does the work; the
package atomicwrites, which wraps it, is archived.
"""

from __future__ import annotations

import contextlib
import gc
import os
import platform
import shutil
import stat
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from ope_bench.base.errors import OpeBenchError


@contextlib.contextmanager
def atomic_write(path: Path, error: type[OpeBenchError]) -> Iterator[Path]:
    """Open a temporary file beside ``path`` that replaces it when the block ends.

    Raises
    ------
    OpeBenchError : of the class ``error``, if the folder is missing or not writable.
    """
    # The number of a process means nothing on another host that shares the folder.
    prefix = f".{path.name}.{zlib.crc32(platform.node().encode()):08x}."
    # Random, because threads have one process id, and containers with a shared folder may.
    temporary = path.parent / f"{prefix}{os.getpid()}.{os.urandom(4).hex()}"
    _remove_stale(path.parent, prefix)
    try:
        yield temporary
        temporary.replace(path)
    except OSError as exc:
        msg = f"cannot write {path}: {exc.strerror or exc}"
        raise error(msg) from exc
    finally:
        temporary.unlink(missing_ok=True)


def _remove_stale(folder: Path, prefix: str) -> None:
    """Remove temporary files of writers that were killed."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            writer = name.removeprefix(prefix).partition(".")[0]
            if name.startswith(prefix) and _is_dead(writer):
                (folder / name).unlink()


def _is_dead(process: str) -> bool:
    """Return whether a text is the number of a process that does not exist."""
    if not process.isdecimal():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    # Of another user, or too large for a process number.
    except (OSError, OverflowError):
        return False
    return False


@contextlib.contextmanager
def temporary_folder(name: str) -> Iterator[Path]:
    """Make a folder that only this user can read, removed at the end.

    This user's folders of processes that were killed are removed first.

    Parameters
    ----------
    name : the folder's name begins with it and the number of this process.
    """
    with tempfile.TemporaryDirectory(prefix=f"{name}-{os.getpid()}-") as own:
        folder = Path(own)
        _remove_stale_folders(folder, f"{name}-")
        yield folder


def _remove_stale_folders(own: Path, prefix: str) -> None:
    for path in own.parent.glob(f"{prefix}*-*"):
        writer = path.name.removeprefix(prefix).partition("-")[0]
        with contextlib.suppress(OSError):
            if _is_dead(writer) and path.lstat().st_uid == own.stat().st_uid:
                shutil.rmtree(path)


def read_text_file(path: Path, most: int, error: type[OpeBenchError]) -> str:
    """Read a text file of limited size; devices and pipes, which may never end, are refused.

    Parameters
    ----------
    path : the file.
    most : bytes.
    error : class of the exceptions.

    Raises
    ------
    OpeBenchError : it cannot be read, is no file, is larger, or is not UTF-8.
    """
    try:
        # Opening a pipe would wait for a writer.
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                msg = f"cannot read {path}: a device or a pipe; expected a file"
                raise error(msg)
            content = stream.read(most + 1)
    except OSError as exc:
        msg = f"cannot read {path}: {exc.strerror or exc}"
        raise error(msg) from exc
    if len(content) > most:
        msg = f"cannot read {path}: larger than {most >> 20} MiB"
        raise error(msg)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as exc:
        msg = f"cannot read {path}: it is not text in UTF-8"
        raise error(msg) from exc


def file_identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a file, None where there is none.

    A file that was deleted and made again has another identity at the same path.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


@contextlib.contextmanager
def gc_disabled() -> Iterator[None]:
    """Disable the garbage collector, which would scan all that a reader holds repeatedly.

    One collection may follow the outermost block, so a whole report should be made in one block.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


# Files in the user's cache folder, which may be missing, or read-only.


def _cache_file(name: str) -> Path:
    # A user without a home folder: RuntimeError.
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder, "ope-bench", name)


def read_cache(name: str) -> str | None:
    """Return a cached text, None where there is none that can be read."""
    with contextlib.suppress(OSError, UnicodeError, RuntimeError):
        return _cache_file(name).read_text(encoding="utf-8")
    return None


def write_cache(name: str, text: str) -> str:
    """Return the text, and cache it if that is possible."""
    with contextlib.suppress(OSError, OpeBenchError, RuntimeError):
        _cache_file(name).parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(_cache_file(name), OpeBenchError) as partial:
            partial.write_text(text, encoding="utf-8")
    return text
