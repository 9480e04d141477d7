import numpy as np
import pytest
from judging.claims.comparisons import rmse_slope, typical_slope

AXIS = np.array([500.0, 1_000.0, 2_000.0, 4_000.0])


def shrinking(n, power, rng):
    return rng.normal(size=(4, n)) * AXIS[:, None] ** power


def test_the_slope_is_the_least_squares_line_through_the_log_rmse():
    errors = shrinking(30, -0.5, np.random.default_rng(0))
    log_rmse = np.log(np.sqrt(np.square(errors).mean(axis=1)))
    expected = np.polyfit(np.log(AXIS), log_rmse, 1)[0]
    assert rmse_slope(errors, AXIS).value == pytest.approx(expected)


def test_the_interval_is_the_jackknife_one_replicate_at_a_time():
    errors = shrinking(12, 0.3, np.random.default_rng(1))

    def slope(kept):
        return np.polyfit(np.log(AXIS), np.log(np.square(kept).mean(axis=1)) / 2, 1)[0]

    whole = slope(errors)
    pseudo = [12 * whole - 11 * slope(np.delete(errors, i, axis=1)) for i in range(12)]
    reach = 2.200985 * np.std(pseudo, ddof=1) / np.sqrt(12)
    found = rmse_slope(errors, AXIS)
    assert (found.low, found.high) == pytest.approx((whole - reach, whole + reach))


def test_a_true_slope_is_covered_and_zero_is_rejected_about_as_often_as_promised():
    rng = np.random.default_rng(2)
    found = [rmse_slope(shrinking(20, -0.5, rng), AXIS) for _ in range(400)]
    assert np.mean([one.low <= -0.5 <= one.high for one in found]) > 0.9
    flat = [rmse_slope(shrinking(20, 0.0, rng), AXIS).p <= 0.05 for _ in range(400)]
    assert np.mean(flat) < 0.1


def test_a_ratio_of_two_that_shrink_alike_is_flat_and_exact_where_they_are_proportional():
    errors = shrinking(20, -0.5, np.random.default_rng(3))
    assert rmse_slope(3.0 * errors, AXIS, errors).value == pytest.approx(0.0, abs=1e-12)
    steeper = rmse_slope(errors / AXIS[:, None], AXIS, errors)
    assert steeper.value == pytest.approx(-1.0)


def test_missing_replicates_are_left_out():
    errors = shrinking(20, -0.5, np.random.default_rng(4))
    gaps = errors.copy()
    gaps[2, 5] = np.nan
    kept = [errors[0], errors[1], np.delete(errors[2], 5), errors[3]]
    log_rmse = [np.log(np.square(row).mean()) / 2 for row in kept]
    expected = np.polyfit(np.log(AXIS), log_rmse, 1)[0]
    assert rmse_slope(gaps, AXIS).value == pytest.approx(expected)


def test_the_typical_slope_is_not_moved_by_one_exploding_replicate():
    errors = shrinking(60, -0.5, np.random.default_rng(5))
    errors[3, 0] = 1e9
    assert rmse_slope(errors, AXIS).value > 1.0
    found = typical_slope(errors, AXIS)
    assert found.value < -0.2
    assert found.p < 0.001


def test_without_spread_nothing_is_claimed():
    assert rmse_slope(np.ones((4, 10)), AXIS).p == 1.0
    assert typical_slope(np.ones((4, 10)), AXIS).p == 1.0
    assert typical_slope(np.full((4, 3), np.nan), AXIS).p == 1.0
