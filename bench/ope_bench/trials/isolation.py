"""Isolation of trials: output, global random states and numbers of threads of their own."""

from __future__ import annotations

import contextlib
import io
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

TAIL_CHARACTERS = 4_000

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "POLARS_MAX_THREADS",
)


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
def isolated(seed: int, *, restore: bool = True) -> Iterator[OutputTail]:
    """Catch Python-level output and give global random states a seed of the trial's own.

    A plugin that draws from a global state would otherwise give numbers that depend on what ran
    before it. For the same reason numpy's error state and warning filters are put back.

    Parameters
    ----------
    seed : 32 bits.
    restore : give the caller's random states back afterwards.
    """
    tail = OutputTail()
    with (
        random_states_restored() if restore else contextlib.nullcontext(),
        contextlib.redirect_stdout(tail),
        contextlib.redirect_stderr(tail),
        np.errstate(),
        warnings.catch_warnings(),
    ):
        seed_global_states(seed)
        yield tail


@contextlib.contextmanager
def random_states_restored() -> Iterator[None]:
    """Give the caller's global random states back after the block."""
    torch = sys.modules.get("torch")
    generators: Any = np.random
    python, generator, numpy = (
        random.getstate(),
        generators.get_bit_generator(),
        generators.get_state(legacy=False),
    )
    of_torch = torch.get_rng_state() if torch else None
    try:
        yield
    finally:
        random.setstate(python)
        # A state fits generators of its own kind only.
        generators.set_bit_generator(generator)
        generators.set_state(numpy)
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


def seeding_of_torch(seed: int) -> Callable[[str], None]:
    """Return what to call when a library is imported: a seed for torch's generator."""

    def imported(name: str) -> None:
        if name == "torch":
            _seed_torch(sys.modules[name], seed)

    return imported


def _seed_torch(torch: Any, seed: int) -> None:
    # What seeds devices too formats the call stack each time; there may be none. Before
    # torch 2.6 there was no asking.
    accelerator = getattr(torch, "accelerator", None)
    devices = accelerator is None or accelerator.is_available()
    (torch if devices else torch.default_generator).manual_seed(seed)


def thread_variables(threads: int) -> dict[str, str]:
    """Return the environment variables that numerical libraries read when they are loaded."""
    return dict.fromkeys(_THREAD_VARIABLES, str(threads))


@contextlib.contextmanager
def thread_limit(threads: int) -> Iterator[None]:
    """Set the number of threads of every numerical library of this process.

    Environment variables act on libraries that are loaded inside the block, calls on those that
    are loaded already. Both are restored, but a library loaded inside keeps its number of threads.
    """
    from threadpoolctl import threadpool_limits

    wanted = thread_variables(threads)
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    torch = sys.modules.get("torch")
    torch_threads = torch.get_num_threads() if torch else None
    if torch:
        torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if torch and torch_threads:
            torch.set_num_threads(torch_threads)
