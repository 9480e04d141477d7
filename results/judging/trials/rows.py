"""The committed trials of one suite, as errors by setting and replicate."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ope_bench.base.canonical import canonical_json
from ope_bench.contracts.arrays import FloatArray
from ope_bench.plugins.spec import resolve
from ope_bench.store.export import read_parquet

NORMAL_95 = 1.96
"""Standard errors from an estimate to the ends of its normal interval."""

_COLUMNS = (
    "fit_cpu_seconds",
    "environment", "environment_params", "estimator", "params", "label", "replicate", "status",
    "estimate", "standard_error", "interval_low", "interval_high", "truth_expected",
    "truth_empirical", "diagnostics", "signal",
)  # fmt: skip


@dataclass(frozen=True)
class Estimator:
    """One estimator with its parameters, and what the text calls it.

    Parameters
    ----------
    name : shown in tables.
    id : registered id.
    params : all its parameters, as canonical JSON.
    """

    name: str
    id: str
    params: str

    @classmethod
    def of(cls, estimator: str, name: str, **params: Any) -> Estimator:
        """The registered estimator; parameters not named have their defaults."""
        spec = resolve("estimator", estimator, params)
        return cls(name, spec.id, canonical_json(spec.params))


class Trials:
    """The rows of ``trials.parquet`` in ``folder``.

    Parameters
    ----------
    folder : of one suite's results.
    axis : the environment's parameter that the suite varies, or a name for what ``settings`` says.
    measure : what counts as the error: estimate less ``expected`` truth, less ``empirical`` truth
        (the paper's V_s), the ``width`` of the interval, or a diagnostic by its name.
    settings : names of settings in their order, each with values that ``environment`` and its
        parameters must have, null where there is no such parameter; None: the values of ``axis``.
    only : values that the environment's parameters must have; other trials are left out.
    pool : whether `pooled_truths` takes all settings together.

    Raises
    ------
    LookupError : there are no trials, or one belongs to no setting.
    """

    def __init__(
        self,
        folder: Path,
        axis: str,
        measure: str = "expected",
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        only: Mapping[str, Any] | None = None,
        pool: bool = False,
    ) -> None:
        self.folder, self.axis, self.measure, self._pool = folder, axis, measure, pool
        params = cache(json.loads)
        known = cache(lambda text: canonical_json(params(text)))

        @cache
        def setting(environment: str, text: str) -> Any:
            values = {"environment": environment, **params(text)}
            if not _matches(values, only or {}):
                return None
            if settings is None:
                return values[axis]
            for name, wanted in settings.items():
                if _matches(values, wanted):
                    return name
            msg = f"{folder}: no setting of the claims has {values}"
            raise LookupError(msg)

        self._rows: list[dict[str, Any]] = []
        self._at: dict[Any, list[dict[str, Any]]] = {}
        self._cells: dict[tuple[str, str, Any], list[dict[str, Any]]] = {}
        for row in rows_of(folder):
            where = setting(row["environment"], row["environment_params"])
            if where is not None:
                self._rows.append(row)
                self._at.setdefault(where, []).append(row)
                cell = row["estimator"], known(row["params"]), where
                self._cells.setdefault(cell, []).append(row)
        for rows in self._cells.values():
            rows.sort(key=lambda row: row["replicate"])
        self.settings: list[Any] = (
            [name for name in settings if name in self._at] if settings else sorted(self._at)
        )
        self.replicates = 1 + max(row["replicate"] for row in self._rows)
        self._errors: dict[tuple[Estimator, Any], FloatArray] = {}
        self._one_world: dict[Any, bool] = {}

    def rows(self, estimator: Estimator, setting: Any) -> list[dict[str, Any]]:
        """The trials of one estimator at one setting, by replicate.

        Raises
        ------
        LookupError : not each replicate has exactly one trial.
        """
        rows = self._cells.get((estimator.id, estimator.params, setting), [])
        if [row["replicate"] for row in rows] != list(range(self.replicates)):
            msg = (
                f"{self.folder}: {estimator.name} ({estimator.id} {estimator.params}) at "
                f"{setting}: {len(rows)} trials, {self.replicates} are needed; "
                "`results/regenerate run` makes them"
            )
            raise LookupError(msg)
        return rows

    def complete(self, *estimators: Estimator, setting: Any) -> bool:
        """Whether each estimator has all its trials at a setting."""
        try:
            for estimator in estimators:
                self.rows(estimator, setting)
        except LookupError:
            return False
        return True

    def available(self, estimator: Estimator, setting: Any) -> bool:
        """Whether the estimator can answer there: not all its trials are ``unavailable``."""
        return any(row["status"] != "unavailable" for row in self.rows(estimator, setting))

    def errors(self, estimator: Estimator, setting: Any) -> FloatArray:
        """(replicates,) what counts as the error; NaN where a trial failed."""
        if (estimator, setting) not in self._errors:
            rows = self.rows(estimator, setting)
            self._errors[estimator, setting] = np.array([self._error(row) for row in rows])
        return self._errors[estimator, setting]

    def ends(self, estimator: Estimator, setting: Any) -> FloatArray:
        """(replicates, 2) ends of 95 % intervals less the value; NaN where none is offered."""
        rows = self.rows(estimator, setting)
        truths = np.array([[row["truth_expected"]] for row in rows], dtype=np.float64)
        return np.array([ends_of(row) for row in rows]) - truths

    def diagnostic(self, estimator: Estimator, setting: Any, name: str) -> FloatArray:
        """(replicates,) a diagnostic; NaN where a trial has none."""
        rows = self.rows(estimator, setting)
        return np.array([json.loads(row["diagnostics"] or "{}").get(name, np.nan) for row in rows])

    def truths(self, setting: Any) -> FloatArray:
        """(replicates,) the values that were to be estimated."""
        name = "truth_empirical" if self.measure == "empirical" else "truth_expected"
        by_replicate = {row["replicate"]: row[name] for row in self._at[setting]}
        return np.array([by_replicate[replicate] for replicate in range(self.replicates)])

    def pooled_truths(self, setting: Any) -> FloatArray:
        """Values over which "the best constant answer" is meant.

        Those of the setting's data sets or, with ``pool``, of all settings, for suites in which
        a setting is a target and not a size. Always expected values: V_s scatters even where
        there is one value only.
        """
        rows = self._rows if self._pool else self._at[setting]
        return np.array([row["truth_expected"] for row in rows])

    def of_one_world(self, setting: Any) -> bool:
        """Whether all data sets come from one fixed world, so that intervals are over sampling.

        Told by a constant expected value; that of `gaussian` is constant although coefficients
        are drawn anew.
        """
        if setting not in self._one_world:
            rows = self._at[setting]
            truths = [row["truth_expected"] for row in rows]
            # Trials of two machines may round the same truth differently.
            constant = np.ptp(truths) <= 1e-12 * max(map(abs, truths))
            self._one_world[setting] = bool(constant) and rows[0]["environment"] != "gaussian"
        return self._one_world[setting]

    def _error(self, row: dict[str, Any]) -> float:
        if row["status"] != "ok":
            return np.nan
        if self.measure in ("empirical", "expected"):
            return float(row["estimate"] - row[f"truth_{self.measure}"])
        if self.measure == "width":
            low, high = (end - row["truth_expected"] for end in ends_of(row))
            return float(high - low)
        return float(json.loads(row["diagnostics"]).get(self.measure, np.nan))


def _matches(values: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(values.get(name) == value for name, value in wanted.items())


def rows_of(place: Path, *columns: str) -> list[dict[str, Any]]:
    """The exported trials in a folder or a file, read once; nobody changes a row.

    Parameters
    ----------
    columns : those to read; by default all that pages show, of those that the file has.

    Raises
    ------
    LookupError : they are missing.
    """
    path = place if place.suffix == ".parquet" else place / "trials.parquet"
    if not path.is_file():
        folder = path.parent
        suite = f"paper-{folder.name}" if folder.parent.name == "paper" else folder.name
        msg = f"{path} is missing; results/regenerate run {suite} makes it"
        raise LookupError(msg)
    return _read(path, path.stat().st_mtime_ns, columns or _COLUMNS)


@cache
def _read(path: Path, _changed: int, wanted: tuple[str, ...]) -> list[dict[str, Any]]:
    frame, _ = read_parquet(path, lambda known: [name for name in wanted if name in known])
    texts: dict[str, str] = {}
    # Equal texts share their object, of which many rows have one.
    columns = [
        [texts.setdefault(one, one) if isinstance(one, str) else one for one in column.to_list()]
        for column in frame
    ]
    names = frame.columns
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def ends_of(row: Mapping[str, Any], errors: float = NORMAL_95) -> tuple[float, float]:
    """The ends of a trial's 95 % interval, or as many standard errors away; NaN without one."""
    low, high = row.get("interval_low"), row.get("interval_high")
    if row["status"] != "ok" or (low is None and row["standard_error"] is None):
        return np.nan, np.nan
    if low is None or high is None:
        reach = errors * row["standard_error"]
        return row["estimate"] - reach, row["estimate"] + reach
    return low, high
