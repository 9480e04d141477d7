"""FEPWS with flows trained side by side, beside FEPWS with flows trained one by one.

    python results/performance/scripts/side_by_side_batched_flow.py

The same 50 replicates, in turns: (1) device ``cpu``, two workers, each fit alone; (2) device
``cpu-batch``, two workers of one thread each, a block of replicates at once. All flows train for
the same number of epochs. Workers are started and have their imports behind them before anything
is timed; every turn has replicates of its own, because a worker remembers what it has fitted.
``--device cuda-batch`` compares the GPU with one CPU worker instead. ``--output FOLDER/NAME``
writes NAME.json and NAME.md.

Trials are whole ones: sampling, flow, classifier, estimate. What training alone gained follows
from the records: the share of the batch against the fit that was made alone, less the classifier,
which is the same on both sides.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from pathlib import Path
from typing import Any

from statement import Page, facts_now

from ope_bench.execution import Finished
from ope_bench.execution.local import LocalExecutor
from ope_bench.plugins.spec import PluginSpec
from ope_bench.suites.manifest import specs_of
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Device, Status

REPLICATES = 50
ENVIRONMENT = "saito-toy[n_actions=100,n_samples=500]"
WARM_UP = 1_000_000
"""First of the replicates that workers start with, far from those that are timed."""


class Side:
    """A device and its workers.

    Parameters
    ----------
    device : of the trials.
    jobs : workers, one thread each.
    """

    def __init__(self, device: str, jobs: int) -> None:
        self.device = Device(device)
        self.jobs = jobs
        self._executor = LocalExecutor(jobs)

    def warm_up(self, world: PluginSpec, method: PluginSpec) -> None:
        """Start the workers and let them import what they need."""
        home = Device(self.device.backend)
        first = (WARM_UP + 1_000 * job for job in range(self.jobs))
        self._run([Trial(world, method, replicate, device=home) for replicate in first])

    def measure(self, world: PluginSpec, method: PluginSpec, turn: int) -> dict[str, Any]:
        """One turn: its seconds by the wall, and what the records say."""
        begun = time.perf_counter()
        records = self._run(
            [
                Trial(world, method, REPLICATES * turn + number, device=self.device)
                for number in range(REPLICATES)
            ]
        )
        return {"seconds": time.perf_counter() - begun, **told(records)}

    def close(self) -> None:
        """End the workers."""
        self._executor.close()

    def _run(self, trials: list[Trial]) -> list[TrialRecord]:
        events = self._executor.run(trials)
        records = [event.record for event in events if isinstance(event, Finished)]
        failed = [record for record in records if record.status is not Status.OK]
        if failed or len(records) != len(trials):
            reason = failed[0].error_message if failed else "some trials did not finish"
            raise RuntimeError(reason)
        return records


def told(records: list[TrialRecord]) -> dict[str, Any]:
    """Means over trials, and the epochs, errors and likelihoods that must not differ."""
    errors = [float(r.estimate or 0.0) - float(r.truth_empirical or 0.0) for r in records]
    return {
        "fit_seconds": statistics.fmean(r.fit_seconds or 0.0 for r in records),
        "cpu_seconds": statistics.fmean(r.fit_cpu_seconds or 0.0 for r in records),
        "shared_seconds": statistics.fmean(r.shared_seconds for r in records),
        "epochs": statistics.fmean(_number(r, "flow_epochs") for r in records),
        "held_out_nll": statistics.fmean(_number(r, "flow_held_out_nll") for r in records),
        "rmse": math.sqrt(statistics.fmean(error * error for error in errors)),
    }


def _number(record: TrialRecord, name: str) -> float:
    return float(record.diagnostics[name])


def compare(device: str, epochs: int, repeats: int) -> list[dict[str, Any]]:
    """Turns of both sides, with their ratios."""
    (world,) = specs_of("environment", ENVIRONMENT)
    options = f"{{epochs: {epochs}, patience: {epochs}}}"
    (method,) = specs_of("estimator", f"fepws[flow_params={options}]")
    (brief,) = specs_of("estimator", "fepws[flow_params={epochs: 1}]")
    jobs = 2 if device == "cpu-batch" else 1
    sides = {"alone": Side("cpu", jobs), "together": Side(device, jobs)}
    rows = []
    try:
        for side in sides.values():
            side.warm_up(world, brief)
        for turn in range(repeats):
            # Who goes first changes, so that a machine that tires or recovers favors nobody.
            order = list(sides) if turn % 2 == 0 else list(sides)[::-1]
            row: dict[str, Any] = {}
            for name in order:
                row[name] = sides[name].measure(world, method, turn)
            row["ratios"] = ratios(row["alone"], row["together"])
            print(json.dumps(row), flush=True)
            rows.append(row)
    finally:
        for side in sides.values():
            side.close()
    return rows


def ratios(alone: dict[str, Any], together: dict[str, Any]) -> dict[str, float]:
    """How many times as long it takes alone."""
    other = together["fit_seconds"] - together["shared_seconds"]
    return {
        "wall": alone["seconds"] / together["seconds"],
        "processor": alone["cpu_seconds"] / together["cpu_seconds"],
        "training": (alone["fit_seconds"] - other) / together["shared_seconds"],
    }


LABELS = {
    "wall": "wall, 50 whole trials",
    "processor": "processor, fit of a trial",
    "training": "training the flow alone",
}


def summary(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Median, least and largest of each ratio."""
    found = {}
    for name in LABELS:
        values = [row["ratios"][name] for row in rows]
        found[name] = {
            "median": statistics.median(values),
            "least": min(values),
            "largest": max(values),
        }
    return found


