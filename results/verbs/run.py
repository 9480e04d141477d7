"""Runs suites and writes the boards, figures, trials and facts of each below results/.

    results/regenerate run NAME...           suites, `paper`, `all`; resumes what was interrupted
    results/regenerate run --keep SUITE...   only trials that are not committed
    results/regenerate run DRAW [WORDS]      what no trial holds, drawn again

In the end the pages are written.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from ope_bench.suites.suite import find_suite
from verbs import folders, keep, write

PAPER = (
    *("paper-actions", "paper-samples", "paper-failures", "paper-behance"),
    *("paper-appendix-actions", "paper-appendix-samples", "paper-behance-resampled"),
    "paper-flow-adapted",
)
"""Suites of the paper; they share a store, so that a trial that two of them have is run once."""

BEYOND = (
    *("quick", "density-ratio", "ablation", "large-samples", "samples-only"),
    *("deterministic-embedding", "behance", "weighting", "doubly-robust", "large-actions"),
    *("large-actions-default", "continuous", "tuning", "advice", "intervals", "intervals-models"),
    *("randomized", "propensities", "ranking", "loggers", "drift", "field", "field-signals"),
    *("field-real", "field-trials", "field-trials-again", "field-slow", "field-defaults"),
    *("verdicts", "choice", "choice-real", "choice-trials", "choice-samples", "choice-fresh"),
    *("choice-confirm", "published-ocv", "published-obp-digits", "published-obp-synthetic"),
    *("published-mips", "published-ls-radii", "published-offcem", "published-loggers"),
    *("published-cosine", "published-satimage", "full"),
)
DRAWS = ("average-errors", "coverage", "other-rows", "predictions", "verdicts", "yardsticks")
"""Modules of `draws`."""


def main(words: Sequence[str]) -> int:
    """Run what is named, then write the pages."""
    if words and words[0] in DRAWS and "--keep" not in words:
        draw(words[0], words[1:])
        return write.main([])
    parser = argparse.ArgumentParser(
        prog="results/regenerate run", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("names", nargs="+", metavar="NAME", help="suite, `paper`, `all`, or draw")
    parser.add_argument("--keep", action="store_true", help="committed trials run no second time")
    parser.add_argument("--jobs", type=int, default=1, help="with --keep: trials at once")
    parser.add_argument(
        "--without-missing", action="store_true", help="with --keep: run nothing, leave them out"
    )
    parser.add_argument("--anew", default="", help="with --keep: names, values, or NAME:VALUE")
    given = parser.parse_args(words)
    if not given.keep and given != parser.parse_args(given.names):
        parser.error("--jobs, --without-missing and --anew are options of --keep")
    groups = {"paper": PAPER, "all": PAPER + BEYOND}
    names = [one for name in given.names for one in groups.get(name, (name,))]
    for name in names:
        if name not in DRAWS:
            find_suite(name)  # an unknown name is refused before anything runs
    for name in names:
        if name in DRAWS:
            draw(name, [])
        elif given.keep:
            wanted = not given.without_missing
            keep.remake(
                name,
                jobs=given.jobs,
                run_missing=wanted,
                anew=[*filter(None, given.anew.split(","))],
            )
            draw_others(name)
        else:
            run(name)
    return write.main([])


def draw(name: str, words: Sequence[str]) -> None:
    """Draw what no trial holds."""
    import_module(f"draws.{name.replace('-', '_')}").main(words)


def run(suite: str) -> None:
    """Run a suite into its store, and write its folder."""
    shared = "paper" if suite in PAPER else suite
    store, out = ["--store", f"results-{shared}.sqlite"], folders.folder_of(suite)
    out.mkdir(parents=True, exist_ok=True)
    call("run", suite, *store)
    call("store", "info", *store, "--format", "json", to=out / "run.json")
    if suite == "full":  # what runs and what it takes: its replicates rank nothing
        board = ["--by", "time", "--format", "markdown"]
        call("leaderboard", "--suite", suite, *store, *board, to=out / "leaderboard.md")
        return
    call("export", "--suite", suite, *store, "--to", str(out / "trials.parquet"))
    folders.show(suite)
    draw_others(suite)


def draw_others(suite: str) -> None:
    """Draw the values in the rows that logs of a suite's randomized trials leave."""
    if "-trials" in suite:
        draw("other-rows", [suite])


def call(*words: str, to: Path | None = None) -> None:
    """Call ope-bench at the root of the repository; its exit code, if there is one, is ours."""
    done = subprocess.run(  # noqa: S603  our own command
        ["ope-bench", *words],  # noqa: S607  of the environment that is active
        cwd=folders.RESULTS.parent,
        env={**os.environ, "COLUMNS": "100"},
        stdout=subprocess.PIPE if to else None,
        check=False,
    )
    if done.returncode:
        sys.exit(done.returncode)
    if to:
        to.write_bytes(done.stdout)
