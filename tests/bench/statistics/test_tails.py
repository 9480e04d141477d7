import subprocess
import sys

import numpy as np
import pytest
from scipy import special, stats

from ope_bench.statistics.error_distribution import (
    FEWEST,
    heavy_tailed,
    jointly_heavy_tailed,
    largest_share,
    special_function,
)

ALONE = """
import sys
from ope_bench.statistics.error_distribution import special_function
found = special_function("stdtrit")
assert not {"scipy.special", "numpy.f2py"} & sys.modules.keys(), "the whole package was imported"
import scipy.special, scipy.stats
assert scipy.special.stdtrit is found is special_function("stdtrit")
assert special_function("ndtri") is scipy.special.ndtri
assert scipy.stats.t.ppf(0.975, 9) == found(9, 0.975)
"""


def test_functions_of_scipy_are_its_own_without_the_package_around_them():
    subprocess.run([sys.executable, "-c", ALONE], check=True)
    assert special_function.__wrapped__("softmax") is special.softmax
    with pytest.raises(AttributeError, match="no_such_function"):
        special_function("no_such_function")


@pytest.mark.parametrize("n", [FEWEST, 10, 20, 50, 200])
def test_one_percent_of_normal_rows_are_marked_at_every_n(n):
    squares = np.square(np.random.default_rng(n).normal(size=(40_000, n)))
    assert 0.0075 < heavy_tailed(squares).mean() < 0.0125


@pytest.mark.parametrize("n", [10, 50])
def test_the_point_solves_the_union_bound(n):
    share = stats.beta(0.5, (n - 1) / 2)
    assert n * share.sf(largest_share(n)) == pytest.approx(0.01, rel=1e-9)


def test_biased_rows_are_hardly_marked_and_heavy_tailed_ones_often():
    rng = np.random.default_rng(0)
    biased = np.square(2.0 + rng.normal(size=(2_000, 20)))
    t2 = np.square(rng.standard_t(2, size=(2_000, 20)))
    assert heavy_tailed(biased).mean() < 0.001
    assert heavy_tailed(t2).mean() > 0.3


def test_few_replicates_say_nothing_about_tails():
    assert not heavy_tailed(np.array([[1.0] + [0.0] * (FEWEST - 2)])).any()


def test_the_joint_mark_stays_when_errors_change_sides():
    rng = np.random.default_rng(1)
    one, other = np.square(rng.standard_t(2, size=(2, 300, 20)))
    swap = rng.random(one.shape) < 0.5
    before = jointly_heavy_tailed(one, other)
    after = jointly_heavy_tailed(np.where(swap, other, one), np.where(swap, one, other))
    np.testing.assert_array_equal(before, after)
    assert 0.2 < before.mean() < 0.95


def test_eight_replicates_are_enough_for_a_mark_and_seven_are_not():
    """Boards with eight replicates have marks."""
    assert heavy_tailed(np.array([[1.0] + [1e-9] * 7])).all()
    assert not heavy_tailed(np.array([[1.0] + [1e-9] * 6])).any()
