from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ope_bench.cli.forecast import Forecast, predicted_seconds
from ope_bench.cli.progress import LiveProgress, PlainProgress, Watch
from ope_bench.execution import Finished, Started
from ope_bench.manifest import Manifest, plan
from ope_bench.quantities import format_duration, format_size, parse_duration, parse_size
from ope_bench.records import Status, Trial, TrialRecord
from ope_bench.runner import Notice, Reused
from ope_bench.store import Seconds
from ope_bench.suite import adhoc


@pytest.fixture
def manifest(tiny: Callable[[str], str]) -> Manifest:
    suite = adhoc([tiny("Coins[n_samples=[5,6]]")], [tiny("Average[shift=[0,1]]")])
    return plan(replace(suite, replicates=3))


def _record(trial: Trial, status: Status = Status.OK, error: float = 0.5) -> TrialRecord:
    estimate = 1.0 + error if status is Status.OK else None
    return TrialRecord(trial, "code", status, estimate=estimate, truth_empirical=1.0)


def test_a_forecast_knows_each_cell_and_borrows_for_the_unseen(manifest: Manifest) -> None:
    forecast = Forecast(manifest.trials, jobs=2)
    assert forecast.seconds() is None
    small_plain, small_moved = manifest.trials[:2]
    forecast.finished(small_plain, 1.0)
    forecast.finished(small_moved, 3.0)
    # Two left of each small cell; three of each large one, at what its estimator took elsewhere.
    assert forecast.seconds() == (2 * 1 + 2 * 3 + 3 * 1 + 3 * 3) / 2
    for trial in manifest.trials[2:]:
        forecast.dropped(trial)
    assert forecast.seconds() == 0


def test_a_dry_run_predicts_what_it_knows_and_says_what_it_guesses(manifest: Manifest) -> None:
    trials = manifest.trials
    assert predicted_seconds([], {}, 2) == (0.0, 0)
    assert predicted_seconds(trials, {}, 2) == (None, 12)
    known = {trial.key: Seconds(2.0, 2.0) for trial in trials[:6]}
    assert predicted_seconds(trials, known, 2) == (12.0, 6)


def test_a_dry_run_counts_shared_fits_once(manifest: Manifest) -> None:
    # Two estimators on each replicate; the first one's fit of 9 s serves the second as well.
    trials = manifest.trials[:4]
    costs = (Seconds(10.0, 10.0), Seconds(1.0, 10.0)) * 2
    known = {trial.key: cost for trial, cost in zip(trials, costs, strict=True)}
    assert predicted_seconds(trials, known, 1) == (22.0, 0)
    assert predicted_seconds(trials[1::2], known, 1) == (20.0, 0)


def test_a_watch_counts_and_averages(manifest: Manifest) -> None:
    watch = Watch(manifest.trials, "empirical", 2)
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
    watch = Watch(manifest.trials, "empirical", 2)
    with PlainProgress(watch, "mine") as progress:
        progress.handle(Notice("look here"))
        for trial in manifest.trials:
            progress.handle(Started(trial, 0))
            progress.handle(Finished(_record(trial), 0))
    caught = capsys.readouterr()
    assert caught.out == ""
    assert caught.err.splitlines() == ["look here", "mine: 12/12  ok 12"]


def test_the_live_screen_shows_bar_counts_current_trials_and_board(manifest: Manifest) -> None:
    from rich.console import Console

    progress = LiveProgress(Watch(manifest.trials, "empirical", 2), "mine")
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


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("60s", 60), ("2m", 120), ("1h30m", 5400), ("500ms", 0.5), ("1.5 h", 5400), (3, 3), ("7", 7)],
)
def test_durations_read(text: object, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("4GiB", 2**32), ("512MiB", 2**29), ("1 kB", 1000), ("2G", 2**31), (4096, 4096), ("9", 9)],
)
def test_sizes_read(text: object, size: int) -> None:
    assert parse_size(text) == size


@given(
    st.text(max_size=12) | st.integers() | st.floats() | st.none() | st.booleans(),
    st.sampled_from([parse_duration, parse_size]),
)
def test_a_quantity_is_positive_or_refused(text: object, parse: Callable[[object], float]) -> None:
    from ope_bench.errors import UsageError

    try:
        value = parse(text)
    except UsageError:
        return
    assert value > 0
    assert math.isfinite(value)


@given(st.floats(0, 1e9), st.integers(0, 10**15))
def test_quantities_print_short(seconds: float, size: int) -> None:
    assert len(format_duration(seconds)) <= 14
    assert len(format_size(size)) <= 9
