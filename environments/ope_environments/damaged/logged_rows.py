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
    row_chunks,
)
from ope_environments.damaged.logged_propensities import ChangedPolicy

__all__ = [
    "Accept",
    "RestrictedPolicy",
    "Unsupported",
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
]

Accept = Callable[[Problem, np.random.Generator], tuple[Problem, npt.NDArray[np.bool_]]]
"""f(log, rng) -> (the log changed, its rows that are kept (n,))."""

MOST_LOGS = 200
"""Logs that are drawn for one; where they do not fill it, the faults are too strong."""

FIRST_LOGS = 10
"""Logs that tell whether `MOST_LOGS` have half of the rows, at least."""

CANDIDATES = 4
"""Candidate rows per row of a log with users."""

LEAST_LEFT = 0.05
"""Probability of the actions that are left to a logger in every context: with less, most rows of
many logs would be needed to have those of one."""

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
    for number in range(1, MOST_LOGS + 1):
        keep = np.ones(len(problem.reward), dtype=bool)
        for one in accept:
            problem, accepted_rows = one(problem, rng)
            keep &= accepted_rows
        held = {name: getattr(problem, name) for name in _ROW_FIELDS}
        kept.append({name: value[keep] for name, value in held.items() if value is not None})
        found += int(keep.sum())
        if found >= n:
            break
        hopeless = number == FIRST_LOGS and 2 * found * MOST_LOGS < n * FIRST_LOGS
        if number == MOST_LOGS or hopeless:
            msg = f"{number} logs of the environment have {found} of {n} rows left: weaken faults"
            raise UnavailableError(msg)
        problem = next(logs)
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


class Unsupported:
    """Let the logger never play some actions that the target policy plays.

    Actions are taken in turn, in random order, until the target policy gives them this share of
    its mass, on average over the first log's contexts: of what the logger plays, so that its own
    gaps do not count. An action stays in the contexts in which the logger plays hardly anything
    else, such as that of a rule. The last one is refused in a part of the contexts alone, those
    beyond a plane in a random direction, such that the mass is the share. The logger plays what is
    left in proportion. Rows are accepted such that contexts keep their distribution.

    Parameters
    ----------
    share : of the target policy's mass.
    world_rng : draws the actions and the direction.
    whole : refuse the last action everywhere, and so more than the share, and any of a rule.
    """

    def __init__(self, share: float, world_rng: np.random.Generator, *, whole: bool = False):
        self._share, self._world_rng, self._whole = share, world_rng, whole
        self._policy: RestrictedPolicy | None = None

    def __call__(
        self, problem: Problem, rng: np.random.Generator
    ) -> tuple[Problem, npt.NDArray[np.bool_]]:
        """Refuse rows of one log; the first one decides which actions go.

        Raises
        ------
        UnavailableError : the logger cannot lose as much and still play.
        """
        logging = _logging_policy(problem, "support")
        if self._policy is None:
            policy = self._restrict(problem, logging)
        else:
            policy = self._policy.of(logging)
        self._policy = policy
        left, keep = policy.left(problem.context, problem.action.astype(np.int64))
        keep = keep & (rng.random(len(left)) * left < left.min())
        changed = replace(
            problem,
            logging_policy=policy,
            propensity=np.minimum(_probability(logging, problem) / left, 1.0),
        )
        return changed, keep

    def removed(self, problem: Problem) -> float:
        """Return the target's mass, at a log's contexts, of what the logger played before."""
        assert self._policy is not None  # noqa: S101  a log was drawn
        return float(_masses(problem, self._policy)[1].sum())

    def _restrict(self, problem: Problem, logging: DiscretePolicy) -> RestrictedPolicy:
        """Choose the actions by the first log."""
        n, least = logging.n_actions, 0.0 if self._whole else LEAST_LEFT
        drawn = self._world_rng.permutation(n)
        total, played = _masses(problem, logging)
        if self._whole:
            number = int(np.searchsorted(np.cumsum(total[drawn]), self._share * total.sum()))
            # One action is left to the logger.
            return RestrictedPolicy(logging, drawn[: min(number + 1, n - 1)], None, least)
        wanted = self._share * total.sum()
        # Where the drawn order leaves too little to the logger, the reverse one may not.
        for order in (drawn, drawn[::-1]):
            mass = played
            passed = np.cumsum(mass[order])
            number = int(np.searchsorted(passed, wanted))
            policy = RestrictedPolicy(logging, order[: number + 1], None, least)
            if number >= n - 1 or policy.spares(problem.context):
                policy = RestrictedPolicy(logging, order, None, least)
                mass = _masses(problem, policy)[1]
                passed = np.cumsum(mass[order])
                number = int(np.searchsorted(passed, wanted))
            if number < n:
                rest = float(wanted - (passed[number] - mass[order[number]]))
                policy = RestrictedPolicy(logging, order[: number + 1], None, least)
                cut = _beyond_plane(problem, policy, int(order[number]), rest, self._world_rng)
                return RestrictedPolicy(logging, order[: number + 1], cut, least)
        gap = round(float(total.sum() - played.sum()), 3)
        msg = (
            f"support={self._share:g}: this logger can lose actions with {passed[-1]:.3g} of the "
            f"new policy's mass and still play; the world's own gap is {abs(gap):g}. Ask for less"
        )
        raise UnavailableError(msg)


