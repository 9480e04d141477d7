"""The dictionary of Open Bandit Pipeline as a log: its rounds, and an action distribution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ope_bench.base.errors import UsageError
from ope_bench.contracts.arrays import IntArray
from ope_bench.logs.targets import policy_array
from ope_bench.reader.frames import in_order_of, index_of

KEYS = {"context", "action", "reward", "pscore"}
"""Keys by which a ``bandit_feedback`` is known."""


def feedback_of(frame: Any, target: Any, logging: Any, **given: Any) -> dict[str, Any]:
    """Return the arguments of `Log.from_frame` that a ``bandit_feedback`` means.

    Parameters
    ----------
    frame : the dictionary; further keys may be columns.
    target, logging : arrays (rounds, actions, positions), or whatever `Log.from_frame` takes.
    given : its other arguments.

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
    for name in ("context", "action", "reward", "actions"):
        if given[name] is not None and len(given[name]):
            msg = f"{name}: a bandit_feedback has its own; leave it out, or name all columns"
            raise UsageError(msg)
    if frame["pscore"] is None and given["propensity"] is None:
        msg = "bandit_feedback, 'pscore': is None; give it, or propensity=\"estimated\""
        raise UsageError(msg)
    index = index_of(frame, sorted(KEYS))
    columns = {one: in_order_of(frame[one], index, f"bandit_feedback, '{one}'") for one in KEYS}
    context = columns["context"]
    if context is not None and not isinstance(context, np.ma.MaskedArray):
        columns["context"] = np.asarray(context)
    if np.ndim(columns["context"]) == 1:
        columns["context"] = columns["context"][:, None]
    action = _whole_numbers("action", columns["action"])
    n = len(columns["action"])
    n_actions = int(_whole_numbers("n_actions", [frame.get("n_actions", action.max() + 1)])[0])
    position = frame.get("position")
    at = None if position is None else _whole_numbers("position", position)

    def at_position(given: Any) -> Any:
        if isinstance(given, Mapping):
            return {name: at_position(one) for name, one in given.items()}
        if not isinstance(given, np.ndarray | list):
            return given
        array = policy_array(given, "target", None)
        if array.ndim != 3:
            return given
        positions = array.shape[2]
        if array.shape[:2] != (n, n_actions) or not positions:
            msg = (
                f"an action distribution of shape {array.shape}; expected ({n}, "
                f"{n_actions}, positions), a row for each round"
            )
            raise UsageError(msg)
        if positions == 1:
            return array[:, :, 0]
        if at is None or len(at) != n or at.max() >= positions:
            msg = f"position: give one for each round, each from 0 and below {positions}"
            raise UsageError(msg)
        return array[np.arange(n), :, at]

    given |= {
        "context": [] if context is None else ["context"],
        "action": "action",
        "reward": "reward",
        "propensity": given["propensity"] or "pscore",
        "actions": range(n_actions),
    }
    logging = frame.get("pi_b") if logging is None else logging
    policies = {"target": at_position(target), "logging": at_position(logging)}
    return {"frame": {**frame, **columns}, **given, **policies}


def _whole_numbers(name: str, given: Any) -> IntArray:
    array = given.compressed() if isinstance(given, np.ma.MaskedArray) else np.asarray(given)
    if array.ndim != 1 or not array.size or array.dtype.kind not in "iu" or array.min() < 0:
        msg = f"bandit_feedback, '{name}': is not of whole numbers from 0; give one for each round"
        raise UsageError(msg)
    return array
