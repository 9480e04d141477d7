"""Which of several policies to try: `shortlist`, with intervals that hold for all pairs at once.

For two policies, or a policy and what was logged, the difference of their values lies within

    V_a - V_b +- sqrt((c s_ab)^2 + (k D_ab)^2)

s_ab the standard error of the difference by per-row terms, c the quantile of the largest
studentized difference over all pairs (multiplier bootstrap by unit), D_ab the range of the
differences by the recommended panel, k its constant (`recommendation`).

References
----------
"Gaussian approximations and multiplier bootstrap for maxima of sums of high-dimensional random
vectors" (Chernozhukov, Chetverikov and Kato, 2013).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from ope_bench.base.errors import UsageError, short_errors
from ope_bench.boards.columns import Style
from ope_bench.contracts.arrays import FloatArray
from ope_bench.execution import Event, Executor
from ope_bench.logs.estimation import CONFOUNDING, by_selector, estimator_pairs, run_on_log
from ope_bench.logs.log_data import LogData, stored_log
from ope_bench.logs.problem import TERMS, unit_of
from ope_bench.logs.recommendation import Recommendation, recommendation_for
from ope_bench.logs.result import LogResult, span
from ope_bench.plugins.spec import PluginSpec
from ope_bench.report.tables import Cell, TableColumn, TextTable, cells, figure
from ope_bench.statistics.simultaneous import simultaneous
from ope_bench.statistics.unit_errors import sum_by_unit
from ope_bench.trials.record import TrialRecord

Status = Literal["certified", "dominated", "unresolved"]

SIMULTANEOUS = "intervals that hold for all policies at once"

STATUS_STYLES: Mapping[str, Style] = {"certified": "good", "dominated": "bad", "unresolved": ""}

LOGGED = "logged"
"""The incumbent where none is named: what the log earned."""


@dataclass(frozen=True, kw_only=True)
class ShortlistRow:
    """One policy.

    Parameters
    ----------
    name : of the policy.
    value : by the recommended estimator; None where it has none.
    low, high : simultaneous interval of its difference to the incumbent.
    status : ``certified`` where the interval lies above zero, ``dominated`` where another policy's
        difference to it does, else ``unresolved``.
    """

    name: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    status: Status = "unresolved"


@dataclass(frozen=True, kw_only=True, repr=False)
class Shortlist(LogResult):
    """Policies of a log, those that are surely better and those that are surely not the best.

    Parameters
    ----------
    alpha : probability with which any of the intervals may miss.
    incumbent : what policies are compared with.
    policies : best value first.
    winner : name, value and simultaneous interval of the policy with the largest value; the
        interval holds although the policy was chosen for its value. None where there is no value.
    notes : what the reader must know.
    """

    alpha: float
    incumbent: str
    policies: tuple[ShortlistRow, ...]
    winner: Mapping[str, Any] | None
    notes: tuple[str, ...] = (CONFOUNDING,)

    def contents(self) -> dict[str, Any]:
        """Return all fields; where nothing has won, a message says why."""
        why = {} if self.winner is not None else {"message": self.summary()}
        return {**super().contents(), **why}

    def table(self, verdicts: Mapping[str, Cell] = MappingProxyType({})) -> TextTable:
        """Return one line for each policy, with a verdict where some are given."""
        rows = tuple(
            cells(
                *(row.name, figure(row.value), span(row.low, row.high, signed=True)),
                Cell(row.status, style=STATUS_STYLES[row.status]),
                verdicts.get(row.name, ""),
            )
            for row in self.policies
        )
        columns = (
            TableColumn(key="name", title="policy", right=False, overflow="cut"),
            TableColumn(key="value", title="value"),
            TableColumn(key="interval", title=f"over {self.incumbent}", right=False),
            TableColumn(key="status", title="status", right=False),
            TableColumn(key="verdict", title="verdict", right=False),
        )
        notes = (f"over {self.incumbent}: {SIMULTANEOUS}", *self.notes)
        table = TextTable(title=self.summary(), columns=columns, rows=rows, notes=notes)
        return table if verdicts else table.without({"verdict"})

    def summary(self, first: str = "best") -> str:
        """Return the answer in one sentence; ``first`` says what the largest value is."""
        if self.winner is None:
            known = any(row.value is not None for row in self.policies)
            return NEEDS if known else f"no policy has a value here; {NEEDS}"
        open_ = [row.name for row in self.policies if row.status != "dominated"]
        best = self.winner
        return (
            f"{len(open_)} of {len(self.policies)} policies may be the {first}; first "
            f"{best['name']}, {figure(best['value'])} ({span(best['low'], best['high'])}), "
            f"{next(row.status for row in self.policies if row.name == best['name'])}"
        )

    def tables(self) -> list[TextTable]:
        """Return the table; its title is the answer."""
        return [self.table()]


@short_errors
def shortlist(
    log: LogData,
    *,
    incumbent: str | None = None,
    alpha: float = 0.05,
    executor: Executor | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
) -> Shortlist:
    """Compare all policies of a log with each other and with the incumbent.

    Parameters
    ----------
    log : from `Log.read` or `Log.from_frame`, with several policies.
    incumbent : name of a policy; None for what was logged.
    alpha : probability with which any of the intervals may miss.
    executor : where trials run; by default this process.
    on_event : called with each event of the trials.

    Raises
    ------
    UsageError : there is one policy only, the incumbent is unknown, or alpha is no probability.
    """
    log.refuse_several_rewards()
    names = list(log.targets)
    if not 0 < alpha < 1:
        msg = f"alpha {alpha:g} is not between 0 and 1"
        raise UsageError(msg)
    if len(names) < 2:
        msg = "a shortlist needs several policies; `estimate` evaluates one"
        raise UsageError(msg)
    if incumbent is not None:
        log.policy_name(incumbent)
    rule = recommendation_for(log, names[0])
    if not rule.errors:
        raise UsageError(NEEDS)
    pairs = estimator_pairs(rule.estimators)
    with stored_log(log) as folder:
        records = run_on_log(log, pairs, folder, 0, executor, on_event)
        specs = [spec for spec, _ in pairs]
        return shortlist_of(log, rule, specs, records, folder, incumbent=incumbent, alpha=alpha)


NEEDS = (
    "a shortlist needs propensities, and probabilities of all actions (`table: FILE` or `policy: "
    "FILE.py:NAME`); `ope-bench estimate` compares policies by those of logged actions, too"
)


def values_alone(log: LogData, values: Sequence[tuple[str, float | None]]) -> Shortlist:
    """Return policies in their order, of which nothing says whether one wins by chance."""
    rows = tuple(ShortlistRow(name=name, value=value) for name, value in values)
    notes = (*log.notes, CONFOUNDING)
    return Shortlist(alpha=0.05, incumbent=LOGGED, policies=rows, winner=None, notes=notes)


def shortlist_of(
    log: LogData,
    rule: Recommendation,
    specs: Sequence[PluginSpec],
    records: Mapping[str, Sequence[TrialRecord]],
    folder: Path,
    *,
    incumbent: str | None = None,
    alpha: float = 0.05,
) -> Shortlist:
    """Return the shortlist of policies from trials on their log.

    Parameters
    ----------
    log : the log.
    rule : the recommendation, whose estimators the trials have; with an error.
    specs : the estimators of each policy's records.
    records : by policy, from `run_on_log`.
    folder : where the log is stored.
    incumbent, alpha : as for `shortlist`.
    """
    names = list(log.targets)
    values: dict[str, FloatArray] = {}
    terms: dict[str, FloatArray] = {}
    for name in names:
        by_text = by_selector(records[name], specs, rule)
        found = [by_text[text].estimate for text in (rule.center, *rule.panel)]
        file = by_text[rule.errors[0]].diagnostics.get(TERMS)
        if file and None not in found:
            values[name] = np.array(found, dtype=np.float64)
            terms[name] = np.asarray(np.load(folder / str(file)))
    logged = float(log.reward_terms.mean())
    values[LOGGED] = np.full(1 + len(rule.panel), logged)
    terms[LOGGED] = log.reward_terms
    unit = unit_of(log)
    decided = decide(rule, names, incumbent or LOGGED, values, terms, unit, alpha)
    return replace(decided, notes=(*log.notes, CONFOUNDING))


def decide(
    rule: Recommendation,
    names: Sequence[str],
    incumbent: str,
    values: Mapping[str, FloatArray],
    terms: Mapping[str, FloatArray],
    unit: Any,
    alpha: float,
) -> Shortlist:
    """Return the statuses of policies with known estimates.

    Parameters
    ----------
    rule : the recommendation.
    names : of the policies.
    incumbent : one of them, or `LOGGED`.
    values : by policy and for `LOGGED`, of the recommended estimator and of its panel.
    terms : by policy and for `LOGGED`, of the estimator whose standard error counts: (n,).
    unit : (n,)
    alpha : probability with which any of the intervals may miss.
    """
    known = [name for name in values if name in names or name == incumbent]
    if not known:
        rows = [ShortlistRow(name=name) for name in names]
        return Shortlist(alpha=alpha, incumbent=incumbent, policies=tuple(rows), winner=None)
    table = np.array([values[name] for name in known])
    influence = np.stack(
        [sum_by_unit(terms[name] - terms[name].mean(), unit) for name in known], axis=1
    ) / len(unit)
    quantile, error = simultaneous(influence, alpha)
    difference = table[:, None, :] - table[None, :, :]
    apart = difference[..., 1:].max(axis=2) - difference[..., 1:].min(axis=2)
    half = np.hypot(quantile * error, rule.constant * apart)
    low, high = difference[..., 0] - half, difference[..., 0] + half
    at = {name: k for k, name in enumerate(known)}
    own = [at[name] for name in names if name in at]
    beaten, versus = (low[own] > 0).any(axis=0), at.get(incumbent)
    rows = [ShortlistRow(name=name) for name in names[::-1] if name not in at]
    # From the last to the first; of equal ones the earlier is first.
    for k in sorted(own, key=lambda k: (table[k, 0], -k)):
        status: Status = "dominated" if beaten[k] else "unresolved"
        row = ShortlistRow(name=known[k], value=float(table[k, 0]), status=status)
        if versus is not None:
            row = replace(row, low=float(low[k, versus]), high=float(high[k, versus]))
            if low[k, versus] > 0 and not beaten[k]:
                row = replace(row, status="certified")
        rows.append(row)
    winner: dict[str, Any] | None = None
    if own:
        # Differences to a constant: one more column without spread.
        alone = np.concatenate([influence[:, own], np.zeros((len(influence), 1))], axis=1)
        quantile, error = simultaneous(alone, alpha, versus_last=True)
        name, value = rows[-1].name, float(rows[-1].value or 0.0)
        one = own.index(at[name])
        apart = np.ptp(table[at[name], 1:])
        half = float(np.hypot(quantile * error[one, -1], rule.constant * apart))
        winner = {"name": name, "value": value, "low": value - half, "high": value + half}
    return Shortlist(alpha=alpha, incumbent=incumbent, policies=tuple(rows[::-1]), winner=winner)
