"""The rules by worlds: least error on data sets that are made from the logs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from ope_bench import FloatArray, NestedEnvironment, UnavailableError, View
from ope_estimators.selection.candidates import Candidate

__all__ = ["MAKERS", "WorldRule", "worlds_score"]

WorldRule = Literal["pseudo-reward", "redrawn", "resample", "worlds"]

_DIALS = {
    "pseudo-reward": "reward_model=[linear,boosting,neighbors,random,constant]",
    "redrawn": "reward_model=[linear,boosting]",
    "resample": "kept=[0.8,0.65,0.5,0.35,0.2]",
}
MAKERS: dict[str, tuple[str, ...]] = {
    maker: (f"logs[maker={maker},n_samples=null,{dial}]",) for maker, dial in _DIALS.items()
}
MAKERS["worlds"] = tuple(one for makers in MAKERS.values() for one in makers)
"""Selectors of the environments of each rule; ``worlds`` takes all."""

TINY = 1e-24


def worlds_score(
    candidates: Sequence[Candidate], view: View, rule: str, n_data_sets: int, device: str
) -> tuple[FloatArray, int]:
    """Return each candidate's error on made worlds, (k,), and how many estimates were made.

        exp mean_w log RMSE_w

    The geometric mean over worlds w of the root mean squared error over their data sets. Where a
    candidate fails, it has the error of the mean reward.

    Parameters
    ----------
    candidates : k estimators.
    view : the logs.
    rule : one of `MAKERS`.
    n_data_sets : of each world.
    device : where estimates are computed.

    Raises
    ------
    UnavailableError : no world can be made of these logs.
    """
    logs, reruns, reasons = [], 0, []
    for selector in MAKERS[rule]:
        try:
            worlds = NestedEnvironment.all_of(selector, view)
        except UnavailableError as exc:
            reasons.append(str(exc))
            continue
        for world in worlds:
            squares = np.zeros(len(candidates))
            for replicate in range(n_data_sets):
                squares += np.square(_errors(candidates, world, replicate, device))
                reruns += len(candidates)
            # A candidate that is always right would decide alone.
            logs.append(0.5 * np.log(np.maximum(squares / n_data_sets, TINY)))
    if not logs:
        raise UnavailableError("; ".join(dict.fromkeys(reasons)))
    score: FloatArray = np.exp(np.mean(logs, axis=0))
    return score, reruns


def _errors(
    candidates: Sequence[Candidate], world: NestedEnvironment, replicate: int, device: str
) -> FloatArray:
    """Return the errors of the candidates on one data set: (k,)."""
    view, value = world.sample(replicate, device)
    estimates = (one.value_on(view, device) for one in candidates)
    average = float(view.reward.mean())
    return np.array([(one if math.isfinite(one) else average) - value for one in estimates])
