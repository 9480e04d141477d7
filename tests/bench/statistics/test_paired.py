import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging.claims.comparisons import paired

from ope_bench.statistics.paired_tests import (
    compare_rows,
    detectable_growth,
    holm,
    swap_test,
)


def studentized(a, b):
    """T of one row, from its definition."""
    n, m1, m0 = len(a), a.mean(), b.mean()
    spread = a / m1 - b / m0
    return np.log(m1 / m0) / np.sqrt(np.square(spread).sum() / (n * (n - 1)))


def test_p_values_are_those_of_all_swaps_where_there_are_few():
    rng = np.random.default_rng(0)
    a, b = rng.exponential(1.5, size=8), rng.exponential(size=8)
    seen = studentized(a, b)
    reached = [
        studentized(np.where(swap, b, a), np.where(swap, a, b)) >= seen - 1e-9
        for swap in itertools.product([False, True], repeat=8)
    ]
    test = swap_test(a[None], b[None])
    assert test.statistic[0] == pytest.approx(seen)
    assert test.p_greater[0] == pytest.approx(np.mean(reached))


def test_sampled_swaps_agree_with_an_independent_sample():
    rng = np.random.default_rng(1)
    a, b = rng.exponential(1.4, size=30), rng.exponential(size=30)
    seen = studentized(a, b)
    swaps = rng.random((20_000, 30)) < 0.5
    reached = [studentized(np.where(s, b, a), np.where(s, a, b)) >= seen for s in swaps]
    assert swap_test(a[None], b[None]).p_greater[0] == pytest.approx(np.mean(reached), abs=0.01)


def test_p_values_do_not_depend_on_other_rows_or_on_scale():
    rng = np.random.default_rng(2)
    a, b = rng.exponential(size=(2, 40, 25))
    together = swap_test(a, b)
    alone = swap_test(1e-12 * a[7:8], 1e-12 * b[7:8])
    assert together.p_greater[7] == alone.p_greater[0]


@pytest.mark.parametrize("kind", ["normal", "cauchy", "lognormal"])
def test_unchanged_quality_on_fresh_data_is_rejected_no_more_often_than_promised(kind):
    rng = np.random.default_rng(3)
    draw = {
        "normal": rng.standard_normal,
        "cauchy": rng.standard_cauchy,
        "lognormal": lambda size: rng.lognormal(sigma=2, size=size),
    }[kind]
    a, b = np.square(draw((1500, 20))), np.square(draw((1500, 20)))
    # The level only says how many swaps are drawn; the first ten thousand do here.
    share = (swap_test(a, b, level=1e6).p_greater <= 0.05).mean()
    assert share == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / 1500))


def test_the_standard_error_is_the_spread_of_the_log_ratio():
    rng = np.random.default_rng(4)
    e0 = rng.normal(size=(1500, 100))
    e1 = 0.9 * e0 + np.sqrt(1 - 0.81) * rng.normal(size=e0.shape)
    test = swap_test(np.square(e1), np.square(e0), level=1e6)
    assert test.standard_error.mean() == pytest.approx(test.log_ratio.std(), rel=0.05)
    assert test.standard_error.mean() == pytest.approx(np.sqrt(4 * (1 - 0.81) / 100), rel=0.05)


def test_extremes_are_answered_not_divided_by_zero():
    ones, zeros = np.ones((1, 20)), np.zeros((1, 20))
    same = swap_test(zeros, zeros)
    assert same.p_greater[0] == same.p_less[0] == 1.0
    equal = swap_test(ones, ones)
    assert equal.p_greater[0] == equal.p_less[0] == 1.0
    from_zero = swap_test(ones, zeros)
    assert from_zero.p_greater[0] < 0.001
    assert swap_test(zeros, ones).p_less[0] < 0.001
    proportional = swap_test(1.5 * ones, ones, null_ratio=1.02)
    assert proportional.p_greater[0] < 0.001
    assert proportional.log_ratio[0] == pytest.approx(np.log(1.5))
    single = swap_test(np.array([[2.0]]), np.array([[1.0]]))
    assert single.p_greater[0] == 0.5


def test_differences_at_rounding_level_do_not_explode():
    a = np.random.default_rng(5).exponential(size=(1, 50))
    test = swap_test(a * (1 + 1e-15), a, null_ratio=1.02)
    assert test.p_greater[0] > 0.5


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_the_closed_test_of_bonferroni(p):
    p = np.array(p)
    adjusted = holm(p)
    for i in range(len(p)):
        worst = max(
            min(1.0, len(subset) * min(p[list(subset)]))
            for size in range(1, len(p) + 1)
            for subset in itertools.combinations(range(len(p)), size)
            if i in subset
        )
        assert adjusted[i] == pytest.approx(worst)


def test_holm_of_nothing_is_nothing():
    assert holm(np.empty(0)).shape == (0,)


def test_rows_are_compared_on_the_replicates_that_they_share():
    rng = np.random.default_rng(6)
    errors = rng.normal(size=(3, 30))
    errors[1] = 5 * errors[0]
    errors[1, :10] = np.nan
    errors[2] = np.nan
    found = compare_rows(errors, 0)
    p = found.p
    assert found.n.tolist() == [30, 20, 0]
    assert p[0] == 1.0
    assert p[1] < 0.01
    assert p[2] == 1.0


def test_paired_gives_ratio_and_interval_where_they_exist():
    rng = np.random.default_rng(7)
    e0 = rng.normal(size=200)
    found = paired(1.2 * e0 + 0.1 * rng.normal(size=200), e0)
    assert found.low < 1.44 < found.high
    assert found.p_greater < 0.001
    assert paired(np.empty(0), np.empty(0)).ratio is None
    assert paired(np.zeros(3), np.zeros(3)).ratio == 1.0
    assert paired(np.zeros(3), np.ones(3)).ratio == 0.0
    assert paired(np.ones(3), np.zeros(3)).ratio is None
    light = paired(rng.normal(size=20), rng.normal(size=20))
    assert not light.heavy_tailed


def test_an_interval_is_given_and_the_tail_marked_where_one_replicate_dominates():
    heavy = np.ones(20)
    heavy[0] = 100.0
    for found in (paired(heavy, np.ones(20)), paired(np.ones(20), heavy)):
        assert found.heavy_tailed
        assert found.low < found.ratio < found.high


def test_the_detectable_growth_is_what_the_test_finds_four_times_in_five():
    rng = np.random.default_rng(8)
    n, rho = 60, 0.9
    before = rng.normal(size=(1_000, n))
    noise = rng.normal(size=before.shape)
    same = rho * before + np.sqrt(1 - rho**2) * noise
    se = np.median(swap_test(np.square(same), np.square(before)).standard_error)
    growth = detectable_growth(float(se), n, 0.05)
    grown = swap_test((1 + growth) * np.square(same), np.square(before))
    assert 0.75 < np.mean(grown.p_greater <= 0.05) < 0.88
    assert detectable_growth(1e3, n, 0.05) is None
