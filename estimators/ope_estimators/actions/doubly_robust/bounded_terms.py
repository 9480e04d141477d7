"""Doubly robust terms that are bounded below, for bets on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ope_bench import FloatArray, IntArray, View, row_chunks
from ope_estimators.nuisance.partial_expectation import probability_table
from ope_estimators.nuisance.reward import RewardFunction

__all__ = ["bounded_terms"]

FIRST = 32
"""Units before the first fit; the terms of these units do without a model."""


def bounded_terms(
    view: View,
    fit: Callable[[View], RewardFunction],
    reward_range: tuple[float, float],
    shortfall: float,
) -> tuple[FloatArray, FloatArray]:
    """Return φ of the rewards, scaled to [0, 1], and of one minus them: (n,), (n,).

        φ_i = w_i (r_i - min(q̂, k/w_i)) + sum_a π1(a|x_i) min(q̂(x_i, a), k/w(x_i, a)) >= -k

    Its mean given the rows before is the value, or less without support, because q̂ is fitted to
    earlier units alone: anew whenever their number has doubled. Without rewards of later rows, and
    of the row's own fold, there is no cross-fitting here, which would tie the terms together.

    Parameters
    ----------
    view : which grants both policies; there are finitely many actions.
    fit : fits the reward model to a part of the view.
    reward_range : smallest and largest possible reward.
    shortfall : k.
    """
    low, high = reward_range
    terms = np.empty((2, view.n))
    for before, block in _blocks(view.fold_unit):
        model = fit(view.rows(before, _target_rows(view))) if len(before) else None
        for chunk in row_chunks(len(block), view.n_actions or 1):
            rows = block[chunk]
            scaled = (view.reward[rows] - low) / (high - low)
            pairs = _Pairs(view, rows)
            if model is None:
                terms[:, rows] = pairs.logged_weight * np.stack([scaled, 1.0 - scaled])
                continue
            points = (view.context[rows], view.action[rows])
            at_logged, at_all = (
                np.clip((model(*where) - low) / (high - low), 0.0, 1.0)
                for where in (points, (view.context[rows][pairs.row], pairs.action))
            )
            terms[0, rows] = pairs.terms(scaled, at_logged, at_all, shortfall)
            terms[1, rows] = pairs.terms(1.0 - scaled, 1.0 - at_logged, 1.0 - at_all, shortfall)
    return terms[0], terms[1]


class _Pairs:
    """Rows with all actions that the target policy takes there, and their weights."""

    def __init__(self, view: View, rows: IntArray) -> None:
        context, n_actions = view.context[rows], view.n_actions or 1
        target = probability_table(view.target_policy, context, n_actions)
        logging = probability_table(view.logging_policy, context, n_actions)
        self.row, self.action = np.nonzero(target)
        self._target = target[self.row, self.action]
        # k/w is 0 where the logging policy never takes the action.
        self._inverse = logging[self.row, self.action] / self._target
        logged = np.arange(len(rows)), view.action[rows]
        self.logged_weight = target[logged] / view.propensity[rows]

    def terms(
        self, reward: FloatArray, at_logged: FloatArray, at_all: FloatArray, shortfall: float
    ) -> FloatArray:
        """Return φ of each row, from the model at the logged and at all actions: (k,)."""
        weight = self.logged_weight
        expected = self._target * np.minimum(at_all, shortfall * self._inverse)
        correction = weight * reward - np.minimum(weight * at_logged, shortfall)
        terms: FloatArray = correction + np.bincount(self.row, expected, minlength=len(weight))
        return terms


def _blocks(unit: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the rows of earlier units and those of a block, units in the order of appearance."""
    _, first, inverse = np.unique(unit, return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(first))[inverse.reshape(-1)]
    start, end = 0, FIRST
    while start < len(first):
        yield np.flatnonzero(place < start), np.flatnonzero((place >= start) & (place < end))
        start, end = end, 2 * end


def _target_rows(view: View) -> IntArray:
    return np.arange(view.m if view.has_target_sample else 0)
