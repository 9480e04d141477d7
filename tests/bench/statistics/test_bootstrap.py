import numpy as np
import pytest

from ope_bench.contracts.random import stream
from ope_bench.statistics.error_distribution import BOOTSTRAP_SEED, FEWEST, rmse_intervals


def studentized_by_loop(errors, level, resamples, chunk=10_000):
    """The interval one resample at a time, from the same draws and the textbook's formula."""
    n = len(errors)
    counts = []
    for start in range(0, resamples, chunk):
        rng, size = stream("bootstrap", BOOTSTRAP_SEED, n, start), min(chunk, resamples - start)
        counts += list(rng.multinomial(n, np.full(n, 1 / n), size=size))
    squares = np.square(errors)

    def theta_and_error(sample):
        return np.log(sample.mean()), sample.std(ddof=1) / np.sqrt(n) / sample.mean()

    theta, error = theta_and_error(squares)
    t = []
    for drawn in counts:
        sample_theta, sample_error = theta_and_error(np.repeat(squares, drawn))
        t.append((sample_theta - theta) / sample_error)
    t.sort()
    upper = t[round((1 + level) / 2 * (resamples + 1)) - 1]
    lower = t[round((1 - level) / 2 * (resamples + 1)) - 1]
    return np.exp([(theta - upper * error) / 2, (theta - lower * error) / 2])


@pytest.mark.parametrize("level", [0.95, 0.8])
def test_intervals_agree_with_the_formula_one_resample_at_a_time(level):
    errors = np.random.default_rng(1).normal(0.3, 1.0, size=60)
    ours = rmse_intervals(errors[None], level=level, resamples=1_999)
    low, high = studentized_by_loop(errors, level, 1_999)
    assert ours.low[0] == pytest.approx(low, rel=1e-9)
    assert ours.high[0] == pytest.approx(high, rel=1e-9)


def test_resamples_of_many_errors_are_drawn_four_megabytes_at_a_time():
    """Other chunks would be other draws, and other boards of many replicates."""
    errors = np.random.default_rng(1).normal(0.3, 1.0, size=1_000)
    ours = rmse_intervals(errors[None], resamples=4_999)
    expected = studentized_by_loop(errors, 0.95, 4_999, chunk=(1 << 22) // 1_000)
    assert [ours.low[0], ours.high[0]] == pytest.approx(expected, rel=1e-9)


NUMBERS = ({}, {"resamples": 10_000}, {"resamples": 10_001})


def test_ten_thousand_resamples_unless_others_are_asked_for():
    errors = np.random.default_rng(1).normal(size=(50, 30))
    plain, asked, more = (rmse_intervals(errors, **given).low for given in NUMBERS)
    np.testing.assert_array_equal(plain, asked)
    assert (plain != more).any()


def test_many_replicates_have_fewer_resamples():
    errors = np.random.default_rng(1).normal(size=(1, 25_000))
    plain, asked = rmse_intervals(errors), rmse_intervals(errors, resamples=999)
    np.testing.assert_array_equal([plain.low, plain.high], [asked.low, asked.high])
    # The standard error of the RMSE of n normal errors is about 1 / sqrt(2 n).
    half = (plain.high[0] - plain.low[0]) / 2
    assert half == pytest.approx(1.96 / np.sqrt(2 * 25_000), rel=0.15)


def test_a_rows_interval_does_not_depend_on_its_neighbors():
    rows = np.random.default_rng(2).normal(size=(500, 60))
    together, alone = rmse_intervals(rows), rmse_intervals(rows[137:138])
    # Matrix products of other shapes may add in another order.
    assert together.low[137] == pytest.approx(alone.low[0], rel=1e-12)
    assert together.high[137] == pytest.approx(alone.high[0], rel=1e-12)


def test_intervals_are_the_same_on_every_call_and_scale_with_the_errors():
    rows = np.random.default_rng(3).normal(size=(3, 40))
    first, again, scaled = rmse_intervals(rows), rmse_intervals(rows), rmse_intervals(1e200 * rows)
    np.testing.assert_array_equal(first.low, again.low)
    np.testing.assert_allclose(scaled.high, 1e200 * first.high)


@pytest.mark.parametrize(("n", "least"), [(10, 0.90), (20, 0.92), (100, 0.935)])
def test_normal_errors_are_covered_about_as_promised(n, least):
    found = rmse_intervals(np.random.default_rng(4).normal(size=(2000, n)), resamples=1_999)
    held = (found.low <= 1.0) & (found.high >= 1.0)
    assert least <= held.mean() <= 0.965


def test_a_heavy_tailed_row_is_marked_and_has_an_interval_all_the_same():
    errors = np.ones(20)
    errors[0] = 5.0
    found = rmse_intervals(errors[None])
    assert found.heavy_tailed[0]
    assert 0.5 < found.low[0] < found.rmse[0] < found.high[0]


def test_a_bound_that_no_number_holds_is_infinite():
    errors = np.full(20, 0.1)
    errors[0] = 1e200
    found = rmse_intervals(errors[None])
    assert found.high[0] == np.inf
    assert 0 < found.low[0] < found.rmse[0] < np.inf


@pytest.mark.parametrize(
    "errors",
    [[], [0.3], [0.0] * 20, [0.5, -0.5] * 10, [1.0] * (FEWEST - 1)],
    ids=["none", "one", "zeros", "equal sizes", "few"],
)
def test_rows_that_cannot_vary_have_no_interval(errors):
    found = rmse_intervals(np.array(errors)[None])
    assert np.isnan(found.low).all()
    assert np.isnan(found.high).all()
    assert not found.heavy_tailed.any()
