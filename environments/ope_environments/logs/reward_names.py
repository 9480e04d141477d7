"""Reward models by name."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ope_environments.logs.decisions import LoggedDecisions
from ope_environments.logs.neighbor_reward import fit_neighbors
from ope_environments.logs.reward_model import (
    MeanRewardModel,
    fit_boosted,
    fit_constant,
    fit_linear,
)
from ope_environments.logs.smooth_reward import draw_smooth
from ope_environments.populations.design import Design

__all__ = ["RewardName", "reward_of"]

RewardName = Literal["linear", "boosting", "neighbors", "random", "constant"]


def reward_of(
    name: RewardName, data: LoggedDecisions, design: Design, ridge: float, rng: np.random.Generator
) -> MeanRewardModel:
    """Return the model of a name, fitted to logged rows.

    Parameters
    ----------
    ridge : penalty, or pseudo-count, of the model.
    rng : draws the model ``random``, which has the spread of the linear one; others draw nothing.
    """
    if name == "boosting":
        return fit_boosted(data, ridge)
    if name == "neighbors":
        return fit_neighbors(data, design, ridge)
    if name == "constant":
        return fit_constant(data)
    linear = fit_linear(data, design, ridge)
    if name == "linear":
        return linear
    return draw_smooth(data, design, float(linear.at(data.context, data.action).std()), rng)
