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
    "RestrictedPolicy",
    "accepted",
    "arriving",
    "confounded",
    "copied",
    "delayed",
    "drifted",
    "grouped",
    "nearly_copied",
    "retained",
    "ruled",
    "unsupported",
    "unsupported_mass",
]

Accept = Callable[[Problem, np.random.Generator], tuple[Problem, npt.NDArray[np.bool_]]]
"""f(log, rng) -> (the log changed, its rows that are kept (n,))."""

MOST_LOGS = 200
"""Logs that are drawn for one; where they do not fill it, the dials are too strong."""

CANDIDATES = 4
"""Candidate rows per row of a log with users."""

SMALLEST_LEFT = 1e-9
"""Probability of all actions that are left, under which none is."""

Contexts = Callable[[FloatArray], npt.NDArray[np.bool_]]
"""f(context (k, d_context)) -> (k,): which contexts."""

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
    policy = problem.logging_policy
    if isinstance(policy, DiscretePolicy) and "propensity" in rows:
        told = policy.probability(rows["context"], rows["action"])
        if not np.allclose(told, rows["propensity"], rtol=1e-9, atol=1e-12):
            # A logger that learns is another one in each log.
            reason = "these rows are of several logs of a logger that learns: no policy has all"
            changes["logging_policy"] = None
            changes["unavailable"] = {**first.unavailable, "logging_policy": reason}
    return replace(first, **changes, shared_contexts=False)


def unsupported(share: float, world_rng: np.random.Generator, *, whole: bool = False) -> Accept:
    """Let the logger never play some actions that the target policy plays.

    Actions are taken in random order until the target policy gives them this share of its mass, on
    average over the first log's contexts. The last of them is refused in a part of the contexts
    alone, those beyond a plane in a random direction, such that the mass is the share. The logger
    plays the others in proportion; where it plays no other, nothing is refused. Rows are accepted
    such that contexts keep their distribution.

    Parameters
    ----------
    share : of the target policy's mass.
    world_rng : draws the actions and the direction.
    whole : refuse the last action everywhere, and so more than the share.
    """
    refused: npt.NDArray[np.bool_] | None = None
    last, least = -1, 0.0 if whole else SMALLEST_LEFT
    cut: Contexts = _nowhere

    def accept(
        problem: Problem, rng: np.random.Generator
    ) -> tuple[Problem, npt.NDArray[np.bool_]]:
        nonlocal refused, last, cut
        logging = _logging_policy(problem, "support")
        if refused is None:
            mass = _target_mass(problem)
            order = world_rng.permutation(len(mass))
            passed = np.cumsum(mass[order])
            number = int(np.searchsorted(passed, share * mass.sum()))
            refused = np.zeros(len(mass), dtype=bool)
            # One action is left to the logger.
            refused[order[: min(number + whole, len(mass) - 1)]] = True
            if not whole and number < len(mass) - 1:
                last = int(order[number])
                rest = share * mass.sum() - (passed[number] - mass[last])
                cut = _beyond_plane(problem, last, float(rest), world_rng)
        policy = RestrictedPolicy(logging, refused, last, cut, least)
        played = ~refused
        left = logging.project(problem.context, played[:, None].astype(np.float64))[:, 0]
        keep = played[problem.action]
        if last >= 0:
            inside = cut(problem.context)
            of_last = np.full(len(left), last)
            left = left - inside * logging.probability(problem.context, of_last)
            keep = keep & ~(inside & (problem.action == last))
        only = left < least
        left, keep = np.where(only, 1.0, left), keep | only
        keep = keep & (rng.random(len(left)) * left < left.min())
        changed = replace(
            problem,
            logging_policy=policy,
            propensity=np.minimum(_probability(logging, problem) / left, 1.0),
        )
        return changed, keep

    return accept


def unsupported_mass(problem: Problem) -> float:
    """Return the share of the target policy's mass at the logged contexts that is never logged.

    Of a target sample, its share of rows.
    """
    logging, target = _logging_policy(problem, "support"), problem.target_policy
    if not isinstance(target, DiscretePolicy):
        context, action, _ = problem.target_sample
        return float((logging.probability(context, action.astype(np.int64)) == 0).mean())
    total = 0.0
    for rows, block in target.blocks(problem.context):
        total += float(block[logging.table(problem.context[rows]) == 0].sum())
    return total / len(problem.context)


