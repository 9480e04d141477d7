"""What sealing costs: a trial and a run beside an earlier revision in turns, a data set once.

    python results/performance/scripts/sealing_cost.py PYTHON --output results/performance/sealing

PYTHON is that of an environment in which the earlier revision is installed. Two processes that
live on take turns, this checkout's and the other's. Each runs a batch of trials on one data set,
as a worker does, and says its processor time; a ratio is taken within a round. Whole runs, with
isolation, messages and store, take turns in the same way.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

TRIALS = (("saito-toy", "logging-average", 200), ("saito-mips[n_actions=1000]", "ipw", 20))
DATA = ("saito-toy", "saito-mips[n_actions=1000]", "saito-offcem", "behance")
RUNS = {
    "`logging-average` on 400 data sets of `saito-toy`": (
        "replicates: 400\nenvironments: [saito-toy]\nestimators: [logging-average]"
    ),
    "`ipw` with 400 clips on one of `saito-mips[n_actions=1000]`": (
        "replicates: 1\nenvironments: ['saito-mips[n_actions=1000]']\n"
        f"estimators: [{{ipw: {{clip: {[1 + k / 10 for k in range(400)]}}}}}]"
    ),
}
ROUNDS = 40


def serve() -> None:
    """Answer batches of trials, one line each."""
    from ope_bench.suites.manifest import specs_of
    from ope_bench.trials.record import Trial
    from ope_bench.trials.trial import Workspace, run_trial

    make: Any = Workspace
    kept: dict[str, Any] = {}
    for line in sys.stdin:
        environment, estimator, count = json.loads(line)
        (world,), (method,) = (
            specs_of("environment", environment),
            specs_of("estimator", estimator),
        )
        trial = Trial(world, method, 0)
        if environment not in kept:
            kept.clear()
            try:
                kept[environment] = make(mapped=True)
            except TypeError:  # an earlier revision
                kept[environment] = make()
            run_trial(trial, kept[environment], restore=False)
        begun = time.process_time()
        for _ in range(count):
            record = run_trial(trial, kept[environment], restore=False)
        assert record.status == "ok", record.error_message
        print((time.process_time() - begun) / count, flush=True)


def side(python: str) -> subprocess.Popen[str]:
    """Start the process of an environment."""
    return subprocess.Popen(
        [python, __file__, "--serve"],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def interval(ratios: Sequence[float]) -> dict[str, float]:
    """The geometric mean of the ratios of all rounds, with its 95 % interval."""
    logs = [math.log(one) for one in ratios]
    mean = statistics.mean(logs)
    half = 2.02 * statistics.stdev(logs) / math.sqrt(len(logs))
    return {
        "ratio": math.exp(mean),
        "low": math.exp(mean - half),
        "high": math.exp(mean + half),
    }


def a_run(python: str, suite: Path) -> float:
    """Milliseconds of the processor of all processes of a run."""
    with tempfile.TemporaryDirectory() as folder:
        command = [python, "-m", "ope_bench", "run", str(suite), "--jobs", "1"]
        before = os.times()
        subprocess.run([*command, "--store", f"{folder}/store"], check=True, capture_output=True)
        now = os.times()
    used = now.children_user + now.children_system
    return 1e3 * (used - before.children_user - before.children_system)


def whole_runs(before: str) -> list[dict[str, Any]]:
    """A row for each suite: milliseconds of a run of both sides, start-up among them."""
    rows = []
    for told, suite in RUNS.items():
        took: list[list[float]] = [[], []]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "suite.yaml")
            file.write_text(f"schema: 1\n{suite}\n", encoding="utf-8")
            for turn in range(ROUNDS // 2 + 1):
                for place in (0, 1) if turn % 2 else (1, 0):
                    took[place].append(a_run((sys.executable, before)[place], file))
        now, was = (part[1:] for part in took)
        rows.append(
            {
                "run": told,
                "ms": statistics.median(now),
                "before_ms": statistics.median(was),
                **interval([one / other for one, other in zip(now, was, strict=True)]),
            }
        )
    return rows


def in_turns(before: str) -> list[dict[str, Any]]:
    """A row for each trial: milliseconds of both sides, and their ratio with an interval."""
    sides, rows = [side(sys.executable), side(before)], []
    for asked in TRIALS:
        seconds: list[list[float]] = [[], []]
        for turn in range(ROUNDS + 1):
            for place in (0, 1) if turn % 2 else (1, 0):
                one = sides[place]
                assert one.stdin is not None
                assert one.stdout is not None
                print(json.dumps(asked), file=one.stdin, flush=True)
                seconds[place].append(float(one.stdout.readline()))
        # The first round finds the caches cold.
        now, was = (part[1:] for part in seconds)
        rows.append(
            {
                "environment": asked[0],
                "estimator": asked[1],
                "ms": 1e3 * statistics.median(now),
                "before_ms": 1e3 * statistics.median(was),
                **interval([one / other for one, other in zip(now, was, strict=True)]),
            }
        )
    for one in sides:
        one.kill()
    return rows


def once() -> list[dict[str, Any]]:
    """A row for each data set: milliseconds to sample, to seal, to compare in process."""
    from ope_bench.suites.manifest import specs_of
    from ope_bench.trials.record import Trial
    from ope_bench.trials.sealing import Seal
    from ope_bench.trials.trial import build

    rows = []
    for name in DATA:
        (world,), (method,) = specs_of("environment", name), specs_of("estimator", "ipw")
        seed, environment = Trial(world, method, 0).data_seed, build(world)
        begun = time.process_time()
        try:
            problem, _ = environment.sample(
                world_rng=seed.world(), logged_rng=seed.logged(), target_rng=seed.target()
            )
        except Exception as exc:  # its data are not here
            rows.append({"environment": name, "reason": str(exc)[:80]})
            continue
        sampled = time.process_time() - begun
        bare = Seal(problem)
        rows.append(
            {
                "environment": name,
                "sample_ms": 1e3 * sampled,
                "seal_ms": 1e3 * least(partial(Seal, problem, mapped=True)),
                "copy_ms": 1e3 * least(partial(Seal, problem)),
                "compare_ms": 1e3 * least(bare.changes),
            }
        )
    return rows


def least(work: Any) -> float:
    """The shortest of forty calls, in seconds of the processor."""
    took = []
    for _ in range(40):
        begun = time.process_time()
        work()
        took.append(time.process_time() - begun)
    return min(took)


INTRO = """# Sealed data

