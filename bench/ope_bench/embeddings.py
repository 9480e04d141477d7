"""Embedding distributions p(g|a): what an environment knows of how actions are embedded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ope_bench.arrays import FloatArray, IntArray
from ope_bench.errors import DataError
from ope_bench.policies import Actions, DiscretePolicy, choose

__all__ = [
    "DeterministicEmbedding",
    "EmbeddingDistribution",
    "FactoredEmbedding",
    "FiniteEmbedding",
    "RowIndex",
]

MOST_ATOMS = 4096
"""Longest list of embeddings that a product of categories is written out as."""


@runtime_checkable
class EmbeddingDistribution(Protocol):
    """A distribution over embeddings given an action."""

    def probability(self, embedding: FloatArray, action: Actions) -> FloatArray:
        """p(g|a) of each row's pair: (n,)."""

    def sample(self, action: Actions, rng: np.random.Generator) -> FloatArray:
        """One embedding a row: (n, d_embedding)."""

    def support(self) -> FloatArray | None:
        """The possible embeddings (k, d_embedding), or None where there is no finite list."""

    def marginal(self, policy: Any, context: FloatArray, embedding: FloatArray) -> FloatArray:
        """The policy's density over embeddings, joint over dimensions: (n,)."""


class RowIndex:
    """Finds rows of a fixed matrix by exact equality.

    Parameters
    ----------
    rows : (k, d); of equal rows the first stands for all.
    """

    def __init__(self, rows: FloatArray) -> None:
        # Adding 0.0 turns -0.0 into 0.0, whose bytes differ though the numbers are equal.
        keys = _row_keys(np.asarray(rows, dtype=np.float64))
        self._keys, self._first = np.unique(keys, return_index=True)

    def __call__(self, rows: FloatArray) -> IntArray:
        """Index of each row in the matrix: (n,). Raises DataError for a row that is not there."""
        keys = _row_keys(rows)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        if (self._keys[at] != keys).any():
            row = int(np.argmax(self._keys[at] != keys))
            msg = f"embedding[{row}] = {rows[row]} is not one of the possible embeddings"
            raise DataError(msg)
        return self._first[at].astype(np.int64)


