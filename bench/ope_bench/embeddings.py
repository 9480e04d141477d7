"""Embedding distributions p(g|a): what an environment knows of how actions are embedded."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from ope_bench.arrays import FloatArray, IntArray
from ope_bench.errors import DataError
from ope_bench.policies import DiscretePolicy, Policy

__all__ = ["DeterministicEmbedding", "EmbeddingDistribution", "FiniteEmbedding", "RowIndex"]


@runtime_checkable
class EmbeddingDistribution(Protocol):
    """A distribution over embeddings given an action."""

    def probability(self, embedding: FloatArray, action: IntArray | FloatArray) -> FloatArray:
        """p(g|a) of each row's pair: (n,)."""

    def sample(self, action: IntArray | FloatArray, rng: np.random.Generator) -> FloatArray:
        """One embedding a row: (n, d_embedding)."""

    def support(self) -> FloatArray | None:
        """The possible embeddings (k, d_embedding), or None where there is no finite list."""

    def marginal(self, policy: Policy, context: FloatArray, embedding: FloatArray) -> FloatArray:
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
        cumulative = np.cumsum(self.table[action], axis=1)
        threshold = rng.random(len(action))[:, None] * cumulative[:, -1:]
        return self.atoms[(cumulative <= threshold).sum(axis=1)]

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
        return (self._index(embedding) == self._group[action]).astype(np.float64)

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
