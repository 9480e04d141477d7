"""`linear-gaussian`: value, tail, support bias and kernel bias by formula against samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ope_bench import evaluate
from ope_bench.contracts.data import Problem, Truth
from ope_environments.gaussian.linear_gaussian import LinearGaussian

Draw = Callable[..., tuple[Problem, Truth]]
N = 100_000

SETTINGS: list[dict[str, Any]] = [
    {},
    {"cut": 0.5},
    {"cut": -0.5, "target_slope": 0.3, "optimal_slope": -0.4, "context_std": 1.5},
    {"cut": 0.0, "target_slope": 0.5, "shared_contexts": True},
    {"cut": 1.0, "logging_std": 2.0, "target_std": 1.5, "optimal_slope": 0.0},
]


def near(values: np.ndarray, exact: float) -> bool:
    return bool(abs(values.mean() - exact) <= 4.0 * values.std() / math.sqrt(len(values)))


def weighted(problem: Problem) -> np.ndarray:
    target = problem.target_policy
    assert target is not None
    weight: np.ndarray = target.probability(problem.context, problem.action) / problem.propensity
    return weight


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_value_support_and_bias_are_those_of_samples(draw: Draw, settings: dict[str, Any]) -> None:
    environment = LinearGaussian(n_samples=N, **settings)
    problem, truth = draw(environment)
    x, a = problem.target_context[:, 0], problem.target_action
    reward = -((a - environment.optimal_slope * x) ** 2)
    assert near(reward, truth.expected)
    weight = weighted(problem)
    assert near(weight, 1.0 - environment.unsupported_mass())
    assert near(weight * problem.reward, truth.expected + environment.ipw_bias())
    logging = problem.logging_policy
    assert logging is not None
    beyond = logging.probability(problem.target_context, a) == 0
    assert near(beyond * 1.0, environment.unsupported_mass())
    assert near(-reward * beyond, environment.ipw_bias())


def test_full_support_has_neither_missing_mass_nor_bias() -> None:
    assert LinearGaussian().unsupported_mass() == 0.0
    assert LinearGaussian().ipw_bias() == 0.0


def test_the_second_moment_is_that_of_samples(draw: Draw) -> None:
    environment = LinearGaussian(n_samples=N, target_std=0.8, target_slope=0.7)
    problem, _ = draw(environment)
    assert near(weighted(problem) ** 2, environment.weight_second_moment())
    assert LinearGaussian(target_std=1.5).weight_second_moment() == math.inf
    assert LinearGaussian(target_slope=2.0).weight_second_moment() == math.inf


@pytest.mark.parametrize("bandwidth", [0.3, 0.6])
def test_a_gaussian_kernel_has_the_bias_of_its_variance(draw: Draw, bandwidth: float) -> None:
    environment = LinearGaussian(n_samples=N, target_std=0.0, target_slope=0.8)
    problem, truth = draw(environment)
    assert truth.expected == pytest.approx(-(0.7**2))
    assert environment.unsupported_mass() == 1.0
    assert environment.ipw_bias() == -truth.expected
    assert weighted(problem).max() == 0.0
    distance = (problem.action - 0.8 * problem.context[:, 0]) / bandwidth
    kernel = np.exp(-0.5 * distance**2) / (bandwidth * math.sqrt(2.0 * math.pi))
    estimate = kernel * problem.reward / problem.propensity
    assert near(estimate, truth.expected - bandwidth**2)


def test_the_embedding_is_the_action_and_its_ratio_the_actions(draw: Draw) -> None:
    problem, _ = draw(LinearGaussian(n_samples=100, cut=0.2))
    np.testing.assert_array_equal(problem.embedding[:, 0], problem.action)
    embedding, target = problem.embedding_distribution, problem.target_policy
    assert embedding is not None
    assert target is not None
    np.testing.assert_array_equal(
        embedding.marginal(target, problem.context, problem.embedding),
        target.probability(problem.context, problem.action),
    )


def test_several_targets_share_the_same_logs(draw: Draw) -> None:
    first, _ = draw(LinearGaussian(n_samples=50, cut=1.0))
    second, _ = draw(LinearGaussian(n_samples=50, cut=1.0, target_slope=-2.0, target_std=0.0))
    for name in ("context", "action", "reward", "propensity"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


@pytest.mark.parametrize(
    "params", [{}, {"cut": 1.0}, {"cut": -0.5, "target_slope": 0.2}, {"target_std": 0.0}]
)
def test_the_record_tells_the_support_that_the_formula_has(params: dict[str, float]) -> None:
    environment = LinearGaussian(n_samples=5_000, **params)  # type: ignore[arg-type]
    (record,) = evaluate("ipw", environment, replicates=1)
    exact = environment.unsupported_mass()
    assert record.unsupported_mass == pytest.approx(exact, abs=0.03)
    assert record.observed_unsupported_mass is None


@pytest.mark.parametrize("estimator", ["ipw", "ipws", "eipw", "eipws"])
def test_a_target_of_single_actions_is_a_positivity_failure(estimator: str) -> None:
    (record,) = evaluate(estimator, LinearGaussian(n_samples=200, target_std=0.0), replicates=1)
    assert (record.status, record.unsupported_mass) == ("positivity", 1.0)
    assert record.fallback == (0.0 if estimator in ("ipw", "eipw") else None)
