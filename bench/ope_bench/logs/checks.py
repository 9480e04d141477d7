"""Checks of a log: contents, support, propensities, drift and leaks (`Log.check`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ope_bench.base.errors import UnavailableError
from ope_bench.base.units import counted
from ope_bench.contracts.arrays import FloatArray, IntArray, weighted_terms
from ope_bench.contracts.data import Problem
from ope_bench.contracts.plugins import Estimator, refuse_unused
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import Access, FitCache, View
from ope_bench.logs.finding import Check, Finding, contents_of, findings_table, mean_text
from ope_bench.logs.log_data import ESTIMATED, ColumnFact, LogData
from ope_bench.logs.problem import (
    below_one,
    effective_rewarded_rows,
    effective_size,
    problem_of,
    two_sided,
    unit_of,
)
from ope_bench.logs.result import LogResult
from ope_bench.logs.row_faults import (
    coinciding_columns,
    copies,
    identifiers,
    retention,
    reward_in_time,
    units_of,
)
from ope_bench.logs.support import (
    LEAST_USUAL,
    FittedLogger,
    fit_logger,
    unsupported_rows,
)
from ope_bench.report.tables import Cell, TableColumn, TextTable, cells
from ope_bench.statistics.paired_tests import holm
from ope_bench.statistics.unit_errors import standard_error, sum_by_unit
from ope_bench.suites.manifest import specs_of
from ope_bench.suites.yaml_document import load_file
from ope_bench.trials.trial import build

LEAST_ESS, _NO_ANSWER = 30.0, 3.0
"""Effective sample sizes from which there is trust, and below which one or two rows answer."""

SOME_UNSUPPORTED, MOST_UNSUPPORTED = 0.03, 0.1
"""Unsupported mass from which there is no trust, and from which the log cannot answer."""

_ROWS_A_COLUMN = 100
"""Rows for each context column from which missing support is seen without propensities."""

_NOTHING, _SURE, _MOSTLY = 0.001, 0.999, 0.5
"""Mass that is none; propensity of a rule, and the share of such rows that makes a logger one."""

_FAR_ABOVE, _FAR_BELOW, _FAR_Z = 1.2, 0.8, 10.0
"""Mean weights, and their distance in standard errors, beyond which no value is stated."""

_PART_OVER_WEIGHT = 20.0
_PART_RATE, _PART_MATTERS, _PART_ROWS, _MOST_PARTS = 0.002, 0.1, 100, 50
LEAST_REWARDED = 20.0
"""Effective rewarded rows below which there is no trust."""

_ERROR_RATE = 0.003
_IMPLAUSIBLE = 0.005
_DRIFT_RATE = 0.001
"""Error rates of single checks. Together one clean log in twenty has a false alarm at most."""

_MOST_BINS = 200

_LEAK = 0.95
"""Share of the reward's variance explained by one column above which the column is a leak."""

_MATTERS = 0.02
"""Distance of the mean weight from one that matters."""

MOST_ROWS = 50_000
"""Rows of a log on which drift and leaks are checked, drawn by seed."""

LEAST_ROWS = 30
"""Rows of an action below which its propensities are not tested."""

_ROUNDING = 1e-9
"""Distance of a mean from its expectation that is a matter of rounding."""

_LEAST_SPREAD = 1e-6
"""Standard deviation, as a share of the mean, below which terms differ by rounding alone."""


CONFOUNDING = (
    "not testable: if the old policy used information that is missing from the context and "
    "affects the reward, all values here are biased"
)


_PROPENSITIES = {True: "known", False: "unknown", ESTIMATED: ESTIMATED}


@dataclass(frozen=True, kw_only=True)
class Runnable:
    """An estimator's ability to evaluate a policy, and the data that it lacks.

    Parameters
    ----------
    estimator : its id.
    target : name of the policy.
    lacks : what is missing and the line that would give it; empty where it can run.
    """

    estimator: str
    target: str
    lacks: str = ""


