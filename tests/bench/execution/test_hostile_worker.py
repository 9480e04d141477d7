"""A worker may say anything at any time: the run goes on, each trial has one outcome, in time."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ope_bench.base.errors import UsageError
from ope_bench.execution import Finished, worker_process
from ope_bench.execution.local import LocalExecutor
from ope_bench.plugins.spec import resolve
from ope_bench.trials.record import RECORD_COLUMNS, Trial, TrialRecord, to_row
from ope_bench.trials.status import Status
from support.paths import SUPPORT

LIMIT = 0.5
"""Seconds of a trial."""

TRIALS = [
    Trial(resolve("environment", "gaussian"), resolve("estimator", "ipw"), replicate)
    for replicate in range(3)
]
ROW = to_row(TrialRecord(TRIALS[0], "digest", Status.OK, estimate=0.5))

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the program is a stand-in")


def outcomes(scripts: Sequence[list[Any]]) -> list[TrialRecord]:
    """What becomes of the trials if the workers, in the order of their start, do this."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        (folder / "row.json").write_text(json.dumps(ROW))
        for number, steps in enumerate(scripts):
            (folder / f"{number}.json").write_text(json.dumps(steps))
        command = [sys.executable, "-I", "-S", str(SUPPORT / "fake_worker.py"), name]
        patch.setattr(worker_process, "python_command", lambda _: command)
        with LocalExecutor(1, timeout=LIMIT, preparation=LIMIT) as executor:
            events = list(executor.run(TRIALS))
    return [event.record for event in events if isinstance(event, Finished)]


def check(scripts: Sequence[list[Any]]) -> list[TrialRecord]:
    begun = time.monotonic()
    records = outcomes(scripts)
    assert sorted(record.key for record in records) == sorted(trial.key for trial in TRIALS)
    assert {record.status for record in records} <= {Status.OK, Status.CRASH, Status.TIMEOUT}
    # Each script costs at most a limit before and one after the fit, and a start.
    assert time.monotonic() - begun < 60
    return records


@pytest.mark.parametrize(
    "text", ["x", "\n", '["fit", {"code_digest": ""}]\n', '["ready"]\n', '["batch", 2]\n']
)
def test_a_worker_that_writes_without_end_costs_its_trial(text: str) -> None:
    records = check([[["ready"], ["take"], ["fit"], ["flood", text]]])
    assert [record.status for record in records] == [Status.CRASH, Status.OK, Status.OK]
    assert "something wrote to the worker's channel" in (records[0].error_message or "")


def test_other_slots_keep_their_limits_while_a_channel_floods(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # No line ever ends, and no length is too long: only the time limit is left.
    monkeypatch.setattr("ope_bench.execution.worker_process.MESSAGE_BYTES", 1 << 60)
    steps = [["ready"], ["take"], ["fit"]]
    records = check([[*steps, ["flood", "x"]]])
    assert [record.status for record in records] == [Status.TIMEOUT, Status.OK, Status.OK]


@pytest.mark.parametrize("name", ["diagnostics", "access"])
@pytest.mark.parametrize("text", ["no JSON", "5", "null", "[" * 100_000, '{"mean_weight": []}'])
def test_a_forged_row_costs_its_worker_at_most(name: str, text: str) -> None:
    forged = [*ROW]
    forged[RECORD_COLUMNS.index(name)] = text
    steps = [["ready"], ["take"], ["fit"], ["raw", json.dumps(["done", forged, False]) + "\n"]]
    records = check([steps])
    # On a busy machine another trial may be done before the crash is told.
    lost = [record.status for record in records if record.status is not Status.OK]
    assert len(lost) <= 1
    assert all(record.as_json() for record in records)
    if name == "diagnostics" and text != '{"mean_weight": []}':
        assert lost == [Status.CRASH]


def test_forged_facts_cost_their_worker() -> None:
    facts = {"code_digest": "digest", "access": "5"}
    records = check([[["ready"], ["take"], ["raw", json.dumps(["fit", facts]) + "\n"], ["hang"]]])
    assert [record.status for record in records] == [Status.CRASH, Status.OK, Status.OK]


def test_an_honest_worker_answers_all() -> None:
    assert {record.status for record in check([])} == {Status.OK}


class AnyWorker(RuleBasedStateMachine):
    """Two workers, each with a script that begins as an honest one's; then they are let loose."""

    @initialize()
    def begin(self) -> None:
        self.scripts: list[list[Any]] = [[]]

    @property
    def last(self) -> str:
        return self.scripts[-1][-1][0] if self.scripts[-1] else ""

    def _say(self, *step: Any) -> None:
        self.scripts[-1].append(step)

    @rule()
    def go_on_honestly(self) -> None:
        follows = {"": "ready", "ready": "take", "take": "fit", "fit": "done", "done": "take"}
        self._say(follows.get(self.last, "take"))

    @rule(kind=st.sampled_from(["ready", "batch", "fit", "done", "retire", "take"]))
    def send_out_of_turn(self, kind: str) -> None:
        self._say(kind)

    @rule(text=st.text(max_size=30) | st.sampled_from(['["fit"', "[]\n", '["done", [1], 2]\n']))
    def write_anything(self, text: str) -> None:
        self._say("raw", text.encode("utf-8", "replace").decode())

    @rule(step=st.sampled_from([("exit", 0), ("exit", 3), ("kill",), ("close",), ("hang",)]))
    @precondition(lambda self: len(self.scripts[-1]) > 1)
    def end(self, step: tuple[Any, ...]) -> None:
        if len(self.scripts) < 2:
            self._say(*step)
            self.scripts.append([])

    def teardown(self) -> None:
        if hasattr(self, "scripts"):
            # Workers that fail to start again and again end the run with one line.
            with contextlib.suppress(UsageError):
                check(self.scripts)


AnyWorker.TestCase.settings = settings(
    max_examples=12,
    stateful_step_count=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
TestWhateverWorkersSay = AnyWorker.TestCase
