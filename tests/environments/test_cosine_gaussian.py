"""The wave under Gaussian policies against numerical integrals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from ope_environments.gaussian.cosine_gaussian import CosineGaussian


@pytest.mark.parametrize(("mean", "std"), [(0.5, 0.4), (0.1, 0.3), (0.0, 1.2)])
def test_value_and_second_moment_are_integrals(mean, std):
    world = CosineGaussian(target_mean=mean, target_std=std)
    wanted, logged = stats.norm(mean, std).pdf, stats.norm(0.0, 1.0).pdf
    value, _ = integrate.quad(
        lambda a: wanted(a) * 100 * math.cos(2 * math.pi * a), mean - 9 * std, mean + 9 * std
    )
    assert world.value() == pytest.approx(value, rel=1e-7, abs=1e-7)
    moment, _ = integrate.quad(lambda a: wanted(a) ** 2 / logged(a), -30, 30, points=[mean])
    assert world.weight_second_moment() == pytest.approx(moment, rel=1e-7)


def test_no_variance_exists_where_the_target_is_too_wide():
    assert CosineGaussian(target_std=math.sqrt(2)).weight_second_moment() == math.inf
    assert CosineGaussian(target_std=1.4).weight_second_moment() < 2000


def test_rows_are_the_wave_and_their_densities():
    world = CosineGaussian(n_samples=50_000, target_mean=0.25, target_std=0.2)
    problem, truth = world.sample(
        world_rng=np.random.default_rng(0),
        logged_rng=np.random.default_rng(1),
        target_rng=np.random.default_rng(2),
    )
    assert np.array_equal(problem.reward, 100 * np.cos(2 * np.pi * problem.action))
    assert problem.propensity == pytest.approx(stats.norm(0, 1).pdf(problem.action))
    wanted = stats.norm(0.25, 0.2).pdf(problem.action)
    assert problem.target_policy.probability(problem.context, problem.action) == pytest.approx(
        wanted
    )
    terms = wanted / problem.propensity * problem.reward
    assert terms.mean() == pytest.approx(truth.expected, abs=4 * terms.std() / 50_000**0.5)
    assert truth.empirical == pytest.approx(truth.expected, abs=1.5)