@dataclass(frozen=True, kw_only=True, repr=False)
class LogCheck(LogResult):
    """The result of `Log.check`; shown, it is a table.

    Parameters
    ----------
    log : facts of the log.
    findings : the checks.
    estimators : of the default list, for each policy.
    notes : on missing values, and what no log can tell.
    columns : what was understood of each column.
    """

    log: dict[str, Any]
    findings: tuple[Finding, ...]
    estimators: tuple[Runnable, ...]
    notes: tuple[str, ...]
    columns: tuple[ColumnFact, ...] = ()

    def tables(self) -> list[TextTable]:
        """Return a table of the checks and one of the estimators."""
        log = self.log
        title = (
            f"{log['rows']:,} rows | {log['units']:,} units | {log['actions']:,} actions | "
            f"propensities {_PROPENSITIES[log['propensity']]} | "
            f"target: {log['target_form']}"
        )
        rows: dict[tuple[str, str], list[str]] = {}
        for one in self.estimators:
            rows.setdefault((one.target, one.lacks), []).append(one.estimator)
        estimators = TextTable(
            title="estimators of the default list",
            columns=(
                TableColumn(key="target", title="policy", right=False),
                TableColumn(key="estimators", title="estimators", right=False, overflow="fold"),
                TableColumn(key="lacks", title="", right=False, overflow="fold"),
            ),
            rows=tuple(
                cells(target, ", ".join(names), lacks or Cell("can run", style="good"))
                for (target, lacks), names in rows.items()
            ),
        )
        columns = [columns_table(self.columns)] if self.columns else []
        return [*columns, findings_table(title, self.findings, self.notes), estimators]

    def contents(self) -> dict[str, Any]:
        """Return log, checks, estimators, notes and exit code."""
        return asdict(self) | contents_of(self.findings) | {"exit_code": 0}


def columns_table(columns: Sequence[ColumnFact]) -> TextTable:
    """Return a table of what was understood of each column."""

    def span(one: ColumnFact) -> str:
        ends = (f"{one:.6g}" if isinstance(one, float) else one for one in (one.low, one.high))
        return "" if one.low is None else " to ".join(map(str, ends))

    titles = ("column", "role", "type", "levels", "range", "missing", "example")
    return TextTable(
        title="what was understood of the table",
        columns=tuple(
            TableColumn(key=one, title=one, right=one in ("levels", "missing"), overflow="fold")
            for one in titles
        ),
        rows=tuple(
            cells(
                one.name,
                one.role,
                one.type,
                "" if one.levels is None else f"{one.levels:,}",
                span(one),
                f"{one.missing:,}" if one.missing else "",
                one.example,
            )
            for one in columns
        ),
    )


def check_log(log: LogData) -> LogCheck:
    """Check a log; a model of the logged action is fitted to see support in context."""
    return LogCheck(
        log=log.facts(),
        findings=findings_of(log),
        estimators=tuple(_runnable(log)),
        notes=(*log.notes, CONFOUNDING),
        columns=log.columns,
    )


@np.errstate(over="ignore", invalid="ignore")  # a figure that is not finite passes no limit
def findings_of(log: LogData) -> tuple[Finding, ...]:
    """Return what is in a log and what is wrong with it."""
    parts = (
        *(_contents, copies, coinciding_columns, identifiers, retention),
        *(support_findings, _propensities),
    )
    found = [finding for part in parts for finding in part(log)]
    some, said = log, ""
    if log.n > MOST_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(log.n, MOST_ROWS, replace=False))
        some, said = log.part(rows), f" (of {MOST_ROWS:,} rows drawn at random)"
    sampled = [*_drift(some), *_leaks(some)]
    return (*found, *(replace(one, message=one.message + said) for one in sampled))


