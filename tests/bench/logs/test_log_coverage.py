"""Intervals of `estimate` hold the value on logs whose value is known."""

import numpy as np
import pytest

from ope_bench import estimate
from ope_bench.contracts.random import DataSeed
from ope_bench.plugins.spec import resolve
from ope_bench.trials.trial import build
from support.small_logs import log_of

LOGS = 40
LEAST = 33
"""Of 40 intervals of 95 %, fewer hold the value with probability 5e-4."""


def drawn(replicate: int):
    """One log of a linear bandit, and the value of its policy."""
    parameters = {"n_samples": 300, "n_actions": 4, "logging_beta": 0.5, "truth_contexts": 2048}
    environment = build(resolve("environment", "linear-bandit", parameters))
    seed = DataSeed("coverage", 0, replicate)
    problem, truth = environment.sample(
        world_rng=seed.world(), logged_rng=seed.logged(), target_rng=seed.target()
    )
    return log_of(problem), truth.expected


@pytest.fixture(scope="module")
def results():
    """Rows by estimator, and the value, for each log."""
    found = []
    for replicate in range(LOGS):
        log, value = drawn(replicate)
        rows = estimate(log, ["ipw", "ipws", "dr[regressor=ridge]"])
        found.append(({row.estimator: row for row in rows}, value, float(log.reward.mean())))
    return found


@pytest.mark.parametrize("name", ["ipw", "ipws", "dr"])
def test_values_and_lifts_are_held_as_often_as_promised(results, name):
    held = sum(rows[name].low <= value <= rows[name].high for rows, value, _ in results)
    assert held >= LEAST
    width = np.mean([rows[name].high - rows[name].low for rows, _, _ in results])
    errors = [rows[name].value - value for rows, value, _ in results]
    # An interval that is everything would hold, too.
    assert width < 8 * np.std(errors)
