"""Regret of rules that choose an estimator, in words and tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ope_bench.boards.regret import RegretBoard, RegretRow, regret_board
from ope_bench.canonical import canonical_json
from ope_bench.plugins.labels import distinct_labels
from ope_bench.plugins.resolution import resolve
from ope_bench.plugins.spec import PluginSpec
from ope_bench.suites.nested import NestedEstimator
from ope_bench.trials.record import TrialRecord

__all__ = [
    "FAILS",
    "board_of",
    "candidate_names",
    "choice_table",
    "failures_table",
    "interval",
    "name_of",
    "number",
    "rule_label",
    "selects",
]

FAILS = 1.25
"""Factor over the best of its own candidates from which a rule is said to fail."""


def board_of(
    records: Sequence[TrialRecord], wanted: Callable[[TrialRecord], bool] = lambda _: True
) -> RegretBoard:
    """Return the board of some records, whose rows are named among all."""
    specs = {name_of(record.trial.estimator): record.trial.estimator for record in records}
    labels = dict(zip(specs, distinct_labels(list(specs.values())), strict=True))
    board = regret_board([record for record in records if wanted(record)])
    assert board is not None  # noqa: S101  the suites have fixed choices
    rows = (replace(row, label=labels[_name(row.estimator, row.params)]) for row in board.rows)
    return replace(board, rows=tuple(rows))


def selects(record: TrialRecord) -> bool:
    """Whether a record is of a rule that chooses among estimators."""
    return record.trial.estimator.id == "select"


def name_of(spec: PluginSpec) -> str:
    """Return a name by which a candidate and a row of its own are matched."""
    return _name(spec.id, spec.params)


def _name(plugin: str, params: Mapping[str, Any]) -> str:
    return f"{plugin} {canonical_json(dict(params))}"


def candidate_names(texts: Sequence[str]) -> set[str]:
    """Return the names of a rule's candidates."""
    nested = [NestedEstimator.of(text) for text in texts]
    specs = [resolve("estimator", one.id, one.estimator.get_params(deep=False)) for one in nested]
    return {name_of(spec) for spec in specs}


def rule_label(row: RegretRow) -> str:
    """Return a rule with the anchor that it was given."""
    by, anchor = row.params.get("by"), row.params.get("anchor")
    return f"`{by}`" + (f", anchor `{anchor}`" if anchor else "")


def number(value: float | None) -> str:
    """Return a regret in two decimals."""
    return "–" if value is None else f"{value:.2f}"


def interval(row: RegretRow) -> str:
    """Return the interval of a regret."""
    return f"{number(row.regret_low)} to {number(row.regret_high)}"


def choice_table(board: RegretBoard) -> list[str]:
    """Return the lines of a table of rules and fixed choices, least regret first."""
    lines = [
        "| choice | regret | 95 % | 90 % of worlds | worst | in |",
        "|---|---:|---|---:|---:|---|",
    ]
    for row in board.rows:
        chooses = row.estimator == "select"
        name = f"**{rule_label(row)}**" if chooses else f"always `{row.label}`"
        figures = (number(row.regret), interval(row), number(row.regret_90), number(row.worst))
        lines.append(f"| {name} | {' | '.join(figures)} | {row.worst_setting} |")
    return lines


def failures_table(records: Sequence[TrialRecord], by: str) -> tuple[str, list[str]]:
    """Return in words where a rule errs more than its best candidate, and a table over worlds.

    Parameters
    ----------
    records : all of the class, in all worlds.
    by : the rule, with its own anchors.
    """
    settings: dict[str, list[TrialRecord]] = {}
    for record in records:
        spec = record.trial.estimator
        ours = selects(record) and spec.params["by"] == by
        if not ours or spec.params["anchor"] is None:
            settings.setdefault(record.trial.environment.identity_json, []).append(record)
    found = []
    for label, name in zip(board_of(records).settings, sorted(settings), strict=True):
        rows = board_of(settings[name]).rows
        row = next(one for one in rows if one.params.get("by") == by)
        if row.own_regret is not None:
            found.append((row.own_regret, label))
    found.sort(reverse=True)
    lines = [f"| world | `{by}` over the best of its candidates |", "|---|---:|"]
    lines += [f"| {label} | {value:.3f} |" for value, label in found]
    failing = [label for value, label in found if value > FAILS]
    told = (
        f"It fails (more than {FAILS} times the RMSE of its best candidate) on "
        f"{len(failing)} of {len(found)} worlds: {'; '.join(failing)}."
        if failing
        else f"On no world is it more than {FAILS} times as wrong as its best candidate; the "
        f"largest factor is {found[0][0]:.3f}, on {found[0][1]}."
    )
    return told, lines
