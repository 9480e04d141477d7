"""The time of a run, predicted before it and while it runs, from a table of made-up costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ope_bench.cli.running import forecast as forecast_module
from ope_bench.cli.running import prediction as prediction_module
from ope_bench.cli.running.forecast import Forecast, Remaining
from ope_bench.cli.running.prediction import predict
from ope_bench.cli.running.reference import ReferenceTable, reference_table, sizes_of
from ope_bench.execution.calibration import calibration_seconds
from ope_bench.plugins.resolution import resolve
from ope_bench.store import Seconds
from ope_bench.suites.manifest import Manifest, plan, settings
from ope_bench.suites.suite import adhoc

UNIT = 0.5


def setting(rows: int, costs: dict[str, list[float]], environment: str = "coins") -> Any:
    return {
        "environment": environment,
        "sizes": {"n_samples": rows},
        "sampling": 2.0,
        "costs": costs,
    }


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replace the shipped table."""

    def use(*settings: Any) -> None:
        made = ReferenceTable({"settings": settings})
        for module in (forecast_module, prediction_module):
            monkeypatch.setattr(module, "reference_table", lambda: made)

    return use


@pytest.fixture
def manifest(tiny: Callable[[str], str]) -> Manifest:
    """Two settings with two estimators on three data sets each."""
    suite = adhoc([tiny("Coins[n_samples=[5,6]]")], [tiny("Average[shift=[0,1]]")])
    return plan(replace(suite, replicates=3))


def test_there_is_no_time_left_to_tell_before_every_estimator_has_run(
    manifest: Manifest, table: Callable[..., None]
) -> None:
    table()
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


def test_what_runs_alone_is_not_divided_by_the_jobs(
    manifest: Manifest, table: Callable[..., None]
) -> None:
    table()
    trials = manifest.trials[:6]
    forecast = Forecast(trials, jobs=2, alone=lambda trial: trial.replicate == 0)
    for trial in trials[2:4]:
        forecast.finished(trial, 4.0)
    # Beside others: one more of each estimator; alone: one of each, as long as beside others.
    assert forecast.remaining() == Remaining(2 * 4.0 / 2 + 2 * 4.0, False)


def test_a_forecast_scales_other_settings_by_the_table(
    manifest: Manifest, table: Callable[..., None], tiny: Callable[[str], str]
) -> None:
    first, second = (selector(manifest, index) for index in (0, 1))
    table(
        setting(5, {first: [1.0, 1.0], second: [2.0, 2.0]}),
        setting(6, {first: [10.0, 10.0], second: [2.0, 2.0]}),
    )
    forecast = Forecast(manifest.trials, jobs=1)
    for trial, seconds in zip(manifest.trials[:2], (0.3, 0.7), strict=True):
        forecast.finished(trial, seconds)
    expected = 2 * 0.3 + 2 * 0.7 + 3 * 0.3 * 10 + 3 * 0.7
    seconds, guessed = forecast.remaining()
    assert seconds == pytest.approx(expected)
    assert not guessed


def selector(manifest: Manifest, index: int) -> str:
    from ope_bench.suites.selector import selector_of

    return selector_of(manifest.trials[index].estimator)


def predicted(manifest: Manifest, stored: Any = (), trials: Any = None, jobs: int = 1) -> Any:
    trials = manifest.trials if trials is None else trials
    return predict(trials, manifest.trials, dict(stored), jobs, lambda: UNIT)


def test_a_plan_of_known_estimators_takes_the_costs_of_the_table(
    manifest: Manifest, table: Callable[..., None]
) -> None:
    first, second = (selector(manifest, index) for index in (0, 1))
    table(
        setting(5, {first: [1.0, 1.0], second: [2.0, 2.0]}),
        setting(6, {first: [4.0, 4.0], second: [8.0, 8.0]}),
    )
    told = predicted(manifest, jobs=2)
    # Three data sets of each setting, each sampled once.
    assert told.seconds == pytest.approx(UNIT * 3 * (2 + 1 + 2 + 2 + 4 + 8) / 2)
    assert (told.stored, told.guessed, told.unknown) == (0, 0, {})
    assert told.as_text(12) == "about 14 s, from timings of another machine, scaled to this one"


