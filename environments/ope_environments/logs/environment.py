"""`logs`: a user's own logged decisions as an environment with a known true value."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt, Le

from ope_bench import (
    DeterministicEmbedding,
    Environment,
    EpsilonGreedy,
    FloatArray,
    IntArray,
    ParameterError,
    Problem,
    Schema,
    Softmax,
    Truth,
    stream,
)
from ope_environments.logs.decisions import LogColumns, LoggedDecisions, read_decisions
from ope_environments.logs.logging_model import fit_logging
from ope_environments.logs.makers.making import MakerName, maker_of_file
from ope_environments.logs.reward_model import MeanRewardModel
from ope_environments.logs.reward_names import RewardName, reward_of
from ope_environments.populations.design import Design
from ope_environments.populations.population import (
    FromPopulation,
    Population,
    bernoulli,
    gaussian,
    value_of,
)

__all__ = ["Logs"]

Names = str | tuple[str, ...]
"""Column names, separated by commas or as a list."""


class Logs(FromPopulation, Environment):
    """A user's table of logged decisions as an environment.

    A row of the table is a decision: context columns, an action, a reward, and where known the
    propensity of the action and columns that describe it. Two models are fitted to the table,
    once: q(x, a) of the reward and pi0(a|x) of the logging policy. A replicate draws contexts
    from the table's rows, without replacement where ``n_samples`` is at most their number (the
    target sample from rows that the logs left, where they left enough), actions from pi0, and
    rewards with mean q: 0 or 1 where the table's rewards are, else with normal noise of the
    residuals' standard deviation. The target policy is epsilon-greedy on q, or
    softmax(target_beta q / sd(q)).

    Source
    ------
    ``path`` names a CSV file (commas, semicolons, tabs or bars, UTF-8, with a header) or a parquet
    file; without it an invented example of 2,000 decisions among 12 offers is used. In a suite:

        environments:
          - logs: {path: decisions.csv, context: "age, visits, device", categorical: device,
                   action: offer, reward: bought, propensity: p, embedding: "price, kind"}

    ``log`` names a log file instead (bench/docs/own-logs.md), with the policy to evaluate; of the
    other parameters only ``n_samples``, ``maker``, ``policy``, ``kept``, ``toward``,
    ``reward_model``, ``ridge`` and ``logging_model`` then count. Three makers keep different parts
    of the log:

    - ``redrawn``: contexts; actions come from the logging policy, fitted and calibrated where the
      log does not give it, and rewards from q;
    - ``pseudo-reward``: contexts, actions and propensities; only rewards come from q;
    - ``resample``: everything, rewards too; rows are accepted such that a mixture of both policies
      logged them.

    Around q are coin flips, or residuals of the logged rows. Estimators see what they see on the
    log and no more.

    Truth
    -----
    Exact: the mean over the table's rows of the sum over actions of pi1(a|x) q(x, a), or of q at
    the policy's actions where its probabilities are unknown. Of ``resample`` it is the whole log's
    self-normalized estimate, with its standard error.

    Access: everything, of the fitted models. Embeddings are a function of the action; without
    ``embedding`` columns they are one-hot.

    Traps: estimators are ranked on the fitted models, which lack confounders, drift and
    interactions beyond ``reward_model``. The reward model favors estimators with reward models of
    its family; run both. With ``propensity`` the spread of the fitted policy's propensities
    matches that of the logged ones, which are not used otherwise. A greedy target exploits q,
    including its errors. A truth by ``resample`` has errors of its own, which the sub-sample
    shares.

    Parameters
    ----------
    n_samples : number of logged rows, and of target rows; with ``log`` None takes as many units
        as the log has, and other numbers are approximate where units have several rows.
    path : path of the table; the example if None.
    context : context columns, separated by commas.
    action : column of the action, words or numbers.
    reward : column of the reward.
    propensity : column of the logged action's probability.
    embedding : columns that describe the action.
    categorical : columns of context and embedding that contain words or codes.
    reward_model : a ridge regression per action, shrunk to a common one; boosted trees; the mean
        among the nearest contexts; a random smooth function; or the mean reward.
    ridge : penalty of the linear reward model; pseudo-count of the overall mean in an action's
        mean, and of that mean among neighbors.
    logging_model : depending on the context, or the actions' shares only.
    target : the target policy.
    epsilon : exploration share of the epsilon-greedy target.
    target_beta : inverse temperature of the softmax target.
    shared_contexts : whether row i of both samples has the same context.
    log : path of a log file with the policy to evaluate.
    maker : what a world keeps of it.
    policy : name of the policy, where the log file has several.
    kept : share of the rows that ``resample`` accepts; the fewer, the closer is its pseudo-logger
        to that policy.
    toward : share of that policy in the pseudo-logger of ``resample``, in place of ``kept``; 5 to
        10 values from 0 to 1 make as many pseudo-loggers between the two.

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

    version = 2

    added_parameters: ClassVar[Mapping[str, Any]] = {
        "log": None,
        "maker": "redrawn",
        "policy": None,
        "kept": 0.5,
        "toward": None,
    }

    n_samples: Annotated[int, Ge(1)] | None = 1000
    path: str | None = None
    context: Names = "age, visits, device"
    action: str = "offer"
    reward: str = "bought"
    propensity: str | None = "propensity"
    embedding: Names = "price, kind"
    categorical: Names = "device, kind"
    reward_model: RewardName = "linear"
    ridge: Annotated[float, Gt(0)] = 10.0
    logging_model: Literal["logistic", "shares"] = "logistic"
    target: Literal["epsilon-greedy", "softmax"] = "epsilon-greedy"
    epsilon: Annotated[float, Ge(0), Le(1)] = 0.1
    target_beta: float = 2.0
    shared_contexts: bool = False
    log: str | None = None
    maker: MakerName = "redrawn"
    policy: str | None = None
    kept: Annotated[float, Gt(0), Le(1)] = 0.5
    toward: Annotated[float, Ge(0), Le(1)] | None = None

    @property
    def requires(self) -> tuple[str, ...]:
        """Modules that fit the models."""
        return ("sklearn.linear_model",)

    @property
    def data_files(self) -> tuple[str, ...]:
        """The table, or the log file and its tables, if any."""
        if self.log is not None:
            from ope_bench import Log  # imports scipy, which a list of plugins need not wait for

            return Log.files(self.log)
        return () if self.path is None else (self.path,)

    @property
    def origin_note(self) -> str:
        """Mark the example."""
        return "the invented example" if self.path is None and self.log is None else ""

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """Sample one problem and its truth."""
        streams = {"world_rng": world_rng, "logged_rng": logged_rng, "target_rng": target_rng}
        if self.log is None:
            if self.maker != "redrawn":
                msg = f"logs: maker={self.maker} makes worlds from a log file; name it by `log`"
                raise ParameterError(msg)
            return super().sample(**streams)
        maker = maker_of_file(self.log, self.policy, self.maker, **self._settings)
        return maker.sample(self.n_samples, **streams)

    @property
    def _settings(self) -> dict[str, Any]:
        """The parameters of the makers."""
        return {
            "reward_model": self.reward_model,
            "ridge": self.ridge,
            "by_context": self.logging_model == "logistic",
            "kept": self.kept,
            "toward": self.toward,
        }

    def population(self, world_rng: np.random.Generator) -> Population:
        """Build the population of the table's rows, with the fitted models."""
        columns = LogColumns(
            _names(self.context),
            self.action,
            self.reward,
            self.propensity,
            _names(self.embedding),
            _names(self.categorical),
        )
        return _world(
            read_decisions(self.path, columns),
            (self.reward_model, self.ridge),
            self.logging_model == "logistic",
            self.epsilon if self.target == "epsilon-greedy" else None,
            self.target_beta,
        )


def _names(given: Names) -> tuple[str, ...]:
    names = given.split(",") if isinstance(given, str) else given
    return tuple(name.strip() for name in names if name.strip())


@lru_cache(maxsize=4)
def _models(
    data: LoggedDecisions, reward: tuple[RewardName, float], by_context: bool
) -> tuple[MeanRewardModel, Softmax]:
    design = Design(data.columns, data.context)
    model = reward_of(reward[0], data, design, reward[1], stream("logs", "smooth reward"))
    return model, fit_logging(data, design, by_context=by_context)


@lru_cache(maxsize=4)
def _world(
    data: LoggedDecisions,
    reward: tuple[RewardName, float],
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