def _contents(log: LogData) -> Iterator[Finding]:
    seen = len(np.unique(log.action))
    yield Finding(
        check=Check.UNSEEN,
        value=len(log.actions) - seen,
        message=f"{seen:,} of {counted(len(log.actions), 'action')} were logged",
    )
    if log.unit is not None and log.n_units < log.n:
        # Sums over the pairs of rows of one unit: 0 on average where rows are independent.
        weight = np.ones(log.n) if log.weight is None else log.weight
        mass, unit = float(weight.sum()), unit_of(log)
        apart = log.reward - np.average(log.reward, weights=weight)
        square = float(weight @ apart**2)
        terms = sum_by_unit(weight * apart, unit) ** 2 - sum_by_unit(weight * apart**2, unit)
        pairs = float(np.square(sum_by_unit(weight, unit)).sum()) - mass
        alike = float(terms.sum() / (pairs * square / mass or 1.0))
        worth = mass / (1 + max(alike, 0.0) * pairs / mass)
        z = float(terms.sum() / (np.sqrt(np.square(terms).sum()) or 1.0))
        yield Finding(
            check=Check.UNITS,
            value=alike,
            message=f"their rewards correlate by {alike:.2f} (z = {z:.1f}): {mass:,.0f} rows of "
            f"{log.n_units:,} units are worth {worth:,.0f}; intervals count units",
        )


def support_findings(log: LogData, fitted: FittedLogger | None = None) -> Iterator[Finding]:
    """Find what the log says of the policies' choices, and whether the weights average to one.

    Parameters
    ----------
    fitted : the model of the logged action; it is fitted where None is given.
    """
    whose = "rows" if log.unit is None else "units"
    sure = log.propensity is not None and float(
        np.average(log.propensity >= _SURE, weights=log.weight)
    )
    if sure is not False:
        what = f"the propensity is 1 in {sure:.0%} of the rows"
        if sure > _MOSTLY:
            what += ": the logger is a rule, and other choices have no rewards here"
        yield Finding.at_most(Check.EXPLORATION, sure, _MOSTLY, what)
    needs = [name for name, one in log.targets.items() if one.form != "probability"]
    if fitted is None and needs and log.logging is None:
        fitted = fit_logger(log)
    for name in log.targets:
        support = list(_support_of(log, name, fitted))
        yield from support
        weights = log.weights(name)
        if weights is None:
            agreed = log.agreement(name)
            if agreed is not None:
                ess = effective_size(log, name, agreed) or 0.0
                what = f"{ess:,.0f} of {log.n_units:,} {whose} log the new policy's action"
                yield effective_size_finding(ess, what, name)
            continue
        ess = effective_size(log, name) or 0.0
        what = f"{ess:,.0f} of {log.n_units:,} {whose} (ipw, ipws; for dr: of the correction term)"
        yield effective_size_finding(ess, what, name)
        worth = effective_rewarded_rows(log, name) or 0.0
        what = f"the weighted rewards are worth {worth:,.0f} equal ones"
        yield Finding.at_least(Check.REWARDED, worth, LEAST_REWARDED, what, policy=name)
        rule = ": the logger is a rule" if sure > _MOSTLY else ""
        lacks = f" of the new policy's decisions were never logged in such contexts{rule}. "
        yield from _mean_weight(log, name, weights, lacks + support[-1].first_action)


