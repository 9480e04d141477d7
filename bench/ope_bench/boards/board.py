"""Boards and their rows: a row for each estimator, a board for each setting."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from ope_bench.boards.figures import RowFigures
from ope_bench.contracts.data import TruthKind

__all__ = ["Board", "By", "Interval", "JointFigures", "Row"]

By = Literal["rmse", "positivity", "coverage", "time", "ratio", "balance"]

RATIO_MEASURES = ("target_log_ratio_rmse", "log_ratio_rmse", "kl_error")
"""Diagnostics by which estimated density ratios are ranked, the first that exists.

Target rows come first: among the logs, a true log-ratio of -70 and an estimate of -20 both mean a
weight of practically zero, yet their difference would dominate all errors that matter.
"""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A statistic with its 95 % interval; None where undefined."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class JointFigures:
    """Statistics of one row that need all rows of the board.

    Parameters
    ----------
    rmse : over finite trials; no interval where replicates are too few.
    heavy_tailed : one replicate has a larger share of the squared error than in 99 % of rows with
        normal errors.
    score : RMSE in which failures count with the logging average's error.
    tied : the score does not differ significantly from the best (paired swap test, Holm, 5 %),
        although a score larger by half would have; None where such a difference would have been
        missed too.
    detectable : growth of the score over the best that the comparison detects with power 0.8; None
        for the best row, and where it is not finite.
    """

    rmse: Interval
    heavy_tailed: bool
    score: float | None
    tied: bool | None
    detectable: float | None


@dataclass(frozen=True, kw_only=True)
class Row(RowFigures, JointFigures):
    """One estimator on one setting; None where a statistic is undefined.

    Parameters
    ----------
    rank : rank by the board's measure; equal values share a rank.
    estimator, params : id and parameters.
    label : the id with the parameters in which rows of the same id differ.
    access : flags that the estimator declared.
    origin : distribution and version of the estimator's plugin, or its file.
    """

    rank: int | None = None
    estimator: str
    label: str
    params: Mapping[str, Any]
    access: tuple[str, ...]
    device: str
    threads: int
    origin: str

    @property
    def finite(self) -> int:
        """Number of trials with a finite estimate."""
        return self.errors.n

    @property
    def log10_rmse(self) -> float | None:
        """Decimal logarithm of the RMSE."""
        return math.log10(self.rmse.value) if self.rmse.value else None

    @property
    def relative_rmse(self) -> float | None:
        """RMSE over the root mean square of the truth."""
        rmse, truth = self.rmse.value, self.truth_rms
        return rmse / truth if rmse is not None and truth else None

    @property
    def ratio_measure(self) -> str | None:
        """The diagnostic by which the estimated density ratio is ranked."""
        return next((name for name in RATIO_MEASURES if name in self.diagnostics), None)

    @property
    def ratio_error(self) -> float | None:
        """Median error of the estimated density ratio, where the true ratio is known."""
        measure = self.ratio_measure
        return self.diagnostics[measure].median if measure else None


@dataclass(frozen=True, kw_only=True)
class Board:
    """The rows of one setting of an environment, for one measure and one kind of truth.

    Parameters
    ----------
    by : the measure that orders the rows.
    truth : the value against which errors are measured.
    truth_se : root mean square of the expected truth's Monte Carlo standard error.
    truth_rms : root mean square of the truth over replicates.
    label : the environment's id with the parameters in which settings of the same id differ.
    """

    by: By
    environment: str
    environment_params: Mapping[str, Any]
    environment_origin: str
    environment_version: int
    worlds: str
    truth: TruthKind
    truth_se: float | None
    truth_rms: float | None
    label: str = ""
    rows: tuple[Row, ...] = field(default=())

    def facts(self) -> dict[str, Any]:
        """Return the board's facts of its setting, as plain JSON."""
        plain = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "rows"}
        return plain | {"environment_params": dict(self.environment_params)}
