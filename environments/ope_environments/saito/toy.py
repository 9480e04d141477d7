"""`saito-toy`: the toy simulation of the embedded off-policy estimators' paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Le

from ope_bench import (
    Column,
    Environment,
    FiniteEmbedding,
    FloatArray,
    IntArray,
    ParameterError,
    Problem,
    Schema,
    Truth,
    sample_indices,
)
from ope_environments.synthetic.context_integral import normal_expectation
from ope_environments.synthetic.linear_score import (
    ActionScore,
    LinearGreedy,
    LinearSoftmax,
    greedy_value,
)

__all__ = ["SaitoToy"]

MOST_ENTRIES = 1 << 27
"""Largest table of p(g|a) that is built, one gigabyte."""


class SaitoToy(Environment):
    """Few categorical embeddings for any number of actions: the paper's toy simulation.

    ``x ~ N(0, I)``; the action's embedding has ``d_embedding`` categorical dimensions,
    ``p(g|a) = prod_k softmax_k(alpha[a, k])``, ``alpha ~ N(0, 1)``; the joint category g has a
    vector ``x_g ~ N(0, I)`` of length ``d_embedding``. The reward is
    ``Y(g, x) = x' B x_g + b_x . x + b_g . x_g``, all coefficients U(-1, 1). With
    ``q(x, a) = E[Y(g, x) | a]``, the logging policy is softmax(beta q), and the target policy is
    epsilon-greedy on q.

    Truth
    -----
    ``expected`` is exact over embeddings, rewards and actions; only the integral over contexts is
    numerical: unbiased, with its standard error, by ``truth_contexts`` quasi-random contexts.
    ``empirical`` is the mean reward of the target sample, the paper's V_s.

    Access: everything. Propensities, both policies, and the exact distribution of embeddings,
    with its joint marginals.

    Choices where the paper does not specify
    ----------------------------------------
    - The embedding is x_g (``embedding="vector"``), which takes
      ``n_categories ** d_embedding`` different values; with ``one-hot`` and ``codes`` it is the
      categories, dimension by dimension.
    - The printed reward sums ``eta_k`` times a term without k, so the Dirichlet weights eta are
      inert (``reward="paper"``). ``reward="mips"`` gives every (dimension, category) its own
      latent vector, as in the setup from which it was adapted, and ``x_g = sum_k eta_k x[k,
      g_k]``.
    - The paper states no noise: ``reward_std=0``, the reward is a function of (g, x), and a
      regression on products of embedding and context holds it exactly. ``wave`` adds
      ``wave sin(2 u_g . x + phase_g)``, ``u_g`` a direction and ``phase_g`` a phase of the joint
      category, which no built-in regression holds; both policies stay those of q without it.
    - Both samples have the same contexts (``shared_contexts``): section 4 says so, the appendix
      "in the same way". Folds must then be made by row, and errors are coupled through x.
    - Parameters are drawn by ``world_rng`` alone and never redrawn by sampling; reward
      coefficients do not depend on ``n_actions``, and more actions do not change the first ones.

    Traps: V_s scatters around V by about 0.047 at 1,000 rows, and is no neutral yardstick: it is
    computed from the target sample, which ``edm-star``, ``dm-star``, ``edr`` and the ``epw``
    family use too. Their errors against V_s leave out what they share with it, while estimators
    that do not use the target sample get its scatter added. Judge by ``expected``. ``beta=-1``
    prefers bad actions: the logging policy's value is about -0.3, the target's 0.5 to 1.2.

    Parameters
    ----------
    n_actions : number of actions.
    n_samples : number of logged rows, and of target rows.
    d_context : length of the context.
    d_embedding : categorical dimensions of an embedding, and length of x_g.
    n_categories : categories of each dimension.
    beta : inverse temperature of the logging policy.
    epsilon : exploration share of the target policy.
    reward : the printed reward, or latent vectors per dimension.
    reward_std : standard deviation of Gaussian noise on the reward.
    wave : amplitude of a sine of the context, of another direction for each joint category.
    embedding : form of the embedding.
    shared_contexts : whether row i of both samples has the same context.
    truth_contexts : contexts in the integral of the truth.

    References
    ----------
    Off-Policy Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022), appendix "Toy
    Simulation Setup"; adapted there from "Off-Policy Evaluation for Large Action Spaces via
    Embeddings" (Saito and Joachims, 2022).

    >>> rngs = [np.random.default_rng(seed) for seed in range(3)]
    >>> world, logged, target = rngs
    >>> problem, truth = SaitoToy(n_actions=10, n_samples=50).sample(
    ...     world_rng=world, logged_rng=logged, target_rng=target)
    >>> problem.embedding.shape, len(np.unique(problem.embedding, axis=0))
    ((50, 2), 4)
    """

    n_actions: Annotated[int, Ge(2)] = 100
    n_samples: Annotated[int, Ge(1)] = 1000
    d_context: Annotated[int, Ge(1)] = 2
    d_embedding: Annotated[int, Ge(1)] = 2
    n_categories: Annotated[int, Ge(2)] = 2
    beta: float = -1.0
    epsilon: Annotated[float, Ge(0), Le(1)] = 0.1
    reward: Literal["paper", "mips"] = "paper"
    reward_std: Annotated[float, Ge(0)] = 0.0
    embedding: Literal["vector", "one-hot", "codes"] = "vector"
    shared_contexts: bool = True
    truth_contexts: Annotated[int, Ge(32)] = 8192
    wave: Annotated[float, Ge(0)] = 0.0

    added_parameters: ClassVar[Mapping[str, Any]] = {"wave": 0.0}

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """Sample one problem and its true value."""
        world = self._world(world_rng)
        score = ActionScore(world.reward @ world.table.T)
        logging = LinearSoftmax(score, self.beta)
        target = LinearGreedy(score, self.epsilon)
        shown = FiniteEmbedding(world.shown, world.table)

        context = logged_rng.standard_normal((self.n_samples, self.d_context))
        action, propensity = logging.draw(context, logged_rng)
        code = world.embed(action, logged_rng)
        reward = self._rewards(world, context, code, logged_rng)

        target_context = (
            context
            if self.shared_contexts
            else target_rng.standard_normal((self.n_samples, self.d_context))
        )
        target_action = target.sample(target_context, target_rng)
        target_code = world.embed(target_action, target_rng)
        target_reward = self._rewards(world, target_context, target_code, target_rng)

        def value(x: FloatArray) -> FloatArray:
            mean = greedy_value(score, target, x)
            return mean if world.wave is None else mean + world.wave.value(target, world.table, x)

        expected, error = normal_expectation(
            value, self.d_context, self.truth_contexts, target_rng
        )
        problem = Problem(
            context=context,
            action=action,
            embedding=world.shown[code],
            reward=reward,
            target_context=target_context,
            target_action=target_action,
            target_embedding=world.shown[target_code],
            n_actions=self.n_actions,
            schema=self._schema(world.shown.shape[1]),
            propensity=propensity,
            logging_policy=logging,
            target_policy=target,
            embedding_distribution=shown,
            shared_contexts=self.shared_contexts,
        )
        return problem, Truth(expected, error, float(target_reward.mean()))

    def _world(self, rng: np.random.Generator) -> _World:
        dims, categories = self.d_embedding, self.n_categories
        n_atoms = categories**dims
        if n_atoms * self.n_actions > MOST_ENTRIES:
            msg = (
                f"saito-toy: n_categories ** d_embedding = {n_atoms} embeddings times n_actions ="
                f" {self.n_actions} is beyond {MOST_ENTRIES}; use fewer, or saito-mips"
            )
            raise ParameterError(msg)
        interaction = rng.uniform(-1.0, 1.0, (self.d_context, dims))
        context_effect = rng.uniform(-1.0, 1.0, self.d_context)
        embedding_effect = rng.uniform(-1.0, 1.0, dims)
        eta = rng.dirichlet(np.ones(dims))
        codes = np.stack(np.unravel_index(np.arange(n_atoms), (categories,) * dims), axis=1)
        if self.reward == "mips":
            latent = rng.standard_normal((dims, categories, dims))
            vectors = np.einsum("k,kgd->gd", eta, latent[np.arange(dims), codes].swapaxes(0, 1))
        else:
            vectors = rng.standard_normal((n_atoms, dims))
        wave = None
        if self.wave:
            direction = rng.standard_normal((n_atoms, self.d_context))
            direction /= np.linalg.norm(direction, axis=1, keepdims=True)
            wave = _Wave(self.wave, direction, rng.uniform(0.0, 2.0 * np.pi, n_atoms))
        # Drawn last, so that the number of actions does not change the draws above.
        alpha = rng.standard_normal((self.n_actions, dims, categories))
        weights = np.exp(alpha, out=alpha)
        weights /= weights.sum(axis=2, keepdims=True)
        table = np.ones((self.n_actions, n_atoms))
        for k in range(dims):
            table *= weights[:, k, codes[:, k]]
        affine = np.vstack(
            [vectors @ embedding_effect, interaction @ vectors.T + context_effect[:, None]]
        )
        return _World(affine, table, self._shown(vectors, codes), wave)

    def _shown(self, vectors: FloatArray, codes: IntArray) -> FloatArray:
        if self.embedding == "vector":
            return vectors
        if self.embedding == "codes":
            return codes.astype(np.float64)
        return np.eye(self.n_categories)[codes].reshape(len(codes), -1)

    def _schema(self, width: int) -> Schema:
        column = Column("atoms")
        if self.embedding == "codes":
            column = Column("categorical", tuple(map(float, range(self.n_categories))))
        return Schema((Column(),) * self.d_context, (column,) * width)

    def _rewards(
        self, world: _World, context: FloatArray, code: IntArray, rng: np.random.Generator
    ) -> FloatArray:
        mean = ActionScore(world.reward).at(context, code)
        if world.wave is not None:
            mean = mean + world.wave.at(context, code)
        return mean + self.reward_std * rng.standard_normal(len(context))


@dataclass(frozen=True)
class _Wave:
    """The part of the reward that is a sine of the context.

    Parameters
    ----------
    amplitude : of the sine.
    direction : (n_atoms, d_context), of length one.
    phase : (n_atoms,)
    """

    amplitude: float
    direction: FloatArray
    phase: FloatArray

    def at(self, context: FloatArray, code: IntArray) -> FloatArray:
        """Return the part in the reward of each row's embedding: (n,)."""
        along = np.einsum("nd,nd->n", context, self.direction[code])
        part: FloatArray = self.amplitude * np.sin(2.0 * along + self.phase[code])
        return part

    def value(self, policy: LinearGreedy, table: FloatArray, context: FloatArray) -> FloatArray:
        """Sum it over the policy's actions and their embeddings: (n,)."""
        share = (1.0 - policy.epsilon) * table[policy.greedy(context)]
        share += policy.epsilon * table.mean(axis=0)
        waves = np.sin(2.0 * context @ self.direction.T + self.phase)
        total: FloatArray = self.amplitude * np.einsum("ng,ng->n", share, waves)
        return total


@dataclass(frozen=True)
class _World:
    """The parameters drawn by ``world_rng``.

    Parameters
    ----------
    reward : (1 + d_context, n_atoms), the reward of each embedding, affine in the context.
    table : (n_actions, n_atoms), p(g|a).
    shown : (n_atoms, width), the embedding in its form for estimators.
    wave : the part of the reward that is no affine function of the context, if there is one.
    """

    reward: FloatArray
    table: FloatArray
    shown: FloatArray
    wave: _Wave | None

    def embed(self, action: IntArray, rng: np.random.Generator) -> IntArray:
        """Draw the index of one embedding per row: (n,)."""
        return sample_indices(self.table[action], rng.random(len(action)))
