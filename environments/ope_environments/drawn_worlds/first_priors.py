"""Version 1 of the priors of drawn worlds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ope_bench import (
    DeterministicEmbedding,
    Diagnostic,
    FloatArray,
    IntArray,
    RowIndex,
    Schema,
    Tabular,
    stream,
)
from ope_environments.drawn_worlds.contexts import draw_contexts
from ope_environments.drawn_worlds.policies import draw_logging, draw_target
from ope_environments.drawn_worlds.rewards import draw_rewards
from ope_environments.drawn_worlds.scores import (
    Structure,
    draw_embedding,
    draw_score,
    standardized,
)
from ope_environments.drawn_worlds.world import (
    DrawnWorld,
    action_columns,
    log_uniform,
    mix_scores,
    overlap_facts,
)
from ope_environments.populations.design import Design
from ope_environments.populations.population import Population

__all__ = ["CONTEXTS", "SHARES", "draw_world"]

CONTEXTS = 1000
"""Distinct contexts of a world, all equally likely."""

SHARES: dict[str, dict[str, float]] = {
    "reward": {
        "binary": 0.55,
        "gaussian": 0.13,
        "bounded": 0.10,
        "zero-inflated": 0.15,
        "heavy-tailed": 0.07,
    },
    "structure": {
        "linear": 0.35,
        "interactions": 0.20,
        "steps": 0.20,
        "items": 0.15,
        "none": 0.10,
    },
    "embedding": {"absent": 0.40, "useful": 0.40, "useless": 0.20},
    "logging": {
        "softmax": 0.30,
        "epsilon-greedy": 0.25,
        "uniform": 0.15,
        "near-deterministic": 0.15,
        "segments": 0.15,
    },
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
    """Draw a world; each part has a stream of its own, so that a fixed dial moves no other.

    Parameters
    ----------
    number : of the world.
    n_samples, n_actions : drawn where None.
    dials : kinds by the names of `SHARES`; drawn where None.
    salt : of the suite; another one draws other worlds.
    """

    def rng(part: str) -> np.random.Generator:
        return stream("population", 1, number, part, *([salt] if salt else []))

    kinds: dict[str, Any] = {}
    for name, shares in SHARES.items():
        drawn = str(rng(name).choice(list(shares), p=list(shares.values())))
        kinds[name] = drawn if dials[name] is None else dials[name]
    rows = round(log_uniform(500, 20_000, rng("rows"))) if n_samples is None else n_samples
    actions = round(log_uniform(3, 500, rng("actions"))) if n_actions is None else n_actions

    context, columns = draw_contexts(CONTEXTS, rng("contexts"))
    design = Design(columns, context)(context)[:, 1:]
    items = draw_embedding(actions, rng("items"))
    useful = items if kinds["embedding"] == "useful" else None

    def score(part: str) -> FloatArray:
        structure: Structure = kinds["structure"] if part == "reward" else "linear"
        return standardized(draw_score(structure, design, actions, useful, rng(f"{part} score")))

    of_reward = score("reward")
    mean, noise = draw_rewards(kinds["reward"], of_reward, rng("rewards"))
    first = rng("logging correlation").uniform(-0.2, 0.8)
    second = rng("target correlation").uniform(-0.2, 0.9)
    logging = draw_logging(
        kinds["logging"], mix_scores(of_reward, score("logging"), first), rng("logging policy")
    )
    target = draw_target(
        kinds["target"],
        mix_scores(of_reward, score("target"), second),
        logging,
        rng("target policy"),
    )

    embedding, of_action = action_columns(items, kinds["embedding"] == "absent")
    index = RowIndex(context)

    def reward_at(row: IntArray, action: IntArray) -> FloatArray:
        found: FloatArray = mean[row, action]
        return found

    population = Population(
        context=context,
        schema=Schema(columns, of_action),
        logging=Tabular(logging, index),
        target=Tabular(target, index),
        embedding=DeterministicEmbedding(embedding),
        reward_at=reward_at,
        noise=noise,
        expected=float(np.einsum("xa,xa->x", target, mean).mean()),
        share=np.full(CONTEXTS, 1.0 / CONTEXTS),
    )
    facts: dict[str, Diagnostic] = {
        "world": number,
        "world_rows": rows,
        "world_actions": actions,
        **{f"world_{name}": kind for name, kind in kinds.items()},
        **overlap_facts(logging, target, rows),
    }
    return DrawnWorld(
        population, rows, facts, (0.0, 1.0) if kinds["reward"] == "bounded" else None
    )