INTRO = "# Flows trained side by side: a batched device beside single fits"


def tables(report: dict[str, Any]) -> str:
    """The tables of one machine."""
    rows, epochs = report["rows"], report["epochs"]
    intro = (
        f"FEPWS on `{ENVIRONMENT}`, the same {REPLICATES} replicates in turns,"
        f" {epochs} epochs for every flow, {report['jobs']} worker(s) of one thread on each side"
        f" ({report['device']} against cpu)."
    )
    lines = [
        intro,
        "",
        f"| times as long alone | median of {len(rows)} | least | largest |",
        "|:---|---:|---:|---:|",
    ]
    for name, label in LABELS.items():
        one = report["ratios"][name]
        figures = (f"{one[key]:.2f}" for key in ("median", "least", "largest"))
        lines.append(f"| {label} | {' | '.join(figures)} |")
    lines += [
        "",
        "What came of it must not differ but by chance:",
        "",
        "| | alone | together |",
        "|:---|---:|---:|",
    ]
    for key, label in (("held_out_nll", "held-out likelihood, -log"), ("rmse", "RMSE")):
        means = [statistics.fmean(row[side][key] for row in rows) for side in SIDES]
        lines.append(f"| {label} | {means[0]:.4f} | {means[1]:.4f} |")
    return "\n".join(lines)


SIDES = ("alone", "together")


PAGE = Page(INTRO, tables)


def main() -> int:
    """Measure, print, and write what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu-batch", "cuda-batch"], default="cpu-batch")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, help="FOLDER/NAME of the two files written")
    given = parser.parse_args()
    asked = f" --device {given.device}" if given.device != "cpu-batch" else ""
    report: dict[str, Any] = {
        "command": "python results/performance/scripts/side_by_side_batched_flow.py"
        f"{asked} --epochs {given.epochs} --repeats {given.repeats}",
        **facts_now(),
        "device": given.device,
        "jobs": 2 if given.device == "cpu-batch" else 1,
        "epochs": given.epochs,
        "replicates": REPLICATES,
        "environment": ENVIRONMENT,
    }
    report["rows"] = compare(given.device, given.epochs, given.repeats)
    report["ratios"] = summary(report["rows"])
    print(tables(report))
    if given.output:
        PAGE.write(given.output, report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
