"""Writes the standard error of the logged mean in each data set of the choice.

    results/regenerate run average-errors [FOLDER...]

The rule of the choice counts no error below a tenth of it, and trials do not store it. It draws
the data sets again and needs those of tables and trials installed; no estimator runs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from judging.trials.rows import rows_of

from ope_bench import FloatArray, IntArray
from ope_bench.contracts.random import DataSeed
from ope_bench.plugins.spec import resolve
from ope_bench.trials.trial import build

RESULTS = Path(__file__).resolve().parents[1]
FOLDERS = ("choice", "choice-real", "choice-trials", "choice-samples")
FILE = "average-errors.json"


def standard_error(reward: FloatArray, unit: IntArray | None) -> float:
    """Return the standard error of the mean reward: rows of one unit depend on each other."""
    apart = reward - reward.mean()
    sums = apart if unit is None else np.bincount(np.unique(unit, return_inverse=True)[1], apart)
    return float(np.sqrt(np.square(sums).sum()) / len(reward))


def main(words: Sequence[str]) -> None:
    """Draw the data sets again and write the errors."""
    columns = ["environment", "environment_params", "seed", "salt", "replicate"]
    for folder in words or FOLDERS:
        trials = rows_of(RESULTS / folder, *columns)
        found: dict[str, dict[int, float]] = {}
        for one in sorted({tuple(row.values()) for row in trials}):
            name, params, suite_seed, salt, replicate = one
            spec = resolve("environment", name, json.loads(params))
            seed = DataSeed(spec.stream_id, suite_seed, replicate, spec.worlds, salt)
            problem, _ = build(spec).sample(
                world_rng=seed.world(), logged_rng=seed.logged(), target_rng=seed.target()
            )
            error = standard_error(problem.reward, problem.unit)
            found.setdefault(params, {})[replicate] = float(f"{error:.6g}")
        text = json.dumps(found, indent=0) + "\n"
        (RESULTS / folder / FILE).write_text(text, encoding="utf-8")
