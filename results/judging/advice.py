"""The page of the suite ``advice``, and what `ope-bench advise` says of its rule."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

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
from ope_bench.boards.aggregation import ReplicateFacts, aggregate
from ope_bench.boards.regret import RegretBoard, RegretRow
from ope_bench.boards.regret_intervals import ratio_interval
from ope_bench.suites.nested import NestedEstimator
from ope_bench.trials.outcomes import Outcomes
from ope_bench.trials.record import TrialRecord

__all__ = ["advice_page", "benchmark"]

HEAD = """\
# Which estimator should a team with one log trust?

Made by `python results/write.py` from the trials in this folder, which
`results/regenerate advice` makes; no figure was typed. Every rule sees one log and nothing else;
the true value is known to the page alone. Regret is the RMSE over that of the best fixed choice in
hindsight, on the same data sets: 1 is perfect, below 1 is possible for a rule that changes its
choice from log to log. Means over worlds are geometric; intervals are over data sets, the worlds
as they are. All boards: [leaderboard](leaderboard.md).

**Held out.** No rule was made or chosen on these worlds. `minimax` and its anchors were chosen on
the worlds of the suite [tuning](../tuning/README.md) (linear bandits with softmax policies,
breast cancer, `saito-mips` with full support, `saito-toy`), on more such linear bandits, and for
samples only on `gaussian`, `linear-gaussian` and the worlds of `tests/benchmarks/rule_worlds.py`.
Two held-out worlds are of the same families with another dial: a linear bandit with logistic
rewards and epsilon-greedy policies, and `saito-mips` with actions that are never logged.

`pseudo-reward`, `redrawn`, `resample` choose the candidate with the least error on worlds that
they make from the log, `worlds` on those of all three.
"""

FURTHER = ("edr",)
"""Fixed choices from samples that are shown though no rule chooses among them."""

CLASSES = {"known": "Both policies known", "samples": "Samples of the new policy only"}


@dataclass(frozen=True)
class _Class:
    """The trials of one class of candidates.

    Parameters
    ----------
    name : key of `CLASSES`.
    records : of the rules and their candidates, on worlds where they can run.
    board : their regrets.
    """

    name: str
    records: Sequence[TrialRecord]
    board: RegretBoard

    @property
    def rules(self) -> list[RegretRow]:
        """Rules that see the log, least regret first."""
        return [row for row in self.board.rows if row.estimator == "select" and row.regret]

    @property
    def always(self) -> RegretRow:
        """The fixed choice with the least regret."""
        return next(row for row in self.board.rows if row.estimator != "select")

    def ratio(self, row: RegretRow) -> tuple[float, float, float]:
        """Return a rule's errors over those of the best fixed choice, with their 95 % interval.

        Without two data sets in each world the interval is everything.
        """
        pairs = []
        for group in _by_world(self.records):
            facts = ReplicateFacts.of(Outcomes.of(group), "expected")
            mine, other = (
                aggregate(Outcomes.of(one for one in group if _is(one, wanted)), facts).imputed
                for wanted in (row, self.always)
            )
            keys = [key for key in mine if key in other]
            if keys:
                pairs.append(
                    (np.array([mine[key] for key in keys]), np.array([other[key] for key in keys]))
                )
        logs = [
            np.log(np.square(left).mean() / np.square(right).mean()) / 2 for left, right in pairs
        ]
        low, high = ratio_interval(pairs)
        value = float(np.exp(np.mean(logs)))
        return value, 0.0 if low is None else low, math.inf if high is None else high


def _is(record: TrialRecord, row: RegretRow) -> bool:
    spec = record.trial.estimator
    return spec.id == row.estimator and dict(spec.params) == dict(row.params)


def _by_world(records: Sequence[TrialRecord]) -> list[list[TrialRecord]]:
    worlds: dict[str, list[TrialRecord]] = {}
    for record in records:
        worlds.setdefault(record.trial.environment.identity_json, []).append(record)
    return [worlds[name] for name in sorted(worlds)]


@cache
def _classes(results: Path) -> dict[str, _Class]:
    """Return both classes; samples only is the one whose candidates need no propensities."""
    records = records_of(results / "advice")
    lists = {tuple(one.trial.estimator.params["candidates"]) for one in records if selects(one)}
    found = {}
    for texts in lists:
        further = FURTHER if any(text.startswith("edr") for text in texts) else ()
        names = candidate_names([*texts, *further])
        mine = [
            one
            for one in records
            if (selects(one) and tuple(one.trial.estimator.params["candidates"]) == texts)
            or name_of(one.trial.estimator) in names
        ]
        fixed = [one for one in mine if not selects(one)]
        name = "known" if any("propensity" in one.access for one in fixed) else "samples"
        found[name] = _Class(name, mine, board_of(_able(mine)))
    return found


def _able(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Leave out worlds where most candidates lack what they need."""
    kept = []
    for group in _by_world(records):
        fixed = [one for one in group if not selects(one)]
        if 2 * sum(one.status == "ok" for one in fixed) > len(fixed):
            kept += group
    return kept


