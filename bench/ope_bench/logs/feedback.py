"""The dictionary of Open Bandit Pipeline as a log: its rounds, and an action distribution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ope_bench.base.errors import UsageError
from ope_bench.contracts.arrays import IntArray
from ope_bench.logs.targets import policy_array

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
    action = _whole_numbers("action", frame["action"])
    n_actions = int(_whole_numbers("n_actions", [frame.get("n_actions", action.max() + 1)])[0])
    position = frame.get("position")
    at = np.zeros_like(action) if position is None else _whole_numbers("position", position)
    columns: dict[str, Any] = {name: np.asarray(frame[name]) for name in sorted(KEYS)}
    if columns["context"].ndim == 1:
        columns["context"] = columns["context"][:, None]

    def at_position(given: Any) -> Any:
        array = policy_array(given, "target", None)
        if array.ndim != 3:
            return given
        positions = array.shape[2]
        if array.shape[:2] != (len(action), n_actions) or not positions:
            msg = (
                f"an action distribution of shape {array.shape}; expected ({len(action)}, "
                f"{n_actions}, positions), a row for each round"
            )
            raise UsageError(msg)
        if positions > 1 and not (len(at) == len(action) and at.max() < positions):
            msg = f"position: give one for each round, each from 0 and below {positions}"
            raise UsageError(msg)
        return array[np.arange(len(action)), :, at if positions > 1 else 0]

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


def _whole_numbers(name: str, given: Any) -> IntArray:
    array = np.asarray(given)
    if array.ndim != 1 or not array.size or array.dtype.kind not in "iu" or array.min() < 0:
        msg = f"bandit_feedback, '{name}': is not of whole numbers from 0; give one for each round"
        raise UsageError(msg)
    return array
