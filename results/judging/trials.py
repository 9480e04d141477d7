"""The committed trials of one suite, as errors by setting and replicate."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ope_bench.canonical import canonical_json
from ope_bench.contracts.arrays import FloatArray
from ope_bench.plugins.resolution import resolve

__all__ = ["Method", "Trials"]


@dataclass(frozen=True)
class Method:
    """One estimator with its parameters, and what the text calls it.

    Parameters
    ----------
    name : shown in tables.
    estimator : registered id.
    params : all its parameters, as canonical JSON.
    """

    name: str
    estimator: str
    params: str

    @classmethod
    def of(cls, estimator: str, name: str, **params: Any) -> Method:
        """The registered estimator; parameters not named have their defaults."""
        spec = resolve("estimator", estimator, params)
        return cls(name, spec.id, canonical_json(spec.params))


class Trials:
    """The rows of ``trials.parquet`` in ``folder``.

    Parameters
    ----------
    folder : of one suite's results.
    axis : the environment's parameter that the suite varies, or a name for what ``setting`` says.
    measure : what counts as the error: estimate less ``expected`` truth, less ``empirical`` truth
        (the paper's V_s), or a diagnostic by its name.
    setting : from a row's environment and its parameters to its setting; None: the parameter
        ``axis``.
    only : values that the environment's parameters must have; other trials are left out.
    pool : whether `pooled_truths` takes all settings together.

    Raises
    ------
    LookupError : there are no trials.
    """

    def __init__(
        self,
        folder: Path,
        axis: str,
        measure: str = "expected",
        setting: Callable[[str, dict[str, Any]], Any] | None = None,
        *,
        only: Mapping[str, Any] | None = None,
        pool: bool = False,
    ) -> None:
        import pyarrow.parquet as pq

        self.folder, self.axis, self.measure, self._pool = folder, axis, measure, pool
        path = folder / "trials.parquet"
        if not path.is_file():
            msg = f"{path} is missing; results/regenerate makes it"
            raise LookupError(msg)
        self._rows = []
        for row in pq.read_table(path).to_pylist():
            row["params"] = json.loads(row["params"])
            params = json.loads(row["environment_params"])
            if only and any(params[name] != value for name, value in only.items()):
                continue
            row["setting"] = setting(row["environment"], params) if setting else params[axis]
            self._rows.append(row)
        self.settings: list[Any] = sorted({row["setting"] for row in self._rows})
        self.replicates = 1 + max(row["replicate"] for row in self._rows)
        self._found: dict[tuple[Method, Any], list[dict[str, Any]]] = {}
        self._one_world: dict[Any, bool] = {}

    def rows(self, method: Method, setting: Any) -> list[dict[str, Any]]:
        """The trials of one method at one setting, by replicate.

        Raises
        ------
        LookupError : not each replicate has exactly one trial.
        """
        key = method, setting
        if key not in self._found:
            found = [
                row
                for row in self._rows
                if (row["setting"], row["estimator"]) == (setting, method.estimator)
                and canonical_json(row["params"]) == method.params
            ]
            if sorted(row["replicate"] for row in found) != list(range(self.replicates)):
                msg = (
                    f"{self.folder}: {method.name} ({method.estimator} {method.params}) at "
                    f"{setting}: {len(found)} trials, {self.replicates} are needed; "
                    "results/regenerate makes them"
                )
                raise LookupError(msg)
            self._found[key] = sorted(found, key=lambda row: row["replicate"])
        return self._found[key]

    def complete(self, *methods: Method, setting: Any) -> bool:
        """Whether each method has all its trials at a setting."""
        try:
            for method in methods:
                self.rows(method, setting)
        except LookupError:
            return False
        return True

    def value(self, name: str) -> Any:
        """An environment's parameter that all trials share."""
        found = {json.loads(row["environment_params"])[name] for row in self._rows}
        if len(found) != 1:
            msg = f"{self.folder}: {name} has several values, {sorted(found)}"
            raise LookupError(msg)
        return found.pop()

    def available(self, method: Method, setting: Any) -> bool:
        """Whether the method can answer there: not all its trials are ``unavailable``."""
        return any(row["status"] != "unavailable" for row in self.rows(method, setting))

    def errors(self, method: Method, setting: Any) -> FloatArray:
        """(replicates,) what counts as the error; NaN where a trial failed."""
        return np.array([self._error(row) for row in self.rows(method, setting)])

    def standard_errors(self, method: Method, setting: Any) -> FloatArray:
        """(replicates,) standard errors; NaN where none is offered."""
        found = (row["standard_error"] for row in self.rows(method, setting))
        return np.array([np.nan if one is None else one for one in found])

    def diagnostic(self, method: Method, setting: Any, name: str) -> FloatArray:
        """(replicates,) a diagnostic; NaN where a trial has none."""
        rows = self.rows(method, setting)
        return np.array([json.loads(row["diagnostics"] or "{}").get(name, np.nan) for row in rows])

    def truths(self, setting: Any) -> FloatArray:
        """(replicates,) the values that were to be estimated."""
        name = "truth_empirical" if self.measure == "empirical" else "truth_expected"
        by_replicate = {
            row["replicate"]: row[name] for row in self._rows if row["setting"] == setting
        }
        return np.array([by_replicate[replicate] for replicate in range(self.replicates)])

    def pooled_truths(self, setting: Any) -> FloatArray:
        """Values over which "the best constant answer" is meant.

        Those of the setting's data sets or, with ``pool``, of all settings, for suites in which
        a setting is a target and not a size. Always expected values: V_s scatters even where
        there is one value only.
        """
        return np.array(
            [
                row["truth_expected"]
                for row in self._rows
                if self._pool or row["setting"] == setting
            ]
        )

    def of_one_world(self, setting: Any) -> bool:
        """Whether all data sets come from one fixed world, so that intervals are over sampling.

        Told by a constant expected value; that of `gaussian` is constant although coefficients
        are drawn anew.
        """
        if setting not in self._one_world:
            rows = [row for row in self._rows if row["setting"] == setting]
            constant = np.ptp([row["truth_expected"] for row in rows]) == 0.0
            self._one_world[setting] = bool(constant) and rows[0]["environment"] != "gaussian"
        return self._one_world[setting]

    def _error(self, row: dict[str, Any]) -> float:
        if row["status"] != "ok":
            return np.nan
        if self.measure in ("empirical", "expected"):
            return float(row["estimate"] - row[f"truth_{self.measure}"])
        return float(json.loads(row["diagnostics"]).get(self.measure, np.nan))
