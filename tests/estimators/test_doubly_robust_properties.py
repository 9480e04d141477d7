"""The doubly robust family: shifts and scales of rewards, order of rows, missing support."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ope_bench.base.errors import PositivityViolation, UnavailableError
from ope_bench.contracts.data import Problem
from ope_environments.gaussian.gaussian import Gaussian
from ope_estimators.actions.direct.dm import DM
from ope_estimators.actions.doubly_robust.cab import CAB
from ope_estimators.actions.doubly_robust.mrdr import MRDR
from ope_estimators.actions.doubly_robust.sndr import SNDR
from ope_estimators.actions.doubly_robust.switch import Switch
from ope_estimators.actions.doubly_robust.tmle import TMLE
from ope_estimators.actions.weighting.ipw import IPW
from support import golden_log as golden
from support import tiny_worlds as tiny
from support.doubly_robust_family import CONSTANT, EVERY, FAMILY, MODEL, SHIFTED, sample

# --- shifts, scales, order


@EVERY
def test_scaled_rewards_scale_the_estimate(estimator):
    before = tiny.run(estimator, sample())
    scaled = tiny.run(estimator, replace(sample(), reward=3.0 * sample().reward))
    assert scaled.value == pytest.approx(3.0 * before.value, rel=1e-8)
    assert scaled.standard_error == pytest.approx(3.0 * before.standard_error, rel=1e-8)


@pytest.mark.parametrize("estimator", SHIFTED, ids=repr)
def test_shifted_rewards_shift_the_estimate(estimator):
    before = tiny.run(estimator, sample())
    shifted = tiny.run(estimator, replace(sample(), reward=sample().reward + 7.0))
    assert shifted.value == pytest.approx(before.value + 7.0, rel=1e-8)
    assert shifted.standard_error == pytest.approx(before.standard_error, rel=1e-8)


@EVERY
def test_order_of_rows_does_not_matter(estimator):
    one_model = type(estimator)(**(estimator.get_params() | {"cross_fit": 1}))
    problem = sample(40)
    order = np.random.default_rng(10).permutation(40)
    logged = ("context", "action", "embedding", "reward", "propensity")
    moved = replace(problem, **{name: getattr(problem, name)[order] for name in logged})
    value = tiny.run(one_model, problem).value
    assert tiny.run(one_model, moved).value == pytest.approx(value, rel=1e-9)


@EVERY
def test_one_row_has_a_value_and_no_standard_error(estimator):
    estimate = tiny.run(estimator, sample(1))
    assert np.isfinite(estimate.value)
    assert estimate.standard_error is None


# --- support


def unsupported() -> Problem:
    world = tiny.small().but(
        pi0=np.array([[0.6, 0.4, 0.0]] * 2), pi1=np.array([[0.3, 0.2, 0.5]] * 2)
    )
    return world.sample(60, np.random.default_rng(13))


def test_the_model_answers_for_actions_that_were_never_logged():
    """The weight of such an action is infinite, whatever the threshold."""
    problem = unsupported()
    mean = problem.reward.mean()
    weight = np.array(tiny.run(IPW(), problem).weights)
    for cls in (Switch, CAB):
        estimate = tiny.run(cls(threshold=1e9, **CONSTANT), problem)
        assert estimate.value == pytest.approx((weight * problem.reward).mean() + 0.5 * mean)
        assert estimate.diagnostics["modelled_mass"] == pytest.approx(0.5, rel=1e-12)


def test_an_infinite_weight_is_no_covariate():
    problem = unsupported()
    estimator = TMLE(form="covariate", link="linear", **CONSTANT)
    epsilon = tiny.run(estimator, problem).diagnostics["epsilon"]
    mean = problem.reward.mean()
    # The supported actions have weight one half and mass one half.
    assert tiny.run(estimator, problem).value == pytest.approx(mean + epsilon * 0.5 * 0.5)


def disjoint() -> Problem:
    world = tiny.small().but(
        pi0=np.array([[0.5, 0.5, 0.0]] * 2), pi1=np.array([[0.0, 0.0, 1.0]] * 2)
    )
    return world.sample(30, np.random.default_rng(14))


@EVERY
def test_disjoint_policies_leave_the_direct_method(estimator):
    if isinstance(estimator, SNDR):
        with pytest.raises(PositivityViolation, match="all 30 weights are 0"):
            tiny.run(estimator, disjoint())
        return
    direct = tiny.run(DM(**MODEL), disjoint()).value
    value = tiny.run(estimator, disjoint()).value
    if isinstance(estimator, TMLE) and estimator.link == "logistic":
        assert disjoint().reward.min() <= value <= disjoint().reward.max()
    elif isinstance(estimator, MRDR):
        assert np.isfinite(value)
    else:
        assert value == pytest.approx(direct, rel=1e-9)


@pytest.mark.parametrize("estimator", [Switch(**MODEL), CAB(**MODEL)], ids=repr)
def test_sums_over_continuous_actions_are_refused(estimator):
    streams = {
        name: np.random.default_rng(0) for name in ("world_rng", "logged_rng", "target_rng")
    }
    problem, _ = Gaussian(n_samples=10).sample(**streams)
    with pytest.raises(UnavailableError, match="this environment's are continuous"):
        tiny.run(estimator, problem)


def test_q_hat_is_fitted_once_for_all_that_share_it():
    from ope_bench.contracts.random import DataSeed
    from ope_bench.contracts.view import FitCache, View

    memo, problem = FitCache(), sample()
    for estimator in FAMILY:
        view = View(problem, estimator.access, seed=DataSeed("tiny", 0, 0), fit_cache=memo)
        estimator.fit(view, rng=np.random.default_rng(0), device="cpu")
    assert len(memo.keys()) == 1


def test_the_golden_log_has_a_threshold_that_is_a_weight():
    """A weight of 2 and a threshold of 2: it is not above, however it was computed."""
    table = golden.TARGET / golden.LOGGING
    for threshold in np.unique(table):
        problem = golden.problem()
        low = tiny.run(Switch(threshold=float(threshold), **CONSTANT), problem)
        high = tiny.run(Switch(threshold=float(threshold) * 1.001, **CONSTANT), problem)
        assert low.value == pytest.approx(high.value, rel=1e-12)
