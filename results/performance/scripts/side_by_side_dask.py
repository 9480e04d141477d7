"""Throughput on a Dask cluster: two workers beside one, and Dask beside our local workers.

    python results/performance/scripts/side_by_side_dask.py --output results/performance/dask

A scheduler and two workers with one thread each run on this machine, as processes of their own.
The same trials go in turns through one Dask worker, two, one local worker and two; all are
started and warm before the clock, and no side ever runs beside another. ``sleep`` and ``cpu`` are
trials of 20 ms, ``trivial`` ones of no work at all, so that the harness is all there is to see,
``mixed`` three estimators on the paper's environment, which share their data.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import interleaved
from statement import Page, facts_now

from ope_bench.execution import Executor, Finished
from ope_bench.execution.dask.executor import DaskExecutor
from ope_bench.execution.local import LocalExecutor
from ope_bench.plugins.spec import PluginSpec
from ope_bench.suites.manifest import specs_of
from ope_bench.trials.record import Trial
from ope_bench.trials.status import Status

ACME = Path(__file__).parents[3] / "tests" / "plugins" / "acme-ope"

WORK: dict[str, tuple[str, Sequence[str], int]] = {
    "sleep": ("acme-coin", ["acme-mean[seconds=0.02,work=sleep]"], 150),
    "cpu": ("acme-coin", ["acme-mean[seconds=0.02,work=cpu]"], 150),
    "trivial": ("acme-coin", [f'acme-mean[label="{n}"]' for n in range(10)], 150),
    "mixed": ("saito-toy[n_actions=100,n_samples=1000]", ["ipws", "edm", "epws"], 6),
}
"""Environment, estimators and replicates of each kind of work."""

COMPARED = {
    "two Dask workers over one": ("dask 1", "dask 2"),
    "two local workers over one": ("local 1", "local 2"),
    "two Dask workers over two local ones": ("local 2", "dask 2"),
    "one Dask worker over one local one": ("local 1", "dask 1"),
}
"""Throughput of the second over that of the first: how often faster it is."""


def trials_of(kind: str) -> list[Trial]:
    """The trials of one kind of work."""
    world, methods, replicates = WORK[kind]
    (environment,) = specs_of("environment", world)
    estimators = [spec for method in methods for spec in specs_of("estimator", method)]
    return [
        Trial(environment, estimator, replicate)
        for replicate in range(replicates)
        for estimator in estimators
    ]


@contextmanager
def cluster(workers: int) -> Iterator[str]:
    """A scheduler and workers; the address."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        file = Path(folder) / "scheduler.json"

        def started(module: str, *options: str) -> None:
            process = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{module}", "--no-dashboard", *options],
                env={**os.environ, "PYTHONPATH": str(ACME)},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=folder,
            )
            stack.callback(process.wait)
            stack.callback(process.kill)

        options = ("--host", "127.0.0.1", "--port", "0")
        started("dask_scheduler", *options, "--scheduler-file", str(file))
        while not file.exists() or not file.read_text():
            time.sleep(0.1)
        address = json.loads(file.read_text())["address"]
        for _ in range(workers):
            started("dask_worker", address, "--nthreads", "1", "--memory-limit", "0")
        from distributed import Client

        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=120)
        yield address


def seconds_of(executor: Executor, trials: Sequence[Trial]) -> dict[str, float]:
    """Seconds from the first trial's sending to the last one's record."""
    begun = time.perf_counter()
    finished = [event for event in executor.run(trials) if isinstance(event, Finished)]
    seconds = time.perf_counter() - begun
    if len(finished) != len(trials) or {e.record.status for e in finished} != {Status.OK}:
        msg = "a trial failed"
        raise RuntimeError(msg)
    return {"seconds": seconds}


def compare(kinds: Sequence[str], rounds: int, seconds: float) -> Iterator[dict[str, Any]]:
    """A row for each kind of work."""
    work = {kind: trials_of(kind) for kind in kinds}
    plugins = [s for trials in work.values() for t in trials for s in (t.environment, t.estimator)]
    with ExitStack() as stack:
        address = stack.enter_context(cluster(2))
        specs: list[PluginSpec] = list({id(spec): spec for spec in plugins}.values())
        sides: dict[str, Any] = {}
        for jobs in (1, 2):
            dask = DaskExecutor(specs, address=address, jobs=jobs)
            sides[f"dask {jobs}"] = stack.enter_context(dask)
            sides[f"local {jobs}"] = stack.enter_context(LocalExecutor(jobs))
        for kind, trials in work.items():
            for executor in sides.values():
                # Workers start and libraries load before the clock does.
                seconds_of(executor, trials[: max(20, len(trials) // 4)])
            found = interleaved.in_turns(
                {
                    name: lambda executor=executor, trials=trials: seconds_of(executor, trials)
                    for name, executor in sides.items()
                },
                seconds=seconds,
                most=rounds,
            )
            yield {
                "work": kind,
                "trials": len(trials),
                "trials_a_second": {
                    name: interleaved.spread([len(trials) / one["seconds"] for one in runs])
                    for name, runs in found.items()
                },
                "ratios": {
                    name: interleaved.ratios(found[second], found[first], ["seconds"])["seconds"]
                    for name, (first, second) in COMPARED.items()
                },
            }


INTRO = """# Throughput on a Dask cluster

Trials a second, and how often faster; median over rounds, lowest and highest in brackets. `sleep`
and `cpu` are trials of 20 ms that wait or compute, `trivial` ones of no work, where the harness
is all there is to see, `mixed` are `ipws`, `edm` and `epws` on `saito-toy`. The coordinator and
the Dask scheduler share the machine's cores with the workers.
"""


def tables(report: dict[str, Any]) -> str:
    """The tables of one machine."""
    rows = report["rows"]
    names = ["dask 1", "dask 2", "local 1", "local 2"]
    lines = ["| work | " + " | ".join(f"{name}, trials/s" for name in names) + " |"]
    lines.append("| --- |" + " ---: |" * len(names))
    for row in rows:
        cells = (interleaved.told(row["trials_a_second"][name]) for name in names)
        lines.append(f"| {row['work']} | {' | '.join(cells)} |")
    lines += ["", "| how often faster | " + " | ".join(row["work"] for row in rows) + " |"]
    lines.append("| --- |" + " ---: |" * len(rows))
    for name in COMPARED:
        cells = (interleaved.told(row["ratios"][name]) for row in rows)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


PAGE = Page(INTRO, tables)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", nargs="+", choices=list(WORK), default=list(WORK))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=35.0, help="for each kind of work")
    parser.add_argument("--output", type=Path, help="FOLDER/NAME of the two files written")
    given = parser.parse_args()
    sys.path.insert(0, str(ACME))
    facts = facts_now()
    rows = []
    for row in compare(given.work, given.rounds, given.seconds):
        rows.append(row)
        print(f"{row['work']}: {row['trials']} trials")
        for name, rate in row["trials_a_second"].items():
            print(f"  {name:<8} {interleaved.told(rate)} trials/s")
        for name, ratio in row["ratios"].items():
            print(f"  {interleaved.told(ratio)} {name}", flush=True)
    command = "python results/performance/scripts/side_by_side_dask.py"
    if given.rounds != 7:
        command += f" --rounds {given.rounds}"
    report = {"command": command, **facts, "rows": rows}
    if given.output:
        PAGE.write(given.output, report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
