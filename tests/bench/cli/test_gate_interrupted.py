"""Ctrl-C during a gate, with real processes: one clear line, 130, and nothing lives on."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")

PLUGIN = """
import os, time
from pathlib import Path
from ope_bench import Estimate, Estimator

class Slow(Estimator):
    def fit(self, view, *, rng, device):
        with Path("begun").open("a") as file:
            file.write("x")
        time.sleep(float(os.environ.get("SLOW_SECONDS", "0")))
        return self

    def estimate(self, view):
        return Estimate(float(view.reward.mean()))
"""

SUITE = """
schema: 1
title: slow
replicates: REPLICATES
timeout: TIMEOUT
environments:
  - saito-toy: {n_samples: 20}
estimators: ["./slow.py:Slow"]
"""


@pytest.fixture
def baseline(cli):
    """A baseline of the plugin, whose trials have this timeout."""

    def make(timeout, replicates=8):
        Path("slow.py").write_text(PLUGIN)
        suite = SUITE.replace("TIMEOUT", timeout).replace("REPLICATES", str(replicates))
        Path("s.yaml").write_text(suite)
        assert cli("run", "s.yaml", "--store", "s.sqlite", "--jobs", "1").code == 0
        save = ("baseline", "save", "b.json", "--suite", "s.yaml", "--store", "s.sqlite")
        assert cli(*save).code == 0
        Path("begun").unlink()

    return make


class Gate:
    """A gate in a process group of its own."""

    def __init__(self, *more, store="g.sqlite", **environment):
        self.mark = f"GATE_TEST={uuid.uuid4().hex}"
        name, _, value = self.mark.partition("=")
        script = "import sys; from ope_bench.cli.app import invoke; sys.exit(invoke(sys.argv[1:]))"
        words = ["gate", "b.json", "--store", store, "--jobs", "2", *more]
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, name: value, **environment},
            process_group=0,
        )

    def press_ctrl_c(self):
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self):
        out, err = self.process.communicate(timeout=120)
        return self.process.returncode, out, err.splitlines()

    def left(self):
        """Processes that it started, at any remove, and that live five seconds later."""
        end = time.monotonic() + 5
        while (found := self._alive()) and time.monotonic() < end:
            time.sleep(0.05)
        return found

    def _alive(self):
        found = set()
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if self.mark.encode() in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                    found.add(int(name))
        return found


def wait_for_fits(count):
    begun = Path("begun")
    end = time.monotonic() + 120
    while not begun.exists() or begun.stat().st_size < count:
        assert time.monotonic() < end, "no trial began"
        time.sleep(0.02)


def test_one_ctrl_c_lets_running_trials_finish_and_the_next_gate_resumes(baseline):
    baseline("100s")
    gate = Gate("--format", "json", SLOW_SECONDS="0.3")
    wait_for_fits(2)
    gate.press_ctrl_c()
    code, out, said = gate.end()
    assert code == 130
    assert not gate.left()
    assert said[0].startswith("stopping: waiting for")
    assert said[1].startswith("gate  130: interrupted; ")
    assert said[1].endswith(" left, `gate --reuse` resumes")
    assert len(said) == 2
    assert json.loads(out)["exit_code"] == 130
    before = Path("begun").stat().st_size
    assert before < 8
    code, _, said = Gate("--reuse").end()
    assert code == 0
    assert Path("begun").stat().st_size == 8
    assert f"{8 - before} of 8 trials run, {before} reused" in said[-1]


def test_a_second_ctrl_c_gives_up_on_trials_that_hang(baseline):
    baseline("100s")
    gate = Gate("--format", "junit", SLOW_SECONDS="600")
    wait_for_fits(2)
    gate.press_ctrl_c()
    assert gate.process.stderr.readline().startswith("stopping: ")
    gate.press_ctrl_c()
    code, out, said = gate.end()
    assert (code, len(said)) == (130, 1)
    assert "8 trials left" in said[0]
    assert '<error message="interrupted; 8 trials left' in out
    assert not gate.left()


def test_ctrl_c_while_trials_run_again_alone_ends_at_once(baseline):
    baseline("1s", replicates=3)
    gate = Gate(SLOW_SECONDS="600")
    # All three hit the limit; the fourth fit is the first of those with doubled limits.
    wait_for_fits(4)
    gate.press_ctrl_c()
    code, out, said = gate.end()
    assert (code, out) == (130, "")
    assert said[-1].startswith("gate  130: interrupted after all trials had run; `gate --reuse` ")
    assert not gate.left()
