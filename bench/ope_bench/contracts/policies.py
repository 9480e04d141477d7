"""Policies: distributions over actions given a context.

No code holds a whole (n, n_actions) table: a discrete policy yields it in blocks, and each policy
computes sums over actions in the way that its structure makes cheapest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from ope_bench.base.errors import no_attribute
from ope_bench.contracts.arrays import (
    CHUNK_ENTRIES,
    FloatArray,
    IntArray,
    apply_by_row,
    require_one_per_row,
    row_chunks,
    row_maxima,
)
from ope_bench.contracts.random import sample_indices

Actions = npt.NDArray[Any]
"""(n,): integers, or floats where actions are continuous; a policy takes the kind it draws."""

PairFunction = Callable[[FloatArray, IntArray], FloatArray]
"""f(context (k, d_context), action (k,)) -> (k,): one value per pair.

A function may have a method ``everywhere(context (k, d_context), n_actions) -> (k * n_actions,)``
that gives the values of all pairs, those of a context next to each other, without a table of them.
"""

Score = Callable[[FloatArray], FloatArray]
"""score(context (k, d_context)) -> (k, n_actions), called on chunks of rows only."""

RowValues = Callable[[slice], FloatArray]
"""values(rows) -> (k, n_actions): one value per row and action, for chunks of rows only.

The result may be a buffer that the next call overwrites; see also `KnownMeans`.
"""


@runtime_checkable
class KnownMeans(Protocol):
    """Values of all rows and actions that know more than their table, `RowValues`."""

    def __call__(self, rows: slice, /) -> FloatArray:
        """Return one value per row and action: (k, n_actions)."""

    def at(self, action: IntArray) -> FloatArray:
        """Return each row's value at an action: (n,)."""

    def means(self) -> FloatArray:
        """Return each row's mean over actions: (n,)."""


@runtime_checkable
class Policy(Protocol):
    """A distribution over actions given a context, discrete or continuous."""

    def probability(self, context: FloatArray, action: Actions) -> FloatArray:
        """Return the probability (or density) of each action given its context: (n,)."""

    def sample(self, context: FloatArray, rng: np.random.Generator) -> IntArray | FloatArray:
        """Draw one action per row: (n,)."""

    def expect(self, context: FloatArray, f: PairFunction) -> FloatArray:
        """Return E[f(x, a)] over actions given each context: (n,)."""


