"""What a machine with a CUDA device is asked for, in ten minutes at most.

    python tests/benchmarks/gpu.py --output FOLDER [--limit 600]

In turns, each with a part of the time, each writing its figures when it ends, so that a machine
that is taken away leaves what was done: (1) the tests marked ``gpu``, ``tests.txt``; (2) the
seconds of a fit of FEPWS and of a network on ``cpu`` and ``cuda`` at three sizes, a line of
``sizes.jsonl`` for each; (3) the suite ``gpu`` with two replicates, ``suite.sqlite`` and
``suite.md``. ``machine.json`` says where. Without a CUDA device the tests are skipped and its
trials are unavailable, and the files say so.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROWS = (500, 5_000, 50_000)
ESTIMATORS = ("fepws", "dm[regressor=mlp,action_features=embedding]")
SHARES = {"tests": 0.25, "sizes": 0.4, "suite": 0.3}
"""Of the limit, for each part."""


def run(command: list[str], seconds: float, out: Path) -> None:
    """Run a command within a time, its output in a file."""
    # Unbuffered, so that what was written before the end is there; a group, whose workers end too.
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with out.open("w", encoding="utf-8") as file:
        started = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            text = f"exit code {started.wait(seconds)}"
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            started.wait()
            text = f"ended after {seconds:.0f} seconds"
        file.seek(0, os.SEEK_END)
        file.write(f"\n{text}\n")


def sizes(seconds: float, out: Path) -> None:
    """Time one trial of each estimator, device and size; the rest is left out when time is up."""
    from ope_bench.execution import Finished
    from ope_bench.execution.local import LocalExecutor
    from ope_bench.suites.manifest import specs_of
    from ope_bench.trials.record import Trial
    from ope_bench.trials.status import Device

    end = time.monotonic() + seconds
    for rows, selector, device in itertools.product(ROWS, ESTIMATORS, ("cuda", "cpu")):
        left = end - time.monotonic()
        if left < 5:
            return
        (world,) = specs_of("environment", f"saito-toy[n_samples={rows}]")
        (method,) = specs_of("estimator", selector)
        executor = LocalExecutor(1, timeout=left, preparation=left)
        try:
            events = list(executor.run([Trial(world, method, 0, device=Device(device))]))
        finally:
            executor.close()
        for event in events:
            if isinstance(event, Finished):
                found = {
                    "rows": rows,
                    "estimator": selector,
                    "device": device,
                    "status": event.record.status.value,
                    "fit_seconds": event.record.fit_seconds,
                    "estimate": event.record.estimate,
                    "message": event.record.error_message,
                }
                with out.open("a", encoding="utf-8") as file:
                    file.write(f"{json.dumps(found)}\n")


def main() -> None:
    """Run the parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--limit", type=float, default=600.0)
    args = parser.parse_args()
    folder: Path = args.output.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    from ope_bench.execution.machine import machine_facts

    facts = machine_facts()
    (folder / "machine.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
    if not facts["gpu"]:
        print("no CUDA device: its tests will be skipped, its trials unavailable", file=sys.stderr)
    time_of = {part: share * args.limit for part, share in SHARES.items()}
    python, store = sys.executable, str(folder / "suite.sqlite")
    files = [one for one in (ROOT / "tests").rglob("test_*.py") if "mark.gpu" in one.read_text()]
    tests = [python, "-m", "pytest", "-m", "gpu", "-v", "-rs", *map(str, sorted(files))]
    run(tests, time_of["tests"], folder / "tests.txt")
    sizes(time_of["sizes"], folder / "sizes.jsonl")
    bench = [python, "-m", "ope_bench"]
    suite = [*bench, "run", "gpu", "--replicates", "2", "--jobs", "1", "--store", store]
    run(suite, time_of["suite"], folder / "suite.txt")
    board = [*bench, "leaderboard", "--store", store, "--by", "time", "--format", "markdown"]
    run(board, 30.0, folder / "suite.md")


if __name__ == "__main__":
    main()
