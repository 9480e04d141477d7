"""Expectations over a policy's embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from ope_bench import EmbeddingDistribution, FloatArray, IntArray, Policy, View, row_chunks
from ope_estimators.nuisance.reward import expectation

__all__ = ["MAX_ATOMS", "embedding_expectation"]

MAX_ATOMS = 1024
"""Most embeddings for an exact sum over all of them."""

EmbeddingFunction = Callable[[FloatArray, FloatArray], FloatArray]
"""f(context (k, d_context), embedding (k, d_embedding)) -> (k,)."""


How = Literal["atoms", "actions", "draws"]
"""How an expectation over embeddings was computed."""


def embedding_expectation(
    view: View,
    f: EmbeddingFunction,
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
    f : the function to average.
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

        def value(x: FloatArray, a: IntArray) -> FloatArray:
            return f(x, table[a])

        return expectation(policy, context, value), "actions"
    total = np.zeros(len(context))
    for _ in range(draws):
        action = policy.sample(context, rng)
        total += f(context, embeddings.sample(action, rng))
    return total / draws, "draws"


def _over_atoms(
    policy: Policy,
    embeddings: EmbeddingDistribution,
    atoms: FloatArray,
    context: FloatArray,
    f: EmbeddingFunction,
) -> FloatArray:
    """Return sum_g pi(g|x) f(x, g), computed once per distinct context: (n,)."""
    different, inverse = np.unique(context, axis=0, return_inverse=True)
    masses = getattr(embeddings, "masses", None)
    out = np.empty(len(different))
    for rows in row_chunks(len(different), len(atoms)):
        part = different[rows]
        pairs = np.repeat(part, len(atoms), axis=0), np.tile(atoms, (len(part), 1))
        # A distribution may have a method for a policy's masses on all atoms.
        mass = (
            masses(policy, part)
            if masses is not None
            else embeddings.marginal(policy, *pairs).reshape(len(part), len(atoms))
        )
        out[rows] = (mass * f(*pairs).reshape(len(part), len(atoms))).sum(axis=1)
    return out[inverse.reshape(-1)]
