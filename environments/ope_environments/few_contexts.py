"""Policies over many actions in few different contexts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ope_bench.arrays import CHUNK_ENTRIES, FloatArray, IntArray
from ope_bench.policies import PairFunction, Tabular

__all__ = ["FewContexts"]


class FewContexts(Tabular):
    """A table with a row for each of the few contexts.

    Sums over actions are done once a context, not once a row, so that estimators which sum over
    very many actions remain possible.

    Parameters
    ----------
    probabilities : (n_contexts, n_actions), each row summing to one.
    code : context (k, d_context) -> row of the table (k,).
    """

    def __init__(self, probabilities: FloatArray, code: Callable[[FloatArray], IntArray]) -> None:
        super().__init__(probabilities, code)
        self.full_support = bool((probabilities > 0).all())
        self._cumulative = np.cumsum(probabilities, axis=1)

    def draw(self, context: FloatArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Inverse-CDF sampling in tables made once."""
        uniform = rng.random(len(context))
        code = self.code(context)
        action = np.empty(len(context), dtype=np.int64)
        order = np.argsort(code, kind="stable")
        different, start = np.unique(code[order], return_index=True)
        for value, rows in zip(different, np.split(order, start[1:]), strict=True):
            cumulative = self._cumulative[value]
            found = np.searchsorted(cumulative, uniform[rows] * cumulative[-1], side="right")
            # Rounding may leave a threshold at the very end.
            action[rows] = np.minimum(found, self.n_actions - 1)
        return action, self.probabilities[code, action]

    def expect(self, context: FloatArray, f: PairFunction) -> FloatArray:
        """Sum over actions of pi(a|x) f(x, a), once a different context: (n,)."""
        _, first, back = np.unique(self.code(context), return_index=True, return_inverse=True)
        different = context[first]
        sums = np.zeros(len(different))
        step = max(1, CHUNK_ENTRIES // self.n_actions)
        for start in range(0, len(different), step):
            rows = slice(start, start + step)
            values = self._values(different[rows], f)
            sums[rows] = np.einsum("ka,ka->k", self.table(different[rows]), values)
        expected: FloatArray = sums[back.reshape(-1)]
        return expected
