"""Base of the estimators that weigh each item of a ranked list."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Annotated

import numpy as np
from annotated_types import Ge

from ope_bench import Access, FloatArray, IntArray, LinearScore, ParameterError, View
from ope_estimators.actions.weighting.ipw import ActionWeighting
from ope_estimators.actions.weighting.weighted_mean import never_logged
from ope_estimators.actions.weighting.weighted_rows import WeightedRows

__all__ = ["Examined", "ListWeighted", "slots_of"]

Examination = str | list[float]


class ListWeighted(ActionWeighting):
    """Base: the mean of the rows' weighted rewards; a subclass says what the weights are.

    Standard errors sum the terms of a list, which is a unit.

    Parameters
    ----------
    normalize : divide by the sum of the weights instead of n.
    """

    in_batches = False

    _: KW_ONLY
    normalize: bool = False

    @abstractmethod
    def _weight(self, view: View) -> FloatArray:
        """Return the weight of each row: (n,)."""

    def _rows(self, view: View) -> WeightedRows:
        weight = self._weight(view)
        return WeightedRows(
            weight,
            weight,
            view.reward,
            view.unit,
            unsupported_mass=lambda: never_logged(view),
        )

    def _score(self, rows: WeightedRows, used: FloatArray) -> LinearScore:
        return rows.score(used, normalize=self.normalize)


class Examined(ListWeighted):
    """Base: weights under a known chance θ_k that the user looks at slot k.

        w = sum_(l: |l - k| <= h) θ_l π1(a at l) / sum_(j: |j - l| <= h) θ_j π0(a at j)

    for item a at slot k: the reward at slot l is learned from clicks on the same item at slots j
    within h of it, which have θ_j times a common chance of a click.

    Parameters
    ----------
    examination : ``reciprocal``, θ_k = 1/k^η for k = 1, 2, ...; ``estimated`` by the rewards at
        each slot weighted to equal shares of all items, relative to the first; or the numbers θ_k.
    eta : η.
    """

    examination: Examination = "reciprocal"
    eta: Annotated[float, Ge(0)] = 1.0

    @property
    def access(self) -> Access:
        """The probability of each row's item at every slot."""
        return Access.POSITION_MARGINALS

    def _examined(self, view: View) -> FloatArray:
        """Return θ at every slot: (length,)."""
        length = view.position_marginals.shape[1]
        if self.examination == "reciprocal":
            return np.arange(1, length + 1) ** -self.eta
        if self.examination == "estimated":
            slot = slots_of(view)
            chance = view.position_marginals[np.arange(view.n), slot, 0]
            clicks = np.bincount(slot, view.reward / chance, length)
            seen = clicks / np.maximum(np.bincount(slot, 1.0 / chance, length), 1e-300)
            # A slot without clicks has seen nobody; its items then count for the others.
            return np.maximum(seen, 1e-12) / max(float(seen[0]), 1e-12)
        if isinstance(self.examination, str) or len(self.examination) < length:
            msg = f"examination is {self.examination!r}; lists here have {length} slots"
            msg += ": expected reciprocal, estimated or a number for each"
            raise ParameterError(msg)
        return np.array(self.examination[:length], dtype=np.float64)

    def _windowed(self, view: View, window: int) -> FloatArray:
        seen, slot = self._examined(view), slots_of(view)
        logged, wanted = (view.position_marginals[:, :, k] for k in (0, 1))
        if len(seen) == 1:
            return wanted[:, 0] / logged[:, 0]
        weight = np.zeros(view.n)
        for k in range(len(seen)):
            near = slice(max(0, k - window), k + window + 1)
            base = logged[:, near] @ seen[near]
            rows = np.flatnonzero(np.abs(slot - k) <= window)
            weight[rows] += seen[k] * wanted[rows, k] / base[rows]
        return weight


def slots_of(view: View) -> IntArray:
    """Return the slot of each row; 0 where rows are no lists: (n,)."""
    return np.zeros(view.n, dtype=np.int64) if view.slot is None else view.slot


def by_slot(
    view: View, answer: Callable[[IntArray], tuple[float, FloatArray]]
) -> tuple[float, FloatArray]:
    """Combine answers of the rows of each slot by their shares: the value, and terms (n,).

    Parameters
    ----------
    view : whose slots.
    answer : computes the value and the terms, less their value, of some rows.
    """
    slot, value, terms = slots_of(view), 0.0, np.empty(view.n)
    for k in np.unique(slot):
        rows = np.flatnonzero(slot == k)
        part, terms[rows] = answer(rows)
        value += part * len(rows) / view.n
        terms[rows] += part
    return value, terms
