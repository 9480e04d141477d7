"""Pseudo-loggers: policies between the one that logged and the one to evaluate."""

from __future__ import annotations

from ope_bench import DiscretePolicy, FloatArray

__all__ = ["Blend"]


class Blend(DiscretePolicy):
    """A mixture of two policies, (1 - share) first + share second, where the first plays.

    Parameters
    ----------
    first, second : policies over the same actions.
    share : of the second.
    """

    def __init__(self, first: DiscretePolicy, second: DiscretePolicy, share: float) -> None:
        super().__init__(first.n_actions)
        self.first, self.second, self.share = first, second, share

    def table(self, context: FloatArray) -> FloatArray:
        """Return the probabilities of a chunk: (k, n_actions)."""
        base = self.first.table(context)
        mixed = (1 - self.share) * base + self.share * self.second.table(context)
        mixed[base == 0] = 0.0
        found: FloatArray = mixed / mixed.sum(axis=1, keepdims=True)
        return found
