"""`full-feedback`: a table that scores every action in every row, as a bandit."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Gt, Le, Lt

from ope_bench import (
    Column,
    DeterministicEmbedding,
    DiscretePolicy,
    Environment,
    EpsilonGreedy,
    FloatArray,
    IntArray,
    ParameterError,
    Schema,
    Softmax,
    stream,
)
from ope_environments.full_feedback.judged_prompts import read_judged_prompts
from ope_environments.full_feedback.learning_curves import read_learning_curves
from ope_environments.full_feedback.scores import ScoreColumns, ScoreTable, generated, read_scores
from ope_environments.populations.design import Design
from ope_environments.populations.population import FromPopulation, Population, bernoulli, value_of

__all__ = ["FullFeedback"]

PolicyKind = Literal["uniform", "softmax", "epsilon-greedy", "best-fixed"]

DATASETS = {"paretobandit": read_judged_prompts, "lcdb": read_learning_curves}
"""What reads the table of an installed package."""

_COLUMNS = ("context", "scores", "costs", "row", "action", "score", "cost", "vector")

RIDGE = 10.0
"""Penalty of the linear models from which policies are made."""


class FullFeedback(FromPopulation, Environment):
    """A table with a score of every action in every row, as a bandit: real rewards, exact truth.

    A row's columns are its context, and the reward of an action is its score minus
    ``cost_weight`` times its cost, without noise unless ``noise`` adds it. So are tables of
    prompts by language models whose answers were all judged: a router's logs are one column a row
    of it. A part of the rows trains a linear model of each action's reward, the rest is the
    population of contexts. Policies follow the model's predictions: softmax, epsilon-greedy, or,
    ``best-fixed``, the action that is best on average, with exploration like epsilon-greedy. The
    logging policy's model is trained on ``logging_train_share`` of the training rows.

    Source
    ------
    ``path``: CSV or parquet. Wide: one line a row, ``scores`` (and ``costs``) with a column for
    each action. Long: one line for each row and action, in the columns ``row``, ``action``,
    ``score`` and, if any, ``cost``. Contexts are columns, or a parquet column of embeddings,
    ``vector``. ``dataset=paretobandit`` reads the 3,609 prompts by 3 models of that package, with
    judged rewards in [0, 1] and costs in dollars
    (``pip install --no-deps paretobandit==0.1.1``; nothing of it is distributed here). Its
    contexts are the prompt's length, source and words. ``dataset=lcdb`` reads that package's
    learning curves: rows are data sets, actions classifiers, scores their accuracy
    (``pip install --no-deps lcdb==0.1.0``). Without any, a made table: 4,000 invented prompts by
    12 invented models, which is no real source.

    Truth
    -----
    Exact: the mean over the evaluation rows of sum_a pi1(a|x) reward(x, a).

    Access: everything. The embedding of an action is one-hot, or the principal components of its
    rewards over the training rows.

    Traps: the reward is a function of row and action; with contexts that tell rows apart no noise
    is left to average out. Beyond as many samples as evaluation rows, rows are drawn again and
    copies are one unit.

    Parameters
    ----------
    n_samples : number of logged rows, and of target rows; None for the number of evaluation rows.
    path : the table; made where None, unless there is a dataset.
    context : its columns that describe a row; words become indicators.
    scores, costs : columns of a wide table, one for each action; None for a long one.
    row, action, score, cost : columns of a long table; no costs where None.
    vector : parquet column of embeddings, context too.
    cost_weight : price of a unit of cost in units of the score.
    train_share : share of the rows that models are trained on.
    logging_train_share : share of those that the logging policy's model is trained on.
    split_seed : of the split.
    logging, target : kinds of the policies.
    logging_beta, target_beta : inverse temperatures of softmax, in standard deviations of the
        predicted rewards.
    logging_epsilon, target_epsilon : shares of uniform exploration.
    embedding : of the actions.
    d_embedding : number of principal components; all where there are fewer.
    shared_contexts : whether row i of both samples has the same context.
    dataset : a table of an installed package.
    noise : ``bernoulli``: rewards are 1 with the score as their probability, else 0, so that the
        truth is as before; scores in [0, 1] without costs alone. A reward then has the variance
        q(1 - q) around its mean q, in place of none. Of 1,000 rows of ``paretobandit`` errors are
        2.6 (``ipws``) to 3.5 times (``dm``) as large, as with a seventh to a twelfth of the rows.

    References
    ----------
    "RouterBench: A Benchmark for Multi-LLM Routing System" (Hu et al., 2024): such tables.
    "LCDB 1.0: An Extensive Learning Curves Database for Classification Tasks" (Mohr et al., 2022).

    >>> problem, truth = FullFeedback(n_samples=50).sample(
    ...     world_rng=np.random.default_rng(0), logged_rng=np.random.default_rng(1),
    ...     target_rng=np.random.default_rng(2))
    >>> problem.n_actions, truth.expected_se
    (12, 0.0)
    """

    check_params = {"n_samples": 300}  # noqa: RUF012
    added_parameters = {"dataset": None, "noise": "none"}  # noqa: RUF012

    n_samples: Annotated[int, Ge(1)] | None = 1000
    path: str | None = None
    context: list[str] | None = None
    scores: list[str] | None = None
    costs: list[str] | None = None
    row: str = "row"
    action: str = "action"
    score: str = "score"
    cost: str | None = None
    vector: str | None = None
    cost_weight: Annotated[float, Ge(0)] = 0.0
    train_share: Annotated[float, Gt(0), Lt(1)] = 0.3
    logging_train_share: Annotated[float, Gt(0), Le(1)] = 0.2
    split_seed: Annotated[int, Ge(0)] = 0
    logging: PolicyKind = "softmax"
    target: PolicyKind = "epsilon-greedy"
    logging_beta: float = 1.0
    target_beta: float = 4.0
    logging_epsilon: Annotated[float, Ge(0), Le(1)] = 0.2
    target_epsilon: Annotated[float, Ge(0), Le(1)] = 0.1
    embedding: Literal["one-hot", "scores"] = "scores"
    d_embedding: Annotated[int, Ge(1)] = 4
    shared_contexts: bool = False
    dataset: Literal["paretobandit", "lcdb"] | None = None
    noise: Literal["none", "bernoulli"] = "none"

    @property
    def data_files(self) -> tuple[str, ...]:
        """The table, if any."""
        return () if self.path is None else (self.path,)

    @property
    def origin_note(self) -> str:
        """Say that the table is made, where it is."""
        made = self.path is None and self.dataset is None
        return "a made table: invented prompts and models" if made else ""

    def population(self, world_rng: np.random.Generator) -> Population:
        """Build the population of evaluation rows and the two policies."""
        if self.path is not None and self.dataset is not None:
            msg = "full-feedback: give a path or a dataset, not both"
            raise ParameterError(msg)
        named = [name for name in _COLUMNS if getattr(self, name) != getattr(type(self), name)]
        if named and self.path is None:
            table = "the made table" if self.dataset is None else f"dataset={self.dataset}"
            msg = f"full-feedback: {named[0]} names columns of a path; {table} has its own"
            raise ParameterError(msg)
        if self.dataset is not None:
            found = DATASETS[self.dataset]()
        elif self.path is None:
            found = generated()
        else:
            columns = ScoreColumns(
                tuple(self.context or ()),
                tuple(self.scores or ()),
                tuple(self.costs or ()),
                self.row,
                self.action,
                self.score,
                self.cost,
                self.vector,
            )
            found = read_scores(self.path, columns)
        return _world(
            found,
            int(world_rng.integers(2**63)),
            (self.train_share, self.logging_train_share, self.split_seed, self.cost_weight),
            (self.logging, self.logging_beta, self.logging_epsilon),
            (self.target, self.target_beta, self.target_epsilon),
            None if self.embedding == "one-hot" else self.d_embedding,
            self.noise == "bernoulli",
        )


@lru_cache(maxsize=4)
def _world(
    found: ScoreTable,
    world: int,
    settings: tuple[float, float, int, float],
    logging: tuple[PolicyKind, float, float],
    target: tuple[PolicyKind, float, float],
    d_embedding: int | None,
    coin: bool,
) -> Population:
    train_share, logging_share, split_seed, cost_weight = settings
    n = len(found.score)
    order = stream("full-feedback split", split_seed, world).permutation(n)
    n_train = round(train_share * n)
    n_logging = max(1, round(logging_share * n_train))
    if not 0 < n_train < n:
        msg = f"full-feedback: train_share = {train_share} of {n} rows leaves one part empty"
        raise ParameterError(msg)
    train, population = order[:n_train], order[n_train:]
    reward = found.score - cost_weight * found.cost
    columns = (Column(),) * found.context.shape[1]
    design = Design(columns, found.context[train])

    def policy(kind: tuple[PolicyKind, float, float], rows: IntArray) -> DiscretePolicy:
        return _policy(kind, design, found.context[rows], reward[rows])

    mean = reward[population]
    context = found.context[population]
    evaluated = policy(target, train)

    def reward_at(row: IntArray, chosen: IntArray) -> FloatArray:
        at: FloatArray = mean[row, chosen]
        return at

    shown, column = _embedding(reward[train], d_embedding)
    if coin and not ((mean >= 0) & (mean <= 1)).all():
        low, high = float(mean.min()), float(mean.max())
        msg = (
            f"full-feedback: noise=bernoulli needs rewards in [0, 1]; these are {low:g} to "
            f"{high:g}. Set cost_weight=0, or scale the scores"
        )
        raise ParameterError(msg)
    binary = coin or bool(np.isin(mean, (0.0, 1.0)).all())
    return Population(
        context=context,
        schema=Schema(columns, (column,) * shown.shape[1]),
        logging=policy(logging, train[:n_logging]),
        target=evaluated,
        embedding=DeterministicEmbedding(shown),
        reward_at=reward_at,
        # A coin that falls as the mean says, with the range of rewards that this tells.
        noise=bernoulli if binary else _no_noise,
        expected=value_of(evaluated, context, lambda rows: mean[rows]),
    )


def _no_noise(mean: FloatArray, rng: np.random.Generator) -> FloatArray:
    return mean


def _policy(
    kind: tuple[PolicyKind, float, float],
    design: Design,
    context: FloatArray,
    reward: FloatArray,
) -> DiscretePolicy:
    """Return a policy that follows a ridge regression of each action's reward on the context."""
    name, beta, epsilon = kind
    features = design(context)
    center = reward.mean(axis=0)
    penalty = RIDGE * np.eye(features.shape[1])
    coefficients = np.linalg.solve(features.T @ features + penalty, features.T @ (reward - center))
    spread = float(np.std(center + features @ coefficients)) or 1.0
    n_actions = reward.shape[1]

    def predicted(rows: FloatArray) -> FloatArray:
        if name == "uniform":
            return np.zeros((len(rows), n_actions))
        if name == "best-fixed":
            return np.broadcast_to(center, (len(rows), n_actions))
        score: FloatArray = (center + design(rows) @ coefficients) / spread
        return score

    if name in ("softmax", "uniform"):
        return Softmax(predicted, n_actions, beta)
    return EpsilonGreedy(predicted, n_actions, epsilon)


def _embedding(reward: FloatArray, d_embedding: int | None) -> tuple[FloatArray, Column]:
    """Return the actions' embedding and its kind: (n_actions, d)."""
    n_actions = reward.shape[1]
    if d_embedding is None:
        return np.eye(n_actions), Column("categorical", (0.0, 1.0))
    centered = (reward - reward.mean(axis=1, keepdims=True)).T
    left, sizes, _ = np.linalg.svd(centered / np.sqrt(reward.shape[0]), full_matrices=False)
    left, sizes = left[:, :d_embedding], sizes[:d_embedding]
    largest = np.take_along_axis(left, np.abs(left).argmax(axis=0)[None], axis=0)
    return left * sizes * np.sign(largest), Column("atoms")
