"""A world and an estimator that is fitted for a block at once, and misbehaves on request."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ope_bench import Environment, Estimate, Estimator, Problem, Truth
from ope_bench.contracts.view import View


class Numbers(Environment):
    """Rewards around a number that the world draws."""

    version = 1

    def __init__(self, n_samples: int = 5) -> None:
        self.n_samples = n_samples

    def sample(self, *, world_rng: Any, logged_rng: Any, target_rng: Any) -> tuple[Problem, Truth]:
        n = self.n_samples
        center = float(world_rng.normal())
        problem = Problem(
            context=logged_rng.normal(size=(n, 1)),
            action=np.zeros(n, int),
            embedding=np.zeros((n, 1)),
            reward=center + logged_rng.normal(size=n),
            target_context=target_rng.normal(size=(n, 1)),
            target_action=np.zeros(n, int),
            target_embedding=np.zeros((n, 1)),
            n_actions=1,
        )
        return problem, Truth(expected=center, expected_se=0.0, empirical=center)


@dataclass(frozen=True)
class Mean:
    """The mean reward, fitted with a draw of its own; ``how`` says what goes wrong."""

    how: str = ""
    which: int = -1
    note: str = ""

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> float:
        return self.complete([self.begin(view, rng=rng, device=device)], device=device)[0] + 100.0

    def begin(self, view: View, *, rng: np.random.Generator, device: str) -> float:
        if self.how == "raise" and view._seed.replicate == self.which:
            msg = "as requested"
            raise ValueError(msg)
        return float(view.reward.mean() + 1e-3 * rng.normal())

    def complete(self, prepared: Sequence[float], *, device: str) -> list[Any]:
        if self.note:
            with Path(self.note).open("a", encoding="utf-8") as file:
                file.write(f"{len(prepared)} {device} {os.getpid()}\n")
        if self.how == "die-together":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "hang-together":
            time.sleep(600)
        if self.how == "raise-together":
            msg = "all at once"
            raise ValueError(msg)
        if self.how == "refuse" and len(prepared) > 1:
            return [
                ValueError("refused") if i == self.which else v for i, v in enumerate(prepared)
            ]
        # What one gets depends a little on all, as rounding would have it.
        total = float(np.sum(prepared))
        return [value + 1e-9 * total for value in prepared]


class Together(Estimator):
    """Finds its mean fitted with the block's."""

    devices = ("cpu", "cuda")

    def __init__(self, how: str = "", which: int = -1, note: str = "") -> None:
        self.how = how
        self.which = which
        self.note = note

    @property
    def batched(self) -> tuple[Mean, ...]:
        return (Mean(self.how, self.which, self.note),)

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Together:
        if self.how == "die-alone" and view._seed.replicate == self.which:
            os.kill(os.getpid(), signal.SIGKILL)
        assert device in ("cpu", "cuda")
        self.mean_ = view.fitted(self.batched[0])
        return self

    def estimate(self, view: View) -> Estimate:
        return Estimate(self.mean_)


class Alone(Together):
    """Has nothing to fit together."""

    @property
    def batched(self) -> tuple[()]:
        return ()