class RestrictedPolicy(DiscretePolicy):
    """A policy that never plays some actions, and plays the others in proportion.

    Parameters
    ----------
    policy : the policy without this.
    refused : (n_actions,), actions that are never played.
    last : an action that is not played in some contexts; -1 for none.
    cut : says in which contexts, f(context (k, d_context)) -> (k,).
    least : contexts in which the actions that are left had less probability keep all.
    """

    def __init__(
        self,
        policy: DiscretePolicy,
        refused: npt.NDArray[np.bool_],
        last: int,
        cut: Contexts,
        least: float,
    ) -> None:
        super().__init__(policy.n_actions)
        self._policy, self._played, self._last = policy, ~refused, last
        self._cut, self._least = cut, least

    def table(self, context: FloatArray) -> FloatArray:
        """Return the probabilities of a chunk: (k, n_actions)."""
        before = self._policy.table(context)
        changed = before * self._played
        if self._last >= 0:
            changed[self._cut(context), self._last] = 0.0
        total = changed.sum(axis=1, keepdims=True)
        only = total[:, 0] < self._least
        changed[only], total[only] = before[only], before[only].sum(axis=1, keepdims=True)
        normalized: FloatArray = changed / total
        return normalized


def _nowhere(context: FloatArray) -> npt.NDArray[np.bool_]:
    return np.zeros(len(context), dtype=bool)


def _beyond_plane(
    problem: Problem, action: int, share: float, world_rng: np.random.Generator
) -> Contexts:
    """Return the contexts beyond a plane, in which the target plays the action with this mass."""
    policy = problem.target_policy
    if isinstance(policy, DiscretePolicy):
        context = problem.context
        mass = policy.probability(context, np.full(len(context), action))
    else:
        context, played, _ = problem.target_sample
        mass = (played == action).astype(np.float64)
    center, spread = context.mean(axis=0), context.std(axis=0)
    direction = world_rng.standard_normal(context.shape[1]) / np.where(spread > 0, spread, 1.0)

    def along(rows: FloatArray) -> FloatArray:
        found: FloatArray = (rows - center) @ direction
        return found

    places, at = np.unique(along(context), return_inverse=True)
    # Mass of the contexts from each place on, and none beyond the last.
    beyond = np.append(np.cumsum(np.bincount(at, mass)[::-1])[::-1] / len(context), 0.0)
    edges = np.concatenate([[-np.inf], (places[1:] + places[:-1]) / 2, [np.inf]])
    limit = float(edges[np.abs(beyond - share).argmin()])
    return lambda rows: along(rows) > limit


def ruled(exploration: float, world_rng: np.random.Generator) -> Accept:
    """Let the logger play its likeliest action, but for a share of decisions, which are as before.

    Parameters
    ----------
    exploration : the share.
    world_rng : draws which of equally likely actions the rule plays.
    """
    order: IntArray | None = None

    def accept(
        problem: Problem, rng: np.random.Generator
    ) -> tuple[Problem, npt.NDArray[np.bool_]]:
        nonlocal order
        logging = _logging_policy(problem, "exploration")
        if order is None:
            order = world_rng.permutation(logging.n_actions)
        first = order

        def changed(table: FloatArray) -> FloatArray:
            found = exploration * table
            likeliest = first[table[:, first].argmax(axis=1)]
            found[np.arange(len(table)), likeliest] += 1.0 - exploration
            return found

        policy = ChangedPolicy(logging, changed)
        before, after = _probability(logging, problem), _probability(policy, problem)
        largest = max(
            float((policy.table(problem.context[rows]) / np.where(block > 0, block, 1.0)).max())
            for rows, block in logging.blocks(problem.context)
        )
        keep = rng.random(len(before)) * largest * before < after
        return replace(problem, logging_policy=policy, propensity=after), keep

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


