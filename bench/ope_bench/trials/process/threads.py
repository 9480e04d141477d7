"""Numbers of threads: one per trial, set in a worker's environment or in this process."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

__all__ = ["pinned", "thread_variables"]

_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


def thread_variables(threads: int) -> dict[str, str]:
    """Return the environment variables that BLAS, OpenMP, torch and xgboost read when loaded."""
    return dict.fromkeys(_VARIABLES, str(threads))


@contextlib.contextmanager
def pinned(threads: int) -> Iterator[None]:
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
