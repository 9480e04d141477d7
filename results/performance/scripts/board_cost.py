"""Processor time of a whole board: every estimator on one setting, with and without shared fits.

    python results/performance/scripts/board_cost.py --output results/performance/board-cost

Every estimator of the suite ``full`` runs once on the same data in one process, as on a board,
where shared fits are kept; what an estimator would take alone is its own time and that of the fits
that it found. Trials run on one thread; time is of the processor, memory what a trial adds to the
process at its peak.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from interleaved import written
from sections import table
from statement import facts_now, statement

from ope_bench.contracts.view import CachedFit, FitCache, ReusedCost

WORLD = "saito-mips[n_samples=10000,n_actions=1000]"
WARM_UP = "saito-mips[n_samples=200,n_actions=10]"

FLOWS = ("fepw", "fepws", "fedr")
"""Estimators that train a flow; those in their printed form end with ``-paper``."""

TEXT = """\
# The cost of a whole board

`{world}`, {count} estimators with their default parameters, processor seconds of one data set.
*On the board*, in the order of the suite `full`, the first that asks for a fit pays for it, and
others find it; *alone*, the fits that were found are added. Memory is the most that the process
grew by on the board; a table of rows and actions would take {table_mb:.0f} MB.

{sums}

*Others*: all but {flows}, which train a flow, and the printed forms, `…-paper`. Most of the
board's {board:,.0f} s are of {dearest}.

{rows}

Unavailable here: {left_out}.
"""

Row = dict[str, Any]


class FoundFits(FitCache):
    """A cache that adds up the processor seconds of the fits that trials find.

    Attributes
    ----------
    seconds : of all of them; a trial is charged with each of its fits once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self._making = 0

    def get(self, key: str, make: Callable[[set[str]], Any]) -> CachedFit:
        """Remember that a fit is being made: what it finds is charged when it is done."""
        self._making += 1
        try:
            return super().get(key, make)
        finally:
            self._making -= 1

    def cost(self, keys: Iterable[str]) -> ReusedCost:
        """Add up what a trial is charged with."""
        cost = super().cost(keys)
        self.seconds += 0.0 if self._making else cost.cpu_seconds
        return cost


def measure(world: str, estimators: Sequence[str]) -> list[Row]:
    """One row for each estimator: seconds on the board and alone, and memory."""
    from ope_bench.suites.manifest import specs_of
    from ope_bench.trials import timing
    from ope_bench.trials.isolation import thread_limit
    from ope_bench.trials.record import Trial
    from ope_bench.trials.trial import Workspace, build, run_trial

    (setting,) = specs_of("environment", world)
    (small,) = specs_of("environment", WARM_UP)
    environment = build(setting)

    rows, fits = [], FoundFits()
    with thread_limit(1):
        # Pinned before: a workspace puts back the settings that it found.
        board = Workspace()
        data = board.data(Trial(setting, specs_of("estimator", "ipw")[0], 0), environment)
        board._data = replace(data, fit_cache=fits)
        for text in estimators:
            (spec,) = specs_of("estimator", text)
            run_trial(Trial(small, spec, 0), Workspace())
            trial = Trial(setting, spec, 0)
            timing.reset_peak_rss()
            before, found = timing.peak_rss_bytes() or 0, fits.seconds
            begun = time.process_time()
            record = run_trial(trial, board)
            seconds = time.process_time() - begun
            alone = seconds + fits.seconds - found
            rise = (record.peak_rss_bytes or before) - before
            rows.append(
                {
                    "estimator": text,
                    "status": record.status.value,
                    "seconds": seconds,
                    "alone": alone,
                    "rise_bytes": max(0, rise),
                    "estimate": record.estimate,
                }
            )
            print(f"{text:24} {seconds:8.2f} {alone:8.2f} {record.status.value}", flush=True)
    return rows


def markdown(report: dict[str, Any]) -> str:
    """The page."""
    rows = [row for row in report["rows"] if row["status"] != "unavailable"]
    heads = ("estimator", "on the board, s", "alone, s", "memory, MB")
    cells = [
        (
            f"`{row['estimator']}`",
            f"{row['seconds']:.2f}",
            f"{row['alone']:.2f}",
            f"{row['rise_bytes'] / 2**20:,.0f}",
        )
        for row in sorted(rows, key=lambda row: -row["alone"])
    ]
    dearest = sorted(rows, key=lambda row: -row["seconds"])[:6]
    left_out = [row["estimator"] for row in report["rows"] if row["status"] == "unavailable"]
    text = TEXT.format(
        world=report["world"],
        count=len(rows),
        table_mb=report["table_mb"],
        board=sum(row["seconds"] for row in rows),
        dearest=", ".join(f"`{row['estimator']}` ({row['seconds']:.1f} s)" for row in dearest),
        sums=table(("", "board, s", "dearest alone, s", "ratio", "all alone, s"), summary(rows)),
        flows=", ".join(f"`{name}`" for name in FLOWS),
        rows=table(heads, cells),
        left_out=", ".join(left_out) or "none",
    )
    return f"{text}\n{statement(report)}"


def summary(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Sums over all estimators, and over those without a flow that are not printed forms."""

    def is_other(name: str) -> bool:
        return name not in FLOWS and not name.endswith("-paper")

    few = [row for row in rows if is_other(row["estimator"])]
    return [_sums("all", rows), _sums("others", few)]


def _sums(name: str, rows: Sequence[Row]) -> tuple[str, ...]:
    board, alone = (sum(row[key] for row in rows) for key in ("seconds", "alone"))
    dearest = max(rows, key=lambda row: row["alone"])
    return (
        name,
        f"{board:,.0f}",
        f"{dearest['alone']:,.0f} (`{dearest['estimator']}`)",
        f"{board / dearest['alone']:.2f}",
        f"{alone:,.0f}",
    )


def main() -> int:
    """Measure and write."""
    from ope_bench.suites.manifest import plan, specs_of
    from ope_bench.suites.suite import find_suite, selector_of

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--world", default=WORLD)
    parser.add_argument("--estimators", nargs="+", help="instead of those of the suite full")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    plugins = plan(find_suite("full")).plugins()
    known = [selector_of(one) for one in plugins if one.kind == "estimator"]
    report = {
        "command": shlex.join(["python", *sys.argv]),
        **facts_now(),
        "world": given.world,
        "rows": measure(given.world, given.estimators or known),
    }
    (setting,) = specs_of("environment", given.world)
    size = setting.params["n_samples"] * setting.params["n_actions"]
    report["table_mb"] = size * 8 / 2**20
    if given.output:
        written(given.output, report, markdown(report))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
