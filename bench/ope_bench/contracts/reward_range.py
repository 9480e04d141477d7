"""The range of the rewards that an environment declares."""

from __future__ import annotations

import math

import numpy as np

from ope_bench.contracts.arrays import FloatArray
from ope_bench.errors import DataError

__all__ = ["check_rewards"]


def check_rewards(
    reward: FloatArray, reward_range: tuple[float, float], *, name: str = "reward"
) -> tuple[float, float]:
    """Return the range as two floats, after checking that all rewards are inside.

    Parameters
    ----------
    reward : (n,)
    reward_range : its smallest and its largest possible value.
    name : how messages call the array.

    Raises
    ------
    DataError : the range is not two finite numbers in ascending order, or a reward is outside.

    >>> check_rewards(np.array([0.0, 3.0]), (0, 1))
    Traceback (most recent call last):
    ...
    ope_bench.errors.DataError: reward[1] is 3.0, outside the declared reward_range [0.0, 1.0]
    """
    try:
        low, high = (float(value) for value in reward_range)
    except (TypeError, ValueError) as exc:
        msg = f"reward_range is {reward_range!r}; expected two numbers"
        raise DataError(msg) from exc
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        msg = f"reward_range is [{low}, {high}]; expected two finite numbers in ascending order"
        raise DataError(msg)
    outside = (reward < low) | (reward > high)
    if outside.any():
        row = int(np.argmax(outside))
        msg = f"{name}[{row}] is {reward[row]}, outside the declared reward_range [{low}, {high}]"
        raise DataError(msg)
    return low, high
