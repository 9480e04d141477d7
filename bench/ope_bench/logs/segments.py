"""A policy's value in each segment of a log, with intervals that hold for all segments at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ope_bench.base.errors import UsageError
from ope_bench.base.units import counted
from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.logs.loading import without_missing
from ope_bench.logs.log_data import LogData
from ope_bench.logs.problem import TERMS, unit_of
from ope_bench.logs.recommendation import few_rewards
from ope_bench.logs.result import Segment
from ope_bench.logs.source import load_table
from ope_bench.statistics.simultaneous import simultaneous
from ope_bench.statistics.unit_errors import sum_by_unit
from ope_bench.trials.record import TrialRecord

MOST_SEGMENTS = 20


def segment_codes(log: LogData, by: str) -> tuple[IntArray, list[str]]:
    """Return the code of each row's segment, and the names of the segments.

    Raises
    ------
    UsageError : there is no such column, it is known after the decision alone, or it has one level
        or more than `MOST_SEGMENTS`.
    """
    spec = log.spec
    if spec is None:
        msg = f"by: '{by}' cannot be read of a stored log; read its file"
        raise UsageError(msg)
    if by in (spec.action, *spec.rewards, spec.propensity):
        msg = f"by: '{by}' is action, reward or propensity; segments are known before the decision"
        raise UsageError(msg)
    needed = [spec.action, spec.reward, *([] if log.propensity is None else [spec.propensity])]

    def chosen(names: list[str]) -> list[str]:
        return list(dict.fromkeys([*map(str, needed), by]))

    table = load_table(spec.table, chosen, spelled=[spec.action, by], form=spec.form)
    table, kept, _ = without_missing(spec, table)
    codes, names = table.select(np.flatnonzero(kept)).codes(by, optional=True)
    if not 2 <= len(names) <= MOST_SEGMENTS:
        levels = f"has {counted(len(names), 'level')} in the rows that count"
        cure = f"name a column of 2 to {MOST_SEGMENTS}, or make groups of its values"
        msg = f"{table.path}: column '{by}' {levels}; {cure}"
        raise UsageError(msg)
    return codes, names


def segments_of(
    log: LogData,
    name: str,
    codes: IntArray,
    names: Sequence[str],
    record: TrialRecord | None,
    folder: Path,
    level: float,
) -> tuple[Segment, ...]:
    """Return a policy's segments; without values where no estimator has terms.

    Parameters
    ----------
    log : the log.
    name : of the policy.
    codes, names : of the segments.
    record : of an estimate whose terms are in a file of `folder`; None for none.
    folder : where the log is stored.
    level : with which all intervals of the values hold at once, and all of the lifts.
    """
    rows = np.bincount(codes, minlength=len(names))
    found = [Segment(level=one, rows=int(n)) for one, n in zip(names, rows, strict=True)]
    if record is None:
        return tuple(found)
    terms = np.array(np.load(folder / str(record.diagnostics[TERMS])))
    share = np.ones(log.n) if log.weight is None else log.weight / log.weight.mean()
    # Terms are weighted around the mean of the whole log.
    terms += (share - 1.0) * terms.mean()
    weights = log.weights(name)
    valued = rows > 0
    if record.trial.estimator.id == "ipws" and weights is not None:
        # Weights that average to one in the log do not in a segment, whose value could leave the
        # range of the rewards.
        weights = weights * share
        total = np.bincount(codes, weights, len(names))
        valued = total > 0
        mean = np.bincount(codes, weights * log.reward, len(names)) / np.where(valued, total, 1.0)
        scale = np.bincount(codes, share, len(names)) / np.where(valued, total, 1.0)
        terms = share * mean[codes] + (weights * (log.reward - mean[codes])) * scale[codes]
    unit = unit_of(log)
    values = simultaneous_means(terms, codes, len(names), unit, level, share)
    # What rounding leaves of equal policies is no difference.
    apart = terms - share * log.reward
    apart[np.abs(apart) <= 1e-12 * np.abs(share * log.reward).max()] = 0.0
    lifts = simultaneous_means(apart, codes, len(names), unit, level, share)
    for at in np.flatnonzero(valued):
        (value, half), (lift, lift_half) = values[at], lifts[at]
        found[at] = one = replace(found[at], value=value, lift=lift)
        if not few_rewards(log.part(np.flatnonzero(codes == at)), name):
            found[at] = replace(
                one,
                low=value - half,
                high=value + half,
                lift_low=lift - lift_half,
                lift_high=lift + lift_half,
            )
    return tuple(found)


def simultaneous_means(
    terms: FloatArray,
    codes: IntArray,
    count: int,
    unit: IntArray,
    level: float,
    share: FloatArray | None = None,
) -> list[tuple[float, float]]:
    """Return the mean of terms in each segment, and half the width of its interval.

    Parameters
    ----------
    terms : (n,), each times its share.
    codes : (n,), segments, all below ``count``.
    unit : (n,)
    level : with which all intervals hold at once.
    share : (n,), for how many rows each stands; one each where None.
    """
    share = np.ones(len(terms)) if share is None else share
    rows = np.bincount(codes, share, count)
    means = np.bincount(codes, terms, count) / rows
    inside = codes[:, None] == np.arange(count + 1)
    # One more column without spread: differences to it are the means.
    parts = inside * (terms[:, None] - share[:, None] * np.append(means, 0.0)) / np.append(rows, 1)
    influence = np.stack([sum_by_unit(one, unit) for one in parts.T], axis=1)
    quantile, error = simultaneous(influence, 1 - level, versus_last=True)
    return [
        (float(mean), quantile * float(one))
        for mean, one in zip(means, error[:-1, -1], strict=True)
    ]
