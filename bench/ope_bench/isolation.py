"""What a plugin may not leave behind: output, and changed settings of the whole process."""

from __future__ import annotations

import contextlib
import io
import os
import random
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["Tail", "isolated"]

TAIL_CHARACTERS = 4_000


class Tail(io.TextIOBase):
    """A text stream that keeps only the end of what is written to it."""

    def __init__(self) -> None:
        self._kept = ""

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, text: str) -> int:
        """Keep the end."""
        self._kept = (self._kept + text[-TAIL_CHARACTERS:])[-TAIL_CHARACTERS:]
        return len(text)

    def text(self) -> str | None:
        """What was kept, None if nothing was written."""
        return self._kept or None


@contextlib.contextmanager
def isolated(seed: int, *, restore: bool = True) -> Iterator[Tail]:
    """Catch Python-level output and give global random states a seed of the trial's own.

    A plugin that draws from a global state would otherwise give numbers that depend on what ran
    before it. For the same reason settings that change numbers, warnings or relative paths are
    put back: numpy's error state, warning filters, the working directory, torch's threads and
    default type.

    Parameters
    ----------
    seed : 32 bits.
    restore : give the caller's states back afterwards.
    """
    tail = Tail()
    before = _states() if restore else None
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  the state that plugins may use
    torch = sys.modules.get("torch")
    if torch:
        # What seeds devices too formats the call stack each time; there may be none. Before
        # torch 2.6 there was no asking.
        accelerator = getattr(torch, "accelerator", None)
        devices = accelerator is None or accelerator.is_available()
        (torch if devices else torch.default_generator).manual_seed(seed)
    try:
        with (
            contextlib.redirect_stdout(tail),
            contextlib.redirect_stderr(tail),
            np.errstate(),
            warnings.catch_warnings(),
            _settings_kept(),
        ):
            yield tail
    finally:
        if before is not None:
            random.setstate(before[0])
            np.random.set_state(before[1])  # noqa: NPY002
            if before[2] is not None and torch:
                torch.set_rng_state(before[2])


@contextlib.contextmanager
def _settings_kept() -> Iterator[None]:
    folder = _folder()
    torch = sys.modules.get("torch")
    before = (torch.get_num_threads(), torch.get_default_dtype()) if torch else None
    try:
        yield
    finally:
        if folder is not None and _folder() != folder:
            os.chdir(folder)
        if torch and before and before != (torch.get_num_threads(), torch.get_default_dtype()):
            torch.set_num_threads(before[0])
            torch.set_default_dtype(before[1])


def _folder() -> str | None:
    """The working directory, None where it has been removed."""
    try:
        return os.getcwd()
    except OSError:
        return None


def _states() -> tuple[Any, Any, Any]:
    torch = sys.modules.get("torch")
    return (
        random.getstate(),
        np.random.get_state(),  # noqa: NPY002
        torch.get_rng_state() if torch else None,
    )
