"""What one trial costs, measured in a process of its own: time, processor time, peak memory.

    python results/performance/scripts/trial_cost.py ENVIRONMENT ESTIMATOR [--limit BYTES]

prints one line of JSON. `measured_alone` starts such a process, pinned to one thread and under a
limit on its memory, and is what the other scripts of this folder call. Every setting is measured
in a fresh process, so that no allocation of an earlier one is left to be reused. Both parts of
the trial are told apart: drawing the data, and what the runner does then (fit, estimate, and the
comparison of weights with the true ratio).

A small problem goes first and is not counted: it loads what is loaded on first use. Trials of
less than two seconds run up to three times, of which the shortest counts; memory is the first's.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from typing import Any

Cost = dict[str, Any]

WARM_UP = "saito-toy[n_samples=200,n_actions=10]"
REPEATS = 3
PATIENCE = 2.0
"""Seconds after which a trial is not repeated."""


def cost_of(environment: str, estimator: str, replicate: int = 0) -> Cost:
    """The cost of one trial, run here."""
    begun = time.perf_counter()
    _once(WARM_UP, estimator, replicate)
    runs = [_once(environment, estimator, replicate)]
    while len(runs) < REPEATS and time.perf_counter() - begun < PATIENCE:
        runs.append(_once(environment, estimator, replicate))
    shortest = {key: min(run[key] for run in runs) for key in runs[0] if "seconds" in key}
    return {**runs[0], **shortest, "repeats": len(runs)}


def _once(environment: str, estimator: str, replicate: int) -> Cost:
    from ope_bench.plugins.requirements import import_all
    from ope_bench.suites.manifest import specs_of
    from ope_bench.trials import timing
    from ope_bench.trials.record import Trial
    from ope_bench.trials.trial import Workspace, build, run_trial

    (world,) = specs_of("environment", environment)
    (method,) = specs_of("estimator", estimator)
    trial = Trial(world, method, replicate)
    source, asked = build(world), build(method)
    import_all((*source.requires, *asked.requires))
    workspace = Workspace()
    timing.reset_peak_rss()
    before = timing.peak_rss_bytes() or 0
    with timing.measured() as sampling:
        workspace.data(trial, source)
    sampled = timing.peak_rss_bytes() or 0
    with timing.measured() as answering:
        record = run_trial(trial, workspace, environment=source, estimator=asked)
    # The runner has made the kernel count anew from the beginning of fit.
    answered = timing.peak_rss_bytes() or 0
    return {
        "status": record.status.value,
        "message": record.error_message,
        "estimate": record.estimate,
        "truth": record.truth_expected,
        "sample_seconds": sampling.wall_seconds,
        "sample_cpu_seconds": sampling.cpu_seconds,
        "sample_rise_bytes": sampled - before,
        "trial_seconds": answering.wall_seconds,
        "trial_cpu_seconds": answering.cpu_seconds,
        "trial_rise_bytes": answered - before,
        "rise_bytes": max(sampled, answered) - before,
        "peak_bytes": max(sampled, answered),
    }


def one_thread() -> dict[str, str]:
    """The environment of a process whose libraries use one thread."""
    return {**os.environ, **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}}


def measured_alone(
    environment: str,
    estimator: str,
    *,
    limit: int | None = None,
    timeout: float | None = None,
    replicate: int = 0,
) -> Cost:
    """Run one trial in a process of its own; a failure is a row with its status, not an error."""
    command = [sys.executable, __file__, environment, estimator, "--replicate", str(replicate)]
    command += ["--limit", str(limit)] if limit else []
    try:
        done = subprocess.run(
            command,
            env=one_thread(),
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        return {"status": "timeout", "message": f"longer than {timeout:g} s"}
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        memory = "Unable to allocate" in last or "MemoryError" in last
        return {"status": "memory" if memory else "crash", "message": last}
    cost: Cost = json.loads(done.stdout.strip().splitlines()[-1])
    return cost


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("environment")
    parser.add_argument("estimator")
    parser.add_argument("--replicate", type=int, default=0)
    parser.add_argument("--limit", type=int, help="bytes of memory that the process may take")
    given = parser.parse_args()
    if given.limit:
        resource.setrlimit(resource.RLIMIT_DATA, (given.limit, given.limit))
    print(json.dumps(cost_of(given.environment, given.estimator, given.replicate)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
