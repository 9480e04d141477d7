"""Logs of simulated products, made with NumPy alone: nothing of the packages here draws them.

They judge what was chosen on the drawn worlds of ope-bench. A world is drawn from its number:
rows, contexts, actions, a reward model, a logging policy, a new policy, and perhaps one fault of
the log. Values are exact over a large sample of contexts: sums over all actions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["FAULTS", "LOGGERS", "OutsideLog", "outside_log"]

Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]

RULES = ("rule", "exploring rule", "estimated rule")
"""Always what a model believes to be best, logged with p = 1; with exploration of .01 to .05, and
the right propensities; without exploration, its propensities to be estimated."""

LOGGERS = ("even", "softmax", "greedy", "bandit", *RULES)
"""How the old policy chooses; "bandit" learns from its rewards."""

FAULTS = ("other column", "constant", "noisy", "hidden cause", "late", "filtered", "copies")
"""The propensity of another action; one for all; with noise; a hidden cause; the newest rewards
are missing; rows without a reward are lost; rows are logged several times."""

CONTEXTS = 60_000
"""Contexts over which values are computed."""

BATCHES = 8
"""Of the adaptive logger."""


@dataclass
class OutsideLog:
    """A log as a user has it, and what is true of it.

    Parameters
    ----------
    frame : columns of the log, (n,) each.
    given : arguments of ``Log.from_frame`` beside the new policy.
    new_policy : probabilities of every action: (n, n_actions).
    truth, today : mean reward of the new policy, and of the old one.
    error : standard error of truth - today, both means over the same contexts.
    deviation : standard deviation of one reward, before faults.
    signal : share of the rewards' variance that context and action explain.
    """

    frame: dict[str, Any]
    given: dict[str, Any]
    new_policy: Floats
    truth: float
    today: float
    error: float
    deviation: float
    signal: float
    facts: dict[str, Any] = field(default_factory=dict)


def outside_log(number: int, logger: str, fault: str | None) -> OutsideLog:
    """Draw the world of a number, and one log of it.

    Parameters
    ----------
    number : decides everything that is drawn.
    logger : one of LOGGERS.
    fault : one of FAULTS, or None for a log that is right.
    """
    rng = np.random.default_rng([number, 51])
    n = int(np.exp(rng.uniform(np.log(1_500), np.log(8_000))))
    k = int(np.exp(rng.uniform(np.log(2.0), np.log(25.0))))
    d = int(rng.integers(3, 13))
    utility = _utility(rng, d, k)
    mean, sample, kind = _reward(rng)
    x = _contexts(rng, n + CONTEXTS, d)
    hidden = rng.normal(size=n + CONTEXTS) if fault == "hidden cause" else np.zeros(n + CONTEXTS)
    scores = utility(x) + 0.8 * hidden[:, None]
    expected = mean(scores)

    believed = utility(x) * rng.uniform(-0.5, 1.0) + _noise(rng, x, k) * rng.uniform(0.2, 1.0)
    believed += hidden[:, None]
    action, policy, propensity = _log(rng, logger, believed, expected, sample, n)
    wanted = utility(x) * rng.uniform(-0.8, 1.0) + _noise(rng, x, k) * rng.uniform(0.1, 0.8)
    share = rng.uniform(0.4, 1.0)
    new = share * _softmax(wanted * rng.uniform(1.0, 6.0) / wanted.std())
    new += (
        (1 - share) * np.eye(k)[believed.argmax(axis=1)] if logger in RULES else ((1 - share) / k)
    )

    reward = sample(expected[np.arange(n), action], rng)
    outside = slice(n, None)
    explained = (policy[outside] * expected[outside] ** 2).sum(axis=1).mean()
    today = float((policy[outside] * expected[outside]).sum(axis=1).mean())
    lift = ((new - policy)[outside] * expected[outside]).sum(axis=1)
    log = OutsideLog(
        frame={f"f{j}": x[:n, j] for j in range(d)} | {"day": np.arange(n)},
        given={"context": [f"f{j}" for j in range(d)], "time": "day"},
        new_policy=new[:n],
        truth=float((new[outside] * expected[outside]).sum(axis=1).mean()),
        today=today,
        error=float(lift.std() / np.sqrt(CONTEXTS)),
        deviation=float(reward.std()),
        signal=float(np.clip((explained - today**2) / max(reward.var(), 1e-12), 0.0, 1.0)),
        facts={"rows": n, "actions": k, "reward": kind},
    )
    log.frame |= {"arm": action, "gain": reward, "p": propensity}
    _break(log, fault, rng, policy[:n])
    if logger == "estimated rule":
        log.given["propensity"] = "estimated"
    return log


def _contexts(rng: np.random.Generator, n: int, d: int) -> Floats:
    """Correlated numbers, every third one skewed and every fourth one a count."""
    x = rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)))
    x /= x.std(axis=0)
    x[:, ::3] = np.exp(0.7 * x[:, ::3])
    x[:, 1::4] = np.floor(np.abs(2 * x[:, 1::4]))
    return np.asarray((x - x.mean(axis=0)) / x.std(axis=0))


def _utility(rng: np.random.Generator, d: int, k: int) -> Callable[[Floats], Floats]:
    """Draw what each action is worth in a context: linear, a tree, a product or a wave."""
    kind = rng.integers(4)
    own = rng.uniform(0.2, 1.0) * rng.normal(size=k)
    scale = float(rng.choice([0.15, 0.5, 1.5]))
    slope = rng.normal(size=(d, k)) / np.sqrt(d)
    columns, ends = rng.integers(d, size=(k, 3)), rng.normal(size=(k, 3))
    leaves = rng.normal(size=(k, 8))

    def worth(x: Floats) -> Floats:
        if kind == 0:
            found = x @ slope
        elif kind == 1:
            sides = np.stack([x[:, columns[:, j]] > ends[:, j] for j in range(3)])
            found = leaves[np.arange(k), sides[0] + 2 * sides[1] + 4 * sides[2]]
        elif kind == 2:
            found = x[:, columns[:, 0]] * x[:, columns[:, 1]] * np.sign(ends[:, 0])
        else:
            found = np.sin(2 * x @ slope + ends[:, 1])
        return np.asarray(own + scale * np.clip(found, -4, 4))

    return worth


def _reward(rng: np.random.Generator) -> tuple[Callable[..., Floats], Callable[..., Floats], str]:
    """Draw a kind of reward: its mean by score, and how it is drawn around the mean."""
    kind = str(rng.choice(["click", "click", "amount", "rating", "score"]))
    base = rng.uniform(-4.0, 0.5)

    def chance(score: Floats) -> Floats:
        return np.asarray(1 / (1 + np.exp(-base - score)))

    if kind == "click":
        return chance, lambda p, rng: (rng.random(p.shape) < p).astype(np.float64), kind
    if kind == "amount":  # of few, with a long tail; its mean is 20 where there is one
        return (
            lambda score: 20 * chance(score),
            lambda m, rng: (
                (rng.random(m.shape) < m / 20) * (20 * rng.lognormal(-0.32, 0.8, size=m.shape))
            ),
            kind,
        )
    if kind == "rating":  # one to five stars
        return (
            lambda score: 1 + 4 * chance(score),
            lambda m, rng: 1 + rng.binomial(4, (m - 1) / 4).astype(np.float64),
            kind,
        )
    return np.array, lambda m, rng: m + rng.standard_t(4, size=m.shape), kind


def _noise(rng: np.random.Generator, x: Floats, k: int) -> Floats:
    """What a model believes that is not so."""
    return np.asarray(rng.normal(size=k) + x @ rng.normal(size=(x.shape[1], k)) / x.shape[1])


def _softmax(score: Floats) -> Floats:
    weight = np.exp(score - score.max(axis=1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def _draw(policy: Floats, rng: np.random.Generator) -> Integers:
    above = policy.cumsum(axis=1) < rng.random(len(policy))[:, None]
    return np.asarray(above.sum(axis=1).clip(max=policy.shape[1] - 1))


def _log(
    rng: np.random.Generator,
    logger: str,
    believed: Floats,
    expected: Floats,
    sample: Callable[..., Floats],
    n: int,
) -> tuple[Integers, Floats, Floats]:
    """Return the logged actions, the old policy in every context, and the propensities."""
    k = believed.shape[1]
    every = np.arange(n)
    if logger == "bandit":
        return _bandit(rng, believed, expected, sample, n)
    if logger == "even":
        policy = np.full(believed.shape, 1 / k)
    elif logger == "softmax":
        policy = _softmax(believed * rng.uniform(0.3, 2.0) / believed.std())
    else:
        ends = {"greedy": (0.05, 0.4), "exploring rule": (0.01, 0.05)}
        exploration = rng.uniform(*ends[logger]) if logger in ends else 0.0
        policy = np.full(believed.shape, exploration / k)
        policy[np.arange(len(believed)), believed.argmax(axis=1)] += 1 - exploration
    action = _draw(policy[:n], rng)
    return action, policy, policy[every, action]


def _bandit(
    rng: np.random.Generator,
    believed: Floats,
    expected: Floats,
    sample: Callable[..., Floats],
    n: int,
) -> tuple[Integers, Floats, Floats]:
    """A bandit that learns between batches which action is best, and always explores a little.

    Its policy, on the whole, is the mean of those of its batches.
    """
    k = believed.shape[1]
    action, propensity = np.zeros(n, dtype=np.int64), np.zeros(n)
    total, count = np.zeros(k), np.ones(k)
    policy = np.zeros_like(believed)
    for rows in np.array_split(np.arange(n), BATCHES):
        learnt = total / count + 1.0 / np.sqrt(count)
        spread = learnt.std() or 1.0
        one = 0.1 / k + 0.9 * _softmax(0.5 * believed / believed.std() + 1.5 * learnt / spread)
        policy += one * len(rows) / n
        action[rows] = _draw(one[rows], rng)
        propensity[rows] = one[rows, action[rows]]
        seen = sample(expected[rows, action[rows]], rng)
        np.add.at(total, action[rows], seen)
        np.add.at(count, action[rows], 1.0)
    return action, policy, propensity


def _break(log: OutsideLog, fault: str | None, rng: np.random.Generator, policy: Floats) -> None:
    """Put a fault into a log; values stay those of the world."""
    frame, n = log.frame, len(log.new_policy)
    kept = np.arange(n)
    log.given |= {"action": "arm", "reward": "gain", "propensity": "p"}
    if fault == "other column":
        frame["p"] = policy.max(axis=1)
    elif fault == "constant":
        frame["p"] = np.full(n, 1 / policy.shape[1])
    elif fault == "noisy":
        frame["p"] = np.clip(frame["p"] * np.exp(rng.normal(size=n) * 0.5), 1e-4, 1.0)
    elif fault == "hidden cause":
        log.given["propensity"] = "estimated"
    elif fault == "late":
        lost = rng.random(n) < np.linspace(-1.0, 1.0, n).clip(min=0.0)
        frame["gain"] = np.where(lost, frame["gain"].min(), frame["gain"])
    elif fault == "filtered":
        low = frame["gain"] <= np.median(frame["gain"])
        kept = np.flatnonzero(~low | (rng.random(n) < 0.5))
    elif fault == "copies":
        kept = np.repeat(np.arange(n // 4), rng.integers(1, 7, size=n // 4))
    log.frame = {name: column[kept] for name, column in frame.items()}
    log.new_policy = log.new_policy[kept]
