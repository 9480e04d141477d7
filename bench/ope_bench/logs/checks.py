"""Checks of a log: contents, support, propensities, drift and leaks (`Log.check`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import pdtrc

from ope_bench.base.errors import UnavailableError
from ope_bench.contracts.arrays import FloatArray, IntArray, weighted_terms
from ope_bench.contracts.data import Problem
from ope_bench.contracts.embeddings import RowIndex
from ope_bench.contracts.plugins import Estimator, refuse_unused
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import Access, FitCache, View
from ope_bench.logs.finding import Check, Finding, contents_of, findings_table
from ope_bench.logs.log_data import ESTIMATED, LogData
from ope_bench.logs.problem import (
    below_one,
    effective_size,
    problem_of,
    sum_by_unit,
    two_sided,
    unit_of,
)
from ope_bench.logs.recommendation import LEAST_EFFECTIVE_ROWS
from ope_bench.logs.result import Shown
from ope_bench.report.tables import Entry, TableColumn, TextTable, cells
from ope_bench.statistics.paired_tests import holm
from ope_bench.suites.manifest import specs_of
from ope_bench.suites.yaml_document import load_file
from ope_bench.trials.trial import build

LEAST_ESS = 50.0
MOST_UNSUPPORTED = 0.1
_ERROR_RATE = 0.005
_DRIFT_OF_REWARD = 0.01
_IMPLAUSIBLE = 0.03
"""Error rates of all tests but two: drift of the reward, and propensities, whose test seldom uses
its rate up. With them, at most one clean log in twenty has a false alarm."""

_LEAK = 0.99
"""Share of the reward's variance explained by one column above which the column is a leak."""

_MATTERS = 0.02
"""Distance of the mean weight from one that matters."""

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
class LogCheck(Shown):
    """The result of `Log.check`; shown, it is a table.

    Parameters
    ----------
    log : facts of the log.
    findings : the checks.
    estimators : of the default list, for each policy.
    notes : on missing values, and what no log can tell.
    """

    log: dict[str, Any]
    findings: tuple[Finding, ...]
    estimators: tuple[Runnable, ...]
    notes: tuple[str, ...]

    @property
    def failed(self) -> tuple[Finding, ...]:
        """The checks that failed."""
        return tuple(one for one in self.findings if one.passed is False)

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
                cells(target, ", ".join(names), lacks or Entry("can run", style="good"))
                for (target, lacks), names in rows.items()
            ),
        )
        return [findings_table(title, self.findings, self.notes), estimators]

    def contents(self) -> dict[str, Any]:
        """Return log, checks, estimators, notes and exit code."""
        return asdict(self) | contents_of(self.findings) | {"exit_code": 0}


def check_log(log: LogData) -> LogCheck:
    """Check a log; nothing is trained."""
    return LogCheck(
        log=log.facts(),
        findings=findings_of(log),
        estimators=tuple(_runnable(log)),
        notes=(*log.notes, CONFOUNDING),
    )


@np.errstate(over="ignore", invalid="ignore")  # a figure that is not finite passes no limit
def findings_of(log: LogData) -> tuple[Finding, ...]:
    """Return what is in a log and what is wrong with it."""
    parts = (_contents, _support, _propensities, _drift, _leaks)
    return tuple(finding for part in parts for finding in part(log))


def _contents(log: LogData) -> Iterator[Finding]:
    seen = len(np.unique(log.action))
    yield Finding(
        check=Check.UNSEEN,
        value=len(log.actions) - seen,
        message=f"{seen:,} of {len(log.actions):,} actions were logged",
    )
    named = [array for array in (log.unit, log.time) if array is not None]
    row = _first_equal(log.context, log.action, log.reward, *named)
    twice = log.n - len(np.unique(row))
    what = f"{twice:,} rows are equal to an earlier one"
    fine = twice == 0 if log.time is not None else None
    if log.time is None:
        what += " (the log names no `time`, so they may be chance)"
    if log.time is None and log.propensity is not None:
        # The second of two rows of one context has the first one's action by its propensity.
        context = _first_equal(log.context, *named)
        order = np.argsort(context, kind="stable")
        first, second = order[:-1], order[1:]
        chance = float(log.propensity[first][context[first] == context[second]].sum())
        equal = int((row[first] == row[second]).sum())
        fine = equal == 0 or bool(pdtrc(equal - 1, chance) >= _ERROR_RATE)
        what += f"; neighbors by context: {equal:,} are equal, {chance:,.1f} by chance"
    yield Finding(check=Check.REPEATED, value=twice, passed=fine, message=what)
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
            passed=z < 0 or two_sided(z) >= _ERROR_RATE or worth > mass / 1.2,
            message=f"their rewards correlate by {alike:.2f} (z = {z:.1f}): {mass:,.0f} rows of "
            f"{log.n_units:,} units are worth {worth:,.0f}; intervals count units",
        )


