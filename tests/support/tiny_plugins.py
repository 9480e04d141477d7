"""A plugin file: one cheap environment, and estimators that end in every way."""

import os
import time
from typing import Annotated

import numpy as np
from annotated_types import Ge

from ope_bench import Environment, Estimate, Estimator, PositivityViolation, Problem, Schema, Truth


class Coins(Environment):
    """A few coins, their tosses logged."""

    version = 3

    def __init__(self, n_samples: Annotated[int, Ge(1)] = 20, bias: float = 0.5) -> None:
        self.n_samples = n_samples
        self.bias = bias

    def sample(self, *, world_rng, logged_rng, target_rng):
        n = self.n_samples
        zeros = np.zeros((n, 1))
        problem = Problem(
            context=zeros,
            action=np.zeros(n, dtype=int),
            embedding=zeros,
            reward=(logged_rng.random(n) < self.bias).astype(float),
            target_context=zeros,
            target_action=np.zeros(n, dtype=int),
            target_embedding=zeros,
            schema=Schema.continuous(1, 1),
            n_actions=1,
        )
        return problem, Truth(self.bias, 0.0, float((target_rng.random(n) < self.bias).mean()))


class Average(Estimator):
    """The average, moved by a shift."""

    def __init__(
        self,
        shift: float = 0.0,
        hidden: tuple[int, ...] = (3,),
        mode: str = "a",
        k: Annotated[int, Ge(1)] = 1,
    ) -> None:
        self.shift = shift
        self.hidden = hidden
        self.mode = mode
        self.k = k

    def estimate(self, view):
        return Estimate(float(view.reward.mean()) + self.shift)


class Anywhere(Average):
    """The average, on a GPU too."""

    devices = ("cpu", "cuda")


class Missing(Estimator):
    """Never finds support."""

    def estimate(self, view):
        msg = "no support"
        raise PositivityViolation(msg, unsupported_mass=0.5)


class Broken(Estimator):
    """Raises."""

    def estimate(self, view):
        print("spam on stdout")
        msg = "broken on purpose"
        raise RuntimeError(msg)


class Infinite(Estimator):
    """Divides by zero."""

    def estimate(self, view):
        return Estimate(float("inf"))


class Dying(Estimator):
    """Takes its process with it."""

    def estimate(self, view):
        os._exit(3)


class Slow(Estimator):
    """Takes its time."""

    def __init__(self, seconds: float = 0.2) -> None:
        self.seconds = seconds

    def estimate(self, view):
        time.sleep(self.seconds)
        return Estimate(0.5)


class NeedsNothingThatExists(Estimator):
    """Lacks a module."""

    requires = ("a_module_that_nobody_has",)

    def estimate(self, view):
        return Estimate(0.0)
