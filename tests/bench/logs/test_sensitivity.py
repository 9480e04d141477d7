"""Bounds under a hidden cause: by hand, by enumeration, on confounded logs, and in the output."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from ope_bench import Log, estimate, stream
from ope_bench.cli.app import invoke
from ope_bench.logs.sensitivity import bounds, flip, sensitivity
from ope_environments.damaged.environment import Damaged
from support.golden_log import ACTION, CONTEXT, LOGGING, REWARD, TARGET
from support.small_logs import write_small

GOLDEN = TARGET[CONTEXT, ACTION], LOGGING[CONTEXT, ACTION], REWARD


def test_the_golden_log():
    assert bounds(*GOLDEN, 1.0) == pytest.approx((0.956175, 0.956175), abs=1e-6)
    assert bounds(*GOLDEN, 2.0) == pytest.approx((0.900929, 0.980571), abs=1e-6)
    assert flip(*GOLDEN, 2 / 3) == pytest.approx(6.71471, abs=1e-5)
    assert sensitivity(*GOLDEN)["lambda_flip"] == pytest.approx(6.71471, abs=1e-5)


@pytest.mark.parametrize("strength", [1.3, 2.0, 7.0])
def test_bounds_are_those_of_all_corners(strength):
    rng = np.random.default_rng(3)
    target, propensity = rng.uniform(0.05, 0.9, (2, 7))
    reward = rng.standard_normal(7)
    odds = 1 / propensity - 1
    ends = [target * (1 + odds / strength), target * (1 + odds * strength)]
    found = []
    for corner in itertools.product((0, 1), repeat=7):
        v = np.where(np.array(corner) == 1, ends[1], ends[0])
        found.append((v * reward).sum() / v.sum())
    assert bounds(target, propensity, reward, strength) == pytest.approx((min(found), max(found)))


def test_the_sign_turns_where_a_bound_meets_the_average():
    rng = np.random.default_rng(4)
    target, propensity = rng.uniform(0.05, 0.9, (2, 50))
    reward = rng.random(50)
    for average in (0.3, 0.7):
        found = flip(target, propensity, reward, average)
        low, high = bounds(target, propensity, reward, found)
        assert min(abs(low - average), abs(high - average)) < 1e-8
    assert flip(target, propensity, reward, -1.0) is None
    value = bounds(target, propensity, reward, 1.0)[0]
    assert flip(target, propensity, reward, value) == 1.0


@pytest.mark.parametrize("strength", [1.5, 3.0])
def test_bounds_hold_the_value_where_the_strength_is_right(strength):
    made = Damaged("linear-bandit[n_samples=4000,reward=logistic]", confounding=strength)
    held = 0
    for replicate in range(20):
        rngs = {f"{n}_rng": stream(n, replicate) for n in ("world", "logged", "target")}
        problem, truth = made.sample(**rngs)
        target = problem.target_policy.probability(problem.context, problem.action)
        low, high = bounds(target, problem.propensity, problem.reward, strength)
        # Beside the cause there is the error of four thousand rows.
        held += low - 0.05 <= truth.expected <= high + 0.05
    assert held >= 19


def test_the_row_of_self_normalized_weighting_says_it(tmp_path, capsys):
    path = str(write_small(tmp_path))
    assert invoke(["estimate", path, "--est", "ipw", "--est", "ipws", "--sensitivity"]) == 0
    assert "hidden cause" in " ".join(capsys.readouterr().out.split())
    assert invoke(["estimate", path, "--est", "ipws", "--sensitivity", "--format", "json"]) == 0
    ((row,),) = (one["rows"] for one in json.loads(capsys.readouterr().out)["targets"])
    log = Log.read(path)
    given = log.weights("target") * log.propensity, log.propensity, log.reward
    assert row["sensitivity"] == sensitivity(*given)
    assert row["sensitivity"]["bounds"][0]["low"] == pytest.approx(row["value"])
    rows = estimate(log, ["ipw", "ipws"], sensitivity=True)
    assert rows["ipw"].sensitivity is None
    assert estimate(log, "ipws")["ipws"].sensitivity is None