def _first_equal(*parts: FloatArray | IntArray) -> IntArray:
    """Return the first row that equals each row of arrays side by side: (n,)."""
    rows = np.column_stack([part.astype(np.float64) for part in parts])
    return RowIndex(rows)(rows)


def _support(log: LogData) -> Iterator[Finding]:
    counted = "rows" if log.unit is None else "units"
    for name, target in log.targets.items():
        mass = target.unsupported_mass(log.action, log.logging, log.weight)
        if mass is not None:
            what = f"{mass:.1%} of the policy is on actions that were never logged"
            yield Finding.at_most(
                Check.SUPPORT, mass, MOST_UNSUPPORTED, what, policy=name, far=True
            )
        weights = log.weights(name)
        if weights is None:
            continue
        ess = effective_size(log, name) or 0.0
        what = (
            f"{ess:,.0f} of {log.n_units:,} {counted} (ipw, ipws; for dr: of the correction term)"
        )
        yield effective_size_finding(ess, what, name)
        terms = weighted_terms(weights, log.weight)
        z = skewed_z(terms - 1.0, unit_of(log))
        mean = float(terms.mean())
        # On long logs a z shows what does not matter.
        close = abs(mean - 1.0) <= _MATTERS
        fine = None if z is None else close or two_sided(z) >= _ERROR_RATE
        if fine is False and mean < 1 and log.propensity is not None:
            # Actions that are played less than once in a log of this length may carry the rest.
            fine = None if log.propensity.min() * log.n < 1 else False
        certainty = ""
        if z is not None:
            certainty = f" (z = {z:.1f})" if np.isfinite(z) else " (all weights are equal)"
        if fine is False:
            certainty += "; wrong propensities, missing support or a few very large weights"
        yield Finding(
            check=Check.MEAN_WEIGHT,
            policy=name,
            value=mean,
            limit=1.0,
            passed=fine,
            message=f"the weights average {mean:.3f}; 1 is right{certainty}",
        )


def effective_size_finding(size: float, message: str, policy: str | None = None) -> Finding:
    """Return the check of an effective sample size."""
    far = size < LEAST_EFFECTIVE_ROWS
    return Finding.at_least(Check.EFFECTIVE_SIZE, size, LEAST_ESS, message, policy=policy, far=far)


def skewed_z(terms: FloatArray, unit: IntArray) -> float | None:
    """Return `johnson_z` of terms that are independent from unit to unit; None for one unit."""
    sums = sum_by_unit(terms, unit)
    k = len(sums)
    if k < 2:
        return None
    mean, deviation = sums.mean(keepdims=True), sums.std(ddof=1, keepdims=True)
    third = ((sums - mean) ** 3).mean(keepdims=True)
    return float(johnson_z(mean, deviation, third, k)[0])


def _propensities(log: LogData) -> Iterator[Finding]:
    """Find actions whose mean of 1{a}/p is above one, with Holm's correction."""
    found = reliability_of(log)
    if found is None:
        return
    wrong = holm(np.array([two_sided(float(z)) for z in found.z])) <= _IMPLAUSIBLE
    # A mean below one is what contexts make in which the action is never or hardly ever chosen.
    wrong &= found.mean > 1.0 + _MATTERS
    bad = [
        (log.actions[action], float(z))
        for action, z in zip(found.action[wrong], found.z[wrong], strict=True)
    ]
    bad.sort(key=lambda one: -abs(one[1]))
    shown = ", ".join(f"{name} (z = {z:.1f})" for name, z in bad[:5])
    what = f"{len(found.action):,} actions with at least {LEAST_ROWS} rows tested"
    if bad:
        what += f"; the mean of 1/p is above 1 for {len(bad)}: {shown}"
    worst = tuple(str(name) for name, _ in bad[:5])
    yield Finding.at_most(Check.PROPENSITIES, len(bad), 0, what, subjects=worst)
    if log.logging is not None:
        given = np.asarray(log.logging[np.arange(log.n), log.action]).reshape(-1)
        apart = int((np.abs(given - log.propensity) > 1e-6).sum())
        what = f"{apart:,} rows have another propensity than the logging policy"
        yield Finding.at_most(Check.LOGGING, apart, 0, what)


