"""`saito-offcem`: the synthetic data of the paper on conjunct effects of clusters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Gt, Le

from ope_bench import (
    Column,
    DeterministicEmbedding,
    Environment,
    FloatArray,
    IntArray,
    RowIndex,
    Schema,
    Tabular,
)
from ope_environments.populations.population import FromPopulation, Population, gaussian

__all__ = ["OffCEMWorld", "SaitoOffCEM"]


class SaitoOffCEM(FromPopulation, Environment):
    """Users who come again, and actions in given clusters, whose effect dominates the reward.

    A world has ``n_users`` users with contexts ``x ~ N(0, I)``; every row is one of them, drawn
    uniformly, and rows of one user are one unit. The reward of user u and action a is

        N(q(u, a), reward_std**2),   q(u, a) = g(x_u, phi(a)) + h(x_u, a),

    with phi(a) the cluster of a. The effect g of clusters is a cubic polynomial of the context
    with coefficients of its own in each cluster, standardized over users and clusters, times 3,
    plus four steps that all clusters share. The residual effect h is, within each cluster, a
    bilinear function of context and categories of the action, standardized over users and the
    cluster's actions. All coefficients are U(-1, 1), those of the steps U(-3, 3). Action a has
    ``n_cat_dim`` categories, each drawn from softmax(N(0, logit_std**2)); its cluster is drawn
    from a softmax of a bilinear score, a tenth of its standard deviations, so that clusters
    depend little on categories. Logging is softmax(beta q), the target epsilon-greedy on q.

    Truth
    -----
    Exact: the mean over users of sum_a pi1(a|u) q(u, a).

    Access: everything. With ``embedding="cluster"`` the embedding of an action is its cluster, so
    that ``offcem[clusters=K]`` with K = ``n_clusters`` uses the given clusters; with
    ``categories`` it is the categories, and clusters are hidden.

    Differences from the published generator
    ----------------------------------------
    - The true value there is that of 1,000 other users, with other categories and clusters of the
      actions. Here it is that of the world whose logs are evaluated.
    - Categories and clusters there are drawn anew for every log; here they are the world's.
    - A cluster without actions is left out of both; the standardization of g includes it here.

    Traps: a log has ``n_samples / n_users`` rows of each user; standard errors are by user, of
    which there are 200. The weights of clusters are right on average over a cluster only: what
    separates its actions is the reward model's.

    Parameters
    ----------
    n_samples : number of logged rows, and of target rows; None for the number of users.
    n_actions : number of actions.
    n_users : number of users.
    n_clusters : number of clusters that actions are drawn into.
    d_context : length of the context, at least 8: the steps use its columns.
    n_cat_dim, n_cat_per_dim : categorical features of an action, and categories of each.
    logit_std : standard deviation of the logits of an action's categories.
    beta : inverse temperature of the logging policy.
    epsilon : exploration share of the target policy.
    reward_std : standard deviation of the reward's noise.
    embedding : of the actions.
    shared_contexts : whether row i of both samples has the same user.

    References
    ----------
    "Off-Policy Evaluation for Large Action Spaces via Conjunct Effect Modeling" (Saito, Ren and
    Joachims, 2023), section 4.1, and its released generator.

    >>> problem, truth = SaitoOffCEM(n_samples=50, n_actions=20, n_clusters=4).sample(
    ...     world_rng=np.random.default_rng(0), logged_rng=np.random.default_rng(1),
    ...     target_rng=np.random.default_rng(2))
    >>> problem.embedding.shape, truth.expected_se
    ((50, 1), 0.0)
    """

    check_params = {"n_actions": 20, "n_clusters": 4}  # noqa: RUF012

    n_samples: Annotated[int, Ge(1)] | None = 3000
    n_actions: Annotated[int, Ge(2)] = 1000
    n_users: Annotated[int, Ge(2)] = 200
    n_clusters: Annotated[int, Ge(1)] = 50
    d_context: Annotated[int, Ge(8)] = 10
    n_cat_dim: Annotated[int, Ge(1)] = 10
    n_cat_per_dim: Annotated[int, Ge(2)] = 5
    logit_std: Annotated[float, Gt(0)] = 4.0
    beta: float = -0.1
    epsilon: Annotated[float, Ge(0), Le(1)] = 0.2
    reward_std: Annotated[float, Ge(0)] = 3.0
    embedding: Literal["cluster", "categories"] = "cluster"
    shared_contexts: bool = False

    def population(self, world_rng: np.random.Generator) -> Population:
        """Build the users, the rewards of all their actions, and the two policies."""
        seed = int(world_rng.integers(2**63))
        world = _world(
            seed,
            (self.n_users, self.d_context, self.n_actions, self.n_clusters),
            (self.n_cat_dim, self.n_cat_per_dim, self.logit_std),
        )
        mean = world.cluster_effect[:, world.cluster] + world.residual
        logits = self.beta * mean
        logging = np.exp(logits - logits.max(axis=1, keepdims=True))
        logging /= logging.sum(axis=1, keepdims=True)
        target = np.full_like(mean, self.epsilon / self.n_actions)
        target[np.arange(self.n_users), mean.argmax(axis=1)] += 1.0 - self.epsilon
        index = RowIndex(world.user)

        def reward_at(row: IntArray, action: IntArray) -> FloatArray:
            rewards: FloatArray = mean[row, action]
            return rewards

        clusters = self.embedding == "cluster"
        shown = world.cluster[:, None] if clusters else world.category
        number = self.n_clusters if clusters else self.n_cat_per_dim
        column = Column("categorical", tuple(map(float, range(number))))
        return Population(
            context=world.user,
            schema=Schema((Column("atoms"),) * self.d_context, (column,) * shown.shape[1]),
            logging=Tabular(logging, index),
            target=Tabular(target, index),
            embedding=DeterministicEmbedding(shown.astype(np.float64)),
            reward_at=reward_at,
            noise=gaussian(self.reward_std),
            expected=float((target * mean).sum(axis=1).mean()),
        )


@dataclass(frozen=True, eq=False)
class OffCEMWorld:
    """A world of `SaitoOffCEM`, without its policies.

    Parameters
    ----------
    user : (n_users, d_context)
    category : (n_actions, n_cat_dim), codes.
    cluster : (n_actions,), codes below ``n_clusters``.
    cluster_effect : g, (n_users, n_clusters)
    residual : h, (n_users, n_actions)
    """

    user: FloatArray
    category: IntArray
    cluster: IntArray
    cluster_effect: FloatArray
    residual: FloatArray


@lru_cache(maxsize=4)
def _world(
    seed: int, sizes: tuple[int, int, int, int], features: tuple[int, int, float]
) -> OffCEMWorld:
    n_users, d_context, n_actions, n_clusters = sizes
    n_cat_dim, n_cat_per_dim, logit_std = features
    rng = np.random.default_rng(seed)
    user = rng.standard_normal((n_users, d_context))
    logits = logit_std * rng.standard_normal((n_actions, n_cat_dim, n_cat_per_dim))
    # The largest of logits with Gumbel noise is a draw from their softmax.
    category = (logits + rng.gumbel(size=logits.shape)).argmax(axis=2)
    coded = np.eye(n_cat_per_dim)[category][:, :, 1:].reshape(n_actions, -1)

    score = _with_one(coded) @ rng.random((1 + coded.shape[1], n_clusters))
    score = _standardized(score + rng.random(n_clusters)) / 10.0
    cluster = (score + rng.gumbel(size=score.shape)).argmax(axis=1)

    residual = np.empty((n_users, n_actions))
    for one in range(n_clusters):
        # Each cluster has coefficients of its own, drawn even where no action is in it.
        own = rng.uniform(-1.0, 1.0, (1 + d_context, 1 + coded.shape[1]))
        by_context = rng.uniform(-1.0, 1.0, 1 + d_context)
        by_action = rng.uniform(-1.0, 1.0, 1 + coded.shape[1])
        among = cluster == one
        if among.any():
            design, actions = _with_one(user), _with_one(coded[among])
            effect = (
                design @ own @ actions.T + (design @ by_context)[:, None] + actions @ by_action
            )
            residual[:, among] = _standardized(effect)
    return OffCEMWorld(user, category, cluster, _cluster_effect(user, n_clusters, rng), residual)


def _cluster_effect(user: FloatArray, n_clusters: int, rng: np.random.Generator) -> FloatArray:
    """Return g: (n_users, n_clusters).

    The released generator takes cubic features of one-hot clusters too. Of these, a cluster has
    the constant, which all clusters share, and its indicator three times: as its own, its square
    and its cube.
    """
    cubic = _cubic(user)
    shared = rng.uniform(-1.0, 1.0, (2, cubic.shape[1])).sum(axis=0)
    own = rng.uniform(-1.0, 1.0, (3, cubic.shape[1], n_clusters)).sum(axis=0)
    constant = rng.uniform(-1.0, 1.0, (3, n_clusters)).sum(axis=0)
    effect = 3.0 * _standardized((cubic @ shared)[:, None] + cubic @ own + constant)
    first, second, third, fourth = rng.uniform(-3.0, 3.0, 4)
    steps = first * (1.0 / user[:, :3].mean(axis=1) < 1.5)
    steps += second * (1.0 / user[:, 2:8].mean(axis=1) < -0.5)
    steps += third * (user[:, 1:3].mean(axis=1) > 3.0)
    steps += fourth * (user[:, 5:].mean(axis=1) < 1.0)
    total: FloatArray = effect + steps[:, None]
    return total


def _cubic(user: FloatArray) -> FloatArray:
    """Return all products of at most three columns, the empty one first: (n, k)."""
    n, d = user.shape
    padded = _with_one(user)
    triples = list(combinations_with_replacement(range(1 + d), 3))
    out = np.empty((n, len(triples)))
    for at, (i, j, k) in enumerate(triples):
        out[:, at] = padded[:, i] * padded[:, j] * padded[:, k]
    return out


def _standardized(values: FloatArray) -> FloatArray:
    std = values.std()
    centered: FloatArray = (values - values.mean()) / (std if std > 0 else 1.0)
    return centered


def _with_one(features: FloatArray) -> FloatArray:
    return np.column_stack([np.ones(len(features)), features])
