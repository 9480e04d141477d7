"""Whether a block of code touched a global random state."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator

import numpy as np

from ope_bench.testing.checks import CheckFailed

__all__ = ["untouched_global_random_state"]


def _states() -> dict[str, bytes]:
    # The states that plugins must leave alone; numpy's is a tuple with one long array.
    legacy = np.random.get_state(legacy=True)  # noqa: NPY002
    words = [part.tobytes() if isinstance(part, np.ndarray) else part for part in tuple(legacy)]
    states = {
        "random": repr(random.getstate()).encode(),
        "numpy.random": repr(words).encode(),
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        states["torch"] = bytes(torch.get_rng_state().numpy())
    return states


@contextlib.contextmanager
def untouched_global_random_state(instead: str) -> Iterator[None]:
    """Raise CheckFailed if the block drew from, or seeded, a global random state.

    Parameters
    ----------
    instead : what to draw from.
    """
    before = _states()
    yield
    after = _states()
    changed = [name for name, state in before.items() if after[name] != state]
    if changed:
        msg = (
            f"the global random state of {', '.join(changed)} was changed; draw from {instead} "
            "only (torch: a Generator or `torch.random.fork_rng()`, seeded from it)"
        )
        raise CheckFailed(msg)
