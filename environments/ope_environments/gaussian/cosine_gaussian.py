"""`cosine-gaussian`: Gaussian policies whose reward is a wave, so that weights alone decide."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt

from ope_bench import Environment, FloatArray, Problem, Truth
from ope_environments.gaussian.gaussian_policy import GaussianEmbedding, GaussianPolicy

__all__ = ["CosineGaussian"]


class CosineGaussian(Environment):
    """One continuous action and no context: errors of importance weights, and of nothing else.

    Logging ``a ~ N(0, 1)``, target ``a ~ N(target_mean, target_std**2)``, reward
    ``r = 100 cos(2 pi a)`` without noise; the embedding is the action, the context a constant.

    Truth
    -----
    Exact: ``V = 100 exp(-2 (pi target_std)**2) cos(2 pi target_mean)``, nearly 0 for targets as
    wide as here. `weight_second_moment` is infinite from a target of ``target_std**2 >= 2`` on.

    Access: everything; ``n_actions`` is None. The environment has no random parameters.

    Traps: errors over the value's size say nothing, since the value is nearly 0. With the
    default target no variance of a weighted mean exists.

    Parameters
    ----------
    n_samples : number of logged rows, and of target rows.
    target_mean, target_std : of the target policy's action.

    References
    ----------
    "Subgaussian and Differentiable Importance Sampling for Off-Policy Evaluation and Learning"
    (Metelli, Russo and Restelli, 2021), section 7.1, whose released script gives the target's
    variances, 1.5 to 1.999, as standard deviations to its weights.

    >>> CosineGaussian(target_std=1.0).weight_second_moment() == math.exp(0.25)
    True
    """

    n_samples: Annotated[int, Ge(1)] = 1000
    target_mean: float = 0.5
    target_std: Annotated[float, Gt(0)] = 1.9

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """Sample one problem and its true value."""
        context, none = np.zeros((self.n_samples, 1)), np.zeros(1)
        logging = GaussianPolicy(0.0, none, 1.0)
        target = GaussianPolicy(self.target_mean, none, self.target_std)
        action = logging.sample(context, logged_rng)
        target_action = target.sample(context, target_rng)
        problem = Problem(
            context=context,
            action=action,
            embedding=action[:, None],
            reward=_wave(action),
            target_context=context,
            target_action=target_action,
            target_embedding=target_action[:, None],
            n_actions=None,
            propensity=logging.probability(context, action),
            logging_policy=logging,
            target_policy=target,
            embedding_distribution=GaussianEmbedding(0.0),
            reward_range=(-100.0, 100.0),
        )
        return problem, Truth(self.value(), 0.0, float(_wave(target_action).mean()))

    def value(self) -> float:
        """Return the target policy's expected reward per round."""
        damped = math.exp(-2.0 * (math.pi * self.target_std) ** 2)
        return 100.0 * damped * math.cos(2.0 * math.pi * self.target_mean)

    def weight_second_moment(self) -> float:
        """Return E0[w**2]; infinite where the target is too wide."""
        gap = 2.0 - self.target_std**2
        if gap <= 0:
            return math.inf
        return math.exp(self.target_mean**2 / gap) / (self.target_std * math.sqrt(gap))


def _wave(action: FloatArray) -> FloatArray:
    return 100.0 * np.cos(2.0 * np.pi * action)
