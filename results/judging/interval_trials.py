"""The committed trials of the suites of intervals, by setting and by how an interval is made."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from ope_bench.contracts.arrays import FloatArray
from ope_bench.statistics.coverage import LEVEL, Share, wilson
from ope_bench.statistics.value_intervals.weights import EFFECTIVE_SAMPLE_SIZE, LEAST_EFFECTIVE

__all__ = ["FOLDERS", "Cell", "IntervalTrials", "Method", "Setting"]

FOLDERS = ("intervals", "intervals-models")

OVERLAPS: Mapping[tuple[str, float], str] = {
    ("logistic", -4.0): "mild",
    ("logistic", -8.0): "heavy",
    ("logistic", -12.0): "rare",
    ("linear", -0.7): "mild",
    ("linear", -1.2): "heavy",
    ("linear", -2.0): "rare",
}
"""Overlap by the kind of the rewards and the logging policy's inverse temperature."""

REWARDS = {"logistic": "bounded", "linear": "unbounded"}

COLUMNS = (
    "environment_params",
    "estimator",
    "params",
    "status",
    "estimate",
    "standard_error",
    "interval_low",
    "interval_high",
    "truth_expected",
    "diagnostics",
)


@dataclass(frozen=True, order=True)
class Setting:
    """Rewards, overlap and number of rows."""

    rewards: str
    place: int
    n: int

    @property
    def overlap(self) -> str:
        """Overlap of the policies."""
        return tuple(dict.fromkeys(OVERLAPS.values()))[self.place]

    def __str__(self) -> str:
        return f"{self.overlap}, {self.n:,}"


@dataclass(frozen=True, order=True)
class Method:
    """An estimator and the kind of its interval."""

    kind: str
    estimator: str

    def __str__(self) -> str:
        return f"{self.kind}, `{self.estimator}`"


@dataclass(frozen=True, eq=False)
class Cell:
    """The intervals of one method on the data sets of one setting.

    Parameters
    ----------
    low, high : (k,), their ends.
    truth : (k,), the values that they are to hold.
    effective : (k,), effective sample size of the logged weights.
    least : (k,), rows over the largest weight that the policies allow; NaN where unknown.
    """

    low: FloatArray
    high: FloatArray
    truth: FloatArray
    effective: FloatArray
    least: FloatArray

    @property
    def held(self) -> FloatArray:
        """1 for intervals that hold their value, 0 for others: (k,)."""
        return ((self.low <= self.truth) & (self.truth <= self.high)).astype(np.float64)

    @property
    def coverage(self) -> Share:
        """Share of them that hold their value."""
        return wilson(int(self.held.sum()), len(self.held))

    @property
    def width(self) -> float:
        """Median width."""
        return float(np.median(self.high - self.low))


class IntervalTrials:
    """The trials of both suites.

    Parameters
    ----------
    results : the folder results/.

    Raises
    ------
    LookupError : trials are missing.
    """

    def __init__(self, results: Path) -> None:
        rows: dict[tuple[Method, Setting], list[tuple[float, ...]]] = {}
        for folder in FOLDERS:
            for row in _rows(results / folder):
                if (ends := _ends(row)) is not None:
                    rows.setdefault((_method(row), _setting(row)), []).append(ends)
        self.cells = {key: Cell(*np.array(found).T) for key, found in rows.items()}
        self.settings = sorted({setting for _, setting in self.cells})

    def methods(self) -> list[Method]:
        """All methods, by kind."""
        return sorted({method for method, _ in self.cells})

    def of(self, method: Method, settings: Sequence[Setting]) -> list[tuple[Setting, Cell]]:
        """The cells of a method in those of the settings where it was run."""
        return [(one, self.cells[method, one]) for one in settings if (method, one) in self.cells]


def _rows(folder: Path) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq

    path = folder / "trials.parquet"
    if not path.is_file():
        msg = f"{path} is missing; results/regenerate {folder.name} makes it"
        raise LookupError(msg)
    yield from pq.read_table(path, columns=list(COLUMNS)).to_pylist()


def _method(row: dict[str, Any]) -> Method:
    kind = json.loads(row["params"]).get("interval", "asymptotic")
    return Method("normal" if kind == "asymptotic" else kind, row["estimator"])


def _setting(row: dict[str, Any]) -> Setting:
    params = json.loads(row["environment_params"])
    overlap = OVERLAPS[params["reward"], params["logging_beta"]]
    place = tuple(dict.fromkeys(OVERLAPS.values())).index(overlap)
    return Setting(REWARDS[params["reward"]], place, params["n_samples"])


def _ends(row: dict[str, Any]) -> tuple[float, ...] | None:
    """Return the fields of a `Cell`; None for trials without an interval."""
    low, high = row["interval_low"], row["interval_high"]
    if row["status"] != "ok":
        return None
    if low is None:
        if row["standard_error"] is None:
            return None
        reach = float(ndtri((1 + LEVEL) / 2)) * row["standard_error"]
        low, high = row["estimate"] - reach, row["estimate"] + reach
    facts = json.loads(row["diagnostics"])
    effective, least = (
        facts.get(name, np.nan) for name in (EFFECTIVE_SAMPLE_SIZE, LEAST_EFFECTIVE)
    )
    return low, high, row["truth_expected"], effective, least
