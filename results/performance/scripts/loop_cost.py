"""`ope-bench run` beside the loop that a user would write, by processor time a data set.

    python results/performance/scripts/loop_cost.py --output results/performance/loop

The sides take turns. The loop samples a data set, fits and estimates. The run has one isolated
worker and a store on disk: the time of all its processes, less that of the same run of one data
set, which is start-up.
"""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from statement import Page, facts_now

ROUNDS = 3
FEW = ("ipw", "ipws")
MORE = (*FEW, "dm", "dr")
SETTINGS = (
    ("saito-toy[n_actions=10,n_samples=1000]", FEW, 240),
    ("saito-toy[n_actions=10,n_samples=10000]", FEW, 120),
    ("saito-mips[n_actions=10,n_samples=1000]", FEW, 240),
    ("saito-mips[n_actions=10,n_samples=1000]", MORE, 60),
    ("saito-mips[n_actions=1000,n_samples=10000]", FEW, 20),
)
"""Environment, estimators and data sets of each row."""


def the_loop(environment: str, estimators: tuple[str, ...], count: int) -> float:
    """Seconds a data set of what a user would write."""
    from ope_bench.contracts.view import FitCache, View
    from ope_bench.suites.manifest import specs_of
    from ope_bench.trials.record import Trial
    from ope_bench.trials.trial import build

    (world,) = specs_of("environment", environment)
    methods = [specs_of("estimator", one)[0] for one in estimators]
    sampler = build(world)
    for replicate in range(count + 1):
        # The first data set pays for imports and cold caches.
        if replicate == 1:
            begun = time.process_time()
        seed = Trial(world, methods[0], replicate).data_seed
        problem, _ = sampler.sample(
            world_rng=seed.world(), logged_rng=seed.logged(), target_rng=seed.target()
        )
        fits = FitCache()
        for method in methods:
            one = build(method)
            view = View(
                problem,
                one.access,
                seed=seed,
                fit_cache=fits,
                device="cpu",
                optional=one.optional_access,
            )
            one.fit(view, rng=seed.estimator(method.id), device="cpu")
            one.estimate(view)
    return (time.process_time() - begun) / count


def the_run(environment: str, estimators: tuple[str, ...], count: int) -> float:
    """Seconds of all processes of a run."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "ope_bench", "run", "--env", environment]
        command += [word for one in estimators for word in ("--est", one)]
        command += ["--replicates", str(count), "--jobs", "1", "--store", f"{folder}/store"]
        before = os.times()
        subprocess.run(command, check=True, capture_output=True)
        now = os.times()
    used = now.children_user + now.children_system
    return used - before.children_user - before.children_system


def beside(environment: str, estimators: tuple[str, ...], count: int) -> dict[str, Any]:
    """A row: milliseconds a data set of both sides, and start-up; medians over rounds."""
    loops, runs, starts = [], [], []
    for _ in range(ROUNDS):
        loops.append(1e3 * the_loop(environment, estimators, count))
        starts.append(1e3 * the_run(environment, estimators, 1))
        runs.append((1e3 * the_run(environment, estimators, count + 1) - starts[-1]) / count)
    ratios = [run / loop for run, loop in zip(runs, loops, strict=True)]
    return {
        "environment": environment,
        "estimators": [*estimators],
        "data_sets": count,
        "loop_ms": statistics.median(loops),
        "run_ms": statistics.median(runs),
        "start_ms": statistics.median(starts),
        "ratio": statistics.median(ratios),
        "ratios": sorted(ratios),
    }


PARTS = {
    "to sample": "sample",
    "to seal": "__init__",
    "to check policies": "check_policies",
    "fit and estimate": ("fit", "estimate"),
    "balance of weights": "weight_balance",
    "accuracy of weights": "weight_accuracy",
    "to look for changes": "check_data",
}
"""Functions that `run_trial` calls, by what they are for."""

HOMES = ("/trials/", "/ope_environments/", "/ope_estimators/", "/contracts/data.py")


def parts(environment: str, estimators: tuple[str, ...], count: int) -> dict[str, float]:
    """Shares of a worker's time by part, from a profile, which makes short calls longer."""
    import cProfile
    import pstats

    from ope_bench.suites.manifest import specs_of
    from ope_bench.trials.record import Trial
    from ope_bench.trials.trial import Workspace, run_trial

    (world,) = specs_of("environment", environment)
    methods = [specs_of("estimator", one)[0] for one in estimators]
    workspace, profile = Workspace(mapped=True), cProfile.Profile(time.process_time)
    for replicate in range(count + 1):
        for method in methods:
            trial = Trial(world, method, replicate)
            if replicate:
                profile.enable()
            run_trial(trial, workspace, restore=False)
            profile.disable()
    stats: Any = pstats.Stats(profile)
    # Of each function what its own callers in trials/ waited for, so that nothing counts twice.
    spent: Counter[str] = Counter()
    for (file, _, name), (*_, callers) in stats.stats.items():
        if not any(home in file for home in HOMES):
            continue
        for part, names in PARTS.items():
            if name in ([names] if isinstance(names, str) else names):
                spent[part] += sum(
                    row[3]
                    for (at, *_), row in callers.items()
                    if at.endswith(("/trials/trial.py", "/trials/weights.py"))
                )
    whole = next(row[3] for (_, _, name), row in stats.stats.items() if name == "run_trial")
    return {part: seconds / whole for part, seconds in spent.items()}


INTRO = """# A run beside a loop

Milliseconds of the processor a data set: `ope-bench run --jobs 1`, its trials isolated and stored
durably, beside a loop that samples, fits and estimates in one process. Medians of rounds in turns.
Start-up is a run of one data set, and is not in the others."""


def tables(report: dict[str, Any]) -> str:
    """The tables of one machine."""
    lines = ["| data | estimators | the loop | the run | run over loop | start-up |"]
    lines += ["|:---|:---|---:|---:|---:|---:|"]
    for row in report["rows"]:
        low, *_, high = row["ratios"]
        lines.append(
            f"| `{row['environment']}` | {', '.join(f'`{one}`' for one in row['estimators'])} "
            f"| {row['loop_ms']:.1f} | {row['run_ms']:.1f} | {row['ratio']:.1f} "
            f"({low:.1f} to {high:.1f}) | {row['start_ms']:,.0f} |"
        )
    lines += ["", "Shares of a worker's time, from a profile; the rest is bookkeeping.", ""]
    names = [*report["parts"]]
    lines += [f"| part | {' | '.join(f'`{name}`' for name in names)} |"]
    lines += [f"|:---|{'---:|' * len(names)}"]
    for part in PARTS:
        cells = [f"{report['parts'][name].get(part, 0.0):.0%}" for name in names]
        if any(cell != "0%" for cell in cells):
            lines.append(f"| {part} | {' | '.join(cells)} |")
    return "\n".join(lines)


PAGE = Page(INTRO, tables)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help="FOLDER/NAME of the two files written")
    given = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    words = ["python", f"results/performance/scripts/{Path(__file__).name}"]
    report = {"command": shlex.join(words), **facts_now()}
    report["parts"] = {one: parts(one, FEW, 30) for one, _, _ in SETTINGS[:2]}
    report["rows"] = [beside(*setting) for setting in SETTINGS]
    print(tables(report))
    if given.output:
        PAGE.write(given.output, report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
