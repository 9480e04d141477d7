import numpy as np
import pytest
from scipy import integrate, stats

from ope_bench.statistics.coverage import ErrorIntervals, wilson
from ope_bench.statistics.error_distribution import (
    area_under_cdf,
    cvar,
    squared_error_cdf,
    summarize,
)
from ope_bench.statistics.ranks import selection


def _coverage(estimate, standard_error, truth):
    unknown = np.full(len(estimate), np.nan)
    return ErrorIntervals.normal(estimate, standard_error, truth, unknown).coverage()


@pytest.mark.parametrize(("count", "total"), [(0, 7), (3, 7), (7, 7), (1, 1), (42, 1000)])
def test_wilson_agrees_with_scipy(count, total):
    share = wilson(count, total)
    expected = stats.binomtest(count, total).proportion_ci(method="wilson")
    assert share.low == pytest.approx(expected.low, abs=1e-12)
    assert share.high == pytest.approx(expected.high, abs=1e-12)


def test_no_trials_have_no_share():
    assert wilson(0, 0).value is None


def test_coverage_of_honest_intervals_is_their_level_and_width_is_as_it_must_be():
    rng = np.random.default_rng(0)
    estimate = rng.normal(2.0, 0.5, size=4000)
    found = _coverage(estimate, np.full(4000, 0.5), np.full(4000, 2.0))
    assert found.share.value == pytest.approx(0.95, abs=0.015)
    assert found.width == pytest.approx(2 * 1.959964 * 0.5)


def test_coverage_leaves_out_trials_without_a_standard_error():
    missing = np.array([np.nan, 0.1])
    found = _coverage(np.array([5.0, 1.0]), missing, np.array([1.0, 1.0]))
    assert (found.share.count, found.share.total) == (1, 1)
    assert _coverage(missing[:1], missing[:1], missing[:1]).width is None


def test_misses_are_told_by_the_side_on_which_the_interval_lies():
    error = np.array([-3.0, -1.9, 0.0, 1.9, 2.0, 5.0])
    found = _coverage(4.0 + error, np.ones(6), np.full(6, 4.0))
    assert (found.below, found.above, found.share.count) == (1, 2, 3)
    assert (found.missed_below, found.missed_above) == (1 / 6, 1 / 3)
    assert found.gap == pytest.approx(0.45)
    none = _coverage(np.empty(0), np.empty(0), np.empty(0))
    assert (none.missed_below, none.missed_above, none.gap) == (None, None, None)


def test_area_under_the_cdf_is_its_integral():
    squared = np.random.default_rng(1).exponential(size=25)
    grid = np.linspace(0, 2, 200_001)
    area = integrate.trapezoid(squared_error_cdf(squared, grid), grid) / 2
    assert area_under_cdf(squared, 2.0) == pytest.approx(area, abs=1e-4)


def test_cvar_of_an_exponential_sample_tends_to_its_closed_form():
    # Mean of the worst tenth of an exponential: 1 + log 10.
    squared = stats.expon.ppf((np.arange(100_000) + 0.5) / 100_000)
    assert cvar(squared) == pytest.approx(1 + np.log(10), rel=1e-3)
    assert cvar(np.array([3.0])) == 3.0


def test_a_summary_of_nothing_is_empty_and_of_one_has_no_spread():
    assert summarize(np.empty(0)).bias is None
    one = summarize(np.array([-0.5]))
    assert (one.sd, one.rmse, one.median_absolute_error) == (None, 0.5, 0.5)
    assert summarize(np.zeros(4)).rmse == 0.0


def test_a_summary_does_not_overflow():
    assert summarize(np.array([1e200, -1e200])).rmse == pytest.approx(1e200)


def test_selection_of_a_perfect_ranking_has_no_regret():
    value = np.array([0.1, 0.2, 0.3, 0.4])
    found = selection(10 * value, value, reference=0.25)
    assert (found.spearman, found.kendall, found.regret) == (1.0, 1.0, 0.0)
    assert (found.type_one, found.type_two) == (1.0, 0.0)


def test_selection_with_ties_missing_estimates_or_constant_values():
    value = np.array([1.0, 2.0, 3.0])
    assert selection(np.array([5.0, 5.0, np.nan]), value).regret == 1.5
    assert selection(np.full(3, np.nan), value).regret is None
    constant = selection(np.zeros(3), np.ones(3))
    assert (constant.spearman, constant.relative_regret) == (None, None)
