"""The environment ``ranking``: clicks on the items of ranked lists."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

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
    Truth,
)
from ope_environments.ranking.clicks import ClickModelName, ListClickModel
from ope_environments.ranking.list_policies import IndependentSlots, PlackettLuce, ScoredLists

__all__ = ["Ranking"]

PolicyKind = Literal["plackett-luce", "independent-slots"]

POLICIES: dict[str, type[ScoredLists]] = {
    "plackett-luce": PlackettLuce,
    "independent-slots": IndependentSlots,
}


class Ranking(Environment):
    """Lists of several items are shown, and each item may be clicked.

    A row is one item of a list: the context is the user's features and, last, the slot (from 0),
    the action is the item, the reward a click, the propensity the probability of that item at
    that slot. The rows of a list are one unit; values are per row. Item a has the relevance
    ``1 / (1 + exp(-(b + s(x, a))))`` for user x, ``s(x, a) = (u_a + v_a . x / sqrt(d)) / sqrt(2)``
    with standard normal u, v and x. Users are a finite population that the world draws. Lists are
    drawn by Plackett-Luce (one item after the other, without replacement) or slot by slot, with
    rates ``exp(beta s(x, a))``.

    Click models: ``independent``, the relevance; ``position-based``, θ_k times the relevance,
    ``θ_k = 1/k^η``; ``trust-bias``, θ_k (ε⁺_k ρ + ε⁻_k (1 - ρ)), where high slots are trusted;
    ``cascade``, the user reads from the top and leaves at a click, but for a chance γ to go on.

    Truth
    -----
    Exact: the mean over all users and the rows' slots of the expected click. Marginals of
    Plackett-Luce lists, and the chance that a cascade reaches a slot, are integrals over races of
    exponential clocks, to about 1e-9. ``empirical`` is the mean click of the target sample.

    Access: everything, the probabilities of list prefixes, whole lists and of each item at every
    slot among it, and, where items are unavailable, the masks.

    Traps: in a cascade, and in all lists without replacement, rows of a list depend on each other.
    Importance weights of rows alone are biased where a click depends on the items above.

    Parameters
    ----------
    n_samples : logged rows, and target rows; the last list is shorter where slots do not divide
        it, and the truth is of the rows as they are.
    length : slots of a list.
    n_actions : number of items.
    d_context : features of a user.
    n_users : number of users.
    clicks : the click model.
    eta : η, how fast examination falls with the slot.
    gamma : γ, the chance that a user of the cascade goes on after a click.
    intercept : b.
    logging, target : kinds of the policies.
    logging_beta, target_beta : their inverse temperatures.
    available : expected share of the items that can be shown to a user, at least ``length`` of
        them; 1 has no masks. Below, one column for each item says in the context whether it is.

    References
    ----------
    Off-policy evaluation for slate recommendation (Swaminathan et al., 2017). Counterfactual
    evaluation of slate recommendations with sequential reward interactions (McInerney, Brost,
    Chandar, Mehrotra and Carterette, 2020). Addressing trust bias for unbiased learning-to-rank
    (Agarwal, Wang, Li, Bendersky and Najork, 2019), for ε⁺ and ε⁻.

    >>> problem, truth = Ranking(n_samples=60).sample(
    ...     world_rng=np.random.default_rng(0), logged_rng=np.random.default_rng(1),
    ...     target_rng=np.random.default_rng(2))
    >>> problem.slot[:4].tolist(), problem.unit[:4].tolist(), truth.expected_se
    ([0, 1, 2, 0], [0, 0, 0, 1], 0.0)
    """

    n_samples: Annotated[int, Ge(1)] = 3000
    length: Annotated[int, Ge(1)] = 3
    n_actions: Annotated[int, Ge(2)] = 10
    d_context: Annotated[int, Ge(1)] = 3
    n_users: Annotated[int, Ge(1)] = 100
    clicks: ClickModelName = "position-based"
    eta: Annotated[float, Ge(0)] = 1.0
    gamma: Annotated[float, Ge(0), Le(1)] = 0.0
    intercept: float = -0.5
    logging: PolicyKind = "plackett-luce"
    target: PolicyKind = "plackett-luce"
    logging_beta: float = 0.5
    target_beta: float = 1.5
    available: Annotated[float, Gt(0), Le(1)] = 1.0

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """Sample one problem and its true value."""
        if self.n_actions < self.length:
            msg = f"ranking: {self.length} slots need at least as many items, not {self.n_actions}"
            raise ParameterError(msg)
        users = self._users(world_rng)
        model = ListClickModel(self.clicks, self.length, self.eta, self.gamma)
        logging, target = (
            POLICIES[kind](users.score, self.n_actions, self.length, beta)
            for kind, beta in (
                (self.logging, self.logging_beta),
                (self.target, self.target_beta),
            )
        )
        logs = self._lists(users, logging, model, logged_rng)
        later = self._lists(users, target, model, target_rng)
        both = [policy.list_conditionals(logs.users, logs.items) for policy in (logging, target)]
        prefix = np.stack([np.cumprod(one, axis=1) for one in both], axis=2)
        marginals = np.stack(
            [policy.at_every_slot(logs.context, logs.action) for policy in (logging, target)],
            axis=2,
        )
        prefix_rows = prefix.reshape(-1, 2)[: self.n_samples]
        # The last row that a list has here: the last list may be cut.
        last = np.minimum((logs.unit + 1) * self.length, self.n_samples) - 1
        features = users.items
        problem = Problem(
            context=logs.context,
            action=logs.action,
            embedding=features[logs.action],
            reward=logs.click,
            target_context=later.context,
            target_action=later.action,
            target_embedding=features[later.action],
            n_actions=self.n_actions,
            schema=self._schema(features.shape[1]),
            action_embedding=features,
            embedding_distribution=DeterministicEmbedding(features),
            propensity=logging.probability(logs.context, logs.action),
            logging_policy=logging,
            target_policy=target,
            reward_range=(0.0, 1.0),
            unit=logs.unit,
            target_unit=later.unit + len(logs.users),
            slot=logs.slot,
            prefix_propensity=prefix_rows,
            joint_propensity=prefix_rows[last],
            position_marginals=marginals,
            action_mask=users.mask(logs.context[:, :-1]) if self.available < 1 else None,
        )
        by_slot = model.expected(target, users.context, users.relevance(users.context)).mean(
            axis=0
        )
        share = np.bincount(logs.slot, minlength=self.length) / self.n_samples
        return problem, Truth(float(share @ by_slot), 0.0, float(later.click.mean()))

    def _users(self, rng: np.random.Generator) -> Users:
        # Items first and one by one, so that a larger world begins with the smaller one's.
        items = rng.standard_normal((self.n_actions, 1 + self.d_context))
        features = rng.standard_normal((self.n_users, self.d_context))
        if self.available == 1:
            return Users(features, items, self.intercept, masked=False)
        draw = rng.random((self.n_users, self.n_actions))
        least = np.sort(draw, axis=1)[:, self.length - 1 : self.length]
        shown = draw <= np.maximum(least, self.available)
        context = np.column_stack([features, shown])
        return Users(context, items, self.intercept, masked=True)

    def _lists(
        self,
        users: Users,
        policy: ScoredLists,
        model: ListClickModel,
        rng: np.random.Generator,
    ) -> DrawnLists:
        lists = math.ceil(self.n_samples / self.length)
        context = users.context[rng.integers(self.n_users, size=lists)]
        items = policy.sample_lists(context, rng)
        relevance = np.take_along_axis(users.relevance(context), items, axis=1)
        click = model.sample(relevance, rng).reshape(-1)[: self.n_samples]
        unit, slot = np.divmod(np.arange(self.n_samples), self.length)
        rows = np.column_stack([context[unit], slot.astype(np.float64)])
        rows.flags.writeable = False
        action = items.reshape(-1)[: self.n_samples]
        return DrawnLists(context, items, rows, action, click, unit, slot)

    def _schema(self, width: int) -> Schema:
        mask = (Column("categorical", (0.0, 1.0)),) * (self.n_actions if self.available < 1 else 0)
        slot = Column("categorical", tuple(map(float, range(self.length))))
        context = (*(Column("atoms"),) * self.d_context, *mask, slot)
        return Schema(context, (Column("atoms"),) * width)


@dataclass(frozen=True, eq=False)
class Users:
    """The users of a world, and what they think of its items.

    Parameters
    ----------
    context : (n_users, d), features, and behind them the mask, where there is one.
    items : (n_actions, 1 + d_context), u and v.
    intercept : b.
    masked : whether there is a mask.
    """

    context: FloatArray
    items: FloatArray
    intercept: float
    masked: bool

    def _plain(self, context: FloatArray) -> FloatArray:
        width = self.items.shape[1] - 1
        slopes = self.items[:, 1:].T / math.sqrt(width)
        score: FloatArray = (self.items[:, 0] + context[:, :width] @ slopes) / math.sqrt(2.0)
        return score

    def mask(self, context: FloatArray) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Return whether each item is available: (k, n_actions)."""
        return context[:, self.items.shape[1] - 1 :] > 0

    def score(self, context: FloatArray) -> FloatArray:
        """Return the scores of all items, -inf for unavailable ones: (k, n_actions)."""
        score = self._plain(context)
        return np.where(self.mask(context), score, -np.inf) if self.masked else score

    def relevance(self, context: FloatArray) -> FloatArray:
        """Return ρ of all items: (k, n_actions)."""
        chance: FloatArray = 1.0 / (1.0 + np.exp(-(self.intercept + self._plain(context))))
        return chance


@dataclass(frozen=True, eq=False)
class DrawnLists:
    """Drawn lists and their rows.

    Parameters
    ----------
    users : (lists, d), context without the slot.
    items : (lists, length)
    context, action, click, unit, slot : of the rows.
    """

    users: FloatArray
    items: IntArray
    context: FloatArray
    action: IntArray
    click: FloatArray
    unit: IntArray
    slot: IntArray