def test_what_is_guessed_is_at_least(
    manifest: Manifest, table: Callable[..., None], tiny: Callable[[str], str]
) -> None:
    plain = selector(manifest, 0)
    # The nearest in size, not the first; other parameters count as the slowest that are known.
    table(
        setting(5000, {plain: [1000.0, 1000.0]}),
        setting(10, {plain: [3.0, 3.0], "average[shift=7.0]": [30.0, 30.0], "average": [1, 1]}),
        setting(6, {plain: [500.0, 500.0]}, environment="elsewhere"),
    )
    told = predicted(manifest)
    assert told.guessed == 12
    data_set = 2.0 + 3.0 + 30.0
    assert told.seconds == pytest.approx(UNIT * 3 * data_set * (5 / 10 + 6 / 10))
    assert told.as_text(12).startswith("at least ")
    assert "12 trials guessed from other sizes or parameters" in told.as_text(12)


def test_an_estimator_that_never_ran_is_named_and_not_counted(
    manifest: Manifest, table: Callable[..., None]
) -> None:
    table()
    told = predicted(manifest)
    assert told.unknown == {"average": 12}
    assert told.as_text(12) == "unknown: average never ran here"
    known = {trial.key: Seconds(2.0, 2.0) for trial in manifest.trials[:6:2]}
    told = predicted(manifest, known)
    assert told.unknown == {"average": 6}
    assert told.stored == 3
    assert "6 trials of average not counted, which never ran here" in told.as_text(12)


def test_stored_timings_come_first_and_need_no_table(
    manifest: Manifest, table: Callable[..., None]
) -> None:
    first, second = (selector(manifest, index) for index in (0, 1))
    table(setting(5, {first: [1.0, 1.0], second: [1.0, 1.0]}))
    trials = manifest.trials[:6]
    known = {trial.key: Seconds(2.0, 2.0) for trial in trials}

    def never() -> float:
        raise AssertionError

    told = predict(trials, manifest.trials, known, 2, never)
    assert told.seconds == 6.0
    assert told.as_text(6) == "about 6 s, from stored timings"
    assert predict([], manifest.trials, {}, 2, never).as_text(0) == "about 0 ms"


def test_shared_fits_count_once(manifest: Manifest, table: Callable[..., None]) -> None:
    table()
    # Two estimators on each replicate; the first one's fit of 9 s serves the second as well.
    trials = manifest.trials[:4]
    costs = (Seconds(10.0, 10.0), Seconds(1.0, 10.0)) * 2
    known = {trial.key: cost for trial, cost in zip(trials, costs, strict=True)}
    assert predicted(manifest, known, trials).seconds == 22.0
    assert predicted(manifest, known, trials[1::2]).seconds == 20.0


def test_sizes_are_integers_that_are_no_seeds() -> None:
    sizes = sizes_of(resolve("environment", "behance"))
    assert {"n_samples", "items", "users", "appreciates"} <= sizes.keys()
    assert not {"surrogate_seed", "shared_contexts", "epsilon"} & sizes.keys()


def test_the_shipped_table_knows_every_estimator_of_the_shipped_suites() -> None:
    from ope_bench.suites.discovery import find_suite

    table = reference_table()
    for name in ("quick", "paper-actions", "paper-failures"):
        for cell in plan(find_suite(name)).cells:
            cost = table.cost(cell.environment, cell.estimator)
            assert cost is not None, (name, cell)
            assert cost.exact, (name, cell)
            assert 0 < cost.own <= cost.whole, (name, cell)
            assert table.sampling(cell.environment) > 0


def test_specs_that_are_gone_lend_their_costs_to_no_others() -> None:
    """The next spec is often where the last one was in memory."""
    (estimator,) = settings("estimator", "ipw")
    table, own = reference_table(), []
    for rows in (1_000, 2_000) * 20:
        (environment,) = settings("environment", f"saito-toy[n_samples={rows}]")
        cost = table.cost(environment, estimator)
        assert cost is not None
        own.append((rows, cost.own, table.sampling(environment)))
        del environment
    assert len(set(own)) == 2


def test_the_calibration_is_measured_once() -> None:
    assert calibration_seconds() == calibration_seconds() > 0
