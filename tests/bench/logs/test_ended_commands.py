"""Real commands that a signal ends: nothing of the user's log stays in the temporary folder."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from ope_bench import Log
from ope_bench.logs.log_data import stored_log
from support.small_logs import write_small

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs a keeper of workers")

ADVISE = ("advise", "log.yaml", "--simulate", "--replicates", "5000", "--est", "ipw")
CHECK = ("log", "check", "hangs.yaml")


def wait_until(condition: Callable[[], object]) -> bool:
    end = time.monotonic() + 60
    while time.monotonic() < end and not condition():
        time.sleep(0.02)
    return bool(condition())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The folder of temporary files."""
    write_small(tmp_path)
    text = (tmp_path / "log.yaml").read_text()
    code = "import time\n\n\nclass P:\n    def __init__(self):\n        time.sleep(600)\n"
    (tmp_path / "policy.py").write_text(code)
    changed = text.replace("probability: q", "policy: policy.py:P")
    (tmp_path / "hangs.yaml").write_text(changed)
    place = tmp_path / "temporary"
    place.mkdir()
    return place


@contextlib.contextmanager
def running(
    arguments: Sequence[str], place: Path, *before: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command; the block begins when it has stored something."""
    # Tests that run under nohup would hand their ignored SIGHUP on.
    inherited = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    process = subprocess.Popen(
        [*before, sys.executable, "-m", "ope_bench", *arguments],
        cwd=place.parent,
        env={**os.environ, "TMPDIR": str(place)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    signal.signal(signal.SIGHUP, inherited)
    try:
        assert wait_until(lambda: list(place.glob("*/context.np?")))
        yield process
    finally:
        process.kill()
        process.wait()


# Handlers are those of the whole program; SIGTERM among workers has its test below.
@pytest.mark.parametrize(
    ("arguments", "number"), [(ADVISE, signal.SIGHUP), (CHECK, signal.SIGTERM)]
)
def test_a_command_that_a_signal_ends_leaves_nothing(arguments, number, place):
    with running(arguments, place) as process:
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    # The folder of a worker's temporary files goes with its keeper, shortly after.
    assert wait_until(lambda: not list(place.iterdir()))


def test_a_signal_during_the_import_of_a_plugin_is_not_a_failure_of_the_plugin(place):
    """The module signals its own process, as a signal at that moment would."""
    (place.parent / "mine.py").write_text("import os\nos.kill(os.getpid(), 15)\n")
    command = [sys.executable, "-m", "ope_bench", "estimate", "log.yaml", "--est", "mine.py:Mine"]
    environment = {**os.environ, "TMPDIR": str(place)}
    ended = subprocess.run(command, cwd=place.parent, env=environment, capture_output=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (143, b"", b"")


def test_the_log_of_a_killed_command_is_removed_by_the_next_one(place, monkeypatch):
    with running(ADVISE, place) as process:
        process.kill()
    (stale,) = place.glob("ope-bench-log-*")
    monkeypatch.setattr("tempfile.tempdir", str(place))
    with stored_log(Log.read(place.parent / "log.yaml")) as folder:
        assert not stale.exists()
        assert folder.exists()
    assert not list(place.glob("ope-bench-log-*"))


def test_a_policy_that_hangs_ends_with_its_killed_command(place):
    with running(CHECK, place) as process:
        # Its data are stored before it starts.
        assert wait_until(psutil.Process(process.pid).children)
        (policy,) = psutil.Process(process.pid).children()
        process.kill()
        # Nobody may be there to reap it.
        assert wait_until(lambda: not policy.is_running() or policy.status() == "zombie")


def test_a_command_without_a_terminal_goes_on_after_it_is_gone(place):
    """Under nohup SIGHUP is ignored: SIGTERM then ends the command."""
    with running(ADVISE, place, "nohup") as process:
        process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        assert process.poll() is None
        process.terminate()
        assert process.wait(60) == 143
    assert wait_until(lambda: not list(place.iterdir()))