def _row_keys(rows: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    contiguous = np.ascontiguousarray(rows + 0.0, dtype=np.float64)
    # Raw bytes sort in some fixed order, which is all that a lookup needs.
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
        """A gather: (n,)."""
        return self.table[action, self._index(embedding)]

    def sample(self, action: IntArray, rng: np.random.Generator) -> FloatArray:
        """Inverse-CDF sampling: (n, d_embedding)."""
        return self.atoms[choose(self.table[action], rng.random(len(action)))]

    def support(self) -> FloatArray:
        """The atoms: (k, d_embedding)."""
        return self.atoms

    def marginal(
        self, policy: DiscretePolicy, context: FloatArray, embedding: FloatArray
    ) -> FloatArray:
        """sum_a pi(a|x) p(g|a), in the policy's own structure: (n,)."""
        codes = self._index(embedding)
        mass = policy.project(context, self.table)
        return np.take_along_axis(mass, codes[:, None], axis=1)[:, 0]

    def masses(self, policy: DiscretePolicy, context: FloatArray) -> FloatArray:
        """The policy's mass on every atom: (n, k)."""
        return policy.project(context, self.table)


class FactoredEmbedding:
    """p(g|a) = prod_d p_d(g_d|a) over categorical dimensions, shown as codes 0, 1, ...

    Given the action the dimensions are independent; under a policy they are not, so `marginal`
    sums the product over actions. The product of the dimensions' marginals is something else.

    Parameters
    ----------
    tables : one (n_actions, n_categories) a dimension, each row summing to one.

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
        # One category a row, so that looking up a category reads consecutive numbers.
        self._columns = tuple(np.ascontiguousarray(table.T) for table in self.tables)

    def probability(self, embedding: FloatArray, action: IntArray) -> FloatArray:
        """A product of gathers: (n,)."""
        out = np.ones(len(action))
        for column, code in zip(self._columns, self.codes(embedding), strict=True):
            out *= column[code, action]
        return out

    def sample(self, action: IntArray, rng: np.random.Generator) -> FloatArray:
        """Inverse-CDF sampling, dimension by dimension: (n, n_dimensions)."""
        uniform = rng.random((len(action), len(self.tables)))
        drawn = [
            choose(table[action], uniform[:, dimension])
            for dimension, table in enumerate(self.tables)
        ]
        return np.stack(drawn, axis=1).astype(np.float64)

    def support(self) -> FloatArray | None:
        """All combinations (k, n_dimensions), or None where they are more than 4,096."""
        sizes = [table.shape[1] for table in self.tables]
        if math.prod(sizes) > MOST_ATOMS:
            return None
        return np.indices(sizes, dtype=np.float64).reshape(len(sizes), -1).T

    def marginal(
        self, policy: DiscretePolicy, context: FloatArray, embedding: FloatArray
    ) -> FloatArray:
        """sum_a pi(a|x) prod_d p_d(g_d|a): (n,)."""
        return policy.contract(context, _Products(self._columns, self.codes(embedding)))

    def masses(self, policy: DiscretePolicy, context: FloatArray) -> FloatArray:
        """The policy's mass on every combination of `support`: (n, k)."""
        joint = self.tables[0]
        for table in self.tables[1:]:
            joint = (joint[:, :, None] * table[:, None, :]).reshape(len(joint), -1)
        return policy.project(context, joint)

    def codes(self, embedding: FloatArray) -> list[IntArray]:
        """Each dimension's category, (n,) each. Raises DataError for one that does not exist."""
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
    """prod_d p_d(g_d|a) of a chunk of rows and all actions: values for `DiscretePolicy.contract`.

    Gathered rows land in buffers that stay: fresh megabytes for every chunk would cost several
    times the arithmetic.
    """

    def __init__(self, columns: Sequence[FloatArray], codes: Sequence[IntArray]) -> None:
        self._first, *self._others = zip(columns, codes, strict=True)
        self._out = self._spare = np.empty((0, columns[0].shape[1]))

    def __call__(self, rows: slice) -> FloatArray:
        """(k, n_actions), overwritten by the next call."""
        size = rows.stop - rows.start
        if size > len(self._out):
            self._out = np.empty((size, self._out.shape[1]))
            self._spare = np.empty((max(1, size // 4), self._out.shape[1]))
        for start in range(0, size, len(self._spare)):
            part = slice(start, min(start + len(self._spare), size))
            of = slice(rows.start + part.start, rows.start + part.stop)
            product, factor = self._out[part], self._spare[: part.stop - part.start]
            _gather(*self._first, of, product)
            for column, code in self._others:
                product *= _gather(column, code, of, factor)
        return self._out[:size]


def _gather(column: FloatArray, code: IntArray, rows: slice, out: FloatArray) -> FloatArray:
    # Codes were checked; mode "raise" would fill a buffer of its own first.
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
        """1 where the embedding is the action's own, else 0: (n,)."""
        return np.where(self._index(embedding) == self._group[action], 1.0, 0.0)

    def sample(self, action: IntArray, rng: np.random.Generator) -> FloatArray:
        """A gather: (n, d_embedding)."""
        return self.action_embedding[action]

    def support(self) -> FloatArray:
        """The different embeddings: (k, d_embedding)."""
        return self.action_embedding[np.unique(self._group)]

    def marginal(
        self, policy: DiscretePolicy, context: FloatArray, embedding: FloatArray
    ) -> FloatArray:
        """Mass of all actions that share the embedding, a ratio of masses, not densities: (n,)."""
        group = self._index(embedding)
        if self._injective:
            return policy.probability(context, group)
        out = np.empty(len(context))
        for rows, block in policy.blocks(context):
            out[rows] = np.where(self._group[None, :] == group[rows, None], block, 0.0).sum(axis=1)
        return out
