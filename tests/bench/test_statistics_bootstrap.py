import numpy as np
import pytest
from scipy import stats

from ope_bench.statistics.bootstrap import FEWEST, heavy_tailed, rmse_intervals


def test_intervals_agree_with_scipys_bca_bootstrap():
    errors = np.random.default_rng(1).normal(0.3, 1.0, size=60)
    ours = rmse_intervals(errors[None])
    theirs = stats.bootstrap(
        (errors,),
        lambda e, axis: 0.5 * np.log(np.square(e).mean(axis=axis)),
        n_resamples=20_000,
        method="BCa",
        rng=np.random.default_rng(0),
    ).confidence_interval
    assert ours.low[0] == pytest.approx(np.exp(theirs.low), rel=0.01)
    assert ours.high[0] == pytest.approx(np.exp(theirs.high), rel=0.01)


def test_a_rows_interval_does_not_depend_on_its_neighbours():
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


@pytest.mark.parametrize("n", [20, 100])
def test_light_tailed_rows_are_covered_as_promised(n):
    found = rmse_intervals(np.random.default_rng(4).normal(size=(2000, n)))
    usable = ~found.heavy_tailed
    held = (found.low <= 1.0) & (found.high >= 1.0)
    assert usable.mean() > 0.3
    assert 0.86 if n == 20 else 0.925 <= held[usable].mean() <= 0.97


def test_one_replicate_with_a_third_of_the_squares_is_heavy_tailed_and_has_no_interval():
    errors = np.ones(20)
    errors[0] = 3.2
    found = rmse_intervals(errors[None])
    assert found.heavy_tailed[0]
    assert np.isnan(found.low[0])
    assert found.rmse[0] == pytest.approx(np.sqrt(np.square(errors).mean()))


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


def test_few_replicates_say_nothing_about_tails():
    assert not heavy_tailed(np.array([[1.0, 0.0, 0.0]])).any()