def _support_of(log: LogData, name: str, fitted: FittedLogger | None) -> Iterator[Finding]:
    """Find how much of a policy the log does not support, and in which contexts."""
    target, weights = log.targets[name], log.weights(name)
    if weights is None:
        weights = log.agreement(name)
    never = target.unsupported_mass(log.action, log.logging, log.weight)
    mass, what, cure = 0.0, "", ""
    if weights is not None:
        terms = weighted_terms(weights, log.weight)
        error = standard_error(terms, unit_of(log)) or math.inf
        mass = max(0.0, 1.0 - float(terms.mean()) - 3.0 * error)
        what = f"{mass:.1%} of the policy, by the mean weight, is on actions hardly ever logged"
    # Chance alone leaves rare actions unlogged; propensities know them, and weights the rest.
    counts = weights is None or log.logging is not None
    if counts and never is not None and never >= mass:
        mass, what = never, f"{never:.1%} of the policy is on actions that were never logged"
    clear = mass
    if fitted is not None and target.form != "probability":
        known = mass if mass > SOME_UNSUPPORTED else 0.0
        found = unsupported_rows(log, name, fitted, weights, known)
        clear = max(clear, found.clear)
        if found.mass > mass:
            mass = found.mass
            what = (
                f"{mass:.1%} of the policy: {found.matches:,} of {len(found.rows):,} such choices "
                f"were logged, {found.usual:,.0f} would be usual"
            )
        if found.sentence:
            what += f". {found.sentence}"
            cure = f"{found.sentence}. Log such choices there."
            if weights is None and found.matches:
                what += ". If the logger explores, give its propensities"
        if weights is None:
            few = f"{found.findable:,.0f} logged rows would match a tenth of the policy by chance"
            # In fewer rows no model sees a rule of several of so many columns.
            width = len(set(log.context_names))
            worth = min(found.findable, LEAST_USUAL * log.n / (_ROWS_A_COLUMN * width))
            if worth < min(found.findable, LEAST_USUAL):
                few += f"; {width} context columns need {_ROWS_A_COLUMN * width:,} rows"
            yield Finding.at_least(Check.SUPPORT_SIZE, worth, LEAST_USUAL, few, policy=name)
    elif weights is None and never is None:
        yield Finding(
            check=Check.SUPPORT, policy=name, passed=False, far=True,
            limit=SOME_UNSUPPORTED, message="unknown",
        )  # fmt: skip
        return
    elif weights is None:
        yield Finding(
            check=Check.SUPPORT_SIZE, policy=name, passed=False, limit=LEAST_USUAL,
            message="the log has too few different contexts or actions to see support",
        )  # fmt: skip
    if mass > SOME_UNSUPPORTED and (share := _holdout(log)):
        what += (
            f"; in {share:.0%} of the rows the propensity is 1 though their actions have smaller "
            "ones in other rows: a holdout that always gets the same?"
        )
        cure = (
            "Leave out the rows of propensity 1 (a holdout?), or give the probabilities over all "
            "rows together."
        )
    if mass < _NOTHING:
        what = "no part of the policy without support was found"
    yield Finding.at_most(
        Check.SUPPORT, mass, SOME_UNSUPPORTED, what,
        policy=name, far=clear > MOST_UNSUPPORTED, cure=cure,
    )  # fmt: skip


def _holdout(log: LogData) -> float:
    """Return the share of rows of propensity 1 whose actions have smaller ones elsewhere."""
    if log.propensity is None:
        return 0.0
    sure = log.propensity == 1
    others = np.bincount(log.action[~sure], minlength=len(log.actions))
    found = sure & (others[log.action] >= LEAST_ROWS)
    share = float(np.average(found, weights=log.weight))
    return share if found.sum() >= LEAST_ROWS and sure.mean() <= _MOSTLY else 0.0


