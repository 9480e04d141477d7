"""Kernel smoothing over continuous actions: exact biases, limits, draws, bandwidths, support."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from ope_bench.base.errors import PositivityViolation, UnavailableError
from ope_bench.contracts.data import Problem
from ope_bench.contracts.plugins import STANDARD_ERROR_WITHHELD, Estimate
from ope_environments.gaussian.gaussian_policy import GaussianPolicy
from ope_environments.gaussian.linear_gaussian import LinearGaussian
from ope_environments.gaussian.truncated_policy import PointPolicy
from ope_estimators.continuous.kernel_dr import KernelDR
from ope_estimators.continuous.kernel_ipw import KernelIPW
from ope_estimators.continuous.kernel_ipws import KernelIPWS
from ope_estimators.density_ratio.kernels import silverman
from support import tiny_worlds as tiny

CLASSES = [KernelIPW, KernelIPWS, KernelDR]
EVERY = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
SECOND_MOMENT = {"rbf": 1.0, "epanechnikov": 0.2, "triangular": 1 / 6, "cosine": 1 - 8 / np.pi**2}


def made(cls: Any, **given: Any) -> Any:
    return cls(**({"regressor": "linear"} if cls is KernelDR else {}), **given)


def on_a_grid(target: Any, reward: Any, *, reach: float = 8.0, points: int = 4001) -> Problem:
    """Actions on a fine grid, as if logged uniformly: means over rows are integrals over actions.

    Two contexts, -1 and 1, each with the whole grid.
    """
    action = np.tile(np.linspace(-reach, reach, points), 2)
    context = np.repeat([-1.0, 1.0], points)[:, None]
    return Problem(
        context=context,
        action=action,
        embedding=action[:, None],
        reward=reward(context[:, 0], action),
        target_context=context,
        target_action=target.mean(context),
        target_embedding=target.mean(context)[:, None],
        n_actions=None,
        # The step of the grid over its whole width, (points - 1) steps for `points` rows.
        propensity=np.full(2 * points, (points - 1) / points / (2 * reach)),
        logging_policy=GaussianPolicy(0.0, np.zeros(1), 1.0),
        target_policy=target,
        shared_contexts=True,
    )


POINT = PointPolicy(0.3, np.array([0.5]))


def quadratic(x: np.ndarray, a: np.ndarray) -> np.ndarray:
    return 2.0 - (a - 1.5 * x) ** 2


VALUE = np.mean([quadratic(x, 0.3 + 0.5 * x) for x in (-1.0, 1.0)])


@pytest.mark.parametrize("kernel", SECOND_MOMENT)
@pytest.mark.parametrize("width", [0.2, 0.7])
@pytest.mark.parametrize("cls", [KernelIPW, KernelIPWS], ids=lambda cls: cls.__name__)
def test_a_quadratic_reward_is_smoothed_by_exactly_the_second_moment(cls, width, kernel):
    problem = on_a_grid(POINT, quadratic)
    estimate = tiny.run(cls(kernel=kernel, bandwidth=width), problem)
    assert estimate.value == pytest.approx(VALUE - width**2 * SECOND_MOMENT[kernel], abs=1e-4)
    assert estimate.weights.mean() == pytest.approx(1.0, abs=1e-4)


def test_the_bias_on_linear_gaussian_is_minus_the_squared_bandwidth():
    world, width = LinearGaussian(n_samples=200_000, target_std=0.0), 0.4
    names = ("world_rng", "logged_rng", "target_rng")
    streams = {name: np.random.default_rng(k) for k, name in enumerate(names)}
    problem, truth = world.sample(**streams)
    estimate = tiny.run(KernelIPW(bandwidth=width), problem)
    off = estimate.value - (truth.expected - width**2)
    assert abs(off) < 3.5 * estimate.standard_error
    assert estimate.standard_error < 0.005


def test_a_right_model_leaves_nothing_to_smooth():
    """DR smooths the residual alone: a reward that the model holds has no bias of smoothing."""
    params = {"regressor": "ridge", "regressor_params": {"degree": 2, "alpha": 1e-9}}
    problem = on_a_grid(POINT, quadratic)
    estimate = tiny.run(KernelDR(**params, bandwidth=0.7), problem)
    assert estimate.value == pytest.approx(VALUE, abs=1e-6)


def test_a_constant_model_makes_dr_the_smoothed_mean():
    """With q̂ a constant, DR is the constant plus the smoothed rest, which the grid has exactly."""
    problem = on_a_grid(POINT, quadratic)
    dummy = {"regressor": "sklearn.dummy.DummyRegressor", "cross_fit": 1}
    estimate = tiny.run(KernelDR(**dummy, bandwidth=0.7), problem)
    assert estimate.value == pytest.approx(VALUE - 0.49, abs=1e-5)
    plain = tiny.run(KernelIPW(bandwidth=0.7), problem)
    mean, weights = problem.reward.mean(), plain.weights
    terms = mean + weights * (problem.reward - mean)
    assert estimate.value == pytest.approx(terms.mean(), rel=1e-12)
    assert estimate.standard_error == pytest.approx(terms.std(ddof=1) / np.sqrt(len(terms)))


@EVERY
def test_a_random_target_is_the_mean_over_its_draws(cls):
    target = GaussianPolicy(0.3, np.array([0.5]), 0.6)
    problem = on_a_grid(target, quadratic, points=401)
    estimator = made(cls, bandwidth=0.5)
    view = tiny.view_of(problem, estimator.access)
    estimator.fit(view, rng=np.random.default_rng(0), device="cpu")
    assert estimator.target_draws_.shape == (16, 802)
    gap = (estimator.target_draws_ - problem.action) / 0.5
    weights = norm.pdf(gap).mean(axis=0) / (0.5 * problem.propensity)
    np.testing.assert_allclose(estimator.estimate(view).weights, weights, rtol=1e-10)
    deterministic = replace(problem, target_policy=POINT)
    view = tiny.view_of(deterministic, estimator.access)
    assert len(estimator.fit(view, rng=np.random.default_rng(0), device="cpu").target_draws_) == 1


def test_a_random_target_tends_to_its_smoothed_value():
    target = GaussianPolicy(0.3, np.array([0.5]), 0.6)
    problem = on_a_grid(target, quadratic, points=20_001)
    estimate = tiny.run(KernelIPW(bandwidth=0.5), problem)
    # The draws are 16 for each of the grid's rows: what is left of their noise is small.
    assert estimate.value == pytest.approx(VALUE - 0.36 - 0.25, abs=0.05)


@EVERY
def test_bandwidths_by_rule_come_from_the_logged_actions(cls):
    names = ("world_rng", "logged_rng", "target_rng")
    streams = {name: np.random.default_rng(k) for k, name in enumerate(names)}
    problem, _ = LinearGaussian(n_samples=500, target_std=0.0).sample(**streams)
    by_thumb = tiny.run(made(cls, bandwidth="silverman"), problem).diagnostics["bandwidth"]
    assert by_thumb == pytest.approx(silverman(problem.action[:, None]), rel=1e-12)
    chosen = tiny.run(made(cls), problem).diagnostics["bandwidth"]
    ladder = problem.action.std() * 2.0 ** -np.arange(1, 8)
    assert min(abs(ladder - chosen)) < 1e-12
    # Actions in another unit: the same choice in that unit, and the same estimate.
    scaled = replace(
        problem,
        action=10 * problem.action,
        propensity=problem.propensity / 10,
        target_policy=PointPolicy(0.0, np.array([10.0])),
    )
    other = tiny.run(made(cls), scaled)
    assert other.diagnostics["bandwidth"] == pytest.approx(10 * chosen, rel=1e-9)
    assert other.value == pytest.approx(tiny.run(made(cls), problem).value, rel=1e-9)


def test_slope_takes_a_narrower_kernel_where_the_reward_bends_more():
    names = ("world_rng", "logged_rng", "target_rng")
    streams = {name: np.random.default_rng(k) for k, name in enumerate(names)}
    problem, _ = LinearGaussian(n_samples=4000, target_std=0.0).sample(**streams)
    # The noise makes narrow kernels the ones with wide intervals, which the rule supposes.
    noise = np.random.default_rng(3).normal(size=4000)
    flat = replace(problem, reward=noise)
    bent = replace(problem, reward=noise + np.cos(8 * (problem.action - problem.context[:, 0])))
    widths = [tiny.run(KernelIPWS(), one).diagnostics["bandwidth"] for one in (flat, bent)]
    assert widths[0] == pytest.approx(problem.action.std() / 2)
    assert widths[1] < widths[0] / 3


@EVERY
@pytest.mark.parametrize("n", [20, 50])
def test_slope_never_takes_a_kernel_that_reaches_fewer_than_two_rows(cls, n):
    world, rng = LinearGaussian(n_samples=n, target_std=0.0), np.random.default_rng(11)
    for _ in range(20):
        problem, _ = world.sample(world_rng=rng, logged_rng=rng, target_rng=rng)
        estimate = tiny.run(made(cls, kernel="epanechnikov"), problem)
        assert estimate.weights.sum() ** 2 >= 2 * np.square(estimate.weights).sum()
        assert estimate.standard_error > 0


def by_slope(action: list[float], unit: list[int] | None = None) -> Estimate:
    """The estimate for a target policy that always takes action 0.5."""
    n = len(action)
    rows = np.zeros((n, 1))
    problem = Problem(
        context=rows,
        action=np.array(action),
        embedding=np.array(action)[:, None],
        reward=np.arange(n, dtype=float),
        target_context=rows,
        target_action=np.full(n, 0.5),
        target_embedding=rows,
        n_actions=None,
        propensity=np.ones(n),
        target_policy=PointPolicy(0.5, np.array([0.0])),
        unit=None if unit is None else np.array(unit),
        target_unit=None if unit is None else np.array(unit),
    )
    return tiny.run(KernelIPWS(kernel="epanechnikov"), problem)


def test_where_every_kernel_reaches_one_unit_the_narrowest_that_reaches_it_is_taken():
    assert by_slope([0.3]).diagnostics["bandwidth"] == 0.25
    # The bandwidths are 8.165 times 2^-7, ..., 2^-1; the fourth is the first above 0.5.
    one_row = by_slope([0.0, 10.0, 20.0])
    assert one_row.diagnostics["bandwidth"] == pytest.approx(np.std([0, 10, 20]) / 16)
    actions = [0.0, 0.0, 10.0, 20.0]
    one_unit = by_slope(actions, unit=[0, 0, 1, 2])
    assert one_unit.diagnostics["bandwidth"] == pytest.approx(np.std(actions) / 16)
    assert by_slope(actions).diagnostics["bandwidth"] == pytest.approx(np.std(actions) / 2)


@EVERY
def test_actions_that_are_all_the_same_have_a_bandwidth(cls):
    problem = on_a_grid(POINT, quadratic, points=50)
    same = replace(problem, action=np.full(100, 0.3), embedding=np.full((100, 1), 0.3))
    for rule in ("slope", "silverman"):
        assert np.isfinite(tiny.run(made(cls, bandwidth=rule), same).value)


@EVERY
def test_rewards_shift_and_scale_as_the_docstring_promises(cls):
    problem = on_a_grid(POINT, quadratic, points=201)
    before = tiny.run(made(cls), problem)
    scaled = tiny.run(made(cls), replace(problem, reward=3.0 * problem.reward))
    assert scaled.value == pytest.approx(3.0 * before.value, rel=1e-9)
    assert scaled.standard_error == pytest.approx(3.0 * before.standard_error, rel=1e-9)
    noisy = replace(problem, propensity=problem.propensity * 1.1)
    value = tiny.run(made(cls), noisy).value
    shifted = tiny.run(made(cls), replace(noisy, reward=noisy.reward + 7.0)).value
    assert (shifted == pytest.approx(value + 7.0, rel=1e-9)) == (cls is not KernelIPW)


@EVERY
def test_order_of_rows_does_not_matter(cls):
    problem = on_a_grid(POINT, quadratic, points=60)
    order = np.random.default_rng(0).permutation(120)
    logged = ("context", "action", "embedding", "reward", "propensity")
    targets = ("target_context", "target_action", "target_embedding")
    moved = replace(
        problem, **{name: getattr(problem, name)[order] for name in (*logged, *targets)}
    )
    one_model = {"cross_fit": 1} if cls is KernelDR else {}
    values = [tiny.run(made(cls, **one_model), data).value for data in (problem, moved)]
    assert values[0] == pytest.approx(values[1], rel=1e-9)


def outcome(cls: Any, problem: Problem) -> Estimate:
    return tiny.run(made(cls, kernel="epanechnikov", bandwidth=0.01), problem)


def test_no_action_within_reach_is_a_violation_unless_a_model_stands_in():
    problem = on_a_grid(PointPolicy(100.0, np.array([0.0])), quadratic, points=20)
    with pytest.raises(PositivityViolation, match=r"bandwidth 0\.01$") as caught:
        outcome(KernelIPW, problem)
    assert caught.value.fallback == 0.0
    with pytest.raises(PositivityViolation, match="all 40 weights are 0"):
        outcome(KernelIPWS, problem)
    estimate = outcome(KernelDR, problem)
    assert np.isfinite(estimate.value)
    assert estimate.diagnostics["mean_weight"] == 0.0
    assert estimate.standard_error is None
    assert "no logged action is within reach" in estimate.diagnostics[STANDARD_ERROR_WITHHELD]


@EVERY
def test_one_row_has_a_value_and_no_standard_error(cls):
    problem = on_a_grid(POINT, quadratic, points=101)
    first = {
        name: getattr(problem, name)[49:50]
        for name in ("context", "action", "embedding", "reward", "propensity")
    }
    one = replace(problem, shared_contexts=False, **first)
    estimate = tiny.run(made(cls), one)
    assert np.isfinite(estimate.value)
    assert estimate.standard_error is None


@EVERY
def test_discrete_actions_are_refused(cls):
    with pytest.raises(UnavailableError, match="this environment's are discrete"):
        tiny.run(made(cls), tiny.small().sample(10, np.random.default_rng(0)))


def test_intervals_cover_the_smoothed_value():
    world, width, rng = (
        LinearGaussian(n_samples=400, target_std=0.0),
        0.4,
        np.random.default_rng(5),
    )
    inside = []
    for _ in range(300):
        problem, truth = world.sample(world_rng=rng, logged_rng=rng, target_rng=rng)
        for cls in (KernelIPW, KernelIPWS):
            estimate = tiny.run(cls(bandwidth=width), problem)
            off = abs(estimate.value - (truth.expected - width**2))
            inside.append(off < 1.96 * estimate.standard_error)
    # Three binomial standard errors of 300 trials are .038.
    assert 0.90 < np.mean(inside[::2]) < 0.985
    assert 0.90 < np.mean(inside[1::2]) < 0.985