class RestrictedPolicy(DiscretePolicy):
    """A policy that never plays some actions, and plays the others in proportion.

    Parameters
    ----------
    policy : the policy without this.
    refused : actions that are never played, in the order in which they are taken.
    cut : contexts in which the last of them is refused, f(context (k, d_context)) -> (k,); all
        where None.
    least : an action stays where the others would have less probability.
    """

    def __init__(
        self, policy: DiscretePolicy, refused: IntArray, cut: Contexts | None, least: float
    ) -> None:
        super().__init__(policy.n_actions)
        self.policy, self._refused, self._cut, self._least = policy, refused, cut, least
        self._always = np.ones(policy.n_actions, dtype=bool)
        self._always[refused if cut is None else refused[:-1]] = False

    def of(self, policy: DiscretePolicy) -> RestrictedPolicy:
        """Return the same restriction of another policy."""
        return RestrictedPolicy(policy, self._refused, self._cut, self._least)

    def table(self, context: FloatArray) -> FloatArray:
        """Return the probabilities of a chunk: (k, n_actions)."""
        changed, total = self._left(context, self.policy.table(context))
        normalized: FloatArray = changed / total[:, None]
        return normalized

    def left(
        self, context: FloatArray, action: IntArray
    ) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
        """Return the probability of all that is played, and which actions are: (n,), (n,)."""
        kept = self._always[action]
        left = self.policy.project(context, self._always[:, None].astype(np.float64))[:, 0]
        if self._cut is not None:
            inside, last = self._cut(context), int(self._refused[-1])
            left = left - inside * self.policy.probability(context, np.full(len(left), last))
            kept = kept & ~(inside & (action == last))
        # Sums differ in the last digit: `table` decides where it is close.
        few = np.flatnonzero(left < self._least * (1.0 + 1e-6))
        for rows in row_chunks(len(few), self.n_actions):
            at = few[rows]
            changed, left[at] = self._left(context[at], self.policy.table(context[at]))
            kept[at] = np.take_along_axis(changed, action[at, None], axis=1)[:, 0] > 0
        return left, kept

    def spares(self, context: FloatArray) -> bool:
        """Return whether an action stays in some contexts for want of others."""
        left = self.policy.project(context, self._always[:, None].astype(np.float64))[:, 0]
        return bool((left < self._least * (1.0 + 1e-6)).any())

    def _left(self, context: FloatArray, before: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return a table without what is refused, and its sums: (k, n_actions), (k,)."""
        changed = before * self._always
        inside = None if self._cut is None else self._cut(context)
        if inside is not None:
            changed[inside, self._refused[-1]] = 0.0
        total = changed.sum(axis=1)
        few = np.flatnonzero(total < self._least)
        if len(few):
            some = before[few]
            left = some.sum(axis=1)
            for action in self._refused:
                gone = left - some[:, action] >= self._least
                if inside is not None and action == self._refused[-1]:
                    gone &= inside[few]
                left -= np.where(gone, some[:, action], 0.0)
                some[gone, action] = 0.0
            changed[few], total[few] = some, some.sum(axis=1)
        return changed, total


def _masses(problem: Problem, policy: DiscretePolicy) -> tuple[FloatArray, FloatArray]:
    """Return the target's mass of each action, and the mass that a policy's logger played.

    Of a restricted policy the second is what it refuses and the policy without this plays. Of a
    target sample masses are shares of its rows.
    """
    masses = np.zeros((2, policy.n_actions))
    before = policy.policy if isinstance(policy, RestrictedPolicy) else policy
    n = 0
    for context, block in _target_blocks(problem, policy.n_actions):
        n += len(context)
        masses[0] += block.sum(axis=0)
        told = before.table(context) > 0
        if policy is not before:
            told &= policy.table(context) == 0
        masses[1] += (block * told).sum(axis=0)
    total, part = masses / n
    return total, part


def _target_blocks(problem: Problem, n_actions: int) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield contexts and the target policy's table; of a target sample, 1 where it plays."""
    policy = problem.target_policy
    if isinstance(policy, DiscretePolicy):
        for rows, block in policy.blocks(problem.context):
            yield problem.context[rows], block
        return
    context, action, _ = problem.target_sample
    for rows in row_chunks(len(context), n_actions):
        yield context[rows], (action[rows, None] == np.arange(n_actions)).astype(np.float64)


def _beyond_plane(
    problem: Problem,
    restricted: RestrictedPolicy,
    action: int,
    share: float,
    world_rng: np.random.Generator,
) -> Contexts:
    """Return the contexts beyond a plane, in which the action that is refused has this mass."""
    policy = problem.target_policy
    if isinstance(policy, DiscretePolicy):
        context = problem.context
        mass = policy.probability(context, np.full(len(context), action))
    else:
        context, played, _ = problem.target_sample
        mass = (played == action).astype(np.float64)
    of_action = np.full(len(context), action)
    mass = mass * (restricted.policy.probability(context, of_action) > 0)
    mass = mass * ~restricted.left(context, of_action)[1]
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


def drifted(problem: Problem, share: float, rng: np.random.Generator) -> Problem:
    """Return the problem with rewards that grow with time, at the end by a share of their spread.

    Rewards in a known range are replaced by its upper end with the probability that does this.
    """
    reward = problem.reward
    shift = share * reward.std() * np.arange(len(reward)) / max(1, len(reward) - 1)
    if problem.reward_range is None:
        return replace(problem, reward=reward + shift)
    high = problem.reward_range[1]
    room = high - reward.mean()
    if room <= 0:
        return problem
    moved = np.where(rng.random(len(reward)) * room < shift, high, reward)
    return replace(problem, reward=moved)


def delayed(problem: Problem, share: float) -> Problem:
    """Return the problem with rewards that are 0 in a share of the last rows."""
    n = len(problem.reward)
    return _nothing_at(problem, np.arange(n) >= n - round(share * n))


def _nothing_at(problem: Problem, late: npt.NDArray[np.bool_]) -> Problem:
    limits = problem.reward_range
    if limits is not None:
        limits = min(limits[0], 0.0), max(limits[1], 0.0)
    return replace(problem, reward=np.where(late, 0.0, problem.reward), reward_range=limits)


def arriving(problem: Problem, share: float, rng: np.random.Generator) -> Problem:
    """Return the problem with rewards that are 0 where they come after the end of the log.

    Parameters
    ----------
    share : mean of the exponential time to a reward, as a share of the log's time.
    """
    n = len(problem.reward)
    left = 1.0 - (np.arange(n) + 0.5) / n
    return _nothing_at(problem, rng.exponential(share, n) > left)


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


def _probability(policy: DiscretePolicy, problem: Problem) -> FloatArray:
    """Return the policy's probability of the logged actions: (n,); never 0, for refused rows."""
    found = policy.probability(problem.context, problem.action.astype(np.int64))
    return np.maximum(found, np.finfo(np.float64).tiny)


def _logging_policy(problem: Problem, fault: str) -> DiscretePolicy:
    if not isinstance(problem.logging_policy, DiscretePolicy):
        msg = f"{fault} needs the whole logging policy of discrete actions, which is not known"
        raise UnavailableError(msg)
    return problem.logging_policy
