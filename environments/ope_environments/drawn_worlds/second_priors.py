"""Version 2 of the priors of drawn worlds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from ope_bench import (
    DeterministicEmbedding,
    Diagnostic,
    FloatArray,
    IntArray,
    Schema,
    stream,
)
from ope_environments.drawn_worlds.adaptive import AdaptiveLogger, draw_schedule
from ope_environments.drawn_worlds.contexts import draw_contexts, draw_positions, draw_vectors
from ope_environments.drawn_worlds.policies import (
    ByContext,
    draw_logging,
    draw_target,
    find_contexts,
)
from ope_environments.drawn_worlds.rules import draw_exploration, draw_rule
from ope_environments.drawn_worlds.scores import (
    Structure,
    draw_embedding,
    draw_score,
    standardized,
)
from ope_environments.drawn_worlds.signal import draw_signal
from ope_environments.drawn_worlds.world import (
    DrawnWorld,
    action_columns,
    log_uniform,
    mix_scores,
    overlap_facts,
)
from ope_environments.populations.design import Design
from ope_environments.populations.population import Population

__all__ = ["SHARES", "Contexts", "Effects", "Phases", "Users", "draw_world"]

Contexts = Literal["few", "many", "vectors", "positions"]
Effects = Literal["large", "weak", "none"]
Users = Literal["one-row", "several-rows"]
Phases = Literal["of-time", "averaged"]

PAIRS = 250_000
"""Contexts times actions of a world, within 1,000 to 4,000 contexts."""

MIDDLE = 0.15
"""Worlds whose signal is drawn from the middle: else few would be neither weak nor strong."""

LARGEST_SCORE = 4.0
"""Deviations at which policies' scores are cut: log-normal columns have values far out."""

SHARES: dict[str, dict[str, float]] = {
    "reward": {
        "binary": 0.50,
        "gaussian": 0.12,
        "bounded": 0.08,
        "zero-inflated": 0.13,
        "heavy-tailed": 0.07,
        "deterministic": 0.10,
    },
    "structure": {
        "linear": 0.27,
        "interactions": 0.18,
        "steps": 0.18,
        "items": 0.12,
        "network": 0.25,
    },
    "effects": {"large": 0.75, "weak": 0.20, "none": 0.05},
    "contexts": {"few": 0.45, "many": 0.25, "vectors": 0.15, "positions": 0.15},
    "users": {"one-row": 0.75, "several-rows": 0.25},
    "embedding": {"absent": 0.40, "useful": 0.40, "useless": 0.20},
    "logging": {
        "softmax": 0.18,
        "epsilon-greedy": 0.15,
        "uniform": 0.12,
        "near-deterministic": 0.10,
        "segments": 0.10,
        "rule": 0.15,
        "thompson": 0.10,
        "decreasing": 0.10,
    },
    "phases": {"of-time": 0.50, "averaged": 0.50},
    "target": {
        "softmax": 0.20,
        "epsilon-greedy": 0.15,
        "deterministic": 0.15,
        "swap": 0.10,
        "small-change": 0.15,
        "mixture": 0.15,
        "large-change": 0.10,
    },
    "known": {"policy": 0.30, "propensity": 0.55, "samples": 0.15},
    "target_form": {"probabilities": 0.70, "sample": 0.30},
}
"""Share of worlds with each kind, dial by dial."""


