"""Importance weighting with a baseline, and under the most likely distribution of the weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from ope_estimators.actions.weighting.beta_ipw import BetaIPW
from ope_estimators.actions.weighting.el_ipw import (
    ELIPW,
    least_squares_probabilities,
    most_likely_probabilities,
)
from ope_estimators.actions.weighting.ipw import IPW
from ope_estimators.actions.weighting.ipws import IPWS
from support import tiny_worlds as tiny


def test_the_baseline_is_the_one_of_least_estimated_variance():
    problem = tiny.small().sample(200, np.random.default_rng(15))
    estimate = tiny.run(BetaIPW(), problem)
    weight, baseline = estimate.weights, estimate.diagnostics["baseline"]
    expected = ((weight**2 - weight) * problem.reward).sum() / (weight**2 - weight).sum()
    assert baseline == pytest.approx(expected, rel=1e-12)
    terms = baseline + weight * (problem.reward - baseline)
    assert estimate.value == pytest.approx(terms.mean(), rel=1e-12)
    # E w² r - E w r is what the paper sets to zero; the population has it exactly.
    world = tiny.small()
    told = tiny.run(BetaIPW(), world.population()).diagnostics["baseline"]
    factor = world.pi0 * (world.weights**2 - world.weights)
    limit = world.expectation(factor) / world.expectation(factor, np.ones_like(world.q))
    assert told == pytest.approx(limit, abs=1e-12)
    assert tiny.run(BetaIPW(), world.population()).value == pytest.approx(world.value, abs=1e-12)


def test_logs_that_miss_a_rare_action_fall_back_to_self_normalization():
    world = tiny.small().but(
        pi0=np.array([[0.49, 0.49, 0.02]] * 2), pi1=np.array([[0.1, 0.2, 0.7]] * 2)
    )
    rng = np.random.default_rng(16)
    problem = next(
        one for one in (world.sample(20, rng) for _ in range(99)) if (one.action < 2).all()
    )
    estimate, plain = tiny.run(BetaIPW(), problem), tiny.run(IPWS(), problem)
    assert estimate.diagnostics["fallback"] == "ipws"
    assert estimate.diagnostics["baseline"] is None
    assert (estimate.value, estimate.standard_error) == (plain.value, plain.standard_error)
    # The released code: the denominator is clipped at 1e-11.
    excess = estimate.weights**2 - estimate.weights
    wrong = (excess * problem.reward).mean() / max(excess.mean(), 1e-11)
    assert abs(wrong) > 1e9


# --- empirical likelihood


def weights_of_mean_above_one(seed: int, n: int = 9) -> np.ndarray:
    rng = np.random.default_rng(seed)
    while True:
        weight = np.exp(rng.normal(0.3, 1.3, n))
        if weight.mean() > 1:
            return weight


def optimized(objective: Any, gradient: Any, weight: np.ndarray, *, least: float) -> np.ndarray:
    """Probabilities that a general optimizer finds, under sum p = 1 and sum p w = 1."""
    constraints: Any = [
        {"type": "eq", "fun": lambda p: p.sum() - 1},
        {"type": "eq", "fun": lambda p: p @ weight - 1},
    ]
    settings: Any = {"ftol": 1e-15, "maxiter": 500}
    return minimize(
        objective,
        np.full(len(weight), 1 / len(weight)),
        jac=gradient,
        bounds=[(least, 1.0)] * len(weight),
        constraints=constraints,
        options=settings,
    ).x


@pytest.mark.parametrize("seed", range(8))
def test_least_squares_probabilities_are_those_of_a_general_optimizer(seed):
    weight = weights_of_mean_above_one(seed)
    probability = least_squares_probabilities(weight)
    assert (probability >= 0).all()
    assert probability.sum() <= 1
    assert probability @ weight == pytest.approx(1.0)
    with_zero, equal = np.append(weight, 0.0), 1 / (len(weight) + 1)
    found = optimized(
        lambda p: np.square(p - equal).sum(), lambda p: 2 * (p - equal), with_zero, least=0.0
    )
    np.testing.assert_allclose(probability, found[:-1], atol=1e-6)


def test_some_of_the_seeds_need_the_sign_constraint():
    """Without it the closed form has negative probabilities for far weights."""
    negative = [
        least_squares_probabilities(weights_of_mean_above_one(seed)).min() == 0
        for seed in range(8)
    ]
    assert any(negative)
    assert not all(negative)


@pytest.mark.parametrize("seed", range(8))
def test_most_likely_probabilities_are_those_of_a_general_optimizer(seed):
    weight = np.append(weights_of_mean_above_one(seed), [0.05, 2.0])
    probability = most_likely_probabilities(weight)
    assert probability.sum() == pytest.approx(1.0)
    assert probability @ weight == pytest.approx(1.0)
    found = optimized(lambda p: -np.log(p).sum(), lambda p: -1 / p, weight, least=1e-9)
    np.testing.assert_allclose(probability, found, atol=1e-5)


def test_weights_that_are_all_above_one_leave_mass_for_weight_zero():
    weight = np.array([1.5, 2.0, 4.0])
    probability = most_likely_probabilities(weight)
    np.testing.assert_allclose(probability, 1 / (3 * weight))
    assert probability @ weight == pytest.approx(1.0)
    assert probability.sum() < 1
    assert most_likely_probabilities(np.array([3.0])) == pytest.approx([1 / 3])


@pytest.mark.parametrize("divergence", ["cressie-read", "likelihood"])
def test_empirical_likelihood_stays_in_the_range_of_the_rewards(divergence):
    world, rng = tiny.small(), np.random.default_rng(17)
    for _ in range(300):
        problem = world.sample(4, rng)
        estimate = tiny.run(ELIPW(divergence=divergence), problem)
        low, high = problem.reward.min(), problem.reward.max()
        assert low - 1e-9 <= estimate.value <= high + 1e-9
        assert (estimate.weights >= 0).all()
        assert estimate.weights.mean() == pytest.approx(1.0)


@pytest.mark.parametrize("divergence", ["cressie-read", "likelihood"])
def test_weights_that_lack_mass_are_filled_up_with_the_mean_reward(divergence):
    world = tiny.small().but(pi0=np.array([[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]]))
    world = world.but(pi1=np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]))
    rng = np.random.default_rng(18)
    problem = next(
        one
        for one in (world.sample(12, rng) for _ in range(99))
        if tiny.run(IPW(), one).weights.mean() < 0.6
    )
    plain = tiny.run(IPW(), problem)
    missing = 1 - plain.weights.mean()
    estimate = tiny.run(ELIPW(divergence=divergence), problem)
    assert estimate.value == pytest.approx(plain.value + missing * problem.reward.mean())
    assert estimate.diagnostics["missing_mass_filled"] == pytest.approx(missing)
