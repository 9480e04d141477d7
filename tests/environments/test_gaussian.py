"""`gaussian`: values, ratios and tails by formula against samples and quadrature."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import kstest, norm

from ope_bench.base.errors import DataError
from ope_bench.contracts.data import Problem, Truth
from ope_bench.contracts.embeddings import EmbeddingDistribution
from ope_bench.contracts.policies import Policy, Uniform
from ope_environments.gaussian.gaussian import Gaussian, weight_second_moment
from ope_environments.gaussian.gaussian_policy import STEP, GaussianEmbedding, GaussianPolicy
from ope_environments.gaussian.truncated_policy import PointPolicy, TruncatedPolicy

Draw = Callable[..., tuple[Problem, Truth]]

SETTINGS: list[dict[str, Any]] = [
    {},
    {"shift": -1.0, "curvature": 0.7, "context_slope": 0.8},
    {"target_std": 1.3, "embedding_std": 0.6, "curvature": -0.3, "d_context": 3},
    {"target_std": 2.0, "logging_std": 1.0, "n_distractors": 2, "shared_contexts": True},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_mean_target_reward_scatters_around_the_truth(
    draw: Draw, settings: dict[str, Any]
) -> None:
    drawn = [draw(Gaussian(n_samples=4000, **settings), 3, i, i)[1] for i in range(30)]
    assert len({truth.expected for truth in drawn}) == 1
    empirical = np.array([truth.empirical for truth in drawn])
    error = empirical.std(ddof=1) / math.sqrt(30)
    assert abs(empirical.mean() - drawn[0].expected) < 4.0 * error


@pytest.mark.parametrize("settings", SETTINGS[:3], ids=str)
def test_weighted_logs_agree_with_the_truth_by_actions_and_by_embeddings(
    draw: Draw, settings: dict[str, Any]
) -> None:
    problem, truth = draw(Gaussian(n_samples=200_000, **settings))
    embedding = problem.embedding_distribution
    logging, target = problem.logging_policy, problem.target_policy
    assert embedding is not None
    assert logging is not None
    assert target is not None
    x, g = problem.context, problem.embedding
    by_action = target.probability(x, problem.action) / problem.propensity
    by_embedding = embedding.marginal(target, x, g) / embedding.marginal(logging, x, g)
    for weight in (by_action, by_embedding):
        weighted = weight * problem.reward
        error = 4.0 / math.sqrt(200_000)
        assert abs(weight.mean() - 1.0) < error * weight.std()
        assert abs(weighted.mean() - truth.expected) < error * weighted.std()
    if settings.get("embedding_std", 0.0) == 0.0:
        np.testing.assert_allclose(by_embedding, by_action)


@pytest.mark.parametrize(
    ("shift", "logging_std", "target_std", "known"),
    [(1, 1, 1, math.e), (0.5, 1, 0.5, 1.744026), (1, 2, 1, 1.744026), (2, 1, 1, math.e**4)],
)
def test_the_second_moment_is_its_integral(
    shift: float, logging_std: float, target_std: float, known: float
) -> None:
    moment = weight_second_moment(shift, logging_std, target_std)
    assert moment == pytest.approx(known, rel=1e-6)
    integral, _ = quad(
        lambda a: norm.pdf(a, shift, target_std) ** 2 / norm.pdf(a, 0.0, logging_std), -20, 20
    )
    assert moment == pytest.approx(integral, rel=1e-6)


def test_the_tail_is_infinite_from_twice_the_variance_on() -> None:
    assert weight_second_moment(0.0, 1.0, math.sqrt(2.0) + 1e-9) == math.inf
    assert weight_second_moment(0.0, 1.0, math.sqrt(2.0) - 1e-3) < math.inf
    assert weight_second_moment(1e3, 1.0, 1.0) == math.inf


def test_heavy_tails_are_heavy_in_samples(draw: Draw) -> None:
    problem, _ = draw(Gaussian(n_samples=100_000, target_std=2.0))
    target = problem.target_policy
    assert target is not None
    weight = target.probability(problem.context, problem.action) / problem.propensity
    assert weight.max() > 100.0 * weight.mean()


POLICIES: list[Policy] = [
    GaussianPolicy(0.3, np.array([1.0, -0.5]), 0.7),
    TruncatedPolicy(0.3, np.array([1.0, -0.5]), 0.7, cut=0.4),
    TruncatedPolicy(0.3, np.array([1.0, -0.5]), 0.7, cut=-2.5),
    PointPolicy(0.3, np.array([1.0, -0.5])),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_expectations_are_averages_over_draws(policy: Policy) -> None:
    context = np.repeat(np.array([[0.2, -0.4]]), 100_000, axis=0)
    drawn = policy.sample(context, np.random.default_rng(0))

    def f(x: np.ndarray, a: np.ndarray) -> np.ndarray:
        return np.cos(a) + x[:, 0] * a**2

    values = f(context, drawn)
    error = 4.0 * values.std() / math.sqrt(100_000) + 1e-12
    assert abs(values.mean() - policy.expect(context[:1], f)[0]) < error  # type: ignore[arg-type]
    np.testing.assert_allclose(policy.expect(context[:2], lambda x, a: np.ones(len(x))), 1.0)


@pytest.mark.parametrize("policy", POLICIES[:3], ids=lambda policy: type(policy).__name__)
def test_densities_integrate_to_the_distribution_of_draws(policy: Policy) -> None:
    context = np.repeat(np.array([[0.2, -0.4]]), 5_000, axis=0)
    drawn = policy.sample(context, np.random.default_rng(1))
    grid = np.linspace(-6.0, 6.0, 20_001)
    density = policy.probability(np.repeat(context[:1], len(grid), axis=0), grid)
    cdf = np.cumsum(density) * (grid[1] - grid[0])
    assert cdf[-1] == pytest.approx(1.0, abs=2e-3)
    assert kstest(drawn, lambda a: np.interp(a, grid, cdf)).pvalue > 1e-4
    assert (policy.probability(context, drawn) > 0).all()


def test_nothing_is_drawn_above_the_cut() -> None:
    policy = TruncatedPolicy(0.0, np.zeros(1), 1.0, cut=-1.0)
    drawn = policy.sample(np.zeros((10_000, 1)), np.random.default_rng(0))
    assert drawn.max() <= -1.0
    np.testing.assert_array_equal(policy.probability(np.zeros((2, 1)), np.array([-0.9, 3.0])), 0)


def test_the_noisy_marginal_is_the_convolution() -> None:
    embedding = GaussianEmbedding(0.6, n_distractors=1)
    assert isinstance(embedding, EmbeddingDistribution)
    policy, x = POLICIES[0], np.array([[0.5, 1.0]])
    g = np.array([[0.9, -0.3]])
    convolved = policy.expect(x, lambda _, a: embedding.probability(g, a))
    np.testing.assert_allclose(embedding.marginal(policy, x, g), convolved, rtol=1e-9)
    with pytest.raises(DataError, match="Uniform"):
        embedding.marginal(Uniform(3), x, g)


def test_without_noise_the_embedding_is_the_action(draw: Draw) -> None:
    problem, _ = draw(Gaussian(n_samples=50, n_distractors=2))
    np.testing.assert_array_equal(problem.embedding[:, 0], problem.action)
    assert problem.embedding.shape == (50, 3)
    embedding = problem.embedding_distribution
    assert embedding is not None
    assert (embedding.probability(problem.embedding, problem.action) > 0).all()
    assert (embedding.probability(problem.embedding, problem.action + 1.0) == 0).all()


def test_several_targets_share_the_same_logs(draw: Draw) -> None:
    first, _ = draw(Gaussian(n_samples=50))
    second, _ = draw(Gaussian(n_samples=50, shift=3.0, target_std=2.0, shared_contexts=True))
    for name in ("context", "action", "embedding", "reward", "propensity"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    np.testing.assert_array_equal(second.context, second.target_context)


def test_expectations_of_polynomials_are_exact() -> None:
    policy = GaussianPolicy(0.3, np.array([1.0, -0.5]), 0.7)
    context = np.random.default_rng(0).normal(size=(50, 2))
    mean = policy.mean(context)
    moments = [np.ones(50), mean, mean**2 + 0.49, mean**3 + 3 * mean * 0.49]
    moments += [mean**4 + 6 * mean**2 * 0.49 + 3 * 0.49**2]
    for power, moment in enumerate(moments):
        found = policy.expect(context, lambda x, a, k=power: a**k)  # type: ignore[misc]
        np.testing.assert_allclose(found, moment, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("cut", [-1.0, 0.1, 0.31, 1.2])
def test_errors_at_steps_average_out_over_contexts(cut: float) -> None:
    """With nodes in common to all rows the mean would be off as much as one row is."""
    policy = GaussianPolicy(0.3, np.zeros(2), 0.7)
    context = np.random.default_rng(1).normal(size=(4_000, 2))
    found = policy.expect(context, lambda x, a: np.where(a > cut, 1.0, 0.0))
    z = (cut - 0.3) / 0.7
    largest = STEP * norm.pdf(0.0)
    assert np.abs(found - norm.sf(z)).max() < largest
    at_random = STEP * norm.pdf(z) / math.sqrt(12.0) / math.sqrt(4_000)
    assert abs(found.mean() - norm.sf(z)) < 4.0 * at_random
    assert found.std() == pytest.approx(STEP * norm.pdf(z) / math.sqrt(12.0), rel=0.1)


def test_nodes_are_a_matter_of_the_context_alone() -> None:
    policy = GaussianPolicy(0.3, np.array([1.0, -0.5]), 0.7)
    context = np.random.default_rng(2).normal(size=(40, 2))
    context[7], context[8] = context[3], [0.0, 1.0]
    context[9] = [-0.0, 1.0]

    def f(x: np.ndarray, a: np.ndarray) -> np.ndarray:
        return np.where(a > 0.2, 1.0, 0.0)

    found = policy.expect(context, f)
    assert found[7] == found[3]
    assert found[8] == found[9]
    order = np.random.default_rng(3).permutation(40)
    np.testing.assert_array_equal(policy.expect(context[order], f), found[order])
    np.testing.assert_array_equal(policy.expect(np.asfortranarray(context)[5:9], f), found[5:9])
