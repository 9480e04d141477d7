"""A user's log in a folder of parquet files, read in batches: time and memory of `estimate`.

    python results/performance/scripts/own_log_stream.py large --rows 100_000_000 --write PAGE.md

Writes an invented log of six context columns and ten actions into the folder, a file for each
million rows, unless it is there, with its log file and a new policy as code; and runs
`ope-bench estimate` on it. Memory is the largest resident memory of the command.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
from sections import put, table

ACTIONS, CONTEXTS, STEP = 10, 6, 1_000_000

LOG_FILE = """\
schema: 1
table: rows
context: [x0, x1, x2, x3, x4, x5]
action: action
reward: reward
reward_range: [0, 1]
propensity: p
target: {policy: "policy.py:policy"}
"""

POLICY = """\
import numpy as np

def policy(context):
    score = np.multiply.outer(np.asarray(context["x0"]), np.linspace(-1, 1, 10)) * 0.9
    np.exp(score, out=score)
    score /= score.sum(axis=1, keepdims=True)
    return score
"""


def write_log(folder: Path, rows: int) -> Path:
    """Write the log, unless its files are there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (folder / "rows").mkdir(parents=True, exist_ok=True)
    (folder / "log.yaml").write_text(LOG_FILE, encoding="utf-8")
    (folder / "policy.py").write_text(POLICY, encoding="utf-8")
    for number in range(-(-rows // STEP)):
        path = folder / "rows" / f"part-{number:05d}.parquet"
        if path.exists():
            continue
        rng = np.random.default_rng(number)
        n = min(STEP, rows - number * STEP)
        x = rng.normal(size=(n, CONTEXTS)).astype(np.float32)
        chance = np.exp(0.5 * x[:, :1] * np.linspace(-1, 1, ACTIONS))
        chance /= chance.sum(axis=1, keepdims=True)
        action = (rng.random((n, 1)) > chance.cumsum(axis=1)).sum(axis=1).clip(max=ACTIONS - 1)
        mean = 1 / (1 + np.exp(1.5 - 0.2 * x[:, 1] - 0.1 * action))
        columns = {f"x{j}": x[:, j] for j in range(CONTEXTS)}
        columns |= {"action": action.astype(np.int8), "p": chance[np.arange(n), action]}
        columns["reward"] = (rng.random(n) < mean).astype(np.float32)
        partial = path.with_suffix(".partial")
        pq.write_table(pa.table(columns), partial)
        partial.rename(path)
    return folder / "log.yaml"


def main() -> int:
    """Read the arguments, measure, and print or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=STEP)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", type=Path, metavar="PAGE.md")
    given = parser.parse_args()
    path = write_log(given.folder, given.rows)
    command = [sys.executable, "-m", "ope_bench", "estimate", str(path), "--jobs", str(given.jobs)]
    begun = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        output = process.stdout.read() if process.stdout else ""
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall, size = (
        time.perf_counter() - begun,
        sum(p.stat().st_size for p in path.parent.rglob("*.parquet")),
    )
    heads = ["rows", "GB of files", "wall s", "processor s", "GiB of memory"]
    cells = [f"{given.rows:,}", f"{size / 1e9:.1f}", f"{wall:.0f}"]
    cells += [f"{used.ru_utime + used.ru_stime:.0f}", f"{used.ru_maxrss / 2**20:.2f}"]
    load = psutil.getloadavg()[0]
    text = (
        f"Eight estimators, {given.jobs} threads. Load average at the end: {load:.1f}; above the "
        "number of cores, others shared the machine, and wall times are too long."
    )
    body = f"{text}\n\n{table(heads, [cells])}"
    if given.write:
        put(given.write, "Own logs", f"Rows in batches: {given.rows:,}", body)
    else:
        sys.stdout.write(f"{output}\n{body}\n")
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
