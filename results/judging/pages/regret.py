"""The page of the suite ``tuning``: regret of rules that choose an estimator or a parameter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from judging.pages.page import opening, table
from judging.trials.committed import records_of
from ope_bench.base.canonical import canonical_json
from ope_bench.boards.over_settings import RegretBoard, RegretRow, regret_board
from ope_bench.outcomes import Outcomes
from ope_bench.plugins.spec import PluginSpec, distinct_labels, resolve
from ope_bench.suites.nested import NestedEstimator
from ope_bench.trials.record import TrialRecord

FAILS = 1.25
"""Factor over the best of its own candidates from which a rule is said to fail."""

GONE = (
    "minimax", "slope-widths", "opera", "bootstrap",
    "pseudo-reward", "redrawn", "resample", "worlds",
)  # fmt: skip
"""Rules of `select` that were removed; their trials stay."""

PUBLISHED_SELECTORS = {"ocv": "ocv-terms", "slope": "slope-widths"}
"""Published rules among estimators, and the rules of our own that resemble them."""

FAMILIES: Sequence[tuple[str, str, str, Sequence[tuple[str, str]]]] = (
    ("clipped IPW", "ipw", "clip", (("root-n", "theory"), ("ocv", "ocv"), ("slope", "slope"))),
    ("IPW-λ", "sg-ipw", "lambda_", (("theory", "theory"), ("ocv", "ocv"), ("slope", "slope"))),
    ("DR with shrunk weights", "dr-os", "lambda_", (("ocv", "ocv"), ("slope", "slope"))),
    ("switching DR", "switch-dr", "threshold", (("ocv", "ocv"), ("slope", "slope"))),
)
"""Published name, id, parameter, and its values with the published rules, best published first."""


def _board(
    records: Sequence[TrialRecord], among: Sequence[TrialRecord] | None = None
) -> RegretBoard:
    """Return the board of some records, whose rows are named among all of ``among``."""
    specs = [record.trial.estimator for record in among or records]
    by_name = {name_of(spec): spec for spec in {id(spec): spec for spec in specs}.values()}
    labels = dict(zip(by_name, distinct_labels(list(by_name.values())), strict=True))
    board = regret_board(Outcomes.by_setting(records))
    assert board is not None  # noqa: S101  the suites have fixed choices
    rows = (replace(row, label=labels[name_of(row.spec)]) for row in board.rows)
    return replace(board, rows=tuple(rows))


def selects(record: TrialRecord) -> bool:
    """Whether a record is of a rule that chooses among estimators."""
    return record.trial.estimator.id == "select"


def name_of(spec: PluginSpec) -> str:
    """Return a name by which a candidate and a row of its own are matched."""
    return f"{spec.id} {canonical_json(dict(spec.params))}"


def candidate_names(texts: Sequence[str]) -> set[str]:
    """Return the names of a rule's candidates."""
    nested = [NestedEstimator.of(text) for text in texts]
    specs = [resolve("estimator", one.id, one.estimator.get_params(deep=False)) for one in nested]
    return {name_of(spec) for spec in specs}


def rule_label(row: RegretRow) -> str:
    """Return a rule with the anchor that it was given, and whether it was removed."""
    by, anchor = row.params.get("by"), row.params.get("anchor")
    gone = " (gone)" if by in GONE else ""
    return f"`{by}`" + (f", anchor `{anchor}`" if anchor else "") + gone


def number(value: float | None) -> str:
    """Return a regret in two decimals."""
    return "–" if value is None else f"{value:.2f}"


def interval(row: RegretRow) -> str:
    """Return the interval of a regret."""
    return f"{number(row.regret_low)} to {number(row.regret_high)}"


def told(row: RegretRow) -> str:
    """Return a regret with its interval."""
    return f"{number(row.regret)} ({interval(row)})"


def _choices(board: RegretBoard) -> str:
    """Return a table of rules and fixed choices, least regret first."""
    rows = []
    for row in board.rows:
        name = f"**{rule_label(row)}**" if row.estimator == "select" else f"always `{row.label}`"
        figures = [number(row.regret), interval(row), number(row.regret_90), number(row.worst)]
        rows.append([name, *figures, row.worst_setting or ""])
    head = ["choice", "regret", "95 %", "90 % of worlds", "worst", "in"]
    return table(head, rows, "lrlrrl", tight=True)


