"""What a trivial trial costs in this revision of ope-bench, beside another revision of it.

    python tests/benchmarks/side_by_side_revisions.py --peer OTHER/bin/python --folder OTHER

The peer is the interpreter of an environment in which the other revision is installed, the folder
its checkout. The work is the mean of fifty coins, by ten estimators on the same data. Every
measurement is a process of its own that runs a few trials and then many; the difference is what
the trials cost, start-up left out. Processor time is that of the process and its workers.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import interleaved
from statement import facts_now, statement

FEW, MANY = 100, 2_100
METHODS = 10

LOADED = """
from typing import Self
import numpy as np
from ope_bench import Estimate, Estimator

class Loaded(Estimator):
    \"\"\"The mean logged reward, in a process that has imported what estimators use.\"\"\"

    def __init__(self, label: str = "") -> None:
        self.label = label

    def fit(self, view, *, rng: np.random.Generator, device: str) -> Self:
        import scipy.special, sklearn.linear_model, torch
        return self

    def estimate(self, view) -> Estimate:
        return Estimate(float(view.reward.mean()))
"""

KINDS = {
    "isolated": "in a worker of its own, stored",
    "isolated-libraries": "the same, with scikit-learn and torch imported",
    "in-process": "in this process, not stored",
    "in-process-stored": "in this process, stored",
    "resumed": "stored before, and resumed",
}


class Revision:
    """The few names of ope-bench that this needs, wherever the revision keeps them."""

    def __init__(self) -> None:
        from ope_bench.execution.local import LocalExecutor
        from ope_bench.execution.runner import Outcome, run
        from ope_bench.store import Store
        from ope_bench.trials.record import Trial

        try:
            from ope_bench.execution.executors import InProcessExecutor
            from ope_bench.plugins.spec import resolve
        except ImportError:
            # Modules of before they were merged.
            executors = importlib.import_module("ope_bench.execution.inprocess")
            InProcessExecutor = executors.InProcessExecutor  # type: ignore[misc]
            resolve = importlib.import_module("ope_bench.plugins.resolution").resolve
        self.in_process, self.local, self.store = InProcessExecutor, LocalExecutor, Store
        self.outcome, self.run, self.resolve, self.trial = Outcome, run, resolve, Trial

    def plan(self, n: int, estimator: str) -> list[Any]:
        """Trials of ten estimators on the data of each replicate."""
        world = self.resolve("environment", "acme-coin")
        methods = [
            self.resolve("estimator", estimator, {"label": str(number)})
            for number in range(METHODS)
        ]
        return [self.trial(world, methods[i % METHODS], i // METHODS) for i in range(n)]

    def stored(self, path: Path, trials: list[Any], executor: Any) -> None:
        """Run the trials into a store."""
        outcome = self.outcome()
        with self.store.open(path, write=True) as store:
            run_id = store.begin_run(suite="overhead", truth="empirical")
            events = self.run(
                trials, store=store, run_id=run_id, executor=executor, outcome=outcome
            )
            for _ in events:
                pass
        assert outcome.executed + outcome.reused == len(trials)


def conduct(kind: str, n: int, folder: Path) -> Iterator[None]:
    """One run of so many trials; what comes before the yield is not measured."""
    revision = Revision()
    estimator = "acme-mean"
    if kind == "isolated-libraries":
        plugin = folder / "loaded.py"
        plugin.write_text(LOADED)
        estimator = f"{plugin}:Loaded"
    path = folder / f"{n}.sqlite"
    if kind == "resumed":
        revision.stored(path, revision.plan(n, estimator), revision.in_process())
    trials = revision.plan(n, estimator)
    yield
    if kind == "in-process":
        for _ in revision.in_process().run(trials):
            pass
    elif kind == "in-process-stored":
        revision.stored(path, trials, revision.in_process())
    else:
        revision.stored(path, trials, revision.local(1))


@contextmanager
def clock(figures: dict[str, float]) -> Iterator[None]:
    begun, cpu = time.perf_counter(), processor_seconds()
    yield
    figures["seconds"] = time.perf_counter() - begun
    figures["cpu_seconds"] = processor_seconds() - cpu


def processor_seconds() -> float:
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def measure(kind: str) -> dict[str, float]:
    """Milliseconds a trial, in this process."""
    costs: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for n in (FEW, MANY):
            steps = conduct(kind, n, Path(folder))
            next(steps)
            costs.append({})
            with clock(costs[-1]):
                next(steps, None)
    return {name: 1e3 * (costs[1][name] - costs[0][name]) / (MANY - FEW) for name in costs[0]}


def ask(python: str, folder: Path, kind: str) -> dict[str, float]:
    """`measure` by another interpreter."""
    acme = folder / "tests" / "plugins" / "acme-ope"
    done = subprocess.run(
        [python, "-W", "ignore", __file__, "--measure", kind],
        env={**os.environ, "PYTHONPATH": str(acme)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def compare(sides: Mapping[str, tuple[str, Path]], rounds: int) -> Iterator[dict[str, Any]]:
    """A row for each kind of run."""
    for kind, words in KINDS.items():
        asked = {name: functools.partial(ask, *side, kind) for name, side in sides.items()}
        found = interleaved.in_turns(asked, seconds=1e9, most=rounds)
        names = ("seconds", "cpu_seconds")
        yield {
            "kind": words,
            **{
                side: {name: interleaved.spread([one[name] for one in runs]) for name in names}
                for side, runs in found.items()
            },
            "ratios": interleaved.ratios(found["other"], found["ours"], names),
        }


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    figures = [row[side]["cpu_seconds"] for side in ("ours", "other", "ratios")]
    return f"| {row['kind']} | {' | '.join(map(interleaved.told, figures))} |"


def markdown(report: dict[str, Any]) -> str:
    """The report to read."""
    intro = (
        f"The mean of fifty coins by {METHODS} estimators on the same data, in this revision and"
        f" in {report['other']}. Milliseconds of processor time a trial, of the process and its"
        f" workers: the difference of {FEW:,} and {MANY:,} trials over the difference in trials;"
        " median (lowest to highest) over rounds in turns. The ratio is that of this revision over"
        " the other, within rounds."
    )
    return "\n".join(
        [
            "# What a trivial trial costs, beside another revision",
            "",
            intro,
            "",
            f"| a trial | this revision, ms | {report['other']}, ms | ratio |",
            "|:---|---:|---:|---:|",
            *map(line, report["rows"]),
            "",
            statement(report),
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--peer", help="python of an environment with the other revision")
    parser.add_argument("--folder", type=Path, help="the other revision's checkout")
    parser.add_argument("--name", default="other", help="its name in the page")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, help="FOLDER/NAME of the two files written")
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure)))
        return 0
    if not (given.peer and given.folder):
        parser.error("--peer and --folder name the other revision")
    here = Path(__file__).parents[2]
    command = f"python tests/benchmarks/{Path(__file__).name} --peer OTHER/bin/python"
    report: dict[str, Any] = {
        "command": f"{command} --folder OTHER_CHECKOUT --rounds {given.rounds}",
        **facts_now(),
        "other": given.name,
        "rows": [],
    }
    sides = {"ours": (sys.executable, here), "other": (given.peer, given.folder)}
    for row in compare(sides, given.rounds):
        print(line(row), flush=True)
        report["rows"].append(row)
    if given.output:
        interleaved.written(given.output, report, markdown(report))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
