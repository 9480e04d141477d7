"""Seconds of one sample of each environment that needs no data files."""

from typing import Any

import numpy as np
import pytest

from ope_bench.plugins.spec import resolve
from ope_bench.trials.trial import build

SETTINGS: dict[str, dict[str, Any]] = {
    "saito-toy": {"n_samples": 1_000, "n_actions": 100},
    "saito-toy, many actions": {"n_samples": 10_000, "n_actions": 1_000},
    "saito-mips": {"n_samples": 10_000, "n_actions": 1_000},
    "gaussian": {"n_samples": 10_000},
    "gaussian-pairs": {"n_samples": 10_000},
    "linear-gaussian": {"n_samples": 10_000},
    "linear-bandit": {"n_samples": 10_000, "reward": "logistic", "target": "softmax"},
    "behance": {"n_samples": 1_000, "items": 300, "users": 200, "appreciates": 3_000},
    "multiclass": {"n_samples": 1_000, "dataset": "iris"},
    "logs": {"n_samples": 1_000},
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_one_sample(setting, benchmark):
    environment = build(resolve("environment", setting.partition(",")[0], SETTINGS[setting]))

    def sample():
        streams = map(np.random.default_rng, range(3))
        names = ("world_rng", "logged_rng", "target_rng")
        return environment.sample(**dict(zip(names, streams, strict=True)))

    # The first one reads files, imports and fills caches that live as long as the process.
    problem, truth = benchmark.pedantic(sample, rounds=3, warmup_rounds=1)
    assert len(problem.reward) == SETTINGS[setting]["n_samples"]
    assert np.isfinite(truth.expected)