def _failures(records: Sequence[TrialRecord], by: str) -> str:
    """Return in words where a rule errs more than its best candidate, and a table over worlds.

    Parameters
    ----------
    records : all of the class, in all worlds.
    by : the rule, with its own anchors.
    """
    found, worlds = [], _by_world(records)
    labels = distinct_labels([there[0].trial.environment for there in worlds])
    for label, there in zip(labels, worlds, strict=True):
        own = [
            one
            for one in there
            if not selects(one)
            or (
                one.trial.estimator.params["by"] == by and not one.trial.estimator.params["anchor"]
            )
        ]
        row = next(one for one in _board(own).rows if one.params.get("by") == by)
        if row.own_regret is not None:
            found.append((row.own_regret, label))
    found.sort(reverse=True)
    failing = [label for value, label in found if value > FAILS]
    words = (
        f"It fails (more than {FAILS} times the RMSE of its best candidate) on "
        f"{len(failing)} of {len(found)} worlds: {'; '.join(failing)}."
        if failing
        else f"On no world is it more than {FAILS} times as wrong as its best candidate; the "
        f"largest factor is {found[0][0]:.3f}, on {found[0][1]}."
    )
    head = ["world", f"`{by}` over the best of its candidates"]
    rows = [[label, f"{value:.3f}"] for value, label in found]
    return f"{words}\n\n{table(head, rows, 'lr', tight=True)}\n"


def _by_world(records: Sequence[TrialRecord]) -> list[list[TrialRecord]]:
    worlds: dict[str, list[TrialRecord]] = {}
    for record in records:
        worlds.setdefault(record.trial.environment.identity_json, []).append(record)
    return [worlds[name] for name in sorted(worlds)]


def tuning_page(results: Path) -> str:
    """Return the page of the folder results/tuning.

    Parameters
    ----------
    results : the folder results/.
    """
    records = records_of(results / "tuning")
    rule = next(one for one in records if selects(one))
    names = candidate_names(rule.trial.estimator.params["candidates"])
    board = _board(
        [one for one in records if selects(one) or name_of(one.trial.estimator) in names], records
    )
    rules = [row for row in board.rows if row.estimator == "select"]
    today = [row for row in rules if row.params["by"] not in GONE]
    always = next(row for row in board.rows if row.estimator != "select")
    best, second = today[:2]
    verdict = (
        f"Least regret among the rules that are left has {rule_label(best)}: {told(best)}, before "
        f"{rule_label(second)} with {told(second)}; the intervals "
        f"{'are apart' if _apart(best, second) else 'overlap'}."
    )
    beside = f"Among fixed choices `{always.label}` has least: {told(always)}. "
    if (best.regret or 0.0) < (always.regret or 0.0):
        but = "." if _apart(best, always) else ", but the intervals overlap."
        beside += f"The best rule, {rule_label(best)}, has less{but}"
    else:
        beside += "No rule has less: on these worlds a fixed choice is as good."
    parts = [opening("tuning"), f"## Choosing an estimator\n\n{verdict}\n{beside}\n"]
    judged = {row.params["by"] for row in rules}
    waiting = [
        f"`{name}` is not judged yet, `{ours}` is another rule."
        for name, ours in PUBLISHED_SELECTORS.items()
        if name not in judged
    ]
    worlds = " ".join([f"{len(board.settings)} worlds.", *waiting])
    parts += [f"{worlds}\n\n{_choices(board)}\n"]
    parts += [f"## Where `anchored` fails\n\n{_failures(records, 'anchored')}"]
    return "\n".join([*parts, *_parameters(records)])


def _apart(one: RegretRow, other: RegretRow) -> bool:
    return (one.regret_high or 0.0) < (other.regret_low or 0.0)


def _parameters(records: Sequence[TrialRecord]) -> list[str]:
    """Return the rules of a hyper-parameter, against each other and as they were published."""
    rows, least, published = [], [], []
    for title, plugin, parameter, rules in FAMILIES:
        names = dict(rules)
        found, ours = (
            [
                (str(row.params[parameter]), row)
                for row in _board(
                    [one for one in records if _uses(one, plugin, parameter, values)], records
                ).rows
            ]
            for values in ([*names, "mse"], list(names))
        )
        least.append(f"{title} ({plugin}): `{found[0][0]}`")
        for value, row in found:
            figures = [number(row.regret), interval(row), number(row.regret_90)]
            rows.append([title, f"`{value}`", *figures])
        order = ", ".join(f"{names[value]} {number(row.regret)}" for value, row in ours)
        same = [value for value, _ in ours] == list(names)
        verdict = "reproduced" if same else "**not reproduced**"
        published.append([title, ", ".join(names.values()), order, verdict])
    words = f"Least regret against the best rule of the same estimator: {'; '.join(least)}."
    head = ["estimator", "rule", "regret", "95 %", "90 % of worlds"]
    own = table(head, rows, "llrlr", tight=True)
    theirs = table(["estimator", "published order", "here", ""], published, tight=True)
    return [
        f"## Choosing a hyper-parameter\n\n{words}\n\n{own}\n",
        f"## The published ranking\n\n{opening('published ranking')}\n\n{theirs}\n",
    ]


def _uses(record: TrialRecord, plugin: str, parameter: str, values: Sequence[str]) -> bool:
    """Whether a record is of one estimator by one of these rules of a parameter."""
    spec = record.trial.estimator
    given = spec.params.get(parameter) in values and not spec.params.get("normalize")
    return spec.id == plugin and given
