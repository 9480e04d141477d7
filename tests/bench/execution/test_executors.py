"""Misbehaving plugins cost their own trial, in every executor the numbers are the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ope_bench.base.errors import UsageError
from ope_bench.execution import Executor, Finished, Started
from ope_bench.execution import worker_process as slot
from ope_bench.execution.executors import InProcessExecutor
from ope_bench.execution.local import LocalExecutor
from ope_bench.execution.watchdog import MARK
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status

Ask = Callable[..., Trial]


def records(executor: Executor, trials: Sequence[Trial]) -> dict[str, TrialRecord]:
    with executor:
        return found_by(executor, trials)


def found_by(executor: Executor, trials: Sequence[Trial]) -> dict[str, TrialRecord]:
    """Records of an executor that goes on."""
    finished = [event.record for event in executor.run(trials) if isinstance(event, Finished)]
    by_key = {record.key: record for record in finished}
    assert len(by_key) == len(finished), "a trial finished twice"
    return by_key


@pytest.fixture(scope="module")
def one() -> Iterator[LocalExecutor]:
    """One worker for tests that do not ask how it starts or ends."""
    with LocalExecutor(1) as executor:
        yield executor


def gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has waited for yet counts."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def all_gone(note: Path) -> bool:
    pids = [int(pid) for pid in note.read_text(encoding="ascii").split()]
    assert len(pids) == 3
    end = time.monotonic() + 30
    while time.monotonic() < end and not all(map(gone, pids)):
        time.sleep(0.02)
    return all(map(gone, pids))


# What it does; its status, error type, and a word of message, traceback or output.
EXPECTED: dict[str, tuple[str, str | None, str]] = {
    "raise": ("error", "ValueError", "as requested"),
    "positivity": ("positivity", "PositivityViolation", "as requested"),
    "hang": ("timeout", "TimeoutError", "longer than 1.5 s"),
    "hang-in-c": ("timeout", "TimeoutError", "longer than 1.5 s"),
    "ignore-signals": ("timeout", "TimeoutError", "longer than 1.5 s"),
    "segfault": ("crash", "WorkerDied", "SIGSEGV"),
    "abort": ("crash", "WorkerDied", "SIGABRT"),
    "nan": ("nonfinite", "nonfinite", "nan"),
    "infinite": ("nonfinite", "nonfinite", "inf"),
    "wrong-type": ("error", "DataError", "estimate returned str"),
    "print": ("ok", None, ""),
    "spam": ("ok", None, ""),
    "spam-and-die": ("crash", "WorkerDied", "SIGKILL"),
    "sys-exit": ("crash", "SystemExit", "3"),
    "os-exit": ("crash", "WorkerDied", "exited with 3"),
    "os-exit-0": ("crash", "WorkerDied", "exited with 0"),
    "die-later": ("ok", None, ""),
    "mutate": ("error", "ValueError", "read-only"),
    "open-and-mutate": ("error", "ValueError", "cannot set WRITEABLE flag to True"),
    "children": ("ok", None, ""),
    "children-and-die": ("crash", "WorkerDied", "SIGKILL"),
    "fork": ("ok", None, ""),
    "interrupt": ("crash", "WorkerDied", "SIGINT"),
    "swallow": ("error", "AccessError", "view.propensity"),
    "close-files": ("crash", "WorkerDied", ""),
    "kill-parent": ("crash", "WorkerDied", "SIGKILL"),
    "daemon": ("ok", None, ""),
    "temporary-files": ("ok", None, ""),
    "daemon-and-die": ("crash", "WorkerDied", "SIGKILL"),
    "daemon-and-hang": ("timeout", "TimeoutError", "longer than 1.5 s"),
}
HANGING = [how for how, (status, _, _) in EXPECTED.items() if status == "timeout"]

Misbehaved = tuple[dict[str, TrialRecord], dict[str, TrialRecord], Path]


@pytest.fixture(scope="module")
def misbehaved(acme: Ask, tmp_path_factory: pytest.TempPathFactory) -> Misbehaved:
    """Records of every misbehaviour, each followed by an innocent trial on the same data."""
    folder = tmp_path_factory.mktemp("notes")
    names, innocents = {}, {}
    found: dict[str, TrialRecord] = {}
    # Only trials that never end have little time: the others would exceed it on a busy machine.
    others = [how for how in EXPECTED if how not in HANGING]
    for timeout, asked in ((1.5, HANGING), (120.0, others)):
        trials = []
        for how in asked:
            number = list(EXPECTED).index(how)
            guilty = acme("misbehaving", number, how=how, note=str(folder / how))
            innocent = acme("mean", number)
            names[guilty.key], innocents[innocent.key] = how, how
            trials += [guilty, innocent]
        found |= records(LocalExecutor(2, timeout=timeout), trials)
    return (
        {names[key]: record for key, record in found.items() if key in names},
        {innocents[key]: record for key, record in found.items() if key in innocents},
        folder,
    )


@pytest.mark.parametrize("how", EXPECTED)
def test_each_misbehaviour_gets_its_status_and_the_next_trial_runs(
    how: str, misbehaved: Misbehaved
) -> None:
    guilty, innocent, _ = misbehaved
    record = guilty[how]
    status, error_type, words = EXPECTED[how]
    assert (record.status, record.error_type) == (status, error_type), record
    assert words in (record.error_message or "")
    assert innocent[how].status is Status.OK
    # What boards impute failures with, known even of a trial that took its worker along.
    for fact in ("logging_average", "truth_expected", "truth_empirical", "origin"):
        assert getattr(record, fact) == getattr(innocent[how], fact), fact
    assert record.access == ("samples",)
    assert record.code_digest == guilty["nan"].code_digest
    if status in ("timeout", "crash", "error", "nonfinite"):
        assert record.estimate is None


def test_output_is_kept_at_its_end_only(misbehaved: Misbehaved) -> None:
    guilty, _, _ = misbehaved
    said = guilty["print"].output_tail or ""
    for words in ("printed to stdout", "printed to stderr", "descriptor 1", "descriptor 2"):
        assert words in said
    for how in ("spam", "spam-and-die"):
        spam = guilty[how].output_tail or ""
        assert len(spam) < 10_000
        assert spam.endswith("the end of the spam\n")
    assert "about to touch address 0" in (guilty["segfault"].output_tail or "")


def test_an_exception_brings_its_traceback(misbehaved: Misbehaved) -> None:
    guilty, _, _ = misbehaved
    assert "in _raise" in (guilty["raise"].traceback or "")


@pytest.mark.parametrize(
    "how", ["children", "children-and-die", "daemon", "daemon-and-die", "daemon-and-hang"]
)
def test_what_a_trial_spawned_ends_with_it(how: str, misbehaved: Misbehaved) -> None:
    assert all_gone(misbehaved[2] / how)


@pytest.mark.skipif(sys.platform != "linux", reason="keepers are for Linux")
def test_temporary_files_go_with_their_worker(misbehaved: Misbehaved) -> None:
    path = Path((misbehaved[2] / "temporary-files").read_text(encoding="utf-8"))
    of_worker, of_run, shared = list(path.parents)[:3]
    assert not of_worker.exists()
    # Also that of the worker whose keeper was killed, by "kill-parent".
    assert not of_run.exists()
    assert of_run.name.startswith("ope-bench-")
    assert shared == Path(tempfile.gettempdir())


@pytest.mark.skipif(sys.platform != "linux", reason="marks are read from /proc")
def test_what_a_killed_keeper_left_ends_with_the_run(acme: Ask) -> None:
    """A process with the mark of the run that is no child of it any more."""
    with LocalExecutor(1, timeout=60) as executor:
        assert list(executor.run([acme("mean", 0)]))
        left = subprocess.Popen(
            ["sleep", "60"], env={MARK: f"{executor._mark}-7", "PATH": os.defpath}
        )
    assert left.wait(20) == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="/proc shows what a process was told")
def test_workers_keep_the_memory_that_they_freed(acme: Ask) -> None:
    with LocalExecutor(1, timeout=60) as executor:
        assert list(executor.run([acme("mean", 0)]))
        process = executor._workers[0]._process
        assert process is not None
        told = Path(f"/proc/{process.pid}/environ").read_bytes()
    assert b"MALLOC_TRIM_THRESHOLD_=67108864" in told.split(b"\0")


def test_memory_is_limited(acme: Ask) -> None:
    trials = [
        trial
        for number, how in enumerate(("allocate", "allocate-shared"))
        for trial in (acme("misbehaving", number, how=how), acme("mean", number))
    ]
    limit = 200 << 20
    found = records(LocalExecutor(1, memory=limit, timeout=60), trials)
    for guilty, next_one in (trials[:2], trials[2:]):
        record, innocent = found[guilty.key], found[next_one.key]
        assert (record.status, record.error_type) == (Status.MEMORY, "MemoryError")
        assert record.logging_average == innocent.logging_average
        assert innocent.status is Status.OK


@pytest.mark.skipif(sys.platform != "linux", reason="memory limits are for Linux")
def test_a_limit_that_libraries_alone_exceed_is_told_and_not_waited_for(acme: Ask) -> None:
    trials = [acme("mean"), acme("mean", 1)]
    found = records(LocalExecutor(1, memory=32 << 20, timeout=120), trials)
    assert {found[trial.key].status for trial in trials} == {Status.MEMORY}


# How it is broken, and which limit of preparation is short enough to wait for.
@pytest.mark.parametrize(
    ("preparation", "broken"),
    [
        (
            120,
            {
                "raise": (Status.ERROR, "the world is broken"),
                "exit": (Status.CRASH, "exited with 7 before fit"),
            },
        ),
        (3, {"hang": (Status.TIMEOUT, "imports and sampling took longer than 3 s")}),
    ],
)
def test_a_broken_world_costs_its_trials(
    preparation: float, broken: dict[str, tuple[Status, str]], acme: Ask
) -> None:
    trials = [acme("mean", world="bad-world", world_params={"how": how}) for how in broken]
    rest = [acme("mean", number) for number in range(len(broken))]
    plan = [trial for pair in zip(trials, rest, strict=True) for trial in pair]
    found = records(LocalExecutor(1, timeout=30, preparation=preparation), plan)
    for trial, (status, words) in zip(trials, broken.values(), strict=True):
        record = found[trial.key]
        assert (record.status, record.access) == (status, ("samples",))
        assert words in (record.error_message or "")
        assert record.code_digest
    assert {found[trial.key].status for trial in rest} == {Status.OK}


def test_workers_that_cannot_start_are_told_in_one_line(
    acme: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "print(1, flush=True); raise ImportError('no such module')"
    monkeypatch.setattr(slot, "python_command", lambda _: [sys.executable, "-c", code])
    told = r"no worker can start: it exited with 1 \(ImportError: no such module\).*64 MiB"
    with pytest.raises(UsageError, match=told) as caught:
        records(LocalExecutor(1, memory=64 << 20), [acme("mean")])
    assert "\n" not in str(caught.value)


def test_numbers_are_bit_identical_in_every_executor_and_order(
    acme: Ask, one: LocalExecutor
) -> None:
    trials = [
        acme(name, replicate, **params)
        for replicate in range(6)
        for name, params in (("noisy", {}), ("noisy", {"n_draws": 5}), ("mean", {}))
    ]
    orders = [trials, trials[::-1], trials[1::2] + trials[::2]]

    def bits(executor: Executor, order: Sequence[Trial]) -> dict[str, Any]:
        return {
            key: (found.status, found.estimate, found.truth_empirical, found.diagnostics)
            for key, found in found_by(executor, order).items()
        }

    expected = bits(InProcessExecutor(), trials)
    assert all(told[0] is Status.OK for told in expected.values())
    with LocalExecutor(2) as two:
        for order, executor in zip(orders, (InProcessExecutor(), one, two), strict=True):
            assert bits(executor, order) == expected, executor


def test_changed_settings_do_not_reach_the_next_trial(
    acme: Ask, one: LocalExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    noisy = [acme("noisy"), acme("settings")]
    alone = found_by(one, noisy)
    monkeypatch.chdir(Path.cwd())  # put back after the trial in this process
    for executor in (one, InProcessExecutor()):
        untidy = acme("misbehaving", how="untidy")
        after = found_by(executor, [untidy, *noisy])
        assert after[untidy.key].note == "changed the working directory"
        in_process = isinstance(executor, InProcessExecutor)
        for trial in noisy:
            told, expected = after[trial.key], alone[trial.key]
            assert (told.status, told.estimate) == (Status.OK, expected.estimate)
            # In process nothing is put back but what a context manager holds.
            stays = {"folder": "/"} if in_process and trial is noisy[1] else {}
            assert told.diagnostics == {**expected.diagnostics, **stays}


def test_each_trial_starts_before_it_finishes_and_no_process_is_left(acme: Ask) -> None:
    def children() -> Iterator[str]:
        for task in Path("/proc/self/task").iterdir():
            yield from (task / "children").read_text(encoding="ascii").split()

    before = set(children()) if sys.platform == "linux" else set()
    trials = [acme("mean", replicate) for replicate in range(20)]
    executor = LocalExecutor(2)
    try:
        events = list(executor.run(trials))
        # The same workers serve again.
        assert len(list(executor.run([acme("mean", 30)], exclusive=True))) == 2
    finally:
        executor.close()
    assert sys.platform != "linux" or set(children()) <= before
    running: dict[int, str] = {}
    for event in events:
        if isinstance(event, Started):
            assert event.worker not in running
            running[event.worker] = event.trial.key
        else:
            assert running.pop(event.worker) == event.record.key
    assert not running


def test_trials_run_alone_say_so(acme: Ask, one: LocalExecutor) -> None:
    for executor in (InProcessExecutor(), one):
        events = executor.run([acme("mean")], exclusive=True)
        (record,) = [event.record for event in events if isinstance(event, Finished)]
        assert record.exclusive


def test_one_thread_a_trial(acme: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    for executor in (InProcessExecutor(), LocalExecutor(1)):
        record = records(executor, [acme("threads")])[acme("threads").key]
        assert record.diagnostics["pools"] >= 1
        assert record.diagnostics["threads"] == 1
    assert os.environ["OMP_NUM_THREADS"] == "2"


def test_a_stopped_executor_begins_nothing_new(acme: Ask) -> None:
    executor = LocalExecutor(1)
    trials = [acme("mean", replicate, seconds=0.1) for replicate in range(20)]
    finished = 0
    try:
        for event in executor.run(trials):
            finished += isinstance(event, Finished)
            if isinstance(event, Started):
                executor.stop()
    finally:
        executor.close()
    assert finished == 1
