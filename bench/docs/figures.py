"""Draws the figures of committed suites, which the site shows where they are.

    python bench/docs/figures.py [SUITE...]

They lie in build/figures, a folder each, and are drawn again where the trials are newer. Without
them pages of suites have tables alone.
"""

from __future__ import annotations

import sys

from committed import FIGURES, RESULTS, folders_with_boards
from ope_bench.cli.app import invoke

CHARTS = ("sweep", "pareto", "times", "positivity", "coverage", "ranks")
"""All but intervals and distributions setting by setting, which fill megabytes."""


def main() -> int:
    """Draw the figures of the suites that are named, or of all."""
    codes = []
    for folder in folders_with_boards(RESULTS):
        name = folder.relative_to(RESULTS).as_posix()
        trials, into = folder / "trials.parquet", FIGURES / name
        drawn = into.exists() and into.stat().st_mtime > trials.stat().st_mtime
        if not drawn and (name in sys.argv[1:] or not sys.argv[1:]):
            given = ["--store", str(trials), "--figures", str(into), "--charts", ",".join(CHARTS)]
            codes.append(invoke(["report", *given]))
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
