"""How fast a cost grows: the exponent b of cost = a * size**b, with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LEVEL = 0.95


@dataclass(frozen=True)
class Power:
    """A fitted power law.

    Parameters
    ----------
    exponent, low, high : of the size, with its 95 % interval by Student's t.
    scale : cost at size one.
    points : how many measurements were fitted, those of the upper half of the range.
    """

    exponent: float
    low: float
    high: float
    scale: float
    points: int

    def at(self, size: float) -> float:
        """The cost that the law gives to a size."""
        return self.scale * size**self.exponent

    def told(self) -> str:
        """The exponent and its interval."""
        return f"{self.exponent:.2f} [{self.low:.2f}, {self.high:.2f}]"


def power(sizes: Sequence[float], costs: Sequence[float]) -> Power | None:
    """Least squares of log cost on log size over the upper half of the range of log size.

    The lower half is left out because fixed costs hide there whatever grows. None with fewer than
    three such points, from which no interval comes.

    >>> law = power([1, 10, 100, 1000, 10000], [9, 9.5, 100, 1000, 10000])
    >>> round(law.exponent, 6), law.points
    (1.0, 3)
    """
    from scipy import stats

    x, y = np.log(np.asarray(sizes, float)), np.log(np.asarray(costs, float))
    upper = x >= (x.min() + x.max()) / 2 - 1e-9
    x, y = x[upper], y[upper]
    if len(x) < 3:
        return None
    fit = stats.linregress(x, y)
    reach = float(stats.t.ppf(0.5 + LEVEL / 2, len(x) - 2)) * float(fit.stderr)
    slope = float(fit.slope)
    return Power(slope, slope - reach, slope + reach, math.exp(float(fit.intercept)), len(x))
