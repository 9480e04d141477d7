"""Faults of a log's rows: copies, repeated users, identifiers, and what changed over time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import pdtrc

from ope_bench.base.errors import UsageError
from ope_bench.base.units import counted
from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.logs.finding import Check, Finding
from ope_bench.logs.log_data import LogData, most_levels
from ope_bench.logs.problem import below_one, two_sided, unit_of
from ope_bench.logs.support import described

Words = np.ndarray[tuple[Any, ...], np.dtype[np.uint64]]

_MOST_CELLS = 10_000_000
"""Rows times columns up to which near copies are sought."""

_COPIES_Z, _COPIES_RATE = 5.0, 0.003
_LEAST_VALUES, _MOST_ROWS_OF_VALUE = 30, 100
_COINCIDE, _COINCIDE_SHARE = 10.0, 0.2
_LIKE_CHANCE, _WHOLE = (0.75, 1.33), 1.1
_LEAST_KEPT = 0.98
_TREND_RATE = 0.0015
_DROP_Z, _FLAT_Z = 4.0, 2.0
_CUTS = np.arange(0.5, 0.96, 0.05)
_MOST_PAIRS = 60


def copies(log: LogData) -> Iterator[Finding]:
    """Find rows that are equal, and rows that are equal but for one context column.

    Copies that were edited or written again are either. Neighbors of equal context, that column
    apart, have the same action by the propensity and the same reward at most as often; more than
    that are copies.
    """
    rng = np.random.default_rng(20)
    context, names = np.asarray(log.context), log.context_names
    key = [_hashed(column, rng) for column in context.T]
    named = [_hashed(one, rng) for one in (log.unit, log.time) if one is not None]
    answer = _hashed(log.action, rng) + _hashed(log.reward, rng)
    none = np.zeros(log.n, np.uint64)
    rest: Words = sum([*key, *named], none)
    twice = len(_again(rest + answer))
    what = f"{counted(twice, 'row', ' is', ' are')} equal to an earlier one"
    fine = twice == 0 if log.time is not None else None
    if log.time is None:
        what += " (the log names no `time`, so they may be chance)"
        if log.propensity is not None:
            equal, chance = _like_neighbors(log.propensity, rest, answer)
            fine = equal == 0 or bool(pdtrc(equal - 1, chance) >= _COPIES_RATE)
            what += f"; neighbors by context: {equal:,} are equal, {chance:,.1f} by chance"
    yield Finding(check=Check.REPEATED, value=twice, passed=fine, message=what)
    n = min(log.n, _MOST_CELLS // max(context.shape[1], 1))
    if log.propensity is None or len(set(names)) < 2 or n < 2:
        return
    rest = rest - (none if log.time is None else named[-1])
    worst, where, count = 0.0, "", 0
    for name in dict.fromkeys(names):
        # A column and the indicator of its missing values are left out together.
        own: Words = sum((word for word, of in zip(key, names, strict=True) if of == name), none)
        equal, chance = _like_neighbors(log.propensity[:n], (rest - own)[:n], answer[:n], own)
        z = (equal - chance) / np.sqrt(chance + 1.0)
        if z > worst:
            worst, where, count = z, name, equal
    what = "none found"
    if where:
        what = f"{counted(count, 'neighbor', ' is', ' are')} equal but for column '{where}'"
    subjects = (where,) if where else ()
    yield Finding.at_most(Check.NEAR_COPIES, worst, _COPIES_Z, what, subjects=subjects)


def _like_neighbors(
    propensity: FloatArray, key: Words, answer: Words, differing: Words | None = None
) -> tuple[int, float]:
    """Return how many rows of one key have their neighbor's answer, and how many may by chance."""
    again = _again(key)
    if not len(again):
        return 0, 0.0
    order = np.flatnonzero(again[np.searchsorted(again, key).clip(max=len(again) - 1)] == key)
    order = order[np.argsort(key[order], kind="stable")]
    first, second = order[:-1], order[1:]
    same = key[first] == key[second]
    if differing is not None:
        same &= differing[first] != differing[second]
    equal = (answer[first] == answer[second])[same].sum()
    return int(equal), float(propensity[first][same].sum())


def _again(words: Words) -> Words:
    """Return the words that come again, sorted, each time but the first."""
    ordered = np.sort(words)
    return np.asarray(ordered[1:][ordered[1:] == ordered[:-1]])


