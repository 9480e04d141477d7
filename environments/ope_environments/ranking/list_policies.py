"""Policies over ranked lists: Plackett-Luce, and slots that are drawn independently."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from ope_bench import FloatArray, IntArray, ListPolicy, UnavailableError
from ope_environments.ranking.races import race

__all__ = ["IndependentSlots", "PlackettLuce", "ScoredLists"]

MAX_LISTS = 20_000
"""Most lists over which second moments are summed."""


class ScoredLists(ListPolicy):
    """Base: a policy whose lists depend on a score of each item in the context.

    Parameters
    ----------
    score : context without its slot (k, d) -> (k, n_actions); -inf for unavailable items.
    n_actions : number of items.
    length : number of slots.
    beta : inverse temperature.
    """

    def __init__(
        self,
        score: Callable[[FloatArray], FloatArray],
        n_actions: int,
        length: int,
        beta: float,
    ) -> None:
        super().__init__(n_actions, length)
        self._score = score
        self.beta = beta
        self._last: tuple[FloatArray, FloatArray, IntArray] | None = None

    def rates(self, context: FloatArray) -> FloatArray:
        """Return exp(beta * score) of each list's items, with a largest one of 1: (k, n_actions).

        The context has no slot.
        """
        score = self._score(context)
        scaled = np.where(np.isneginf(score), score, self.beta * score)
        rates: FloatArray = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        return rates

    def marginals(self, context: FloatArray) -> FloatArray:
        """Return the probability of each item at each slot of lists: (k, length, n_actions)."""
        raise NotImplementedError

    def table(self, context: FloatArray) -> FloatArray:
        """Return the probability of each item at each row's slot: (k, n_actions)."""
        table, row = self._distinct(context)
        marginal: FloatArray = table[row, context[:, -1].astype(np.int64)]
        return marginal

    def at_every_slot(self, context: FloatArray, action: IntArray) -> FloatArray:
        """Return the probability of each row's item at every slot: (k, length)."""
        table, row = self._distinct(context)
        return np.take_along_axis(table[row], action[:, None, None], axis=2)[:, :, 0]

    def list_conditionals(self, context: FloatArray, items: IntArray) -> FloatArray:
        """Return the probability of each item given those before it: (lists, slots).

        Parameters
        ----------
        context : (lists, d), without a slot.
        items : (lists, slots)
        """
        lists, slots = items.shape
        rows = np.repeat(context, slots, axis=0)
        slot = np.tile(np.arange(slots, dtype=np.float64), lists)
        earlier = np.repeat(items, slots, axis=0)
        chance = self.conditional(np.column_stack([rows, slot]), earlier)
        shown: FloatArray = chance[np.arange(len(rows)), items.reshape(-1)]
        return shown.reshape(lists, slots)

    def sample_lists(self, context: FloatArray, rng: np.random.Generator) -> IntArray:
        """Draw a list for each context, which has no slot: (k, length)."""
        raise NotImplementedError

    def _distinct(self, context: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return the marginals of the distinct contexts, and each row's."""
        if self._last is None or self._last[0] is not context:
            users, row = np.unique(context[:, :-1], axis=0, return_inverse=True)
            found = context, self.marginals(users), row.reshape(-1)
            if context.flags.writeable:
                return found[1:]
            self._last = found
        return self._last[1:]


class PlackettLuce(ScoredLists):
    """Items are drawn one after the other without replacement, in proportion to their rates."""

    def marginals(self, context: FloatArray) -> FloatArray:
        """Compute them as races of exponential clocks; those of the first slot are the softmax."""
        rates = self.rates(context)
        first: FloatArray = rates / rates.sum(axis=1, keepdims=True)
        if self.length == 1:
            return first[:, None, :]
        table = race(rates, None, self.length)
        table[:, 0] = first
        table[:, 1:] /= table[:, 1:].sum(axis=2, keepdims=True)
        return table

    def conditional(self, context: FloatArray, earlier: IntArray) -> FloatArray:
        """Leave out the items of earlier slots: (k, n_actions)."""
        rates = self.rates(context[:, :-1])
        slot = context[:, -1].astype(np.int64)
        for k in range(earlier.shape[1]):
            rows = np.flatnonzero(slot > k)
            rates[rows, earlier[rows, k]] = 0.0
        chance: FloatArray = rates / rates.sum(axis=1, keepdims=True)
        return chance

    def sample_lists(self, context: FloatArray, rng: np.random.Generator) -> IntArray:
        """Draw the first items of independent exponential clocks: (lists, length)."""
        rates = self.rates(context)
        with np.errstate(divide="ignore"):
            ring = rng.standard_exponential(rates.shape) / rates
        return np.argsort(ring, axis=1, kind="stable")[:, : self.length]

    def second_moments(self, context: FloatArray) -> FloatArray:
        """Sum over all lists: (k, length * n_actions, length * n_actions)."""
        if math.perm(self.n_actions, self.length) > MAX_LISTS:
            msg = (
                f"second moments of lists of {self.length} among {self.n_actions} items are sums "
                f"over more than {MAX_LISTS:,} lists; use fewer items or slots"
            )
            raise UnavailableError(msg)
        lists = np.array(list(itertools.permutations(range(self.n_actions), self.length)))
        indicators = np.zeros((len(lists), self.length, self.n_actions))
        np.put_along_axis(indicators, lists[:, :, None], 1.0, axis=2)
        shown = indicators.reshape(len(lists), -1)
        out = np.empty((len(context), shown.shape[1], shown.shape[1]))
        for i, rates in enumerate(self.rates(context[:, :-1])):
            picked = rates[lists]
            # Lists with unavailable items have no mass, also where nothing remains to divide by.
            rest = rates.sum() - np.cumsum(picked, axis=1) + picked
            shares = np.divide(picked, rest, out=np.zeros_like(picked), where=picked > 0)
            out[i] = shown.T @ (shares.prod(axis=1)[:, None] * shown)
        return out


class IndependentSlots(ScoredLists):
    """Every slot has an item of its own draw, so that items may repeat."""

    def marginals(self, context: FloatArray) -> FloatArray:
        """Repeat the softmax at every slot: (k, length, n_actions)."""
        rates = self.rates(context)
        share: FloatArray = rates / rates.sum(axis=1, keepdims=True)
        return np.repeat(share[:, None, :], self.length, axis=1)

    def conditional(self, context: FloatArray, earlier: IntArray) -> FloatArray:
        """Return the marginals: (k, n_actions)."""
        return self.table(context)

    def sample_lists(self, context: FloatArray, rng: np.random.Generator) -> IntArray:
        """Draw each slot by the inverse distribution function: (lists, length)."""
        cumulative = np.cumsum(self.rates(context), axis=1)
        uniform = rng.random((len(context), self.length)) * cumulative[:, -1:]
        items: IntArray = (cumulative[:, None, :] <= uniform[:, :, None]).sum(axis=2)
        return items

    def second_moments(self, context: FloatArray) -> FloatArray:
        """Multiply the marginals of different slots: (k, length * a, length * a)."""
        flat = self.marginals(context[:, :-1]).reshape(len(context), -1)
        out = flat[:, :, None] * flat[:, None, :]
        for k in range(self.length):
            own = slice(k * self.n_actions, (k + 1) * self.n_actions)
            out[:, own, own] = flat[:, own, None] * np.eye(self.n_actions)
        return out
