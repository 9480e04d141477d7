"""Files written in one step: readers see the old one or the new one, never half of one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from ope_bench.errors import OpeBenchError

__all__ = ["written_whole"]


@contextlib.contextmanager
def written_whole(path: Path, error: type[OpeBenchError]) -> Iterator[Path]:
    """A file beside ``path`` that takes its place at the end.

    Raises
    ------
    OpeBenchError : of the kind ``error``, if the folder is missing or not writable.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield aside
        aside.replace(path)
    except OSError as exc:
        msg = f"cannot write {path}: {exc.strerror or exc}"
        raise error(msg) from exc
    finally:
        aside.unlink(missing_ok=True)