def _hashed(values: FloatArray | IntArray, rng: np.random.Generator) -> Words:
    """Return pseudo-random words of values, equal for equal ones: (n,)."""
    words = (np.ascontiguousarray(values, dtype=np.float64) + 0.0).view(np.uint64)
    odd, start = rng.integers(1, 2**63, 2, dtype=np.uint64)
    mixed = (words ^ start) * (odd | np.uint64(1))
    mixed ^= mixed >> np.uint64(29)
    mixed = mixed * np.uint64(0xBF58476D1CE4E5B9)
    return np.asarray(mixed ^ (mixed >> np.uint64(32)))


def coinciding_columns(log: LogData) -> Iterator[Finding]:
    """Find pairs of number columns whose values come again together: rows of one user."""
    if log.unit is not None:
        return
    context, rng = np.asarray(log.context), np.random.default_rng(21)
    columns = []
    whole = np.zeros(log.n, np.uint64)
    for j, name in enumerate(log.context_names):
        whole += _hashed(context[:, j], rng)
        if log.schema.context[j].kind == "categorical" or name in log.context_names[:j]:
            continue
        ordered = np.sort(context[:, j])
        new = ordered[1:] != ordered[:-1]
        if new.sum() < _LEAST_VALUES:
            continue
        # Where no value comes again none does together with another one.
        values = ordered[:0] if new.all() else context[:, j]
        _, code, count = np.unique(values, return_inverse=True, return_counts=True)
        columns.append((name, code.reshape(-1), count))
    contexts = len(np.unique(whole))
    worst, share = 0.0, 0.0
    pair: tuple[str, ...] = ()
    for at, (name, code, count) in enumerate(columns[: _MOST_PAIRS // 4]):
        for other, its, number in columns[at + 1 : at + 1 + _MOST_PAIRS // 4]:
            if not len(code) or not len(its):
                continue
            both = np.unique(code * len(number) + its, return_counts=True)[1]
            pairs = float((both * (both - 1.0)).sum())
            chance = float((count * (count - 1.0)).sum()) * float((number * (number - 1.0)).sum())
            ratio = pairs * log.n * (log.n - 1.0) / max(chance, 1.0) if pairs else 0.0
            again = float(both[both > 1].sum()) / log.n
            # Few contexts that come again hundreds of times are segments.
            few = log.n > _MOST_ROWS_OF_VALUE * len(both)
            # Users have something of the moment beside them; contexts of a pool come again whole.
            pool = contexts < _WHOLE * len(both) and _drawn_anew(both)
            if ratio > _COINCIDE and again > share and not few and not pool:
                worst, share, pair = ratio, again, (name, other)
    what = "no two columns of numbers come again together"
    if pair:
        what = (
            f"{' and '.join(pair)} have both values of another row in {share:.0%} of the rows, "
            f"{worst:,.0f} times as many pairs as by chance"
        )
    yield Finding.at_most(Check.COINCIDING, share, _COINCIDE_SHARE, what, subjects=pair)


def _drawn_anew(count: IntArray) -> bool:
    """Return whether counts are those of contexts drawn again and again from a finite pool.

    These are Poisson's, without the zeros; users have rows of their own number each.
    """
    mean = float(count.mean())
    rate = mean
    for _ in range(30):
        rate = mean * -np.expm1(-rate)
    spread = float(count.var()) / max(mean * (1.0 + rate - mean), 1e-12)
    return _LIKE_CHANCE[0] < spread < _LIKE_CHANCE[1]


def identifiers(log: LogData) -> Iterator[Finding]:
    """Find context columns that tell rows apart instead of describing them."""
    # Categories of identifiers hold their most frequent levels only.
    levels = {one.name: one.levels or 0 for one in log.columns if one.role == "context"}
    found = []
    for j, name in enumerate(log.context_names):
        column, values = log.schema.context[j], np.asarray(log.context)[:, j]
        if column.kind == "categorical":
            different = max(levels.get(name, 0), len(np.unique(values)))
            if different > most_levels(log.n):
                found.append((different, name))
        elif (values == np.round(values)).all() and len(np.unique(values)) == log.n >= 200:
            found.append((log.n, name))
    found.sort(reverse=True)
    what = "no context column tells single rows apart"
    if found:
        what = "; ".join(f"'{name}' has {number:,} different values" for number, name in found[:3])
    names = tuple(name for _, name in found)
    yield Finding.at_most(Check.IDENTIFIER, len(found), 0, what, subjects=names)


def retention(log: LogData) -> Iterator[Finding]:
    """Compare the rows with the number of decisions that were taken, where the user gave it."""
    decisions = None if log.spec is None else log.spec.decisions
    if decisions is None:
        return
    rows = float(log.n if log.weight is None else log.weight.sum())
    what = f"{rows:,.0f} of {decisions:,} decisions are in the log"
    share = rows / decisions
    if share > 1.0:
        msg = f"decisions: {decisions:,} is less than the {rows:,.0f} rows of the log; correct it"
        raise UsageError(msg)
    yield Finding.at_least(Check.RETENTION, share, _LEAST_KEPT, what)


def reward_in_time(log: LogData, unit: IntArray, time: FloatArray) -> Iterator[Finding]:
    """Look for a trend of the rewards, and for newest rows whose rewards are still to come.

    Rewards are taken less what a linear model of context and action says of them, so that a logger
    that learns is no change of the world.

    Parameters
    ----------
    log : the log.
    unit : (n,), codes of units.
    time : (n_units,), the time of each.
    """
    row = np.ones(log.n) if log.weight is None else log.weight
    mass, reward = np.bincount(unit, row), below_one(log.reward)
    residual = np.bincount(unit, row * (reward - _linear(log, reward, row))) / mass
    order = np.argsort(time, kind="stable")
    ordered = residual[order]
    n = len(ordered)
    z = _trend(ordered)
    end, z_drop = _largest_drop(ordered)
    late = z_drop < min(-_DROP_Z, -abs(z))
    # The newest rows are left out until the rest does not fall at its end.
    while late and end >= max(n // 4, 20):
        cut, again = _largest_drop(ordered[:end])
        if again > -_FLAT_Z:
            break
        end = cut
    late &= two_sided(_trend(ordered[:end])) >= _TREND_RATE
    counted = "rows" if log.unit is None else "units"
    yield Finding(
        check=Check.REWARD_DRIFT,
        value=z,
        passed=bool(late or two_sided(z) >= _TREND_RATE),
        message=f"trend of the rewards less a model's: z = {z:.1f}",
    )
    what = "the newest rewards are like those before them"
    if late:
        what = (
            f"the newest {n - end:,} of {n:,} {counted} have smaller rewards than a flat rest "
            f"(z = {z_drop:.1f}): rewards still come, or the world changed"
        )
    yield Finding(
        check=Check.LAST_DRIFT,
        value=z_drop,
        limit=-_DROP_Z,
        passed=not late,
        message=what,
        cure=f"Leave out the newest {n - end:,} {counted}: their rewards may still come.",
    )


def _linear(log: LogData, reward: FloatArray, row: FloatArray) -> FloatArray:
    """Return rewards by a ridge regression on context and shrunken effects of actions: (n,)."""
    table, _ = described(log, np.arange(log.n))
    if table.shape[1]:
        table = table - np.average(table, axis=0, weights=row)
        spread = np.sqrt(np.average(np.square(table), axis=0, weights=row))
        table = table / np.maximum(spread, 1e-12)
    average = float(np.average(reward, weights=row))
    fit = np.full(log.n, average)
    count = np.bincount(log.action, row, minlength=len(log.actions))
    for _ in range(2):
        left = reward - fit
        effect = np.bincount(log.action, row * left, minlength=len(count)) / (count + 10.0)
        fit = fit + effect[log.action]
        if table.shape[1]:
            weighted = table * row[:, None]
            gram = weighted.T @ table + np.eye(table.shape[1])
            fit = fit + table @ np.linalg.solve(gram, weighted.T @ (reward - fit))
    return np.asarray(fit)


def _trend(values: FloatArray) -> float:
    """Return z of the slope of values in their order, with errors that may differ."""
    at = np.arange(len(values)) - (len(values) - 1) / 2
    apart = values - values.mean()
    error = float(np.sqrt(np.square(at * apart).sum()))
    return float(at @ apart) / error if error > 0 else 0.0


def _largest_drop(values: FloatArray) -> tuple[int, float]:
    """Return the cut of the second half after which values are lowest, and its z."""
    worst, place = 0.0, len(values)
    for share in _CUTS:
        cut = int(share * len(values))
        before, after = values[:cut], values[cut:]
        if len(after) < 10:
            continue
        error = np.sqrt(before.var() / len(before) + values.var() / len(after))
        z = float(after.mean() - before.mean()) / error if error > 0 else 0.0
        if z < worst:
            worst, place = z, cut
    return place, worst


def units_of(log: LogData) -> tuple[IntArray, FloatArray]:
    """Return codes of units, and the median time of each: (n,), (n_units,)."""
    unit = np.unique(unit_of(log), return_inverse=True)[1].reshape(-1)
    size = np.bincount(unit)
    times = np.asarray(log.time)
    ordered = times[np.lexsort((times, unit))]
    first = np.cumsum(size) - size
    middle = (ordered[first + (size - 1) // 2] + ordered[first + size // 2]) / 2
    return unit, np.asarray(middle)
