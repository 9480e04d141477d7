import numpy as np
import pytest
from scipy import stats

from ope_bench.statistics.ranks import (
    STUDENTIZED_RANGE,
    TABLE_LEVEL,
    critical_difference,
    interquartile_mean,
    mean_ranks,
    performance_profile,
    shared_ranks,
)


@pytest.mark.parametrize(
    ("rows", "q"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)]
)
def test_critical_difference_uses_the_published_constants(rows, q):
    # Demsar (2006), table 5(a), two-tailed Nemenyi test at .05.
    expected = q * np.sqrt(rows * (rows + 1) / (6 * 14))
    assert critical_difference(rows, 14) == pytest.approx(expected, abs=1e-3)


def test_the_table_is_of_the_studentized_range():
    rows = np.arange(2, 2 + len(STUDENTIZED_RANGE))
    expected = stats.studentized_range.ppf(1 - TABLE_LEVEL, rows, np.inf)
    np.testing.assert_allclose(STUDENTIZED_RANGE, expected, rtol=1e-12)


@pytest.mark.parametrize("rows", [2, 1 + len(STUDENTIZED_RANGE), 2 + len(STUDENTIZED_RANGE)])
def test_critical_difference_is_the_same_within_and_beyond_the_table(rows):
    q = float(stats.studentized_range.ppf(0.95, rows, np.inf))
    expected = q / np.sqrt(2) * np.sqrt(rows * (rows + 1) / (6 * 7))
    assert critical_difference(rows, 7) == pytest.approx(expected, rel=1e-12)
    q = float(stats.studentized_range.ppf(0.9, rows, np.inf))
    expected = q / np.sqrt(2) * np.sqrt(rows * (rows + 1) / (6 * 7))
    assert critical_difference(rows, 7, 0.1) == pytest.approx(expected, rel=1e-12)


def test_critical_difference_of_too_little_does_not_exist():
    assert critical_difference(1, 10) is None
    assert critical_difference(5, 0) is None


def test_shared_ranks_leave_a_gap_after_a_tie():
    assert shared_ranks(np.array([3.0, 1.0, 1.0, np.nan])) == [3, 1, 1, None]
    assert shared_ranks(np.empty(0)) == []


def test_mean_ranks_skip_settings_with_a_missing_score():
    scores = np.array([[1.0, 5.0, np.nan], [2.0, 4.0, 0.0], [3.0, 4.0, 1.0]])
    np.testing.assert_allclose(mean_ranks(scores), [2.0, 1.75, 2.25])
    assert np.isnan(mean_ranks(np.full((2, 2), np.nan))).all()


def test_mean_ranks_are_the_means_of_those_of_scipy():
    scores = np.round(np.random.default_rng(1).exponential(size=(30, 40)), 1)
    scores[3, 5] = np.inf
    expected = stats.rankdata(scores, axis=0).mean(axis=1)
    assert mean_ranks(scores).tolist() == expected.tolist()


def test_interquartile_mean_trims_a_quarter_on_either_side():
    values = np.random.default_rng(0).exponential(size=40)
    assert interquartile_mean(values) == pytest.approx(stats.trim_mean(values, 0.25))
    assert interquartile_mean(np.array([4.0])) == 4.0
    assert interquartile_mean(np.empty(0)) is None
    # Three values: half of each outer one lies inside... of 0.75 each, by the definition.
    assert interquartile_mean(np.array([0.0, 1.0, 5.0])) == pytest.approx((0.25 * 5 + 1) / 1.5)


def test_performance_profile_ignores_missing_scores_and_settings_without_any():
    scores = np.array([[1.0, np.nan, np.nan], [3.0, 2.0, np.nan]])
    profile = performance_profile(scores, np.array([1.0, 3.0]))
    np.testing.assert_allclose(profile, [[1 / 3, 1 / 3], [1 / 3, 2 / 3]])
    zeros = performance_profile(np.array([[0.0], [0.0], [1.0]]), np.array([1.0, 100.0]))
    np.testing.assert_allclose(zeros, [[1, 1], [1, 1], [0, 0]])
