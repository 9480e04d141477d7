"""Embedding distributions p(g|a), which an environment may know."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ope_bench.base.errors import DataError
from ope_bench.contracts.arrays import FloatArray, IntArray, row_chunks
from ope_bench.contracts.policies import Actions, DiscretePolicy, Softmax
from ope_bench.contracts.random import sample_indices

_MOST_ATOMS = 4096
"""Largest number of combinations of categories that are listed as atoms."""

_MANY_ROWS, _ROWS_OF_CATEGORY, _MANY_ACTIONS = 6_000, 200, 100
"""Rows, all and for each category, and actions, from which one dimension is summed category by
category: with fewer actions, to pick the rows of each category takes longer than their sums."""


@runtime_checkable
class EmbeddingDistribution(Protocol):
    """A distribution over embeddings given an action."""

    def probability(self, embedding: FloatArray, action: Actions) -> FloatArray:
        """Return p(g|a) of each row's pair: (n,)."""

    def sample(self, action: Actions, rng: np.random.Generator) -> FloatArray:
        """Draw one embedding per row: (n, d_embedding)."""

    def support(self) -> FloatArray | None:
        """Return the possible embeddings (k, d_embedding), or None if infinitely many."""

    def marginal(self, policy: Any, context: FloatArray, embedding: FloatArray) -> FloatArray:
        """Return the policy's joint density over embeddings: (n,)."""


class RowIndex:
    """Look up rows of a fixed matrix by exact equality.

    Parameters
    ----------
    rows : (k, d); equal rows have the index of the first of them.
    """

    def __init__(self, rows: FloatArray) -> None:
        # Adding 0.0 turns -0.0 into 0.0, whose bytes differ though the numbers are equal.
        keys = _row_keys(np.asarray(rows, dtype=np.float64))
        self._keys, self._first = np.unique(keys, return_index=True)

    def __call__(self, rows: FloatArray) -> IntArray:
        """Return each row's index in the matrix: (n,). Raises DataError for an unknown row."""
        keys = _row_keys(rows)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        if (self._keys[at] != keys).any():
            row = int(np.argmax(self._keys[at] != keys))
            msg = f"embedding[{row}] = {rows[row]} is not one of the possible embeddings"
            raise DataError(msg)
        return self._first[at].astype(np.int64)