def benchmark(results: Path) -> str:
    """Return the file that `ope-bench advise` quotes."""
    document: dict[str, Any] = {"schema": 1}
    for name, one in sorted(_classes(results).items()):
        rule, always = one.rules[0], one.always
        value, low, high = one.ratio(rule)
        document[name] = {
            "worlds": len(one.board.settings),
            "better": high < 1,
            "rule": _facts(rule.params["by"], rule),
            "always": _facts(_selector(always), always),
            "ratio": {"value": round(value, 6), "low": round(low, 6), "high": round(high, 6)},
        }
    return json.dumps(document, indent=1) + "\n"


def _selector(row: RegretRow) -> str:
    return NestedEstimator.of({row.estimator: dict(row.params)}).text


def _facts(name: str, row: RegretRow) -> dict[str, Any]:
    figures = {"regret": row.regret, "low": row.regret_low, "high": row.regret_high}
    return {"name": name, **{key: round(value or 0.0, 6) for key, value in figures.items()}}


def advice_page(results: Path) -> str:
    """Return the page of the folder results/advice.

    Parameters
    ----------
    results : the folder results/.
    """
    classes = _classes(results)
    parts = [HEAD, *(_section(classes[name]) for name in CLASSES if name in classes)]
    return "\n".join(parts)


def _section(one: _Class) -> str:
    best, always = one.rules[0], one.always
    value, low, high = one.ratio(best)
    shown = (
        "the rule is better"
        if high < 1
        else "the rule is worse"
        if low > 1
        else "no difference is shown"
    )
    told = (
        f"Least regret among the rules has {rule_label(best)}: {number(best.regret)} "
        f"({interval(best)}). The best fixed choice over all worlds, always `{always.label}`, has "
        f"{number(always.regret)} ({interval(always)}). Errors of {rule_label(best)} are "
        f"{value:.2f} times those of always `{always.label}` ({low:.2f} to {high:.2f}): {shown}."
    )
    use = (
        f"`ope-bench advise` uses {rule_label(best)}."
        if high < 1
        else f"`ope-bench advise` recommends `{always.label}` wherever it can run, and says so."
    )
    worlds = [row for row in one.rules if row.params["by"] in MAKERS]
    beside = "Rules by made worlds: " + ", ".join(
        f"{rule_label(row)} {number(row.regret)} ({interval(row)})" for row in worlds
    )
    parts = [f"## {CLASSES[one.name]}", "", told, use, f"{beside}.", ""]
    parts += [f"{len(one.board.settings)} worlds.", "", *choice_table(one.board), ""]
    for by in dict.fromkeys(("anchored", best.params["by"])):
        words, lines = failures_table(_able(one.records), by)
        parts += [f"### Where `{by}` fails", "", words, "", *lines, ""]
    return "\n".join(parts)


MAKERS = ("pseudo-reward", "redrawn", "resample", "worlds")