def _drift(log: LogData) -> Iterator[Finding]:
    """Compare the first with the second half of the units in time.

    Rows of one unit depend on each other, so a unit counts once, with its means and shares.
    """
    if log.time is None:
        yield Finding(check=Check.DRIFT, message="not checked; add `time: COLUMN`")
        return
    unit = np.unique(unit_of(log), return_inverse=True)[1].reshape(-1)
    size = np.bincount(unit)
    mass = np.bincount(unit, log.weight)
    # The median of each unit's times, by their order within the unit.
    ordered = log.time[np.lexsort((log.time, unit))]
    first = np.cumsum(size) - size
    time = (ordered[first + (size - 1) // 2] + ordered[first + size // 2]) / 2
    late = time > np.median(time)
    if not 1 < late.sum() < len(size) - 1:
        counted = "rows" if log.unit is None else "units"
        message = f"not checked; one half of the time has fewer than two {counted}"
        yield Finding(check=Check.DRIFT, message=message)
        return
    columns: dict[tuple[Check, str | None], FloatArray] = {(Check.REWARD_DRIFT, None): log.reward}
    for j, name in enumerate(log.context_names):
        column = log.schema.context[j]
        if column.kind != "categorical" or len(column.categories) == 2:
            columns.setdefault((Check.CONTEXT_DRIFT, name), log.context[:, j])
    columns[Check.LAST_DRIFT, None] = log.reward
    last = time > np.quantile(time, 0.9)
    halves, z = {}, {}
    for (check, subject), values in columns.items():
        weighted = values if log.weight is None else values * log.weight
        means = np.bincount(unit, weighted) / mass
        is_last = check is Check.LAST_DRIFT
        then = last if is_last else late
        early, later = halves[check, subject] = means[~then], means[then]
        if is_last and (not last.any() or abs(later.mean()) > abs(early.mean())):
            continue  # rewards that have not come yet are missing, zeros
        error = means.std(ddof=1) * np.sqrt(1 / len(early) + 1 / len(later))
        z[check, subject] = float((later.mean() - early.mean()) / error) if error > 0 else 0.0
    # The reward, which comes first, does not pay for the number of columns.
    p = np.array([two_sided(one) for one in z.values()])
    wrong = np.append(p[:1] <= _DRIFT_OF_REWARD, holm(p[1:]) <= _ERROR_RATE)
    for ((check, subject), one), bad in zip(z.items(), wrong, strict=True):
        if bad or check is Check.REWARD_DRIFT:
            early, later = halves[check, subject]
            yield Finding(
                check=check,
                subjects=() if subject is None else (subject,),
                value=one,
                passed=not bad,
                message=f"mean {float(early.mean()):.4g} in the earlier part, "
                f"{float(later.mean()):.4g} in the later one (z = {one:.1f})",
            )
    row = 1.0 if log.weight is None else log.weight
    share = [
        np.bincount(log.action, part[unit] * row / mass[unit], minlength=len(log.actions))
        for part in (~late, late)
    ]
    parts = [one / one.sum() for one in share]
    moved = float(np.abs(parts[0] - parts[1]).sum()) / 2
    total = share[0] + share[1]
    expected = np.array([total * one.sum() / len(size) for one in share])
    kept = total > 0
    statistic = float((np.square(np.array(share) - expected)[:, kept] / expected[:, kept]).sum())
    freedom = max(int(kept.sum()) - 1, 1)
    # The chi-squared distribution of k degrees of freedom has mean k and variance 2k.
    z_share = (statistic - freedom) / np.sqrt(2 * freedom)
    yield Finding(
        check=Check.ACTION_DRIFT,
        value=moved,
        passed=bool(two_sided(max(z_share, 0.0)) >= _ERROR_RATE),
        message=f"{moved:.1%} of the choices moved between actions from the earlier half to the "
        "later one",
    )


def _leaks(log: LogData) -> Iterator[Finding]:
    """Look for a column that determines the reward."""
    row = np.ones(log.n) if log.weight is None else log.weight
    reward = below_one(log.reward)
    average = float(np.average(reward, weights=row))
    total = float(row @ np.square(reward - average))
    if total == 0:
        yield Finding(check=Check.REWARD, value=0.0, passed=False, message="all rewards are equal")
        return
    worst, where = 0.0, ""
    for j, name in enumerate(log.context_names):
        values, code = np.unique(log.context[:, j], return_inverse=True)
        if len(values) <= max(log.n / 10, 1):
            count = np.bincount(code.reshape(-1), row)
            sums = np.bincount(code.reshape(-1), row * reward)
            share = (float((sums**2 / count).sum()) - float(row.sum()) * average**2) / total
        else:
            covariance = np.cov(log.context[:, j], reward, aweights=row)
            share = float(covariance[0, 1] ** 2 / (covariance[0, 0] * covariance[1, 1]))
        if share > worst:
            worst, where = share, name
    what = f"context column '{where}' explains {worst:.1%} of the reward's variance"
    if worst > _LEAK:
        what += "; was it known before the action was chosen?"
    yield Finding.at_most(Check.LEAK, worst, _LEAK, what, subjects=(where,) if where else ())


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
        seed = DataSeed("check", 0, 0)
        view = View(problem, estimator.access, seed=seed, fit_cache=FitCache())
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
    unit = np.unique(unit_of(log), return_inverse=True)[1].reshape(-1)
    row = np.ones(log.n) if log.weight is None else log.weight
    n_actions, size = len(log.actions), np.bincount(unit, row)
    pairs, place = np.unique(unit * n_actions + log.action, return_inverse=True)
    x = np.bincount(place.reshape(-1), row / log.propensity).astype(np.float64)
    action, rows = pairs % n_actions, size[pairs // n_actions]

    def over(values: FloatArray) -> FloatArray:
        total: FloatArray = np.bincount(action, values, minlength=n_actions).astype(np.float64)
        return total

    # Raw moments of t = x - rows over units, x being 0 where an action does not occur.
    k = len(size)
    first = (over(x) - size.sum()) / k
    second = (over(x**2 - 2 * x * rows) + (size**2).sum()) / k
    third = (over(x**3 - 3 * x**2 * rows + 3 * x * rows**2) - (size**3).sum()) / k
    tested = np.flatnonzero(np.bincount(log.action, minlength=n_actions) >= LEAST_ROWS)
    first, second, third = first[tested], second[tested], third[tested]
    variance = np.maximum(second - first**2, 0.0) * k / max(k - 1, 1)
    central = third - 3 * first * second + 2 * first**3
    z = johnson_z(first, np.sqrt(variance), central, k) if k > 1 else np.zeros_like(first)
    mean_size = size.sum() / k
    error = np.sqrt(variance / k) / mean_size
    return Reliability(tested, 1 + first / mean_size, error, z)


def johnson_z(mean: FloatArray, deviation: FloatArray, third: FloatArray, k: int) -> FloatArray:
    """Return means over their standard errors, corrected for skewness.

    The mean of 1/p over few rows is mostly below its expectation, and then looks more certain
    than it is; without the correction rare actions would be called wrong. Equal terms have no
    standard error: z is 0 if their mean is 0 up to `_ROUNDING`, and infinite otherwise.

    Parameters
    ----------
    mean, deviation, third : of k independent terms: means, standard deviations, third central
        moments.

    References
    ----------
    Modified t tests and confidence intervals for asymmetrical populations (Johnson, 1978).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        skewness, scaled = third / deviation**3, mean / deviation
        z: FloatArray = (scaled + skewness / (6 * k) + skewness / 3 * scaled**2) * k**0.5
    z = np.where(deviation > _LEAST_SPREAD * np.abs(mean), z, np.copysign(np.inf, mean))
    return np.where(np.abs(mean) > _ROUNDING, z, 0.0)
