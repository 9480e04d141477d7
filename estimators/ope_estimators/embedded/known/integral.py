"""Expectations over a policy's embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ope_bench import EmbeddingDistribution, FloatArray, IntArray, Policy, View, row_chunks
from ope_estimators.nuisance.reward import FittedFunction, expectation

__all__ = ["MAX_ATOMS", "embedding_expectation"]

MAX_ATOMS = 1024
"""Most embeddings for an exact sum over all of them."""

How = Literal["atoms", "actions", "draws"]
"""How an expectation over embeddings was computed."""


def embedding_expectation(
    view: View,
    f: FittedFunction,
    *,
    context: FloatArray,
    draws: int,
    rng: np.random.Generator,
) -> tuple[FloatArray, How]:
    """Compute E[f(x, g)] over the target policy's embeddings in each context: (k,).

    Exactly over ``atoms``, if they are few; else exactly over ``actions``, if each has one
    embedding; else by Monte Carlo over ``draws`` of action and embedding.

    Parameters
    ----------
    view : grants the target policy and the embedding distribution.
    f : the function to average, of context and embedding.
    context : (k, d_context)
    draws : number of draws per context, for Monte Carlo only.
    rng : generator of the draws.
    """
    policy, embeddings = view.target_policy, view.embedding_distribution
    atoms = embeddings.support()
    if atoms is not None and len(atoms) <= MAX_ATOMS:
        return _over_atoms(policy, embeddings, atoms, context, f), "atoms"
    table = view.action_embedding
    if table is not None:
        return expectation(policy, context, _AtActions(f, table)), "actions"
    total = np.zeros(len(context))
    for _ in range(draws):
        action = policy.sample(context, rng)
        total += f(context, embeddings.sample(action, rng))
    return total / draws, "draws"


@dataclass(frozen=True, eq=False)
class _AtActions:
    """f as a function of context and action.

    Parameters
    ----------
    f : of context and embedding.
    table : (n_actions, d_embedding)
    """

    f: FittedFunction
    table: FloatArray

    def __call__(self, context: FloatArray, action: IntArray) -> FloatArray:
        """Evaluate at pairs: (k,)."""
        return self.f(context, self.table[action])

    def everywhere(self, context: FloatArray, n_actions: int) -> FloatArray:
        """Evaluate at every action in each context: (k * n_actions,)."""
        return self.f.beside(context, self.table).reshape(-1)


def _over_atoms(
    policy: Policy,
    embeddings: EmbeddingDistribution,
    atoms: FloatArray,
    context: FloatArray,
    f: FittedFunction,
) -> FloatArray:
    """Return sum_g pi(g|x) f(x, g), computed once per distinct context: (n,)."""
    different, inverse = np.unique(context, axis=0, return_inverse=True)
    masses = getattr(embeddings, "masses", None)
    out = np.empty(len(different))
    for rows in row_chunks(len(different), len(atoms)):
        part = different[rows]
        # A distribution may have a method for a policy's masses on all atoms.
        if masses is not None:
            mass = masses(policy, part)
        else:
            pairs = np.repeat(part, len(atoms), axis=0), np.tile(atoms, (len(part), 1))
            mass = embeddings.marginal(policy, *pairs).reshape(len(part), len(atoms))
        out[rows] = (mass * f.beside(part, atoms)).sum(axis=1)
    return out[inverse.reshape(-1)]
