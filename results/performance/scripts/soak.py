"""Kill runs and workers at random moments; the store must end as that of an undisturbed run.

    python results/performance/scripts/soak.py [SECONDS]

One run after another on the same store, each with an order of its own from a fixed seed: SIGKILL,
SIGTERM or SIGSTOP and SIGCONT to a worker, SIGINT or SIGKILL to the run. Each has forty replicates
more to do than are stored, so that the rest is short on a slow machine too. Afterwards: no trial
twice, all checksums right, every outcome that of an undisturbed run, no process and no file left.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil

from ope_bench.base.errors import StoreError
from ope_bench.store import Store

TRIALS = ["--env", "saito-toy[n_samples=60]", "--est", "ipw", "--est", "dm", "--est", "mips"]
ESTIMATORS = TRIALS.count("--est")
SILENT: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
CODE = "from ope_bench.cli import main; main()"


def command(store: Path, replicates: int) -> list[str]:
    """A run on a store that takes broken trials up again."""
    words = ["run", *TRIALS, "--replicates", str(replicates), "--jobs", "2", "--retry", "failed"]
    return [sys.executable, "-c", CODE, *words, "--store", str(store)]


def answers(store: Path) -> dict[str, object]:
    """What is stored, by trial."""
    with Store.open(store) as opened:
        assert opened.check().damage == ()
        return {one.key: one.answer for one in opened.records() if one.status.is_answer}


def stored(store: Path) -> int:
    """Number of trials with an outcome."""
    try:
        with Store.open(store) as opened:
            return opened.info().trials
    # The first run may die before there is one.
    except StoreError:
        return 0


def disturb(process: subprocess.Popen[bytes], moments: random.Random) -> str:
    """Send one signal to the run, or to a process below it; return which."""
    whole = psutil.Process(process.pid)
    below = [one for one in whole.children(recursive=True) if one.is_running()]
    kind = moments.choice(["kill run", "interrupt run", "kill", "terminate", "stop", "kill"])
    with contextlib.suppress(psutil.Error, ProcessLookupError):
        if kind == "kill run":
            whole.kill()
        elif kind == "interrupt run":
            whole.send_signal(signal.SIGINT)
        elif below:
            victim = moments.choice(below)
            if kind == "stop":
                victim.suspend()
                time.sleep(moments.uniform(0, 0.5))
                victim.resume()
            else:
                (victim.kill if kind == "kill" else victim.terminate)()
    return kind


def main() -> None:
    """Soak, then compare with an undisturbed run."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 180.0
    moments = random.Random(0)
    done: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store, clean, replicates = folder / "s.sqlite", folder / "clean.sqlite", 0
        end = time.monotonic() + seconds
        codes: Counter[int] = Counter()
        while time.monotonic() < end:
            replicates = max(replicates, stored(store) // ESTIMATORS + 40)
            with subprocess.Popen(command(store, replicates), cwd=folder, **SILENT) as process:
                while process.poll() is None:
                    time.sleep(moments.uniform(0.1, 2.0))
                    if process.poll() is None:
                        done[disturb(process, moments)] += 1
            codes[process.returncode] += 1
        for _ in range(20):
            if subprocess.run(command(store, replicates), check=False, **SILENT).returncode == 0:
                break
        subprocess.run(command(clean, replicates), check=True, **SILENT)
        found, expected = answers(store), answers(clean)
        assert found == expected, "an outcome differs from that of an undisturbed run"
        with Store.open(store) as opened:
            print(f"trials {len(found)}, records {opened.info().records}, all equal")
        left = [file.name for file in folder.iterdir() if file not in (store, clean)]
        assert not left, left
    mine = psutil.Process(os.getpid()).children(recursive=True)
    assert not mine, mine
    print("disturbed:", ", ".join(f"{count} x {kind}" for kind, count in sorted(done.items())))
    print("ended with:", ", ".join(f"{count} x {code}" for code, count in sorted(codes.items())))


if __name__ == "__main__":
    main()
