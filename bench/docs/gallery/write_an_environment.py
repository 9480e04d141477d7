"""An environment of your own

Coins with different chances of heads: an action picks a coin. The truth is a sum, so it is exact.
"""

from typing import Annotated

import numpy as np
from annotated_types import Ge

from ope_bench import (
    Column,
    DeterministicEmbedding,
    Environment,
    Problem,
    Schema,
    Tabular,
    Truth,
    evaluate,
)


def single_context(context):
    """Return the row of a policy's table for each context: there is one row."""
    return np.zeros(len(context), dtype=np.int64)


class Coins(Environment):
    """Coins with different chances of heads; an action picks a coin, the reward is 1 for heads.

        r ~ Bernoulli(q(a)),   V(pi1) = sum_a pi1(a) q(a)

    The logging policy is uniform; the target policy takes the best coin with probability 0.8.
    The estimand is the expected reward per round.

    Parameters
    ----------
    n_samples : rows of the logs and of the target sample.
    n_actions : number of coins.

    """

    version = 1

    n_samples: Annotated[int, Ge(2)] = 1000
    n_actions: Annotated[int, Ge(2)] = 5

    def sample(self, *, world_rng, logged_rng, target_rng):
        # The world: what all samples of it have in common.
        q = world_rng.uniform(size=self.n_actions)
        action_embedding = world_rng.standard_normal((self.n_actions, 2))
        logging = Tabular(np.full((1, self.n_actions), 1 / self.n_actions), single_context)
        target_row = np.full(self.n_actions, 0.2 / self.n_actions)
        target_row[q.argmax()] += 0.8
        target = Tabular(target_row[None, :], single_context)

        # The logs, then the target sample.
        context = np.zeros((self.n_samples, 1))
        action, propensity = logging.draw(context, logged_rng)
        reward = (logged_rng.uniform(size=self.n_samples) < q[action]).astype(float)
        target_action = target.sample(context, target_rng)
        target_reward = target_rng.uniform(size=self.n_samples) < q[target_action]

        problem = Problem(
            context=context,
            action=action,
            embedding=action_embedding[action],
            reward=reward,
            target_context=context,
            target_action=target_action,
            target_embedding=action_embedding[target_action],
            n_actions=self.n_actions,
            schema=Schema((Column("categorical", (0.0,)),), (Column("atoms"), Column("atoms"))),
            propensity=propensity,
            logging_policy=logging,
            target_policy=target,
            action_embedding=action_embedding,
            embedding_distribution=DeterministicEmbedding(action_embedding),
            shared_contexts=True,
            reward_range=(0.0, 1.0),
        )
        return problem, Truth(float(target_row @ q), 0.0, float(target_reward.mean()))


print(evaluate(["ipw", "ipws", "dm"], [Coins(n_actions=2), Coins(n_actions=50)], replicates=20))
