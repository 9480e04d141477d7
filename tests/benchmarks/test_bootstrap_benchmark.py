"""Seconds of the statistics over a large board; run this file with pytest."""

import numpy as np

from ope_bench.statistics.error_distribution import rmse_intervals
from ope_bench.statistics.paired_tests import compare_rows

SETTINGS, ESTIMATORS, REPLICATES = 20, 50, 100


def test_ten_thousand_resamples_over_a_thousand_rows_take_less_than_five_seconds(benchmark):
    errors = np.random.default_rng(0).normal(size=(SETTINGS * ESTIMATORS, REPLICATES))
    found = benchmark.pedantic(
        rmse_intervals, (errors,), {"resamples": 10_000}, rounds=3, warmup_rounds=1
    )
    assert np.isfinite(found.low).mean() > 0.99
    assert benchmark.stats.stats.max < 5.0


def test_comparing_all_rows_with_the_best_takes_a_few_seconds(benchmark):
    rng = np.random.default_rng(0)
    boards = rng.normal(size=(SETTINGS, ESTIMATORS, REPLICATES))

    def compare_all():
        return [compare_rows(board, 0) for board in boards]

    benchmark.pedantic(compare_all, rounds=2, warmup_rounds=1)
