"""Weighting with known propensities: exact expectations, identities, intervals, support."""

from __future__ import annotations

import numpy as np
import pytest

from ope_bench import self_normalized, standard_error
from ope_bench.base.errors import PositivityViolation
from ope_bench.contracts.data import Problem
from ope_bench.contracts.parameters import hints_of
from ope_bench.plugins.registry import registry
from ope_bench.testing.problems import problem
from ope_estimators.actions.logging_average import LoggingAverage
from ope_estimators.actions.weighting import ipw
from ope_estimators.actions.weighting.intervals import IntervalOptions
from ope_estimators.actions.weighting.ipw import IPW
from ope_estimators.actions.weighting.ipws import IPWS
from ope_estimators.actions.weighting.weighted_mean import never_logged
from support import tiny_worlds as tiny

BOTH = pytest.mark.parametrize("cls", [IPW, IPWS])


def test_ipw_is_unbiased_over_all_samples():
    world = tiny.small()
    mean = sum(p * tiny.run(IPW(), sample).value for p, sample in world.every_sample(2))
    assert mean == pytest.approx(world.value, abs=1e-12)


def test_ipw_squared_standard_error_is_unbiased_over_all_samples():
    world = tiny.small()
    outcomes = [(p, tiny.run(IPW(), sample)) for p, sample in world.every_sample(2)]
    variance = sum(p * (e.value - world.value) ** 2 for p, e in outcomes)
    claimed = sum(p * e.standard_error**2 for p, e in outcomes)
    assert claimed == pytest.approx(variance, rel=1e-12)


def test_ipws_of_one_row_expects_the_logging_policys_value():
    world = tiny.small()
    mean = sum(p * tiny.run(IPWS(), sample).value for p, sample in world.every_sample(1))
    assert mean == pytest.approx(world.expectation(world.pi0), abs=1e-12)


@BOTH
def test_both_tend_to_the_target_policys_value(cls):
    world = tiny.small()
    assert tiny.run(cls(), world.population()).value == pytest.approx(world.value, abs=1e-12)


def test_logging_average_tends_to_the_logging_policys_value_and_shows_no_standard_error():
    world = tiny.small()
    estimate = tiny.run(LoggingAverage(), world.population())
    assert estimate.value == pytest.approx(world.expectation(world.pi0), abs=1e-12)
    assert estimate.standard_error is None


@BOTH
def test_equal_policies_give_the_mean_reward(cls):
    world = tiny.small()
    problem = world.but(pi1=world.pi0).sample(50, np.random.default_rng(0))
    estimate = tiny.run(cls(), problem)
    assert estimate.value == pytest.approx(problem.reward.mean(), rel=1e-14)
    assert estimate.weights == pytest.approx(np.ones(50))
    # With equal weights the delta method is the standard error of a mean.
    assert estimate.standard_error == pytest.approx(
        standard_error(problem.reward, np.arange(50)), rel=1e-12
    )


@BOTH
def test_order_of_rows_does_not_matter(cls):
    problem = tiny.small().sample(40, np.random.default_rng(1))
    order = np.random.default_rng(2).permutation(40)
    assert tiny.run(cls(), reordered(problem, order)).value == pytest.approx(
        tiny.run(cls(), problem).value, rel=1e-13
    )


def test_rewards_shift_ipws_and_scale_both():
    problem = tiny.small().sample(40, np.random.default_rng(1))
    shifted = with_reward(problem, problem.reward + 7.0)
    scaled = with_reward(problem, 3.0 * problem.reward)
    assert tiny.run(IPWS(), shifted).value == pytest.approx(tiny.run(IPWS(), problem).value + 7.0)
    for cls in (IPW, IPWS):
        before, after = tiny.run(cls(), problem), tiny.run(cls(), scaled)
        assert after.value == pytest.approx(3.0 * before.value)
        assert after.standard_error == pytest.approx(3.0 * before.standard_error)


def test_ipws_stays_within_the_rewards():
    problem = tiny.small().sample(5, np.random.default_rng(3))
    assert problem.reward.min() <= tiny.run(IPWS(), problem).value <= problem.reward.max()


@pytest.mark.parametrize(("cls", "n"), [(IPW, 200), (IPWS, 400)])
def test_intervals_cover_and_are_no_wider_than_needed(cls, n):
    world, rng = tiny.small(), np.random.default_rng(4)
    outcomes = [tiny.run(cls(), world.sample(n, rng)) for _ in range(1500)]
    value = np.array([e.value for e in outcomes])
    error = np.array([e.standard_error for e in outcomes])
    coverage = (abs(value - world.value) <= 1.96 * error).mean()
    # Three binomial standard errors of 1,500 trials are 0.017.
    assert 0.93 < coverage < 0.967
    exact = asymptotic(world, cls) / np.sqrt(n)
    assert np.sqrt((error**2).mean()) == pytest.approx(exact, rel=0.04)
    assert value.std() == pytest.approx(exact, rel=0.06)


