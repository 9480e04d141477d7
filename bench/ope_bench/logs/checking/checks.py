"""What is in a log and what is wrong with it: `Log.check`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ope_bench.canonical import plain
from ope_bench.contracts.access import Access
from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.estimator import Estimator
from ope_bench.contracts.fit_cache import FitCache
from ope_bench.contracts.random.seeding import DataSeed
from ope_bench.contracts.view import View
from ope_bench.errors import UnavailableError
from ope_bench.logs.checking.check_tables import check_tables
from ope_bench.logs.checking.findings import Finding, Runnable
from ope_bench.logs.checking.reliability import LEAST_ROWS, johnson_z, reliability_of
from ope_bench.logs.estimation import CONFOUNDING, default_estimators
from ope_bench.logs.paired import two_sided
from ope_bench.logs.problem import problem_of, unit_of
from ope_bench.logs.reading.log_data import LogData
from ope_bench.report.text.renderers.terminal import render_text
from ope_bench.report.text.table import Table
from ope_bench.suites.manifest import settings
from ope_bench.trials.building import build

__all__ = ["LEAST_ESS", "MOST_UNSUPPORTED", "LogCheck", "check_log", "skewed_z"]

LEAST_ESS = 50.0
MOST_UNSUPPORTED = 0.1
ERROR_RATE = 0.05
LEAK = 0.99
"""Share of the reward's variance explained by one column above which the column is a leak."""


@dataclass(frozen=True, kw_only=True)
class LogCheck:
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

    def tables(self) -> list[Table]:
        """Return a table of the checks and one of the estimators."""
        return check_tables(self.log, self.findings, self.estimators, self.notes)

    def as_json(self) -> dict[str, Any]:
        """Return the document of ``ope-bench log check --format json``."""
        document: dict[str, Any] = plain(
            {
                "schema": 1,
                "log": self.log,
                "checks": [asdict(one) for one in self.findings],
                "estimators": [asdict(one) for one in self.estimators],
                "notes": list(self.notes),
                "exit_code": 0,
            }
        )
        return document

    def __repr__(self) -> str:
        return "\n\n".join(render_text(table).rstrip() for table in self.tables())


def check_log(log: LogData) -> LogCheck:
    """Check a log; nothing is trained."""
    findings = [
        *_contents(log),
        *_support(log),
        *_propensities(log),
        *_drift(log),
        *_leaks(log),
    ]
    return LogCheck(
        log=log.facts(),
        findings=tuple(findings),
        estimators=tuple(_runnable(log)),
        notes=(*log.notes, CONFOUNDING),
    )


def _contents(log: LogData) -> Iterator[Finding]:
    seen = len(np.unique(log.action))
    yield Finding(
        name="actions never logged",
        value=len(log.actions) - seen,
        message=f"{seen:,} of {len(log.actions):,} actions were logged",
    )
    parts = [log.context, log.action[:, None], log.reward[:, None]]
    parts += [array[:, None] for array in (log.unit, log.time) if array is not None]
    rows = np.ascontiguousarray(np.hstack(parts))
    width = rows.dtype.itemsize * rows.shape[1]
    distinct = len(np.unique(rows.view(np.dtype((np.void, width)))))
    twice = log.n - distinct
    time = "" if log.time is not None else " (the log names no `time`, so they may be chance)"
    yield Finding(
        name="repeated rows",
        value=twice,
        limit=0 if log.time is not None else None,
        passed=twice == 0 if log.time is not None else None,
        message=f"{twice:,} rows are equal to an earlier one{time}",
    )


def _support(log: LogData) -> Iterator[Finding]:
    for name, target in log.targets.items():
        mass = target.unsupported_mass(log.action, log.logging)
        if mass is not None:
            yield Finding(
                name=f"{name}: unsupported mass",
                value=mass,
                limit=MOST_UNSUPPORTED,
                passed=mass <= MOST_UNSUPPORTED,
                message=f"{mass:.1%} of the policy is on actions that the log cannot speak of",
            )
        weights = log.weights(name)
        if weights is None:
            continue
        sums = _sum_by_unit(weights, unit_of(log))
        squares = float(np.square(sums).sum())
        ess = float(sums.sum()) ** 2 / squares if squares > 0 else 0.0
        what = _counted(log)
        yield Finding(
            name=f"{name}: effective sample size",
            value=ess,
            limit=LEAST_ESS,
            passed=ess >= LEAST_ESS,
            message=f"the weights of {len(sums):,} {what} are worth {ess:,.0f} {what} "
            "(ipw and its kin; doubly robust ones for the residuals)",
        )
        yield _mean_weight(log, name, weights)


