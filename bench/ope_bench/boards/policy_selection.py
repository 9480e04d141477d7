"""Boards of policy selection: choosing among target policies on the same logs by estimates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ope_bench.boards.columns.makers import attribute
from ope_bench.plugins.labels import distinct_label
from ope_bench.plugins.spec import PluginSpec
from ope_bench.statistics.selection import Selection, selection
from ope_bench.trials.outcomes import Outcomes
from ope_bench.trials.record import TrialRecord
from ope_bench.trials.status import Status

__all__ = [
    "SELECTION_COLUMNS",
    "SELECTION_LAYOUT",
    "SelectionBoard",
    "SelectionRow",
    "selection_boards",
    "stream_selection_boards",
]

MEASURES = ("spearman", "kendall", "regret", "relative_regret", "type_one", "type_two")


@dataclass(frozen=True, kw_only=True)
class SelectionRow:
    """Selection measures of one estimator; means over replicates, None where undefined.

    Parameters
    ----------
    replicates : number of replicates with estimates for at least two policies.
    spearman ... type_two : see `ope_bench.statistics.selection.Selection`; a policy whose
        estimate failed cannot be chosen. The policy in use is the logging policy, at its
        average reward.
    """

    estimator: str
    label: str
    params: Mapping[str, Any]
    device: str
    replicates: int
    spearman: float | None
    kendall: float | None
    regret: float | None
    relative_regret: float | None
    type_one: float | None
    type_two: float | None


@dataclass(frozen=True, kw_only=True)
class SelectionBoard:
    """Selection among target policies with the same logs; rows ordered by regret.

    Parameters
    ----------
    environment : id of the environment.
    policies : labels of the settings, one per target policy.
    """

    environment: str
    policies: tuple[str, ...]
    rows: tuple[SelectionRow, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the board as plain JSON."""
        rows = [vars(row) | {"params": dict(row.params)} for row in self.rows]
        return {"environment": self.environment, "policies": list(self.policies), "rows": rows}


SELECTION_COLUMNS = (
    attribute(
        "environment",
        "",
        "id of the environment",
        value=lambda board: board.environment,
        format="text",
        of_board=True,
    ),
    attribute(
        "policies",
        "",
        "the target policies to choose among",
        value=lambda board: "; ".join(board.policies),
        format="text",
        of_board=True,
    ),
    attribute("estimator", "", "estimator; in CSV the id alone", format="estimator"),
    attribute(
        "label",
        "",
        "id with the parameters that distinguish rows",
        format="text",
    ),
    attribute("params", "parameters", "all parameters", format="json"),
    attribute("device", "", "device on which it ran", format="text"),
    attribute("replicates", "n", "replicates with at least two estimates", format="count"),
    attribute("spearman", "Spearman", "rank correlation of estimates and values"),
    attribute("kendall", "Kendall", "Kendall's rank correlation of estimates and values"),
    attribute(
        "regret",
        "",
        "value of the best policy minus that of the one with the best estimate",
    ),
    attribute("relative_regret", "relative", "regret over the values' range", format="percent"),
    attribute(
        "type_one",
        "type I",
        "share of policies worse than the logging policy whose estimate beats its average",
        format="percent",
    ),
    attribute(
        "type_two",
        "type II",
        "share of policies better than the logging policy whose estimate does not",
        format="percent",
    ),
)
"""The columns of selection boards, in the order of CSV."""

SELECTION_LAYOUT = (
    "estimator",
    "regret",
    "relative_regret",
    "spearman",
    "kendall",
    "type_one",
    "type_two",
    "replicates",
)
"""The columns that text, Markdown and LaTeX show."""


def selection_boards(records: Iterable[TrialRecord]) -> list[SelectionBoard]:
    """Compute a board for each group of settings with the same logs.

    Logs are drawn before and independently of the target, so settings that differ in their target
    policy alone have equal logging averages on every replicate, which identifies the groups.
    """
    return _boards([_Policy.of(one.newest()) for one in Outcomes.by_setting(records)])


def stream_selection_boards(settings: Iterable[Outcomes]) -> list[SelectionBoard]:
    """Compute `selection_boards` of one setting after another, keeping the estimates alone.

    Parameters
    ----------
    settings : the outcomes of each setting of an environment.
    """
    found = [_Policy.of(outcomes.newest()) for outcomes in settings if len(outcomes)]
    # By their keys, whatever order the settings come in.
    return _boards(sorted(found, key=lambda one: one.first))


