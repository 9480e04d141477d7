"""Which estimator to use on a log, and which interval around it may be stated.

Estimators of one value that disagree show an error that none of their standard errors knows: a
wrong reward model, wrong propensities, weights that one row carries. The interval is

    center +- sqrt((z s)^2 + (k D z / 1.96)^2)

with s the largest standard error of some of them, D the range of a panel's values, z the quantile
of the level and k a constant. Where few rewards carry the value it is that of empirical
likelihood. Either is stated where it held the value in drawn logs that are like this one.
Estimators and constant were chosen on drawn worlds and judged on others; recommendation.json,
which results/verbs/write.py makes of trials, has them with their coverage.

References
----------
"Empirical likelihood for contextual bandits" (Karampatziakis, Langford and Mineiro, 2020).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from ope_bench.logs.log_data import LogData
from ope_bench.logs.problem import (
    EFFECTIVE,
    REWARDED,
    effective_rewarded_rows,
    effective_size,
    problem_of,
)
from ope_bench.logs.result import EstimateRow
from ope_bench.report.tables import percent
from ope_bench.statistics.value_intervals import empirical_likelihood_interval
from ope_bench.trials.record import TrialRecord

DISAGREEMENT = "disagreement"

LIKELIHOOD = "empirical-likelihood"

NORMAL_95 = 1.96

LEAST_REWARDED, LEAST_EFFECTIVE = 20.0, 30.0
"""Effective rewarded rows and sample size below which empirical likelihood alone holds."""

LEAST_LOGS = 30
"""Drawn logs of a cell from which its coverage is stated."""


@dataclass(frozen=True)
class AlikeLogs:
    """Drawn logs that are alike in what carries their values.

    Parameters
    ----------
    rewarded, effective : least effective rewarded rows, and effective sample size.
    logs, held : how many there are, and the share whose interval held the value.
    states : whether an interval may be stated for such logs.
    """

    rewarded: float
    effective: float
    logs: int
    held: float
    states: bool


@dataclass(frozen=True)
class Stated:
    """The interval that may be stated of a log's policy.

    Parameters
    ----------
    low, high, kind : None where there is none.
    coverage : share of drawn logs like this one in which it held the value.
    reason : why there is none, or why it is of another kind than `DISAGREEMENT`.
    """

    low: float | None = None
    high: float | None = None
    kind: str | None = None
    coverage: float | None = None
    reason: str = ""

    def lift(
        self, value: float, average: float, error: float, level: float
    ) -> tuple[float | None, float | None]:
        """Return the interval of value - average from those of both, as if independent.

        Both rest on the same rewards, which makes it too wide rather than too narrow for a policy
        that earns more. (None, None) where no interval is stated, or where it misses the value.

        Parameters
        ----------
        value : inside of `low` and `high`.
        average, error : today's mean reward and its standard error.
        level : of the interval.

        References
        ----------
        Construction of confidence limits about effect measures (Zou and Donner, 2008).
        """
        if self.low is None or self.high is None or not self.low <= value <= self.high:
            return None, None
        today, lift = float(ndtri(0.5 + level / 2)) * error, value - average
        below, above = (math.hypot(value - end, today) for end in (self.low, self.high))
        return lift - below, lift + above


@dataclass(frozen=True)
class Recommendation:
    """The estimator for one kind of log, and the interval around it.

    Parameters
    ----------
    center : selector of the recommended estimator.
    panel : selectors of the estimators whose range is D.
    errors : selectors of those whose largest standard error is s; none where no interval is.
    constant : k.
    worlds : number of the settings that confirmed it.
    cells : how often its interval held the value, by what carries the value.
    withheld : estimators whose own interval is not printed, each with the share of clean drawn
        logs in which it held the value.
    """

    center: str
    panel: tuple[str, ...]
    errors: tuple[str, ...]
    constant: float
    worlds: int
    cells: tuple[AlikeLogs, ...]
    withheld: Mapping[str, float]

    @property
    def estimators(self) -> tuple[str, ...]:
        """Selectors of all estimators that the interval needs, the recommended one first."""
        return tuple(dict.fromkeys((self.center, *self.panel, *self.errors)))

    def cell(
        self, log: LogData, target: str, records: Sequence[TrialRecord] = ()
    ) -> AlikeLogs | None:
        """Return the drawn logs that a log is like; None where there are too few.

        Where its own cell has few, that of fewer rewards or rows that has enough: there intervals
        are harder to get right.
        """
        carried = carriers(log, target, records)
        if carried is None:
            return None
        rewarded, effective = carried
        inside = [
            one
            for one in self.cells
            if one.rewarded <= rewarded and one.effective <= effective and one.logs >= LEAST_LOGS
        ]
        return max(inside, key=lambda one: (one.rewarded, one.effective), default=None)

    def interval(
        self, rows: Mapping[str, EstimateRow], level: float, *, lift: bool = False
    ) -> tuple[float | None, float | None]:
        """Return the interval around the recommended estimator's value, or lift.

        Where it misses one of `errors`, sampling is not what parts them, and it is widened to that
        one's own interval: of a policy like today's all errors are about 0, and the center may
        still be off. (None, None) where one of the estimators has no value.

        Parameters
        ----------
        rows : the estimates, by selector.
        level : of the interval.
        lift : of the difference to the logged mean in place of the value.
        """
        values = [rows[text].value for text in self.panel if text in rows]
        known = [value for value in values if value is not None]
        middles = {text: row.lift if lift else row.value for text, row in rows.items()}
        errors = {text: _error(rows.get(text), lift) for text in self.errors}
        error = max((one for one in errors.values() if one is not None), default=None)
        center = middles.get(self.center)
        if center is None or error is None or len(known) < len(self.panel):
            return None, None
        z = float(ndtri(0.5 + level / 2))
        apart = self.constant * (max(known) - min(known)) / NORMAL_95
        half = z * math.hypot(error, apart)
        low, high = center - half, center + half
        for text, one in errors.items():
            middle = middles.get(text)
            if one is not None and middle is not None and not low <= middle <= high:
                low, high = min(low, middle - z * one), max(high, middle + z * one)
        return low, high

    def stated(
        self,
        rows: Mapping[str, EstimateRow],
        log: LogData,
        target: str,
        level: float,
        records: Sequence[TrialRecord] = (),
    ) -> Stated:
        """Return the interval that may be stated, where drawn logs say that it holds.

        Parameters
        ----------
        rows : the estimates, by selector.
        log, target : the log and one of its policies.
        level : of the interval.
        records : the estimates' trials, which know estimated weights.
        """
        if not self.errors:
            return Stated(reason="no interval is stated where weights are learned from samples")
        few = few_rewards(log, target, 1.0, records)
        cell = self.cell(log, target, records)
        if few:
            found = likelihood(log, target, level)
            if found.low is None:
                return replace(found, reason=f"no interval is stated: {few}; {found.reason}")
            found = replace(found, reason="; ".join(filter(None, (few, found.reason))))
        elif self.center not in rows or rows[self.center].value is None:
            return Stated(reason=f"no interval is stated: {self.center} has no value")
        else:
            low, high = self.interval(rows, level)
            if low is None:
                texts = (one for one in self.estimators if one in rows)
                valued = {text for text in texts if rows[text].value is not None}
                lacks = ", ".join(one for one in self.estimators if one not in valued)
                said = f"{lacks} has no value" if lacks else "no estimator knows its error"
                return Stated(reason=f"no interval is stated: {said}")
            found = Stated(low, high, DISAGREEMENT)
        if cell is None or not cell.states:
            said = "too few drawn logs are like this one"
            if cell is not None:
                said = (
                    f"such ones held the value in {percent(cell.held)} of drawn logs like this one"
                )
            return Stated(reason=f"no interval is stated: {said}{few and f' ({few})'}")
        return replace(found, coverage=cell.held)


def _error(row: EstimateRow | None, lift: bool) -> float | None:
    if row is None:
        return None
    if not lift:
        return row.standard_error
    if row.lift is None or row.lift_high is None:
        return None
    return (row.lift_high - row.lift) / float(ndtri(0.5 + row.level / 2))


def carriers(
    log: LogData, target: str, records: Sequence[TrialRecord] = ()
) -> tuple[float, float] | None:
    """Return the effective rewarded rows and sample size of a policy; None without weights.

    Of estimated propensities they are of the weights of `ipws`, if its trial is given.
    """
    for record in records if log.estimated_propensity else ():
        found = [record.diagnostics.get(name) for name in (REWARDED, EFFECTIVE)]
        if record.trial.estimator.id == "ipws" and None not in found:
            return float(found[0] or 0.0), float(found[1] or 0.0)
    rewarded = effective_rewarded_rows(log, target)
    effective = effective_size(log, target)
    return None if rewarded is None or effective is None else (rewarded, effective)


def few_rewards(
    log: LogData, target: str, scale: float = 1.0, records: Sequence[TrialRecord] = ()
) -> str:
    """Return why intervals by standard errors may not be printed, "" where they may.

    Parameters
    ----------
    log, target : the log and one of its policies.
    scale : for how many rows each of the log stands.
    records : trials of estimators, which know estimated weights.
    """
    carried = carriers(log, target, records)
    if carried is None:
        return ""
    rewarded, effective = (scale * one for one in carried)
    if rewarded >= LEAST_REWARDED and effective >= LEAST_EFFECTIVE:
        return ""
    return (
        f"{rewarded:.3g} effective rewarded rows, effective sample size {effective:,.0f}: "
        "empirical likelihood alone holds there"
    )


def likelihood(log: LogData, target: str, level: float) -> Stated:
    """Return the interval by empirical likelihood, of a known range of the rewards.

    The range of weights is that of both policies, or follows from ``smallest_propensity``.
    """
    weight = log.weights(target)
    rewards, limits, said = log.reward_range, (0.0, math.inf), ""
    if rewards is None and set(np.unique(log.reward)) <= {0.0, 1.0}:
        rewards = (0.0, 1.0)
    if log.estimated_propensity:
        return Stated(reason="it needs given propensities")
    if weight is None or log.weight is not None or log.n_units < 2:
        lacks = "row weights are none of its" if log.weight is not None else "it needs two units"
        return Stated(reason=lacks)
    if rewards is None:
        return Stated(reason="give `reward_range: [LOW, HIGH]`")
    if log.logging is not None:
        limits = problem_of(log, target, np.random.default_rng(0)).weight_range()
    elif log.smallest_propensity is not None:
        limits = (0.0, 1.0 / log.smallest_propensity)
    else:
        said = "`smallest_propensity: P`, a floor of the logger, makes it narrower"
    found = empirical_likelihood_interval(
        weight, log.reward, reward_range=rewards, weight_range=limits, unit=log.unit, level=level
    )
    return Stated(found.low, found.high, LIKELIHOOD, reason=said)


@cache
def recommendations() -> Mapping[str, Recommendation]:
    """Return the recommendation for ``known`` and ``estimated`` policies and ``samples`` only."""
    path = Path(__file__).with_name("recommendation.json")
    given: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    lists = ("panel", "errors")
    return {
        name: Recommendation(
            **one
            | {key: tuple(one[key]) for key in lists}
            | {"cells": tuple(AlikeLogs(**cell) for cell in one["cells"])}
            | {"withheld": given["withheld"]}
        )
        for name, one in given.items()
        if name in ("known", "estimated", "samples")
    }


def recommendation_for(log: LogData, target: str) -> Recommendation:
    """Return the recommendation for evaluating one of a log's policies."""
    if log.targets[target].action is not None:
        return recommendations()["samples"]
    known = "samples" if log.propensity is None else "known"
    return recommendations()["estimated" if log.estimated_propensity else known]
