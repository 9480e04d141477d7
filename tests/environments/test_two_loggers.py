"""The world of two loggers against sums over its cells, written anew."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ope_environments.two_loggers.environment import TwoLoggers


def cells(world: TwoLoggers):
    """Yield weight of a cell, reward, probabilities under the target and both loggers."""
    for context, action in itertools.product(range(2), repeat=2):
        better = context == action
        chance = [one if better else 1 - one for one in (world.target, world.first, world.second)]
        yield 0.5, 10.0 if better else 1.0, chance


@pytest.mark.parametrize("world", [TwoLoggers(), TwoLoggers(target=0.3, first=0.6, second=0.5)])
def test_the_variances_are_sums_over_cells(world):
    own, balanced = 0.0, 0.0
    for logger in (1, 2):
        for name in ("own", "balanced"):
            values = [
                (mass * p[logger], r * p[0] / (p[logger] if name == "own" else (p[1] + p[2]) / 2))
                for mass, r, p in cells(world)
            ]
            mean = sum(m * v for m, v in values)
            part = sum(m * (v - mean) ** 2 for m, v in values)
            own += part if name == "own" else 0.0
            balanced += part if name == "balanced" else 0.0
    assert world.variance() == pytest.approx(own / (2 * world.n_samples), rel=1e-9)
    assert world.variance(balanced=True) == pytest.approx(balanced / (2 * world.n_samples))


def test_rows_have_the_value_the_strata_and_the_propensities_of_their_loggers():
    world = TwoLoggers(n_samples=20_000)
    problem, truth = world.sample(
        world_rng=np.random.default_rng(0),
        logged_rng=np.random.default_rng(1),
        target_rng=np.random.default_rng(2),
    )
    assert truth.expected == pytest.approx(10 * 0.8 + 0.2)
    assert np.bincount(problem.stratum).tolist() == [10_000, 10_000]
    better = problem.action == problem.context[:, 0]
    assert np.array_equal(problem.reward, np.where(better, 10.0, 1.0))
    for k, share in enumerate((0.2, 0.9)):
        rows = problem.stratum == k
        chance = np.where(better[rows], share, 1 - share)
        assert problem.propensity[rows] == pytest.approx(chance)
        assert better[rows].mean() == pytest.approx(share, abs=0.02)
    assert truth.empirical == pytest.approx(truth.expected, abs=0.15)
    weight = (
        problem.target_policy.probability(problem.context, problem.action) / problem.propensity
    )
    assert (weight * problem.reward).mean() == pytest.approx(
        truth.expected, abs=4 * world.variance() ** 0.5
    )
