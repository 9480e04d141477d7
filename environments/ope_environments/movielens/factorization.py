"""Ratings completed by matrix factorization: alternating ridge regressions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ope_bench import FloatArray, IntArray, stream
from ope_environments.movielens.ratings import Ratings

__all__ = ["Factors", "factorize"]

ROUNDS = 15


@dataclass(frozen=True, eq=False)
class Factors:
    """rating(u, i) = mean + user[u, 0] + item[i, 0] + user[u, 1:] . item[i, 1:].

    Parameters
    ----------
    mean : mean of the ratings.
    user : (n_users, 1 + rank), the bias first
    item : (n_items, 1 + rank), the bias first
    residual_std : standard deviation of the residuals.
    """

    mean: float
    user: FloatArray
    item: FloatArray
    residual_std: float

    def __call__(self, user: FloatArray) -> FloatArray:
        """Return users' ratings of all items, clipped to [1, 5]: (k, n_items)."""
        ratings = self.mean + user[:, :1] + self.item[:, 0] + user[:, 1:] @ self.item[:, 1:].T
        return np.clip(ratings, 1.0, 5.0)


@lru_cache(maxsize=4)
def factorize(ratings: Ratings, rank: int, ridge: float, seed: int) -> Factors:
    """Fit biases and ``rank`` factors of users and items, by squared error with a ridge penalty.

    Parameters
    ----------
    ratings : the observed ratings.
    rank : number of factors, without the biases.
    ridge : penalty on each squared coefficient, in units of one squared rating.
    seed : seed of the initial factors.
    """
    rng = stream("movielens factors", seed)
    mean = float(ratings.rating.mean())
    user = np.zeros((ratings.n_users, 1 + rank))
    item = 0.1 * rng.standard_normal((ratings.n_items, 1 + rank))
    item[:, 0] = 0.0
    centered = ratings.rating - mean
    for _ in range(ROUNDS):
        _solve(user, item, ratings.user, ratings.item, centered, ridge)
        _solve(item, user, ratings.item, ratings.user, centered, ridge)
    fitted = user[ratings.user, 0] + item[ratings.item, 0]
    fitted += np.einsum("nk,nk->n", user[ratings.user, 1:], item[ratings.item, 1:])
    return Factors(mean, user, item, float((centered - fitted).std()))


def _solve(
    mine: FloatArray,
    other: FloatArray,
    at: IntArray,
    other_at: IntArray,
    centered: FloatArray,
    ridge: float,
) -> None:
    """Update one side given the other, in place: a ridge regression per row, all rows at once."""
    design = other[other_at].copy()
    outcome = centered - design[:, 0]
    design[:, 0] = 1.0
    n, width = mine.shape
    gram = np.empty((n, width, width))
    moment = np.empty((n, width))
    for j in range(width):
        moment[:, j] = np.bincount(at, design[:, j] * outcome, n)
        for k in range(j + 1):
            gram[:, j, k] = gram[:, k, j] = np.bincount(at, design[:, j] * design[:, k], n)
    gram += ridge * np.eye(width)
    mine[:] = np.linalg.solve(gram, moment[:, :, None])[:, :, 0]
