"""`linear-gaussian`: linear policies and a quadratic reward, with known biases."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt

from ope_bench import Environment, FloatArray, Problem, Truth
from ope_environments.gaussian.gaussian_policy import GaussianEmbedding, GaussianPolicy
from ope_environments.gaussian.truncated_policy import PointPolicy, TruncatedPolicy

__all__ = ["LinearGaussian"]


class LinearGaussian(Environment):
    """One continuous action, linear policies, quadratic loss: bias and variance by formula.

    ``x ~ N(0, context_std**2)``, logging ``a|x ~ N(logging_slope x, logging_std**2)``, target
    ``a|x ~ N(target_slope x, target_std**2)``, reward
    ``r = -(a - optimal_slope x)**2 + reward_std * noise``; the embedding is the action.

    Truth
    -----
    Exact: ``V = -((target_slope - optimal_slope)**2 context_std**2 + target_std**2)``.
    ``empirical`` is the mean reward of the target sample. Also in closed form:

    - `weight_second_moment`, E0[w**2], infinite for targets that are too wide or too far;
    - `unsupported_mass` and `ipw_bias` where ``cut`` ends the logging policy's support;
    - with ``target_std=0`` and a Gaussian kernel of bandwidth h over actions, the kernel
      estimator's expectation is ``V - h**2``.

    Access: everything; ``n_actions`` is None. The environment has no random parameters.

    Traps: with ``target_std=0`` the target policy's ``probability`` is a mass, 1 or 0, so that
    importance weights are all zero, a positivity failure, and only kernels or learned ratios give
    estimates.

    Parameters
    ----------
    n_samples : number of logged rows, and of target rows.
    logging_slope, target_slope, optimal_slope : of mean actions and of the best one.
    logging_std, target_std : standard deviations of the action; the target may be deterministic.
    context_std : standard deviation of the context.
    reward_std : standard deviation of the reward's noise.
    cut : the logging policy never acts above ``logging_slope x + cut * logging_std``; None for
        full support.
    shared_contexts : whether row i of both samples has the same context.

    References
    ----------
    "Policy Evaluation and Optimization with Continuous Treatments" (Kallus and Zhou, 2018) for
    kernels; "Off-policy Bandits with Deficient Support" (Sachdeva, Su and Joachims, 2020) for
    the bias without support.

    >>> LinearGaussian(cut=0.0).unsupported_mass()
    0.5
    """

    n_samples: Annotated[int, Ge(1)] = 1000
    logging_slope: float = 0.5
    target_slope: float = 1.0
    optimal_slope: float = 1.5
    logging_std: Annotated[float, Gt(0)] = 1.0
    target_std: Annotated[float, Ge(0)] = 0.5
    context_std: Annotated[float, Gt(0)] = 1.0
    reward_std: Annotated[float, Ge(0)] = 0.5
    cut: float | None = None
    shared_contexts: bool = False

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """Sample one problem and its true value."""
        slope = np.array([self.logging_slope])
        logging = (
            GaussianPolicy(0.0, slope, self.logging_std)
            if self.cut is None
            else TruncatedPolicy(0.0, slope, self.logging_std, cut=self.cut)
        )
        slope = np.array([self.target_slope])
        target = (
            GaussianPolicy(0.0, slope, self.target_std)
            if self.target_std > 0
            else PointPolicy(0.0, slope)
        )

        context = self._contexts(logged_rng)
        action = logging.sample(context, logged_rng)
        reward = self._rewards(context, action, logged_rng)
        target_context = context if self.shared_contexts else self._contexts(target_rng)
        target_action = target.sample(target_context, target_rng)
        target_reward = self._rewards(target_context, target_action, target_rng)
        problem = Problem(
            context=context,
            action=action,
            embedding=action[:, None],
            reward=reward,
            target_context=target_context,
            target_action=target_action,
            target_embedding=target_action[:, None],
            n_actions=None,
            propensity=logging.probability(context, action),
            logging_policy=logging,
            target_policy=target,
            embedding_distribution=GaussianEmbedding(0.0),
            shared_contexts=self.shared_contexts,
        )
        return problem, Truth(self.value(), 0.0, float(target_reward.mean()))

    def value(self) -> float:
        """Return the target policy's expected reward per round."""
        gap = self.target_slope - self.optimal_slope
        return -((gap * self.context_std) ** 2 + self.target_std**2)

    def weight_second_moment(self) -> float:
        """Return E0[w**2] with full support; infinite where the target is too wide or too far."""
        gap = 2.0 * self.logging_std**2 - self.target_std**2
        far = 2.0 * ((self.target_slope - self.logging_slope) * self.context_std) ** 2
        if self.target_std == 0 or gap <= far:
            return math.inf
        # E exp(t x**2) over a standard normal x is (1 - 2 t)**-0.5.
        return self.logging_std**2 / (self.target_std * math.sqrt(gap - far))

    def unsupported_mass(self) -> float:
        """Return the share of the target policy's mass where the logging policy has no density."""
        if self.target_std == 0:
            # A single action is a point of the line, which has mass 0 under any density.
            return 1.0
        return 0.0 if self.cut is None else self._beyond(self.cut)[0]

    def ipw_bias(self) -> float:
        """Return the bias of importance weighting: -E[q(x, a); a unsupported]."""
        if self.target_std == 0:
            return -self.value()
        if self.cut is None:
            return 0.0
        mass, second_moment, spread = self._beyond(self.cut)
        variance = (self.context_std * (self.target_slope - self.optimal_slope)) ** 2
        variance += self.target_std**2
        # The residual a - optimal_slope x is joint normal with u = a - logging_slope x: the part
        # explained by u, and the rest that is independent of it.
        shared = self.context_std**2 * (self.target_slope - self.optimal_slope)
        shared *= self.target_slope - self.logging_slope
        slope = (shared + self.target_std**2) / spread**2
        return slope**2 * second_moment + (variance - (slope * spread) ** 2) * mass

    def _beyond(self, cut: float) -> tuple[float, float, float]:
        """Return P(u > c), E[u**2; u > c] and sd of u = a - logging_slope x under the target."""
        spread = math.hypot(
            self.context_std * (self.target_slope - self.logging_slope), self.target_std
        )
        z = cut * self.logging_std / spread
        mass = 0.5 * math.erfc(z / math.sqrt(2.0))
        density = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        return mass, spread**2 * (z * density + mass), spread

    def _contexts(self, rng: np.random.Generator) -> FloatArray:
        return self.context_std * rng.standard_normal((self.n_samples, 1))

    def _rewards(
        self, context: FloatArray, action: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        loss = np.square(action - self.optimal_slope * context[:, 0])
        return self.reward_std * rng.standard_normal(len(context)) - loss
