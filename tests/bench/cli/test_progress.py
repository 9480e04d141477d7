from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from ope_bench.cli.own_log import _Fits
from ope_bench.cli.progress import LiveProgress, PlainProgress, RunState
from ope_bench.execution import Finished, Message, Reused, Started
from ope_bench.suites.manifest import Manifest, plan
from ope_bench.suites.suite import adhoc
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status


@pytest.fixture
def manifest(tiny: Callable[[str], str]) -> Manifest:
    suite = adhoc([tiny("Coins[n_samples=[5,6]]")], [tiny("Average[shift=[0,1]]")])
    return plan(replace(suite, replicates=3))


def _record(trial: Trial, status: Status = Status.OK, error: float = 0.5) -> TrialRecord:
    estimate = 1.0 + error if status is Status.OK else None
    return TrialRecord(trial, "code", status, estimate=estimate, truth_empirical=1.0)


def test_a_watch_counts_and_averages(manifest: Manifest) -> None:
    watch = RunState(manifest.trials, "empirical", 2)
    first, second, third, fourth = manifest.trials[:4]
    watch.handle(Reused(_record(first, error=0.5)))
    watch.handle(Started(third, 0))
    assert watch.running[0][0] is third
    watch.handle(Finished(_record(third, error=-0.5), 0))
    watch.handle(Finished(_record(second, Status.POSITIVITY), 1))
    watch.handle(Finished(_record(fourth, error=2.0), 1))
    assert (watch.done, watch.reused, watch.executed) == (4, 1, 3)
    assert not watch.running
    assert watch.counts() == "ok 3  positivity 1  (reused 1)"
    board = watch.board(80, 10)
    assert board[0] == ["RMSE so far", "n_samples=5", "n_samples=6"]
    assert board[1][1:] == ["0.5", ""]
    assert board[2][1:] == ["2 !1", ""]
    assert len(watch.board(80, 2)) == 2
    assert watch.board(20, 10)[0] == ["RMSE so far"]


def test_logs_get_plain_lines_with_notices(
    manifest: Manifest, capsys: pytest.CaptureFixture[str]
) -> None:
    watch = RunState(manifest.trials, "empirical", 2)
    with PlainProgress(watch, "mine") as progress:
        progress.handle(Message("look here"))
        for trial in manifest.trials:
            progress.handle(Started(trial, 0))
            progress.handle(Finished(_record(trial), 0))
    caught = capsys.readouterr()
    assert caught.out == ""
    assert caught.err.splitlines() == ["look here", "mine: 12/12  ok 12"]


def test_the_live_screen_shows_bar_counts_current_trials_and_board(manifest: Manifest) -> None:
    from rich.console import Console

    progress = LiveProgress(RunState(manifest.trials, "empirical", 2), "mine")
    for trial in manifest.trials[:2]:
        progress.handle(Started(trial, 0))
        progress.handle(Finished(_record(trial), 0))
    progress.handle(Started(manifest.trials[2], 0))
    stream = io.StringIO()
    Console(file=stream, width=80, height=24).print(progress._screen())
    shown = stream.getvalue()
    assert "2/12" in shown
    assert "ok 2" in shown
    assert "0: average shift=0.0 on coins n_samples=5, replicate 1" in shown
    assert "RMSE so far" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_a_budget_is_counted_down(manifest: Manifest) -> None:
    watch = RunState(manifest.trials, "empirical", 2, deadline=time.monotonic() + 90)
    assert "1 min 30 s" in watch.rest() or "1 min 29 s" in watch.rest()
    over = RunState(manifest.trials, "empirical", 2, deadline=time.monotonic() - 1)
    assert "0" in over.rest()


@pytest.mark.parametrize(("seconds", "lines"), [(0.0, 0), (11.0, 1)])
def test_a_pipe_has_a_line_of_each_estimator_that_took_long(
    manifest: Manifest,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    lines: int,
) -> None:
    trial = manifest.trials[0]
    with _Fits() as fits:
        fits(Started(trial, 0))
        begun = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: begun + seconds)
        fits(Finished(_record(trial), 0))
    shown = capsys.readouterr().err.splitlines()
    assert [line.split()[:2] for line in shown] == [["average", "1.50"]] * lines
