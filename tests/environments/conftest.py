"""One sample of an environment from plain seeds, as a fixture because tests are no package."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

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


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def behance_files() -> ModuleType:
    """The module that writes small raw files."""
    return _load("behance_files")
