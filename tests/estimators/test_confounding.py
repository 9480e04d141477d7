"""Bounds under a hidden cause: by hand, by enumeration, on confounded logs, and in the output."""

from __future__ import annotations

import itertools
import json
from contextlib import nullcontext

import numpy as np
import pytest
from scipy.stats import norm

from ope_bench import Log, TargetPolicy, estimate, stream
from ope_bench.cli import own_log
from ope_bench.cli.app import invoke
from ope_bench.execution.executors import InProcessExecutor
from ope_bench.logs.estimation import STRENGTHS
from ope_environments.damaged.environment import Damaged
from ope_estimators.actions import confounding
from ope_estimators.actions.confounding import HajekBounds, Residuals, flip, sharp_mean
from support.golden_log import ACTION, CONTEXT, LOGGING, REWARD, TARGET
from support.small_logs import discrete, log_of, log_of_columns, write_small

GOLDEN = HajekBounds(TARGET[CONTEXT, ACTION], LOGGING[CONTEXT, ACTION], REWARD)


def test_the_golden_log():
    ends = [GOLDEN(strength, end) for strength in (1.0, 2.0) for end in (0, 1)]
    assert ends == pytest.approx([0.956175, 0.956175, 0.900929, 0.980571], abs=1e-6)
    assert flip(GOLDEN, 2 / 3) == pytest.approx(6.71471, abs=1e-5)


@pytest.mark.parametrize("strength", [1.3, 2.0, 7.0])
def test_weighted_bounds_are_those_of_all_corners(strength):
    rng = np.random.default_rng(3)
    target, propensity = rng.uniform(0.05, 0.9, (2, 7))
    reward = rng.standard_normal(7)
    odds = 1 / propensity - 1
    ends = [target * (1 + odds / strength), target * (1 + odds * strength)]
    found = []
    for corner in itertools.product((0, 1), repeat=7):
        v = np.where(np.array(corner) == 1, ends[1], ends[0])
        found.append((v * reward).sum() / v.sum())
    bounds = HajekBounds(target, propensity, reward)
    assert [bounds(strength, end) for end in (0, 1)] == pytest.approx([min(found), max(found)])


def test_the_sign_turns_where_a_bound_meets_the_average():
    rng = np.random.default_rng(4)
    target, propensity = rng.uniform(0.05, 0.9, (2, 50))
    bounds = HajekBounds(target, propensity, rng.random(50))
    for average in (0.3, 0.7):
        found = flip(bounds, average)
        assert min(abs(bounds(found, end) - average) for end in (0, 1)) < 1e-6
    assert flip(bounds, -1.0) is None
    assert flip(bounds, bounds(1.0, 0)) == 1.0


@pytest.mark.parametrize("end", [0, 1])
def test_sharp_bounds_of_gaussian_rewards_are_the_closed_form(end):
    z = norm.ppf(2 / 3)
    rewards = 0.7 + 1.3 * norm.ppf((np.arange(200_000) + 0.5) / 200_000)
    spread = Residuals(rewards, np.full(len(rewards), 0.7))
    sign = 1 if end else -1
    found = sharp_mean(0.7, spread.tail(2.0, end), 0.25, 2.0)
    assert found == pytest.approx(0.7 + sign * 1.3 * norm.pdf(z) * (2 - 1 / 2) * 0.75, abs=1e-4)
    assert sharp_mean(0.7, sign * 1.3 * norm.pdf(z), 0.25, 2.0) == pytest.approx(
        1.231765 if end else 1.4 - 1.231765, abs=1e-6
    )
    assert sharp_mean(0.7, 0.3, 0.25, 1.0) == 0.7


