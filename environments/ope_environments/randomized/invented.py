"""An invented trial in the layout of the real ones, whose value is known in closed form."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ope_bench import FloatArray, IntArray, Table
from ope_environments.randomized.roles import Roles
from ope_environments.tables.array_table import array_table

__all__ = ["ARMS", "INVENTED_ROLES", "invented_table", "mean_outcome"]

ARMS = ("call", "letter", "none", "visit")
SHARES = np.array([[0.2, 0.3, 0.3, 0.2], [0.25, 0.25, 0.25, 0.25], [0.1, 0.2, 0.5, 0.2]])
STRATA = ("east", "north", "west")
OF_STRATUM = np.array([0.5, 0.2, 0.3])
"""Probability of each stratum."""

BASE = np.array([1.2, 1.0, 0.6, 1.5])
SLOPE = np.array([[0.5, 0.1], [0.2, -0.3], [0.4, 0.2], [-0.3, 0.3]])
LEVEL = np.array([0.4, -0.2, -0.4])

INVENTED_ROLES = Roles(
    context=("age", "visits"),
    arm="offer",
    outcome="answers",
    stratum="region",
    unit="household",
    assigned="unit",
)


def mean_outcome(context: FloatArray, stratum: IntArray, arm: IntArray) -> FloatArray:
    """Return BASE_a + LEVEL_s + SLOPE_a . x, linear in contexts that average zero: (n,)."""
    mean: FloatArray = BASE[arm] + LEVEL[stratum] + np.einsum("kd,kd->k", SLOPE[arm], context)
    return mean


def invented_table(rng: np.random.Generator, households: int = 2000) -> Table:
    """Draw households of one to three persons, who share an arm and a part of their outcome."""
    size = rng.integers(1, 4, size=households)
    stratum = rng.choice(len(STRATA), size=households, p=OF_STRATUM)
    uniform = rng.random(households)
    arm = (uniform[:, None] > SHARES.cumsum(axis=1)[stratum]).sum(axis=1)
    shared = 0.3 * rng.standard_normal(households)
    person = np.repeat(np.arange(households), size)
    context = rng.standard_normal((len(person), 2))
    noise = shared[person] + 0.5 * rng.standard_normal(len(person))
    outcome = mean_outcome(context, stratum[person], arm[person]) + noise
    columns = {
        "age": context[:, 0],
        "visits": context[:, 1],
        "offer": np.array(ARMS, dtype=object)[arm[person]],
        "answers": outcome,
        "region": np.array(STRATA, dtype=object)[stratum[person]],
        "household": person.astype(np.float64),
    }
    return array_table(Path("the invented trial"), columns)
