"""Policies that play a range of items."""

from __future__ import annotations

import numpy as np

from ope_bench import DiscretePolicy, FloatArray, IntArray, PairFunction
from ope_environments.synthetic.linear_score import ActionScore, LinearSoftmax

__all__ = ["OwnItems"]


class OwnItems(DiscretePolicy):
    """Softmax over the items from ``first`` to ``first + own - 1``; all others have probability 0.

    Parameters
    ----------
    score : of all items, affine in the context.
    first, own : where the policy's items begin, and how many they are.
    beta : inverse temperature.

    >>> policy = OwnItems(ActionScore(np.zeros((2, 4))), first=1, own=2, beta=1.0)
    >>> policy.table(np.zeros((1, 1)))
    array([[0. , 0.5, 0.5, 0. ]])
    """

    def __init__(self, score: ActionScore, *, first: int, own: int, beta: float) -> None:
        super().__init__(score.n_actions)
        self._own = slice(first, first + own)
        self._softmax = LinearSoftmax(ActionScore(score.weights[:, self._own]), beta)
        self.full_support = own == score.n_actions

    def table(self, context: FloatArray) -> FloatArray:
        """Return the softmax between columns of zeros: (k, n_actions)."""
        out = np.zeros((len(context), self.n_actions))
        out[:, self._own] = self._softmax.table(context)
        return out

    def probability(self, context: FloatArray, action: IntArray) -> FloatArray:
        """Return the probability of each item, zero for items of others: (n,)."""
        out = np.zeros(len(context))
        own = (action >= self._own.start) & (action < self._own.stop)
        out[own] = self._softmax.probability(context[own], action[own] - self._own.start)
        return out

    def draw(self, context: FloatArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Draw an item of its own for each row, with its probability: (n,), (n,)."""
        item, probability = self._softmax.draw(context, rng)
        return item + self._own.start, probability

    def expect(self, context: FloatArray, f: PairFunction) -> FloatArray:
        """Sum over its own items of pi(a|x) f(x, a): (n,)."""
        return self._softmax.expect(context, lambda x, item: f(x, item + self._own.start))

    def project(self, context: FloatArray, features: FloatArray) -> FloatArray:
        """Return the expectation of ``features[a]`` over its own items: (n, k)."""
        return self._softmax.project(context, features[self._own])
