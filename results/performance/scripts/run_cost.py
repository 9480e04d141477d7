"""What a whole run costs in one process: plan, trials, store, records.

    python results/performance/scripts/run_cost.py ENVIRONMENT REPLICATES ESTIMATOR...

prints one line of JSON. The trials run in the process itself, so that its processor time and
memory are those of everything.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trial_cost import WARM_UP, Cost, one_thread


def run_once(environment: str, estimators: Sequence[str], replicates: int) -> Any:
    """A run, and its records."""
    from ope_bench.execution.executors import InProcessExecutor
    from ope_bench.execution.runner import RunCounts, run
    from ope_bench.store import Store
    from ope_bench.suites.manifest import plan
    from ope_bench.suites.suite import adhoc

    suite = replace(adhoc([environment], estimators), replicates=replicates)
    with tempfile.TemporaryDirectory() as folder:
        trials = plan(suite).trials
        outcome = RunCounts()
        with Store.open(Path(folder) / "run.sqlite", write=True) as store:
            run_id = store.begin_run(suite="adhoc", truth="empirical", planned=len(trials))
            executor = InProcessExecutor()
            for _ in run(trials, store=store, run_id=run_id, executor=executor, outcome=outcome):
                pass
            records = tuple(store.records(run=run_id))
    return records


def cost_of(environment: str, estimators: Sequence[str], replicates: int) -> Cost:
    from ope_bench.trials import timing

    run_once(WARM_UP, estimators[:1], 1)
    timing.reset_peak_rss()
    before = timing.peak_rss_bytes() or 0
    with timing.measured() as cost:
        records = run_once(environment, estimators, replicates)
    after = timing.peak_rss_bytes() or 0
    broken = sum(record.status.broken for record in records)
    return {
        "status": "ok",
        "message": None,
        "trials": len(records),
        "broken": broken,
        "wall_seconds": cost.wall_seconds,
        "cpu_seconds": cost.cpu_seconds,
        "rise_bytes": after - before,
    }


def run_measured_alone(environment: str, estimators: Sequence[str], replicates: int) -> Cost:
    """`cost_of` in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, environment, str(replicates), *estimators],
        env=one_thread(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        return {"status": "crash", "message": last}
    cost: Cost = json.loads(done.stdout.strip().splitlines()[-1])
    return cost


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("environment")
    parser.add_argument("replicates", type=int)
    parser.add_argument("estimators", nargs="+")
    given = parser.parse_args()
    print(json.dumps(cost_of(given.environment, given.estimators, given.replicates)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
