"""The permutation test on different data, against its definition."""

import itertools

import numpy as np
import pytest

from ope_bench.statistics.unpaired import permutation_test


def studentized(a, b):
    """T of one row, from its definition."""
    m1, m0 = a.mean(), b.mean()
    spread = a.var(ddof=1) / (len(a) * m1**2) + b.var(ddof=1) / (len(b) * m0**2)
    return np.log(m1 / m0) / np.sqrt(spread)


def test_p_values_agree_with_all_ways_to_deal_the_errors_out():
    rng = np.random.default_rng(0)
    a, b = rng.exponential(2.0, size=5), rng.exponential(size=7)
    pool, seen = np.concatenate([a, b]), studentized(a, b)
    reached = []
    for chosen in itertools.combinations(range(12), 5):
        dealt = np.isin(np.arange(12), chosen)
        reached.append(studentized(pool[dealt], pool[~dealt]) >= seen - 1e-9)
    test = permutation_test(a[None], b[None])
    assert test.statistic[0] == pytest.approx(seen)
    assert test.p_greater[0] == pytest.approx(np.mean(reached), abs=0.02)


@pytest.mark.parametrize("kind", ["normal", "cauchy"])
def test_unchanged_quality_is_rejected_no_more_often_than_promised(kind):
    rng = np.random.default_rng(3)
    draw = {"normal": rng.standard_normal, "cauchy": rng.standard_cauchy}[kind]
    a, b = np.square(draw((1000, 15))), np.square(draw((1000, 20)))
    # The level only says how often the errors are dealt out; the first ten thousand do here.
    test = permutation_test(a, 1.02 * b, null_ratio=1 / 1.02, level=1e6)
    for p in (test.p_greater, test.p_less):
        assert (p <= 0.05).mean() == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / 1000))


def test_the_standard_error_is_the_spread_of_the_log_ratio():
    rng = np.random.default_rng(4)
    a, b = np.square(rng.normal(size=(2, 1000, 100)))
    test = permutation_test(a, b, level=1e6)
    assert test.standard_error.mean() == pytest.approx(test.log_ratio.std(), rel=0.07)


def test_extremes_are_answered_not_divided_by_zero():
    ones, zeros = np.ones((1, 20)), np.zeros((1, 20))
    for equal in (ones, zeros):
        test = permutation_test(equal, equal)
        assert test.p_greater[0] == test.p_less[0] == 1.0
    assert permutation_test(ones, zeros).p_greater[0] < 0.001
    assert permutation_test(zeros, ones).p_less[0] < 0.001
    assert permutation_test(np.array([[2.0]]), np.array([[1.0]])).p_greater[0] > 0.4


def test_p_values_do_not_depend_on_other_rows_or_on_scale():
    a, b = np.random.default_rng(2).exponential(size=(2, 20, 25))
    together = permutation_test(a, b)
    alone = permutation_test(1e-12 * a[7:8], 1e-12 * b[7:8])
    assert together.p_greater[7] == alone.p_greater[0]
