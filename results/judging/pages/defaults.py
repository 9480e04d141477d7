"""Other values of estimators' parameters than their defaults, on drawn worlds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from judging.pages.page import opening, table
from judging.trials.field import FALLBACK
from judging.trials.rows import rows_of
from ope_bench.plugins.spec import resolve
from ope_bench.statistics.ranks import mean_interval

FOLDER = "field-defaults"
GAIN = 0.9
"""Error over the default's that would be a gain of a tenth."""

World = tuple[str, str]
Interval = tuple[float, float, float]


@dataclass(frozen=True)
class Alternative:
    """Another value of a parameter, and its error over the default's.

    Parameters
    ----------
    estimator : the estimator.
    change : its parameters that differ from the defaults, with their defaults.
    odd, even : geometric mean over odd and even worlds of its RMSE over the default's, with the
        95 % interval.
    """

    estimator: str
    change: Mapping[str, tuple[Any, Any]]
    odd: Interval
    even: Interval

    @property
    def verdict(self) -> str:
        """Say whether odd worlds would choose it, and whether even ones confirm that."""
        if self.odd[2] >= 1:
            return "worse" if self.odd[1] > 1 else "no better on odd worlds"
        return "better on both" if self.even[2] < 1 else "better on odd worlds, not confirmed"


def alternatives(results: Path) -> list[Alternative]:
    """Read the alternatives from committed trials, beside the defaults' on the same data sets."""
    tried = _errors(rows_of(results / FOLDER))
    defaults = _errors(rows_of(results / "field"))
    found = []
    for (estimator, params), by_world in sorted(tried.items()):
        if estimator == FALLBACK:
            continue
        usual = resolve("estimator", estimator).params
        (default,) = [its for (name, _), its in defaults.items() if name == estimator]
        ratios: tuple[list[float], list[float]] = [], []
        for world, mine in by_world.items():
            theirs = {r: default[world][r] for r in mine if r in default.get(world, {})}
            if len(theirs) < len(mine):
                continue
            squares = [
                max(float(np.mean(np.square(list(one.values())))), 1e-24) for one in (mine, theirs)
            ]
            ratios[_number(world) % 2].append(0.5 * float(np.log(squares[0] / squares[1])))
        even, odd = (
            (float(np.exp(mean)), float(np.exp(low)), float(np.exp(high)))
            for mean, low, high in (mean_interval(np.array(one)) for one in ratios)
        )
        change = {
            name: (usual[name], value)
            for name, value in json.loads(params).items()
            if value != usual[name]
        }
        found.append(Alternative(estimator, change, odd, even))
    return found


def _errors(
    rows: Sequence[Mapping[str, Any]],
) -> dict[tuple[str, str], dict[World, dict[int, float]]]:
    """Return errors by estimator, world and replicate; the logged average's without an answer."""
    average = {
        (row["environment"], row["environment_params"], row["replicate"]): row
        for row in rows
        if row["estimator"] == FALLBACK
    }
    found: dict[tuple[str, str], dict[World, dict[int, float]]] = {}
    for row in rows:
        world = row["environment"], row["environment_params"]
        usual = average[(*world, row["replicate"])]
        if usual["status"] != "ok" or row["status"] == "unavailable":
            continue
        told = row if row["status"] == "ok" else usual
        by_world = found.setdefault((row["estimator"], row["params"]), {})
        error = told["estimate"] - told["truth_expected"]
        by_world.setdefault(world, {})[row["replicate"]] = error
    return found


def _number(world: World) -> int:
    """Return the number of a drawn world, also of a damaged one."""
    params = json.loads(world[1])
    if "world" in params:
        return int(params["world"])
    return int(str(params["environment"]).partition("world=")[2].strip("]").split(",")[0])


def defaults_section(results: Path) -> str:
    """Return the section of the leaderboard's page on defaults."""
    rows = []
    found = sorted(alternatives(results), key=lambda one: one.odd[0])
    for one in found:
        change = ", ".join(
            f"`{name.rstrip('_')}` {_shown(new)} for {_shown(old)}"
            for name, (old, new) in one.change.items()
        )
        rows.append([f"`{one.estimator}`", change, *map(_told, (one.odd, one.even)), one.verdict])
    better = [
        f"`{one.estimator}` ({', '.join(one.change)})"
        for one in found
        if one.verdict == "better on both"
    ]
    facts = {
        "tried": len(found),
        "sets": 1 + max(row["replicate"] for row in rows_of(results / FOLDER)),
        "better": ", ".join(better) or "none",
        "small": sum(min(one.odd[1], one.even[1]) > GAIN for one in found),
    }
    text = opening("leaderboard defaults", **facts)
    head = ["estimator", "value tried for the default", "odd worlds", "even worlds", "verdict"]
    body = table(head, rows, "llrrl", tight=True)
    return f"{text}\n\n<details><summary>All values</summary>\n\n{body}\n\n</details>"


def _told(one: Interval) -> str:
    return f"{one[0]:.2f} ({one[1]:.2f} to {one[2]:.2f})"


def _shown(value: Any) -> str:
    return f"`{json.dumps(value)}`".replace('"', "")
