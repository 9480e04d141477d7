"""`saito-mips`: the synthetic data of the paper on marginalized inverse propensity scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt, Le, Lt

from ope_bench import (
    Column,
    Environment,
    FactoredEmbedding,
    FloatArray,
    IntArray,
    ParameterError,
    Problem,
    Schema,
    Truth,
)
from ope_environments.saito.deficient_softmax import DeficientSoftmax
from ope_environments.synthetic.context_integral import normal_expectation
from ope_environments.synthetic.linear_score import ActionScore, LinearGreedy, greedy_value

__all__ = ["MIPSRows", "MIPSWorld", "SaitoMIPS"]


class SaitoMIPS(Environment):
    """Thousands of actions with categorical embeddings, some of them unobserved.

    ``x ~ N(0, I)``; dimension d of the embedding has ``p(e_d|a) = softmax(N(0, logit_std**2))``;
    every (dimension, category) has a latent vector ``z ~ N(0, I)``. With ones put before x and z,
    ``q_d(x, e_d) = x' M_d z + t_d . x + s_d . z``, coefficients U(-1, 1), standardized over
    contexts and categories; ``q(x, e) = sum_d eta_d q_d(x, e_d)``, the reward is
    ``N(q(x, e), reward_std**2)``. With ``q(x, a) = E[q(x, e) | a]`` the logging policy is
    softmax(beta q), the target policy epsilon-greedy on q.

    Two parameters, absent from the publication, say how far the structure of actions holds.
    ``own_std`` adds to q(x, e) and q(x, a) what no embedding tells, ``u_a . (1, x)`` with
    independent normal u_a. With ``n_groups`` actions have the logits of their group, and their own
    times ``within_std``: groups are clusters of actions that earn nearly alike, up to ``own_std``.

    Truth
    -----
    ``expected`` is exact over embeddings, rewards and actions; the integral over contexts is
    numerical: unbiased, with its standard error. ``empirical`` is the mean reward of the target
    sample.

    Access: everything. Where dimensions are unobserved, view and embedding distribution have the
    others only, and exact marginal weights are biased, as they are with ``own_std``. Marginals are
    joint over dimensions.

    Differences from the published generator
    ----------------------------------------
    - eta and all other parameters are drawn once, by ``world_rng``, not for each batch; actions,
    embeddings and noise are independent from sample to sample. - Rewards are standardized by the
    exact moments over ``N(0, I)`` contexts, not by those of the
      batch, so that q is a function.
    - Weights of embeddings are ratios of joint marginals; the product of the dimensions' ratios,
      which the published "true" weights take, has not even mean one.
    - The actions that the logging policy cannot choose are a function of the context
      (`DeficientSoftmax`), so that deficient support is a property of the policy, not of the row.
    - The dimension that the published scripts add and always hide has no reward; it is omitted.

    Traps: ``reward_std=2.5`` is large compared with the standardized q. The true value is that of
    the drawn parameters, so set ``worlds: fixed`` to separate bias from variance.

    Parameters
    ----------
    n_actions : number of actions; the published sweep ends at 5,000.
    n_samples : number of logged rows, and of target rows.
    d_context : length of the context.
    n_cat_dim : dimensions of an embedding.
    n_cat_per_dim : categories of each.
    n_unobserved : number of leading dimensions that are hidden from estimators.
    latent_param_mat_dim : length of the latent vectors.
    logit_std : standard deviation of the logits of p(e_d|a); small values make actions similar.
    eta : importance of the dimensions: Dirichlet with parameters U(0, 1), as published, or one,
        or all equal.
    beta : inverse temperature of the logging policy.
    epsilon : exploration share of the target policy.
    optimal : whether the target prefers the best action or the worst.
    deficient_share : share of actions without support in each context.
    reward_std : standard deviation of the reward's noise.
    shared_contexts : whether row i of both samples has the same context.
    truth_contexts : contexts in the integral of the truth.
    own_std : standard deviation, over actions and contexts, of the part of the expected reward
        that embeddings do not tell.
    n_groups : groups of actions with like embeddings; None for none. Action a is in group
        ``a % n_groups``.
    within_std : with groups, standard deviation of an action's own logits, in ``logit_std``.

    References
    ----------
    "Off-Policy Evaluation for Large Action Spaces via Embeddings" (Saito and Joachims, 2022),
    section 4.1, and its published generator in Open Bandit Pipeline.

    >>> problem, truth = SaitoMIPS(n_actions=20, n_samples=50).sample(
    ...     world_rng=np.random.default_rng(0), logged_rng=np.random.default_rng(1),
    ...     target_rng=np.random.default_rng(2))
    >>> problem.embedding.shape, truth.expected_se < 0.02
    ((50, 3), True)
    """

    added_parameters: ClassVar[Mapping[str, Any]] = {
        "own_std": 0.0,
        "n_groups": None,
        "within_std": 0.25,
    }

    n_actions: Annotated[int, Ge(2)] = 1000
    n_samples: Annotated[int, Ge(1)] = 10_000
    d_context: Annotated[int, Ge(2)] = 10
    n_cat_dim: Annotated[int, Ge(1)] = 3
    n_cat_per_dim: Annotated[int, Ge(2)] = 10
    n_unobserved: Annotated[int, Ge(0)] = 0
    latent_param_mat_dim: Annotated[int, Ge(1)] = 5
    logit_std: Annotated[float, Gt(0)] = 1.0
    eta: Literal["dirichlet-uniform", "dirichlet", "equal"] = "dirichlet-uniform"
    beta: float = -1.0
    epsilon: Annotated[float, Ge(0), Le(1)] = 0.05
    optimal: bool = True
    deficient_share: Annotated[float, Ge(0), Lt(1)] = 0.0
    reward_std: Annotated[float, Ge(0)] = 2.5
    shared_contexts: bool = False
    truth_contexts: Annotated[int, Ge(32)] = 16_384
    own_std: Annotated[float, Ge(0)] = 0.0
    n_groups: Annotated[int, Ge(1)] | None = None
    within_std: Annotated[float, Ge(0)] = 0.25

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """Sample one problem and its true value."""
        if self.n_unobserved >= self.n_cat_dim:
            msg = (
                f"saito-mips: n_unobserved = {self.n_unobserved} hides all n_cat_dim ="
                f" {self.n_cat_dim} dimensions; leave at least one"
            )
            raise ParameterError(msg)
        world = self.world(world_rng)
        logs = self.logs(world, logged_rng)
        outcomes = self.outcomes(world, logs, target_rng)
        expected, error = self.value(world, target_rng)
        problem = Problem(
            context=logs.context,
            action=logs.action,
            embedding=logs.embedding[:, self.n_unobserved :],
            reward=logs.reward,
            target_context=outcomes.context,
            target_action=outcomes.action,
            target_embedding=outcomes.embedding[:, self.n_unobserved :],
            n_actions=self.n_actions,
            schema=self._schema(),
            propensity=logs.probability,
            logging_policy=world.logging_policy,
            target_policy=world.target_policy,
            embedding_distribution=FactoredEmbedding(world.tables[self.n_unobserved :]),
            shared_contexts=self.shared_contexts,
        )
        return problem, Truth(expected, error, float(outcomes.reward.mean()))

    @property
    def sign(self) -> float:
        """1 where the target policy prefers large rewards, else -1."""
        return 1.0 if self.optimal else -1.0

    def logs(self, world: MIPSWorld, rng: np.random.Generator) -> MIPSRows:
        """Draw the logged sample, all dimensions of its embeddings included."""
        context = rng.standard_normal((self.n_samples, self.d_context))
        return world.rows(context, world.logging_policy, rng)

    def outcomes(self, world: MIPSWorld, logs: MIPSRows, rng: np.random.Generator) -> MIPSRows:
        """Draw the target sample; with ``shared_contexts``, in the contexts of the logs."""
        context = logs.context
        if not self.shared_contexts:
            context = rng.standard_normal(context.shape)
        return world.rows(context, world.target_policy, rng)

    def value(self, world: MIPSWorld, rng: np.random.Generator) -> tuple[float, float]:
        """Integrate the target policy's expected reward; return it with its standard error."""
        value_at = partial(greedy_value, world.preference, world.target_policy)
        preferred, error = normal_expectation(value_at, self.d_context, self.truth_contexts, rng)
        return self.sign * preferred, error

    def _schema(self) -> Schema:
        column = Column("categorical", tuple(map(float, range(self.n_cat_per_dim))))
        return Schema(
            (Column(),) * self.d_context, (column,) * (self.n_cat_dim - self.n_unobserved)
        )

    def world(self, rng: np.random.Generator) -> MIPSWorld:
        """Draw what all samples of a world share: rewards, embeddings and policies."""
        rewards = [self._dimension(rng) for _ in range(self.n_cat_dim)]
        if self.eta == "equal":
            eta = np.full(self.n_cat_dim, 1.0 / self.n_cat_dim)
        else:
            uniform = self.eta == "dirichlet-uniform"
            concentration = rng.random(self.n_cat_dim) if uniform else np.ones(self.n_cat_dim)
            eta = rng.dirichlet(concentration)
        # Drawn last and action by action, so that more actions do not change the first ones.
        logits = rng.standard_normal((self.n_actions, self.n_cat_dim, self.n_cat_per_dim))
        # Streams of their own, for the same reason.
        group_rng, own_rng = rng.spawn(2)
        if self.n_groups is not None:
            group = group_rng.standard_normal((self.n_groups, *logits.shape[1:]))
            logits = self.within_std * logits + group[np.arange(self.n_actions) % self.n_groups]
        own = np.zeros((self.n_actions, 1 + self.d_context))
        if self.own_std:
            scale = self.own_std / np.sqrt(1 + self.d_context)
            own = scale * own_rng.standard_normal(own.shape)
        logits *= self.logit_std
        logits -= logits.max(axis=2, keepdims=True)
        tables = np.exp(logits, out=logits)
        tables /= tables.sum(axis=2, keepdims=True)
        return MIPSWorld(
            [weight * reward for weight, reward in zip(eta, rewards, strict=True)],
            [np.ascontiguousarray(tables[:, d]) for d in range(self.n_cat_dim)],
            own.T,
            self,
        )

    def _dimension(self, rng: np.random.Generator) -> FloatArray:
        """Draw the standardized q_d, an affine function of x for each category."""
        latent = rng.standard_normal((self.n_cat_per_dim, self.latent_param_mat_dim))
        design = np.column_stack([np.ones(self.n_cat_per_dim), latent])
        interaction = rng.uniform(-1.0, 1.0, (1 + self.d_context, design.shape[1]))
        reward = interaction @ design.T
        reward += rng.uniform(-1.0, 1.0, (1 + self.d_context, 1))
        reward[0] += design @ rng.uniform(-1.0, 1.0, design.shape[1])
        # Moments over x ~ N(0, I) and all categories: E (w0 + w.x)**2 = w0**2 + |w|**2.
        mean = reward[0].mean()
        variance = np.square(reward).sum(axis=0).mean() - mean**2
        reward[0] -= mean
        standardized: FloatArray = reward / np.sqrt(variance)
        return standardized


