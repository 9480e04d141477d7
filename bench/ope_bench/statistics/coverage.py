"""Shares with confidence intervals, and the coverage of an estimator's own intervals.

SciPy has Wilson's interval too, but takes about a second to import.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
import numpy.typing as npt

from ope_bench.contracts.arrays import FloatArray

LEVEL = 0.95
"""Nominal level of intervals on boards."""

_NORMAL_REACH = 1.959963984540054
"""Standard errors that the two-sided normal interval of this level reaches, by SciPy."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """A share of trials with its interval; all None without trials.

    Parameters
    ----------
    count, total : numerator and denominator of the share.
    """

    count: int
    total: int
    value: float | None
    low: float | None
    high: float | None


def wilson(count: int, total: int) -> Share:
    """Return a share with Wilson's 95 % score interval.

    Formula: (p + z^2/2n +- z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n).

    References
    ----------
    "Probable inference, the law of succession, and statistical inference" (Wilson, 1927).

    >>> share = wilson(0, 20)
    >>> share.value, share.low, round(share.high, 4)
    (0.0, 0.0, 0.1611)
    """
    if total == 0:
        return Share(count=0, total=0, value=None, low=None, high=None)
    z = _NORMAL_REACH
    p = count / total
    center = p + z * z / (2 * total)
    reach = z * math.sqrt(p * (1 - p) / total + (z / (2 * total)) ** 2)
    scale = 1 + z * z / total
    low = 0.0 if count == 0 else (center - reach) / scale
    high = 1.0 if count == total else (center + reach) / scale
    return Share(count=count, total=total, value=p, low=low, high=high)


ESS_LIMITS = (0.01, 0.1)
"""Shares of effective rows that separate the parts of `Coverage.by_ess`."""


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Shares of intervals that held the truth or missed it on one side, and their widths.

    Parameters
    ----------
    share : of the intervals that held it.
    below, above : number of intervals that lie wholly below the truth, and wholly above it.
    width, median_width : mean and median; None where there were no intervals.
    score : mean interval score (Winkler), the width plus 2 / (1 - level) times the distance from
        the truth of those that missed it; small where intervals are narrow and hold the truth.
    level : what the intervals claim to cover; the mean, should it differ.
    kind : how they were made, see `ope_bench.contracts.plugins.IntervalKind`; several kinds are
        joined by commas, and it is empty where there were none.
    by_ess : the same of trials whose ESS/n is below .01, below .1, and above; without parts of
        its own.
    """

    share: Share
    below: int
    above: int
    width: float | None
    median_width: float | None = None
    score: float | None = None
    level: float = LEVEL
    kind: str = ""
    by_ess: tuple[Coverage, ...] = ()

    @property
    def gap(self) -> float | None:
        """Distance of the share from what the intervals claim."""
        return None if self.share.value is None else abs(self.share.value - self.level)

    @property
    def missed_below(self) -> float | None:
        """Share of the intervals that lie wholly below the truth."""
        return self.below / self.share.total if self.share.total else None

    @property
    def missed_above(self) -> float | None:
        """Share of the intervals that lie wholly above the truth."""
        return self.above / self.share.total if self.share.total else None


@dataclass(frozen=True, eq=False)
class ErrorIntervals:
    """Intervals around the errors of estimates.

    Parameters
    ----------
    error : (n,), estimate minus truth.
    down, up : (n,), distances of the interval's ends from the estimate.
    level : (n,), what the interval claims to cover.
    ess_fraction : (n,), ESS/n of the trial's weights.
    """

    error: FloatArray
    down: FloatArray
    up: FloatArray
    level: FloatArray
    ess_fraction: FloatArray

    @classmethod
    def normal(
        cls,
        estimate: FloatArray,
        standard_error: FloatArray,
        truth: FloatArray,
        ess_fraction: FloatArray,
    ) -> ErrorIntervals:
        """Return the intervals ``estimate +- z standard_error``; NaN where one of them is."""
        reach = _NORMAL_REACH * standard_error
        return cls(estimate - truth, reach, reach, np.full(len(estimate), LEVEL), ess_fraction)

    def take(self, rows: npt.NDArray[np.bool_]) -> ErrorIntervals:
        """Return some of the intervals."""
        return ErrorIntervals(**{name: column[rows] for name, column in vars(self).items()})

    def coverage(self) -> Coverage:
        """Return coverage, misses, widths and score, also by ESS/n, of intervals without a NaN."""
        usable = np.isfinite(self.error) & np.isfinite(self.down) & np.isfinite(self.up)
        known = self.take(usable)
        low, high = ESS_LIMITS
        ess = known.ess_fraction
        parts = (ess < low, (ess >= low) & (ess < high), ess >= high)
        whole = known._coverage()
        # In most rows the ESS/n of all trials is in one part, which then is the whole.
        by_ess = (whole if part.all() else known.take(part)._coverage() for part in parts)
        return replace(whole, by_ess=tuple(by_ess))

    def _coverage(self) -> Coverage:
        total = len(self.error)
        if total == 0:
            return Coverage(share=wilson(0, 0), below=0, above=0, width=None)
        width = self.up + self.down
        short, far = self.error < -self.up, self.error > self.down
        below, above = int(short.sum()), int(far.sum())
        missed = np.where(short, -self.error - self.up, np.where(far, self.error - self.down, 0.0))
        return Coverage(
            share=wilson(total - below - above, total),
            below=below,
            above=above,
            width=float(width.mean()),
            median_width=median(width.tolist()),
            score=float((width + 2 / (1 - self.level) * missed).mean()),
            level=float(self.level.mean()),
        )
