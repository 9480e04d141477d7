"""The system's clock may be wrong and may be set at any time; only monotonic clocks measure."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ope_bench.cli.app import invoke
from ope_bench.store import Store
from support.paths import SUPPORT

COMPILER = shutil.which("cc") or shutil.which("gcc")
YEAR = 365 * 86_400

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the library is for Linux"),
    pytest.mark.skipif(COMPILER is None, reason="compiles a library"),
]

PLUGINS = """
import pathlib
import time

from ope_bench import Estimate, Estimator


class Wait(Estimator):
    \"\"\"Wait, then average.\"\"\"

    def __init__(self, seconds: float = 0.05) -> None:
        self.seconds = seconds

    def estimate(self, view):
        time.sleep(self.seconds)
        return Estimate(float(view.reward.mean()))


class Moody(Estimator):
    \"\"\"Fail where a file is.\"\"\"

    def estimate(self, view):
        if (pathlib.Path(__file__).parent / "fail").exists():
            raise ValueError("not now")
        return Estimate(float(view.reward.mean()))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("clock") / "clock.so"
    source = str(SUPPORT / "jumping_clock.c")
    command = [str(COMPILER), "-shared", "-fPIC", "-w", "-o", str(built), source, "-ldl"]
    subprocess.run(command, check=True)
    return built


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plugins.py").write_text(PLUGINS, encoding="utf-8")
    return tmp_path


def command(folder: Path, library: Path, *commands: list[str], jumps: str, **more: Any) -> Any:
    """Run commands until one fails, under a clock that is wrong by, and is set every so often."""
    code = "from ope_bench.cli.app import invoke; import json, sys; sys.exit("
    code += "next((code for words in json.loads(sys.argv[1]) if (code := invoke(words))), 0))"
    return subprocess.run(
        [sys.executable, "-c", code, json.dumps(commands)],
        cwd=folder,
        env={**os.environ, "TERM": "xterm", "LD_PRELOAD": str(library), "JUMPS": jumps},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        **more,
    )


def planned(*estimators: str, replicates: int) -> list[str]:
    names = [word for one in estimators for word in ("--est", f"./plugins.py:{one}")]
    return ["--env", "gaussian[n_samples=5]", *names, "--replicates", str(replicates)]


def seen_on_terminal(leader: int) -> str:
    seen = b""
    try:
        while part := os.read(leader, 1 << 16):
            seen += part
    except OSError:  # all have closed it
        pass
    return seen.decode()


def test_a_clock_that_is_set_during_a_run_changes_no_outcome_and_no_duration(
    folder: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["run", *planned("Wait", "Wait[seconds=0.1]", replicates=15), "--format", "json"]
    local = ["--jobs", "2", "--timeout", "60s", "--store", "jumps.sqlite"]
    begun = time.monotonic()
    leader, follower = pty.openpty()
    try:
        done = command(folder, library, [*words, *local], jumps=f"{YEAR} 3", stderr=follower)
    finally:
        os.close(follower)
    seen = seen_on_terminal(leader)
    os.close(leader)
    spent = time.monotonic() - begun
    assert done.returncode == 0, seen
    assert "left" in seen
    assert not re.search(r"(?<![\w;\[])-\s?\d", seen), "a negative duration"
    assert 0 < json.loads(done.stdout)["seconds"] < spent
    monkeypatch.chdir(folder)
    assert invoke([*words, "--executor", "inprocess", "--store", "calm.sqlite"]) == 0
    with Store.open(folder / "jumps.sqlite") as jumps, Store.open(folder / "calm.sqlite") as calm:
        answers = {one.key: one.answer for one in jumps.records()}
        assert answers == {one.key: one.answer for one in calm.records()}
        assert len(answers) == 30
        for record in jumps.records():
            assert 0 <= record.fit_seconds + record.estimate_seconds < spent
        (run,) = jumps.runs()
        assert 0 <= run.finished - run.started < spent
        assert abs(run.started - time.time()) > YEAR / 2, "the clock was never wrong"


def test_limits_hold_whatever_the_clock_says(folder: Path, library: Path) -> None:
    words = ["run", *planned("Wait[seconds=0.1]", "Wait[seconds=600]", replicates=1)]
    begun = time.monotonic()
    words += ["--timeout", "3s", "--jobs", "2", "--store", "s.sqlite"]
    done = command(folder, library, words, jumps=f"{YEAR} 2", stderr=subprocess.PIPE)
    assert done.returncode == 3, done.stderr
    assert time.monotonic() - begun < 120
    with Store.open(folder / "s.sqlite") as store:
        status = {one.trial.estimator.params["seconds"]: one.status for one in store.records()}
    assert status == {0.1: "ok", 600.0: "timeout"}


def test_the_newest_outcome_is_the_one_stored_last_whatever_the_clock_said(
    folder: Path,
    library: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ["run", *planned("Moody", replicates=3), "--format", "json"]
    words += ["--executor", "inprocess", "--store"]

    def at(jumps: str, *commands: list[str]) -> tuple[str, int]:
        done = command(folder, library, *commands, jumps=jumps, stderr=subprocess.PIPE)
        return done.stdout, done.returncode

    (folder / "fail").touch()
    assert at(f"{YEAR} 0", [*words, "s.sqlite"])[1] == 3
    (folder / "fail").unlink()
    said, code = at(f"{-YEAR} 0", [*words, "s.sqlite", "--retry", "failed"])
    assert (json.loads(said)["executed"], code) == (3, 0)
    merge = ["store", "merge", "s.sqlite", "--store", "m.sqlite"]
    export = ["export", "--to", "t.jsonl", "--store", "m.sqlite"]
    assert at(f"{YEAR} 1", merge, export)[1] == 0
    monkeypatch.chdir(folder)
    for store in ("s.sqlite", "m.sqlite"):
        capfd.readouterr()
        assert invoke([*words, store]) == 0
        again = json.loads(capfd.readouterr().out)
        assert (again["reused"], again["status"]["ok"]) == (3, 3)
    rows = [json.loads(line) for line in (folder / "t.jsonl").read_text().splitlines()]
    assert [row["status"] for row in rows] == ["ok"] * 3