def _mean_weight(log: LogData, name: str, weights: FloatArray, lacks: str) -> Iterator[Finding]:
    """Compare the mean weight with 1: of all rows, of parts of the time, of levels of contexts.

    Parameters
    ----------
    lacks : what to say of the share of decisions that are not logged.
    """
    terms = weighted_terms(weights, log.weight)
    z = skewed_z(terms - 1.0, unit_of(log))
    mean = float(terms.mean())
    # On long logs a z shows what does not matter.
    close = abs(mean - 1.0) <= _MATTERS
    fine = None if z is None else close or two_sided(z) >= _ERROR_RATE
    least = 0.0 if log.propensity is None else float(log.propensity.min())
    if fine is False and mean < 1 and least * log.n < 1:
        # Actions that are played less than once in a log of this length may carry the rest.
        fine = None
    above = z is not None and mean > _FAR_ABOVE and z > _FAR_Z
    below = z is not None and mean < _FAR_BELOW and z < -_FAR_Z
    what = f"the weights average {mean_text(mean)}; 1 is right"
    if z is not None:
        what += f" (z = {z:.1f})" if np.isfinite(z) else " (all weights are equal)"
    cure = ""
    if above:
        asked = old = "`propensity`" if log.spec is None else f"`{log.spec.propensity}`"
        swapped = ""
        if log.targets[name].form == "probability":
            # A policy that is given for all actions cannot be another column.
            given = log.spec and log.spec.targets.get(name)
            column = getattr(given, "probability", None)
            asked = f"`{column}`" if isinstance(column, str) else "the new policy's probability"
            swapped = f"; are {old} and {asked} swapped"
        what = f"the weights average {mean:.3g} instead of 1"
        cure = f"T{what[1:]}: is {asked} the probability of the *logged* action{swapped}?"
        actions, small = _too_small(log)
        if 0 < len(small) <= actions / 2:
            named = " and ".join(name for name, _ in small[:2])
            cure += f" The propensities of {named} are too small."
    elif below:
        cure = f"{1 - mean:.0%}{lacks}"
    elif fine is False:
        what += "; wrong propensities, missing support or a few very large weights"
    yield Finding(
        check=Check.MEAN_WEIGHT,
        policy=name,
        value=mean,
        limit=1.0,
        passed=False if above or below else fine,
        message=what,
        withholds=above or below,
        cure=cure,
    )
    tested = []
    for part, rows in _parts(log):
        # Few rows lack those of the largest weights, and no z knows it.
        if len(rows) >= max(_PART_ROWS, _PART_OVER_WEIGHT * float(terms.max())):
            z = skewed_z(terms[rows] - 1.0, None if log.unit is None else log.unit[rows])
            tested += [] if z is None else [(part, float(terms[rows].mean()), z)]
    if not tested:
        return
    wrong = holm(np.array([two_sided(z) for _, _, z in tested])) <= _PART_RATE
    bad = [
        one
        for one, flag in zip(tested, wrong, strict=True)
        # Below 1 a part may lack the rows of its largest weights.
        if flag and abs(one[1] - 1.0) > _PART_MATTERS and (one[1] > 1.0 or least * log.n >= 1)
    ]
    bad.sort(key=lambda one: -abs(one[2]))
    shown = ", ".join(f"{one:.2f} for {part} (z = {z:.1f})" for part, one, z in bad[:3])
    yield Finding.at_most(
        Check.WEIGHT_PARTS,
        len(bad),
        0,
        f"{counted(len(tested), 'part')} by time and context tested"
        + (f"; the weights average {shown} instead of 1" if bad else ""),
        policy=name,
        subjects=tuple(part for part, _, _ in bad[:3]),
    )


def _parts(log: LogData) -> Iterator[tuple[str, IntArray]]:
    """Yield tenths of the time, and levels or quarters of each context column, as rows."""
    if log.time is not None:
        order = np.argsort(log.time, kind="stable")
        for tenth, rows in enumerate(np.array_split(order, 10)):
            yield f"tenth {tenth + 1} of the time", rows
    for j, name in enumerate(log.context_names):
        if name in log.context_names[:j]:
            continue
        values = np.asarray(log.context)[:, j]
        if log.schema.context[j].kind == "categorical":
            levels = np.unique(values)[:_MOST_PARTS]
            for level in levels:
                where = f"rows where {log.condition(name, float(level))}"
                yield where, np.flatnonzero(values == level)
        else:
            ends = np.unique(np.quantile(values, [0.25, 0.5, 0.75]))
            # As np.searchsorted does, in a fifth of the time.
            part = sum((values > end).astype(np.int8) for end in ends)
            for quarter in range(len(ends) + 1):
                yield f"part {quarter + 1} of {name}", np.flatnonzero(part == quarter)


def effective_size_finding(size: float, message: str, policy: str | None = None) -> Finding:
    """Return the check of an effective sample size."""
    far = size < _NO_ANSWER
    return Finding.at_least(Check.EFFECTIVE_SIZE, size, LEAST_ESS, message, policy=policy, far=far)


def skewed_z(terms: FloatArray, unit: IntArray | None) -> float | None:
    """Return `hall_z` of terms that are independent from unit to unit; None for one unit.

    Parameters
    ----------
    unit : of each term; None where each is a unit.
    """
    sums = terms if unit is None else sum_by_unit(terms, unit)
    k = len(sums)
    if k < 2:
        return None
    mean, deviation = sums.mean(keepdims=True), sums.std(ddof=1, keepdims=True)
    third = ((sums - mean) ** 3).mean(keepdims=True)
    return float(hall_z(mean, deviation, third, k)[0])


