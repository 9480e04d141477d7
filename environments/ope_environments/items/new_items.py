"""`new-items`: a target policy that plays items which the logs never show."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Le

from ope_bench import (
    DeterministicEmbedding,
    Environment,
    FloatArray,
    IntArray,
    Problem,
    Truth,
)
from ope_environments.items.own_items import OwnItems
from ope_environments.synthetic.context_integral import normal_expectation
from ope_environments.synthetic.linear_score import ActionScore

__all__ = ["NewItems"]


class NewItems(Environment):
    """Both policies play items of their own; rewards are a smooth function of one embedding each.

    ``x ~ N(0, I)``. Every item has one embedding, ``g ~ N(0, I)``, and

        q(x, g) = f_0(g) + x . f(g),   f_k(g) = c_k sin(u_k . g + p_k),   c_0 = 1, c_k = 1/2

    with ``u_k ~ N(0, roughness**2 I)`` and phases ``p_k`` uniform; the reward is
    ``N(q, reward_std**2)``. The logging policy is softmax(logging_beta q) over ``n_items`` items,
    the target policy softmax(target_beta q) over as many, ``shared_share`` of which are the same.

    Truth
    -----
    ``expected`` is exact over items and rewards; the integral over contexts is numerical:
    unbiased, with its standard error. ``empirical`` is the mean reward of the target sample.

    Access: everything. Without shared items the logging policy gives every action of the target
    sample probability zero, and the marginal over embeddings likewise, since an embedding belongs
    to one item: all known weights on logged rows are 0. Only what generalizes over embeddings
    can answer.

    What it is for: "Analysis without assuming positivity of embedding". With few items the
    embeddings of the two samples are two sets of points, and no number of rows says what lies
    between them; a bias stays. As items become many, both sets fill the same space, the policies'
    distributions over it tend to densities with the bounded ratio
    exp((target_beta - logging_beta) q) up to a factor in x, and the bias goes.

    Traps: with few items the value itself differs much from world to world.

    Parameters
    ----------
    n_items : items of each policy.
    n_samples : logged rows, and target rows.
    d_context, d_embedding : lengths of context and embedding.
    shared_share : share of the target policy's items that the logging policy plays too.
    roughness : standard deviation of the frequencies; larger is less smooth.
    logging_beta, target_beta : inverse temperatures of the policies.
    reward_std : standard deviation of the reward's noise.
    shared_contexts : whether row i of both samples has the same context.
    truth_contexts : contexts in the integral of the truth.

    References
    ----------
    "Off-Policy Evaluation for Embedded Spaces" (Lee, Arbour and Theocharous, 2022), section 4.2,
    which has no experiment of it.

    >>> problem, truth = NewItems(n_items=20, n_samples=50).sample(
    ...     world_rng=np.random.default_rng(0), logged_rng=np.random.default_rng(1),
    ...     target_rng=np.random.default_rng(2))
    >>> problem.n_actions, bool(problem.action.max() < 20 <= problem.target_action.min())
    (40, True)
    """

    n_items: Annotated[int, Ge(1)] = 100
    n_samples: Annotated[int, Ge(1)] = 1000
    d_context: Annotated[int, Ge(1)] = 2
    d_embedding: Annotated[int, Ge(1)] = 2
    shared_share: Annotated[float, Ge(0), Le(1)] = 0.0
    roughness: Annotated[float, Gt(0)] = 1.0
    logging_beta: float = 0.0
    target_beta: float = 1.0
    reward_std: Annotated[float, Ge(0)] = 0.1
    shared_contexts: bool = False
    truth_contexts: Annotated[int, Ge(32)] = 4096

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """Sample one problem and its truth."""
        score, embedding = self._world(world_rng)
        new = score.n_actions - self.n_items
        logging = OwnItems(score, first=0, own=self.n_items, beta=self.logging_beta)
        target = OwnItems(score, first=new, own=self.n_items, beta=self.target_beta)

        shape = (self.n_samples, self.d_context)
        context = logged_rng.standard_normal(shape)
        action, propensity = logging.draw(context, logged_rng)
        reward = self._rewards(score, context, action, logged_rng)
        target_context = context if self.shared_contexts else target_rng.standard_normal(shape)
        target_action = target.sample(target_context, target_rng)
        target_reward = self._rewards(score, target_context, target_action, target_rng)
        expected, error = normal_expectation(
            partial(_values, score, target), self.d_context, self.truth_contexts, target_rng
        )
        problem = Problem(
            context=context,
            action=action,
            embedding=embedding[action],
            reward=reward,
            target_context=target_context,
            target_action=target_action,
            target_embedding=embedding[target_action],
            n_actions=score.n_actions,
            propensity=propensity,
            logging_policy=logging,
            target_policy=target,
            embedding_distribution=DeterministicEmbedding(embedding),
            shared_contexts=self.shared_contexts,
        )
        return problem, Truth(expected, error, float(target_reward.mean()))

    def _world(self, rng: np.random.Generator) -> tuple[ActionScore, FloatArray]:
        """Return q(x, a), which is affine in the context, and every item's embedding."""
        frequency = self.roughness * rng.standard_normal((1 + self.d_context, self.d_embedding))
        phase = rng.uniform(0.0, 2.0 * np.pi, (1 + self.d_context, 1))
        scale = np.where(np.arange(1 + self.d_context) == 0, 1.0, 0.5)[:, None]
        n = 2 * self.n_items - round(self.shared_share * self.n_items)
        # Last, so that the number of items does not change the reward function.
        embedding = rng.standard_normal((n, self.d_embedding))
        return ActionScore(scale * np.sin(frequency @ embedding.T + phase)), embedding

    def _rewards(
        self, score: ActionScore, context: FloatArray, item: IntArray, rng: np.random.Generator
    ) -> FloatArray:
        return score.at(context, item) + self.reward_std * rng.standard_normal(len(context))


def _values(score: ActionScore, policy: OwnItems, context: FloatArray) -> FloatArray:
    """Sum over items of pi(a|x) q(x, a): (n,).

    No method of the policy: an estimator that is granted the policy must not be told its value.
    """
    out = np.empty(len(context))
    for rows, block in policy.blocks(context):
        out[rows] = np.einsum("ka,ka->k", block, score(context[rows]))
    return out
