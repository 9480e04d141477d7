"""Ask estimators for a kind of interval on a user's own log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ope_bench.contracts.access import Access
from ope_bench.contracts.estimator import Estimator
from ope_bench.contracts.interval import IntervalKind
from ope_bench.contracts.parameters.validation import validated
from ope_bench.errors import ParameterError
from ope_bench.logs.log_trials import EstimatorPair
from ope_bench.logs.reading.log_data import LogData
from ope_bench.plugins.resolution import resolve, spec_of
from ope_bench.trials.building import build

__all__ = ["with_interval"]

NO_RANGE = "give `reward_range: [LOW, HIGH]`"
ONE_UNIT = "the log has one unit"
NO_LOGGING = "give `logging: {table: FILE}`, the logging policy's whole distribution"


def with_interval(
    pairs: Sequence[EstimatorPair], log: LogData, kind: IntervalKind, level: float
) -> list[tuple[EstimatorPair, str]]:
    """Return the estimators with their parameters ``interval`` and ``level`` set, where they can.

    An estimator stays as it is where it has no such parameters or not this kind, where its own
    ``interval`` is set already, and where the log lacks what the kind needs; the text says then
    what is missing.

    Parameters
    ----------
    pairs : from `estimator_pairs`.
    log : the log.
    kind, level : of the intervals.
    """
    return [_asked(pair, log, kind, level) for pair in pairs]


def _asked(
    pair: EstimatorPair, log: LogData, kind: IntervalKind, level: float
) -> tuple[EstimatorPair, str]:
    spec, given = pair
    estimator = build(spec) if given is None else given
    params = estimator.get_params(deep=False)
    if kind == "asymptotic" or params.get("interval") != "asymptotic":
        return pair, ""
    try:
        values = validated(type(estimator), {**params, "interval": kind, "level": level})
    except ParameterError:
        return pair, ""
    changed = type(estimator)(**values)
    if missing := _missing(changed, params, log, kind):
        return pair, missing
    if given is not None:
        return (spec_of(changed, label=spec.label), changed), ""
    asked = {**spec.params, "interval": kind, "level": level}
    return (resolve("estimator", spec.reference, asked, label=spec.label), None), ""


def _missing(
    estimator: Estimator, params: dict[str, Any], log: LogData, kind: IntervalKind
) -> str:
    """Return what the log lacks for an interval that the estimator could make of others."""
    if kind != "guaranteed" and log.n_units < 2:
        return ONE_UNIT
    logs_do = kind == "bootstrap" or (kind == "empirical-likelihood" and np.ptp(log.reward) > 0)
    if not logs_do and log.reward_range is None and params.get("reward_range") is None:
        return NO_RANGE
    if Access.LOGGING_POLICY in estimator.access and log.logging is None:
        return NO_LOGGING
    return ""
