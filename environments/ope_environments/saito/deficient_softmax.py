"""A softmax policy with actions of probability zero that depend on the context."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ope_bench import FloatArray, IntArray
from ope_environments.synthetic.linear_score import ActionScore, LinearSoftmax

__all__ = ["DeficientSoftmax"]


class DeficientSoftmax(LinearSoftmax):
    """Softmax over all actions except ``n_deficient`` that depend on the context.

    Actions are arranged in a circle; the arc of those with probability zero starts at the angle of
    the context's first two coordinates. The angle of ``x ~ N(0, I)`` is uniform, so every action
    is excluded in the same share of contexts, ``n_deficient / n_actions``, whatever its reward;
    unlike a subset drawn for each row, the arc is a function of the context.

    Parameters
    ----------
    score : affine in contexts of two columns or more.
    n_deficient : actions without support in each context, fewer than ``n_actions``.
    beta : inverse temperature among the others.

    References
    ----------
    "Off-policy Bandits with Deficient Support" (Sachdeva, Su and Joachims, 2020).

    >>> policy = DeficientSoftmax(ActionScore(np.zeros((3, 4))), n_deficient=1)
    >>> policy.table(np.array([[1.0, 0.1], [-1.0, 0.1]]))
    array([[0.        , 0.33333333, 0.33333333, 0.33333333],
           [0.33333333, 0.        , 0.33333333, 0.33333333]])
    """

    def __init__(self, score: ActionScore, *, n_deficient: int, beta: float = 1.0) -> None:
        super().__init__(score, beta)
        self.n_deficient = n_deficient
        self.full_support = n_deficient == 0

    def first_deficient(self, context: FloatArray) -> IntArray:
        """Return the start of each context's arc: (n,)."""
        turn = np.arctan2(context[:, 1], context[:, 0]) / (2.0 * np.pi) % 1.0
        return np.minimum((turn * self.n_actions).astype(np.int64), self.n_actions - 1)

    def supported(self, context: FloatArray, action: IntArray) -> npt.NDArray[np.bool_]:
        """Return whether each row's action can be logged, without a table: (n,)."""
        return (action - self.first_deficient(context)) % self.n_actions >= self.n_deficient

    def _logits(self, context: FloatArray) -> FloatArray:
        """Return beta * score, -inf on the arc: (k, n_actions)."""
        logits = super()._logits(context)
        if self.n_deficient == 0:
            return logits
        for row, start in enumerate(self.first_deficient(context)):
            end = start + self.n_deficient
            logits[row, start:end] = -np.inf
            logits[row, : max(0, end - self.n_actions)] = -np.inf
        return logits
