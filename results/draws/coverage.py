"""Draws logs of drawn worlds, small and large, and writes what every interval says of each.

    results/regenerate run coverage [--limit SECONDS] [--estimated]

Clean logs of worlds of the second priors with binary rewards, down to one click in a thousand. A
world's facts say which numbers of rows are planned of it. Each is drawn three times; then those of
even worlds again, round by round, while a third of their logs lie in cells of effective rewarded
rows x effective sample size that still lack logs: where the logs lie decides, never whether an
interval held. From results/coverage/logs.parquet `results/regenerate write` makes a table of
results/recommendation.md and what `estimate` and `advise` quote. Calls resume. With
``--estimated`` logs of other worlds are drawn, each once, whose propensities are estimated.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ope_bench import Access
from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.view import FitCache, View
from ope_bench.plugins.spec import PluginSpec, resolve
from ope_bench.statistics.value_intervals import empirical_likelihood_interval
from ope_bench.trials.record import Trial
from ope_bench.trials.trial import build

FOLDER = Path(__file__).resolve().parents[1] / "coverage"

WORLDS = range(2001, 2801)
ROWS = (250, 600, 1500, 4000)
ESTIMATED = range(2801, 3701)
ESTIMATED_ROWS = (1200, 2000, 3000)
"""Worlds with estimated propensities, and their numbers of rows in turn."""

UNSUPPORTED = 0.03
"""Share of the new policy that the logger never plays, from which a log is not clean."""

FIRST, MOST = 3, 30
"""Logs of each world and number of rows: in the first round, and at most."""

QUOTA = {True: 22, False: 48}
"""Worlds in each expected cell, odd and even: the odd ones choose a constant, the others judge."""

LOGS = 400
"""Logs of even worlds that each cell should have."""

REWARDED, EFFECTIVE = (0.0, 10.0, 20.0, 50.0, 200.0), (30.0, 100.0, 500.0)

ESTIMATORS: dict[str, dict[str, Any]] = {
    "ipws": {},
    "sndr": {},
    "dm": {"cross_fit": 5},
    "dr-os": {},
    "dr-eb": {},
}


def effective_rewarded(weight: FloatArray, reward: FloatArray) -> float:
    """Return how many rewards of equal weight carry a value.

    (sum x)^2 / sum x^2, x = w |r - m|, m the median reward.
    """
    carried = weight * np.abs(reward - np.median(reward))
    squares = float(carried @ carried)
    return float(carried.sum()) ** 2 / squares if squares > 0 else 0.0


def spec_of(world: int, rows: int) -> PluginSpec:
    """Return a world with so many rows: few contexts and actions, so that a log costs little."""
    params: dict[str, Any] = {
        "priors": 2,
        "world": world,
        "n_samples": rows,
        "n_actions": 2 + world % 9,
        "users": "one-row",
        "known": "policy",
        "target_form": "probabilities",
    }
    if world not in ESTIMATED:
        params |= {"reward": "binary", "contexts": "few", "phases": "of-time"}
    return resolve("environment", "population", params)


def cell_of(rewarded: float, effective: float) -> tuple[int, int] | None:
    """Return the number of the cell; None below the least effective sample size."""
    if effective < EFFECTIVE[0]:
        return None
    return tuple(
        int(np.searchsorted(limits, value, "right")) - 1
        for limits, value in zip((REWARDED, EFFECTIVE), (rewarded, effective), strict=True)
    )  # type: ignore[return-value]


@lru_cache(maxsize=4)
def environment(world: int, rows: int) -> Any:
    """Return a world with so many rows, drawn once for all its logs."""
    return build(spec_of(world, rows))


def planned() -> Iterator[tuple[int, int]]:
    """Yield worlds and their numbers of rows."""
    filled: Counter[tuple[bool, tuple[int, int]]] = Counter()
    for world in WORLDS:
        facts = environment(world, ROWS[0])._drawn().facts
        if facts["world_unsupported"] > 1e-3:
            continue
        for rows in ROWS:
            effective = facts["world_ess_fraction"] * rows
            rate = min(facts["world_mean_reward"], 1 - facts["world_mean_reward"])
            cell = cell_of(rate * effective, effective)
            odd = world % 2 == 1
            if cell is not None and filled[odd, cell] < QUOTA[odd]:
                filled[odd, cell] += 1
                yield world, rows


def cell_in(row: dict[str, Any]) -> tuple[int, int] | None:
    """Return the cell of a drawn log; None where it counts in none."""
    return cell_of(row["rewarded"], row["effective"]) if row.get("effective") else None


def missing(rows: list[dict[str, Any]]) -> Iterator[tuple[int, int, int]]:
    """Yield world, rows and replicate of each log still to be drawn; reads `rows` as it grows."""
    plan = FOLDER / "plan.json"
    if not plan.exists():
        plan.write_text(json.dumps(list(planned())) + "\n", encoding="utf-8")
    pairs = [(world, size) for world, size in json.loads(plan.read_text(encoding="utf-8"))]
    pairs.sort(key=lambda pair: pair[0] % 2)
    seen: dict[tuple[int, int], list[Any]] = defaultdict(list)
    counts: Counter[Any] = Counter()
    for row in rows:
        seen[row["world"], row["rows"]].append(row)
        counts[cell_in(row)] += row["world"] % 2 == 0
    for first, last in ((0, FIRST), *((n, n + 1) for n in range(FIRST, MOST))):
        for pair in pairs:
            logs = seen[pair]
            lacking = sum(cell is not None and counts[cell] < LOGS for cell in map(cell_in, logs))
            if last > FIRST and (pair[0] % 2 == 1 or 3 * lacking < len(logs) or not lacking):
                continue
            known = {row["replicate"] for row in logs}
            for replicate in range(first, last):
                if replicate not in known:
                    yield *pair, replicate
                    logs.append(rows[-1])
                    counts[cell_in(rows[-1])] += pair[0] % 2 == 0


def drawn(world: int, rows: int, replicate: int) -> dict[str, Any]:
    """Return one log's estimates and intervals."""
    seed = Trial(spec_of(world, rows), resolve("estimator", "ipws"), replicate).data_seed
    problem, truth = environment(world, rows).sample(
        world_rng=seed.world(), logged_rng=seed.logged(), target_rng=seed.target()
    )
    estimated = world in ESTIMATED
    facts = environment(world, rows).examine(problem, None)
    if estimated and facts["world_unsupported"] > UNSUPPORTED:
        return {"world": world, "rows": rows, "replicate": replicate, "failed": "support"}
    access = Access.TARGET_POLICY if estimated else Access.PROPENSITY | Access.TARGET_POLICY
    view = View(problem, access, seed=seed, fit_cache=FitCache())
    row: dict[str, Any] = {
        "world": world,
        "rows": rows,
        "replicate": replicate,
        "truth": truth.expected,
        "logged": float(problem.reward.mean()),
    }
    weight: FloatArray = np.ones(0)
    for name, params in ESTIMATORS.items():
        given = {"propensity": "estimated"} if estimated and name != "dm" else {}
        estimator = build(resolve("estimator", name, params | given))
        try:
            estimator.fit(view, rng=np.random.default_rng(0), device="cpu")
            found = estimator.estimate(view)
        except Exception as exc:
            row["failed"] = f"{name}: {type(exc).__name__}"
            continue
        row[name], row[f"{name} error"] = found.value, found.standard_error
        if name == "ipws":
            weight = found.weights
            row["effective"] = float(weight.sum() ** 2 / (weight @ weight))
            row["rewarded"] = effective_rewarded(weight, problem.reward)
            if estimated and (row["effective"] < EFFECTIVE[0] or row["rewarded"] < REWARDED[2]):
                return row  # no interval is stated of it
        if name == "dr-eb":
            row["residual error"] = found.diagnostics.get("residual_error")
    if len(weight) and not estimated:
        told = empirical_likelihood_interval(
            weight,
            problem.reward,
            reward_range=(0.0, 1.0),
            weight_range=problem.weight_range(),
        )
        row["likelihood low"], row["likelihood high"] = told.low, told.high
    return row


