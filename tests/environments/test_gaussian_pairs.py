"""gaussian-pairs: densities, divergence and value in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from ope_bench.base.errors import ParameterError
from ope_environments.gaussian.gaussian_pairs import GaussianPairs


def sampled(seed=0, **params):
    rngs = (np.random.default_rng([seed, k]) for k in range(3))
    names = ("world_rng", "logged_rng", "target_rng")
    return GaussianPairs(**params).sample(**dict(zip(names, rngs, strict=True)))


def covariance(dimension, rho):
    return np.kron(np.eye(dimension // 2), [[1, rho], [rho, 1]])


SHIFTED = {
    "dimension": 4,
    "rho": 0.6,
    "target_mean": 0.3,
    "target_std": 0.8,
    "logging_mean": -0.2,
    "logging_std": 1.5,
}


@pytest.mark.parametrize("params", [{"dimension": 6, "rho": -0.4}, SHIFTED])
def test_densities_are_those_of_the_two_normals(params):
    problem, _ = sampled(n_samples=50, **params)
    embed = problem.embedding_distribution
    d, ones = params["dimension"], np.ones(params["dimension"])
    target = multivariate_normal(
        params.get("target_mean", 0.0) * ones,
        params.get("target_std", 1.0) ** 2 * covariance(d, params["rho"]),
    )
    logged = multivariate_normal(
        params.get("logging_mean", 0.0) * ones, params.get("logging_std", 1.0) ** 2
    )
    g, c = problem.target_embedding, problem.target_context
    np.testing.assert_allclose(embed.marginal(problem.target_policy, c, g), target.pdf(g))
    np.testing.assert_allclose(embed.marginal(problem.logging_policy, c, g), logged.pdf(g))


def test_samples_have_the_moments_that_they_should():
    problem, truth = sampled(n_samples=200_000, **SHIFTED)
    have = np.cov(problem.target_embedding.T)
    np.testing.assert_allclose(have, 0.64 * covariance(4, 0.6), atol=0.01)
    np.testing.assert_allclose(np.cov(problem.embedding.T), 2.25 * np.eye(4), atol=0.03)
    assert problem.embedding.mean() == pytest.approx(-0.2, abs=0.01)
    assert truth.expected == pytest.approx(0.6 * 0.64 + 0.09)
    assert truth.empirical == pytest.approx(truth.expected, abs=0.01)
    assert truth.expected_se == 0


@pytest.mark.parametrize(
    ("params", "kl"),
    [
        ({"dimension": 40, "rho": 0.9}, 16.607312),
        ({"dimension": 40, "rho": 0.8}, 10.216512),
        ({"dimension": 80, "rho": 0.8}, 20.433025),
        ({"dimension": 320, "rho": 0.8}, 81.732100),
        ({"dimension": 1, "target_mean": -5.0, "logging_mean": 5.0}, 50.0),
        (
            {
                "dimension": 1,
                "target_mean": -1.0,
                "target_std": 0.08,
                "logging_mean": 2.0,
                "logging_std": 0.15,
            },
            200.2708,
        ),
        ({"dimension": 1, "target_std": 1e-6}, 13.3155),
    ],
)
def test_the_divergence_is_the_published_one(params, kl):
    problem, _ = sampled(n_samples=4, **params)
    assert problem.embedding_distribution.divergence() == pytest.approx(kl, abs=1e-4)


def test_the_divergence_is_the_mean_log_ratio_of_target_rows():
    problem, _ = sampled(n_samples=100_000, **SHIFTED)
    embed, g, c = problem.embedding_distribution, problem.target_embedding, problem.target_context
    log_ratio = np.log(embed.marginal(problem.target_policy, c, g)) - np.log(
        embed.marginal(problem.logging_policy, c, g)
    )
    assert log_ratio.mean() == pytest.approx(embed.divergence(), abs=0.02)


def test_in_one_dimension_the_reward_is_the_embedding():
    problem, truth = sampled(n_samples=30, dimension=1, target_mean=2.0)
    np.testing.assert_array_equal(problem.reward, problem.embedding[:, 0])
    assert truth.expected == 2.0


def test_an_odd_dimension_has_no_pairs():
    with pytest.raises(ParameterError, match="dimension = 3"):
        sampled(dimension=3)