@pytest.mark.parametrize(("mean", "strength"), [(0.1, 2.0), (0.5, 3.0), (0.95, 1.5)])
def test_sharp_bounds_of_coins_are_the_worst_hidden_coin(mean, strength):
    """A cause with odds in [1/Λ, Λ] that takes the ones first: by a search over what it may do."""
    propensity = 0.3
    found = [
        sharp_mean(
            mean,
            float(Residuals.coin_tail(np.array([mean]), strength, end)[0]),
            propensity,
            strength,
        )
        for end in (0, 1)
    ]
    # P(r | a, u) weighs ones and zeros by a factor in [c-, c+] each, of mean one.
    low, high = (propensity * (1 - s) + s for s in (1 / strength, strength))
    ones = np.linspace(low, high, 200_001)
    zeros = (1 - mean * ones) / (1 - mean)
    allowed = mean * ones[(zeros >= low) & (zeros <= high)]
    assert found == pytest.approx([allowed.min(), allowed.max()], abs=1e-5)


@pytest.mark.parametrize(("reward", "strength"), [("logistic", 1.5), ("linear", 3.0)])
def test_bounds_hold_the_value_where_the_strength_is_right(reward, strength):
    made = Damaged(f"linear-bandit[n_samples=2000,reward={reward}]", confounding=strength)
    for replicate in range(3):
        rngs = {f"{n}_rng": stream(n, replicate) for n in ("world", "logged", "target")}
        problem, truth = made.sample(**rngs)
        rows = estimate(log_of(problem), ["ipws", "dm"], sensitivity=True)
        ends = {}
        for name in ("ipws", "dm"):
            by_strength = {one["lambda"]: one for one in rows[name].sensitivity["bounds"]}
            ends[name] = by_strength[strength]
            assert by_strength[1.0]["low"] == pytest.approx(rows[name].value)
            # Beside the cause there is the error of two thousand rows.
            assert ends[name]["low"] - 0.05 <= truth.expected <= ends[name]["high"] + 0.05
        widths = {name: one["high"] - one["low"] for name, one in ends.items()}
        assert widths["dm"] < widths["ipws"]


def test_rows_of_estimators_that_know_bounds_say_them(tmp_path, capsys, monkeypatch):
    # In this process: what the command says does not depend on where trials run.
    monkeypatch.setattr(own_log, "_executor", lambda *limits: nullcontext(InProcessExecutor()))
    path = str(write_small(tmp_path))
    command = ["estimate", path, "--est", "ipws", "--sensitivity", "--jobs", "1"]
    assert invoke([*command, "--est", "ipw"]) == 0
    assert "hidden cause" in " ".join(capsys.readouterr().out.split())
    assert invoke([*command, "--format", "json"]) == 0
    ((row,),) = (one["rows"] for one in json.loads(capsys.readouterr().out)["targets"])
    assert set(row["sensitivity"]) == {"lambda_flip", "bounds"}
    ends = {"low", "high", "low_with_error", "high_with_error"}
    assert [set(one) for one in row["sensitivity"]["bounds"]] == [{"lambda", *ends}] * 6
    log = Log.read(path)
    bounds = HajekBounds(log.weights("target") * log.propensity, log.propensity, log.reward)
    expected = [
        {"lambda": one, "low": bounds(one, 0), "high": bounds(one, 1)} for one in STRENGTHS
    ]
    without = [
        {name: one[name] for name in ("lambda", "low", "high")}
        for one in row["sensitivity"]["bounds"]
    ]
    assert without == expected
    assert row["sensitivity"]["lambda_flip"] == flip(bounds, float(log.reward.mean()))
    rows = estimate(log, ["ipw", "ipws"], sensitivity=True)
    assert rows["ipw"].sensitivity is None
    assert estimate(log, "ipws")["ipws"].sensitivity is None


