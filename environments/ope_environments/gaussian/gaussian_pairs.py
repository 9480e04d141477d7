"""`gaussian-pairs`: two Gaussian embeddings of many dimensions with a closed-form ratio."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Lt

from ope_bench import (
    Environment,
    FloatArray,
    IntArray,
    ParameterError,
    Policy,
    Problem,
    Tabular,
    Truth,
)

__all__ = ["GaussianPairs", "PairsEmbedding"]


class GaussianPairs(Environment):
    """Two actions with Gaussian embeddings: the standard test of density ratios.

    Action 0 has ``g ~ N(logging_mean, logging_std**2 I)``. In action 1, dimensions 2k and 2k + 1
    are a pair of correlation ``rho``, with mean ``target_mean`` and deviation ``target_std``. The
    logging policy always takes action 0, the target policy action 1: no action in common, while
    the embeddings overlap. With means 0 and deviations 1 the divergence of the two is the mutual
    information of the pairs' halves. The context is a constant. Reward: the mean over pairs of the
    product of both halves; in one dimension, g itself.

    Truth
    -----
    Exact: ``V = rho * target_std**2 + target_mean**2``; in one dimension, ``target_mean``. The
    embedding distribution has ``divergence``, KL(target || logging):

    =========  ====  ===========================  ===========================  ========
    dimension  rho   target mean, std             logging mean, std            KL
    =========  ====  ===========================  ===========================  ========
    40         0.9   0, 1                         0, 1                         16.60731
    40         0.8   0, 1                         0, 1                         10.21651
    1                -5, 1                        5, 1                         50
    1                -1, 0.08                     2, 0.15                      200.2708
    1                0, 1e-6                      0, 1                         13.3155
    =========  ====  ===========================  ===========================  ========

    Access: everything. Action 1 is never logged: estimators that weight actions have no support,
    those that weight embeddings do.

    Traps: the variance of the log-ratio is about ``dimension * rho**2 / 2``, so that weights are
    useless in many dimensions, and the values of all weighting estimators poor; compare the errors
    of the log-ratio and of the divergence instead.

    Parameters
    ----------
    n_samples : number of logged rows, and of target rows.
    dimension : of the embedding; 1, or even.
    rho : correlation of the pairs.
    target_mean, target_std : of every dimension under the target policy.
    logging_mean, logging_std : of every dimension under the logging policy.

    Raises
    ------
    ParameterError : an odd dimension above 1.

    References
    ----------
    "Telescoping density-ratio estimation" (Rhodes, Xu and Gutmann, 2020), section 4.1 and 4.2;
    "Featurized Density Ratio Estimation" (Choi, Liao and Ermon, 2021), section 5.2.

    >>> problem, truth = GaussianPairs(n_samples=10).sample(
    ...     world_rng=np.random.default_rng(0), logged_rng=np.random.default_rng(1),
    ...     target_rng=np.random.default_rng(2))
    >>> round(problem.embedding_distribution.divergence(), 5)
    16.60731
    """

    n_samples: Annotated[int, Ge(1)] = 2_000
    dimension: Annotated[int, Ge(1)] = 40
    rho: Annotated[float, Gt(-1), Lt(1)] = 0.9
    target_mean: float = 0.0
    target_std: Annotated[float, Gt(0)] = 1.0
    logging_mean: float = 0.0
    logging_std: Annotated[float, Gt(0)] = 1.0

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """Sample one problem and its true value."""
        if self.dimension > 1 and self.dimension % 2:
            msg = f"dimension = {self.dimension}: expected 1 or an even number"
            raise ParameterError(msg)
        embed = PairsEmbedding(
            self.dimension,
            self.rho,
            mean=(self.logging_mean, self.target_mean),
            std=(self.logging_std, self.target_std),
        )
        context = np.ones((self.n_samples, 1))
        logged, target = (np.full(self.n_samples, action, dtype=np.int64) for action in (0, 1))
        embedding = embed.sample(logged, logged_rng)
        target_embedding = embed.sample(target, target_rng)
        target_reward = _reward(target_embedding)
        problem = Problem(
            context=context,
            action=logged,
            embedding=embedding,
            reward=_reward(embedding),
            target_context=context,
            target_action=target,
            target_embedding=target_embedding,
            n_actions=2,
            propensity=np.ones(self.n_samples),
            logging_policy=Tabular(np.array([[1.0, 0.0]]), _only),
            target_policy=Tabular(np.array([[0.0, 1.0]]), _only),
            embedding_distribution=embed,
        )
        value = self.target_mean
        if self.dimension > 1:
            value = self.rho * self.target_std**2 + self.target_mean**2
        return problem, Truth(value, 0.0, float(target_reward.mean()))


class PairsEmbedding:
    """p(g|a): independent dimensions under action 0, correlated pairs under action 1.

    Parameters
    ----------
    dimension : 1, or even.
    rho : correlation of each pair under action 1; ignored in one dimension.
    mean, std : of every dimension, one for each action.
    """

    def __init__(
        self,
        dimension: int,
        rho: float,
        *,
        mean: tuple[float, float],
        std: tuple[float, float],
    ) -> None:
        self.dimension = dimension
        self.rho = rho if dimension > 1 else 0.0
        self.mean = mean
        self.std = std

    def probability(self, embedding: FloatArray, action: IntArray) -> FloatArray:
        """Return p(g|a) of each row's pair: (n,). It may underflow in many dimensions."""
        return np.exp(np.where(action == 1, self._log(embedding, 1), self._log(embedding, 0)))

    def sample(self, action: IntArray, rng: np.random.Generator) -> FloatArray:
        """Draw one embedding per row: (n, dimension)."""
        g = rng.standard_normal((len(action), self.dimension))
        if self.dimension > 1:
            second = self.rho * g[:, ::2] + math.sqrt(1.0 - self.rho**2) * g[:, 1::2]
            g[:, 1::2] = np.where(action[:, None] == 1, second, g[:, 1::2])
        return np.asarray(self.mean)[action][:, None] + np.asarray(self.std)[action][:, None] * g

    def support(self) -> None:
        """Return None: there are infinitely many embeddings."""

    def marginal(self, policy: Policy, context: FloatArray, embedding: FloatArray) -> FloatArray:
        """Return sum_a pi(a|x) p(g|a): (n,)."""
        n = len(embedding)
        total = np.zeros(n)
        for action in (0, 1):
            chosen = np.full(n, action, dtype=np.int64)
            total += policy.probability(context, chosen) * self.probability(embedding, chosen)
        return total

    def divergence(self) -> float:
        """Return KL(action 1 || action 0), in nats."""
        (m0, m1), (s0, s1) = self.mean, self.std
        moment = (s1**2 + (m1 - m0) ** 2) / s0**2
        apart = self.dimension * (math.log(s0 / s1) + 0.5 * (moment - 1.0))
        return apart - self.dimension / 4.0 * math.log1p(-(self.rho**2))

    def _log(self, g: FloatArray, action: int) -> FloatArray:
        z: FloatArray = (g - self.mean[action]) / self.std[action]
        norm = self.dimension * (0.5 * math.log(2.0 * math.pi) + math.log(self.std[action]))
        if action == 0 or self.dimension == 1:
            independent: FloatArray = -0.5 * np.square(z).sum(axis=1) - norm
            return independent
        first, second = z[:, ::2], z[:, 1::2]
        left = 1.0 - self.rho**2
        form = (np.square(first) - 2.0 * self.rho * first * second + np.square(second)) / left
        pairs = self.dimension // 2
        paired: FloatArray = -0.5 * form.sum(axis=1) - norm - 0.5 * pairs * math.log(left)
        return paired


def _reward(g: FloatArray) -> FloatArray:
    """Return the mean product of the pairs' halves; in one dimension g itself: (n,)."""
    return g[:, 0].copy() if g.shape[1] == 1 else (g[:, ::2] * g[:, 1::2]).mean(axis=1)


def _only(context: FloatArray) -> IntArray:
    """Return the code of the only context: (n,) zeros."""
    return np.zeros(len(context), dtype=np.int64)
