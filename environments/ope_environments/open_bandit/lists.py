"""The three positions of a page as a ranked list: page views of the log, and redrawn lists."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from ope_bench import (
    Column,
    DeterministicEmbedding,
    FloatArray,
    IntArray,
    Problem,
    Schema,
    Truth,
    read_table,
)
from ope_environments.open_bandit.click_model import ClickModel
from ope_environments.open_bandit.layout import USER_FEATURES, Campaign, PolicyLog
from ope_environments.populations.population import bernoulli
from ope_environments.ranking.list_policies import IndependentSlots

__all__ = ["PositionShares", "as_lists", "page_views", "redrawn_lists"]

POSITIONS = 3

ITEMS_ALONE = "the logs have the probability of an item at its position, not of a whole page"


@lru_cache(maxsize=4)
def page_views(path: Path) -> IntArray:
    """Return the number of each row's page view: rows of one time and user are one view: (n,)."""
    names = ("timestamp", *USER_FEATURES)
    table = read_table(path, names, spelled=names)
    codes = np.column_stack([table.codes(name)[0] for name in names])
    _, view = np.unique(codes, axis=0, return_inverse=True)
    return view.reshape(-1)


def as_lists(problem: Problem, view: IntArray) -> Problem:
    """Return a problem of log rows whose rows of one page view are one unit.

    Parameters
    ----------
    problem : of the log's rows, with their numbers as units.
    view : (rows of the log,), their page views.
    """
    row, target = problem.unit, problem.target_unit
    assert row is not None  # noqa: S101  rows of the log are units
    assert target is not None  # noqa: S101
    return replace(
        problem,
        unit=view[row],
        target_unit=int(view.max()) + 1 + target,
        slot=problem.context[:, 4].astype(np.int64) - 1,
        unavailable=dict.fromkeys(("prefix_propensity", "joint_propensity"), ITEMS_ALONE),
    )


class PositionShares(IndependentSlots):
    """Each position draws an item by shares of its own, whoever the user is.

    Parameters
    ----------
    shares : (positions, n_items)
    """

    def __init__(self, shares: FloatArray) -> None:
        super().__init__(_no_score, shares.shape[1], len(shares), 1.0)
        self._shares = shares

    def marginals(self, context: FloatArray) -> FloatArray:
        """Repeat the shares: (k, positions, n_items)."""
        return np.repeat(self._shares[None], len(context), axis=0)

    def sample_lists(self, context: FloatArray, rng: np.random.Generator) -> IntArray:
        """Draw each position's item: (k, positions)."""
        uniform = rng.random((len(context), self.length))
        ends = np.cumsum(self._shares, axis=1)
        drawn = [np.searchsorted(ends[k], uniform[:, k], side="right") for k in range(self.length)]
        return np.minimum(np.stack(drawn, axis=1), self.n_actions - 1)


def _no_score(context: FloatArray) -> FloatArray:
    raise NotImplementedError


def redrawn_lists(
    campaign: Campaign,
    log: PolicyLog,
    model: ClickModel,
    policies: tuple[FloatArray, FloatArray],
    n: int,
    streams: tuple[np.random.Generator, np.random.Generator],
) -> tuple[Problem, Truth]:
    """Draw pages of three items for users of the log, and clicks by the fitted model.

    Parameters
    ----------
    campaign : items and columns.
    log : whose users are drawn with replacement.
    model : of clicks, additive in user, position and item.
    policies : shares of items at each position, logging and target: (positions, n_items) each.
    n : rows; the last page may be cut.
    streams : of the logs and of the target sample.
    """
    logging, target = (PositionShares(shares) for shares in policies)
    unit, slot = np.divmod(np.arange(n), POSITIONS)
    # What the model says of a user at a position that is not the row's own.
    own = log.context[:, 4].astype(np.int64) - 1
    user = model.user - model.position[own]
    odds = user[:, None] + model.position

    def drawn(
        policy: PositionShares, rng: np.random.Generator
    ) -> tuple[FloatArray, IntArray, FloatArray]:
        who = rng.integers(len(user), size=math.ceil(n / POSITIONS))
        context: FloatArray = np.column_stack([log.context[who[unit], :4], slot])
        context.flags.writeable = False
        items = policy.sample_lists(context[slot == 0], rng)[unit, slot]
        chance = 1.0 / (1.0 + np.exp(-(odds[who[unit], slot] + model.item[items])))
        return context, items, bernoulli(chance, rng)

    (context, action, click), (later, wanted, seen) = (
        drawn(policy, rng) for policy, rng in zip((logging, target), streams, strict=True)
    )
    chance = np.stack([policy.at_every_slot(context, action) for policy in (logging, target)], 2)
    at = chance[np.arange(n), slot]
    prefix = at.copy()
    for k in range(1, POSITIONS):
        rows = np.flatnonzero(slot == k)
        prefix[rows] *= prefix[rows - 1]
    value = np.zeros(POSITIONS)
    for k in range(POSITIONS):
        # Users are as many as rows; items are few.
        for start in range(0, len(user), 4096):
            rate = 1.0 / (1.0 + np.exp(-(odds[start : start + 4096, k, None] + model.item)))
            value[k] += float((rate @ policies[1][k]).sum()) / len(user)
    embedding = campaign.item_embedding
    columns = (*campaign.columns[:4], Column("categorical", (0.0, 1.0, 2.0)))
    problem = Problem(
        context=context,
        action=action,
        embedding=embedding[action],
        reward=click,
        target_context=later,
        target_action=wanted,
        target_embedding=embedding[wanted],
        n_actions=len(embedding),
        schema=Schema(columns, campaign.item_columns),
        propensity=at[:, 0],
        logging_policy=logging,
        target_policy=target,
        action_embedding=embedding,
        embedding_distribution=DeterministicEmbedding(embedding),
        reward_range=(0.0, 1.0),
        unit=unit,
        target_unit=unit + int(unit.max()) + 1,
        slot=slot,
        prefix_propensity=prefix,
        joint_propensity=prefix[np.minimum((unit + 1) * POSITIONS, n) - 1],
        position_marginals=chance,
    )
    share = np.bincount(slot, minlength=POSITIONS) / n
    return problem, Truth(float(share @ value), 0.0, float(seen.mean()))
