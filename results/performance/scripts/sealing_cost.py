"""What sealing costs: a trial beside an earlier revision in turns, a data set once, a checksum.

    git worktree add FOLDER REVISION
    python results/performance/scripts/sealing_cost.py FOLDER --output results/performance/sealing

Two processes that live on take turns, this checkout's and the other's. Each runs a batch of trials
on one data set, as a worker does, and says its processor time; a ratio is taken within a round.
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
import time
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("bench", "estimators", "environments")
TRIALS = (("saito-toy", "logging-average", 200), ("saito-mips[n_actions=1000]", "ipw", 20))
DATA = ("saito-toy", "saito-mips[n_actions=1000]", "saito-offcem", "behance")
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


def side(folder: Path) -> subprocess.Popen[str]:
    """Start the process of a checkout."""
    paths = os.pathsep.join(str(folder / name) for name in PACKAGES)
    return subprocess.Popen(
        [sys.executable, __file__, "--serve"],
        env={**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def in_turns(before: Path) -> list[dict[str, Any]]:
    """A row for each trial: milliseconds of both sides, and their ratio with an interval."""
    sides, rows = [side(ROOT), side(before)], []
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
        logs = [
            math.log(now / was) for now, was in zip(*(part[1:] for part in seconds), strict=True)
        ]
        mean, half = statistics.mean(logs), 2.02 * statistics.stdev(logs) / math.sqrt(ROUNDS)
        rows.append(
            {
                "environment": asked[0],
                "estimator": asked[1],
                "ms": 1e3 * statistics.median(seconds[0][1:]),
                "before_ms": 1e3 * statistics.median(seconds[1][1:]),
                "ratio": math.exp(mean),
                "low": math.exp(mean - half),
                "high": math.exp(mean + half),
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
turns. Sealing is once a data set and worker; comparing is once a trial in process: `evaluate`,
`--executor inprocess`."""


def tables(report: dict[str, Any]) -> str:
    """The tables of one machine."""
    parts = ["### A trial", "", "| trial | ms | before | ratio |", "|:---|---:|---:|---:|"]
    parts += [
        f"| `{row['estimator']}` on `{row['environment']}` | {row['ms']:.3f} "
        f"| {row['before_ms']:.3f} | {row['ratio']:.3f} ({row['low']:.3f} to {row['high']:.3f}) |"
        for row in report["trials"]
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
    parser.add_argument("before", type=Path, nargs="?", help="checkout of the earlier revision")
    parser.add_argument("--output", type=Path, help="FOLDER/NAME of the two files written")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve()
        return 0
    from statement import Page, facts_now

    words = ["python", f"results/performance/scripts/{Path(__file__).name}", "FOLDER"]
    report = {"command": shlex.join(words), **facts_now()}
    report |= {"data": once(), "trials": in_turns(given.before)}
    print(tables(report))
    if given.output:
        Page(INTRO, tables).write(given.output, report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