def _mean_weight(log: LogData, name: str, weights: FloatArray) -> Finding:
    z = skewed_z(weights - 1.0, unit_of(log))
    mean = float(weights.mean())
    fine = None if z is None else two_sided(z) >= ERROR_RATE
    cure = "; wrong propensities, missing support or a few very large weights"
    if z is None:
        certainty = ""
    else:
        certainty = f" (z = {z:.1f})" if np.isfinite(z) else " (all weights are equal)"
    return Finding(
        name=f"{name}: mean weight",
        value=mean,
        limit=1.0,
        passed=fine,
        message=f"the weights average {mean:.3f}; 1 is right"
        f"{certainty}{cure if fine is False else ''}",
    )


def skewed_z(terms: FloatArray, unit: IntArray) -> float | None:
    """Return `johnson_z` of terms that are independent from unit to unit; None for one unit."""
    sums = _sum_by_unit(terms, unit)
    k = len(sums)
    if k < 2:
        return None
    mean, deviation = sums.mean(keepdims=True), sums.std(ddof=1, keepdims=True)
    third = ((sums - mean) ** 3).mean(keepdims=True)
    return float(johnson_z(mean, deviation, third, k)[0])


def _counted(log: LogData) -> str:
    return "rows" if log.unit is None else "units"


def _sum_by_unit(values: FloatArray, unit: IntArray) -> FloatArray:
    row = np.unique(unit, return_inverse=True)[1].reshape(-1)
    return np.bincount(row, values).astype(np.float64)


def _propensities(log: LogData) -> Iterator[Finding]:
    """Compare the mean of 1{a}/p with one for each action, with Holm's correction."""
    found = reliability_of(log)
    if found is None:
        return
    wrong = _holm([two_sided(float(z)) for z in found.z])
    bad = [
        (log.actions[action], float(z))
        for action, z, one in zip(found.action, found.z, wrong, strict=True)
        if one
    ]
    bad.sort(key=lambda one: -abs(one[1]))
    shown = ", ".join(f"{name} (z = {z:.1f})" for name, z in bad[:5])
    what = f"{len(found.action):,} actions with at least {LEAST_ROWS} rows tested"
    if bad:
        what += f"; the mean of 1/p is not 1 for {len(bad)}: {shown}"
    yield Finding(
        name="propensities that cannot be",
        value=len(bad),
        limit=0,
        passed=not bad,
        message=what,
    )
    if log.logging is not None:
        given = np.asarray(log.logging[np.arange(log.n), log.action]).reshape(-1)
        apart = np.abs(given - log.propensity) > 1e-6
        yield Finding(
            name="propensity against `logging`",
            value=int(apart.sum()),
            limit=0,
            passed=not apart.any(),
            message=f"{int(apart.sum()):,} rows have another propensity than the logging policy",
        )


def _holm(p: list[float]) -> list[bool]:
    """Return which hypotheses Holm's procedure rejects."""
    rejected = [False] * len(p)
    for step, index in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        if p[index] > ERROR_RATE / (len(p) - step):
            break
        rejected[index] = True
    return rejected


