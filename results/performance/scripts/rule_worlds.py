"""Worlds of no suite, on which rules are chosen before suites put them to the test."""

from __future__ import annotations

import numpy as np

from ope_bench import Environment, FloatArray, IntArray, Problem, Truth, params

MONTE_CARLO = 8_000


@params
class Clusters(Environment):
    """Actions in clusters of a five-dimensional embedding; a sinusoidal reward.

    Both policies are softmax in the expected reward.

    Parameters
    ----------
    n_samples : rows of either sample.
    n_actions : number of actions.
    logging_beta, target_beta : inverse temperatures of the policies.
    """

    n_samples: int = 1_000
    n_actions: int = 1_000
    logging_beta: float = -0.3
    target_beta: float = 1.5

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """Samples of both policies, and the value by Monte Carlo."""
        centers = 1.5 * world_rng.normal(size=(40, 5))
        cluster = world_rng.integers(40, size=self.n_actions)
        embedding = centers[cluster] + 0.3 * world_rng.normal(size=(self.n_actions, 5))
        crossed = world_rng.normal(size=(5, 4)) / np.sqrt(5)
        alone = np.sin(embedding @ world_rng.normal(size=5))

        def draw(
            beta: float, rng: np.random.Generator, n: int
        ) -> tuple[FloatArray, IntArray, FloatArray, FloatArray]:
            context = rng.normal(size=(n, 4))
            reward = np.sin(context @ crossed.T @ embedding.T) + alone
            weight = np.exp(beta * reward)
            policy = weight / weight.sum(axis=1, keepdims=True)
            above = np.cumsum(policy, axis=1) < rng.random(n)[:, None]
            action = above.sum(axis=1).clip(max=self.n_actions - 1)
            return context, action, reward[np.arange(n), action], (policy * reward).sum(axis=1)

        context, action, mean, _ = draw(self.logging_beta, logged_rng, self.n_samples)
        reward = mean + 0.5 * logged_rng.normal(size=self.n_samples)
        target, chosen, earned, _ = draw(self.target_beta, target_rng, self.n_samples)
        value = draw(self.target_beta, np.random.default_rng(7), MONTE_CARLO)[3]
        problem = Problem(
            context=context,
            action=action,
            embedding=embedding[action],
            reward=reward,
            target_context=target,
            target_action=chosen,
            target_embedding=embedding[chosen],
            n_actions=self.n_actions,
            action_embedding=embedding,
        )
        return problem, Truth(float(value.mean()), _error(value), float(earned.mean()))


@params
class Smooth(Environment):
    """A Gaussian embedding around a linear function of the context; a smooth reward.

    Parameters
    ----------
    n_samples : rows of either sample.
    d : dimensions of context and embedding.
    shift : of the target's embeddings.
    """

    n_samples: int = 1_000
    d: int = 3
    shift: float = 1.0

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """Samples of both policies, and the value by Monte Carlo."""
        slope = world_rng.normal(size=(self.d, self.d)) / np.sqrt(self.d)
        way = world_rng.normal(size=self.d)
        way /= np.linalg.norm(way)
        a, b, c = world_rng.normal(size=3)

        def draw(
            shift: float, rng: np.random.Generator, n: int
        ) -> tuple[FloatArray, FloatArray, FloatArray]:
            context = rng.normal(size=(n, self.d))
            embedding = 0.5 * context @ slope.T + shift * way + rng.normal(size=(n, self.d))
            mean = a * np.tanh(2 * embedding @ way)
            mean += b * np.cos(2 * embedding[:, 0] + context[:, 0])
            mean += c * (context * embedding).sum(axis=1) / np.sqrt(self.d)
            return context, embedding, mean

        context, embedding, mean = draw(0.0, logged_rng, self.n_samples)
        reward = mean + logged_rng.normal(size=self.n_samples)
        target, chosen, earned = draw(self.shift, target_rng, self.n_samples)
        value = draw(self.shift, np.random.default_rng(11), 20 * MONTE_CARLO)[2]
        none = np.zeros(self.n_samples, dtype=np.int64)
        problem = Problem(
            context=context,
            action=none,
            embedding=embedding,
            reward=reward,
            target_context=target,
            target_action=none,
            target_embedding=chosen,
            n_actions=1,
        )
        return problem, Truth(float(value.mean()), _error(value), float(earned.mean()))


def _error(value: FloatArray) -> float:
    return float(value.std() / np.sqrt(len(value)))
