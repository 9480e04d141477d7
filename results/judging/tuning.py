"""The page of the suite ``tuning``: which rule chooses best, in words made from the trials."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from judging.committed import records_of
from judging.regrets import (
    board_of,
    candidate_names,
    choice_table,
    failures_table,
    interval,
    name_of,
    number,
    rule_label,
    selects,
)
from ope_bench.boards.regret import RegretRow
from ope_bench.trials.record import TrialRecord

__all__ = ["tuning_page"]

FAMILIES: Sequence[tuple[str, str, str, Sequence[tuple[str, str]]]] = (
    ("clipped IPW", "ipw", "clip", (("root-n", "theory"), ("ocv", "ocv"), ("slope", "slope"))),
    ("IPW-λ", "sg-ipw", "lambda_", (("theory", "theory"), ("ocv", "ocv"), ("slope", "slope"))),
    ("DR with shrunk weights", "dr-os", "lambda_", (("ocv", "ocv"), ("slope", "slope"))),
    ("switching DR", "switch-dr", "threshold", (("ocv", "ocv"), ("slope", "slope"))),
)
"""Published name, id, parameter, and its values with the published rules, best published first."""

PUBLISHED = """\
Cief, Kveton and Kompan (2025) rank rules by mean rank on nine data sets: closed forms before
cross-validation before SLOPE. Here the best first, by regret among these rules; `theory` of
clipped IPW is the square root of n."""

HEAD = """\
# Rules for a hyper-parameter and for an estimator

Made by `python results/write.py` from the trials in this folder, which
`results/regenerate tuning` makes; no figure was typed. Regret is the RMSE over that of the best
fixed choice in hindsight, on the same data sets: 1 is perfect, and a fixed choice that is best in
every world has 1. Means over worlds are geometric; intervals are over data sets, the worlds as
they are. All boards: [leaderboard](leaderboard.md).
"""


def tuning_page(results: Path) -> str:
    """Return the page of the folder results/tuning.

    Parameters
    ----------
    results : the folder results/.
    """
    records = records_of(results / "tuning")
    parts = [HEAD, _selectors(records), _anchored(records), _rules(records), _published(records)]
    return "\n".join(parts)


def _candidates(records: Sequence[TrialRecord]) -> set[str]:
    texts = next(one for one in records if selects(one)).trial.estimator.params["candidates"]
    return candidate_names(texts)


def _selectors(records: Sequence[TrialRecord]) -> str:
    names = _candidates(records)

    def wanted(record: TrialRecord) -> bool:
        return selects(record) or name_of(record.trial.estimator) in names

    board = board_of(records, wanted)
    rules = [row for row in board.rows if row.estimator == "select"]
    fixed = [row for row in board.rows if row.estimator != "select"]
    best, second, always = rules[0], rules[1], fixed[0]
    apart = (best.regret_high or 0.0) < (second.regret_low or 0.0)
    verdict = (
        f"Least regret among the rules has {rule_label(best)}: {number(best.regret)} "
        f"({interval(best)}), before {rule_label(second)} with {number(second.regret)} "
        f"({interval(second)}); the intervals {'are apart' if apart else 'overlap'}."
    )
    better = (best.regret or 0.0) < (always.regret or 0.0)
    beside = (
        f"Among fixed choices `{always.label}` has least: {number(always.regret)} "
        f"({interval(always)}). "
        + (
            f"The best rule, {rule_label(best)}, has less"
            + (
                "."
                if (best.regret_high or 0.0) < (always.regret_low or 0.0)
                else ", but the intervals overlap."
            )
            if better
            else "No rule has less: on these worlds a fixed choice is as good."
        )
    )
    worlds = f"{len(board.settings)} worlds."
    lines = choice_table(board)
    return "\n".join(["## Choosing an estimator", "", verdict, beside, "", worlds, "", *lines, ""])


def _anchored(records: Sequence[TrialRecord]) -> str:
    told, lines = failures_table(records, "anchored")
    return "\n".join(["## Where `anchored` fails", "", told, "", *lines, ""])


def _family(
    records: Sequence[TrialRecord], plugin: str, parameter: str, values: Sequence[str]
) -> list[tuple[str, RegretRow]]:
    """Rows of one estimator by the rule of one parameter, least regret first."""

    def wanted(record: TrialRecord) -> bool:
        spec = record.trial.estimator
        return (
            spec.id == plugin
            and spec.params.get(parameter) in values
            and not spec.params.get("normalize")
        )

    rows = board_of(records, wanted).rows
    return [(str(row.params[parameter]), row) for row in rows]


def _rules(records: Sequence[TrialRecord]) -> str:
    lines = ["| estimator | rule | regret | 95 % | 90 % of worlds |", "|---|---|---:|---|---:|"]
    told = []
    for title, plugin, parameter, rules in FAMILIES:
        values = [*dict(rules), "mse"]
        rows = _family(records, plugin, parameter, values)
        told.append(f"{title} ({plugin}): `{rows[0][0]}`")
        lines += [
            f"| {title} | `{value}` | {number(row.regret)} | {interval(row)} | "
            f"{number(row.regret_90)} |"
            for value, row in rows
        ]
    words = f"Least regret against the best rule of the same estimator: {'; '.join(told)}."
    return "\n".join(["## Choosing a hyper-parameter", "", words, "", *lines, ""])


def _published(records: Sequence[TrialRecord]) -> str:
    lines = []
    for title, plugin, parameter, rules in FAMILIES:
        rows = dict(_family(records, plugin, parameter, list(dict(rules))))
        names = dict(rules)
        published = list(names)
        ours = sorted(published, key=lambda value: rows[value].regret or 0.0)
        order = ", ".join(f"{names[value]} {number(rows[value].regret)}" for value in ours)
        same = "reproduced" if ours == published else "**not reproduced**"
        lines.append(
            f"| {title} | {', '.join(names[value] for value in published)} | {order} | {same} |"
        )
    return "\n".join(
        [
            "## The published ranking",
            "",
            PUBLISHED,
            "",
            "| estimator | published order | here | |",
            "|---|---|---|---|",
            *lines,
            "",
        ]
    )