def _propensities(log: LogData) -> Iterator[Finding]:
    """Find propensities that are too small, and those that are not the logging policy's."""
    if log.propensity is None:
        return
    tested, bad = _too_small(log)
    shown = ", ".join(f"{name} (z = {z:.1f})" for name, z in bad[:5])
    what = f"{counted(tested, 'action')} with at least {LEAST_ROWS} rows tested"
    if bad:
        what += f"; the mean of 1/p is above 1 for {len(bad)}: {shown}"
    worst = tuple(str(name) for name, _ in bad[:5])
    yield Finding.at_most(Check.PROPENSITIES, len(bad), 0, what, subjects=worst)
    if log.logging is not None:
        given = np.asarray(log.logging[np.arange(log.n), log.action]).reshape(-1)
        apart = int((np.abs(given - log.propensity) > 1e-6).sum())
        what = (
            f"{counted(apart, 'row', ' has', ' have')} another propensity than the logging policy"
        )
        yield Finding.at_most(Check.LOGGING, apart, 0, what)


def _too_small(log: LogData) -> tuple[int, list[tuple[str, float]]]:
    """Return how many actions were tested, and those whose mean of 1{a}/p is above one with z."""
    found = reliability_of(log)
    assert found is not None  # noqa: S101  # the callers ask where there are propensities
    wrong = holm(np.array([two_sided(float(z)) for z in found.z])) <= _IMPLAUSIBLE
    # A mean below one is what contexts make in which the action is never or hardly ever chosen.
    wrong &= found.mean > 1.0 + _MATTERS
    bad = [
        (log.actions[action], float(z))
        for action, z in zip(found.action[wrong], found.z[wrong], strict=True)
    ]
    return len(found.action), sorted(bad, key=lambda one: -abs(one[1]))


def _drift(log: LogData) -> Iterator[Finding]:
    """Look for changes of rewards, contexts and the logger's propensities over time.

    Rows of one unit depend on each other, so a unit counts once, with its means.
    """
    if log.time is None:
        yield Finding(check=Check.DRIFT, message="not checked; add `time: COLUMN`")
        return
    unit, time = units_of(log)
    late = time > np.median(time)
    if not 1 < late.sum() < len(time) - 1:
        whose = "rows" if log.unit is None else "units"
        message = f"not checked; one half of the time has fewer than two {whose}"
        yield Finding(check=Check.DRIFT, message=message)
        return
    yield from reward_in_time(log, unit, time)
    mass, z, said = np.bincount(unit, log.weight), {}, {}
    for j, name in enumerate(log.context_names):
        column = log.schema.context[j]
        if name in z or (column.kind == "categorical" and len(column.categories) != 2):
            continue
        values = np.asarray(log.context)[:, j]
        means = np.bincount(unit, values if log.weight is None else values * log.weight) / mass
        early, later = float(means[~late].mean()), float(means[late].mean())
        error = means.std(ddof=1) * np.sqrt(1 / late.sum() + 1 / (~late).sum())
        z[name] = float((later - early) / error) if error > 0 else 0.0
        said[name] = f"mean {early:.4g} in the earlier part, {later:.4g} in the later one"
    wrong = holm(np.array([two_sided(one) for one in z.values()])) <= _DRIFT_RATE
    for (name, one), bad in zip(z.items(), wrong, strict=True):
        if bad:
            what, subjects = f"{said[name]} (z = {one:.1f})", (name,)
            yield Finding(
                check=Check.CONTEXT_DRIFT, subjects=subjects, value=one, passed=False, message=what
            )
    yield _drift_of_actions(log, late[unit])


