"""`movielens`: recommend one of 1,682 films, with ratings completed by factorization."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Gt, Le

from ope_bench import (
    Column,
    DataError,
    DeterministicEmbedding,
    Environment,
    EpsilonGreedy,
    FloatArray,
    IntArray,
    RowIndex,
    Schema,
    Softmax,
    Tabular,
)
from ope_environments.movielens.factorization import factorize
from ope_environments.movielens.ratings import Ratings, read_ratings
from ope_environments.populations.population import (
    FromPopulation,
    Population,
    bernoulli,
    gaussian,
    value_of,
)

__all__ = ["Movielens"]


class Movielens(FromPopulation, Environment):
    """Recommend one of 1,682 films; missing ratings come from matrix factorization.

    A row's context is a user, drawn without replacement where ``n_samples`` is at most the number
    of users, else with; rows of one user are one unit. The context is the bias and the factors of

        q(u, a) = clip(mean + b_u + b_a + p_u . p_a, 1, 5),

    fitted to the 100,000 ratings by alternating ridge regressions. The reward is q plus normal
    noise of the residuals' standard deviation (``reward="rating"``), or a like with probability
    (q - 1) / 4 (``reward="like"``). Logging is softmax(beta q); the target policy is
    epsilon-greedy on q, or softmax(target_beta q).

    Source
    ------
    MovieLens-100K from ``folder`` (``u.data`` and ``u.item`` as published, or RecBole's
    ``ml-100k.inter`` and ``ml-100k.item``), or from an installed ``recbole`` (``pip install
    --no-deps recbole==1.2.1``), which is found without being imported. GroupLens allows research
    use but no redistribution, so ope-bench does not include the data.

    Truth
    -----
    Exact: the mean over users of the sum over films of pi1(a|u) q(u, a).

    Access: everything. The embedding of a film is a function of it: its bias and factors, which
    determine the film's rewards; or its genres, which many films share.

    Traps: the reward is of the same family as a factorization model, so reward models that are
    bilinear in context and factors are exact here. Films with few ratings have factors near 0.
    With genres the reward depends on more than the embedding, and even exact embedding weights are
    biased. Ratings with noise leave the range of 1 to 5.

    Parameters
    ----------
    n_samples : number of logged rows, and of target rows.
    folder : folder of the published files; an installed package's copy if None.
    rank : number of factors of the model.
    ridge : penalty of the model's coefficients.
    factor_seed : seed of the initial factors.
    reward : a noisy rating, or a like.
    embedding : of the films.
    beta : inverse temperature of the logging policy.
    target : the target policy.
    epsilon : exploration share of the epsilon-greedy target.
    target_beta : inverse temperature of the softmax target.
    shared_contexts : whether row i of both samples has the same context.

    References
    ----------
    Data: "The MovieLens Datasets: History and Context" (Harper and Konstan, 2015). Model: "Matrix
    Factorization Techniques for Recommender Systems" (Koren, Bell and Volinsky, 2009), equation 5.
    """

    version = 2

    n_samples: Annotated[int, Ge(1)] = 10_000
    folder: str | None = None
    rank: Annotated[int, Ge(1), Le(200)] = 8
    ridge: Annotated[float, Gt(0)] = 10.0
    factor_seed: Annotated[int, Ge(0)] = 0
    reward: Literal["rating", "like"] = "rating"
    embedding: Literal["factors", "genres"] = "factors"
    beta: float = 1.0
    target: Literal["epsilon-greedy", "softmax"] = "epsilon-greedy"
    epsilon: Annotated[float, Ge(0), Le(1)] = 0.1
    target_beta: float = 4.0
    shared_contexts: bool = False

    @property
    def data_files(self) -> tuple[str, ...]:
        """The folder of the ratings, if any."""
        return () if self.folder is None else (self.folder,)

    def population(self, world_rng: np.random.Generator) -> Population:
        """Build the population of users and the two policies."""
        return _world(
            read_ratings(self.folder),
            (self.rank, self.ridge, self.factor_seed),
            self.reward == "like",
            self.embedding == "genres",
            self.beta,
            self.epsilon if self.target == "epsilon-greedy" else None,
            self.target_beta,
        )


@lru_cache(maxsize=4)
def _world(
    ratings: Ratings,
    model: tuple[int, float, int],
    likes: bool,
    genres: bool,
    beta: float,
    epsilon: float | None,
    target_beta: float,
) -> Population:
    factors = factorize(ratings, *model)
    n_items = ratings.n_items
    rating = factors(factors.user)
    mean = (rating - 1.0) / 4.0 if likes else rating
    index = RowIndex(factors.user)

    def user_of(context: FloatArray) -> IntArray:
        try:
            return index(context)
        except DataError as exc:
            msg = "a context is not a user of the data, so it has no policy"
            raise DataError(msg) from exc

    target = (
        Softmax(factors, n_items, target_beta)
        if epsilon is None
        else EpsilonGreedy(factors, n_items, epsilon)
    )
    logging = Softmax(factors, n_items, beta)
    policies = [Tabular(one.table(factors.user), user_of) for one in (logging, target)]
    shown = ratings.genres if genres else factors.item
    column = Column("categorical", (0.0, 1.0)) if genres else Column("atoms")

    def reward_at(row: IntArray, action: IntArray) -> FloatArray:
        return mean[row, action]

    return Population(
        context=factors.user,
        schema=Schema((Column("atoms"),) * factors.user.shape[1], (column,) * shown.shape[1]),
        logging=policies[0],
        target=policies[1],
        embedding=DeterministicEmbedding(shown),
        reward_at=reward_at,
        noise=bernoulli if likes else gaussian(factors.residual_std),
        expected=value_of(policies[1], factors.user, lambda rows: mean[rows]),
    )