def _boards(found: Iterable[_Policy]) -> list[SelectionBoard]:
    groups: dict[tuple[Any, ...], list[_Policy]] = {}
    for policy in found:
        if policy.logs:
            groups.setdefault((policy.environment.id, policy.logs), []).append(policy)
    chosen = [group for group in groups.values() if len(group) > 1]
    # Among all of them, so that two groups of one environment can be told apart.
    settings = [policy.environment for group in chosen for policy in group]
    return [_board(group, settings) for group in chosen]


Replicate = tuple[int, int]
UNKNOWN = (math.nan, math.nan)


@dataclass(frozen=True, eq=False)
class _Policy:
    """One setting: what is known of a target policy and its estimates, by seed and replicate.

    Parameters
    ----------
    first : smallest key of its trials.
    logs : replicates with their logging averages, where the policy's value is known, too.
    values : the policy's value.
    rows : spec and device of each row by name.
    cells : estimates of each row, NaN for failures, with the trials' logging averages.
    """

    first: str
    environment: PluginSpec
    logs: tuple[tuple[int, int, float], ...]
    values: Mapping[Replicate, float]
    rows: Mapping[str, tuple[PluginSpec, str]]
    cells: Mapping[str, Mapping[Replicate, tuple[float, float]]]

    @classmethod
    def of(cls, outcomes: Outcomes) -> _Policy:
        """Collect what is known of one setting."""
        known = ~np.isnan(outcomes.truth_expected)
        logged = outcomes.take(known & ~np.isnan(outcomes.logging_average))
        logs = zip(_replicates(logged), logged.logging_average.tolist(), strict=True)
        of_policy = outcomes.take(known)
        rows: dict[str, tuple[PluginSpec, str]] = {}
        cells: dict[str, dict[Replicate, tuple[float, float]]] = {}
        for row in outcomes.by_row(threads=False):
            spec, device = row.estimator[0], row.device[0]
            name = f"{spec.identity_json} {device}"
            estimates = np.where(row.has(Status.OK), row.estimate, np.nan).tolist()
            pairs = zip(estimates, row.logging_average.tolist(), strict=True)
            rows[name] = spec, device
            cells[name] = dict(zip(_replicates(row), pairs, strict=True))
        return cls(
            outcomes.key[0],
            outcomes.environment[0],
            tuple(sorted({(*at, average) for at, average in logs})),
            dict(zip(_replicates(of_policy), of_policy.truth_expected.tolist(), strict=True)),
            rows,
            cells,
        )


def _replicates(outcomes: Outcomes) -> list[Replicate]:
    return list(zip(outcomes.seed.tolist(), outcomes.replicate.tolist(), strict=True))


def _board(group: Sequence[_Policy], settings: Sequence[PluginSpec]) -> SelectionBoard:
    environments = [policy.environment for policy in group]
    rows: dict[str, tuple[PluginSpec, str]] = {}
    for policy in group:
        for name, row in policy.rows.items():
            rows.setdefault(name, row)
    specs = [spec for spec, _ in rows.values()]
    board_rows = [
        _row(name, spec, device, distinct_label(spec, specs), group)
        for name, (spec, device) in rows.items()
    ]
    board_rows.sort(key=lambda row: (math.inf if row.regret is None else row.regret, row.label))
    labels = tuple(distinct_label(item, settings) for item in environments)
    return SelectionBoard(environment=environments[0].id, policies=labels, rows=tuple(board_rows))


def _row(
    name: str, spec: PluginSpec, device: str, label: str, group: Sequence[_Policy]
) -> SelectionRow:
    selections: list[Selection] = []
    cells = [policy.cells.get(name, {}) for policy in group]
    for at in sorted(set().union(*cells)):
        value = np.array([policy.values.get(at, math.nan) for policy in group])
        estimate = np.array([cell.get(at, UNKNOWN)[0] for cell in cells])
        if np.isfinite(estimate).sum() < 2 or np.isnan(value).any():
            continue
        _, average = next(cell[at] for cell in cells if at in cell)
        reference = None if math.isnan(average) else average
        selections.append(selection(estimate, value, reference=reference))
    means = {name: _mean(getattr(item, name) for item in selections) for name in MEASURES}
    return SelectionRow(
        estimator=spec.id,
        label=label,
        params=spec.params,
        device=device,
        replicates=len(selections),
        **means,
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
