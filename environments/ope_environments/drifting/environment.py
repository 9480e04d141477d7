"""`drifting-bandit`: a linear bandit with a trend and a season, valued after the log's end."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt

from ope_bench import Environment, FloatArray, IntArray, Problem, Softmax, Truth
from ope_environments.synthetic.context_integral import normal_expectation
from ope_environments.synthetic.linear_score import ActionScore

__all__ = ["DriftingBandit"]


class DriftingBandit(Environment):
    """Rewards of each action rise or fall with time, and follow a season.

    The logged times t go from 0 to 1 in equal steps and are the first column of the context,
    beside ``x ~ N(0, I)``. The reward of action a is ``N(q, reward_std**2)`` with

        q(x, t, a) = b_a + theta_a . x + trend u_a t + season v_a sin(2 pi (t / period + p_a)),

    ``b_a, u_a, v_a ~ N(0, 1)``, ``theta_a ~ N(0, I / d_context)`` and phases p_a uniform between
    -.1 and .1. With ``common`` all actions have u_a = v_a = 1, so that policies keep their order.
    Both policies are softmax(beta (b_a + theta_a . x)) and know no time.

    Truth
    -----
    The value at the time t' = 1 + ``horizon``: numerical over contexts, unbiased, with its
    standard error; exact over actions and rewards. The target sample is of t'.

    Access: everything. The embedding of an action is one-hot.

    Traps: a reward model is asked for t', where no row was logged. An average over the log is the
    value of a time in its middle.

    Parameters
    ----------
    n_samples : logged rows, and target rows.
    n_actions : number of actions.
    d_context : length of x.
    trend : change of the mean reward over the time of the log.
    season : amplitude of the season.
    period : its length, as a share of the time of the log.
    horizon : how long after the last row the value is wanted, as a share of the time of the log.
    common : whether all actions drift alike.
    reward_std : standard deviation of the noise.
    logging_beta, target_beta : inverse temperatures of the policies.
    truth_contexts : contexts in the integral of the truth.

    References
    ----------
    "Off-policy evaluation and learning for the future under non-stationarity" (Shimizu, Saito,
    Kiyohara and Joachims, 2025), for the question; the reward is another one.

    >>> problem, truth = DriftingBandit(n_samples=50, trend=2.0, season=0.0).sample(
    ...     world_rng=np.random.default_rng(0), logged_rng=np.random.default_rng(1),
    ...     target_rng=np.random.default_rng(2))
    >>> float(problem.context[-1, 0]), float(problem.target_context[0, 0])
    (1.0, 1.0625)
    """

    n_samples: Annotated[int, Ge(1)] = 1000
    n_actions: Annotated[int, Ge(2)] = 5
    d_context: Annotated[int, Ge(1)] = 3
    trend: float = 1.0
    season: float = 1.0
    period: Annotated[float, Gt(0)] = 0.25
    horizon: Annotated[float, Ge(0)] = 0.0625
    common: bool = True
    reward_std: Annotated[float, Ge(0)] = 1.0
    logging_beta: float = 0.0
    target_beta: float = 1.0
    truth_contexts: Annotated[int, Ge(32)] = 16_384

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """Sample one problem and its truth."""
        n, n_actions, width = self.n_samples, self.n_actions, self.d_context
        # Action by action, so that a larger world begins with the smaller one's actions.
        drawn = world_rng.standard_normal((n_actions, width + 4)).T
        drift = np.ones((2, n_actions)) if self.common else drawn[1 + width : 3 + width]
        phase = 0.1 * (2.0 / math.pi) * np.arctan(drawn[-1])
        # No policy looks at the first column, the time.
        weights = np.vstack([drawn[:1], np.zeros(n_actions), drawn[1 : 1 + width] / width**0.5])
        score = ActionScore(weights)
        logging = Softmax(score, n_actions, self.logging_beta)
        target = Softmax(score, n_actions, self.target_beta)

        def moved(time: FloatArray) -> FloatArray:
            """Return what time adds to each action's mean reward: (k, n_actions)."""
            angle = 2.0 * math.pi * (time[:, None] / self.period + phase)
            added: FloatArray = self.season * drift[1] * np.sin(angle)
            added += self.trend * drift[0] * time[:, None]
            return added

        def reward(context: FloatArray, action: IntArray, rng: np.random.Generator) -> FloatArray:
            drawn: FloatArray = self.reward_std * rng.standard_normal(n)
            drawn += score.at(context, action) + moved(context[:, 0])[np.arange(n), action]
            return drawn

        def contexts(time: FloatArray, rng: np.random.Generator) -> FloatArray:
            return np.column_stack([time, rng.standard_normal((n, width))])

        wanted = 1.0 + self.horizon
        context = contexts(np.arange(n) / max(1, n - 1), logged_rng)
        action, propensity = logging.draw(context, logged_rng)
        later = contexts(np.full(n, wanted), target_rng)
        later_action = target.sample(later, target_rng)
        embedding = np.eye(n_actions)
        problem = Problem(
            context=context,
            action=action,
            embedding=embedding[action],
            reward=reward(context, action, logged_rng),
            target_context=later,
            target_action=later_action,
            target_embedding=embedding[later_action],
            n_actions=n_actions,
            propensity=propensity,
            logging_policy=logging,
            target_policy=target,
            action_embedding=embedding,
        )
        then = moved(np.array([wanted]))[0]

        def value(x: FloatArray) -> FloatArray:
            at = np.column_stack([np.full(len(x), wanted), x])
            return target.contract(at, lambda rows: score(at[rows]) + then)

        expected, error = normal_expectation(value, width, self.truth_contexts, target_rng)
        empirical = float(reward(later, later_action, target_rng).mean())
        return problem, Truth(expected, error, empirical)
