"""Transformed importance weights: limits, exact expectations, shifts and scales, support."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ope_bench.base.errors import PositivityViolation
from ope_bench.contracts.data import Problem
from ope_environments.gaussian.gaussian import Gaussian
from ope_estimators.actions.weighting.beta_ipw import BetaIPW
from ope_estimators.actions.weighting.el_ipw import (
    ELIPW,
)
from ope_estimators.actions.weighting.es_ipw import ESIPW
from ope_estimators.actions.weighting.ipw import IPW
from ope_estimators.actions.weighting.ipw_re import IPWRE
from ope_estimators.actions.weighting.ipws import IPWS
from ope_estimators.actions.weighting.ix_ipw import IXIPW
from ope_estimators.actions.weighting.ls_ipw import LSIPW
from ope_estimators.actions.weighting.lse_ipw import LSEIPW
from ope_estimators.actions.weighting.sg_ipw import SGIPW
from ope_estimators.tuning.theory import shrinkage_by_theory
from support import tiny_worlds as tiny

SAME: dict[str, Any] = {"scale": True, "shift": False}
RANGE: dict[str, Any] = {"scale": True, "shift": True}
NEITHER: dict[str, Any] = {"scale": False, "shift": False}
PROMISES = [
    (IPW(), SAME),
    (IPW(clip=1.5), SAME),
    (IPW(clip="mse"), SAME),
    (IPW(normalize=True), RANGE),
    (IPWS(clip="root-n"), RANGE),
    (IPWS(clip="slope"), RANGE),
    (SGIPW(), SAME),
    (SGIPW(normalize=True), RANGE),
    (SGIPW(lambda_="slope", normalize=True), RANGE),
    (IXIPW(), SAME),
    (IXIPW(normalize=True), RANGE),
    (ESIPW(), SAME),
    (ESIPW(form="ratio"), SAME),
    (ESIPW(normalize=True), RANGE),
    (LSIPW(), NEITHER),
    (LSEIPW(), NEITHER),
    (BetaIPW(), RANGE),
    (ELIPW(), RANGE),
    (ELIPW(divergence="likelihood"), RANGE),
    (IPWRE("linear"), SAME),
]
EVERY = pytest.mark.parametrize("estimator", [one for one, _ in PROMISES], ids=repr)

FIXED = [
    IPW(clip=1.2),
    SGIPW(lambda_=0.3),
    IXIPW(gamma=0.2),
    ESIPW(alpha=0.4),
    ESIPW(alpha=0.4, form="ratio"),
]
"""Means of u r with weights u that depend on the row alone."""


def written_out(world: tiny.TinyWorld, estimator: Any) -> np.ndarray:
    """u(x, a) from the formulas of the docstrings: (X, A)."""
    w, p = world.weights, world.pi0
    if isinstance(estimator, IPW):
        return np.minimum(w, estimator.clip)
    if isinstance(estimator, SGIPW):
        return w / (1 - estimator.lambda_ + estimator.lambda_ * w)
    if isinstance(estimator, IXIPW):
        return world.pi1 / (p + estimator.gamma)
    if estimator.form == "policy":
        return world.pi1 / p**estimator.alpha
    return w**estimator.alpha


@pytest.mark.parametrize("estimator", FIXED, ids=repr)
def test_the_expectation_over_all_samples_is_that_of_the_transformed_weights(estimator):
    world = tiny.small()
    outcomes = [(p, tiny.run(estimator, sample)) for p, sample in world.every_sample(2)]
    exact = world.expectation(world.pi0 * written_out(world, estimator))
    assert sum(p * e.value for p, e in outcomes) == pytest.approx(exact, abs=1e-12)
    variance = sum(p * (e.value - exact) ** 2 for p, e in outcomes)
    claimed = sum(p * e.standard_error**2 for p, e in outcomes)
    assert claimed == pytest.approx(variance, rel=1e-12)


@pytest.mark.parametrize("estimator", FIXED, ids=repr)
def test_normalized_weights_give_a_ratio_of_means(estimator):
    world = tiny.small()
    estimator = type(estimator)(**(estimator.get_params() | {"normalize": True}))
    u = world.pi0 * written_out(world, estimator)
    limit = world.expectation(u) / world.expectation(u, np.ones_like(world.q))
    assert tiny.run(estimator, world.population()).value == pytest.approx(limit, abs=1e-12)


def test_logarithmic_smoothing_has_its_exact_bias_within_the_bounds_of_the_paper():
    world, rate = tiny.small().but(noise=0.0), 0.7
    outcomes = [(p, tiny.run(LSIPW(lambda_=rate), s)) for p, s in world.every_sample(2)]
    mean = sum(p * e.value for p, e in outcomes)
    product = world.weights[:, :, None] * world.q
    smooth = world.expectation(world.pi0, np.log1p(rate * product) / rate)
    assert mean == pytest.approx(smooth, abs=1e-12)
    bound = rate * world.expectation(world.pi0, product**2 / (1 + rate * product))
    assert -bound <= mean - world.value < -0.05
    # As near to the value as the rate is to 0.
    assert tiny.run(LSIPW(lambda_=1e-9), world.population()).value == pytest.approx(world.value)


def test_a_negative_reward_is_smoothed_as_a_positive_one():
    problem = tiny.small().sample(30, np.random.default_rng(0))
    minus = replace(problem, reward=-problem.reward)
    assert (problem.reward < 0).any()
    assert tiny.run(LSIPW(), minus).value == pytest.approx(-tiny.run(LSIPW(), problem).value)


@pytest.mark.parametrize("rate", [-1e-3, -0.5, -5.0])
def test_the_soft_minimum_is_its_formula_and_never_above_ipw(rate):
    world = tiny.small()
    for seed in range(20):
        problem = world.sample(8, np.random.default_rng(seed))
        plain, smooth = tiny.run(IPW(), problem), tiny.run(LSEIPW(lambda_=rate), problem)
        product = plain.weights * problem.reward
        assert smooth.value == pytest.approx(np.log(np.exp(rate * product).mean()) / rate)
        assert smooth.value <= plain.value + 1e-12


def test_the_soft_minimum_of_one_row_is_unbiased_and_of_small_rates_is_ipw():
    world = tiny.small()
    mean = sum(p * tiny.run(LSEIPW(), sample).value for p, sample in world.every_sample(1))
    assert mean == pytest.approx(world.value, abs=1e-12)
    problem = world.sample(50, np.random.default_rng(1))
    plain, smooth = tiny.run(IPW(), problem), tiny.run(LSEIPW(lambda_=-1e-7), problem)
    assert smooth.value == pytest.approx(plain.value, rel=1e-6)
    assert smooth.standard_error == pytest.approx(plain.standard_error, rel=1e-5)


def test_the_weights_of_the_soft_minimum_are_its_derivatives():
    problem = tiny.small().sample(12, np.random.default_rng(2))
    weights = tiny.run(LSEIPW(lambda_=-0.4), problem).weights
    for row in range(12):
        step = np.zeros(12)
        step[row] = 1e-5
        up, down = (
            tiny.run(LSEIPW(lambda_=-0.4), replace(problem, reward=problem.reward + sign * step))
            for sign in (1, -1)
        )
        assert weights[row] / 12 == pytest.approx((up.value - down.value) / 2e-5, rel=1e-6)


def test_huge_products_do_not_overflow_the_soft_minimum():
    problem = tiny.small().sample(20, np.random.default_rng(3))
    for sign in (1.0, -1.0):
        estimate = tiny.run(
            LSEIPW(lambda_=-1.0), replace(problem, reward=sign * 1e6 * problem.reward)
        )
        assert np.isfinite(estimate.value)
        assert np.isfinite(estimate.standard_error)


@pytest.mark.parametrize(
    "estimator",
    [
        IPW(clip=1e9),
        SGIPW(lambda_=0.0),
        IXIPW(gamma=0.0),
        ESIPW(alpha=1.0),
        ESIPW(alpha=1.0, form="ratio"),
        LSIPW(lambda_=0.0),
    ],
    ids=repr,
)
def test_the_neutral_parameter_gives_ipw(estimator):
    problem = tiny.small().sample(60, np.random.default_rng(4))
    plain, same = tiny.run(IPW(), problem), tiny.run(estimator, problem)
    assert same.value == pytest.approx(plain.value, rel=1e-13)
    assert same.standard_error == pytest.approx(plain.standard_error, rel=1e-12)
    np.testing.assert_allclose(same.weights, plain.weights, rtol=1e-13)


def test_the_other_end_of_shrinkage_is_the_mean_where_weights_are_positive():
    world = tiny.small().but(pi1=np.array([[0.0, 0.3, 0.7], [0.6, 0.4, 0.0]]))
    problem = world.sample(80, np.random.default_rng(5))
    positive = tiny.run(IPW(), problem).weights > 0
    assert 10 < positive.sum() < 70
    mean = problem.reward[positive].mean()
    one = SGIPW(lambda_=1.0, normalize=True), ESIPW(alpha=0.0, form="ratio", normalize=True)
    for estimator in one:
        assert tiny.run(estimator, problem).value == pytest.approx(mean, rel=1e-13)
    plain = tiny.run(SGIPW(lambda_=1.0), problem).value
    assert plain == pytest.approx(problem.reward[positive].sum() / 80, rel=1e-13)


def test_exponent_zero_of_the_policy_form_is_wrong_in_scale():
    world = tiny.small()
    limit = world.expectation(world.pi0 * world.pi1)
    assert tiny.run(ESIPW(alpha=0.0), world.population()).value == pytest.approx(limit, abs=1e-12)


def test_no_shrunk_weight_exceeds_one_over_lambda():
    problem = tiny.small().sample(200, np.random.default_rng(6))
    weights = tiny.run(SGIPW(lambda_=0.4), problem).weights
    assert 1.5 < weights.max() < 2.5


@pytest.mark.parametrize("n", [20, 1000, 50_000])
@pytest.mark.parametrize("delta", [0.05, 0.5])
def test_the_lambda_of_theory_solves_its_equation(n, delta):
    weight = np.exp(1.5 * np.random.default_rng(n).standard_normal(n) - 1.125)
    weight[: n // 4] = 0.0
    found = shrinkage_by_theory(weight, delta)
    power = n**0.25
    left = found**2 * ((found + (1 - found) * weight**power) ** (2 / power)).mean()
    assert left == pytest.approx(2 * np.log(1 / delta) / (3 * n), rel=1e-6)
    assert 0 < found < 1


def test_the_slip_in_delta_makes_lambda_seven_and_a_half_times_too_small():
    weight = np.ones(100_000)
    ratio = shrinkage_by_theory(weight, 0.05) / shrinkage_by_theory(weight, 0.95)
    assert ratio == pytest.approx(np.sqrt(np.log(0.05) / np.log(0.95)), rel=1e-6)
    assert ratio == pytest.approx(7.6, abs=0.1)


def test_theory_survives_one_row_and_weights_whose_powers_overflow():
    assert shrinkage_by_theory(np.array([2.0]), 0.05) == 1.0
    assert 0 < shrinkage_by_theory(np.array([1e200, 1e-200, 0.0, 1.0] * 10), 0.05) < 1e-199


def test_other_defaults_by_theory_follow_the_number_of_rows():
    problem = tiny.small().sample(64, np.random.default_rng(7))
    told = {
        one: tiny.run(one(), problem).diagnostics[name]
        for one, name in ((LSIPW, "lambda"), (LSEIPW, "lambda"), (IXIPW, "gamma"))
    }
    assert told == {LSIPW: 1 / 8, LSEIPW: -1 / 8, IXIPW: 1 / 16}
    assert tiny.run(IPW(clip="root-n"), problem).diagnostics["clip"] == 8.0


# --- shifts, scales, order


@pytest.mark.parametrize(("estimator", "promise"), PROMISES, ids=lambda one: repr(one))
def test_rewards_shift_and_scale_as_the_docstring_promises(estimator, promise):
    problem = tiny.small().sample(60, np.random.default_rng(8))
    before = tiny.run(estimator, problem)
    scaled = tiny.run(estimator, replace(problem, reward=3.0 * problem.reward))
    assert (scaled.value == pytest.approx(3.0 * before.value, rel=1e-9)) == promise["scale"]
    if promise["scale"]:
        assert scaled.standard_error == pytest.approx(3.0 * before.standard_error, rel=1e-9)
    shifted = tiny.run(estimator, replace(problem, reward=problem.reward + 7.0))
    assert (shifted.value == pytest.approx(before.value + 7.0, rel=1e-9)) == promise["shift"]
    if promise["shift"]:
        assert shifted.standard_error == pytest.approx(before.standard_error, rel=1e-9)


@EVERY
def test_order_of_rows_does_not_matter(estimator):
    problem = tiny.small().sample(40, np.random.default_rng(9))
    order = np.random.default_rng(10).permutation(40)
    logged = ("context", "action", "embedding", "reward", "propensity")
    moved = replace(problem, **{name: getattr(problem, name)[order] for name in logged})
    assert tiny.run(estimator, moved).value == pytest.approx(
        tiny.run(estimator, problem).value, rel=1e-9
    )


@EVERY
def test_equal_policies_give_the_mean_reward_where_weights_stay_one(estimator):
    world = tiny.small()
    problem = world.but(pi1=world.pi0).sample(50, np.random.default_rng(11))
    estimate = tiny.run(estimator, problem)
    normalized = isinstance(estimator, IPWS) or getattr(estimator, "normalize", False)
    exact = not isinstance(estimator, IXIPW | ESIPW | LSIPW | LSEIPW)
    if isinstance(estimator, ESIPW) and estimator.form == "ratio":
        exact = True
    if exact:
        assert estimate.value == pytest.approx(problem.reward.mean(), rel=1e-9)
        np.testing.assert_allclose(estimate.weights, 1.0, rtol=1e-9)
    elif normalized:
        assert problem.reward.min() <= estimate.value <= problem.reward.max()


@EVERY
def test_one_row_has_a_value_and_no_standard_error(estimator):
    problem = tiny.small().sample(1, np.random.default_rng(12))
    estimate = tiny.run(estimator, problem)
    assert np.isfinite(estimate.value)
    assert estimate.standard_error is None


COUNTED = [
    *FIXED,
    IPWS(clip=2.0),
    SGIPW(lambda_=0.2, normalize=True),
    LSIPW(lambda_=0.1),
    LSEIPW(lambda_=-0.1),
    BetaIPW(),
    ELIPW(divergence="likelihood"),
    IPWRE("linear"),
]


@pytest.mark.parametrize("estimator", COUNTED, ids=repr)
def test_rows_that_are_repeated_in_their_unit_change_nothing(estimator):
    problem = tiny.small().sample(40, np.random.default_rng(13))
    order = np.random.default_rng(14).permutation(np.tile(np.arange(40), 2))
    logged = ("context", "action", "embedding", "reward", "propensity")
    twice = replace(
        problem,
        unit=order,
        target_unit=100 + np.arange(40),
        **{name: getattr(problem, name)[order] for name in logged},
    )
    once, again = tiny.run(estimator, problem), tiny.run(estimator, twice)
    assert again.value == pytest.approx(once.value, rel=1e-9)
    assert again.standard_error == pytest.approx(once.standard_error, rel=1e-9)


def disjoint() -> Problem:
    world = tiny.small().but(
        pi0=np.array([[0.5, 0.5, 0.0]] * 2), pi1=np.array([[0.0, 0.0, 1.0]] * 2)
    )
    return world.sample(30, np.random.default_rng(21))


@EVERY
def test_disjoint_policies_are_a_violation_only_where_there_is_no_finite_answer(estimator):
    normalized = isinstance(estimator, IPWS | BetaIPW) or getattr(estimator, "normalize", False)
    if normalized:
        with pytest.raises(PositivityViolation, match="all 30 weights are 0") as caught:
            tiny.run(estimator, disjoint())
        assert caught.value.unsupported_mass == 1.0
        return
    value = tiny.run(estimator, disjoint()).value
    if isinstance(estimator, ELIPW):
        assert value == pytest.approx(disjoint().reward.mean())
    elif not isinstance(estimator, IPWRE):
        assert value == 0.0


@pytest.mark.parametrize("estimator", [SGIPW(), LSIPW(), LSEIPW(), ELIPW()], ids=repr)
def test_densities_without_common_support_are_a_violation(estimator):
    streams = {
        name: np.random.default_rng(0) for name in ("world_rng", "logged_rng", "target_rng")
    }
    problem, _ = Gaussian(n_samples=10, shift=1000.0).sample(**streams)
    with pytest.raises(PositivityViolation, match="share no action") as caught:
        tiny.run(estimator, problem)
    assert caught.value.fallback is not None


# --- intervals


@pytest.mark.parametrize(
    "estimator",
    [
        BetaIPW(),
        ELIPW(),
        ELIPW(divergence="likelihood"),
        LSEIPW(lambda_=-0.01),
        SGIPW(normalize=True),
    ],
    ids=repr,
)
def test_standard_errors_are_the_spread_of_the_estimates(estimator):
    world, rng = tiny.small(), np.random.default_rng(22)
    outcomes = [tiny.run(estimator, world.sample(400, rng)) for _ in range(800)]
    value = np.array([e.value for e in outcomes])
    error = np.array([e.standard_error for e in outcomes])
    # The spread of 800 estimates is known to 2.5 %; three times that.
    assert np.sqrt((error**2).mean()) == pytest.approx(value.std(ddof=1), rel=0.075)
