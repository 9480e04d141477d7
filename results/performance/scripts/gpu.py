"""What a machine with a CUDA device is asked for, in ten minutes at most.

    python results/performance/scripts/gpu.py --output FOLDER [--limit 600]

In turns, each within its part of the time, each writing its figures when it ends, so that a
machine that is taken away leaves what was done: (1) the tests marked ``gpu``, ``tests.txt``;
(2) the seconds of a fit of FEPWS and of a network on ``cuda`` and ``cpu`` at three sizes, a line
of ``sizes.jsonl`` for each; (3) the suite ``gpu`` with two replicates, ``suite.sqlite`` and
``board.md``. ``machine.json`` says where, and a line on the screen how each part ended. Time that
a part leaves is the next one's. Without a CUDA device one line says so, nothing is written, and
the exit code is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ROWS = (500, 5_000, 50_000)
DEVICES = ("cuda", "cpu")
ESTIMATORS = ("fepws", "dm[regressor=mlp,action_features=embedding]")
SHARES = {"tests": 0.25, "sizes": 0.4, "suite": 0.3, "board": 0.05}
"""Of the limit, for each part, in this order."""


def reason_for_none() -> str | None:
    """Return why there is no CUDA device here, None where there is one."""
    from ope_bench.execution.machine import machine_facts

    if not machine_facts()["gpu"]:
        return "nvidia-smi lists none"
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    return None if torch.cuda.is_available() else f"torch {torch.__version__} finds none"


def run(command: Sequence[str], seconds: float, out: Path) -> str:
    """Run a command within a time, its output in a file; return how it ended."""
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
            text = f"ended after {seconds:.0f} seconds"
        finally:
            # Also what the command left running, and all of it where this script is interrupted.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)
            started.wait()
        file.seek(0, os.SEEK_END)
        file.write(f"\n{text}\n")
    return text


def sizes(out: Path) -> None:
    """Time one trial of each estimator, size and device, the smallest first."""
    from ope_bench.execution import Finished
    from ope_bench.execution.local import LocalExecutor
    from ope_bench.suites.manifest import specs_of
    from ope_bench.trials.record import Trial
    from ope_bench.trials.status import Device

    for rows, selector, device in itertools.product(ROWS, ESTIMATORS, DEVICES):
        (world,) = specs_of("environment", f"saito-toy[n_samples={rows}]")
        (method,) = specs_of("estimator", selector)
        executor = LocalExecutor(1)
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


def parts(folder: Path) -> dict[str, tuple[list[str], Path]]:
    """Return the command of each part and the file of its output."""
    store = str(folder / "suite.sqlite")
    files = [
        str(one)
        for one in sorted((ROOT / "tests").rglob("test_*.py"))
        if "pytest.mark.gpu" in one.read_text(encoding="utf-8")
    ]
    python, bench = sys.executable, [sys.executable, "-m", "ope_bench"]
    suite = [*bench, "run", "gpu", "--replicates", "2", "--jobs", "1", "--store", store]
    board = [*bench, "leaderboard", "--store", store, "--by", "time", "--format", "markdown"]
    tests = [python, "-m", "pytest", "-m", "gpu", "-v", "-rs", *files]
    sizes = [python, __file__, "--sizes", str(folder / "sizes.jsonl")]
    return {
        "tests": (tests, folder / "tests.txt"),
        "sizes": (sizes, folder / "sizes.txt"),
        "suite": (suite, folder / "suite.txt"),
        "board": (board, folder / "board.md"),
    }


def run_parts(commands: Mapping[str, tuple[Sequence[str], Path]], limit: float) -> None:
    """Run the parts in their order, the time of those that follow kept for them."""
    end, later = time.monotonic() + limit, limit
    for name, (command, out) in commands.items():
        later -= SHARES[name] * limit
        ended = run(command, max(0.0, end - time.monotonic() - later), out)
        sys.stdout.write(f"{name}: {ended}, {out}\n")
        sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the parts, or say why there is nothing to run."""
    parser = argparse.ArgumentParser(description=__doc__)
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--output", type=Path, metavar="FOLDER")
    asked.add_argument("--sizes", type=Path, metavar="FILE", help="this part alone, without limit")
    parser.add_argument("--limit", type=float, default=600.0, metavar="SECONDS")
    args = parser.parse_args(arguments)
    reason = reason_for_none()
    if reason:
        sys.exit(f"no CUDA device here, nothing was run: {reason}")
    if args.sizes:
        sizes(args.sizes)
        return
    from ope_bench.execution.machine import machine_facts

    folder: Path = args.output.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    facts = json.dumps(machine_facts(), indent=1)
    (folder / "machine.json").write_text(f"{facts}\n", encoding="utf-8")
    run_parts(parts(folder), args.limit)


if __name__ == "__main__":
    main()