def asymptotic(world, cls) -> float:
    """sqrt(n) times the standard error that the estimator tends to."""
    w, r2 = world.weights, world.q**2 + world.noise**2
    if cls is IPW:
        square = world.expectation(world.pi0 * w**2, r2)
        return float(np.sqrt(square - world.value**2))
    centered = r2 - 2 * world.value * world.q + world.value**2
    return float(np.sqrt(world.expectation(world.pi0 * w**2, centered)))


@BOTH
def test_clipping_is_what_it_says(cls):
    problem = tiny.small().sample(60, np.random.default_rng(5))
    plain, cut = tiny.run(cls(), problem), tiny.run(cls(clip=1.5), problem)
    assert cut.weights == pytest.approx(np.minimum(plain.weights, 1.5))
    assert cut.diagnostics["clip"] == 1.5
    assert cut.diagnostics["clipped_share"] == pytest.approx((plain.weights > 1.5).mean())
    assert cut.diagnostics["mean_weight"] == pytest.approx(plain.weights.mean())
    assert tiny.run(cls(clip=1e9), problem).value == plain.value


def test_missing_support_biases_ipw_by_exactly_the_unsupported_value():
    world = tiny.small()
    deficient = world.but(pi0=np.array([[0.5, 0.5, 0.0], [0.4, 0.6, 0.0]]))
    estimate = tiny.run(IPW(), deficient.population())
    lost = world.expectation(np.where(deficient.pi0 == 0, world.pi1, 0.0))
    assert estimate.value == pytest.approx(world.value - lost, abs=1e-12)
    restricted = np.where(deficient.pi0 > 0, world.pi1, 0.0)
    kept = world.expectation(restricted, np.ones_like(world.q))
    renormalized = world.expectation(restricted) / kept
    assert tiny.run(IPWS(), deficient.population()).value == pytest.approx(renormalized, abs=1e-12)


def test_disjoint_policies_are_zero_for_ipw_and_a_violation_for_ipws():
    world = tiny.small().but(
        pi0=np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]),
        pi1=np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]),
    )
    problem = world.sample(30, np.random.default_rng(6))
    assert tiny.run(IPW(), problem).value == 0.0
    with pytest.raises(PositivityViolation, match="all 30 weights are 0") as caught:
        tiny.run(IPWS(), problem)
    assert caught.value.unsupported_mass == 1.0


@pytest.mark.parametrize("cls", [IPW, IPWS])
def test_what_messages_alone_say_is_not_computed(cls, monkeypatch):
    problem = tiny.small().sample(30, np.random.default_rng(7))
    for name in ("never_logged", "np"):
        monkeypatch.setattr(ipw, name, None)
    assert np.isfinite(tiny.run(cls(), problem).value)


def test_one_row_has_a_value_and_no_standard_error():
    problem = tiny.small().sample(1, np.random.default_rng(7))
    for cls in (LoggingAverage, IPW, IPWS):
        estimate = tiny.run(cls(), problem)
        assert np.isfinite(estimate.value)
        assert estimate.standard_error is None


def test_equal_rewards_have_a_standard_error_of_zero_and_a_single_weight_has_none():
    rows = np.arange(4)
    weights, rewards = np.array([0.5, 2.0, 1.0, 0.5]), np.array([1.0, 0.0, 1.0, 1.0])
    assert self_normalized(weights, np.full(4, 0.25), rows) == (0.25, 0.0)
    assert self_normalized(weights * (rows == 1), rewards, rows) == (0.0, None)


def test_self_normalization_survives_huge_weights():
    value, error = self_normalized(np.array([1e300, 1e300]), np.array([1.0, 3.0]), np.arange(2))
    assert value == pytest.approx(2.0)
    assert error == pytest.approx(1.0)


def test_never_logged_counts_target_rows():
    world = tiny.small()
    one = np.zeros(1, dtype=int)
    target = (np.zeros(4, dtype=int), np.array([0, 1, 2, 2]), np.zeros(4, dtype=int))
    problem = world.problem(one, one, one, np.ones(1), target)
    assert never_logged(tiny.view_of(problem)) == pytest.approx(0.75)


def with_reward(problem: Problem, reward) -> Problem:
    return Problem(**(vars(problem) | {"reward": reward}))


def reordered(problem: Problem, order) -> Problem:
    logged = ("context", "action", "embedding", "reward", "propensity")
    return Problem(**(vars(problem) | {name: getattr(problem, name)[order] for name in logged}))


def test_no_share_of_continuous_actions_was_never_logged():
    given = problem("continuous actions", n=12)
    view = tiny.view_of(given)
    assert view.n_actions is None
    assert never_logged(view) is None


def test_parameters_of_intervals_come_from_one_class():
    """And what an estimator's value is made of is said in its own file or in its base's."""
    asked = [
        plugin.cls
        for plugin in registry().plugins("estimator")
        if "interval" in hints_of(plugin.cls)
    ]
    assert len(asked) > 10
    assert all(issubclass(cls, IntervalOptions) for cls in asked)
    assert "_score" in vars(IPW)
