"""Which interval to use on a log: what held the value on simulated logs of its kind."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from ope_bench.logs.reading.log_data import LogData
from ope_bench.statistics.value_intervals.weights import LEAST_EFFECTIVE, SMALLEST_EFFECTIVE
from ope_bench.trials.record import TrialRecord

__all__ = ["interval_note"]

REWARDS = {True: "rewards in a known range", False: "rewards without a known range"}
WEIGHTS = {
    "moderate": f"no weight above 1/{SMALLEST_EFFECTIVE} of the rows",
    "large": f"weights above 1/{SMALLEST_EFFECTIVE} of the rows",
    "unknown": "the largest weight unknown without the whole logging policy",
}


@cache
def _table() -> dict[str, Any]:
    """Return the table, which ``results/write.py`` makes from trials."""
    path = Path(__file__).with_name("interval_choice.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def interval_note(log: LogData, name: str, records: Iterable[TrialRecord]) -> str:
    """Return which interval held the value on simulated logs like this one, in one line.

    Parameters
    ----------
    log : the log.
    name : of the policy to evaluate.
    records : of the estimators on it; they know the largest weight that the policies allow.
    """
    bounded = log.reward_range is not None
    known = log.propensity is not None and log.targets[name].action is None
    least = [record.diagnostics.get(LEAST_EFFECTIVE) for record in records]
    given = [float(one) for one in least if isinstance(one, int | float)]
    # Weights that nobody can bound count as large.
    weights = "moderate" if given and min(given) >= SMALLEST_EFFECTIVE else "large"
    wanted = {
        "rewards": "bounded" if bounded else "unbounded",
        "policies": "known" if known else "estimated",
        "weights": weights,
    }
    row = next(one for one in _table()["rows"] if wanted.items() <= one.items())
    overlap = WEIGHTS[weights if given else "unknown"] if known else "no policy known"
    where = f"{REWARDS[bounded]}, {overlap}"
    return f"interval: on simulated logs ({where}) {_describe_choice(row['use'])}"


def _describe_choice(use: dict[str, Any] | None) -> str:
    least = f"{_table()['holds']:.0%}"
    if use is None:
        return f"none held the value in {least} or more"
    kind, estimator = use["kind"], use["estimator"]
    option = "" if kind == "normal" else f"; `--interval {kind}`"
    return (
        f"the narrowest that held the value in {least} or more was the {kind} one of {estimator} "
        f"({use['coverage']:.1%}{option})"
    )
