"""Runs the benchmarks of `tests/benchmarks` and writes their medians as a page of results.

    python results/performance/scripts/hot_paths.py --output results/performance/hot-paths

Seconds of one machine, for looking up where time goes; to compare two states of the code, use
pytest-benchmark's own ``--benchmark-autosave`` and ``--benchmark-compare`` on the same machine.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from itertools import groupby
from pathlib import Path
from typing import Any

from statement import Page, facts_now

from ope_bench.report.tables import figure

BENCHMARKS = Path(__file__).parents[3] / "tests" / "benchmarks"


def run(arguments: list[str]) -> list[dict[str, Any]]:
    """A row for each benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.json"
        files = sorted(str(path) for path in BENCHMARKS.glob("test_*.py"))
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", f"--benchmark-json={told}", *files, *arguments],
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            check=False,
        )
        if done.returncode not in (0, 1):
            msg = f"pytest ended with {done.returncode}"
            raise RuntimeError(msg)
        kept = json.loads(told.read_text())["benchmarks"]
    return [
        {
            "file": Path(one["fullname"].partition("::")[0]).stem,
            "name": one["name"].removeprefix("test_").replace("_", " "),
            **{figure: one["stats"][figure] for figure in ("median", "min", "max", "rounds")},
            "told": one["extra_info"],
        }
        for one in kept
    ]


INTRO = "# Hot paths\n\nMilliseconds by the wall: median (shortest to longest)."


def tables(report: dict[str, Any]) -> str:
    """The tables of one machine."""
    parts = []
    for file, rows in groupby(report["rows"], key=lambda row: row["file"]):
        title = file.removeprefix("test_").removesuffix("_benchmark").replace("_", " ")
        parts += [f"### {title.capitalize()}", "", "| what | ms | rounds |", "|:---|---:|---:|"]
        parts += [line(row) for row in rows]
        parts.append("")
    return "\n".join(parts)


def line(row: dict[str, Any]) -> str:
    """A row of a table."""
    median, least, most = (figure(1e3 * row[name]) for name in ("median", "min", "max"))
    facts = "".join(f"; {name}: {value:.3g}" for name, value in row["told"].items())
    return f"| {row['name']}{facts} | {median} ({least} to {most}) | {row['rounds']} |"


PAGE = Page(INTRO, tables)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help="FOLDER/NAME of the two files written")
    given, arguments = parser.parse_known_args()
    words = ["python", f"results/performance/scripts/{Path(__file__).name}", *arguments]
    report: dict[str, Any] = {"command": shlex.join(words), **facts_now(), "rows": run(arguments)}
    if given.output:
        PAGE.write(given.output, report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