def _drift_of_actions(log: LogData, late: np.ndarray[Any, np.dtype[np.bool_]]) -> Finding:
    """Compare the mean of 1{a}/p with 1 in each half: a logger that learns is no fault."""
    row = np.ones(log.n) if log.weight is None else log.weight
    parts = [
        np.bincount(log.action[part], row[part], minlength=len(log.actions)) / row[part].sum()
        for part in (~late, late)
    ]
    moved = float(np.abs(parts[0] - parts[1]).sum()) / 2
    what = (
        f"{moved:.1%} of the choices moved between actions from the earlier half to the later one"
    )
    if log.propensity is None:
        return Finding(check=Check.ACTION_DRIFT, value=moved, message=what)
    found = [reliability_of(log.part(np.flatnonzero(part))) for part in (~late, late)]
    known = [one for one in found if one is not None]
    z = np.concatenate([one.z for one in known])
    mean = np.concatenate([one.mean for one in known])
    wrong = holm(np.array([two_sided(float(one)) for one in z])) <= _DRIFT_RATE
    wrong &= mean > 1.0 + _MATTERS
    if wrong.any():
        told = counted(int(wrong.sum()), "action")
        what += f"; in one half {told} came more often than p says"
    else:
        what += ", and the propensities with them"
    return Finding(check=Check.ACTION_DRIFT, value=moved, passed=not wrong.any(), message=what)


