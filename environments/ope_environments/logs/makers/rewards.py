"""Rewards of made worlds: a model of the mean, and what scatters around it."""

from __future__ import annotations

import numpy as np

from ope_bench import FloatArray, IntArray, Problem, Truth
from ope_environments.logs.makers.source import Source
from ope_environments.logs.reward_model import MeanRewardModel
from ope_environments.logs.reward_names import RewardName, reward_of

__all__ = ["Rewards"]


class Rewards:
    """Rewards with mean q(x, a): coin flips where the logged ones are 0 or 1, else residuals too.

    Residuals of the logged rows are drawn with replacement, and average zero.

    Parameters
    ----------
    source : the log.
    name : the model of q; ``random`` is drawn for each world, others are fitted once.
    ridge : penalty of the models.
    """

    def __init__(self, source: Source, name: RewardName, ridge: float) -> None:
        self.source, self.name, self.ridge = source, name, ridge
        self.data = source.decisions
        self.binary = bool(np.isin(self.data.reward, (0.0, 1.0)).all())
        self._fitted: tuple[MeanRewardModel, float] | None = None

    @property
    def range(self) -> tuple[float, float] | None:
        """Smallest and largest possible reward, where there are such."""
        return (0.0, 1.0) if self.binary else None

    def model(self, rng: np.random.Generator) -> tuple[MeanRewardModel, float]:
        """Return q, and the value of the policy to evaluate under it."""
        if self._fitted is None or self.name == "random":
            model = reward_of(self.name, self.data, self.source.design, self.ridge, rng)
            self._fitted = model, self.source.value(model.at)
        return self._fitted

    def draw(
        self,
        model: MeanRewardModel,
        context: FloatArray,
        action: IntArray,
        rng: np.random.Generator,
    ) -> FloatArray:
        """Draw one reward a row: (k,)."""
        mean = model.at(context, action)
        if self.binary:
            return (rng.random(len(mean)) < mean).astype(np.float64)
        residual = self.data.reward - model.at(self.data.context, self.data.action)
        drawn = rng.integers(len(residual), size=len(mean))
        noise: FloatArray = (residual - residual.mean())[drawn]
        return mean + noise

    def truth(
        self, model: MeanRewardModel, made: Problem, value: float, rng: np.random.Generator
    ) -> Truth:
        """Return the value, and the mean of rewards drawn for the made target sample, if any."""
        if not made.has_target_sample:
            return Truth(value, 0.0, value)
        context, action, _ = made.target_sample
        action = np.asarray(action, dtype=np.int64)
        reward = self.draw(model, np.asarray(context), action, rng)
        return Truth(value, 0.0, float(reward.mean()))