def _drift(log: LogData) -> Iterator[Finding]:
    """Compare the first with the second half of the units in time.

    Rows of one unit depend on each other, so a unit counts once, with its means and shares.
    """
    if log.time is None:
        yield Finding(name="drift", message="not checked; add `time: COLUMN`")
        return
    unit = np.unique(unit_of(log), return_inverse=True)[1].reshape(-1)
    size = np.bincount(unit)
    time = _median_by_unit(log.time, unit)
    late = time > np.median(time)
    if not 1 < late.sum() < len(size) - 1:
        message = f"not checked; one half of the time has fewer than two {_counted(log)}"
        yield Finding(name="drift", message=message)
        return
    columns = {"reward": log.reward}
    for j, name in enumerate(log.context_names):
        column = log.schema.context[j]
        if column.kind != "categorical" or len(column.categories) == 2:
            columns.setdefault(f"context {name}", log.context[:, j])
    means = {name: np.bincount(unit, values) / size for name, values in columns.items()}
    z = {name: _difference_z(values, late) for name, values in means.items()}
    wrong = _holm([two_sided(one) for one in z.values()])
    for (name, one), bad in zip(z.items(), wrong, strict=True):
        if bad or name == "reward":
            mean = [float(means[name][part].mean()) for part in (~late, late)]
            yield Finding(
                name=f"drift of {name}",
                value=one,
                passed=not bad,
                message=f"mean {mean[0]:.4g} in the earlier half, {mean[1]:.4g} in the later one "
                f"(z = {one:.1f})",
            )
    share = [
        np.bincount(log.action, part[unit] / size[unit], minlength=len(log.actions))
        for part in (~late, late)
    ]
    parts = [one / one.sum() for one in share]
    moved = float(np.abs(parts[0] - parts[1]).sum()) / 2
    total = share[0] + share[1]
    expected = np.array([total * one.sum() / len(size) for one in share])
    kept = total > 0
    statistic = float((np.square(np.array(share) - expected)[:, kept] / expected[:, kept]).sum())
    freedom = max(int(kept.sum()) - 1, 1)
    z_share = (statistic - freedom) / np.sqrt(2 * freedom)
    yield Finding(
        name="drift of actions",
        value=moved,
        passed=bool(two_sided(max(z_share, 0.0)) >= ERROR_RATE),
        message=f"{moved:.1%} of the choices moved between actions from the earlier half to the "
        "later one",
    )


def _median_by_unit(values: IntArray, unit: IntArray) -> FloatArray:
    """Return the median of each unit's values; units are numbered from 0: (n_units,)."""
    values = values[np.lexsort((values, unit))]
    size = np.bincount(unit)
    first = np.cumsum(size) - size
    medians: FloatArray = (values[first + (size - 1) // 2] + values[first + size // 2]) / 2
    return medians


def _difference_z(values: FloatArray, late: np.ndarray[Any, np.dtype[np.bool_]]) -> float:
    first, second = values[~late], values[late]
    error = np.sqrt(first.var(ddof=1) / len(first) + second.var(ddof=1) / len(second))
    return float((second.mean() - first.mean()) / error) if error > 0 else 0.0


def _leaks(log: LogData) -> Iterator[Finding]:
    """Look for a column that determines the reward."""
    total = float(np.square(log.reward - log.reward.mean()).sum())
    if total == 0:
        yield Finding(name="reward", value=0.0, passed=False, message="all rewards are equal")
        return
    worst, where = 0.0, ""
    for j, name in enumerate(log.context_names):
        values, code = np.unique(log.context[:, j], return_inverse=True)
        if len(values) <= log.n / 10:
            count = np.bincount(code.reshape(-1))
            sums = np.bincount(code.reshape(-1), log.reward)
            share = (float((sums**2 / count).sum()) - log.n * log.reward.mean() ** 2) / total
        else:
            share = float(np.corrcoef(log.context[:, j], log.reward)[0, 1]) ** 2
        if share > worst:
            worst, where = share, name
    fine = bool(worst <= LEAK)
    yield Finding(
        name="leaks",
        value=worst,
        limit=LEAK,
        passed=fine,
        message=f"context column '{where}' explains {worst:.1%} of the reward's variance"
        + ("" if fine else "; was it known before the action was chosen?"),
    )


def _runnable(log: LogData) -> Iterator[Runnable]:
    """Say for each default estimator what a view of each policy's problem lacks."""
    default, slow = default_estimators(log.n)
    specs = [spec for selector in (*default, *slow) for spec in settings("estimator", selector)]
    for name in log.targets:
        problem = problem_of(log, name, np.random.default_rng(0))
        for spec in specs:
            estimator: Estimator = build(spec)
            lacks = ""
            try:
                view = View(
                    problem, estimator.access, seed=DataSeed("check", 0, 0), fit_cache=FitCache()
                )
                if Access.TARGET_POLICY not in estimator.access:
                    _ = view.target_action
                elif log.targets[name].form == "probability":
                    _ask(estimator, view)
            except UnavailableError as exc:
                lacks = str(exc)
            yield Runnable(estimator=spec.id, target=name, lacks=lacks)


def _ask(estimator: Estimator, view: View) -> None:
    """Ask for sums over actions, which estimators with a reward model need."""
    if hasattr(estimator, "regressor"):
        view.target_policy.expect(view.context[:1], lambda context, action: np.zeros(len(action)))
