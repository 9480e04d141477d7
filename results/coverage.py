"""Draws logs of drawn worlds, small and large, and writes what every interval says of each.

    python results/coverage.py [--limit SECONDS] [--part I/N]

Clean logs of worlds of the second priors with binary rewards, down to one click in a thousand. A
world's facts, not its logs, say which numbers of rows are drawn of it, such that each cell of
effective rewarded rows x effective sample size is filled. From results/coverage/logs.parquet
`results/write.py` makes a table of results/recommendation.md and what `estimate` and `advise`
quote. Calls resume; with ``--part`` every Nth log is drawn, into a file of its own, and ``--join``
puts them together.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
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

FOLDER = Path(__file__).resolve().parent / "coverage"

WORLDS = range(2001, 2801)
ROWS = (250, 600, 1500, 4000)
REPLICATES = 10
QUOTA = {True: 22, False: 48}
"""Worlds in each expected cell, odd and even: the odd ones choose a constant, the others judge."""

REWARDED, EFFECTIVE = (0.0, 10.0, 20.0, 50.0, 200.0), (30.0, 100.0, 500.0)

ESTIMATORS: dict[str, dict[str, Any]] = {
    "ipws": {},
    "sndr": {},
    "dm": {"cross_fit": 5},
    "dr-os": {},
    "tmle": {},
    "dr-eb": {},
    "dr-eb toward=tmle": {"toward": "tmle"},
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
    params = {
        "priors": 2,
        "world": world,
        "n_samples": rows,
        "n_actions": 2 + world % 9,
        "reward": "binary",
        "contexts": "few",
        "users": "one-row",
        "phases": "of-time",
        "known": "policy",
        "target_form": "probabilities",
    }
    return resolve("environment", "population", params)


def cell_of(rewarded: float, effective: float) -> tuple[int, int] | None:
    """Return the number of the cell; None below the least effective sample size."""
    if effective < EFFECTIVE[0]:
        return None
    return tuple(
        int(np.searchsorted(limits, value, "right")) - 1
        for limits, value in zip((REWARDED, EFFECTIVE), (rewarded, effective), strict=True)
    )  # type: ignore[return-value]


def planned() -> Iterator[tuple[int, int, int]]:
    """Yield world, rows and replicate of each log, world by world."""
    filled: Counter[tuple[bool, tuple[int, int]]] = Counter()
    for world in WORLDS:
        facts = build(spec_of(world, ROWS[0]))._drawn().facts
        if facts["world_unsupported"] > 1e-3:
            continue
        for rows in ROWS:
            effective = facts["world_ess_fraction"] * rows
            rate = min(facts["world_mean_reward"], 1 - facts["world_mean_reward"])
            cell = cell_of(rate * effective, effective)
            odd = world % 2 == 1
            if cell is not None and filled[odd, cell] < QUOTA[odd]:
                filled[odd, cell] += 1
                yield from ((world, rows, replicate) for replicate in range(REPLICATES))


def drawn(world: int, rows: int, replicate: int) -> dict[str, Any]:
    """Return one log's estimates and intervals."""
    spec = spec_of(world, rows)
    seed = Trial(spec, resolve("estimator", "ipws"), replicate).data_seed
    problem, truth = build(spec).sample(
        world_rng=seed.world(), logged_rng=seed.logged(), target_rng=seed.target()
    )
    access = Access.PROPENSITY | Access.TARGET_POLICY
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
        estimator = build(resolve("estimator", name.partition(" ")[0], params))
        estimator.fit(view, rng=np.random.default_rng(0), device="cpu")
        try:
            found = estimator.estimate(view)
        except Exception as exc:
            row["failed"] = f"{name}: {type(exc).__name__}"
            continue
        row[name], row[f"{name} error"] = found.value, found.standard_error
        if name == "ipws":
            weight = found.weights
        if name == "dr-eb":
            row["residual error"] = found.diagnostics.get("residual_error")
    if len(weight):
        row["effective"] = float(weight.sum() ** 2 / (weight @ weight))
        row["rewarded"] = effective_rewarded(weight, problem.reward)
        for name, weights in (("likelihood", problem.weight_range()), ("wide", (0.0, np.inf))):
            told = empirical_likelihood_interval(
                weight, problem.reward, reward_range=(0.0, 1.0), weight_range=weights
            )
            row[f"{name} low"], row[f"{name} high"] = told.low, told.high
    return row


def write(rows: list[dict[str, Any]], path: Path) -> None:
    """Write the logs, whole or not at all."""
    names = dict.fromkeys(name for row in rows for name in row)
    table = pa.Table.from_pylist([{name: row.get(name) for name in names} for row in rows])
    pq.write_table(table, path.with_suffix(".new"), compression="zstd")
    os.replace(path.with_suffix(".new"), path)


def main() -> None:
    """Draw what is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    parser.add_argument("--part", default="0/1", help="which logs, of how many parts")
    parser.add_argument("--join", action="store_true", help="put the parts together")
    given = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    plan = FOLDER / "plan.json"
    if not plan.exists():
        plan.write_text(json.dumps(list(planned())) + "\n", encoding="utf-8")
    logs = [tuple(one) for one in json.loads(plan.read_text(encoding="utf-8"))]
    # An early end leaves all worlds with fewer logs; a world is drawn once for some of them.
    logs.sort(key=lambda one: one[2] // 3)
    if given.join:
        rows = [
            row
            for path in FOLDER.glob("part-*.parquet")
            for row in pq.read_table(path).to_pylist()
        ]
        rows.sort(key=lambda row: (row["world"], row["rows"], row["replicate"]))
        write(rows, FOLDER / "logs.parquet")
        return
    part, of = map(int, given.part.split("/"))
    path = FOLDER / f"part-{part}.parquet"
    rows = pq.read_table(path).to_pylist() if path.exists() else []
    known = {(row["world"], row["rows"], row["replicate"]) for row in rows}
    begun, written = time.monotonic(), time.monotonic()
    for one in logs[part::of]:
        if one in known:
            continue
        rows.append(drawn(*one))
        if time.monotonic() - written > 60:
            write(rows, path)
            written = time.monotonic()
        if time.monotonic() - begun > given.limit:
            break
    write(rows, path)


if __name__ == "__main__":
    main()
