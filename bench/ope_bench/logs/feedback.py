"""The dictionary of Open Bandit Pipeline as a log: its rounds, and an action distribution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ope_bench.base.errors import UsageError

KEYS = {"context", "action", "reward", "pscore"}
"""Keys by which a ``bandit_feedback`` is known."""


def feedback_of(frame: Any, target: Any) -> dict[str, Any]:
    """Return the arguments of `Log.from_frame` that a ``bandit_feedback`` means.

    Parameters
    ----------
    frame : the dictionary.
    target : an array (rounds, actions, positions), or whatever `Log.from_frame` takes.

    Raises
    ------
    UsageError : it is no such dictionary, or an array has another shape.
    """
    if not isinstance(frame, Mapping) or not {*KEYS} <= {*frame}:
        msg = (
            "name the columns of `action` and `reward`; only a `bandit_feedback` of Open Bandit "
            f"Pipeline (a dictionary with {', '.join(sorted(KEYS))}) needs no names"
        )
        raise UsageError(msg)
    action = np.asarray(frame["action"])
    n_actions = int(frame.get("n_actions", action.max() + 1))
    position = frame.get("position")
    columns: dict[str, Any] = {name: np.asarray(frame[name]) for name in sorted(KEYS)}
    if columns["context"].ndim == 1:
        columns["context"] = columns["context"][:, None]

    def at_position(given: Any) -> Any:
        array = np.asarray(given)
        if array.ndim != 3:
            return given
        if array.shape[:2] != (len(action), n_actions):
            msg = (
                f"an action distribution of shape {array.shape}; expected ({len(action)}, "
                f"{n_actions}, positions), a row for each round"
            )
            raise UsageError(msg)
        at = np.zeros(len(action), dtype=np.int64) if position is None else np.asarray(position)
        return array[np.arange(len(action)), :, at if array.shape[2] > 1 else 0]

    arrays = isinstance(target, np.ndarray | list)
    logging = frame.get("pi_b")
    return {
        "frame": columns,
        "context": ["context"],
        "action": "action",
        "reward": "reward",
        "propensity": "pscore",
        "target": at_position(target) if arrays else target,
        "logging": None if logging is None else at_position(logging),
        "actions": range(n_actions),
    }
