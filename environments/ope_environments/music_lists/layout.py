"""Files of the benchmark: one record a list, with the probability of each item at each slot."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from ope_bench import DataFileError, FloatArray, IntArray, UnavailableError, read_table

__all__ = ["PaddedLists", "read_lists"]

COLUMNS = (
    "actions", "rewards", "logging_selected_actions", "target_selected_actions", "propensities",
)  # fmt: skip

WHERE_TO_GET = (
    "the data are at https://github.com/amazon-science/music-off-policy-evaluation-benchmark"
    " (CC BY-NC 4.0, no part of ope-bench); give the folder of the parquet files"
)

ROUNDING = 1e-3


@dataclass(frozen=True, eq=False)
class PaddedLists:
    """Lists, padded to the longest.

    Parameters
    ----------
    slots : (lists,), shown slots of each list.
    available : (lists,), number of actions that could be shown; their indices are 0, 1, ...
    shown, target : (lists, length), action at each slot under either policy; -1 behind the end.
    reward : (lists, length)
    propensity : (lists, length, length), of the action shown at a slot, at each slot.
    features : for each list (available, d), what describes its actions.
    """

    slots: IntArray
    available: IntArray
    shown: IntArray
    target: IntArray
    reward: FloatArray
    propensity: FloatArray
    features: tuple[FloatArray, ...]


@lru_cache(maxsize=2)
def read_lists(folder: str) -> PaddedLists:
    """Read all parquet files of a folder, in the order of their names.

    Raises
    ------
    UnavailableError : there is none.
    DataFileError : a record does not have the published columns or shapes.
    """
    paths = sorted(Path(folder).glob("*.parquet"))
    if not paths:
        msg = f"music-lists: no parquet file in {folder}; {WHERE_TO_GET}"
        raise UnavailableError(msg)
    records = []
    for path in paths:
        for number, row in enumerate(read_table(path, COLUMNS).frame.to_dicts()):
            wrong = _mistake(row)
            if wrong:
                raise DataFileError(path, f"record {number}: {wrong}")
            records.append(row)
    slots = np.array([len(row["rewards"]) for row in records])
    length = int(slots.max())
    shape = (len(records), length)
    shown, target = np.full(shape, -1), np.full(shape, -1)
    reward, propensity = np.zeros(shape), np.zeros((*shape, length))
    for i, (row, k) in enumerate(zip(records, slots, strict=True)):
        shown[i, :k], target[i, :k] = (row[f"{who}_selected_actions"] for who in WHO)
        reward[i, :k] = row["rewards"]
        propensity[i, :k, :k] = row["propensities"]
    features = tuple(np.array(row["actions"], dtype=np.float64) for row in records)
    available = np.array([len(one) for one in features])
    return PaddedLists(slots, available, shown, target, reward, propensity, features)


WHO = ("logging", "target")


def _mistake(row: dict[str, list[float] | list[list[float]]]) -> str:
    """Return what is wrong with a record; empty where nothing is."""
    k, items = len(row["rewards"]), len(row["actions"])
    for who in WHO:
        chosen = row[f"{who}_selected_actions"]
        if len(chosen) != k or len(set(map(int, chosen))) != k:  # type: ignore[arg-type]
            return f"{who}_selected_actions has not {k} different actions, one for each reward"
        if min(chosen) < 0 or max(chosen) >= items:  # type: ignore[operator]
            return f"{who}_selected_actions names an action that is not among the {items}"
    chance = np.array(row["propensities"], dtype=np.float64)
    if chance.shape != (k, k):
        return f"propensities have shape {chance.shape}; expected ({k}, {k})"
    if not ((chance >= 0) & (chance <= 1 + ROUNDING)).all() or (np.diag(chance) <= 0).any():
        return "propensities are no probabilities, or 0 where an action was shown"
    return ""
