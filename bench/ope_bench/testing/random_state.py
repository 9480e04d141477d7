"""Detect changes of global random states and process settings by a block of code."""

from __future__ import annotations

import contextlib
import pickle
import random
import sys
from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from ope_bench.testing.checks import CheckFailed
from ope_bench.trials.process.settings import ProcessSettings

__all__ = ["untouched_global_random_state", "unchanged_process_settings"]

_OURS = 1_234_567_891


def _states() -> dict[str, object]:
    # The states that plugins must not change.
    states: dict[str, object] = {
        "random": random.getstate(),
        "numpy.random": np.random.get_state(legacy=False),  # noqa: NPY002
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        states["torch"] = torch.get_rng_state().numpy()
    return states


def _seed(states: dict[str, object]) -> None:
    """Set states that no plugin seeds by chance, so that seeding is detected like drawing."""
    random.seed(_OURS)
    np.random.seed(_OURS)  # noqa: NPY002
    if "torch" in states:
        sys.modules["torch"].manual_seed(_OURS)


def _restore(states: dict[str, object]) -> None:
    random.setstate(cast(Any, states["random"]))
    np.random.set_state(cast(Any, states["numpy.random"]))  # noqa: NPY002
    if "torch" in states:
        torch = sys.modules["torch"]
        torch.set_rng_state(torch.from_numpy(states["torch"]))


def _same(before: object, after: object) -> bool:
    return pickle.dumps(before) == pickle.dumps(after)


@contextlib.contextmanager
def untouched_global_random_state(instead: str) -> Iterator[None]:
    """Raise CheckFailed if the block draws from or seeds a global random state.

    The states are restored afterwards.

    Parameters
    ----------
    instead : the generator to use instead, for the message.
    """
    kept = _states()
    _seed(kept)
    before = _states()
    try:
        yield
        after = _states()
    finally:
        _restore(kept)
    changed = [name for name, state in before.items() if not _same(after[name], state)]
    if changed:
        msg = (
            f"the global random state of {', '.join(changed)} was changed; draw from {instead} "
            "only (torch: a Generator or `torch.random.fork_rng()`, seeded from it)"
        )
        raise CheckFailed(msg)


@contextlib.contextmanager
def unchanged_process_settings() -> Iterator[None]:
    """Raise CheckFailed if the block left a setting of the whole process changed.

    The settings are restored.
    """
    settings = ProcessSettings()
    try:
        with settings.watched():
            yield
    finally:
        left = settings.restore()
    if left:
        msg = (
            f"{', '.join(left.names)} changed and did not change back; use a context manager, or "
            "`try` and `finally`"
        )
        raise CheckFailed(msg)