def write(rows: list[dict[str, Any]], path: Path) -> None:
    """Write the logs, whole or not at all."""
    rows = sorted(rows, key=lambda row: (row["world"], row["rows"], row["replicate"]))
    names = dict.fromkeys(name for row in rows for name in row)
    table = pa.Table.from_pylist([{name: row.get(name) for name in names} for row in rows])
    pq.write_table(table, path.with_suffix(".new"), compression="zstd")
    os.replace(path.with_suffix(".new"), path)


def main(words: Sequence[str]) -> None:
    """Draw what is missing."""
    parser = argparse.ArgumentParser(
        prog="results/regenerate run coverage", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    parser.add_argument("--estimated", action="store_true", help="propensities are estimated")
    given = parser.parse_args(words)
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / ("estimated.parquet" if given.estimated else "logs.parquet")
    rows = pq.read_table(path).to_pylist() if path.exists() else []
    begun, written = time.monotonic(), time.monotonic()
    known = {row["world"] for row in rows}
    others = ((one, ESTIMATED_ROWS[one % 3], 0) for one in ESTIMATED if one not in known)
    for one in others if given.estimated else missing(rows):
        rows.append(drawn(*one))
        if time.monotonic() - written > 60:
            write(rows, path)
            written = time.monotonic()
        if time.monotonic() - begun > given.limit:
            break
    write(rows, path)
