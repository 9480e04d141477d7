"""One sample of an environment from plain seeds, as a fixture because tests are no package."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ope_bench.data import Problem, Truth
from ope_bench.environment import Environment

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
