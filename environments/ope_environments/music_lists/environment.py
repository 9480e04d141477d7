"""`music-lists`: logged lists with the probability of each item at each slot."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from annotated_types import Ge

from ope_bench import (
    Column,
    DiscretePolicy,
    Environment,
    FloatArray,
    IntArray,
    Problem,
    Schema,
    Truth,
    UnavailableError,
)
from ope_environments.music_lists.layout import WHERE_TO_GET, PaddedLists, read_lists

__all__ = ["MusicLists"]

ITEMS_ALONE = "these lists have probabilities of items at slots, not of whole lists"


class MusicLists(Environment):
    """Lists of a music service, with a target policy that orders each list in one way.

    A row is an item of a list. Every list has a set of actions of its own, numbered from 0: the
    mask says which exist. The context is the number of the list in the file, of its actions, and
    the slot; the embedding is what describes the action. Lists are drawn with replacement, and the
    last may be cut.

    Source
    ------
    The published layout: parquet files with the columns actions, rewards,
    logging_selected_actions, target_selected_actions and propensities. ope-bench does not include
    the data; their license is CC BY-NC 4.0.

    Truth
    -----
    The mean reward per row of the lists in ``target_folder``, which the target policy logged, with
    its standard error by lists.

    Access: propensities, the probability of each row's item at every slot, the target policy, and
    the masks. Not the logging policy, nor the probabilities of whole lists.

    Traps: propensities hold for items at slots alone: `sips` and `rips` are unavailable. The
    target is deterministic: rows whose item it puts elsewhere have no weight under `iips`.

    Parameters
    ----------
    n_samples : number of rows.
    folder : of the parquet files that the logging policy logged.
    target_folder : of those that the target policy logged.

    References
    ----------
    Music Off-Policy Evaluation Benchmark (Amazon, 2026), data and README.
    """

    n_samples: Annotated[int, Ge(2)] = 10_000
    folder: str | None = None
    target_folder: str | None = None

    @property
    def data_files(self) -> tuple[str, ...]:
        """Both folders."""
        return tuple(one for one in (self.folder, self.target_folder) if one is not None)

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """Sample one problem and its true value; ``world_rng`` is not used."""
        if self.folder is None or self.target_folder is None:
            msg = f"music-lists: folder and target_folder are needed; {WHERE_TO_GET}"
            raise UnavailableError(msg)
        logs, later = read_lists(self.folder), read_lists(self.target_folder)
        unit, drawn, slot = _rows(logs, self.n_samples, logged_rng)
        action = logs.shown[drawn, slot]
        policy = Ordered(logs)
        context = np.column_stack([drawn, logs.available[drawn], slot]).astype(np.float64)
        wanted = logs.target[drawn] == action[:, None]
        marginals = np.stack([logs.propensity[drawn, slot], wanted.astype(float)], axis=2)
        target_action = logs.target[drawn, slot]
        empirical = later.reward[_rows(later, self.n_samples, target_rng)[1:]]
        length = int(logs.slots.max())
        problem = Problem(
            context=context,
            action=action,
            embedding=_features(logs, drawn, action),
            reward=logs.reward[drawn, slot],
            target_context=context,
            target_action=target_action,
            target_embedding=_features(logs, drawn, target_action),
            n_actions=policy.n_actions,
            schema=Schema(
                (Column("atoms"), Column("atoms"), Column("categorical", _codes(length))),
                (Column(),) * logs.features[0].shape[1],
            ),
            propensity=logs.propensity[drawn, slot, slot],
            target_policy=policy,
            shared_contexts=True,
            unit=unit,
            slot=slot,
            position_marginals=marginals,
            action_mask=np.arange(policy.n_actions) < logs.available[drawn, None],
            unavailable=dict.fromkeys(("prefix_propensity", "joint_propensity"), ITEMS_ALONE),
        )
        return problem, Truth(*_mean(later), float(empirical.mean()))


class Ordered(DiscretePolicy):
    """The target's action at a slot of a list, by the list's number.

    Parameters
    ----------
    lists : of the log.
    """

    def __init__(self, lists: PaddedLists) -> None:
        super().__init__(int(lists.available.max()))
        self._target = lists.target

    def table(self, context: FloatArray) -> FloatArray:
        """Return ones at the target's actions: (k, n_actions)."""
        table = np.zeros((len(context), self.n_actions))
        place = context.astype(np.int64)
        table[np.arange(len(context)), self._target[place[:, 0], place[:, 2]]] = 1.0
        return table


def _codes(n: int) -> tuple[float, ...]:
    return tuple(map(float, range(n)))


def _rows(
    lists: PaddedLists, n: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray, IntArray]:
    """Draw lists until there are n rows; return each row's draw, list and slot: (n,) each."""
    drawn = rng.integers(len(lists.slots), size=n)
    unit = np.repeat(np.arange(n), lists.slots[drawn])[:n]
    first = np.cumsum(lists.slots[drawn]) - lists.slots[drawn]
    # A list that is drawn twice is one unit: its rows are the same.
    return drawn[unit], drawn[unit], np.arange(n) - first[unit]


def _features(lists: PaddedLists, drawn: IntArray, action: IntArray) -> FloatArray:
    return np.stack([lists.features[i][a] for i, a in zip(drawn, action, strict=True)])


def _mean(lists: PaddedLists) -> tuple[float, float]:
    """Return the mean reward per row, and its standard error by lists."""
    total, rows = lists.reward.sum(axis=1), float(lists.slots.sum())
    mean = float(total.sum()) / rows
    spread = total - mean * lists.slots
    k = len(total)
    return mean, float(np.sqrt(np.square(spread).sum() * k / max(1, k - 1))) / rows