def test_the_sampling_error_of_weighted_bounds_is_that_of_every_resample():
    """Four units have 256 resamples: enumerate them, each with extremes of its own."""
    rng = np.random.default_rng(6)
    target, propensity = rng.uniform(0.2, 0.8, (2, 8))
    reward, unit = rng.standard_normal(8), np.repeat([4, 1, 7, 9], 2)
    bounds = HajekBounds(target, propensity, reward)
    units = np.unique(unit)
    every: tuple[list[float], list[float]] = [], []
    for drawn in itertools.product(units, repeat=4):
        rows = np.concatenate([np.flatnonzero(unit == one) for one in drawn])
        part = HajekBounds(target[rows], propensity[rows], reward[rows])
        count = np.bincount(rows, minlength=8)[None].astype(float)
        for end, found in enumerate(every):
            found.append(part(2.0, end))
            assert bounds.resampled(count, 2.0, end) == pytest.approx(found[-1])
    given = log_of_columns(
        {
            "x": np.zeros(8),
            "a": np.arange(8) % 2,
            "r": reward,
            "p": propensity,
            "u": unit,
            "q": target,
        },
        unit="u",
        target=TargetPolicy(probability="q"),
    )
    row = estimate(given, "ipws", sensitivity=True)["ipws"]
    assert row.sensitivity is not None, row.message
    (bound,) = (one for one in row.sensitivity["bounds"] if one["lambda"] == 2.0)
    # Quantiles of 200 draws lie between those of all resamples at nearby levels.
    assert min(every[0]) <= bound["low_with_error"] <= np.quantile(every[0], 0.08)
    assert np.quantile(every[1], 0.92) <= bound["high_with_error"] <= max(every[1])
    assert bound["low_with_error"] < bound["low"]
    assert bound["high"] < bound["high_with_error"]


def test_bounds_of_many_rows_take_the_extremes_of_the_log(monkeypatch):
    rng = np.random.default_rng(8)
    target, propensity = rng.uniform(0.05, 0.9, (2, 1500))
    reward = rng.standard_normal(1500)
    bounds = HajekBounds(target, propensity, reward)
    for strength, end in itertools.product((1.0, 1.5, 4.0), (0, 1)):
        weight = bounds.weights(strength, end)
        assert (weight @ reward) / weight.sum() == pytest.approx(bounds(strength, end))
    log = log_of(discrete(1500))
    own = estimate(log, "ipws", sensitivity=True)["ipws"].sensitivity["bounds"]
    monkeypatch.setattr(confounding, "MOST_ROWS", 1000)
    shared = estimate(log, "ipws", sensitivity=True)["ipws"].sensitivity["bounds"]
    for one, other in zip(own, shared, strict=True):
        width = one["low"] - one["low_with_error"], one["high_with_error"] - one["high"]
        assert other["low_with_error"] == pytest.approx(one["low_with_error"], abs=0.25 * width[0])
        assert other["high_with_error"] == pytest.approx(
            one["high_with_error"], abs=0.25 * width[1]
        )


def test_the_error_of_sharp_bounds_is_half_the_width_of_the_recommended_interval():
    log = log_of(discrete(300))
    rows = estimate(log, ["dm", "dr-os"], sensitivity=True)
    half = rows["dr-os"].disagreement_high - rows["dr-os"].value
    for bound in rows["dm"].sensitivity["bounds"]:
        assert bound["high_with_error"] - bound["high"] == pytest.approx(half)
        assert bound["low"] - bound["low_with_error"] == pytest.approx(half)
    narrow = estimate(log, ["dm", "ipws"], sensitivity=True, level=0.5)
    wide = estimate(log, ["dm", "ipws"], sensitivity=True, level=0.95)
    for name in ("dm", "ipws"):
        inner, outer = (one[name].sensitivity["bounds"][3] for one in (narrow, wide))
        assert outer["low_with_error"] < inner["low_with_error"] < inner["low"] == outer["low"]


def test_a_panel_keeps_its_interval_beside_bounds():
    log = log_of(discrete(300))
    asked = ["dr-os", "ipws", "sndr", "dm[cross_fit=5]", "dr-eb"]
    with_bounds, without = (estimate(log, asked, sensitivity=one) for one in (True, False))
    assert with_bounds["dr-os"].disagreement_low == without["dr-os"].disagreement_low is not None
    assert [row.estimator for row in with_bounds] == ["dr-os", "ipws", "sndr", "dm", "dr-eb"]
