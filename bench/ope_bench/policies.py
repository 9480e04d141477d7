"""Policies: what an environment knows of how actions are chosen.

Nobody holds a whole (n, n_actions) table: a discrete policy yields it in blocks, and sums
over actions are done in the policy's own structure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from ope_bench.arrays import FloatArray, IntArray, row_chunks

__all__ = [
    "Actions",
    "DiscretePolicy",
    "EpsilonGreedy",
    "PairFunction",
    "Policy",
    "RowValues",
    "Score",
    "Softmax",
    "Tabular",
    "Uniform",
    "choose",
]

Actions = npt.NDArray[Any]
"""(n,): integers, or floats where actions are continuous; a policy takes the kind it draws."""

PairFunction = Callable[[FloatArray, IntArray], FloatArray]
"""f(context (k, d_context), action (k,)) -> (k,): one value a pair."""

Score = Callable[[FloatArray], FloatArray]
"""score(context (k, d_context)) -> (k, n_actions), called on chunks of rows only."""

RowValues = Callable[[slice], FloatArray]
"""values(rows) -> (k, n_actions): one value a row and action, for chunks of rows only.

The answer may be a buffer that the next call overwrites.
"""

SPAN = 64
"""Actions summed at once by `choose`, which then looks inside one span only."""


def choose(weights: FloatArray, uniform: FloatArray) -> IntArray:
    """The index drawn from each row in proportion to its weights, by inverse CDF: (k,).

    Parameters
    ----------
    weights : (k, n), non-negative, in any unit.
    uniform : (k,), in [0, 1).

    >>> choose(np.array([[1.0, 0.0, 3.0]]), np.array([0.3]))
    array([2])
    """
    n = weights.shape[1]
    if n <= 4 * SPAN:
        cumulative = np.cumsum(weights, axis=1)
        return _first_beyond(cumulative, uniform * cumulative[:, -1])
    # A sum over spans costs a fraction of a cumulative sum over all.
    spans = np.cumsum(np.add.reduceat(weights, np.arange(0, n, SPAN), axis=1), axis=1)
    threshold = uniform * spans[:, -1]
    span = _first_beyond(spans, threshold)
    rows = np.arange(len(weights))
    threshold -= np.where(span > 0, spans[rows, span - 1], 0.0)
    columns = span[:, None] * SPAN + np.arange(SPAN)
    inside = weights[rows[:, None], np.minimum(columns, n - 1)]
    inside[columns >= n] = 0.0
    return span * SPAN + _first_beyond(np.cumsum(inside, axis=1), threshold)


def _first_beyond(cumulative: FloatArray, threshold: FloatArray) -> IntArray:
    """First column above the threshold or, where rounding leaves none, the last with weight."""
    first = (cumulative <= threshold[:, None]).sum(axis=1)
    last = (cumulative < cumulative[:, -1:]).sum(axis=1)
    index: IntArray = np.minimum(first, last)
    return index


@runtime_checkable
class Policy(Protocol):
    """A distribution over actions given a context, discrete or continuous."""

    def probability(self, context: FloatArray, action: Actions) -> FloatArray:
        """Probability (or density) of ``action`` (n,) given ``context`` (n, d_context): (n,)."""

    def sample(self, context: FloatArray, rng: np.random.Generator) -> IntArray | FloatArray:
        """One action a row: (n,)."""

    def expect(self, context: FloatArray, f: PairFunction) -> FloatArray:
        """E over actions of f(x, a) given each context: (n,)."""


class DiscretePolicy(ABC):
    """A policy over ``n_actions`` actions; a subclass says what a block of its table is.

    Parameters
    ----------
    n_actions : number of actions.
    """

    full_support: bool = False
    """True where every action is known to have positive probability in every context."""

    def __init__(self, n_actions: int) -> None:
        self.n_actions = n_actions

    @abstractmethod
    def table(self, context: FloatArray) -> FloatArray:
        """The probabilities of one chunk: (k, n_actions). Call `blocks` for many rows."""

    def blocks(self, context: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """Chunks of the (n, n_actions) table, each with its rows."""
        for rows in row_chunks(len(context), self.n_actions):
            yield rows, self.table(context[rows])

    def probability(self, context: FloatArray, action: IntArray) -> FloatArray:
        """Probability of each row's action: (n,)."""
        out = np.empty(len(context))
        for rows, block in self.blocks(context):
            out[rows] = np.take_along_axis(block, action[rows, None], axis=1)[:, 0]
        return out

    def sample(self, context: FloatArray, rng: np.random.Generator) -> IntArray:
        """One action a row: (n,)."""
        return self.draw(context, rng)[0]

    def draw(self, context: FloatArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """One action a row and its probability, in one pass over the table: (n,), (n,)."""
        uniform = rng.random(len(context))
        action = np.empty(len(context), dtype=np.int64)
        probability = np.empty(len(context))
        for rows, block in self.blocks(context):
            chosen = choose(block, uniform[rows])
            action[rows] = chosen
            probability[rows] = np.take_along_axis(block, chosen[:, None], axis=1)[:, 0]
        return action, probability

    def expect(self, context: FloatArray, f: PairFunction) -> FloatArray:
        """Sum over actions of pi(a|x) f(x, a): (n,)."""
        out = np.empty(len(context))
        for rows, block in self.blocks(context):
            out[rows] = np.einsum("ka,ka->k", block, self._values(context[rows], f))
        return out

    def contract(self, context: FloatArray, values: RowValues) -> FloatArray:
        """Sum over actions of pi(a|x) times each row's own values: (n,)."""
        out = np.empty(len(context))
        for rows, block in self.blocks(context):
            out[rows] = np.einsum("ka,ka->k", block, values(rows))
        return out

    def project(self, context: FloatArray, features: FloatArray) -> FloatArray:
        """E over actions of ``features[a]``, features being (n_actions, k): (n, k)."""
        out = np.empty((len(context), features.shape[1]))
        for rows, block in self.blocks(context):
            out[rows] = block @ features
        return out

    def _values(self, context: FloatArray, f: PairFunction) -> FloatArray:
        """f at every pair of a chunk: (k, n_actions)."""
        pairs = np.repeat(context, self.n_actions, axis=0)
        actions = np.tile(np.arange(self.n_actions), len(context))
        return f(pairs, actions).reshape(len(context), self.n_actions)


class Uniform(DiscretePolicy):
    """Every action with probability 1 / n_actions."""

    full_support = True

    def table(self, context: FloatArray) -> FloatArray:
        """A constant chunk: (k, n_actions)."""
        return np.full((len(context), self.n_actions), 1.0 / self.n_actions)

    def probability(self, context: FloatArray, action: IntArray) -> FloatArray:
        """1 / n_actions a row: (n,)."""
        return np.full(len(context), 1.0 / self.n_actions)

    def draw(self, context: FloatArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Integers drawn directly, whatever the number of actions."""
        action = rng.integers(self.n_actions, size=len(context))
        return action, self.probability(context, action)

    def project(self, context: FloatArray, features: FloatArray) -> FloatArray:
        """The mean of the features, once a row: (n, k)."""
        return np.tile(features.mean(axis=0), (len(context), 1))


class Softmax(DiscretePolicy):
    """pi(a|x) proportional to exp(beta * score(x, a)).

    The score is private: often it is the expected reward, which no estimator may read off a
    policy that it was granted.

    Parameters
    ----------
    score : values of a chunk of contexts.
    beta : inverse temperature; negative values prefer low scores, 0 is uniform.
    """

    full_support = True

    def __init__(self, score: Score, n_actions: int, beta: float = 1.0) -> None:
        super().__init__(n_actions)
        self._score = score
        self.beta = beta

    def table(self, context: FloatArray) -> FloatArray:
        """softmax(beta * score): (k, n_actions)."""
        weights = self._weights(context)
        weights /= weights.sum(axis=1, keepdims=True)
        return weights

    def probability(self, context: FloatArray, action: IntArray) -> FloatArray:
        """One weight a row over the row's sum: (n,)."""
        out = np.empty(len(context))
        for rows in row_chunks(len(context), self.n_actions):
            weights = self._weights(context[rows])
            picked = np.take_along_axis(weights, action[rows, None], axis=1)[:, 0]
            out[rows] = picked / weights.sum(axis=1)
        return out

    def draw(self, context: FloatArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """One action a row and its probability, from weights that are never normalized."""
        uniform = rng.random(len(context))
        action = np.empty(len(context), dtype=np.int64)
        probability = np.empty(len(context))
        for rows in row_chunks(len(context), self.n_actions):
            weights = self._weights(context[rows])
            action[rows] = choose(weights, uniform[rows])
            picked = np.take_along_axis(weights, action[rows, None], axis=1)[:, 0]
            probability[rows] = picked / weights.sum(axis=1)
        return action, probability

    def contract(self, context: FloatArray, values: RowValues) -> FloatArray:
        """From weights that are never normalized: their sum divides once a row, (n,)."""
        out = np.empty(len(context))
        for rows in row_chunks(len(context), self.n_actions):
            weights = self._weights(context[rows])
            out[rows] = np.einsum("ka,ka->k", weights, values(rows)) / weights.sum(axis=1)
        return out

    def _logits(self, context: FloatArray) -> FloatArray:
        """beta * score, an array of its own: (k, n_actions); -inf where there is no support."""
        return np.multiply(self.beta, self._score(context))

    def _weights(self, context: FloatArray) -> FloatArray:
        """exp(logits), one in each row's largest entry: (k, n_actions)."""
        logits = self._logits(context)
        logits -= logits.max(axis=1, keepdims=True)
        weights: FloatArray = np.exp(logits, out=logits)
        return weights


class EpsilonGreedy(DiscretePolicy):
    """(1 - epsilon) on the best action, epsilon spread over all; the first of tied actions wins.

    Parameters
    ----------
    score : values of a chunk of contexts.
    epsilon : exploration share in [0, 1].
    """

    def __init__(self, score: Score, n_actions: int, epsilon: float) -> None:
        super().__init__(n_actions)
        self._score = score
        self.epsilon = epsilon
        self.full_support = epsilon > 0
        self._last: tuple[FloatArray, IntArray] | None = None

    def greedy(self, context: FloatArray) -> IntArray:
        """argmax over actions of score(x, a): (n,)."""
        if self._last is not None and self._last[0] is context:
            return self._last[1]
        best = self.best(context)
        if not context.flags.writeable:
            # Only an array that cannot change may stand for its own answer.
            self._last = (context, best)
        return best

    def best(self, context: FloatArray) -> IntArray:
        """The scan behind `greedy`, for subclasses whose scores have a shortcut: (n,)."""
        best = np.empty(len(context), dtype=np.int64)
        for rows in row_chunks(len(context), self.n_actions):
            best[rows] = self._score(context[rows]).argmax(axis=1)
        return best

    def table(self, context: FloatArray) -> FloatArray:
        """epsilon / n_actions everywhere, 1 - epsilon more on the greedy action."""
        table = np.full((len(context), self.n_actions), self.epsilon / self.n_actions)
        table[np.arange(len(context)), self.greedy(context)] += 1.0 - self.epsilon
        return table

    def probability(self, context: FloatArray, action: IntArray) -> FloatArray:
        """Without a table: a comparison with the greedy action."""
        hit = self.greedy(context) == action
        return np.where(hit, 1.0 - self.epsilon, 0.0) + self.epsilon / self.n_actions

    def draw(self, context: FloatArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Explore with probability epsilon, else the greedy action."""
        explore = rng.random(len(context)) < self.epsilon
        anywhere = rng.integers(self.n_actions, size=len(context))
        action = np.where(explore, anywhere, self.greedy(context))
        return action, self.probability(context, action)

    def expect(self, context: FloatArray, f: PairFunction) -> FloatArray:
        """(1 - epsilon) f(x, greedy) + epsilon * mean over actions of f(x, a)."""
        out = (1.0 - self.epsilon) * f(context, self.greedy(context))
        if self.epsilon > 0:
            for rows in row_chunks(len(context), self.n_actions):
                out[rows] += self.epsilon * self._values(context[rows], f).mean(axis=1)
        return out

    def contract(self, context: FloatArray, values: RowValues) -> FloatArray:
        """(1 - epsilon) the greedy action's value + epsilon * the row's mean: (n,)."""
        greedy = self.greedy(context)
        out = np.empty(len(context))
        for rows in row_chunks(len(context), self.n_actions):
            block = values(rows)
            picked = np.take_along_axis(block, greedy[rows, None], axis=1)[:, 0]
            out[rows] = (1.0 - self.epsilon) * picked + self.epsilon * block.mean(axis=1)
        return out

    def project(self, context: FloatArray, features: FloatArray) -> FloatArray:
        """(1 - epsilon) features[greedy] + epsilon * mean features: (n, k)."""
        greedy = features[self.greedy(context)]
        mean: FloatArray = (1.0 - self.epsilon) * greedy + self.epsilon * features.mean(axis=0)
        return mean


class Tabular(DiscretePolicy):
    """Probabilities looked up by a discrete context.

    Parameters
    ----------
    probabilities : (n_contexts, n_actions), each row summing to one.
    code : context (k, d_context) -> row of the table (k,).
    """

    def __init__(self, probabilities: FloatArray, code: Callable[[FloatArray], IntArray]) -> None:
        super().__init__(probabilities.shape[1])
        self.probabilities = probabilities
        self.code = code

    def table(self, context: FloatArray) -> FloatArray:
        """Rows of the table: (k, n_actions)."""
        return self.probabilities[self.code(context)]

    def probability(self, context: FloatArray, action: IntArray) -> FloatArray:
        """A gather, whatever the number of actions: (n,)."""
        return self.probabilities[self.code(context), action]

    def draw(self, context: FloatArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Inverse-CDF sampling with one cumulative sum a context code."""
        uniform = rng.random(len(context))
        code = self.code(context)
        action = np.empty(len(context), dtype=np.int64)
        for value in np.unique(code):
            rows = code == value
            cumulative = np.cumsum(self.probabilities[value])
            threshold = uniform[rows] * cumulative[-1]
            action[rows] = np.searchsorted(cumulative, threshold, side="right")
        return action, self.probabilities[code, action]

    def project(self, context: FloatArray, features: FloatArray) -> FloatArray:
        """One product a context code: (n, k)."""
        return (self.probabilities @ features)[self.code(context)]
