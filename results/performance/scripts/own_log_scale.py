"""A user's log of many rows and items: time and memory of its commands.

    python results/performance/scripts/own_log_scale.py --write results/performance/own-logs.md
    python results/performance/scripts/own_log_scale.py --rows 50000 --items 100 \\
        --write results/performance/own-logs.md

Writes decisions, items and a sparse new policy of twenty items a row as parquet files into a
temporary folder, and runs `ope-bench estimate` with five estimators, `ope-bench log check` and
`ope-bench advise` on them. Memory is the largest resident memory of the command and all of its
workers together, seen ten times a second; pages that several of them map from one file are counted
once.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from sections import put, table

ESTIMATORS = ("ipw", "ipws", "sg-ipw", "dm", "dr-os")
MODEL = "[regressor=ridge,action_features=embedding]"
KEPT = 20
SECONDS, BYTES = {"estimate": 180.0, "log check": 180.0, "advise": 10.0}, 4 << 30
"""What was promised for a million rows and ten thousand items."""

LOG_FILE = """\
schema: 1
table: decisions.parquet
context: [x0, x1, x2, x3, x4]
action: item
reward: click
reward_range: [0, 1]
propensity: p
items: {table: items.parquet, key: item, embedding: [e0, e1, e2, e3]}
target: {table: target.parquet}
"""


def write_log(folder: Path, rows: int, items: int) -> Path:
    """Write the log: both policies play twenty items a row, half of them in common."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    context = rng.normal(size=(rows, 5))
    embedding = rng.normal(size=(items, 4))
    first = rng.integers(items, size=rows)
    steps = np.arange(KEPT)
    logged = (first[:, None] + steps) % items
    share = rng.dirichlet(np.ones(KEPT), rows)
    pick = (np.cumsum(share, axis=1) < rng.random(rows)[:, None]).sum(axis=1).clip(max=KEPT - 1)
    action = logged[np.arange(rows), pick]
    logit = -2.0 + 0.3 * (context[:, :4] * embedding[action]).sum(axis=1)
    columns = {f"x{j}": context[:, j] for j in range(5)}
    columns |= {"item": action, "click": (rng.random(rows) < 1 / (1 + np.exp(-logit))).astype(int)}
    columns |= {"p": share[np.arange(rows), pick]}
    described = {f"e{j}": embedding[:, j] for j in range(4)}
    wanted = rng.dirichlet(np.ones(KEPT), rows)
    target = {
        "row": np.repeat(np.arange(rows), KEPT),
        "action": ((first[:, None] + steps + KEPT // 2) % items).reshape(-1),
        "probability": wanted.reshape(-1),
    }
    for name, held in (
        ("decisions", columns),
        ("items", {"item": np.arange(items), **described}),
        ("target", target),
    ):
        pq.write_table(pa.table(held), folder / f"{name}.parquet")
    path = folder / "log.yaml"
    path.write_text(LOG_FILE)
    return path


def resident(process: psutil.Process) -> int:
    """Resident bytes of a process and its descendants; pages shared by files counted once."""
    total, mapped = 0, 0
    try:
        every = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for one in every:
        try:
            held = one.memory_info()
        except psutil.NoSuchProcess:
            continue
        total += held.rss - held.shared
        mapped = max(mapped, held.shared)
    return total + mapped


def measure(arguments: Sequence[str]) -> dict[str, Any]:
    """Run a command; return its seconds, processor seconds, memory and document."""
    command = [sys.executable, "-m", "ope_bench", *arguments, "--format", "json"]
    begun, most, spent = time.monotonic(), 0, 0.0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        process = psutil.Process(child.pid)
        while child.poll() is None:
            most = max(most, resident(process))
            try:
                every = [process, *process.children(recursive=True)]
                spent = max(spent, sum(sum(one.cpu_times()[:2]) for one in every))
            except psutil.NoSuchProcess:
                pass
            time.sleep(0.1)
        output, errors = child.communicate()
    if child.returncode != 0:
        raise SystemExit(errors.decode())
    seconds = time.monotonic() - begun
    return {"seconds": seconds, "cpu": spent, "bytes": most, "document": json.loads(output)}


def lines(path: Path) -> Iterator[list[str]]:
    """Measure each command; say what came of it."""
    selectors = [f"{one}{MODEL if one[0] == 'd' else ''}" for one in ESTIMATORS]
    every = [word for one in selectors for word in ("--est", one)]
    for name, arguments in (
        ("estimate", ["estimate", str(path), *every]),
        ("log check", ["log", "check", str(path)]),
        ("advise", ["advise", str(path)]),
    ):
        found = measure(arguments)
        rows = found["document"].get("targets", [{"rows": []}])[0]["rows"]
        failed = [row for row in rows if row["status"] != "ok"]
        if failed:
            raise SystemExit(str(failed))
        kept = found["seconds"] <= SECONDS[name] and found["bytes"] <= BYTES
        yield [
            f"`{name}`",
            f"{found['seconds']:.0f}",
            f"{found['cpu']:.0f}",
            f"{found['bytes'] / 2**30:.2f}",
            "yes" if kept else "**no**",
        ]
        for row in rows:
            yield [f"{row['label']}", f"{row['seconds']:.1f}", "", "", ""]


def main() -> int:
    """Read the arguments, measure, and print or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=Path, metavar="PAGE.md")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=10_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = write_log(Path(folder), given.rows, given.items)
        heads = ["command, and fit and estimate of each estimator"]
        heads += ["wall s", "processor s", "GiB", "within 180 s (`advise` 10 s) and 4 GiB"]
        found = table(heads, lines(path))
    load = psutil.getloadavg()[0]
    text = (
        f"{given.rows:,} rows, {given.items:,} items, a new policy of {KEPT} items a row, as "
        f"parquet. Load average at the end: {load:.1f}; above the number of cores, others shared "
        "the machine, and wall times are too long."
    )
    if given.write:
        million = given.rows == 1_000_000
        section = "A million rows" if million else f"{given.rows:,} rows"
        put(given.write, "Own logs", section, f"{text}\n\n{found}")
    else:
        sys.stdout.write(f"{text}\n\n{found}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
