"""What `ope-bench log check` costs on a long log: processor, wall time and memory by form of file.

    python results/performance/scripts/log_check_cost.py \\
        --output results/performance/log-check-cost
    python results/performance/scripts/log_check_cost.py --rows 10000000 \\
        --output results/performance/log-check-cost

Nine columns: a time, a unit of five rows, a text, a new policy's action and a logged one of 1,000
words, a reward, a propensity, two contexts. Start-up is the same command on a thousand rows; the
time beyond it is what the rows cost. What was measured before on the same machine is kept.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import psutil
from statement import Page, facts_now, resumed

FORMS = ("csv", "csv.gz", "parquet")
FEW, BLOCK = 1_000, 1_000_000
LOG_FILE = """\
schema: 1
table: {table}
context: [z0, z1, note]
action: item
reward: click
reward_range: [0, 1]
propensity: p
time: at
unit: user
target: {{action: shown}}
"""


def rows_of(count: int, block: int) -> pl.DataFrame:
    """Return rows of one block: a tenth explores 1,000 items, the rest is a policy of z0."""
    rng = np.random.default_rng([20261129, block])
    words = np.array([f"item-{j:03}" for j in range(1000)])
    z = rng.normal(size=(count, 2))
    chosen = (np.abs(z[:, 0]) * 5).astype(int).clip(max=9)
    explores = rng.random(count) < 0.5
    action = np.where(explores, rng.integers(1000, size=count), chosen)
    shown = (np.abs(z[:, 1]) * 5).astype(int).clip(max=9)
    noted = np.array(["came back", "new", "from a friend", "unknown, so far"])
    return pl.DataFrame(
        {
            "at": 1.7e9 + np.arange(count) + float(block * BLOCK),
            "user": block * BLOCK + rng.integers(count // 5 + 1, size=count),
            "note": noted[rng.integers(4, size=count)],
            "item": words[action],
            "shown": words[shown],
            "click": (rng.random(count) < 0.1 + 0.05 * (action % 3)).astype(int),
            "p": 0.5 / 1000 + 0.5 * (action == chosen),
            "z0": z[:, 0].round(4),
            "z1": z[:, 1].round(4),
        }
    )


def write_log(folder: Path, rows: int, form: str) -> Path:
    """Write the log in one form, block by block; return its YAML file."""
    table = folder / f"log-{rows}.{form}"
    plain = folder / f"log-{rows}.csv"
    blocks = [min(BLOCK, rows - first) for first in range(0, rows, BLOCK)]
    if form == "parquet":
        pl.concat([rows_of(count, j) for j, count in enumerate(blocks)]).write_parquet(table)
    else:
        with plain.open("wb") as file:
            for j, count in enumerate(blocks):
                rows_of(count, j).write_csv(file, include_header=j == 0)
        if form == "csv.gz":
            with plain.open("rb") as file, gzip.open(table, "wb", compresslevel=1) as packed:
                shutil.copyfileobj(file, packed)
            plain.unlink()
    path = folder / "log.yaml"
    path.write_text(LOG_FILE.format(table=table.name))
    return path


def measure(arguments: Sequence[str]) -> tuple[float, float, int]:
    """Run a command; return its processor and wall seconds and its largest resident bytes."""
    begun, most = time.monotonic(), 0
    before = os.times()
    with subprocess.Popen(
        [sys.executable, "-m", "ope_bench", *arguments], stdout=subprocess.DEVNULL
    ) as child:
        process = psutil.Process(child.pid)
        while child.poll() is None:
            try:
                family = [process, *process.children(recursive=True)]
                most = max(most, sum(one.memory_info().rss for one in family))
            except psutil.NoSuchProcess:
                pass
            time.sleep(0.05)
    if child.returncode not in (0, 1):
        msg = f"{shlex.join(arguments)} ended with {child.returncode}"
        raise SystemExit(msg)
    after = os.times()
    spent = after.children_user + after.children_system
    spent -= before.children_user + before.children_system
    return spent, time.monotonic() - begun, most


def row_of(folder: Path, rows: int, form: str) -> dict[str, Any]:
    """Measure start-up and one form of file; the file is gone afterwards."""
    start, _, _ = measure(["log", "check", str(write_log(folder, FEW, form))])
    spent, wall, most = measure(["log", "check", str(write_log(folder, rows, form))])
    table = folder / f"log-{rows}.{form}"
    size = table.stat().st_size
    table.unlink()
    return {
        "rows": rows,
        "form": form,
        "file": size,
        "start": start,
        "processor": spent,
        "wall": wall,
        "bytes": most,
    }


def tables(report: dict[str, Any]) -> str:
    """Return the table of one machine."""
    lines = [
        "| rows | file | file, MB | start-up | processor beyond it | wall | GiB |",
        "|---:|:---|---:|---:|---:|---:|---:|",
    ]
    for row in sorted(report["rows"], key=lambda row: (row["rows"], row["form"])):
        beyond, memory = row["processor"] - row["start"], row["bytes"] / 2**30
        lines.append(
            f"| {row['rows']:,} | `.{row['form']}` | {row['file'] / 1e6:,.0f} | "
            f"{row['start']:.1f} | {beyond:.1f} | {row['wall']:.1f} | {memory:.2f} |"
        )
    return "\n".join(lines)


PAGE = Page(
    "# What `log check` costs\n\n"
    "Seconds of `ope-bench log check` on a log of nine columns: a time, a unit of five rows, a "
    "text, a\nnew policy's action and a logged one of 1,000 words, a reward, a propensity, two "
    "contexts.\nStart-up is the same command on a thousand rows. Memory is that of all its "
    "processes.",
    tables,
)


def main() -> int:
    """Read the arguments, measure, and print or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--form", choices=FORMS, action="append", help="default: all")
    parser.add_argument("--output", type=Path, help="FOLDER/NAME of the two files written")
    given = parser.parse_args()
    command = f"python results/performance/scripts/{Path(__file__).name} --rows {given.rows}"
    report = {"command": command, **facts_now(), "rows": []}
    if given.output:
        report = resumed(given.output, report)
    with tempfile.TemporaryDirectory() as folder:
        for form in given.form or FORMS:
            row = row_of(Path(folder), given.rows, form)
            others = [
                one
                for one in report["rows"]
                if (one["rows"], one["form"]) != (row["rows"], row["form"])
            ]
            report["rows"] = [*others, row]
            sys.stdout.write(f"{row}\n")
            sys.stdout.flush()
            if given.output:
                PAGE.write(given.output, report)
    sys.stdout.write(tables(report) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