def _leaks(log: LogData) -> Iterator[Finding]:
    """Look for a column that determines the reward."""
    row = np.ones(log.n) if log.weight is None else log.weight
    reward = below_one(log.reward)
    reward = reward - np.average(reward, weights=row)
    total = float(row @ np.square(reward))
    if total == 0:
        yield Finding(check=Check.REWARD, value=0.0, passed=False, message="all rewards are equal")
        return
    worst, where = 0.0, ""
    for j, name in enumerate(log.context_names):
        values, code = np.unique(log.context[:, j], return_inverse=True)
        code = code.reshape(-1)
        if len(values) > max(log.n / 10, 1):
            # Means of bins with equally many values.
            code = code * min(_MOST_BINS, log.n // 30 + 1) // len(values)
        count = np.bincount(code, row)
        sums = np.bincount(code, row * reward)[count > 0]
        share = float((sums**2 / count[count > 0]).sum()) / total
        if share > worst:
            worst, where = share, name
    what = f"context column '{where}' explains {worst:.1%} of the reward's variance"
    if worst > _LEAK:
        what += "; was it known before the action was chosen?"
    cure = f"Leave out the column '{where}' that was known only after the reward."
    yield Finding.at_most(
        Check.LEAK, worst, _LEAK, what, subjects=(where,) * bool(where), cure=cure
    )


def default_estimators(
    rows: int, *, predictions: bool = False
) -> tuple[list[str], list[str], int]:
    """Return the selectors of the estimators that run where none is named.

    Also returned are those that run on a part of so many rows, being slow, and its size.

    Parameters
    ----------
    rows : of the log.
    predictions : whether the log has predicted rewards.
    """
    listed = load_file(Path(__file__).with_name("estimators.yaml")).value
    slow = listed["slow"] if rows > listed["slow_rows"] else []
    fast = [one for one in listed["estimators"] if one not in slow]
    fast += listed["given"] if predictions else []
    return fast, slow, listed["slow_rows"]


def what_lacks(problem: Problem, form: str, estimator: Estimator) -> str:
    """Return what a listed estimator lacks to run on a problem, empty where it can run.

    Parameters
    ----------
    form : in which the target policy was given.
    """
    try:
        refuse_unused(estimator, problem)
        asked = estimator.access & ~estimator.optional_access
        view = View(problem, asked, seed=DataSeed("check", 0, 0), fit_cache=FitCache())
        if Access.TARGET_POLICY not in estimator.access:
            _ = view.target_action
        elif form == "probability" and hasattr(estimator, "regressor"):
            # A reward model needs sums over actions.
            view.target_policy.expect(view.context[:1], lambda x, a: np.zeros(len(a)))
    except UnavailableError as exc:
        return str(exc)
    return ""


def _runnable(log: LogData) -> Iterator[Runnable]:
    """Yield for each policy and default estimator that it can run, or the data that it lacks."""
    default, slow, _ = default_estimators(log.n, predictions=log.predicted_reward is not None)
    specs = [spec for selector in (*default, *slow) for spec in specs_of("estimator", selector)]
    for name in log.targets:
        problem = problem_of(log, name, np.random.default_rng(0))
        for spec in specs:
            estimator = build(spec)
            if log.estimated_propensity and hasattr(estimator, "propensity"):
                estimator.set_params(propensity=ESTIMATED)
            lacks = what_lacks(problem, log.targets[name].form, estimator)
            yield Runnable(estimator=spec.id, target=name, lacks=lacks)


# Reliability of propensities: for each action the mean of 1{a}/p, in expectation one.


@dataclass(frozen=True, eq=False)
class Reliability:
    """The mean of 1{a}/p over all rows, for actions with at least `LEAST_ROWS` of their own.

    Parameters
    ----------
    action : (k,), codes.
    mean : (k,), in expectation one.
    error : (k,), its standard error, by unit.
    z : (k,), of its distance from one, corrected for skewness; 0 where there is one unit only.
    """

    action: IntArray
    mean: FloatArray
    error: FloatArray
    z: FloatArray


def reliability_of(log: LogData) -> Reliability | None:
    """Compute the reliability of a log's propensities, None where it has none.

    One pass over the rows, however many actions there are: moments of sums by unit are sums over
    the pairs of unit and action that occur.
    """
    if log.propensity is None:
        return None
    row = np.ones(log.n) if log.weight is None else log.weight
    n_actions, unit = len(log.actions), unit_of(log)
    size = np.bincount(unit, row)
    shape = (len(size), n_actions)
    table = sparse.csr_array((row / log.propensity, (unit, log.action)), shape=shape)
    x, action, rows = table.data, table.indices, np.repeat(size, np.diff(table.indptr))

    def over(values: FloatArray) -> FloatArray:
        total: FloatArray = np.bincount(action, values, minlength=n_actions).astype(np.float64)
        return total

    # Raw moments of t = x - rows over units, x being 0 where an action does not occur.
    k = int((size > 0).sum())
    first = (over(x) - size.sum()) / k
    second = (over(x**2 - 2 * x * rows) + (size**2).sum()) / k
    third = (over(x**3 - 3 * x**2 * rows + 3 * x * rows**2) - (size**3).sum()) / k
    tested = np.flatnonzero(np.bincount(log.action, minlength=n_actions) >= LEAST_ROWS)
    first, second, third = first[tested], second[tested], third[tested]
    variance = np.maximum(second - first**2, 0.0) * k / max(k - 1, 1)
    central = third - 3 * first * second + 2 * first**3
    z = hall_z(first, np.sqrt(variance), central, k) if k > 1 else np.zeros_like(first)
    mean_size = size.sum() / k
    error = np.sqrt(variance / k) / mean_size
    return Reliability(tested, 1 + first / mean_size, error, z)


def hall_z(mean: FloatArray, deviation: FloatArray, third: FloatArray, k: int) -> FloatArray:
    """Return means over their standard errors, corrected for skewness.

    The mean of 1/p over few rows is mostly below its expectation, and then looks more certain
    than it is; without the correction rare actions would be called wrong. The last term lets z
    grow with the mean: without it means far below 0 get a z far above it. Equal terms have no
    standard error: z is 0 if their mean is 0 up to `_ROUNDING`, and infinite otherwise.

    Parameters
    ----------
    mean, deviation, third : of k independent terms: means, standard deviations, third central
        moments.

    References
    ----------
    On the removal of skewness by transformation (Hall, 1992).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        skewness, scaled = third / deviation**3, mean / deviation
        bent = skewness / 3 * scaled**2 + skewness**2 / 27 * scaled**3
        z: FloatArray = (scaled + skewness / (6 * k) + bent) * k**0.5
    z = np.where(deviation > _LEAST_SPREAD * np.abs(mean), z, np.copysign(np.inf, mean))
    return np.where(np.abs(mean) > _ROUNDING, z, 0.0)
