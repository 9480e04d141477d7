"""What estimators say of policies, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ope_bench.canonical import plain

__all__ = ["Difference", "EstimateRow", "EstimateValues", "TargetEstimates"]


@dataclass(frozen=True, kw_only=True)
class EstimateRow:
    """What one estimator says of one policy.

    Parameters
    ----------
    estimator, label, params : id, name on tables, and parameters.
    status : as in trials.
    value : expected reward per row under the policy.
    low, high : interval of the level; None where none is offered.
    level, interval : of the interval; its kind is None where none is offered.
    standard_error : of the value.
    lift, lift_low, lift_high : value minus the mean logged reward, with a paired interval; None
        for any but asymptotic intervals.
    ess_fraction : effective sample size of the weights over the rows.
    max_weight_share : largest weight over the sum of weights.
    access : what the estimator reads beyond samples.
    message : the reason where there is no value or no interval, or a warning.
    seconds : of fit and estimate.
    """

    estimator: str
    label: str
    params: Mapping[str, Any]
    status: str
    value: float | None
    low: float | None
    high: float | None
    level: float
    interval: str | None
    standard_error: float | None
    lift: float | None
    lift_low: float | None
    lift_high: float | None
    ess_fraction: float | None
    max_weight_share: float | None
    access: tuple[str, ...]
    message: str | None
    seconds: float | None


@dataclass(frozen=True, kw_only=True)
class TargetEstimates:
    """What the estimators say of one policy.

    Parameters
    ----------
    name : of the policy.
    unsupported_mass : share of it on actions that the log cannot speak of; None if unknown.
    rows : one for each estimator.
    left_out : estimators of the default list that cannot run, with the reason.
    """

    name: str
    unsupported_mass: float | None
    rows: tuple[EstimateRow, ...]
    left_out: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The difference between two policies by one estimator, paired by row.

    Parameters
    ----------
    estimator, label : as in `EstimateRow`.
    target, versus : names of the policies; the difference is the first minus the second.
    difference, low, high : with its interval; None where the estimator offers none, and for
        any but asymptotic intervals.
    """

    estimator: str
    label: str
    target: str
    versus: str
    difference: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class EstimateValues:
    """All rows of an evaluation.

    Parameters
    ----------
    log : facts of the log: rows, units, actions, propensity, target_form.
    logging_average : mean logged reward.
    targets : one for each policy.
    differences : between every two policies, the later one minus the earlier one.
    notes : what the reader must know.
    exit_code : 0, or 3 where every estimator failed.
    """

    log: Mapping[str, Any]
    logging_average: float
    targets: tuple[TargetEstimates, ...]
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0; 3 where no estimator has a value."""
        rows = [row for target in self.targets for row in target.rows]
        return 0 if any(row.value is not None for row in rows) else 3

    def as_json(self) -> dict[str, Any]:
        """Return the document of ``ope-bench estimate --format json``."""
        targets = [
            {
                "name": target.name,
                "unsupported_mass": target.unsupported_mass,
                "rows": [asdict(row) for row in target.rows],
            }
            for target in self.targets
        ]
        document: dict[str, Any] = {
            "schema": 1,
            "log": self.log,
            "logging_average": self.logging_average,
            "targets": targets,
            "notes": list(self.notes),
        }
        if len(self.targets) > 1:
            document["differences"] = [asdict(one) for one in self.differences]
        found: dict[str, Any] = plain({**document, "exit_code": self.exit_code})
        return found
