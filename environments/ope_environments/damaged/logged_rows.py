"""Rows that a log holds instead of independent ones: refused, grouped, repeated, of two causes.

Rows are drawn from as many logs of the wrapped environment as are needed and accepted by chance,
so that the distribution of those that are left is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ope_bench import (
    DiscretePolicy,
    FloatArray,
    IntArray,
    Problem,
    UnavailableError,
    problem_rows,
)
from ope_environments.damaged.logged_propensities import ChangedPolicy

__all__ = [
    "Accept",
    "accepted",
    "confounded",
    "copied",
    "delayed",
    "drifted",
    "grouped",
    "retained",
    "unsupported",
]

Accept = Callable[[Problem, np.random.Generator], tuple[Problem, npt.NDArray[np.bool_]]]
"""f(log, rng) -> (the log changed, its rows that are kept (n,))."""

MOST_LOGS = 200
"""Logs that are drawn for one; where they do not fill it, the dials are too strong."""

CANDIDATES = 4
"""Candidate rows per row of a log with users."""

_ROW_FIELDS = (
    "context",
    "action",
    "embedding",
    "reward",
    "propensity",
    "predicted_reward",
    "predicted_reward_wanted",
    "row_weight",
    "unit",
)


def accepted(
    logs: Iterator[Problem], n: int, accept: Sequence[Accept], rng: np.random.Generator
) -> Problem:
    """Return a problem of the first ``n`` rows of some logs that are accepted by all.

    Its target sample is that of the first log; every row is its own unit where logs have none.

    Parameters
    ----------
    logs : of one world, without end; the last policies that ``accept`` gives them stand.
    n : number of rows.
    accept : applied in turn.
    rng : decides.

    Raises
    ------
    UnavailableError : too few rows are accepted.
    """
    kept: list[dict[str, Any]] = []
    found = 0
    first = problem = next(logs)
    for _ in range(MOST_LOGS):
        keep = np.ones(len(problem.reward), dtype=bool)
        for one in accept:
            problem, accepted_rows = one(problem, rng)
            keep &= accepted_rows
        held = {name: getattr(problem, name) for name in _ROW_FIELDS}
        kept.append({name: value[keep] for name, value in held.items() if value is not None})
        found += int(keep.sum())
        if found >= n:
            break
        problem = next(logs)
    else:
        msg = (
            f"{MOST_LOGS} logs of the environment have {found} of {n} rows left; weaken the dials"
        )
        raise UnavailableError(msg)
    rows = {name: np.concatenate([one[name] for one in kept])[:n] for name in kept[0]}
    # Rows of a target sample with shared contexts are in the units of the first log's rows.
    shared = first.shared_contexts
    units = {"unit": np.arange(n), "target_unit": np.arange(len(first.reward))} if shared else {}
    changes: dict[str, Any] = {**units, **rows, "logging_policy": problem.logging_policy}
    return replace(first, **changes, shared_contexts=False)


def unsupported(share: float, world_rng: np.random.Generator) -> Accept:
    """Let the logger never play some actions that the target policy plays.

    Actions are taken in random order until the target policy gives them this share of its mass, on
    average over the first log's contexts; the logger plays the others in proportion, in every
    context. Rows are accepted such that contexts keep their distribution.

    Parameters
    ----------
    share : of the target policy's mass.
    world_rng : draws the actions.
    """
    order: IntArray | None = None
    refused: npt.NDArray[np.bool_] | None = None

    def accept(
        problem: Problem, rng: np.random.Generator
    ) -> tuple[Problem, npt.NDArray[np.bool_]]:
        nonlocal order, refused
        logging = _logging_policy(problem, "support")
        if refused is None:
            mass = _target_mass(problem)
            order = world_rng.permutation(len(mass))
            last = int(np.searchsorted(np.cumsum(mass[order]), share * mass.sum()))
            refused = np.zeros(len(mass), dtype=bool)
            # One action is left to the logger.
            refused[order[: min(last + 1, len(mass) - 1)]] = True
        played = ~refused
        left = logging.project(problem.context, played[:, None].astype(np.float64))[:, 0]
        keep = played[problem.action] & (rng.random(len(left)) * left < left.min())
        changed = replace(
            problem,
            logging_policy=ChangedPolicy(logging, lambda table: table * played),
            propensity=np.minimum(_probability(logging, problem) / left, 1.0),
        )
        return changed, keep

    return accept


def confounded(odds: float, value: float, world_rng: np.random.Generator) -> Accept:
    """Give action and reward a hidden cause.

    The cause U is 0 or 1, each in half of the rows whatever the context. A random half of the
    actions is played more where U is 1 and less where it is 0, such that the odds of no action
    differ from those of the logged propensity by more than the factor ``odds``. The logged
    propensity is that given the context alone. Rewards shift by a standard deviation with U, to
    both sides; rewards in a known range are replaced in half of the rows by an end of the range
    such that their mean given U is the value plus or minus as much as the range allows. The value
    is as before.

    Parameters
    ----------
    odds : at least 1, the sensitivity parameter Lambda.
    value : of the target policy.
    world_rng : draws the half of the actions.
    """
    # With a share of the half near 0 or 1 the odds differ most: by 2 g^2 / (1 + g^2) for factor g.
    factor = 1.0 / math.sqrt(2.0 * odds - 1.0)
    half: npt.NDArray[np.bool_] | None = None

    def accept(
        problem: Problem, rng: np.random.Generator
    ) -> tuple[Problem, npt.NDArray[np.bool_]]:
        nonlocal half
        logging = _logging_policy(problem, "confounding")
        if half is None:
            half = np.zeros(logging.n_actions, dtype=bool)
            half[world_rng.permutation(logging.n_actions)[: logging.n_actions // 2]] = True
        cause = rng.random(len(problem.reward)) < 0.5
        share = logging.project(problem.context, half[:, None].astype(np.float64))[:, 0]
        total = np.where(cause, share + factor * (1 - share), factor * share + (1 - share))
        weight = np.where(half[problem.action] == cause, 1.0, factor) / total
        # The largest weight is that of a context in which the sum is smallest, the factor.
        keep = rng.random(len(weight)) * (1.0 / factor) < weight
        inside = half

        def mixed(table: FloatArray) -> FloatArray:
            part = table[:, inside].sum(axis=1, keepdims=True)
            more = 0.5 / (part + factor * (1 - part))
            less = 0.5 / (factor * part + (1 - part))
            changed: FloatArray = table * np.where(
                inside, more + factor * less, factor * more + less
            )
            return changed

        policy = ChangedPolicy(logging, mixed)
        changed = replace(
            problem,
            reward=_caused(problem, cause, value, rng),
            logging_policy=policy,
            propensity=_probability(policy, problem),
        )
        return changed, keep

    return accept


def _caused(
    problem: Problem, cause: npt.NDArray[np.bool_], value: float, rng: np.random.Generator
) -> FloatArray:
    reward = problem.reward
    sign = np.where(cause, 1.0, -1.0)
    if problem.reward_range is None:
        shifted: FloatArray = reward + reward.std() * sign
        return shifted
    low, high = problem.reward_range
    mean = value + sign * min(value - low, high - value)
    ends = np.where(rng.random(len(reward)) * (high - low) < mean - low, high, low)
    return np.where(rng.random(len(reward)) < 0.5, ends, reward)


def retained(share: float, weighted: bool) -> Accept:
    """Keep rows with the smallest reward with a probability, all others always.

    Where no reward occurs twice, those below the median of the first log count as the smallest.

    Parameters
    ----------
    share : of the rows with the smallest reward that is kept.
    weighted : the log says for how many rows each of its rows stands.
    """
    limit: float | None = None

    def accept(
        problem: Problem, rng: np.random.Generator
    ) -> tuple[Problem, npt.NDArray[np.bool_]]:
        nonlocal limit
        if limit is None:
            limit = largest_rare(problem.reward)
        few = problem.reward <= limit
        if weighted:
            problem = replace(problem, row_weight=np.where(few, 1.0 / share, 1.0))
        return problem, ~few | (rng.random(len(few)) < share)

    return accept


def largest_rare(reward: FloatArray) -> float:
    """Return the largest reward whose rows are kept with a probability, a non-click's.

    >>> largest_rare(np.array([0.0, 0.0, 1.0])), largest_rare(np.array([0.1, 0.2, 0.7]))
    (0.0, 0.2)
    """
    smallest = float(reward.min())
    return smallest if (reward == smallest).sum() > 1 else float(np.median(reward))


def grouped(problem: Problem, rows: int, named: bool, rng: np.random.Generator) -> Problem:
    """Return a quarter of the rows as users with several rows, whose rewards are alike.

    Rows are sorted by reward plus noise of its standard deviation and cut into users; users are
    then drawn. Each row is as likely as before, so the value is as before.

    Parameters
    ----------
    problem : candidate rows.
    rows : of a user.
    named : the log has the user of each row.
    rng : draws noise, users and their order in time.
    """
    reward = problem.reward
    n = len(reward) // CANDIDATES
    key = reward + reward.std() * rng.standard_normal(len(reward))
    user = np.empty(len(reward), dtype=np.int64)
    user[np.argsort(key, kind="stable")] = np.arange(len(reward)) // rows
    drawn = rng.permutation(len(reward) // rows)[: math.ceil(n / rows)]
    chosen = rng.permutation(np.flatnonzero(np.isin(user, drawn)))[:n]
    held = {name: getattr(problem, name) for name in _ROW_FIELDS}
    made = {name: value[chosen] for name, value in held.items() if value is not None}
    if named:
        first = 0 if problem.target_unit is None else int(problem.target_unit.max()) + 1
        made["unit"] = first + user[chosen]
    return replace(problem, **made)


def copied(problem: Problem, share: float, rng: np.random.Generator) -> Problem:
    """Return the problem with a share of its rows written twice, one below the other.

    The last rows are left out, so that there are as many rows as before. Copies have a unit of
    their own where the log has no units.
    """
    n = len(problem.reward)
    rows = np.repeat(np.arange(n), 1 + (rng.random(n) < share))[:n]
    target = None if problem.target_action is None else np.arange(len(problem.target_action))
    changes: dict[str, Any] = {"shared_contexts": False}
    if problem.unit is None:
        changes |= {"unit": None, "target_unit": None}
    elif target is not None:
        changes["target_unit"] = problem.row_units[1]
    return problem_rows(problem, rows, target, **changes)


def drifted(problem: Problem, share: float, rng: np.random.Generator) -> FloatArray:
    """Return rewards whose mean grows with time, by a share of their deviation at the end: (n,).

    Rewards in a known range are replaced by its upper end with the probability that does this.
    """
    reward = problem.reward
    shift = share * reward.std() * np.arange(len(reward)) / max(1, len(reward) - 1)
    if problem.reward_range is None:
        moved: FloatArray = reward + shift
        return moved
    high = problem.reward_range[1]
    room = high - reward.mean()
    if room <= 0:
        return reward
    return np.where(rng.random(len(reward)) * room < shift, high, reward)


def delayed(problem: Problem, reward: FloatArray, share: float) -> tuple[Problem, FloatArray]:
    """Return the problem and rewards that are 0 in a share of the last rows."""
    n = len(reward)
    late = np.arange(n) >= n - round(share * n)
    if problem.reward_range is not None:
        low, high = problem.reward_range
        problem = replace(problem, reward_range=(min(low, 0.0), max(high, 0.0)))
    return problem, np.where(late, 0.0, reward)


def _target_mass(problem: Problem) -> FloatArray:
    """Return each action's probability under the target policy, or its share of its sample."""
    policy, n_actions = problem.target_policy, problem.n_actions
    if isinstance(policy, DiscretePolicy):
        mass = np.zeros(policy.n_actions)
        for _, block in policy.blocks(problem.context):
            mass += block.sum(axis=0)
        return mass / len(problem.context)
    _, action, _ = problem.target_sample
    return np.bincount(action.astype(np.int64), minlength=n_actions or 0) / len(action)


def _probability(policy: DiscretePolicy, problem: Problem) -> FloatArray:
    """Return the policy's probability of the logged actions: (n,); never 0, for refused rows."""
    found = policy.probability(problem.context, problem.action.astype(np.int64))
    return np.maximum(found, np.finfo(np.float64).tiny)


def _logging_policy(problem: Problem, dial: str) -> DiscretePolicy:
    if not isinstance(problem.logging_policy, DiscretePolicy):
        msg = f"{dial} needs the whole logging policy of discrete actions, which is not known"
        raise UnavailableError(msg)
    return problem.logging_policy
