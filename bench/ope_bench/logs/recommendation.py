"""Which estimator to use on a log, and the interval of disagreement around it.

Estimators of one value that disagree show an error that none of their standard errors knows: a
wrong reward model, wrong propensities, weights that one row carries. The interval is

    center +- sqrt((z s)^2 + (k D z / 1.96)^2)

with s the standard error of one of them, D the range of a panel's values, z the quantile of the
level and k a constant. Estimators and constant were chosen on drawn worlds and judged on others;
recommendation.json, which results/write.py makes from committed trials, has them with their
coverage.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from scipy.special import ndtri

from ope_bench.logs.log_data import LogData
from ope_bench.logs.result import EstimateRow

DISAGREEMENT = "disagreement"

NORMAL_95 = 1.96

LEAST_EFFECTIVE_ROWS = 10.0
"""Effective sample size below which no interval is stated."""

STATED_COVERAGE = 0.9
"""Coverage below which an interval is not shown as one."""


@dataclass(frozen=True)
class Recommendation:
    """The estimator for one kind of log, and the interval around it.

    Parameters
    ----------
    center : selector of the recommended estimator.
    panel : selectors of the estimators whose range is D.
    error : selector of the one whose standard error is s; None for s = 0.
    constant : k.
    worlds : number of the worlds that confirmed it.
    coverage, faulty : share of their logs without and with faults in which the 95 % interval held
        the value.
    parts : the first by the least effective sample size, up to the next one.
    """

    center: str
    panel: tuple[str, ...]
    error: str | None
    constant: float
    worlds: int
    coverage: float
    faulty: float
    parts: Mapping[str, float]

    @property
    def estimators(self) -> tuple[str, ...]:
        """Selectors of all estimators that the interval needs, the recommended one first."""
        others = [*self.panel, *([] if self.error is None else [self.error])]
        return tuple(dict.fromkeys((self.center, *others)))

    def coverage_at(self, effective_rows: float | None) -> float:
        """Return the share of logs with such an effective sample in which the interval held."""
        if effective_rows is None:
            return self.coverage
        found = self.coverage
        for limit, share in sorted((float(name), share) for name, share in self.parts.items()):
            if effective_rows >= limit:
                found = share
        return found

    def interval(
        self, rows: Mapping[str, EstimateRow], level: float, *, lift: bool = False
    ) -> tuple[float | None, float | None]:
        """Return the interval around the recommended estimator's value, or lift.

        (None, None) where one of the estimators has no value.

        Parameters
        ----------
        rows : the estimates, by selector.
        level : of the interval.
        lift : of the difference to the logged mean in place of the value.
        """
        values = [rows[text].value for text in self.panel if text in rows]
        own = rows.get(self.center)
        center = None if own is None else own.lift if lift else own.value
        known = [value for value in values if value is not None]
        error = 0.0 if self.error is None else _error(rows.get(self.error), lift)
        if center is None or error is None or len(known) < len(self.panel):
            return None, None
        z = float(ndtri(0.5 + level / 2))
        apart = self.constant * (max(known) - min(known)) / NORMAL_95
        half = z * math.hypot(error, apart)
        return center - half, center + half


def _error(row: EstimateRow | None, lift: bool) -> float | None:
    if row is None:
        return None
    if not lift:
        return row.standard_error
    if row.lift is None or row.lift_high is None:
        return None
    return (row.lift_high - row.lift) / float(ndtri(0.5 + row.level / 2))


@cache
def recommendations() -> Mapping[str, Recommendation]:
    """Return the recommendation for ``known`` policies and for ``samples`` only."""
    path = Path(__file__).with_name("recommendation.json")
    given: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return {
        name: Recommendation(**{**one, "panel": tuple(one["panel"])})
        for name, one in given.items()
        if name != "schema"
    }


def recommendation_for(log: LogData, target: str) -> Recommendation:
    """Return the recommendation for evaluating one of a log's policies."""
    known = log.propensity is not None or log.estimated_propensity
    known = known and log.targets[target].action is None
    return recommendations()["known" if known else "samples"]
