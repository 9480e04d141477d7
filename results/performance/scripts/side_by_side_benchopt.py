"""What a trivial trial costs beside benchopt: first runs and resumed ones, one job and two.

    python results/performance/scripts/side_by_side_benchopt.py --peer PEER/bin/python

The work is the mean of fifty coins, by ten estimators (solvers) on the same data. Every
measurement is a whole command in an empty place, at two numbers of trials; their difference is
what the trials cost, start-up and boards left out, and the rest is what a run costs anyhow. Our
trials are isolated in killable workers and each is durably stored before the next is told of;
``in process`` leaves the isolation out, as benchopt does. Two jobs share their trials, so theirs
is wall time a trial.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import interleaved
from statement import Page, facts_now

INSTALL = "python3.11 -m venv PEER && PEER/bin/pip install benchopt"
ACME = Path(__file__).parents[3] / "tests" / "plugins" / "acme-ope"
METHODS = 10
OURS = (500, 2_500)
PEER = (50, 450)
"""Numbers of trials; fewer of the peer's, which take longer."""

FILES = {
    "objective.py": """
from benchopt import BaseObjective

class Objective(BaseObjective):
    name = "trivial"
    sampling_strategy = "run_once"

    def set_data(self, reward):
        self.reward = reward

    def get_objective(self):
        return {"reward": self.reward}

    def evaluate_result(self, value):
        return {"error": value - 0.5}

    def get_one_result(self):
        return {"value": 0.0}
""",
    "datasets/coin.py": """
import numpy as np
from benchopt import BaseDataset

class Dataset(BaseDataset):
    name = "coin"

    def get_data(self):
        rng = np.random.default_rng(self.get_seed(use_repetition=True))
        return {"reward": rng.integers(0, 2, 50).astype(float)}
""",
    "solvers/mean.py": f"""
from benchopt import BaseSolver

class Solver(BaseSolver):
    name = "mean"
    sampling_strategy = "run_once"
    parameters = {{"label": list(range({METHODS}))}}

    def set_objective(self, reward):
        self.reward = reward

    def run(self, _):
        self.value = float(self.reward.mean())

    def get_result(self):
        return {{"value": self.value}}
""",
}

Command = Callable[[Path, int], list[str]]


