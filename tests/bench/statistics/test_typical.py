import itertools

import numpy as np
import pytest
from judging.claims.comparisons import typical
from scipy.stats import rankdata, wilcoxon

from ope_bench.statistics import paired_tests as typical_errors
from ope_bench.statistics.paired_tests import signed_ranks


def p_by_enumeration(difference):
    """P(rank sum >= observed) over all signs, by listing them; ties share a rank."""
    ranks = rankdata(np.abs(difference))
    observed = ranks[difference > 0].sum()
    sums = [
        ranks[np.array(signs)].sum()
        for signs in itertools.product([True, False], repeat=len(ranks))
    ]
    return np.mean(np.array(sums) >= observed), np.mean(np.array(sums) <= observed)


def test_p_values_are_those_of_all_sign_patterns():
    rng = np.random.default_rng(0)
    for _ in range(10):
        after, before = rng.normal(size=(2, 9))
        greater, less = signed_ranks(after[None], before[None])
        expected = p_by_enumeration(np.abs(after) - np.abs(before))
        assert (greater[0], less[0]) == pytest.approx(expected, abs=1e-12)


def test_p_values_are_exact_where_differences_are_tied():
    rng = np.random.default_rng(0)
    for _ in range(20):
        after, before = rng.integers(1, 4, size=(2, 9)).astype(float)
        moved = (after - before)[after != before]
        found = signed_ranks(after[None], before[None])
        assert (found[0][0], found[1][0]) == pytest.approx(p_by_enumeration(moved), abs=1e-12)


def test_the_approximation_for_many_replicates_agrees_with_the_enumeration(monkeypatch):
    rng = np.random.default_rng(1)
    after, before = rng.normal(size=(2, 20, 60))
    after[0, 0] = before[0, 0]
    approximate = signed_ranks(after, before)
    monkeypatch.setattr(typical_errors, "EXACT", 100)
    np.testing.assert_allclose(approximate, signed_ranks(after, before), atol=0.01)


@pytest.mark.parametrize("ties", [False, True])
def test_for_many_replicates_p_values_are_those_of_scipy(ties):
    rng = np.random.default_rng(5)
    after, before = np.exp(rng.normal(size=(2, 8, 90)))
    if ties:
        after, before = np.ceil(3 * after), np.ceil(3 * before)
    for row, found in enumerate(zip(*signed_ranks(after, before), strict=True)):
        moved = (after - before)[row]
        expected = [
            wilcoxon(moved[moved != 0], alternative=side, method="approx").pvalue
            for side in ("greater", "less")
        ]
        assert found == pytest.approx(expected, rel=1e-12)


def test_the_sign_of_an_error_and_the_order_of_replicates_play_no_part():
    rng = np.random.default_rng(1)
    after, before = rng.normal(size=(2, 30))
    order, sign = rng.permutation(30), rng.choice([-1.0, 1.0], size=30)
    plain = signed_ranks(after[None], before[None])
    turned = signed_ranks((sign * after)[order][None], (sign[::-1] * before)[order][None])
    np.testing.assert_allclose(plain, turned)


def test_twice_the_error_is_seen_through_one_exploding_replicate():
    rng = np.random.default_rng(2)
    before = rng.normal(size=60)
    after = 2.0 * before
    before[7] = 1e6
    found = typical(after, before)
    assert found.p_greater < 1e-8
    assert found.closer == pytest.approx(1 / 60)


def test_a_null_ratio_moves_the_null():
    before = np.random.default_rng(3).normal(size=(1, 40))
    greater, less = signed_ranks(1.2 * before, before, null_ratio=1.2)
    assert greater[0] == less[0] == 1.0
    assert signed_ranks(1.2 * before, before, null_ratio=1.1)[0][0] < 1e-6


def test_the_size_is_five_percent_where_both_are_exchangeable():
    rng = np.random.default_rng(4)
    shared = rng.standard_t(3, size=(800, 20))
    after, before = shared + rng.normal(size=(2, 800, 20))
    greater, less = signed_ranks(after, before)
    assert 0.03 < np.mean(2 * np.minimum(greater, less) <= 0.05) < 0.07


@pytest.mark.parametrize(
    ("after", "before", "closer", "ratio"),
    [([], [], None, None), ([0.0], [0.0], 0.5, None), ([1.0, 1.0], [1.0, 2.0], 0.75, 2 / 3)],
)
def test_figures_exist_where_they_can(after, before, closer, ratio):
    found = typical(np.array(after), np.array(before))
    assert (found.closer, found.ratio) == (closer, ratio)
