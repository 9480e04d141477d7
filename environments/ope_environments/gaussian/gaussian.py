"""`gaussian`: a continuous action with closed-form ratio and value, heavy tails included."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt

from ope_bench import Environment, FloatArray, Problem, Truth
from ope_environments.gaussian.gaussian_policy import GaussianEmbedding, GaussianPolicy

__all__ = ["Gaussian", "weight_second_moment"]


class Gaussian(Environment):
    """One continuous action, with ratio, value and weights in closed form.

    ``x ~ N(0, I)``; with ``m(x) = context_slope * sum(x) / sqrt(d_context)`` the logging policy is
    ``N(m(x), logging_std**2)``, the target policy ``N(m(x) + shift, target_std**2)``; the
    embedding is ``g = a + embedding_std * noise``, and the reward depends on it alone:

        r = u . x + (1 + v . x) g + curvature * g**2 + reward_std * noise,   u, v ~ U(-1, 1)

    Truth
    -----
    Exact: ``V = shift + context_slope * sum(v) / sqrt(d_context)
    + curvature * (shift**2 + target_std**2 + context_slope**2 + embedding_std**2)``.
    ``empirical`` is the mean reward of the target sample.

    Access: everything. Actions are continuous (``n_actions`` is None), so estimators that count
    or sum over actions are unavailable here.

    How heavy the tail of the weights is (`weight_second_moment`; the population's effective
    sample size is n over it):

    ====================  ===========  ==========  =========
    shift                 logging_std  target_std  E0[w**2]
    ====================  ===========  ==========  =========
    0.5                   1            0.5         1.744
    1                     1            1           2.718
    1                     2            1           1.744
    2                     1            1           54.6
    any                   1            >= 1.414    infinite
    ====================  ===========  ==========  =========

    Traps: from ``target_std**2 >= 2 * logging_std**2`` on, importance weighting has no variance,
    and no interval for its RMSE can be trusted, though V exists and the weights' mean is 1.

    Parameters
    ----------
    n_samples : number of logged rows, and of target rows.
    d_context : length of the context.
    shift : mean of the target action minus that of the logged one.
    logging_std, target_std : standard deviations of the action.
    context_slope : standard deviation of the policies' common mean over contexts.
    curvature : quadratic part of the reward.
    reward_std : standard deviation of the reward's noise.
    embedding_std : noise between action and embedding; with 0 the embedding is the action.
    n_distractors : further embedding columns of pure noise.
    shared_contexts : whether row i of both samples has the same context.

    References
    ----------
    The second moment is the Renyi divergence of order 2 of two normals: "Learning Bounds for
    Importance Weighting" (Cortes, Mansour and Mohri, 2010), section 3.

    >>> problem, truth = Gaussian(shift=1.0).sample(
    ...     world_rng=np.random.default_rng(0), logged_rng=np.random.default_rng(1),
    ...     target_rng=np.random.default_rng(2))
    >>> truth.expected, truth.expected_se
    (1.0, 0.0)
    """

    n_samples: Annotated[int, Ge(1)] = 1000
    d_context: Annotated[int, Ge(1)] = 2
    shift: float = 0.5
    logging_std: Annotated[float, Gt(0)] = 1.0
    target_std: Annotated[float, Gt(0)] = 0.5
    context_slope: float = 0.0
    curvature: float = 0.0
    reward_std: Annotated[float, Ge(0)] = 0.5
    embedding_std: Annotated[float, Ge(0)] = 0.0
    n_distractors: Annotated[int, Ge(0)] = 0
    shared_contexts: bool = False

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """Sample one problem and its true value."""
        main = world_rng.uniform(-1.0, 1.0, self.d_context)
        interaction = world_rng.uniform(-1.0, 1.0, self.d_context)
        slope = np.full(self.d_context, self.context_slope / math.sqrt(self.d_context))
        logging = GaussianPolicy(0.0, slope, self.logging_std)
        target = GaussianPolicy(self.shift, slope, self.target_std)
        embed = GaussianEmbedding(self.embedding_std, self.n_distractors)

        def rewards(x: FloatArray, g: FloatArray, rng: np.random.Generator) -> FloatArray:
            mean = x @ main + (1.0 + x @ interaction) * g[:, 0] + self.curvature * g[:, 0] ** 2
            return mean + self.reward_std * rng.standard_normal(len(x))

        shape = (self.n_samples, self.d_context)
        context = logged_rng.standard_normal(shape)
        action = logging.sample(context, logged_rng)
        embedding = embed.sample(action, logged_rng)
        reward = rewards(context, embedding, logged_rng)

        target_context = context if self.shared_contexts else target_rng.standard_normal(shape)
        target_action = target.sample(target_context, target_rng)
        target_embedding = embed.sample(target_action, target_rng)
        target_reward = rewards(target_context, target_embedding, target_rng)
        problem = Problem(
            context=context,
            action=action,
            embedding=embedding,
            reward=reward,
            target_context=target_context,
            target_action=target_action,
            target_embedding=target_embedding,
            n_actions=None,
            propensity=logging.probability(context, action),
            logging_policy=logging,
            target_policy=target,
            embedding_distribution=embed,
            shared_contexts=self.shared_contexts,
        )
        second_moment = (
            self.shift**2 + self.target_std**2 + self.context_slope**2 + self.embedding_std**2
        )
        expected = self.shift + float(slope @ interaction) + self.curvature * second_moment
        return problem, Truth(expected, 0.0, float(target_reward.mean()))


def weight_second_moment(shift: float, logging_std: float, target_std: float) -> float:
    """Return E0[w**2] of w = N(shift, target_std**2) / N(0, logging_std**2), maybe infinite.

    ``s0**2 / (s1 * sqrt(2 s0**2 - s1**2)) * exp(shift**2 / (2 s0**2 - s1**2))``, finite where
    ``s1**2 < 2 s0**2``.

    >>> round(weight_second_moment(0.5, 1.0, 0.5), 6), weight_second_moment(0.0, 1.0, 1.5)
    (1.744026, inf)
    """
    gap = 2.0 * logging_std**2 - target_std**2
    if gap <= 0:
        return math.inf
    exponent = shift**2 / gap
    # Larger exponents overflow, though the moment is finite.
    if exponent > 700:
        return math.inf
    return logging_std**2 / (target_std * math.sqrt(gap)) * math.exp(exponent)
