"""What a sealed trial costs beside the same trial unsealed, in turns.

    python results/performance/scripts/sealed_cost.py [--rounds 40] \\
        --output results/performance/sealed-trials

Both in one process that takes turns, which a worker's code does in the same way.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from ope_bench import Estimator
from ope_bench.execution.local import foreign_code_apart
from ope_bench.plugins.registry import registry
from ope_bench.suites.manifest import plan
from ope_bench.suites.suite import adhoc
from ope_bench.trials.record import Trial
from ope_bench.trials.status import Status
from ope_bench.trials.trial import Workspace, build, run_trial

LIBRARIES = {
    "NumPy": "numpy",
    "scikit-learn": "sklearn.ensemble",
    "scikit-learn and torch": "sklearn.ensemble, torch",
}

INTRO = """# Sealed trials

Milliseconds of a trivial trial of another package's estimator on `saito-toy`, sealed, that is
[in a process of its own](../../bench/docs/defenses.md#sealed-trials), and not sealed, in turns, by
the libraries that its process has loaded. Wall time from the worker's side, and time of the
processor of all processes that take part. Fits that trials share are made anew in each sealed
trial, which is not in these figures. The aim: at most 80 ms with scikit-learn, 200 ms with torch.
"""

SOURCE = '''
import {libraries}
from ope_bench import Estimate, Estimator


class Trivial(Estimator):
    """The logged average."""

    def estimate(self, view):
        return Estimate(float(view.reward.mean()))
'''


def install(folder: Path) -> None:
    """Put a distribution with an estimator for each set of libraries into a folder."""
    points = []
    for number, libraries in enumerate(LIBRARIES.values()):
        (folder / f"acme_trivial_{number}.py").write_text(SOURCE.format(libraries=libraries))
        points.append(f"trivial-{number} = acme_trivial_{number}:Trivial")
    info = folder / "acme_trivial.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-trivial\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ope_bench.estimators]\n" + "\n".join(points))
    (info / "RECORD").write_text("".join(f"acme_trivial_{n}.py,,\n" for n in range(len(points))))


def processor() -> float:
    """Return the processor seconds of this process and of all that have ended below it."""
    own = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in own)


def measured(trial: Trial, workspace: Workspace, estimator: Estimator) -> float:
    """Run a trial; return its wall milliseconds."""
    begun = time.perf_counter()
    record = run_trial(trial, workspace, estimator=estimator)
    seconds = time.perf_counter() - begun
    if record.status is not Status.OK:
        sys.exit(f"{record.error_message}")
    return 1000 * seconds


def row(number: int, rounds: int) -> dict[str, float]:
    """Measure one set of libraries."""
    workspace, sealed, unsealed = Workspace(mapped=True), list[float](), list[float]()
    with foreign_code_apart(hidden=[]) as foreign:
        if foreign.missing:
            sys.exit(foreign.missing)
        (trial,) = plan(adhoc(["saito-toy"], [f"trivial-{number}"])).trials[:1]
        there = build(trial.estimator)
        here: Callable[[], Estimator] = importlib.import_module(f"acme_trivial_{number}").Trivial
        for _ in range(3):  # what was loaded there is loaded where it is forked from
            measured(trial, workspace, there)
        measured(trial, workspace, here())
        *_, process = psutil.Process(foreign._process.pid).children(recursive=True)
        before = sum(process.cpu_times()[:4])
        own = time.process_time()
        for _ in range(rounds):
            sealed.append(measured(trial, workspace, there))
            own -= time.process_time()
            unsealed.append(measured(trial, workspace, here()))
            own += time.process_time()
        spent = time.process_time() - own + sum(process.cpu_times()[:4]) - before
    return {
        "shortest": min(sealed),
        "median": median(sealed),
        "processor": 1000 * spent / rounds,
        "open_shortest": min(unsealed),
        "open_median": median(unsealed),
    }


def tables(report: dict[str, Any]) -> str:
    """Return the table of a machine's report."""
    keys = ("shortest", "median", "processor", "open_shortest", "open_median")
    parts = [
        "| loaded | sealed, shortest | median | its processor | not sealed, shortest | median |",
        "|:---|---:|---:|---:|---:|---:|",
    ]
    rows = ((row["loaded"], *(f"{row[key]:.3g}" for key in keys)) for row in report["rows"])
    return "\n".join([*parts, *(f"| {' | '.join(cells)} |" for cells in rows)])


def main() -> None:
    """Measure, print the table, and write the page."""
    from statement import Page, facts_now

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--output", type=Path, help="FOLDER/NAME of the two files written")
    given = parser.parse_args()
    command = f"python results/performance/scripts/sealed_cost.py --rounds {given.rounds}"
    report: dict[str, Any] = {"command": command, **facts_now()}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as left:
        install(Path(folder))
        sys.path.append(folder)
        left.callback(sys.path.remove, folder)
        registry.cache_clear()
        report["rows"] = [
            {"loaded": name, **row(number, given.rounds)} for number, name in enumerate(LIBRARIES)
        ]
    print(tables(report))
    if given.output:
        Page(INTRO, tables).write(given.output, report)


if __name__ == "__main__":
    main()
