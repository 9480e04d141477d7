"""What the printed EPWS converges to: a sum over embeddings in the paper's toy world.

The printed estimator weighs row i by w(G_i, C_i) K((G'_i - G_i) / h) and divides by the sum of the
weights. With the true ratio w and G' drawn by the target policy it converges to

    E_C sum_g pi1(g|C) (K_h * pi1)(g|C) q(g, C)  /  E_C sum_g pi1(g|C) (K_h * pi1)(g|C),

(K_h * pi1)(g|c) = sum_g' pi1(g'|c) K((g' - g) / h). That is not the value unless K is constant.
The toy world has four embeddings and a reward without noise, so all of it is known but the
integral over contexts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from judging.claims.errors import axis_of, ratio
from judging.claims.line import Line, figure
from judging.trials.rows import Estimator, Trials
from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.data import Problem
from ope_bench.contracts.random import stream
from ope_bench.plugins.spec import resolve
from ope_bench.trials.record import Trial
from ope_bench.trials.trial import build

ROWS = 2_000
"""Logged rows from which a world's rewards and bandwidth are read off; the world has no noise."""

CONTEXTS = 8_192

N_WORLDS = 300

NEGLIGIBLE = 0.05
"""Of the root mean square of the truth: a limit as near as this counts as right."""


@dataclass(frozen=True)
class Limit:
    """Value of one world and limit of the printed EPWS there, over the same contexts.

    Parameters
    ----------
    value, limit : as the names say.
    bandwidth : of the kernel, h.
    """

    value: float
    limit: float
    bandwidth: float

    @property
    def bias(self) -> float:
        """Of the limit."""
        return self.limit - self.value


def limit_of(problem: Problem) -> Limit:
    """The limit in the world of a problem with finitely many embeddings and noise-free rewards."""
    embedding: Any = problem.embedding_distribution
    atoms = embedding.support()
    width = _median_distance(problem)
    squared = np.square((atoms[:, None] - atoms[None, :]) / width).sum(axis=2)
    kernel = np.exp(-0.5 * squared)
    rng = stream("judging", "limit", CONTEXTS)
    context = rng.standard_normal((CONTEXTS, problem.context.shape[1]))
    mass = embedding.masses(problem.target_policy, context)
    reward = _rewards(problem, atoms, context)
    weight = mass * (mass @ kernel)
    value = float((mass * reward).sum(axis=1).mean())
    return Limit(value, float((weight * reward).sum() / weight.sum()), width)


def _rewards(problem: Problem, atoms: FloatArray, context: FloatArray) -> FloatArray:
    """q(g, x) of every context and embedding, affine in the context: (k, atoms)."""
    out = np.empty((len(context), len(atoms)))
    for column, atom in enumerate(atoms):
        rows = (problem.embedding == atom).all(axis=1)
        design = np.column_stack([np.ones(rows.sum()), problem.context[rows]])
        weights, *_ = np.linalg.lstsq(design, problem.reward[rows], rcond=None)
        if not np.allclose(design @ weights, problem.reward[rows]):
            msg = "rewards are not affine in the context, or noisy: the limit is not known"
            raise ValueError(msg)
        out[:, column] = np.column_stack([np.ones(len(context)), context]) @ weights
    return out


def _median_distance(problem: Problem) -> float:
    """The default bandwidth: median distance between different embeddings, over both samples."""
    pooled = np.concatenate([problem.embedding, problem.target_embedding])
    atoms, count = np.unique(pooled, axis=0, return_counts=True)
    first, second = np.triu_indices(len(atoms), 1)
    distance = np.linalg.norm(atoms[first] - atoms[second], axis=1)
    weight = (count[first] * count[second]).astype(np.float64)
    order = np.argsort(distance)
    share = np.cumsum(weight[order]) / weight.sum()
    return float(distance[order][np.searchsorted(share, 0.5)])


def limit_lines(trials: Trials, estimator: Estimator) -> list[Line]:
    """How far the limit of the printed EPWS is from the value; which of them trials are near."""
    found = _toy_limits()
    last = trials.settings[-1]
    biases = np.array([one.bias for one in found])
    squares = np.square(biases)
    mean, reach = squares.mean(), 1.96 * squares.std(ddof=1) / math.sqrt(len(squares))
    low, high = math.sqrt(max(0.0, mean - reach)), math.sqrt(mean + reach)
    size = math.sqrt(float(np.square([one.value for one in found]).mean()))
    decided = True if high < NEGLIGIBLE * size else False if low > NEGLIGIBLE * size else None
    limit = Line(
        "bias of the limit of EPWS as printed, RMS",
        f"{len(found)} worlds",
        figure(math.sqrt(mean), low, high),
        decided=decided,
    )
    errors = trials.errors(estimator, last)
    own = biases[: trials.replicates]
    # The claim's side is that estimates are nearer to the value than to that limit.
    near = ratio(
        "distance to the value / to that limit", axis_of(trials, last), errors, errors - own
    )
    return [limit, replace(near, negligible=False)]


@cache
def _toy_limits() -> list[Limit]:
    """The limit in each world that trials of `saito-toy` with 100 actions and seed 0 have."""
    # Worlds do not depend on rows and contexts, so few do.
    few = {"n_actions": 100, "n_samples": ROWS, "truth_contexts": 32}
    spec = resolve("environment", "saito-toy", few)
    epws = resolve("estimator", "epws-paper", {})
    found = []
    for replicate in range(N_WORLDS):
        streams = Trial(spec, epws, replicate, seed=0).data_seed
        problem, _ = build(spec).sample(
            world_rng=streams.world(), logged_rng=streams.logged(), target_rng=streams.target()
        )
        found.append(limit_of(problem))
    return found
