"""One sample of an environment from plain seeds, as a fixture because tests are no package."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from ope_bench.contracts.data import Problem, Truth
from ope_bench.contracts.plugins import Environment

Draw = Callable[..., tuple[Problem, Truth]]


@pytest.fixture(scope="session")
def draw() -> Draw:
    """``draw(environment, world=0, logged=1, target=2)``."""

    def sample(
        environment: Environment, world: int = 0, logged: int = 1, target: int = 2
    ) -> tuple[Problem, Truth]:
        return environment.sample(
            world_rng=np.random.default_rng([0, world]),
            logged_rng=np.random.default_rng([1, logged]),
            target_rng=np.random.default_rng([2, target]),
        )

    return sample


def scatter_around_the_value(truths: list[Truth]) -> None:
    """The means of target rewards are draws around one expected value."""
    empirical = np.array([truth.empirical for truth in truths])
    assert len({truth.expected for truth in truths}) == 1
    gap = empirical.mean() - truths[0].expected
    assert abs(gap) < 4.0 * empirical.std(ddof=1) / math.sqrt(len(truths))


def weigh_to_the_value(problem: Problem, truth: Truth) -> None:
    """Logged rewards, weighted by both policies, have the value as their mean."""
    assert problem.target_policy is not None
    assert problem.propensity is not None
    weight = problem.target_policy.probability(problem.context, problem.action)
    weighted = weight / problem.propensity * problem.reward
    error = weighted.std() / math.sqrt(len(weighted))
    assert abs(weighted.mean() - truth.expected) < 4.0 * error


@pytest.fixture(scope="session")
def check() -> SimpleNamespace:
    """What must hold of samples against their truth."""
    return SimpleNamespace(
        scatter_around_the_value=scatter_around_the_value, weigh_to_the_value=weigh_to_the_value
    )
