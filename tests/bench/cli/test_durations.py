"""The time of a run, predicted before it and while it runs, from what similar trials took."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ope_bench.cli.progress import Forecast, Remaining, predict
from ope_bench.store import Seconds
from ope_bench.suites.manifest import Manifest, plan
from ope_bench.suites.suite import adhoc


@pytest.fixture
def manifest(tiny: Callable[[str], str]) -> Manifest:
    """Two settings with two estimators on three data sets each."""
    suite = adhoc([tiny("Coins[n_samples=[5,6]]")], [tiny("Average[shift=[0,1]]")])
    return plan(replace(suite, replicates=3))


def test_there_is_no_time_left_to_tell_before_every_estimator_has_run(manifest: Manifest) -> None:
    forecast = Forecast(manifest.trials, jobs=2)
    plain, moved = manifest.trials[:2]
    assert forecast.remaining() is None
    forecast.finished(plain, 1.0)
    assert forecast.remaining() is None
    forecast.finished(moved, 3.0)
    # Two left of each small cell, at what they took; three of each larger one, by their rows.
    seconds, guessed = forecast.remaining()
    assert seconds == pytest.approx((2 * 1 + 2 * 3 + 3 * 1 * 6 / 5 + 3 * 3 * 6 / 5) / 2)
    assert guessed
    assert str(Remaining(754.0, True)) == "at least 12 min 30 s left"
    for trial in manifest.trials[6:]:
        forecast.dropped(trial)
    assert forecast.remaining() == Remaining(4.0, False)
    for trial in manifest.trials[2:6]:
        forecast.dropped(trial)
    assert forecast.remaining() == Remaining(0.0, False)


def test_what_runs_alone_is_not_divided_by_the_jobs(manifest: Manifest) -> None:
    trials = manifest.trials[:6]
    forecast = Forecast(trials, jobs=2, alone=lambda trial: trial.replicate == 0)
    for trial in trials[2:4]:
        forecast.finished(trial, 4.0)
    # Beside others: one more of each estimator; alone: one of each, as long as beside others.
    assert forecast.remaining() == Remaining(2 * 4.0 / 2 + 2 * 4.0, False)


def predicted(manifest: Manifest, stored: Any = (), trials: Any = None, jobs: int = 1) -> Any:
    trials = manifest.trials if trials is None else trials
    return predict(trials, manifest.trials, dict(stored), jobs)


def test_an_estimator_that_never_ran_is_named_and_not_counted(manifest: Manifest) -> None:
    told = predicted(manifest)
    assert told.unknown == {"average": 12}
    assert told.as_text(12).startswith("unknown: ")
    assert "average" in told.as_text(12)
    known = {trial.key: Seconds(2.0, 2.0) for trial in manifest.trials[:6:2]}
    told = predicted(manifest, known)
    assert told.unknown == {"average": 6}
    assert told.stored == 3
    assert "6 trials of average not counted" in told.as_text(12)


def test_times_of_other_settings_are_scaled_by_their_rows_and_are_at_least(
    manifest: Manifest,
) -> None:
    known = {trial.key: Seconds(5.0, 10.0) for trial in manifest.trials[:6]}
    told = predicted(manifest, known, manifest.trials[6:])
    # Two estimators on each of three data sets of 6 rows; those of 5 rows took 5 s, and 10 s with
    # the fits that they share.
    assert told.seconds == pytest.approx(3 * 12.0)
    assert (told.stored, told.guessed, told.unknown) == (0, 6, {})
    assert told.as_text(6).startswith("at least 36 s: 6 trials guessed")


def test_stored_timings_are_the_time_of_their_cells(manifest: Manifest) -> None:
    trials = manifest.trials[:6]
    known = {trial.key: Seconds(2.0, 2.0) for trial in trials}
    told = predict(trials, manifest.trials, known, 2)
    assert told.seconds == 6.0
    assert told.as_text(6) == "about 6 s, from stored timings"
    assert predict([], manifest.trials, {}, 2).as_text(0) == "about 0 ms"


def test_shared_fits_count_once(manifest: Manifest) -> None:
    # Two estimators on each replicate; the first one's fit of 9 s serves the second as well.
    trials = manifest.trials[:4]
    costs = (Seconds(10.0, 10.0), Seconds(1.0, 10.0)) * 2
    known = {trial.key: cost for trial, cost in zip(trials, costs, strict=True)}
    assert predicted(manifest, known, trials).seconds == 22.0
    assert predicted(manifest, known, trials[1::2]).seconds == 20.0
