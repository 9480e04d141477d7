"""`two-loggers`: two contexts, two actions, two loggers; every variance by enumeration."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Lt

from ope_bench import (
    Column,
    Environment,
    FloatArray,
    IntArray,
    Problem,
    Schema,
    Tabular,
    Truth,
)

__all__ = ["TwoLoggers"]

REWARD = np.array([[10.0, 1.0], [1.0, 10.0]])
"""By context and action."""


def _mirrored(share: float) -> FloatArray:
    """Return a policy's table that plays the better action of each context with a probability."""
    return np.array([[share, 1.0 - share], [1.0 - share, share]])


def _code(context: FloatArray) -> IntArray:
    return context[:, 0].astype(np.int64)


class TwoLoggers(Environment):
    """Half of the rows come from a logger that avoids what the target policy plays.

    Two contexts, equally likely; of two actions one is better in each: its reward is 10, the
    other's 1, without noise. The target policy and two loggers play the better one with a
    probability of their own; the loggers take turns, row by row.

    Truth
    -----
    Exact: ``V = 10 target + (1 - target)``. Errors of `ipw`, whose weights know one logger
    each, and of `balanced-ipw`, whose weights know their mixture, are sums over eight cells,
    see `variance`.

    Access: propensities, the target policy, strata and the loggers; no single logging policy,
    for there are two.

    Traps: rows of the first logger have weights of 4 on the better action, where nearly all of
    the value is. To weigh each row by its own logger is unbiased and wastes the second.

    Parameters
    ----------
    n_samples : number of logged rows, and of target rows; even, so that loggers have as many.
    target, first, second : probability of the better action under the target policy and the
        loggers.

    References
    ----------
    "Effective Evaluation Using Logged Bandit Feedback from Multiple Loggers" (Agarwal, Basu,
    Schnabel and Joachims, 2017), table 1: n/2 times the variance is 64.27 for weights by the own
    logger, 12.43 for balanced ones.

    >>> world = TwoLoggers(n_samples=100)
    >>> round(50 * world.variance(), 2), round(50 * world.variance(balanced=True), 2)
    (64.27, 12.43)
    """

    n_samples: Annotated[int, Ge(2)] = 100
    target: Annotated[float, Gt(0), Lt(1)] = 0.8
    first: Annotated[float, Gt(0), Lt(1)] = 0.2
    second: Annotated[float, Gt(0), Lt(1)] = 0.9

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """Sample one problem and its true value."""
        n = self.n_samples
        stratum = np.arange(n) % 2
        loggers = Tabular(_mirrored(self.first), _code), Tabular(_mirrored(self.second), _code)
        target = Tabular(_mirrored(self.target), _code)
        code = logged_rng.integers(2, size=n)
        context = code[:, None].astype(np.float64)
        action, propensity = np.empty(n, np.int64), np.empty(n)
        for k, policy in enumerate(loggers):
            rows = np.flatnonzero(stratum == k)
            action[rows], propensity[rows] = policy.draw(context[rows], logged_rng)
        target_code = target_rng.integers(2, size=n)
        target_context = target_code[:, None].astype(np.float64)
        target_action, _ = target.draw(target_context, target_rng)
        shown, either = np.eye(2), Column("categorical", (0.0, 1.0))
        problem = Problem(
            context=context,
            action=action,
            embedding=shown[action],
            reward=REWARD[code, action],
            target_context=target_context,
            target_action=target_action,
            target_embedding=shown[target_action],
            schema=Schema((either,), (either,) * 2),
            n_actions=2,
            propensity=propensity,
            target_policy=target,
            action_embedding=shown,
            reward_range=(1.0, 10.0),
            stratum=stratum,
            stratum_policies=loggers,
            unavailable={
                "logging_policy": "two loggers: no single logging policy; see stratum_policies"
            },
        )
        value = 10.0 * self.target + (1.0 - self.target)
        return problem, Truth(value, 0.0, float(REWARD[target_code, target_action].mean()))

    def variance(self, *, balanced: bool = False) -> float:
        """Return the variance of importance weighting by the own logger, or by their mixture."""
        wanted = _mirrored(self.target)
        loggers = _mirrored(self.first), _mirrored(self.second)
        total = 0.0
        for one in loggers:
            term = REWARD * wanted / (sum(loggers) / 2 if balanced else one)
            mean = float((one * term).sum() / 2)
            total += float((one * term**2).sum() / 2) - mean**2
        return total / (2 * self.n_samples)
