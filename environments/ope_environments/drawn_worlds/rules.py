"""Rules as logging policies: each part of the contexts has an action or a list of them."""

from __future__ import annotations

import numpy as np

from ope_bench import FloatArray, IntArray

__all__ = ["draw_exploration", "draw_rule"]

FEW_ACTIONS = 10
"""Actions up to which a rule chooses one; beyond, every second rule shows lists."""


def draw_exploration(rng: np.random.Generator) -> float:
    """Draw the share of decisions that a rule leaves to chance: 0 in 40 %, else .1 to 5 %."""
    share = float(np.exp(rng.uniform(np.log(0.001), np.log(0.05))))
    return 0.0 if rng.random() < 0.4 else share


def draw_rule(
    design: FloatArray, score: FloatArray, exploration: float, rng: np.random.Generator
) -> FloatArray:
    """Draw a rule, a function of the context, with some exploration: (n, n_actions).

    Half of the rules cut the contexts in 2, 4 or 8 parts, by thresholds of columns or of products
    of two columns; each part has its action, or, in half of the worlds with many actions, its list
    of 10 to 50 % of the actions, all equally likely. The others play the best of two to six
    actions. What a rule plays is preferred by the score, with as much chance.

    Parameters
    ----------
    design : (n, width), standardized columns.
    score : (n, n_actions), standardized.
    exploration : probability of a uniform action instead.
    """
    n, n_actions = score.shape
    played = np.zeros(score.shape)
    if rng.random() < 0.5:
        part = _parts(design, rng)
        size = round(rng.uniform(0.1, 0.5) * n_actions)
        size = max(2, size) if n_actions > FEW_ACTIONS and rng.random() < 0.5 else 1
        for one in np.unique(part):
            inside = part == one
            preferred = score[inside].mean(axis=0) + rng.standard_normal(n_actions)
            chosen = np.argsort(-preferred, kind="stable")[:size]
            played[np.ix_(inside, chosen)] = 1.0 / size
    else:
        some = rng.permutation(n_actions)[: int(rng.integers(2, 7))]
        played[np.arange(n), some[score[:, some].argmax(axis=1)]] = 1.0
    found: FloatArray = (1.0 - exploration) * played + exploration / n_actions
    return found


def _parts(design: FloatArray, rng: np.random.Generator) -> IntArray:
    """Cut contexts by one to three thresholds and return the number of each one's part: (n,)."""
    part = np.zeros(len(design), dtype=np.int64)
    for _ in range(int(rng.integers(1, 4))):
        first, second = rng.integers(design.shape[1], size=2)
        value = design[:, first]
        if rng.random() < 0.4:
            value = value * design[:, second]
        part = 2 * part + (value > np.quantile(value, rng.uniform(0.2, 0.8)))
    return part