class MIPSWorld:
    """A world of `SaitoMIPS`: its parameters, and the policies that follow from them.

    Parameters
    ----------
    rewards : eta_d q_d, one (1 + d_context, n_cat_per_dim) a dimension.
    tables : p(e_d|a), one (n_actions, n_cat_per_dim) a dimension.
    own : what the action adds itself, (1 + d_context, n_actions).
    environment : its settings of policies and rewards.
    """

    def __init__(
        self,
        rewards: list[FloatArray],
        tables: list[FloatArray],
        own: FloatArray,
        environment: SaitoMIPS,
    ) -> None:
        self.rewards = rewards
        self.tables = tables
        self.own = own
        self.embedding = FactoredEmbedding(tables)
        pairs = zip(rewards, tables, strict=True)
        total: FloatArray = np.sum([reward @ table.T for reward, table in pairs], axis=0)
        self.score = ActionScore(total + own)
        """q(x, a), affine in the context."""
        self._environment = environment

    @cached_property
    def logging_policy(self) -> DeficientSoftmax:
        """The softmax of the score."""
        share, n_actions = self._environment.deficient_share, self.score.n_actions
        return DeficientSoftmax(
            self.score, n_deficient=int(share * n_actions), beta=self._environment.beta
        )

    @cached_property
    def preference(self) -> ActionScore:
        """Return what the target policy maximizes: the score, or its negative."""
        return ActionScore(self._environment.sign * self.score.weights)

    @cached_property
    def target_policy(self) -> LinearGreedy:
        """Epsilon-greedy on the preference."""
        return LinearGreedy(self.preference, self._environment.epsilon)

    def rows(
        self,
        context: FloatArray,
        policy: DeficientSoftmax | LinearGreedy,
        rng: np.random.Generator,
    ) -> MIPSRows:
        """Draw an action of a policy, its embedding and its reward in each context."""
        action, probability = policy.draw(context, rng)
        embedding = self.embedding.sample(action, rng)
        reward = np.zeros(len(context))
        if self.own.any():
            reward += ActionScore(self.own).at(context, action)
        for dimension, affine in enumerate(self.rewards):
            code: IntArray = embedding[:, dimension].astype(np.int64)
            reward += ActionScore(affine).at(context, code)
        reward += self._environment.reward_std * rng.standard_normal(len(context))
        return MIPSRows(context, action, probability, embedding, reward)


@dataclass(frozen=True)
class MIPSRows:
    """A sample of a `MIPSWorld`, n rows.

    Parameters
    ----------
    context : (n, d_context)
    action : (n,)
    probability : (n,), of the action under the policy that drew it.
    embedding : (n, n_cat_dim), unobserved dimensions included.
    reward : (n,)
    """

    context: FloatArray
    action: IntArray
    probability: FloatArray
    embedding: FloatArray
    reward: FloatArray
