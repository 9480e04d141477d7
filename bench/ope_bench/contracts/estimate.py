"""The result of an estimator: its value, and what it says of it."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from ope_bench.canonical import scalar
from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.interval import Interval
from ope_bench.errors import DataError

Diagnostic = float | int | str | bool | None

WeightSpace = Literal["action", "embedding"]
"""The space on which an estimate's weights are a density ratio."""

LARGEST_INTEGER = int(sys.float_info.max)
"""Boards take means of integers, too."""

LARGEST_DIAGNOSTICS = 1 << 16
"""Characters of an estimate's diagnostics together; the store keeps them with every record."""

NUMBER_CHARACTERS = 24
"""Characters that a number counts as."""

STANDARD_ERROR_WITHHELD = "standard_error_withheld"
"""Name of the diagnostic in which an estimator says why it withholds its standard error."""

CHOSEN_ESTIMATOR = "chosen"
"""Name of the diagnostic in which an estimator that chooses among others names its choice."""

ESTIMATE_WARNING = "warning"
"""Name of the diagnostic in which an estimator says why its estimate is doubtful."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """An estimator's result.

    Parameters
    ----------
    value : estimated expected reward per round under the target policy.
    standard_error : of ``value``, where the estimator offers one and believes it.
    weights : (n,), importance weight of each logged row, before self-normalization.
    diagnostics : plain numbers and words for the store; `STANDARD_ERROR_WITHHELD` says why an
        estimator that offers a standard error gives none here, `ESTIMATE_WARNING` why its value
        is doubtful; both are shown as warnings, and so is a ``mean_weight``, one in expectation,
        that is far below one.
    target_weights : (m,), the weight function at the target rows, where a ratio was learned.
    weight_space : whether the weights estimate the ratio of action or embedding densities;
        lets the runner compare them with the true ratio where the environment knows it.
    interval : a confidence interval of ``value``, where the estimator makes one that is not the
        normal interval of its standard error.
    terms : (n,), what each logged row adds: ``value`` is their mean (plus that of
        ``target_terms``), exactly or to first order, as for a ratio of means. Given where the
        spread of the terms is that of the value, so that others can compute the error of a
        difference of two estimates. Not stored.
    target_terms : (m,), the same of each target row.
    """

    value: float
    standard_error: float | None = None
    weights: FloatArray | None = None
    diagnostics: Mapping[str, Diagnostic] = field(default_factory=dict)
    target_weights: FloatArray | None = None
    weight_space: WeightSpace | None = None
    interval: Interval | None = None
    terms: FloatArray | None = None
    target_terms: FloatArray | None = None

    def __post_init__(self) -> None:
        for name in ("value", "standard_error"):
            given = getattr(self, name)
            if type(given) is float or (name == "standard_error" and given is None):
                continue
            if isinstance(given, bool | str) or np.ndim(given) != 0 or np.iscomplexobj(given):
                msg = f"{name} is {type(given).__name__}; expected one real number"
                raise DataError(msg)
            try:
                object.__setattr__(self, name, float(given))
            except (TypeError, ValueError) as exc:
                msg = f"{name} is {type(given).__name__}; expected one real number"
                raise DataError(msg) from exc
        for name in ("weights", "target_weights", "terms", "target_terms"):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, np.asarray(given, dtype=np.float64))
                if np.ndim(given) != 1:
                    msg = f"{name} has shape {np.shape(given)}; expected one number per row"
                    raise DataError(msg)
                _require_finite(name, getattr(self, name), self.value)
        if self.weight_space not in (None, *get_args(WeightSpace)):
            known = " or ".join(map(repr, get_args(WeightSpace)))
            msg = f"weight_space is {self.weight_space!r}; expected {known}"
            raise DataError(msg)
        if not isinstance(self.interval, Interval | None):
            msg = f"interval is {type(self.interval).__name__}; expected ope_bench.Interval"
            raise DataError(msg)
        object.__setattr__(self, "diagnostics", _validate_diagnostics(self.diagnostics))


def _require_finite(name: str, weights: FloatArray, value: float) -> None:
    """Refuse weights that are not finite, unless the value is not finite either (a status)."""
    finite = np.isfinite(weights)
    if not finite.all() and math.isfinite(value):
        row = int(np.argmin(finite))
        msg = f"{name}[{row}] is {weights[row]}, though the value is finite; expected a number"
        raise DataError(msg)


def _validate_diagnostics(diagnostics: Mapping[str, Diagnostic]) -> dict[str, Diagnostic]:
    plain: dict[str, Diagnostic] = {}
    for name, value in diagnostics.items():
        value = scalar(value)
        if not (value is None or isinstance(value, float | int | str | bool)):
            msg = f"diagnostics[{name!r}] is {type(value).__name__}; expected a number or a word"
            raise DataError(msg)
        if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
            msg = f"diagnostics[{name!r}] is an integer that no double can hold"
            raise DataError(msg)
        plain[str(name)] = value
    size = sum(
        len(name) + (len(value) if isinstance(value, str) else NUMBER_CHARACTERS)
        for name, value in plain.items()
    )
    if size > LARGEST_DIAGNOSTICS:
        msg = (
            f"diagnostics have {size:,} characters; expected at most {LARGEST_DIAGNOSTICS:,}: "
            "keep figures and short words, and write arrays to a file"
        )
        raise DataError(msg)
    return plain
