"""Click models of ranked lists, and their expectations under policies over lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ope_bench import FloatArray, IntArray
from ope_environments.ranking.list_policies import PlackettLuce, ScoredLists
from ope_environments.ranking.races import race

__all__ = ["ListClickModel", "ClickModelName"]

ClickModelName = Literal["independent", "position-based", "cascade", "trust-bias"]

TRUST_LOSS, TRUST_GAIN = 0.01, 0.65
"""Per slot, what a relevant item loses; what an irrelevant one gains, divided by the slot."""


@dataclass(frozen=True)
class ListClickModel:
    """P(click on the item at slot k), given the list and each item's relevance ρ.

    ``independent``: ρ. ``position-based``: θ_k ρ with θ_k = 1/k^η, k from 1. ``trust-bias``:
    θ_k (ε⁺_k ρ + ε⁻_k (1 - ρ)), ε⁺_k = 1 - min(k, 20)/100, ε⁻_k = .65 / min(k, 10).
    ``cascade``: ρ if the user came so far; she goes on after an item without a click, and after a
    click with probability γ.

    Parameters
    ----------
    name : of the model.
    length : number of slots.
    eta : η.
    gamma : γ.
    """

    name: ClickModelName
    length: int
    eta: float
    gamma: float

    @property
    def _lines(self) -> tuple[FloatArray, FloatArray]:
        """Slope and intercept of each slot's click probability in the relevance: (length,)."""
        k = np.arange(1.0, self.length + 1)
        seen: FloatArray = 1.0 / k**self.eta
        if self.name == "position-based":
            return seen, np.zeros(self.length)
        if self.name == "trust-bias":
            right = 1.0 - TRUST_LOSS * np.minimum(k, 20)
            wrong = TRUST_GAIN / np.minimum(k, 10)
            return seen * (right - wrong), seen * wrong
        return np.ones(self.length), np.zeros(self.length)

    def probability(self, relevance: FloatArray) -> FloatArray:
        """Return the probability of a click at each slot, given the whole list: (lists, slots).

        Parameters
        ----------
        relevance : (lists, slots), of the items in the list.
        """
        slope, intercept = (line[: relevance.shape[1]] for line in self._lines)
        clicked = intercept + slope * relevance
        if self.name == "cascade":
            onward = np.cumprod(1.0 - (1.0 - self.gamma) * relevance, axis=1)
            clicked[:, 1:] *= onward[:, :-1]
        return clicked

    def sample(self, relevance: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw the clicks, 0 or 1: (lists, slots)."""
        uniform = rng.random(relevance.shape)
        if self.name != "cascade":
            return (uniform < self.probability(relevance)).astype(np.float64)
        stays = rng.random(relevance.shape) < self.gamma
        click = np.zeros_like(relevance)
        here = np.ones(len(relevance), dtype=bool)
        for k in range(relevance.shape[1]):
            clicked = here & (uniform[:, k] < relevance[:, k])
            click[:, k] = clicked
            here &= ~clicked | stays[:, k]
        return click

    def expected(
        self, policy: ScoredLists, context: FloatArray, relevance: FloatArray
    ) -> FloatArray:
        """Return the expected click at each slot under a policy, exactly: (k, length).

        Parameters
        ----------
        context : (k, d), without a slot.
        relevance : (k, n_actions)
        """
        if self.name == "cascade":
            onward = 1.0 - (1.0 - self.gamma) * relevance
            if isinstance(policy, PlackettLuce):
                reached = race(policy.rates(context), onward, self.length)
                at_top: FloatArray = np.einsum("cka,ca->ck", reached, relevance)
                return at_top
            marginal = policy.marginals(context)
            on = np.cumprod(np.einsum("cka,ca->ck", marginal, onward), axis=1)
            clicked: FloatArray = np.einsum("cka,ca->ck", marginal, relevance)
            clicked[:, 1:] *= on[:, :-1]
            return clicked
        slope, intercept = self._lines
        mean: FloatArray = np.einsum("cka,ca->ck", policy.marginals(context), relevance)
        return intercept + slope * mean

    def enumerated(self, lists: IntArray, chance: FloatArray, relevance: FloatArray) -> FloatArray:
        """Return the same as a sum over all lists: (length,).

        Parameters
        ----------
        lists : (m, length)
        chance : (m,), of each list.
        relevance : (n_actions,)
        """
        mean: FloatArray = chance @ self.probability(relevance[lists])
        return mean
