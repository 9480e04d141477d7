"""What a trial may not share with others: output and global random states."""

from __future__ import annotations

import contextlib
import io
import random
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from ope_bench.trials.process.settings import ProcessSettings

__all__ = ["OutputTail", "isolated", "random_states_restored", "seed_global_states"]

TAIL_CHARACTERS = 4_000


class OutputTail(io.TextIOBase):
    """A text stream that keeps only the end of its output."""

    def __init__(self) -> None:
        self._kept = ""

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Append, and drop all but the end."""
        self._kept = (self._kept + text[-TAIL_CHARACTERS:])[-TAIL_CHARACTERS:]
        return len(text)

    def text(self) -> str | None:
        """Return the end of the output, None if nothing was written."""
        return self._kept or None


@contextlib.contextmanager
def isolated(
    seed: int, *, restore: bool = True, settings: ProcessSettings | None = None
) -> Iterator[OutputTail]:
    """Catch Python-level output and give global random states a seed of the trial's own.

    A plugin that draws from a global state would otherwise give numbers that depend on what ran
    before it. For the same reason numpy's error state and warning filters are put back.

    Parameters
    ----------
    seed : 32 bits.
    restore : give the caller's random states back afterwards.
    settings : told of libraries that are imported meanwhile, whose generators are seeded then.
    """
    tail = OutputTail()

    def seed_imported(name: str) -> None:
        if name == "torch":
            _seed_torch(sys.modules[name], seed)

    states = random_states_restored() if restore else contextlib.nullcontext()
    imports = contextlib.nullcontext() if settings is None else settings.watched(seed_imported)
    with (
        states,
        contextlib.redirect_stdout(tail),
        contextlib.redirect_stderr(tail),
        np.errstate(),
        warnings.catch_warnings(),
        imports,
    ):
        seed_global_states(seed)
        yield tail


@contextlib.contextmanager
def random_states_restored() -> Iterator[None]:
    """Give the caller's global random states back after the block."""
    torch = sys.modules.get("torch")
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    of_torch = torch.get_rng_state() if torch else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        if torch and of_torch is not None:
            torch.set_rng_state(of_torch)


def seed_global_states(seed: int) -> None:
    """Seed the generators that plugins may draw from: Python's, NumPy's and torch's.

    Parameters
    ----------
    seed : 32 bits.
    """
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  the state that plugins may use
    torch = sys.modules.get("torch")
    if torch:
        _seed_torch(torch, seed)


def _seed_torch(torch: Any, seed: int) -> None:
    # What seeds devices too formats the call stack each time; there may be none. Before
    # torch 2.6 there was no asking.
    accelerator = getattr(torch, "accelerator", None)
    devices = accelerator is None or accelerator.is_available()
    (torch if devices else torch.default_generator).manual_seed(seed)
