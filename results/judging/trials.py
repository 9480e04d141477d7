"""The committed trials of one suite, as errors by setting and replicate."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ope_bench.arrays import FloatArray
from ope_bench.resolve import resolve
from ope_bench.seeding import canonical_json

__all__ = ["Method", "Trials"]

_EMPIRICAL = "truth_empirical"


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
    measure : what counts as the error: estimate less ``empirical`` truth (the paper's V_s), less
        ``expected`` truth, or a diagnostic by its name.
    setting : from a row's environment and its parameters to its setting; None: the parameter
        ``axis``.
    """

    def __init__(
        self,
        folder: Path,
        axis: str,
        measure: str = "empirical",
        setting: Callable[[str, dict[str, Any]], Any] | None = None,
    ) -> None:
        import pyarrow.parquet as pq

        self.folder, self.axis, self.measure = folder, axis, measure
        self._rows = pq.read_table(folder / "trials.parquet").to_pylist()
        for row in self._rows:
            row["params"] = json.loads(row["params"])
            params = json.loads(row["environment_params"])
            found = setting(row["environment"], params) if setting else params[axis]
            row["setting"] = found
        self.settings: list[Any] = sorted({row["setting"] for row in self._rows})
        self.replicates = 1 + max(row["replicate"] for row in self._rows)
        self._found: dict[tuple[Method, Any], list[dict[str, Any]]] = {}

    def rows(self, method: Method, setting: Any) -> list[dict[str, Any]]:
        """The trials of one method at one setting, by replicate."""
        key = method, setting
        if key not in self._found:
            found = [
                row
                for row in self._rows
                if (row["setting"], row["estimator"]) == (setting, method.estimator)
                and canonical_json(row["params"]) == method.params
            ]
            if sorted(row["replicate"] for row in found) != list(range(self.replicates)):
                msg = f"{self.folder}: {method} at {setting}: {len(found)} trials"
                raise LookupError(msg)
            self._found[key] = sorted(found, key=lambda row: row["replicate"])
        return self._found[key]

    def errors(self, method: Method, setting: Any) -> FloatArray:
        """(replicates,) what counts as the error; NaN where a trial failed."""
        return np.array([self._error(row) for row in self.rows(method, setting)])

    def truths(self, setting: Any) -> FloatArray:
        """(replicates,) the values that were to be estimated."""
        by_replicate = {
            row["replicate"]: row["truth_expected" if self.measure == "expected" else _EMPIRICAL]
            for row in self._rows
            if row["setting"] == setting
        }
        return np.array([by_replicate[replicate] for replicate in range(self.replicates)])

    def _error(self, row: dict[str, Any]) -> float:
        if row["status"] != "ok":
            return np.nan
        if self.measure in ("empirical", "expected"):
            return float(row["estimate"] - row[f"truth_{self.measure}"])
        return float(json.loads(row["diagnostics"]).get(self.measure, np.nan))