class DiscretePolicy(ABC):
    """Base class of policies over ``n_actions`` actions; a subclass defines `table`.

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
        """Return the probabilities of one chunk: (k, n_actions). For many rows, use `blocks`."""

    def blocks(self, context: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """Yield chunks of the (n, n_actions) table, each with its rows."""
        for rows in row_chunks(len(context), self.n_actions):
            yield rows, self.table(context[rows])

    def probability(self, context: FloatArray, action: IntArray) -> FloatArray:
        """Return the probability of each row's action: (n,)."""
        require_one_per_row("action", action, len(context))
        out = np.empty(len(context))
        for rows, block in self.blocks(context):
            out[rows] = np.take_along_axis(block, action[rows, None], axis=1)[:, 0]
        return out

    def sample(self, context: FloatArray, rng: np.random.Generator) -> IntArray:
        """Draw one action per row: (n,)."""
        return self.draw(context, rng)[0]

    def draw(self, context: FloatArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Draw one action per row with its probability, in one pass over the table: (n,), (n,)."""
        uniform = rng.random(len(context))
        action = np.empty(len(context), dtype=np.int64)
        probability = np.empty(len(context))
        for rows, block in self.blocks(context):
            chosen = sample_indices(block, uniform[rows])
            action[rows] = chosen
            probability[rows] = np.take_along_axis(block, chosen[:, None], axis=1)[:, 0]
        return action, probability

    def expect(self, context: FloatArray, f: PairFunction) -> FloatArray:
        """Return the sum over actions of pi(a|x) f(x, a): (n,)."""
        out = np.empty(len(context))
        for rows, block in self.blocks(context):
            out[rows] = np.einsum("ka,ka->k", block, self._values(context[rows], f))
        return out

    def contract(self, context: FloatArray, values: RowValues) -> FloatArray:
        """Return the sum over actions of pi(a|x) times each row's values: (n,)."""
        out = np.empty(len(context))
        for rows, block in self.blocks(context):
            out[rows] = np.einsum("ka,ka->k", block, values(rows))
        return out

    def project(self, context: FloatArray, features: FloatArray) -> FloatArray:
        """Return E[features[a]] over actions, for ``features`` (n_actions, k): (n, k)."""
        out = np.empty((len(context), features.shape[1]))
        for rows, block in self.blocks(context):
            out[rows] = block @ features
        return out

    if not TYPE_CHECKING:  # a type checker shall know missing attributes as missing

        def __getattr__(self, name: str) -> Any:
            """Name the methods of a policy where an attribute is missing."""
            raise AttributeError(no_attribute(self, name))

    def _values(self, context: FloatArray, f: PairFunction) -> FloatArray:
        """Evaluate f at every pair of a chunk: (k, n_actions)."""
        everywhere = getattr(f, "everywhere", None)
        if everywhere is not None:
            values: FloatArray = everywhere(context, self.n_actions)
        else:
            pairs = np.repeat(context, self.n_actions, axis=0)
            values = f(pairs, np.tile(np.arange(self.n_actions), len(context)))
        require_one_per_row("the result of f", values, len(context) * self.n_actions)
        return values.reshape(len(context), self.n_actions)


class ListPolicy(DiscretePolicy):
    """Base class of policies over ordered lists, on rows that are the slots of lists.

    The last column of a row's context is its slot, from 0; `table` gives the probability of each
    item at that slot, whatever is at the others.

    Parameters
    ----------
    n_actions : number of items.
    length : number of slots.
    """

    def __init__(self, n_actions: int, length: int) -> None:
        super().__init__(n_actions)
        self.length = length

    @abstractmethod
    def conditional(self, context: FloatArray, earlier: IntArray) -> FloatArray:
        """Return the probability of each item at each row's slot, given earlier slots' items.

        Parameters
        ----------
        context : (k, d_context)
        earlier : (k, length), items of the slots before each row's; others are ignored.

        Returns
        -------
        (k, n_actions)
        """

    @abstractmethod
    def second_moments(self, context: FloatArray) -> FloatArray:
        """Return the probability of each two items at each two slots, of each row's list.

        (k, length * n_actions, length * n_actions), slot by slot: E[1_A 1_A'] of the indicators
        of the items at the slots.
        """


class Uniform(DiscretePolicy):
    """Every action with probability 1 / n_actions."""

    full_support = True

    def table(self, context: FloatArray) -> FloatArray:
        """Return a constant chunk: (k, n_actions)."""
        return np.full((len(context), self.n_actions), 1.0 / self.n_actions)

    def probability(self, context: FloatArray, action: IntArray) -> FloatArray:
        """Return 1 / n_actions for each row: (n,)."""
        require_one_per_row("action", action, len(context))
        return np.full(len(context), 1.0 / self.n_actions)

    def draw(self, context: FloatArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Draw integers directly, without a table."""
        action = rng.integers(self.n_actions, size=len(context))
        return action, self.probability(context, action)

    def project(self, context: FloatArray, features: FloatArray) -> FloatArray:
        """Return the mean of the features in every row: (n, k)."""
        return np.tile(features.mean(axis=0), (len(context), 1))


class Softmax(DiscretePolicy):
    """pi(a|x) proportional to exp(beta * score(x, a)).

    The score is private: it is often the expected reward, which an estimator with access to the
    policy must not see.

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
        self._last: tuple[FloatArray, FloatArray] | None = None

    def table(self, context: FloatArray) -> FloatArray:
        """Return softmax(beta * score): (k, n_actions)."""
        table = self._kept_weights(context).copy()
        apply_by_row(np.divide, table, table.sum(axis=1, keepdims=True))
        return table

    def probability(self, context: FloatArray, action: IntArray) -> FloatArray:
        """Divide the action's weight by the row's sum: (n,)."""
        require_one_per_row("action", action, len(context))
        out = np.empty(len(context))
        chunks = row_chunks(len(context), self.n_actions)
        for rows in chunks:
            weights = self._kept_weights(context if len(chunks) == 1 else context[rows])
            picked = np.take_along_axis(weights, action[rows, None], axis=1)[:, 0]
            out[rows] = picked / weights.sum(axis=1)
        return out

    def draw(self, context: FloatArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Draw one action per row with its probability, without normalizing the weights."""
        uniform = rng.random(len(context))
        action = np.empty(len(context), dtype=np.int64)
        probability = np.empty(len(context))
        for rows in row_chunks(len(context), self.n_actions):
            weights = self._weights(context[rows])
            action[rows] = sample_indices(weights, uniform[rows])
            picked = np.take_along_axis(weights, action[rows, None], axis=1)[:, 0]
            probability[rows] = picked / weights.sum(axis=1)
        return action, probability

    def contract(self, context: FloatArray, values: RowValues) -> FloatArray:
        """Sum over actions with weights that are normalized once per row, at the end: (n,)."""
        out = np.empty(len(context))
        for rows in row_chunks(len(context), self.n_actions):
            weights = self._weights(context[rows])
            out[rows] = np.einsum("ka,ka->k", weights, values(rows)) / weights.sum(axis=1)
        return out

    def _kept_weights(self, context: FloatArray) -> FloatArray:
        """Return the weights of a chunk, not to be changed: (k, n_actions)."""
        if self._last is not None and self._last[0] is context:
            return self._last[1]
        weights = self._weights(context)
        # Of read-only arrays alone, for others may change; a megabyte at most.
        if not context.flags.writeable and weights.size <= CHUNK_ENTRIES:
            self._last = (context, weights)
        return weights

    def _logits(self, context: FloatArray) -> FloatArray:
        """Return beta * score as a new array (k, n_actions); -inf where there is no support."""
        return np.multiply(self.beta, self._score(context))

    def _weights(self, context: FloatArray) -> FloatArray:
        """Return exp(logits), scaled to a row maximum of 1: (k, n_actions)."""
        logits = self._logits(context)
        apply_by_row(np.subtract, logits, row_maxima(logits))
        weights: FloatArray = np.exp(logits, out=logits)
        return weights


class EpsilonGreedy(DiscretePolicy):
    """The best action with probability 1 - epsilon, else a uniform one; ties go to the first.

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
        """Return the argmax over actions of score(x, a): (n,)."""
        if self._last is not None and self._last[0] is context:
            return self._last[1]
        best = self.best(context)
        if not context.flags.writeable:
            # Cache the result for read-only arrays alone: others may change.
            self._last = (context, best)
        return best

    def best(self, context: FloatArray) -> IntArray:
        """Compute `greedy` by a scan; subclasses with a faster way override it: (n,)."""
        best = np.empty(len(context), dtype=np.int64)
        for rows in row_chunks(len(context), self.n_actions):
            best[rows] = self._score(context[rows]).argmax(axis=1)
        return best

    def table(self, context: FloatArray) -> FloatArray:
        """Return epsilon / n_actions, plus 1 - epsilon on the greedy action: (k, n_actions)."""
        table = np.full((len(context), self.n_actions), self.epsilon / self.n_actions)
        table[np.arange(len(context)), self.greedy(context)] += 1.0 - self.epsilon
        return table

    def probability(self, context: FloatArray, action: IntArray) -> FloatArray:
        """Compare with the greedy action, without a table: (n,)."""
        require_one_per_row("action", action, len(context))
        return self._chance(self.greedy(context) == action)

    def draw(self, context: FloatArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Draw a uniform action with probability epsilon, else the greedy one."""
        explore = rng.random(len(context)) < self.epsilon
        anywhere = rng.integers(self.n_actions, size=len(context))
        greedy = self.greedy(context)
        action = np.where(explore, anywhere, greedy)
        return action, self._chance(greedy == action)

    def _chance(self, is_greedy: npt.NDArray[np.bool_]) -> FloatArray:
        """Return the probability of actions, of which some are the greedy ones: (n,)."""
        return np.where(is_greedy, 1.0 - self.epsilon, 0.0) + self.epsilon / self.n_actions

    def expect(self, context: FloatArray, f: PairFunction) -> FloatArray:
        """Return (1 - epsilon) f(x, greedy) + epsilon * mean over actions of f(x, a): (n,)."""
        values = f(context, self.greedy(context))
        require_one_per_row("the result of f", values, len(context))
        out = (1.0 - self.epsilon) * values
        if self.epsilon > 0:
            for rows in row_chunks(len(context), self.n_actions):
                out[rows] += self.epsilon * self._values(context[rows], f).mean(axis=1)
        return out

    def contract(self, context: FloatArray, values: RowValues) -> FloatArray:
        """Return (1 - epsilon) * the greedy action's value + epsilon * the row's mean: (n,)."""
        greedy = self.greedy(context)
        if isinstance(values, KnownMeans):
            return (1.0 - self.epsilon) * values.at(greedy) + self.epsilon * values.means()
        out = np.empty(len(context))
        for rows in row_chunks(len(context), self.n_actions):
            block = values(rows)
            picked = np.take_along_axis(block, greedy[rows, None], axis=1)[:, 0]
            out[rows] = (1.0 - self.epsilon) * picked + self.epsilon * block.mean(axis=1)
        return out

    def project(self, context: FloatArray, features: FloatArray) -> FloatArray:
        """Return (1 - epsilon) features[greedy] + epsilon * mean features: (n, k)."""
        greedy = features[self.greedy(context)]
        mean: FloatArray = (1.0 - self.epsilon) * greedy + self.epsilon * features.mean(axis=0)
        return mean


class Tabular(DiscretePolicy):
    """A table of probabilities by discrete context.

    Where the code is the whole context, sums over actions are computed once per distinct context,
    not once per row, so that estimators can sum over very many actions.

    Parameters
    ----------
    probabilities : (n_contexts, n_actions), each row summing to one.
    code : context (k, d_context) -> row of the table (k,).
    """

    def __init__(self, probabilities: FloatArray, code: Callable[[FloatArray], IntArray]) -> None:
        super().__init__(probabilities.shape[1])
        self.probabilities = probabilities
        self.code = code
        self.full_support = bool((probabilities > 0).all())

    @cached_property
    def _cumulative(self) -> FloatArray:
        return np.cumsum(self.probabilities, axis=1)

    def table(self, context: FloatArray) -> FloatArray:
        """Look up rows of the table: (k, n_actions)."""
        return self.probabilities[self.code(context)]

    def probability(self, context: FloatArray, action: IntArray) -> FloatArray:
        """Look up each pair in the table: (n,)."""
        require_one_per_row("action", action, len(context))
        return self.probabilities[self.code(context), action]

    def draw(self, context: FloatArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Draw by the inverse CDF, from cumulative sums that are computed once."""
        uniform = rng.random(len(context))
        code = self.code(context)
        action = np.empty(len(context), dtype=np.int64)
        order = np.argsort(code, kind="stable")
        different, start = np.unique(code[order], return_index=True)
        for value, rows in zip(different, np.split(order, start[1:]), strict=True):
            cumulative = self._cumulative[value]
            drawn = np.searchsorted(cumulative, uniform[rows] * cumulative[-1], side="right")
            # Rounding may leave a threshold beyond the last cumulative sum.
            action[rows] = np.minimum(drawn, self.n_actions - 1)
        return action, self.probabilities[code, action]

    def expect(self, context: FloatArray, f: PairFunction) -> FloatArray:
        """Return the sum over actions of pi(a|x) f(x, a), once per distinct context: (n,)."""
        _, first, back = np.unique(self.code(context), return_index=True, return_inverse=True)
        back = back.reshape(-1)
        if not np.array_equal(context[first][back], context):
            # Rows with the same code may differ in other columns, on which f may depend.
            return super().expect(context, f)
        expected: FloatArray = super().expect(context[first], f)[back]
        return expected

    def project(self, context: FloatArray, features: FloatArray) -> FloatArray:
        """Multiply the table by the features once per context code: (n, k)."""
        return (self.probabilities @ features)[self.code(context)]
