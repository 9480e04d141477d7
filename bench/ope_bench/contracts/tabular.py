"""A policy that is a table, over contexts that take few values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ope_bench.contracts.arrays import FloatArray, IntArray, require_one_per_row
from ope_bench.contracts.policies import DiscretePolicy, PairFunction

__all__ = ["Tabular"]


class Tabular(DiscretePolicy):
    """A table of probabilities by discrete context.

    Where the code is the whole context, sums over actions are computed once per distinct context,
    not once per row, so that estimators can sum over very many actions.

    Parameters
    ----------
    probabilities : (n_contexts, n_actions), each row summing to one.
    code : context (k, d_context) -> row of the table (k,).
    """

    def __init__(self, probabilities: FloatArray, code: Callable[[FloatArray], IntArray]) -> None:
        super().__init__(probabilities.shape[1])
        self.probabilities = probabilities
        self.code = code
        self.full_support = bool((probabilities > 0).all())
        self._cumulative = np.cumsum(probabilities, axis=1)

    def table(self, context: FloatArray) -> FloatArray:
        """Look up rows of the table: (k, n_actions)."""
        return self.probabilities[self.code(context)]

    def probability(self, context: FloatArray, action: IntArray) -> FloatArray:
        """Look up each pair in the table: (n,)."""
        require_one_per_row("action", action, len(context))
        return self.probabilities[self.code(context), action]

    def draw(self, context: FloatArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Draw by the inverse CDF, from cumulative sums that are computed once."""
        uniform = rng.random(len(context))
        code = self.code(context)
        action = np.empty(len(context), dtype=np.int64)
        order = np.argsort(code, kind="stable")
        different, start = np.unique(code[order], return_index=True)
        for value, rows in zip(different, np.split(order, start[1:]), strict=True):
            cumulative = self._cumulative[value]
            drawn = np.searchsorted(cumulative, uniform[rows] * cumulative[-1], side="right")
            # Rounding may leave a threshold beyond the last cumulative sum.
            action[rows] = np.minimum(drawn, self.n_actions - 1)
        return action, self.probabilities[code, action]

    def expect(self, context: FloatArray, f: PairFunction) -> FloatArray:
        """Return the sum over actions of pi(a|x) f(x, a), once per distinct context: (n,)."""
        _, first, back = np.unique(self.code(context), return_index=True, return_inverse=True)
        back = back.reshape(-1)
        if not np.array_equal(context[first][back], context):
            # Rows with the same code may differ in other columns, on which f may depend.
            return super().expect(context, f)
        expected: FloatArray = super().expect(context[first], f)[back]
        return expected

    def project(self, context: FloatArray, features: FloatArray) -> FloatArray:
        """Multiply the table by the features once per context code: (n, k)."""
        return (self.probabilities @ features)[self.code(context)]
