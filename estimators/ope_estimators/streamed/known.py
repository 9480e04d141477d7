"""What estimators ask of the weights of all rows, from sums over batches."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from ope_bench import FloatArray, UnavailableError
from ope_estimators.tuning.theory import shrinkage_by_theory

__all__ = ["KnownWeights", "merged"]

NODES = 6
"""Values of λ at which the equation of the rule ``theory`` is summed; it is smooth."""

REACH = 0.05
"""First distance of the outer nodes from the λ of the pilot rows, in logarithms."""

RANKS = 0.01
"""First share of the rows around a quantile whose values are kept, so that it is exact."""

SHARES = 0.05, 0.95

Sums = dict[str, Any]


def merged(*parts: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Return distinct values, in order, and their counts."""
    values, counts = (np.concatenate(one) for one in zip(*parts, strict=True))
    distinct, place = np.unique(values, return_inverse=True)
    return distinct, np.bincount(place.reshape(-1), counts, len(distinct)).astype(np.float64)


class KnownWeights:
    """The weights of a policy: what `LinearEstimator.parameters` may ask of all rows.

    What is asked once is answered from pilot rows, then summed over the batches.

    Parameters
    ----------
    weight, row_weight : of pilot rows.
    n_units : of the log.

    Attributes
    ----------
    plain : the estimate with the weights as they are, of the estimator that chooses.
    """

    plain: float

    def __init__(self, weight: FloatArray, row_weight: FloatArray | None, n_units: int) -> None:
        self._pilot: Any = weight, row_weight
        self.n_units = n_units
        self.largest = float(weight.max())
        self._lambda: dict[float, float] = {}
        self._reach, self._ranks = REACH, RANKS
        self._brackets: FloatArray | None = None
        self._ends: tuple[tuple[float, float, float], ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        """Return what a worker needs: no rows."""
        return self.__dict__ | {"_pilot": None}

    def __getattr__(self, name: str) -> NoReturn:
        """Raise UnavailableError for what is not known of all rows."""
        if name.startswith("_"):
            raise AttributeError(name)
        msg = "this rule needs all rows at once; give a number, or sample rows"
        raise UnavailableError(msg)

    def shrinkage(self, delta: float) -> float:
        """Return the λ of `shrinkage_by_theory`."""
        if delta not in self._lambda:
            weight, row_weight = self._pilot
            self._lambda[delta] = shrinkage_by_theory(weight, delta, self.n_units, row_weight)
        return self._lambda[delta]

    def positive_quantiles(self, power: int = 1) -> tuple[float, float]:
        """Return the 5 % and 95 % quantiles of a power of the positive weights; zeros without any.

        Exactly those of all rows: as numpy interpolates between two neighbors.
        """
        if self._brackets is None:
            self._brackets = self._bracket()
        found = []
        for low, high, part in self._ends or ((0.0, 0.0, 0.0),) * 2:
            low, high = low**power, high**power
            step = high - low
            found.append(high - step * (1 - part) if part >= 0.5 else low + step * part)
        return found[0], found[1]

    # Sums.

    def sums(self, weight: FloatArray, omega: FloatArray, counts: FloatArray | None) -> Sums:
        """Return the sums over a batch that answer what was asked.

        Parameters
        ----------
        weight : (k,), importance weights.
        omega : (k,), row weights, ones where there are none.
        counts : (k,), how often each row counts in fits; None for once each.
        """
        found: Sums = {"max": weight.max()}
        for delta in self._lambda:
            found[f"theory{delta}"] = self._theory(weight, omega, self._nodes(delta))
        if self._brackets is not None:
            positive = weight > 0
            some = weight[positive]
            often = np.ones(len(some)) if counts is None else counts[positive]
            found["positive"] = often.sum()
            for side, (low, high) in enumerate(self._brackets):
                inside = (some >= low) & (some <= high)
                found[f"below{side}"] = often[some < low].sum()
                found[f"values{side}"] = merged((some[inside], often[inside]))
        return found

    def settle(self, total: Sums, rows: float) -> bool:
        """Answer from the sums over all batches; return False where pilot rows misled.

        Parameters
        ----------
        total : sums of all batches.
        rows : sum of the row weights.
        """
        self.largest = float(total["max"])
        settled = True
        for delta in self._lambda:
            self._lambda[delta], inside = self._root(delta, total[f"theory{delta}"], rows)
            settled &= inside
        if not settled:
            self._reach = min(2 * self._reach, 1.0)
        if self._brackets is not None:
            ends = [self._neighbors(side, total) for side in range(2)]
            self._ends = tuple(one for one in ends if one is not None)
            if len(self._ends) < 2:
                self._ends = ()
                self._ranks = 1.0 if self._ranks > RANKS else 0.1
                self._brackets = self._bracket()
                settled = False
        return settled

    def _nodes(self, delta: float) -> FloatArray:
        at = np.cos((2 * np.arange(NODES) + 1) * math.pi / (2 * NODES))
        return np.minimum(self._lambda[delta] * np.exp(self._reach * at), 1.0)

    def _theory(self, weight: FloatArray, omega: FloatArray, nodes: FloatArray) -> FloatArray:
        """Return sum ω [λ + (1 - λ) w^m]^(2/m) for some λ, m = n^(1/4)."""
        power = self.n_units**0.25
        with np.errstate(divide="ignore"):
            logs = power * np.log(weight)
            rest = np.log1p(-np.minimum(nodes, 1.0))
        found = [
            omega @ np.exp(2.0 / power * np.logaddexp(math.log(node), one + logs))
            for node, one in zip(nodes, rest, strict=True)
        ]
        return np.array(found)

    def _root(self, delta: float, sums: FloatArray, rows: float) -> tuple[float, bool]:
        """Return the λ of the rule ``theory``, and whether it is within the nodes.

        The logarithm of the equation's left side is a smooth function of that of λ, and here the
        polynomial through the nodes.
        """
        target = math.log(2.0 * math.log(1.0 / delta) / (3.0 * self.n_units))
        if target >= 0:
            return 1.0, True
        nodes = np.log(self._nodes(delta))
        scaled = (nodes - math.log(self._lambda[delta])) / self._reach
        excess = 2.0 * nodes + np.log(sums / rows) - target
        smooth = np.polynomial.Polynomial.fit(scaled, excess, NODES - 1, domain=[-1, 1])
        slope, at = smooth.deriv(), 0.0
        for _ in range(50):
            at = float(np.clip(at - smooth(at) / slope(at), -3.0, 3.0))
        found = min(self._lambda[delta] * math.exp(self._reach * at), 1.0)
        return found, abs(at) <= 1.0

    def _bracket(self) -> FloatArray:
        """Return the ends of the weights that are kept around both quantiles: (2, 2)."""
        positive = self._pilot[0][self._pilot[0] > 0]
        if not len(positive) or self._ranks >= 1.0:
            return np.array([[0.0, np.inf], [0.0, np.inf]])
        margin = max(self._ranks, 2.0 / len(positive))
        ends = [
            [
                float(np.quantile(positive, rank - margin)) if rank > margin else 0.0,
                float(np.quantile(positive, rank + margin)) if rank + margin < 1 else np.inf,
            ]
            for rank in SHARES
        ]
        return np.array(ends)

    def _neighbors(self, side: int, total: Sums) -> tuple[float, float, float] | None:
        """Return the two weights around a quantile and its place between them; None if unknown."""
        count = float(total["positive"])
        if count == 0:
            return 0.0, 0.0, 0.0
        values, often = total[f"values{side}"]
        last = np.cumsum(often) + total[f"below{side}"]
        position = SHARES[side] * (count - 1)
        ranks = math.floor(position), min(math.floor(position) + 1, count - 1)
        if total[f"below{side}"] > ranks[0] or not len(last) or last[-1] <= ranks[1]:
            return None
        low, high = values[np.searchsorted(last, ranks, side="right")].tolist()
        return low, high, position - ranks[0]
