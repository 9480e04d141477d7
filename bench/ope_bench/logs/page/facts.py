"""What the page draws of a log: aggregates alone, no row of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ope_bench.contracts.arrays import FloatArray
from ope_bench.logs.advice.advice_values import AdviceValues
from ope_bench.logs.checking.reliability import reliability_of
from ope_bench.logs.reading.log_data import LogData

__all__ = ["evidence_lines", "reliability_lines", "weight_lines", "weight_words"]

Lines = list[dict[str, Any]]

BINS = 24
MOST_ACTIONS = 20


def weight_lines(weights: FloatArray) -> Lines:
    """Return the weights' histogram: shares of rows and of the weight, in geometric bins."""
    positive = weights[weights > 0]
    if not len(positive):
        return []
    low, high = float(positive.min()), float(positive.max())
    edges = np.geomspace(low, high, BINS + 1) if high > low else np.array([low / 1.1, low * 1.1])
    edges[0], edges[-1] = min(edges[0], low), max(edges[-1], high)
    rows = np.histogram(positive, edges)[0] / len(weights)
    share = np.histogram(positive, edges, weights=positive)[0] / positive.sum()
    return [
        {"low": float(left), "high": float(right), "share": float(one), "of": of}
        for of, shares in (("rows", rows), ("weight", share))
        for left, right, one in zip(edges[:-1], edges[1:], shares, strict=True)
    ]


def weight_words(weights: FloatArray) -> str:
    """Return the figures of the weights in one sentence."""
    total, squares = float(weights.sum()), float(np.square(weights).sum())
    zero = float((weights == 0).mean())
    if squares == 0:
        return "All weights are zero: no logged row speaks of the policy."
    return (
        f"{zero:.0%} of the rows have weight zero; the weights average "
        f"{weights.mean():.3f} (1 is right), the largest is {weights.max():.3g} and carries "
        f"{weights.max() / total:.1%} of the weight; together they are worth "
        f"{total**2 / squares:,.0f} of {len(weights):,} rows."
    )


def reliability_lines(log: LogData) -> Lines:
    """Return, for the actions furthest from one, the mean of 1{a}/p with its 95 % interval."""
    found = reliability_of(log)
    if found is None:
        return []
    order = np.argsort(-np.abs(found.z), kind="stable")[:MOST_ACTIONS]
    return [
        {
            "action": log.actions[found.action[k]],
            "mean": float(found.mean[k]),
            "low": float(found.mean[k] - 1.96 * found.error[k]),
            "high": float(found.mean[k] + 1.96 * found.error[k]),
        }
        for k in order
    ]


def evidence_lines(advice: AdviceValues) -> Lines:
    """Return the error of each candidate on each made world."""
    worlds: Sequence[Any] = [world for world in advice.worlds if world.rmse]
    return [
        {"world": world.name, "method": label, "rmse": rmse}
        for world in worlds
        for label, rmse in world.rmse.items()
    ]