def draw_world(
    number: int,
    n_samples: int | None,
    n_actions: int | None,
    dials: Mapping[str, Any],
    salt: str,
) -> DrawnWorld:
    """Draw a world; each part has a stream of its own, so that a fixed dial moves few others.

    Parameters
    ----------
    number : of the world.
    n_samples, n_actions : drawn where None.
    dials : kinds by the names of `SHARES`, and the share of ``signal``; drawn where None.
    salt : of the suite; another one draws other worlds.
    """

    def rng(part: str) -> np.random.Generator:
        return stream("population", 2, number, part, *([salt] if salt else []))

    kinds = _draw_kinds(dials, rng)
    rows = round(log_uniform(500, 20_000, rng("rows"))) if n_samples is None else n_samples
    actions = round(log_uniform(3, 500, rng("actions")))
    if kinds["effects"] == "weak":
        actions = int(rng("few actions").integers(2, 6))
    actions = actions if n_actions is None else n_actions

    place: FloatArray | None = None
    n = int(np.clip(PAIRS // actions, 1000, 4000))
    if kinds["contexts"] == "vectors":
        context, columns = draw_vectors(n, rng("contexts"))
    else:
        many = round(log_uniform(7, 64, rng("columns")))
        numbers = many if kinds["contexts"] == "many" else None
        context, columns = draw_contexts(n, rng("contexts"), numbers)
    if kinds["contexts"] == "positions":
        place, column = draw_positions(n, rng("positions"))
        context, columns = np.column_stack([context, place]), (*columns, column)
    design = Design(columns, context)(context)[:, 1:]
    items = draw_embedding(actions, rng("items"))
    useful = items if kinds["embedding"] == "useful" else None

    def draw_part(part: str, structure: Structure, width: int) -> FloatArray:
        of_items = useful if width == actions else None
        return standardized(draw_score(structure, design, width, of_items, rng(f"{part} score")))

    def add(score: FloatArray, other: FloatArray, share: float) -> FloatArray:
        """Return a score of which the other explains a share of the variance."""
        return standardized(np.sqrt(1.0 - share) * score + np.sqrt(share) * other)

    own = draw_part("own", kinds["structure"], actions)
    own_share = _draw_own_share(kinds["effects"], rng("own share"))
    of_context: Structure = "linear" if kinds["structure"] == "items" else kinds["structure"]
    score = add(draw_part("common", of_context, 1), own, own_share)
    if place is not None:
        share = rng("positions").uniform(0.1, 0.6)
        score = add(score, standardized(-np.log(place))[:, None], share)
    of_users = rng("users")
    rows_per_user, share = log_uniform(2, 20, of_users), of_users.uniform(0.05, 0.3)
    if kinds["users"] == "several-rows":
        score = add(score, of_users.standard_normal((n, 1)), share)

    signal = _draw_signal_share(rng("signal")) if dials["signal"] is None else dials["signal"]
    rewards = draw_signal(kinds["reward"], score, signal, rng("rewards"))
    mean, find = rewards.mean, find_contexts(context)

    def reward_at(row: IntArray, action: IntArray) -> FloatArray:
        found: FloatArray = mean[row, action]
        return found

    def prefer(part: str, correlation: float) -> FloatArray:
        score = mix_scores(own, draw_part(part, "linear", actions), correlation)
        return np.clip(score, -LARGEST_SCORE, LARGEST_SCORE)

    first = rng("logging correlation").uniform(-0.2, 0.8)
    second = rng("target correlation").uniform(-0.2, 0.9)
    prefers = prefer("logging", first)
    of_logging, exploration = rng("logging policy"), draw_exploration(rng("exploration"))
    logger: AdaptiveLogger | None = None
    if kinds["logging"] in ("thompson", "decreasing"):
        edges = np.quantile(prefers[:, 0], np.linspace(0.0, 1.0, int(of_logging.integers(2, 6))))
        logger = AdaptiveLogger(
            kind=kinds["logging"],
            exploration=draw_schedule(kinds["logging"], of_logging),
            group=np.searchsorted(edges[1:-1], prefers[:, 0]),
            find=find,
            n_actions=actions,
            reward_at=reward_at,
            noise=rewards.noise,
            averaged=kinds["phases"] == "averaged",
        )
        # The policy of one log, averaged over its phases, stands for those of others.
        logging = logger.average(of_logging.integers(n, size=rows), of_logging)
    elif kinds["logging"] == "rule":
        logging = draw_rule(design, prefers, exploration, of_logging)
    else:
        logging = draw_logging(kinds["logging"], prefers, of_logging)
    target = draw_target(kinds["target"], prefer("target", second), logging, rng("target policy"))
    if kinds["logging"] == "rule":
        # The new policy is the rule in a part of the contexts: without this, most targets of rules
        # would have hardly any support.
        same = rng("same").random(n) < rng("same share").uniform()
        # A policy knows contexts, not rows: rows of equal contexts have one policy.
        same = same[find(context)]
        target[same] = logging[same]

    embedding, of_action = action_columns(items, kinds["embedding"] == "absent")
    several = kinds["users"] == "several-rows"
    population = Population(
        context=context,
        schema=Schema(columns, of_action),
        logging=ByContext(logging, find),
        target=ByContext(target, find),
        embedding=DeterministicEmbedding(embedding),
        reward_at=reward_at,
        noise=rewards.noise,
        expected=float(np.einsum("xa,xa->x", target, mean).mean()),
        share=np.full(n, 1.0 / n),
        logger=logger,
        rows_per_unit=rows_per_user if several else 1.0,
    )
    logged_mean = float((logging * mean).sum() / n)
    explained = float((logging * mean**2).sum() / n) - logged_mean**2
    variance = explained + float((logging * rewards.variance(mean)).sum() / n)
    facts: dict[str, Diagnostic] = {
        "world": number,
        "world_priors": 2,
        "world_rows": rows,
        "world_actions": actions,
        **{f"world_{name}": kind for name, kind in kinds.items()},
        "world_columns": context.shape[1],
        "world_rows_per_user": rows_per_user if several else 1.0,
        "world_own_share": own_share,
        "world_mean_reward": logged_mean,
        # Var q(x, a) / Var r, of rows as the logging policy draws them.
        "world_signal": explained / variance if variance > 0 else 0.0,
        "world_unsupported": float(target[logging == 0].sum() / n),
        **overlap_facts(logging, target, rows),
    }
    if kinds["logging"] == "rule":
        facts["world_exploration"] = exploration
    if logger is None:
        del facts["world_phases"]
    return DrawnWorld(population, rows, facts, rewards.limits)


def _draw_kinds(
    dials: Mapping[str, Any], rng: Callable[[str], np.random.Generator]
) -> dict[str, Any]:
    """Draw the kinds that are not given, and make those agree that depend on each other."""
    kinds: dict[str, Any] = {}
    for name, shares in SHARES.items():
        drawn = str(rng(name).choice(list(shares), p=list(shares.values())))
        kinds[name] = drawn if dials[name] is None else dials[name]
    if kinds["structure"] == "network" and dials["contexts"] is None:
        # A network of few columns is none.
        kinds["contexts"] = "vectors" if kinds["contexts"] == "vectors" else "many"
    if kinds["logging"] in ("thompson", "decreasing") and kinds["known"] == "policy":
        # One policy is all that a log can show: that of the average, or else none.
        if dials["known"] == "policy" and dials["phases"] is None:
            kinds["phases"] = "averaged"
        if kinds["phases"] == "of-time":
            kinds["known"] = "propensity"
    return kinds


def _draw_own_share(effects: Effects, rng: np.random.Generator) -> float:
    """Draw the share of the mean's variance, at equal odds, that depends on the action."""
    some, whole, weak = rng.uniform(0.1, 1.0), rng.random() < 0.5, log_uniform(0.01, 0.1, rng)
    if effects == "none":
        return 0.0
    if effects == "weak":
        return weak
    return 1.0 if whole else float(some)


def _draw_signal_share(rng: np.random.Generator) -> float:
    """Draw the share of the reward's variance that its mean explains, uniform on the logit."""
    low, high = (0.08, 0.4) if rng.random() < MIDDLE else (0.002, 0.95)
    odds = rng.uniform(np.log(low / (1.0 - low)), np.log(high / (1.0 - high)))
    return float(1.0 / (1.0 + np.exp(-odds)))