Milliseconds of the processor. A trial in a worker beside the same trial before data were sealed
and patches noted, without messages and store: the ratio with its 95 % interval over 40 rounds in
turns. A run is `ope-bench run --jobs 1` with its start-up, 20 times in turns. Sealing is once a
data set and worker; comparing is once a trial in process: `evaluate`, `--executor inprocess`. A
machine that is three times slower sealed `saito-mips` in 4.8."""


def tables(report: dict[str, Any]) -> str:
    """The tables of one machine."""
    parts = ["### A trial", "", "| trial | ms | before | ratio |", "|:---|---:|---:|---:|"]
    parts += [
        f"| `{row['estimator']}` on `{row['environment']}` | {row['ms']:.3f} "
        f"| {row['before_ms']:.3f} | {row['ratio']:.3f} ({row['low']:.3f} to {row['high']:.3f}) |"
        for row in report["trials"]
    ]
    if runs := report.get("runs"):
        parts += ["", "### A run", "", "| run | ms | before | ratio |", "|:---|---:|---:|---:|"]
        parts += [
            f"| {row['run']} | {row['ms']:,.0f} | {row['before_ms']:,.0f} "
            f"| {row['ratio']:.3f} ({row['low']:.3f} to {row['high']:.3f}) |"
            for row in runs
        ]
    parts += ["", "### A data set, shortest of 40", ""]
    parts += ["| data | to sample | to seal in a worker | to copy in process | to compare |"]
    parts += ["|:---|---:|---:|---:|---:|"]
    for row in report["data"]:
        keys = ("sample_ms", "seal_ms", "copy_ms", "compare_ms")
        cells = [f"{row[key]:.3g}" for key in keys] if "seal_ms" in row else ["not here"] * 4
        parts.append(f"| `{row['environment']}` | {' | '.join(cells)} |")
    return "\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", nargs="?", help="Python that has the earlier revision")
    parser.add_argument("--output", type=Path, help="FOLDER/NAME of the two files written")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve()
        return 0
    from statement import Page, facts_now

    words = ["python", f"results/performance/scripts/{Path(__file__).name}", "PYTHON"]
    report = {"command": shlex.join(words), **facts_now()}
    report |= {"data": once(), "trials": in_turns(given.before)}
    report["runs"] = whole_runs(given.before)
    print(tables(report))
    if given.output:
        Page(INTRO, tables).write(given.output, report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