def grouped(problem: Problem, n: int, rows: int, named: bool, rng: np.random.Generator) -> Problem:
    """Return the rows of some users of several rows each, whose rewards are alike.

    Rows are sorted by reward plus noise of its standard deviation and cut into users; users are
    then drawn. Each row is as likely as before, so the value is as before.

    Parameters
    ----------
    problem : candidate rows, as many as fill users: the rows that are left over, those with the
        largest rewards, would never be drawn.
    n : rows that are returned.
    rows : of a user.
    named : the log has the user of each row.
    rng : draws noise, users and their order in time.
    """
    reward = problem.reward
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
    return _with_copies(problem, share, rng)[0]


def _with_copies(
    problem: Problem, share: float, rng: np.random.Generator
) -> tuple[Problem, npt.NDArray[np.bool_]]:
    """Return the problem of `copied`, and which of its rows are copies: (n,)."""
    n = len(problem.reward)
    rows = np.repeat(np.arange(n), 1 + (rng.random(n) < share))[:n]
    target = None if problem.target_action is None else np.arange(len(problem.target_action))
    changes: dict[str, Any] = {"shared_contexts": False}
    if problem.unit is None:
        changes |= {"unit": None, "target_unit": None}
    elif target is not None:
        changes["target_unit"] = problem.row_units[1]
    return problem_rows(problem, rows, target, **changes), np.diff(rows, prepend=-1) == 0


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
    return _nothing_at(problem, reward, np.arange(n) >= n - round(share * n))


def _nothing_at(
    problem: Problem, reward: FloatArray, late: npt.NDArray[np.bool_]
) -> tuple[Problem, FloatArray]:
    if problem.reward_range is not None:
        low, high = problem.reward_range
        problem = replace(problem, reward_range=(min(low, 0.0), max(high, 0.0)))
    return problem, np.where(late, 0.0, reward)


def arriving(
    problem: Problem, reward: FloatArray, share: float, rng: np.random.Generator
) -> tuple[Problem, FloatArray]:
    """Return the problem and rewards that are 0 where they have not arrived by the end of the log.

    Parameters
    ----------
    share : mean of the exponential time to a reward, as a share of the log's time.
    """
    n = len(reward)
    left = 1.0 - (np.arange(n) + 0.5) / n
    return _nothing_at(problem, reward, rng.exponential(share, n) > left)


def nearly_copied(
    problem: Problem, share: float, world_rng: np.random.Generator, rng: np.random.Generator
) -> Problem:
    """Return the problem with a share of its rows written twice, differing in one number.

    One column of numbers of the context has normal noise in the copies, of a twentieth of its
    deviation. Policies play in a copy what they play in its row.

    Raises
    ------
    UnavailableError : no column of the context holds numbers.
    """
    kinds = [] if problem.schema is None else problem.schema.context
    columns = [k for k, one in enumerate(kinds) if one.kind == "continuous"]
    if not columns:
        msg = "jitter changes a column of numbers of the context, of which there is none"
        raise UnavailableError(msg)
    column = int(world_rng.choice(columns))
    problem, copy = _with_copies(problem, share, rng)
    context = problem.context.copy()
    noise = 0.05 * float(context[:, column].std()) * rng.standard_normal(len(context))
    context[copy, column] += noise[copy]
    origin = {
        row.tobytes(): source
        for row, source in zip(context[copy], problem.context[copy], strict=True)
    }
    changes: dict[str, Any] = {"context": context}
    for name in ("logging_policy", "target_policy"):
        policy = getattr(problem, name)
        if isinstance(policy, DiscretePolicy):
            changes[name] = _OfCopies(policy, origin)
    return replace(problem, **changes)


class _OfCopies(DiscretePolicy):
    """A policy that plays in near copies of contexts what it plays in these."""

    def __init__(self, policy: DiscretePolicy, origin: dict[bytes, FloatArray]) -> None:
        super().__init__(policy.n_actions)
        self._policy, self._origin = policy, origin

    def table(self, context: FloatArray) -> FloatArray:
        """Return the probabilities of a chunk: (k, n_actions)."""
        origin = self._origin
        return self._policy.table(np.array([origin.get(row.tobytes(), row) for row in context]))


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
