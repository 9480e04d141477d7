"""Worlds that cost next to nothing, and one that fails."""

import os
import time
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge

from ope_bench import Environment, Problem, Truth, params


@params
class Coin(Environment):
    """Two actions, logged uniformly; the target always takes action 1, whose reward is 1."""

    n_samples: Annotated[int, Ge(1)] = 20
    shift: float = 0.0

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        n = self.n_samples
        action = logged_rng.integers(0, 2, n)
        noise = logged_rng.normal(0, 0.1, n)
        target_action = np.ones(n, dtype=np.int64)
        problem = Problem(
            context=np.zeros((n, 1)),
            action=action,
            embedding=action[:, None].astype(float),
            reward=action + noise + self.shift,
            target_context=np.zeros((n, 1)),
            target_action=target_action,
            target_embedding=target_action[:, None].astype(float),
            n_actions=2,
            propensity=np.full(n, 0.5),
        )
        drawn = float(target_rng.normal(0, 0.1, n).mean())
        return problem, Truth(1.0 + self.shift, 0.0, 1.0 + self.shift + drawn)


class BadWorld(Environment):
    """Fails before anything is fitted."""

    def __init__(
        self, how: Literal["raise", "hang", "exit"] = "raise", n_samples: int = 20
    ) -> None:
        self.how = how
        self.n_samples = n_samples

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        if self.how == "hang":
            time.sleep(600)
        if self.how == "exit":
            os._exit(7)
        msg = "the world is broken"
        raise RuntimeError(msg)
