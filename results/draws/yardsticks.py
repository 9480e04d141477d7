"""Judges both yardsticks of `field-trials` on made trials, whose value is known exactly.

    results/regenerate run yardsticks

Nobody knows a real trial's value: errors on it count against an estimate of it, from all rows or
from those that the log leaves. Here a trial's rows are drawn from a drawn world of no suite, arms
by lot, and go the way of real ones: skewed logs, a target, both estimates. The world tells the
exact value. The order of estimators by a yardstick is compared with the order by that value.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ope_bench import FloatArray, OpeBenchError, Problem, UnavailableError, View, stream
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import FitCache
from ope_bench.plugins.spec import resolve
from ope_bench.trials.trial import build
from ope_environments.drawn_worlds.environment import DrawnWorlds
from ope_environments.randomized.trial import RandomizedTrial
from ope_environments.randomized.world import TargetRule, make_world

PATH = Path(__file__).resolve().parents[1] / "field-trials" / "yardsticks.json"
WORLDS = range(9_001, 9_101)
REPLICATES = 3
ROWS = 300, 5_000
ARMS = 2, 6
MOST_LOGGED = 1_000

ESTIMATORS = (
    "logging-average", "beta-ipw", "dm", "dm-star", "dr", "dr-os", "dr-ps", "edm-star", "el-ipw",
    "es-ipw", "ipw", "ipws", "ix-ipw", "ls-ipw", "lse-ipw", "sg-dr", "sg-ipw", "sndr", "switch-dr",
    "tmle",
)  # fmt: skip
"""Those of the comparison that are quick."""

YARDSTICKS = "exact value", "rows that the log leaves", "all rows"


def made_trial(number: int) -> tuple[RandomizedTrial, DrawnWorlds]:
    """Return a trial on rows of a drawn world, and the world."""
    rng = stream("yardsticks", number)
    arms = int(rng.integers(ARMS[0], ARMS[1] + 1))
    rows = round(float(np.exp(rng.uniform(*np.log(ROWS)))))
    world = DrawnWorlds(world=number, n_actions=arms)
    population = world._drawn().population
    row = rng.integers(len(population.context), size=rows)
    arm = rng.integers(arms, size=rows)
    trial = RandomizedTrial(
        context=population.context[row],
        columns=population.schema.context,
        arm=arm,
        arms=tuple(f"arm {one}" for one in range(arms)),
        outcome=population.noise(population.reward_at(row, arm), rng),
        stratum=np.zeros(rows, dtype=np.int64),
        unit=np.arange(rows),
        share=np.full((1, arms), 1.0 / arms),
        together=False,
    )
    return trial, world


def estimates(problem: Problem, seed: DataSeed) -> FloatArray:
    """Return what each estimator says of one log; the logged average without an answer."""
    cache, found = FitCache(), []
    for name in ESTIMATORS:
        estimator = build(resolve("estimator", name))
        try:
            view = View(problem, estimator.access, seed=seed, fit_cache=cache, device="cpu")
            estimator.fit(view, rng=seed.estimator(name), device="cpu")
            found.append(float(estimator.estimate(view).value))
        except OpeBenchError:
            found.append(float(problem.reward.mean()))
    return np.array(found)


def scores(number: int) -> FloatArray:
    """Return centered log RMSE by yardstick and estimator of a made trial: (3, n_estimators)."""
    trial, drawn = made_trial(number)
    population = drawn._drawn().population
    row, arm = np.indices((len(population.context), len(trial.arms)))
    mean = population.reward_at(row.ravel(), arm.ravel()).reshape(row.shape)
    found = []
    for name in ("arm", "rule"):
        for toward in (0.0, 0.5):
            errors = []
            for replicate in range(REPLICATES):
                seed = DataSeed("randomized", number, replicate)
                world = make_world(trial, TargetRule(name, None, 0.1), 1.0, toward, seed.world())
                problem, truth = world.sample(
                    MOST_LOGGED,
                    logged_rng=seed.logged(),
                    target_rng=seed.target(),
                    shared_contexts=False,
                )
                played = world.target.table(population.context)
                exact = float(np.einsum("xa,xa->x", played, mean).mean())
                others, _ = world.value_of_others(seed.logged())
                values = np.array([[exact], [others], [truth.expected]])
                errors.append(estimates(problem, seed) - values)
            score = 0.5 * np.log(np.square(errors).mean(axis=0))
            found.append(score - score.mean(axis=1, keepdims=True))
    mean_score: FloatArray = np.mean(found, axis=0)
    return mean_score


def main(_words: Sequence[str]) -> None:
    """Draw the made trials, run the estimators, and write scores by yardstick."""
    trials = {}
    for number in WORLDS:
        sys.stderr.write(f"world {number}\n")
        try:
            trials[number] = np.round(scores(number), 4).tolist()
        except UnavailableError as exc:
            sys.stderr.write(f"left out: {exc}\n")
    told = {"yardsticks": YARDSTICKS, "entrants": ESTIMATORS, "trials": trials}
    PATH.write_text(json.dumps(told) + "\n", encoding="utf-8")
