"""`behance`: appreciates of images, the paper's semi-synthetic experiment."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt, Le

from ope_bench import (
    Column,
    DeterministicEmbedding,
    Environment,
    FloatArray,
    IntArray,
    ParameterError,
    Problem,
    Schema,
    Tabular,
    Truth,
    problem_rows,
    stream,
)
from ope_environments.behance.policies import creator_code, epsilon_top, popularity
from ope_environments.behance.prepared import Prepared, load
from ope_environments.behance.surrogate import ACTIVE_FEATURES, prepared_surrogate
from ope_environments.populations.population import FromPopulation, Population, bernoulli

__all__ = ["Behance", "appreciate_probability"]


class Behance(FromPopulation, Environment):
    """Recommend one of 178,787 images to users who are creators of images or not.

    The context C is whether the user is a creator, the action A an image, the embedding G the
    first principal components of its 4,096 neural network features, the reward Y an appreciate:

        p(Y = 1 | a, c) = max_probability * n(a, c) / max_a' n(a', c)

    where n(a, c) counts the appreciates of a by users with context c. Logging is uniform
    (``beta = 0``), the target epsilon-greedy; a row's context is 1 with probability .5, since in
    the data it is .003.

    Source
    ------
    Without ``prepared`` the data are a *surrogate*: generated, with the published numbers of
    items, users and appreciates, the published shares of users with one and two appreciates,
    popularity by a power law with the published maximum, one appreciated item without features,
    creators behind .3 % of the appreciates, and features of low rank that are correlated with
    popularity. Its numbers are marked as a surrogate's everywhere, and are not the paper's. With
    the three published files in a folder (they are behind
    https://cseweb.ucsd.edu/~jmcauley/datasets.html#behance), run ``ope-bench data behance --from
    FOLDER`` once, and name the file that it writes as ``prepared``.

    Truth
    -----
    Exact: the sum over contexts and images of p(c) pi1(a|c) p(Y=1|a,c). For the epsilon-greedy
    target it is ``(1 - epsilon) * max_probability + epsilon * mean probability``, .0900 at the
    defaults. ``empirical`` is the mean reward of the target sample, the paper's V_s.

    Access: everything. Embeddings are a function of the action, so their exact weights are ratios
    of masses; where no two images share one, they equal the weights of actions.

    Choices where the paper does not specify
    ----------------------------------------
    - Of images with equal counts, the one with the lowest id is greedy; images are numbered in the
      order of their ids. Ties are common among creators, who have few appreciates.
    - The one published image without features is not an action.
    - Where no creator appreciated anything, every reward of context 1 is 0.
    - Both samples have the same contexts (``shared_contexts``).
    - Components are neither scaled nor whitened.

    Traps: with uniform logging of 10,000 rows two or three rewards are not zero, and the greedy
    image is in the logs of a context once in 36 replicates. Estimates are then about 0 and have an
    RMSE of .09, which is V itself: an RMSE of .09 means that nothing was estimated. Compare errors
    with V, or use a target that the logs support: ``top-k`` with many images, ``popularity``, both
    with a larger ``max_probability``, and logging by popularity (``beta``). A larger epsilon
    lowers V, but does not make estimation easier.

    Parameters
    ----------
    n_samples : number of logged rows, and of target rows.
    prepared : path of a prepared file; the surrogate where None.
    fingerprint : required start of the prepared file's fingerprint, so that results are tied to
        its content.
    items, users, appreciates, surrogate_seed, components : of the surrogate.
    target : the target policy: epsilon-greedy; uniform over the ``top_k`` most appreciated of
        the context, with exploration epsilon; or in proportion to (1 + n)**target_beta.
    epsilon : exploration share of the target policy.
    top_k : number of images of the top-k target.
    target_beta : sharpness of the popularity target.
    beta : sharpness of the logging policy, (1 + n)**beta; 0 is uniform.
    max_probability : probability of an appreciate for a context's most appreciated image.
    creator_probability : probability of context 1.
    shared_contexts : whether row i of both samples has the same context.
    bootstrap : None draws every data set anew; a number draws one data set, by that number, and
        each replicate takes rows of it with replacement. Copies of a row are one unit. The
        empirical truth is then that data set's own.

    References
    ----------
    Data: "Vista: A Visually, Socially, and Temporally-aware Model for Artistic Recommendation"
    (He, Fang, Wang and McAuley, 2016).

    >>> world = Behance(n_samples=100, items=200, users=100, appreciates=2000)
    >>> problem, truth = world.sample(
    ...     world_rng=np.random.default_rng(0), logged_rng=np.random.default_rng(1),
    ...     target_rng=np.random.default_rng(2))
    >>> problem.n_actions, problem.embedding.shape, world.origin_note
    (199, (100, 4), 'surrogate (items=200, users=100, appreciates=2,000, seed=0)')
    """

    added_parameters: ClassVar[Mapping[str, Any]] = {"bootstrap": None}

    check_params = {"items": 300, "users": 200, "appreciates": 3000}  # noqa: RUF012

    n_samples: Annotated[int, Ge(1)] = 10_000
    prepared: str | None = None
    fingerprint: str | None = None
    items: Annotated[int, Ge(10), Le(5_000_000)] = 178_788
    users: Annotated[int, Ge(10), Le(5_000_000)] = 63_497
    appreciates: Annotated[int, Ge(10), Le(50_000_000)] = 1_000_000
    surrogate_seed: Annotated[int, Ge(0)] = 0
    components: Annotated[int, Ge(1), Le(ACTIVE_FEATURES)] = 4
    target: Literal["epsilon-greedy", "top-k", "popularity"] = "epsilon-greedy"
    epsilon: Annotated[float, Ge(0), Le(1)] = 0.1
    top_k: Annotated[int, Ge(1)] = 100
    target_beta: float = 1.0
    beta: float = 0.0
    max_probability: Annotated[float, Gt(0), Le(1)] = 0.1
    creator_probability: Annotated[float, Ge(0), Le(1)] = 0.5
    shared_contexts: bool = True
    bootstrap: Annotated[int, Ge(0)] | None = None

    @property
    def data_files(self) -> tuple[str, ...]:
        """The prepared file, if any."""
        return () if self.prepared is None else (self.prepared,)

    @property
    def origin_note(self) -> str:
        """The data: the surrogate and its size, or the prepared file and its fingerprint."""
        if self.prepared is None:
            return (
                f"surrogate (items={self.items:,}, users={self.users:,},"
                f" appreciates={self.appreciates:,}, seed={self.surrogate_seed})"
            )
        data = load(self.prepared)
        return f"{data.label}; fingerprint {data.fingerprint[:12]}"

    def population(self, world_rng: np.random.Generator) -> Population:
        """Build the data and the two policies."""
        return _world(
            self._data(),
            (self.target, self.epsilon, self.top_k, self.target_beta, self.beta),
            self.max_probability,
            self.creator_probability,
        )

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """Sample one problem and its truth."""
        if self.bootstrap is None:
            return super().sample(
                world_rng=world_rng, logged_rng=logged_rng, target_rng=target_rng
            )
        problem, truth = super().sample(
            world_rng=world_rng,
            logged_rng=stream("behance", "logged", self.bootstrap),
            target_rng=stream("behance", "target", self.bootstrap),
        )
        rows = logged_rng.integers(self.n_samples, size=self.n_samples)
        target = rows
        if not self.shared_contexts:
            target = target_rng.integers(self.n_samples, size=self.n_samples)
        return problem_rows(problem, rows, target), truth

    def _data(self) -> Prepared:
        if self.prepared is None:
            if self.fingerprint is not None:
                msg = "behance: fingerprint is given without prepared; name the prepared file"
                raise ParameterError(msg)
            return prepared_surrogate(
                self.items, self.users, self.appreciates, self.surrogate_seed, self.components
            )
        data = load(self.prepared)
        if self.fingerprint and not data.fingerprint.startswith(self.fingerprint):
            msg = (
                f"behance: {self.prepared} has fingerprint {data.fingerprint[:12]},"
                f" not {self.fingerprint}"
            )
            raise ParameterError(msg)
        return data


def appreciate_probability(counts: IntArray, max_probability: float) -> FloatArray:
    """Return max_probability * n(a, c) / max n(., c), 0 without appreciates: (2, n_items).

    >>> appreciate_probability(np.array([[1, 2], [0, 0]]), 0.1)
    array([[0.05, 0.1 ],
           [0.  , 0.  ]])
    """
    most = np.maximum(counts.max(axis=1, keepdims=True), 1)
    probability: FloatArray = max_probability * (counts / most)
    return probability


@lru_cache(maxsize=4)
def _world(
    data: Prepared,
    policies: tuple[str, float, int, float, float],
    max_probability: float,
    creator_probability: float,
) -> Population:
    target, epsilon, top_k, target_beta, beta = policies
    counts = data.counts
    n_items = counts.shape[1]
    if target == "popularity":
        chosen = popularity(counts, target_beta)
    else:
        chosen = epsilon_top(
            counts, 1 if target == "epsilon-greedy" else min(top_k, n_items), epsilon
        )
    probability = appreciate_probability(counts, max_probability)
    share = np.array([1.0 - creator_probability, creator_probability])
    embedding = data.embedding.copy()
    embedding.flags.writeable = False
    return Population(
        context=np.array([[0.0], [1.0]]),
        schema=Schema(
            (Column("categorical", (0.0, 1.0)),), (Column("atoms"),) * embedding.shape[1]
        ),
        logging=Tabular(popularity(counts, beta), creator_code),
        target=Tabular(chosen, creator_code),
        embedding=DeterministicEmbedding(embedding),
        reward_at=lambda row, action: probability[row, action],
        noise=bernoulli,
        expected=float(share @ (chosen * probability).sum(axis=1)),
        share=share,
    )