def ours(*options: str) -> Command:
    """Our command line for so many trials."""
    labels = ",".join(f'"{number}"' for number in range(METHODS))

    def command(folder: Path, trials: int) -> list[str]:
        return [
            *(sys.executable, "-c", "from ope_bench.cli import main; main()", "run"),
            *("--env", "acme-coin"),
            *("--est", f"acme-mean[label=[{labels}]]", "--replicates", str(trials // METHODS)),
            *("--store", str(folder / "store.sqlite"), *options),
        ]

    return command


def theirs(python: str, *options: str) -> Command:
    """The peer's command line for so many cells."""

    def command(folder: Path, trials: int) -> list[str]:
        for name, text in FILES.items():
            path = folder / "trivial" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        repetitions = str(trials // METHODS)
        return [
            *(python, "-m", "benchopt", "run", str(folder / "trivial"), "-r", repetitions),
            *("--seed", "0", "--no-plot", "--output", "kept", *options),
        ]

    return command


def timed(command: list[str]) -> dict[str, float]:
    """Seconds of a command, by the wall and of the processor, its children's included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(ACME), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        msg = f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}"
        raise RuntimeError(msg)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": seconds, "cpu_seconds": used}


def one(command: Command, sizes: tuple[int, int]) -> dict[str, float]:
    """Milliseconds a trial and seconds a run, first and resumed."""
    found: dict[str, dict[str, tuple[float, float]]] = {"first": {}, "resumed": {}}
    with tempfile.TemporaryDirectory() as place:
        for size in sizes:
            folder = Path(place) / str(size)
            folder.mkdir()
            words = command(folder, size)
            for kind in found:
                for name, value in timed(words).items():
                    found[kind].setdefault(name, ())  # type: ignore[arg-type]
                    found[kind][name] += (value,)  # type: ignore[assignment]
            shutil.rmtree(folder)
    figures = {}
    for kind, times in found.items():
        for name, (few, many) in times.items():
            slope = (many - few) / (sizes[1] - sizes[0])
            figures[f"{kind}_{name}"] = 1e3 * slope
            figures[f"{kind}_{name}_of_a_run"] = few - slope * sizes[0]
    return figures


FIGURES = {"first_seconds": "first run", "resumed_seconds": "resumed"}


def compare(peer: str, rounds: int) -> Iterator[dict[str, Any]]:
    """A row for each of our ways to run, beside the peer's nearest."""
    pairs = {
        "isolated, one job": (ours("--jobs", "1"), theirs(peer)),
        "in process": (ours("--executor", "inprocess"), theirs(peer)),
        "isolated, two jobs": (ours("--jobs", "2"), theirs(peer, "-j", "2")),
    }
    for name, (own, other) in pairs.items():
        found = interleaved.in_turns(
            {"ours": lambda own=own: one(own, OURS), "peer": lambda other=other: one(other, PEER)},
            seconds=1e9,
            most=rounds,
        )
        names = sorted(found["ours"][0])
        yield {
            "how": name,
            **{
                side: {name: interleaved.spread([run[name] for run in runs]) for name in names}
                for side, runs in found.items()
            },
            "ratios": interleaved.ratios(found["ours"], found["peer"], names),
        }


def lines(row: dict[str, Any]) -> list[str]:
    """Rows of the table."""
    return [
        f"| {row['how']} | {label} | {interleaved.told(row['ours'][name])}"
        f" | {interleaved.told(row['peer'][name])} | {interleaved.told(row['ratios'].get(name))}"
        f" | {interleaved.told(row['ratios'].get(name.replace('seconds', 'cpu_seconds')))} |"
        for name, label in FIGURES.items()
    ]


INTRO = (
    "# What a trivial trial costs: ope-bench beside benchopt\n\n"
    f"The mean of fifty coins by {METHODS} estimators. Milliseconds"
    " a trial: the difference of two whole commands,"
    f" {OURS[0]:,} and {OURS[1]:,} trials of ours, {PEER[0]} and {PEER[1]} of the peer's, over"
    " the difference in trials; median (lowest to highest) over rounds in turns. Ratios are"
    " the peer's over ours, by wall time and by processor time, children included.\n\n"
    "Ours are durably stored one by one, isolated ones in workers that can be killed; the peer"
    " runs them in its own process (with one job), and caches each in files. Under *in"
    " process* the peer's are the same runs as under *one job*, measured again."
)


def tables(report: dict[str, Any]) -> str:
    """The table of one machine."""
    start = report["rows"][0]
    beyond = (
        f"benchopt {report['peer']}. A run beyond its trials takes"
        f" {interleaved.told(start['ours']['first_seconds_of_a_run'])} s of ours and"
        f" {interleaved.told(start['peer']['first_seconds_of_a_run'])} s of the peer's."
    )
    return "\n".join(
        [
            "| how | | ours, ms | peer, ms | ratio, wall | ratio, processor |",
            "|:---|:---|---:|---:|---:|---:|",
            *(text for row in report["rows"] for text in lines(row)),
            "",
            beyond,
        ]
    )


PAGE = Page(INTRO, tables, f"The peer: `{INSTALL}`")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", required=True, help="python of an environment with benchopt")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="FOLDER/NAME of the two files written")
    given = parser.parse_args()
    asked = subprocess.run(
        [given.peer, "-c", "import benchopt; print(benchopt.__version__)"],
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode != 0:
        parser.error(f"benchopt cannot be imported there; {INSTALL}")
    command = f"python results/performance/scripts/{Path(__file__).name} --peer PEER/bin/python"
    report: dict[str, Any] = {"command": f"{command} --rounds {given.rounds}", **facts_now()}
    report["peer"] = asked.stdout.strip()
    report["rows"] = []
    for row in compare(given.peer, given.rounds):
        print("\n".join(lines(row)), flush=True)
        report["rows"].append(row)
    if given.output:
        PAGE.write(given.output, report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
