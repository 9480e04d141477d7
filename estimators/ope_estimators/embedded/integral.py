"""Expectations over the embeddings that a policy shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from ope_bench.arrays import FloatArray, IntArray, row_chunks
from ope_bench.embeddings import EmbeddingDistribution
from ope_bench.policies import Policy
from ope_bench.view import View
from ope_estimators.nuisance.reward import expectation

__all__ = ["MAX_ATOMS", "embedding_expectation"]

MAX_ATOMS = 1024
"""Embeddings up to which an expectation is summed over all of them."""

EmbeddingFunction = Callable[[FloatArray, FloatArray], FloatArray]
"""f(context (k, d_context), embedding (k, d_embedding)) -> (k,)."""


def embedding_expectation(
    view: View, f: EmbeddingFunction, *, draws: int, rng: np.random.Generator
) -> tuple[FloatArray, Literal["atoms", "actions", "draws"]]:
    """E over embeddings g of f(x, g) under the target policy, in each logged context: (n,).

    Over ``atoms``, exactly, where they can be listed and are few; else over ``actions``, exactly,
    where each has one embedding; else by Monte Carlo over ``draws`` of action and embedding.

    Parameters
    ----------
    view : grants the target policy and the embedding distribution.
    f : what is averaged.
    draws : number of draws a context, for Monte Carlo only.
    rng : of the draws.
    """
    policy, embeddings, context = view.target_policy, view.embedding_distribution, view.context
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
    """sum_g pi(g|x) f(x, g), once for each different context: (n,)."""
    different, inverse = np.unique(context, axis=0, return_inverse=True)
    masses = getattr(embeddings, "masses", None)
    out = np.empty(len(different))
    for rows in row_chunks(len(different), len(atoms)):
        part = different[rows]
        pairs = np.repeat(part, len(atoms), axis=0), np.tile(atoms, (len(part), 1))
        # A distribution that can give a policy's masses on all atoms in one pass may say so.
        mass = (
            masses(policy, part)
            if masses is not None
            else embeddings.marginal(policy, *pairs).reshape(len(part), len(atoms))
        )
        out[rows] = (mass * f(*pairs).reshape(len(part), len(atoms))).sum(axis=1)
    return out[inverse.reshape(-1)]