def _row_keys(rows: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    contiguous = np.ascontiguousarray(rows + 0.0, dtype=np.float64)
    # Raw bytes have a fixed sort order, which suffices for a lookup.
    width = contiguous.dtype.itemsize * contiguous.shape[1]
    return contiguous.view(np.dtype((np.void, width)))[:, 0]


class FiniteEmbedding:
    """p(g|a) over finitely many embeddings.

    Parameters
    ----------
    atoms : (k, d_embedding), all different.
    table : (n_actions, k), each row summing to one.
    """

    def __init__(self, atoms: FloatArray, table: FloatArray) -> None:
        self.atoms = atoms
        self.table = table
        self._index = RowIndex(atoms)

    def probability(self, embedding: FloatArray, action: IntArray) -> FloatArray:
        """Look up each pair in the table: (n,)."""
        return self.table[action, self._index(embedding)]

    def sample(self, action: IntArray, rng: np.random.Generator) -> FloatArray:
        """Draw by the inverse CDF: (n, d_embedding)."""
        return self.atoms[sample_indices(self.table[action], rng.random(len(action)))]

    def support(self) -> FloatArray:
        """Return the atoms: (k, d_embedding)."""
        return self.atoms

    def marginal(
        self, policy: DiscretePolicy, context: FloatArray, embedding: FloatArray
    ) -> FloatArray:
        """Return sum_a pi(a|x) p(g|a), by the policy's own `contract` or `project`: (n,)."""
        codes = self._index(embedding)
        return np.take_along_axis(self.masses(policy, context), codes[:, None], axis=1)[:, 0]

    def masses(self, policy: DiscretePolicy, context: FloatArray) -> FloatArray:
        """Return the policy's mass on every atom: (n, k)."""
        return policy.project(context, self.table)


class FactoredEmbedding:
    """p(g|a) = prod_d p_d(g_d|a) over categorical dimensions, shown as codes 0, 1, ...

    Given the action the dimensions are independent; under a policy they are not, so `marginal`
    sums the product over actions. It differs from the product of the dimensions' marginals.

    Parameters
    ----------
    tables : one (n_actions, n_categories) table per dimension, each row summing to one.

    References
    ----------
    "Off-Policy Evaluation for Large Action Spaces via Embeddings" (Saito and Joachims, 2022),
    section 3.

    >>> coins = FactoredEmbedding([np.array([[0.5, 0.5], [0.9, 0.1]])] * 2)
    >>> coins.probability(np.array([[0.0, 1.0]]), np.array([1]))
    array([0.09])
    """

    def __init__(self, tables: Sequence[FloatArray]) -> None:
        self.tables = tuple(tables)
        # Transposed, so that the lookup of a category reads consecutive memory.
        self._columns = tuple(np.ascontiguousarray(table.T) for table in self.tables)

    def probability(self, embedding: FloatArray, action: IntArray) -> FloatArray:
        """Multiply the dimensions' probabilities: (n,)."""
        out = np.ones(len(action))
        for column, code in zip(self._columns, self.codes(embedding), strict=True):
            out *= column[code, action]
        return out

    def sample(self, action: IntArray, rng: np.random.Generator) -> FloatArray:
        """Draw by the inverse CDF, one dimension after another: (n, n_dimensions)."""
        uniform = rng.random((len(action), len(self.tables)))
        draws = zip(self.tables, uniform.T, strict=True)
        drawn = [sample_indices(table[action], one) for table, one in draws]
        return np.stack(drawn, axis=1).astype(np.float64)

    def support(self) -> FloatArray | None:
        """Return all combinations (k, n_dimensions), or None where there are more than 4,096."""
        sizes = [table.shape[1] for table in self.tables]
        if math.prod(sizes) > _MOST_ATOMS:
            return None
        return np.indices(sizes, dtype=np.float64).reshape(len(sizes), -1).T

    def marginal(
        self, policy: DiscretePolicy, context: FloatArray, embedding: FloatArray
    ) -> FloatArray:
        """Return sum_a pi(a|x) prod_d p_d(g_d|a): (n,)."""
        (own, *others), n = self.codes(embedding), len(context)
        n_categories, n_actions = self._columns[0].shape
        few = n < max(_MANY_ROWS, _ROWS_OF_CATEGORY * n_categories) or n_actions < _MANY_ACTIONS
        if few or others or not isinstance(policy, Softmax):
            return policy.contract(context, _Products(self._columns, [own, *others]))
        out = np.empty(n)
        for code, column in enumerate(self._columns[0]):
            out[own == code] = policy.project(context[own == code], column[:, None])[:, 0]
        return out

    def masses(self, policy: DiscretePolicy, context: FloatArray) -> FloatArray:
        """Return the policy's mass on every combination of `support`: (n, k)."""
        joint = self.tables[0]
        for table in self.tables[1:]:
            joint = (joint[:, :, None] * table[:, None, :]).reshape(len(joint), -1)
        return policy.project(context, joint)

    def codes(self, embedding: FloatArray) -> list[IntArray]:
        """Convert embeddings to category codes, (n,) each; DataError for an unknown category."""
        codes = []
        for dimension, table in enumerate(self.tables):
            code = embedding[:, dimension].astype(np.int64)
            wrong = (code != embedding[:, dimension]) | (code < 0) | (code >= table.shape[1])
            if wrong.any():
                row = int(np.argmax(wrong))
                msg = (
                    f"embedding[{row}, {dimension}] = {embedding[row, dimension]} is not a"
                    f" category; expected 0 to {table.shape[1] - 1}"
                )
                raise DataError(msg)
            codes.append(code)
        return codes


class _Products:
    """Values prod_d p_d(g_d|a) of a chunk of rows, for `DiscretePolicy.contract`.

    Rows are gathered into buffers that are reused: allocating megabytes for every chunk would cost
    several times the arithmetic.
    """

    def __init__(self, columns: Sequence[FloatArray], codes: Sequence[IntArray]) -> None:
        self._first, *self._others = zip(columns, codes, strict=True)
        self._out = self._spare = np.empty((0, columns[0].shape[1]))

    def __call__(self, rows: slice) -> FloatArray:
        """Return (k, n_actions), a buffer that the next call overwrites."""
        # Else the buffer would go out as it was allocated, with what the memory held before.
        if not 0 <= rows.start <= rows.stop <= len(self._first[1]):
            msg = f"rows {rows.start} to {rows.stop} are not among {len(self._first[1])}"
            raise DataError(msg)
        size = rows.stop - rows.start
        if size > len(self._out):
            self._out = np.empty((size, self._out.shape[1]))
            self._spare = np.empty((max(1, size // 4), self._out.shape[1]))
        if not self._others:
            return _gather(*self._first, rows, self._out[:size])
        for start in range(0, size, len(self._spare)):
            part = slice(start, min(start + len(self._spare), size))
            of = slice(rows.start + part.start, rows.start + part.stop)
            product, factor = self._out[part], self._spare[: part.stop - part.start]
            _gather(*self._first, of, product)
            for column, code in self._others:
                product *= _gather(column, code, of, factor)
        return self._out[:size]

    def at(self, action: IntArray) -> FloatArray:
        """Return each row's value at an action: (n,)."""
        column, code = self._first
        out: FloatArray = column[code, action]
        for column, code in self._others:
            out *= column[code, action]
        return out

    def means(self) -> FloatArray:
        """Return each row's mean over actions, once per combination of codes: (n,)."""
        columns, codes = zip(self._first, *self._others, strict=True)
        sizes = tuple(map(len, columns))
        if math.prod(sizes) > len(codes[0]):
            return self._means_of_rows(len(codes[0]))
        combination: IntArray = np.ravel_multi_index(codes, sizes)
        seen = np.flatnonzero(np.bincount(combination))
        distinct = _Products(columns, np.unravel_index(seen, sizes))
        means = np.empty(math.prod(sizes))
        means[seen] = distinct._means_of_rows(len(seen))
        found: FloatArray = means[combination]
        return found

    def _means_of_rows(self, n: int) -> FloatArray:
        """Return the mean over actions of each of the n rows: (n,)."""
        out = np.empty(n)
        for rows in row_chunks(n, self._out.shape[1]):
            out[rows] = self(rows).mean(axis=1)
        return out


def _gather(column: FloatArray, code: IntArray, rows: slice, out: FloatArray) -> FloatArray:
    # Codes are validated already; mode "raise" would allocate a buffer of its own.
    return np.take(column, code[rows], axis=0, out=out, mode="clip")


class DeterministicEmbedding:
    """Every action has one embedding; several actions may share it.

    Parameters
    ----------
    action_embedding : (n_actions, d_embedding)
    """

    def __init__(self, action_embedding: FloatArray) -> None:
        self.action_embedding = action_embedding
        self._index = RowIndex(action_embedding)
        self._group = self._index(action_embedding)
        counts = np.bincount(self._group, minlength=len(action_embedding))
        self._injective = bool(counts.max() == 1)

    def probability(self, embedding: FloatArray, action: IntArray) -> FloatArray:
        """Return 1 where the embedding is the action's, else 0: (n,)."""
        return np.where(self._index(embedding) == self._group[action], 1.0, 0.0)

    def sample(self, action: IntArray, rng: np.random.Generator) -> FloatArray:
        """Look up each action's embedding: (n, d_embedding)."""
        return self.action_embedding[action]

    def support(self) -> FloatArray:
        """Return the different embeddings: (k, d_embedding)."""
        return self.action_embedding[np.unique(self._group)]

    def marginal(
        self, policy: DiscretePolicy, context: FloatArray, embedding: FloatArray
    ) -> FloatArray:
        """Return the mass of all actions with the embedding (a mass, not a density): (n,)."""
        group = self._index(embedding)
        if self._injective:
            return policy.probability(context, group)
        out = np.empty(len(context))
        for rows, block in policy.blocks(context):
            out[rows] = np.where(self._group[None, :] == group[rows, None], block, 0.0).sum(axis=1)
        return out
