"""Writes for each data set of randomized trials the target's value in the rows its log leaves.

    results/regenerate run other-rows [FOLDER...]

The truth of a randomized trial is estimated from all of its rows, those of the log among them, so
that errors against it favor estimators that err as it does. The other rows' estimate errs
independently of the log's. Beside that, what trials and drawn worlds are like, so that the page
can ask which of it decides. It needs the installed trials, no estimator.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from judging.trials.rows import rows_of

from ope_bench.contracts.random import DataSeed
from ope_bench.plugins.spec import resolve
from ope_bench.trials.trial import build
from ope_environments.drawn_worlds.environment import DrawnWorlds
from ope_environments.populations.design import Design
from ope_environments.populations.linear_reward import fit_ridge
from ope_environments.randomized.trial import RandomizedTrial

RESULTS = Path(__file__).resolve().parents[1]
FOLDERS = ("field-trials", "field-trials-again")
WORLDS = range(1, 301)
"""Of the suite `field`."""

ROWS = 20_000
"""Rows of which the noise share of a drawn world is taken."""


def facts_of(trial: RandomizedTrial) -> dict[str, float]:
    """Return what a trial is like.

    The noise share is the mean square that a ridge regression for each arm, fitted on every other
    row, leaves of the other rows' outcomes, over their variance.
    """
    context, columns = trial.features
    first = np.arange(len(trial.arm)) % 2 == 0
    model = fit_ridge(
        context[first],
        trial.arm[first],
        trial.outcome[first],
        n_actions=len(trial.arms),
        design=Design(columns, context),
        ridge=10.0,
    )
    rest = ~first
    told = model(context[rest])[np.arange(rest.sum()), trial.arm[rest]]
    left = np.square(trial.outcome[rest] - told).mean() / trial.outcome[rest].var()
    return {
        "rows": len(trial.arm),
        "arms": len(trial.arms),
        "noise_share": round(float(left), 4),
    }


def facts_of_world(number: int) -> dict[str, float]:
    """Return what a drawn world is like.

    The share of the reward's variance that no model can explain, and the processor seconds of the
    world with one data set of it.
    """
    world, seed = DrawnWorlds(world=number), DataSeed("population", 0, 0)
    start = time.process_time()
    world.sample(world_rng=seed.world(), logged_rng=seed.logged(), target_rng=seed.target())
    seconds = time.process_time() - start
    population = world._drawn().population
    rng = np.random.default_rng(number)
    row = rng.integers(len(population.context), size=ROWS)
    action, _ = population.logging.draw(population.context[row], rng)
    mean = population.reward_at(row, action)
    reward = population.noise(mean, rng)
    noise = float(np.square(reward - mean).mean() / reward.var())
    return {"noise_share": round(noise, 4), "seconds": round(seconds, 4)}


def main(words: Sequence[str]) -> None:
    """Draw the data sets again and write the values."""
    columns = ["environment_params", "seed", "replicate"]
    for folder in words or FOLDERS:
        trials = rows_of(RESULTS / folder, *columns)
        found: dict[str, dict[int, tuple[float, float]]] = {}
        facts: dict[str, Any] = {}
        for params, suite_seed, replicate in sorted({tuple(one.values()) for one in trials}):
            spec = resolve("environment", "randomized", json.loads(params))
            seed = DataSeed(spec.stream_id, suite_seed, replicate, spec.worlds)
            world = build(spec).world(seed.world())
            found.setdefault(params, {})[replicate] = world.value_of_others(seed.logged())
            facts[spec.params["data"]] = facts_of(world.trial)
        _write(RESULTS / folder / "other-rows.json", found)
        _write(RESULTS / folder / "facts.json", facts)
    _write(RESULTS / "field" / "facts.json", {one: facts_of_world(one) for one in WORLDS})


def _write(path: Path, found: object) -> None:
    path.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")
