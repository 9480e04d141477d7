"""Regret against the best fixed choice: by hand, on paired data, with failures."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ope_bench.boards import over_settings
from ope_bench.boards.over_settings import RESAMPLES, ratio_intervals, regret_board
from ope_bench.contracts.random import stream
from ope_bench.outcomes import Outcomes
from ope_bench.plugins.spec import PluginSpec
from ope_bench.statistics.error_distribution import BOOTSTRAP_SEED
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status

TRUTH = 1.0


def record(environment: str, estimator: str, replicate: int, error: float, **facts: Any) -> Any:
    trial = Trial(
        PluginSpec("environment", environment, environment),
        PluginSpec("estimator", estimator, estimator),
        replicate,
    )
    known = {"estimate": TRUTH + error, "truth_expected": TRUTH, "truth_empirical": TRUTH}
    known |= {"logging_average": TRUTH + 5.0}
    return TrialRecord(trial, "digest", facts.pop("status", Status.OK), **(known | facts))


def row_of(environment: str, estimator: str, errors: list[float], **facts: Any) -> list[Any]:
    return [record(environment, estimator, i, error, **facts) for i, error in enumerate(errors)]


def choosing(environment: str, errors: list[float], candidates: dict[str, list[float]]) -> Any:
    records = row_of(environment, "select", errors)
    return [
        replace(one, diagnostics={"chosen": next(iter(candidates))}
                | {f"value[{name}]": TRUTH + values[i] for name, values in candidates.items()})
        for i, one in enumerate(records)
    ]  # fmt: skip


def board_of(records: list[Any]) -> Any:
    return regret_board(Outcomes.by_setting(records))


def rms(errors: list[float]) -> float:
    return math.sqrt(sum(error**2 for error in errors) / len(errors))


def rows(records: list[Any]) -> dict[str, Any]:
    board = board_of(records)
    assert board is not None
    return {row.estimator: row for row in board.rows}


def test_regret_is_the_geometric_mean_of_ratios_to_the_best_in_each_setting():
    records = [
        *row_of("one", "ipw", [1.0, 3.0]), *row_of("one", "dm", [2.0, -2.0]),
        *row_of("two", "ipw", [1.0, 1.0]), *row_of("two", "dm", [4.0, 4.0]),
    ]  # fmt: skip
    board = board_of(records)
    assert board is not None
    assert board.settings == ("one", "two")
    assert board.best == ("dm", "ipw")
    found = rows(records)
    first = rms([1.0, 3.0]) / 2.0
    assert found["ipw"].regret == pytest.approx(math.sqrt(first * 1.0))
    assert found["dm"].regret == pytest.approx(math.sqrt(1.0 * 4.0))
    assert found["dm"].worst == pytest.approx(4.0)
    assert found["dm"].worst_setting == "two"
    assert found["dm"].regret_90 == pytest.approx(math.exp(0.9 * math.log(4.0)))
    assert [row.estimator for row in board.rows] == ["ipw", "dm"]


def test_a_row_that_chooses_is_no_fixed_choice_however_good():
    records = [
        *row_of("one", "ipw", [2.0, 2.0]),
        *choosing("one", [1.0, 1.0], {"ipw": [2.0, 2.0], "dr": [0.5, 0.5]}),
    ]
    found = rows(records)
    assert found["ipw"].regret == 1.0
    assert found["select"].regret == pytest.approx(0.5)
    # Against its own candidates it could have had 0.5.
    assert found["select"].own_regret == pytest.approx(2.0)
    assert found["ipw"].own_regret is None


def test_data_sets_of_both_count_and_failures_as_the_logging_average():
    failed = record("one", "dm", 1, 0.0, estimate=None, status=Status.ERROR)
    records = [
        *row_of("one", "ipw", [1.0, 1.0, 9.0]),
        record("one", "dm", 0, 2.0), failed,
    ]  # fmt: skip
    found = rows(records)
    # Its RMSE of 3.8 on two data sets is no better than 5.3 on three.
    assert found["dm"].regret == pytest.approx(rms([2.0, 5.0]) / rms([1.0, 1.0]))


def test_a_row_that_mostly_fails_is_not_the_best_choice():
    worse = [
        record("one", "dm", i, 0.0, estimate=None, status=Status.POSITIVITY) for i in range(3)
    ]
    board = board_of([*row_of("one", "ipw", [9.0] * 3), *worse])
    assert board is not None
    assert board.best == ("ipw",)


def test_without_a_fixed_choice_there_is_no_board():
    assert board_of([]) is None
    assert board_of(choosing("one", [1.0], {"ipw": [1.0]})) is None


def test_the_interval_holds_the_regret_and_is_empty_for_the_best_row():
    rng = np.random.default_rng(0)
    records = []
    for environment in ("one", "two", "three"):
        records += row_of(environment, "ipw", rng.normal(size=40).tolist())
        records += row_of(environment, "dm", (2 * rng.normal(size=40)).tolist())
    found = rows(records)
    assert (found["ipw"].regret_low, found["ipw"].regret_high) == (1.0, 1.0)
    assert found["dm"].regret_low < found["dm"].regret < found["dm"].regret_high
    assert found["dm"].regret_low > 1.0
    # The logarithm's error by the delta method, of independent rows in three settings.
    width = math.log(found["dm"].regret_high / found["dm"].regret_low) / (2 * 1.96)
    assert width == pytest.approx(math.sqrt(2 * (2 / 40) / 4 / 3), rel=0.3)


def test_order_of_records_has_no_effect():
    records = [
        *row_of("two", "dm", [4.0, 1.0]), *row_of("one", "ipw", [1.0, 3.0]),
        *row_of("one", "dm", [2.0, -2.0]), *row_of("two", "ipw", [1.0, 1.0]),
    ]  # fmt: skip
    assert board_of(records) == board_of(records[::-1])


def test_numbers_beyond_doubles_give_no_figure_instead_of_an_error():
    records = [*row_of("one", "ipw", [1.0, 1.0]), *row_of("one", "dm", [1e200, 1e200])]
    found = rows(records)
    assert found["dm"].regret is None


def test_resamples_of_many_data_sets_are_drawn_in_parts_and_are_the_same(monkeypatch):
    n = 1_501
    monkeypatch.setattr(over_settings, "MOST_COUNTS", 1 << 18)
    left, right = np.random.default_rng(0).normal(size=(2, n))
    tracemalloc.start()
    try:
        (found,) = ratio_intervals([[(left, right)]])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    rng = stream("regret", BOOTSTRAP_SEED, 0, n)
    counts = rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES).astype(np.float64)
    logs = 0.5 * np.log(counts @ np.square(left)) - 0.5 * np.log(counts @ np.square(right))
    assert found == tuple(np.exp(np.quantile(logs, [0.025, 0.975])).tolist())
    # All of them at once are twice that, as integers and as floats.
    assert peak < counts.nbytes / 2


def test_each_setting_is_resampled_by_itself():
    """Errors that cancel between settings if both had the same resamples."""
    n = 40
    left, right = np.random.default_rng(1).normal(size=(2, n))
    ((low, high),) = ratio_intervals([[(left, right), (right, left)]])
    assert low is not None
    assert high is not None
    assert low < 0.95 < 1.05 < high
    logs = 0.0
    for index, (some, others) in enumerate([(left, right), (right, left)]):
        rng = stream("regret", BOOTSTRAP_SEED, index, n)
        counts = rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES)
        logs = logs + 0.5 * np.log(counts @ np.square(some) / (counts @ np.square(others)))
    expected = np.exp(np.quantile(logs / 2, [0.025, 0.975]))
    np.testing.assert_allclose([low, high], expected, rtol=1e-9)
