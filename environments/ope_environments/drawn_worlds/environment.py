"""`population`: worlds drawn from priors, one for each number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge

from ope_bench import (
    Column,
    DeterministicEmbedding,
    Diagnostic,
    Environment,
    Estimate,
    FloatArray,
    IntArray,
    Problem,
    RowIndex,
    Schema,
    Tabular,
    Truth,
    stream,
)
from ope_environments.drawn_worlds.contexts import draw_contexts
from ope_environments.drawn_worlds.policies import (
    LoggingKind,
    TargetKind,
    draw_logging,
    draw_target,
)
from ope_environments.drawn_worlds.rewards import RewardKind, draw_rewards
from ope_environments.drawn_worlds.scores import (
    Structure,
    draw_embedding,
    draw_score,
    standardized,
)
from ope_environments.populations.design import Design
from ope_environments.populations.population import Population

__all__ = ["DrawnWorlds"]

PRIORS = 1
"""Version of the priors; another one makes other worlds."""

CONTEXTS = 1000
"""Distinct contexts of a world, all equally likely."""

Embedding = Literal["absent", "useful", "useless"]
Known = Literal["policy", "propensity", "samples"]
TargetForm = Literal["probabilities", "sample"]

_SHARES: dict[str, dict[str, float]] = {
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


class DrawnWorlds(Environment):
    """Worlds as users meet them: world k is drawn from priors, a replicate draws a log of it.

    The number of the world draws everything but the log: size, contexts, rewards, both policies
    and what of them is known. World k is the same in every replicate and suite; a suite's salt
    draws other worlds. ``world=[1..300]`` is a grid of 300 settings. A dial that is given is
    fixed; the others stay what they are.

    =========  =====================================================================
    dial       prior
    =========  =====================================================================
    rows       log-uniform 500 to 20,000
    actions    log-uniform 3 to 500
    contexts   1 to 6 numbers (normal, log-normal, counts; correlated), 0 to 2 categories of 2 to
               8 levels; 2 % missing in one column of a quarter of the worlds
    reward     binary with a rate of .5 to 50 % (55 % of the worlds), zero-inflated (15 %),
               Gaussian (13 %), bounded (10 %), heavy-tailed (7 %); strength of the signal
               log-uniform
    structure  linear for each action (35 %), interactions (20 %), steps (20 %), items alone
               (15 %), none (10 %)
    embedding  absent (40 %), useful (40 %), useless (20 %)
    logging    softmax (30 %), epsilon-greedy (25 %), uniform, near-deterministic, segments (15 %
               each); its correlation with the reward is uniform from -.2 to .8
    target     softmax (20 %), epsilon-greedy, deterministic, small change, mixture with the
               logging policy (15 % each), swap of items, large change (10 % each); its correlation
               with the reward is uniform from -.2 to .9
    known      the whole logging policy (30 %), propensities (55 %), samples alone (15 %); of the
               target its probabilities (70 %) or a sample alone (30 %)
    =========  =====================================================================

    Truth
    -----
    Exact: contexts are one thousand equally likely rows, so the value is the mean over them of
    the sum over actions of pi1(a|x) q(x, a).

    Access: what the world's dial ``known`` grants; an embedding that is absent is the number of
    the action, as a category.

    Traps: rows are drawn with replacement from one thousand contexts, each draw a unit of its own.
    Heavy-tailed rewards have no fourth moment. A deterministic target under a logging policy with
    little exploration leaves few rows with weight.

    Parameters
    ----------
    world : its number.
    n_samples, n_actions : rows and actions; drawn where None, as is every dial below.
    reward, structure, embedding, logging, target : kinds, as in the table.
    known : what is known of the logging policy.
    target_form : whether the target policy's probabilities are known, or a sample of it.

    References
    ----------
    The priors are ours; "Benchmarks for Deep Off-Policy Evaluation" (Fu et al., 2021) argues for
    many tasks instead of a few.

    >>> problem, truth = DrawnWorlds(world=17, n_samples=50).sample(
    ...     world_rng=np.random.default_rng(0), logged_rng=np.random.default_rng(1),
    ...     target_rng=np.random.default_rng(2))
    >>> len(problem.reward), truth.expected_se
    (50, 0.0)
    """

    check_params = {"world": 3, "n_samples": 200}  # noqa: RUF012

    world: Annotated[int, Ge(0)] = 1
    n_samples: Annotated[int, Ge(1)] | None = None
    n_actions: Annotated[int, Ge(2)] | None = None
    reward: RewardKind | None = None
    structure: Structure | None = None
    embedding: Embedding | None = None
    logging: LoggingKind | None = None
    target: TargetKind | None = None
    known: Known | None = None
    target_form: TargetForm | None = None

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """Sample one problem and its truth."""
        world = self._drawn()
        problem, truth = world.population.sample(
            world.n_samples,
            logged_rng=logged_rng,
            target_rng=target_rng,
            shared_contexts=False,
        )
        return replace(problem, **world.withheld()), truth

    def examine(self, problem: Problem, estimate: Estimate) -> Mapping[str, Diagnostic]:
        """Return facts of the world, by which boards can be split."""
        return self._drawn().facts

    def _drawn(self) -> _World:
        dials = tuple((name, getattr(self, name)) for name in _SHARES)
        return _draw_world(self.world, self.n_samples, self.n_actions, dials, self.suite_salt)


@dataclass(frozen=True, eq=False)
class _World:
    """A drawn world.

    Parameters
    ----------
    population : contexts, policies, rewards and the value.
    n_samples : rows of a log.
    facts : what was drawn, and how much the policies overlap.
    """

    population: Population
    n_samples: int
    facts: Mapping[str, Diagnostic]

    def withheld(self) -> dict[str, Any]:
        """Return the fields of a problem that this world changes, with reasons."""
        fields: dict[str, Any] = {}
        reasons: dict[str, str] = {}
        if self.facts["world_known"] != "policy":
            fields["logging_policy"] = None
            reasons["logging_policy"] = "this world's logs do not hold the whole logging policy"
        if self.facts["world_known"] == "samples":
            fields["propensity"] = None
            reasons["propensity"] = "this world's logs hold no propensities"
        if self.facts["world_target_form"] == "sample":
            fields["target_policy"] = None
            reasons["target_policy"] = "this world's target policy is known by a sample alone"
        if self.facts["world_reward"] == "bounded":
            fields["reward_range"] = (0.0, 1.0)
        return {**fields, "unavailable": reasons}


@lru_cache(maxsize=2)
def _draw_world(
    number: int,
    n_samples: int | None,
    n_actions: int | None,
    dials: tuple[tuple[str, str | None], ...],
    salt: str,
) -> _World:
    """Draw a world; each part has a stream of its own, so that a fixed dial moves no other."""

    def rng(part: str) -> np.random.Generator:
        return stream("population", PRIORS, number, part, *([salt] if salt else []))

    kinds: dict[str, Any] = {}
    for name, given in dials:
        shares = _SHARES[name]
        drawn = str(rng(name).choice(list(shares), p=list(shares.values())))
        kinds[name] = drawn if given is None else given
    rows = _log_uniform(500, 20_000, rng("rows")) if n_samples is None else n_samples
    actions = _log_uniform(3, 500, rng("actions")) if n_actions is None else n_actions

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
        kinds["logging"], _mixed(of_reward, score("logging"), first), rng("logging policy")
    )
    target = draw_target(
        kinds["target"], _mixed(of_reward, score("target"), second), logging, rng("target policy")
    )

    absent = kinds["embedding"] == "absent"
    embedding = np.arange(float(actions))[:, None] if absent else items
    of_action = (
        (Column("categorical", tuple(map(float, range(actions)))),)
        if absent
        else (Column("atoms"),) * items.shape[1]
    )
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
    played = logging > 0
    ratio = np.divide(target, logging, out=np.zeros_like(target), where=played)
    facts: dict[str, Diagnostic] = {
        "world": number,
        "world_rows": rows,
        "world_actions": actions,
        **{f"world_{name}": kind for name, kind in kinds.items()},
        # Of infinitely many rows: (E w)^2 / E w^2 under the logging policy.
        "world_ess_fraction": float(
            (target * played).sum(axis=1).mean() ** 2 / (logging * ratio**2).sum(axis=1).mean()
        ),
        "world_rows_over_weight": float(rows / ratio.max()),
    }
    return _World(population, rows, facts)


def _log_uniform(low: float, high: float, rng: np.random.Generator) -> int:
    return round(float(np.exp(rng.uniform(np.log(low), np.log(high)))))


def _mixed(reward: FloatArray, own: FloatArray, correlation: float) -> FloatArray:
    """Return a score with this correlation with the reward's, if the reward has one."""
    return standardized(correlation * reward + np.sqrt(1.0 - correlation**2) * own)
