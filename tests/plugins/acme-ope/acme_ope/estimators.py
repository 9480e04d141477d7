"""Estimators that behave."""

import os
import time
from typing import Annotated, Literal, Self

import numpy as np
from annotated_types import Ge

from ope_bench import Access, Estimate, Estimator, View, params


@params
class Mean(Estimator):
    """The mean logged reward, after some work."""

    seconds: Annotated[float, Ge(0)] = 0.0
    work: Literal["sleep", "cpu"] = "sleep"
    label: str = ""

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        if self.work == "sleep" and self.seconds:
            time.sleep(self.seconds)
        end = time.process_time() + self.seconds
        while self.work == "cpu" and time.process_time() < end:
            pass
        return self

    def estimate(self, view: View) -> Estimate:
        return Estimate(float(view.reward.mean()))


class Noisy(Estimator):
    """Inverse propensity weighting plus noise from every source of randomness there is."""

    access = Access.PROPENSITY

    def __init__(self, n_draws: Annotated[int, Ge(1)] = 3) -> None:
        self.n_draws = n_draws

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        import random

        self.noise_ = rng.normal(size=self.n_draws).sum()
        self.noise_ += np.random.normal() + random.random()  # noqa: NPY002  on purpose
        table = rng.normal(size=(200, 200))
        self.noise_ += 1e-3 * float((table @ table).sum())
        return self

    def estimate(self, view: View) -> Estimate:
        weights = (view.action == 1) / view.propensity
        value = float((weights * view.reward).mean()) + 0.01 * self.noise_
        return Estimate(value, weights=weights, diagnostics={"noise": self.noise_})


class Threads(Estimator):
    """Says how many threads numerical libraries would use."""

    def estimate(self, view: View) -> Estimate:
        from threadpoolctl import threadpool_info

        threads = [pool["num_threads"] for pool in threadpool_info()]
        return Estimate(0.0, diagnostics={"threads": max(threads), "pools": len(threads)})


class Settings(Estimator):
    """Says what state it finds the process in."""

    def estimate(self, view: View) -> Estimate:
        told = {"folder": os.getcwd(), **np.geterr()}
        return Estimate(0.0, diagnostics=told)
