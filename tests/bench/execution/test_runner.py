"""The fold: planned trials, minus those stored and current, into the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ope_bench.base.errors import StoreError
from ope_bench.execution import Event, Finished, Limits, Message, Reused, RunEvent, Started, runner
from ope_bench.execution.executors import InProcessExecutor
from ope_bench.execution.local import LocalExecutor
from ope_bench.execution.runner import RunCounts, digest_of, run
from ope_bench.store import Store
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status

Ask = Callable[..., Trial]


class Scripted:
    """An executor that says what it is told to say."""

    jobs = 1

    def __init__(self, status: Status = Status.OK, *, stop_after: int | None = None) -> None:
        self.limits = Limits(timeout=5.0)
        self.status = status
        self.ran: list[tuple[str, bool]] = []
        self.closed = 0
        self.stop_after = stop_after
        self.stopped: list[bool] = []

    def run(self, trials: Sequence[Trial], *, exclusive: bool = False) -> Iterator[Event]:
        for trial in trials:
            if self.stopped or len(self.ran) == self.stop_after:
                return
            self.ran.append((trial.key, exclusive))
            yield Started(trial, 0)
            yield Finished(
                TrialRecord(trial, digest_of(trial), self.status, exclusive=exclusive), 0
            )

    def stop(self, *, now: bool = False) -> None:
        self.stopped.append(now)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ope-bench.sqlite"


def conducted(
    path: Path, plan: Sequence[Trial], executor: Any, **options: Any
) -> tuple[RunCounts, list[RunEvent]]:
    facts = options.pop("machine", {})
    with Store.open(path, write=True) as store:
        run_id = store.begin_run(suite="adhoc", truth="empirical", machine=facts)
        outcome = RunCounts()
        events = list(
            run(plan, store=store, run_id=run_id, executor=executor, outcome=outcome, **options)
        )
        held = {record.key for record in store.records(run=run_id)}
    told = {event.record.key for event in events if isinstance(event, Finished | Reused)}
    assert held == told, "the run's records are those it told of"
    return outcome, events


def test_a_second_run_reuses_everything(acme: Ask, path: Path) -> None:
    plan = [acme("mean", replicate) for replicate in range(5)]
    first, _ = conducted(path, plan, Scripted())
    again = Scripted()
    second, events = conducted(path, plan, again)
    assert (first.planned, first.reused, first.executed) == (5, 0, 5)
    assert (second.planned, second.reused, second.executed) == (5, 5, 0)
    assert first.status == second.status == Counter({Status.OK: 5})
    assert again.ran == []
    assert again.closed == 1
    assert all(isinstance(event, Reused) for event in events)


def test_only_what_is_new_runs(acme: Ask, path: Path) -> None:
    conducted(path, [acme("mean", replicate) for replicate in range(3)], Scripted())
    executor = Scripted()
    outcome, _ = conducted(path, [acme("mean", replicate) for replicate in range(5)], executor)
    assert [key for key, _ in executor.ran] == [acme("mean", 3).key, acme("mean", 4).key]
    assert (outcome.reused, outcome.executed) == (3, 2)


def test_a_trial_planned_twice_runs_once(acme: Ask, path: Path) -> None:
    outcome, _ = conducted(path, [acme("mean")] * 3, Scripted())
    assert (outcome.planned, outcome.executed, outcome.exit_code()) == (1, 1, 0)


def test_edited_code_runs_again(acme: Ask, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = [acme("mean"), acme("noisy")]
    conducted(path, plan, Scripted())
    original = digest_of
    edited = plan[0].estimator
    monkeypatch.setattr(
        runner,
        "digest_of",
        lambda trial: "edited" if trial.estimator is edited else original(trial),
    )
    executor = Scripted()
    conducted(path, plan, executor)
    assert [key for key, _ in executor.ran] == [plan[0].key]


@pytest.mark.parametrize(
    ("status", "retry", "runs_again"),
    [
        (Status.ERROR, None, False),
        (Status.ERROR, "failed", True),
        (Status.POSITIVITY, "failed", False),
        (Status.OK, "all", True),
        (Status.UNAVAILABLE, None, True),
    ],
)
def test_failures_are_retried_on_request(
    status: Status, retry: Any, runs_again: bool, acme: Ask, path: Path
) -> None:
    conducted(path, [acme("mean")], Scripted(status))
    executor = Scripted()
    conducted(path, [acme("mean")], executor, retry=retry)
    assert bool(executor.ran) is runs_again


def test_exclusive_trials_run_last_alone_and_in_an_order_of_their_own(
    acme: Ask, path: Path
) -> None:
    plan = [acme("mean", replicate) for replicate in range(40)]
    executor = Scripted()
    conducted(path, plan, executor, exclusive=lambda trial: trial.replicate < 20)
    assert [alone for _, alone in executor.ran] == [False] * 20 + [True] * 20
    lane = [key for key, _ in executor.ran[20:]]
    assert lane != [trial.key for trial in plan[:20]]
    assert sorted(lane) == sorted(trial.key for trial in plan[:20])
    # A later run that wants no times may use them; the other way round they run again.
    executor = Scripted()
    conducted(path, plan, executor)
    assert executor.ran == []
    conducted(path, plan, executor, exclusive=lambda trial: True)
    assert len(executor.ran) == 20


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (RunCounts(), 4),
        (RunCounts(planned=2, executed=1), 4),
        (RunCounts(planned=2, executed=1, interrupted=True), 130),
        (RunCounts(planned=1, executed=1, status=Counter([Status.OK])), 0),
        (RunCounts(planned=1, reused=1, status=Counter([Status.POSITIVITY])), 0),
        (RunCounts(planned=1, executed=1, status=Counter([Status.UNAVAILABLE])), 4),
        *(
            (RunCounts(planned=1, reused=1, status=Counter([status])), 3)
            for status in Status
            if status.broken
        ),
    ],
)
def test_the_exit_code_says_how_it_went(outcome: RunCounts, code: int) -> None:
    assert outcome.exit_code() == code
    assert outcome.exit_code(allow_failures=True) == (0 if code == 3 else code)


def test_a_run_that_ends_early_says_so(acme: Ask, path: Path) -> None:
    plan = [acme("mean", replicate) for replicate in range(5)]
    outcome, _ = conducted(path, plan, Scripted(stop_after=2))
    assert (outcome.executed, outcome.exit_code()) == (2, 4)


def test_a_store_that_fails_ends_the_workers(
    acme: Ask, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any, **more: Any) -> None:
        msg = "the disk is full"
        raise StoreError(msg)

    monkeypatch.setattr(Store, "add", full)
    executor = Scripted()
    with pytest.raises(StoreError, match="the disk is full"):
        conducted(path, [acme("mean")], executor)
    assert executor.closed == 1


def test_other_versions_of_packages_are_told(acme: Ask, path: Path) -> None:
    before = {"packages": {"numpy": "1.0"}, "python": "3.11.1"}
    conducted(path, [acme("mean")], Scripted(), machine=before)
    now = {"packages": {"numpy": "2.0"}, "python": "3.11.1"}
    _, events = conducted(path, [acme("mean")], Scripted(), machine=now)
    (notice,) = [event for event in events if isinstance(event, Message)]
    assert "1 reused trial ran with other versions (numpy 1.0 -> 2.0)" in notice.text
    _, events = conducted(path, [acme("mean")], Scripted(), machine=before)
    assert not [event for event in events if isinstance(event, Message)]


def test_executors_and_resumed_runs_leave_the_same_records(acme: Ask, path: Path) -> None:
    plan = [acme(name, replicate) for replicate in range(4) for name in ("mean", "noisy")]
    plan.append(acme("misbehaving", how="positivity"))

    def told(name: str, *parts: tuple[Any, Sequence[Trial]]) -> list[tuple[Any, ...]]:
        place = path.with_name(name)
        for executor, part in parts:
            conducted(place, part, executor)
        with Store.open(place) as store:
            return [
                (one.key, one.status, one.estimate, one.fallback, one.truth_empirical)
                for one in store.records()
            ]

    whole = told("whole", (InProcessExecutor(), plan))
    assert len(whole) == len(plan)
    assert told("two jobs", (LocalExecutor(2), plan)) == whole
    halves = (LocalExecutor(1), plan[::2]), (InProcessExecutor(), plan)
    assert told("resumed", *halves) == whole


def test_limits_are_stored_with_each_record(acme: Ask, path: Path) -> None:
    conducted(path, [acme("mean")], Scripted(Status.TIMEOUT))
    longer = Scripted()
    longer.limits = replace(longer.limits, timeout=6.0)
    conducted(path, [acme("mean")], longer)
    assert longer.ran
