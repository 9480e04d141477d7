"""`logs`: your own logged decisions as a world whose truth is known."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Gt, Le

from ope_bench.arrays import FloatArray, IntArray
from ope_bench.data import Schema
from ope_bench.embeddings import DeterministicEmbedding
from ope_bench.policies import EpsilonGreedy, Softmax
from ope_environments.design import Design
from ope_environments.logs.decisions import Columns, Decisions, read_decisions
from ope_environments.logs.logging_model import fit_logging
from ope_environments.logs.reward_model import RewardModel, fit_boosted, fit_linear
from ope_environments.population import FromPopulation, Population, bernoulli, gaussian, value_of

__all__ = ["Logs"]

Names = str | tuple[str, ...]
"""Column names, separated by commas or as a list."""


class Logs(FromPopulation):
    """A table of logged decisions, so that you learn which estimator to trust on data like yours.

    A row of the table is a decision: context columns, an action, a reward, and where known the
    propensity of the action and columns that describe it. Two models are fitted to the table,
    once: q(x, a) of the reward and pi0(a|x) of the logging policy. A replicate draws contexts
    from the table's rows with replacement, actions from pi0, and rewards with mean q: 0 or 1 where
    the table's rewards are, else with normal noise of the residuals' standard deviation. The
    target policy is epsilon-greedy on q, or softmax(target_beta q / sd(q)).

    Source
    ------
    ``path`` names a CSV file (commas, semicolons, tabs or bars, UTF-8, with a header) or a parquet
    file; without it an invented example of 2,000 decisions among 12 offers is used. In a suite:

        environments:
          - logs: {path: decisions.csv, context: "age, visits, device", categorical: device,
                   action: offer, reward: bought, propensity: p, embedding: "price, kind"}

    Truth
    -----
    Exact: the mean over the table's rows of the sum over actions of pi1(a|x) q(x, a).

    Access: everything, of the fitted world. Embeddings are a function of the action; without
    ``embedding`` columns they are one-hot.

    Traps: estimators are ranked on the fitted world, not on yours: what the models miss
    (confounders, drift, interactions beyond ``reward_model``) is missing. The reward model favours
    reward models of its own family; run both. With ``propensity`` the fitted policy is made as
    spread as the logged propensities, which are not used otherwise. A greedy target exploits what
    q says, including its mistakes.

    Parameters
    ----------
    n_samples : logged rows, and target rows.
    path : the table; the example where None.
    context : context columns, separated by commas.
    action : column of the action, words or numbers.
    reward : column of the reward.
    propensity : column of the logged action's probability.
    embedding : columns that describe the action.
    categorical : those of context and embedding that hold words or codes.
    reward_model : a ridge regression an action, shrunk to a common one; or boosted trees.
    ridge : penalty of the linear reward model, and rows that pull an action's mean to that of all.
    logging_model : depending on the context, or the actions' shares only.
    target : the target policy.
    epsilon : exploration share of the epsilon-greedy target.
    target_beta : inverse temperature of the softmax target.
    shared_contexts : whether row i of both samples has the same context.

    References
    ----------
    The construction is that of the semi-synthetic experiment in "Doubly Robust Policy Evaluation
    and Learning" (Dudik, Langford and Li, 2011), section 4.2.

    >>> problem, truth = Logs(n_samples=200).sample(
    ...     world_rng=np.random.default_rng(0), logged_rng=np.random.default_rng(1),
    ...     target_rng=np.random.default_rng(2))
    >>> problem.n_actions, problem.embedding.shape, truth.expected_se
    (12, (200, 2), 0.0)
    """

    def __init__(
        self,
        n_samples: Annotated[int, Ge(1)] = 1000,
        path: str | None = None,
        context: Names = "age, visits, device",
        action: str = "offer",
        reward: str = "bought",
        propensity: str | None = "propensity",
        embedding: Names = "price, kind",
        categorical: Names = "device, kind",
        reward_model: Literal["linear", "boosting"] = "linear",
        ridge: Annotated[float, Gt(0)] = 10.0,
        logging_model: Literal["logistic", "shares"] = "logistic",
        target: Literal["epsilon-greedy", "softmax"] = "epsilon-greedy",
        epsilon: Annotated[float, Ge(0), Le(1)] = 0.1,
        target_beta: float = 2.0,
        shared_contexts: bool = False,
    ) -> None:
        self.n_samples = n_samples
        self.path = path
        self.context = context
        self.action = action
        self.reward = reward
        self.propensity = propensity
        self.embedding = embedding
        self.categorical = categorical
        self.reward_model = reward_model
        self.ridge = ridge
        self.logging_model = logging_model
        self.target = target
        self.epsilon = epsilon
        self.target_beta = target_beta
        self.shared_contexts = shared_contexts

    @property
    def requires(self) -> tuple[str, ...]:
        """What fits the models, and reads parquet files."""
        parquet = self.path is not None and self.path.endswith(".parquet")
        return ("sklearn.linear_model", *(("pyarrow.parquet",) if parquet else ()))

    @property
    def data_files(self) -> tuple[str, ...]:
        """The table."""
        return () if self.path is None else (self.path,)

    @property
    def origin_note(self) -> str:
        """Says where the example is used."""
        return "the invented example" if self.path is None else ""

    def population(self) -> Population:
        """The table's rows and the fitted models."""
        columns = Columns(
            _names(self.context),
            self.action,
            self.reward,
            self.propensity,
            _names(self.embedding),
            _names(self.categorical),
        )
        return _world(
            read_decisions(self.path, columns),
            (self.reward_model == "boosting", self.ridge),
            self.logging_model == "logistic",
            self.epsilon if self.target == "epsilon-greedy" else None,
            self.target_beta,
        )


def _names(given: Names) -> tuple[str, ...]:
    names = given.split(",") if isinstance(given, str) else given
    return tuple(name.strip() for name in names if name.strip())


@lru_cache(maxsize=4)
def _models(
    data: Decisions, reward: tuple[bool, float], by_context: bool
) -> tuple[RewardModel, Softmax]:
    design = Design(data.columns, data.context)
    boosted, ridge = reward
    model = fit_boosted(data, ridge) if boosted else fit_linear(data, design, ridge)
    return model, fit_logging(data, design, by_context=by_context)


@lru_cache(maxsize=4)
def _world(
    data: Decisions,
    reward: tuple[bool, float],
    by_context: bool,
    epsilon: float | None,
    target_beta: float,
) -> Population:
    model, logging = _models(data, reward, by_context)
    n_actions = len(data.actions)
    fitted = model.at(data.context, data.action)
    if epsilon is None:
        sharpness = target_beta / max(float(fitted.std()), 1e-12)
        target: Softmax | EpsilonGreedy = Softmax(model, n_actions, sharpness)
    else:
        target = EpsilonGreedy(model, n_actions, epsilon)
    binary = bool(np.isin(data.reward, (0.0, 1.0)).all())

    def reward_at(row: IntArray, action: IntArray) -> FloatArray:
        return model.at(data.context[row], action)

    return Population(
        context=data.context,
        schema=Schema(data.columns, data.embedding_columns),
        logging=logging,
        target=target,
        embedding=DeterministicEmbedding(data.embedding),
        reward_at=reward_at,
        noise=bernoulli if binary else gaussian(float((data.reward - fitted).std())),
        expected=value_of(target, data.context, lambda rows: model(data.context[rows])),
    )
