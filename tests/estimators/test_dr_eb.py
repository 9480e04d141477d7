"""Shrinkage of the doubly robust correction: its share by hand, and the edges of the formula."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from ope_bench import ESTIMATE_WARNING, STANDARD_ERROR_WITHHELD, TargetPolicy, estimate
from ope_bench.contracts.policies import Tabular, Uniform
from ope_estimators.actions.doubly_robust.dr_eb import DREB, correction
from ope_estimators.actions.doubly_robust.sndr import SNDR
from ope_estimators.actions.doubly_robust.tmle import TMLE
from support import golden_log as golden
from support import tiny_worlds as tiny
from support.small_logs import log_of_columns


def by_hand(weight, residual, contrast, count=None, unit=None):
    """b, s² and a, written out for rows one by one."""
    n = len(weight)
    count = np.ones(n) if count is None else count
    rows = (
        [[i] for i in range(n)] if unit is None else [np.flatnonzero(unit == u) for u in set(unit)]
    )
    total = sum(k * w for k, w in zip(count, weight, strict=True))
    b = sum(k * w * r for k, w, r in zip(count, weight, residual, strict=True)) / total
    mean = np.average(residual, weights=count)
    variance = np.average((residual - mean) ** 2, weights=count)
    if unit is None:
        s2 = sum(k * (w * (r - b)) ** 2 for k, w, r in zip(count, weight, residual, strict=True))
        d = 1.0
    else:
        own = count * weight * (residual - b)
        s2 = sum(own[some].sum() ** 2 for some in rows)
        rho = residual - mean
        d = sum((count * rho)[some].sum() ** 2 for some in rows) / (count * rho**2).sum()
    s2 = max(s2, max(1.0, d) * (count * weight**2).sum() * variance) / total**2
    tau2 = max(np.average(contrast**2, weights=count), b**2 - s2)
    return b, s2, tau2 / (tau2 + s2)


@pytest.fixture
def drawn():
    rng = np.random.default_rng(0)
    weight = rng.exponential(size=60) * (rng.random(60) < 0.5)
    return weight, rng.normal(0.3, 1.0, 60), 0.3 * rng.normal(size=60), rng.integers(1, 4, 60), rng


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("clustered", [False, True])
def test_correction_and_share_are_those_of_the_formula(drawn, weighted, clustered):
    weight, residual, contrast, count, rng = drawn
    count = count.astype(float) if weighted else np.ones(60)
    unit = rng.permutation(np.arange(60) // 5) if clustered else np.arange(60)
    if clustered:
        residual = residual + rng.normal(size=12)[unit]
    found = correction(weight, residual, contrast, count, unit)
    expected = by_hand(weight, residual, contrast, count, unit if clustered else None)
    assert (found.value, found.variance, found.share) == pytest.approx(expected)


def test_a_row_of_weight_two_is_that_row_twice(drawn):
    weight, residual, contrast, count, _ = drawn
    once = correction(weight, residual, contrast, count.astype(float), np.arange(60))
    row = np.repeat(np.arange(60), count)
    n = len(row)
    twice = correction(weight[row], residual[row], contrast[row], np.ones(n), np.arange(n))
    assert vars(once) == pytest.approx(vars(twice))


def test_parts_are_those_of_the_golden_log():
    told = golden.run(DREB()).diagnostics
    assert told["share"] == pytest.approx(0.680215, abs=6e-7)
    assert told["correction"] == pytest.approx(0.4354582, abs=6e-8)
    assert told["residual_error"] ** 2 == pytest.approx(0.0606388, abs=6e-8)


def test_the_fourth_row_twice_and_with_weight_two_are_the_golden_values():
    log = golden.problem()
    weight = np.array([1.0, 1, 1, 2, 1, 1])
    assert golden.run(DREB(), replace(log, row_weight=weight)).value == pytest.approx(
        0.842849, abs=6e-7
    )
    index = np.array([0, 1, 2, 3, 3, 4, 5])
    twice = golden.problem(
        *(part[index] for part in (golden.CONTEXT, golden.ACTION, golden.REWARD))
    )
    assert golden.run(DREB(), twice).value == pytest.approx(0.842849, abs=6e-7)


def test_toward_tmle_the_share_is_of_its_correction():
    share, dm = golden.run(DREB()).diagnostics["share"], 0.48
    found = golden.run(DREB(toward="tmle"))
    assert found.value == pytest.approx(dm + share * (golden.run(TMLE()).value - dm), abs=1e-12)
    assert found.terms.mean() == pytest.approx(found.value)


def test_a_constant_model_keeps_what_is_above_noise():
    """t² = 0: a = max(0, 1 - s²/b²), James and Stein's."""
    rng = np.random.default_rng(1)
    weight = np.where(rng.random(400) < 0.5, 2.0, 0.1)
    for shift in (0.02, 1.0):
        residual = rng.normal(size=400) + shift * (weight > 1)
        found = correction(weight, residual, np.zeros(400), np.ones(400), np.arange(400))
        kept = max(0.0, 1 - found.variance / found.value**2)
        assert found.share == pytest.approx(kept)
    assert found.share > 0.9


@pytest.mark.parametrize("n_weighted", [0, 1])
def test_without_two_units_of_weight_it_is_the_model_and_says_so(n_weighted):
    log = golden.problem()
    action = np.array([0, 0, 0, 1, 1, 1])
    target = np.zeros((2, 3))
    target[:, 2] = 1.0
    if n_weighted:
        action[0] = 2
    policy = Tabular(target, tiny.code)
    log = replace(golden.problem(action=action), target_policy=policy, propensity=np.full(6, 0.2))
    found = golden.run(DREB(), log)
    assert found.value == pytest.approx(np.mean([0.6] * 3 + [0.1] * 3))
    assert found.standard_error is None
    assert found.diagnostics[ESTIMATE_WARNING] == found.diagnostics[STANDARD_ERROR_WITHHELD]


def test_one_unit_of_many_rows_with_weight_counts_as_one():
    weight = np.array([0.0, 0, 0, 1, 1, 1])
    unit = np.array([0, 1, 2, 3, 3, 3])
    found = correction(weight, np.arange(6.0), np.ones(6), np.ones(6), unit)
    assert (found.share, found.variance) == (0.0, math.inf)
    apart = correction(weight, np.arange(6.0), np.ones(6), np.ones(6), np.arange(6))
    assert apart.share > 0


def test_without_noise_and_without_contrast_all_is_corrected():
    """Constant rewards and a constant model: 0/0."""
    ones = np.ones(5)
    found = correction(ones, 0.5 * ones, 0 * ones, ones, np.arange(5))
    assert (found.share, found.value, found.variance) == (1.0, 0.5, 0.0)


def test_equal_policies_have_a_lift_of_exactly_zero_and_a_right_model_the_value_of_sndr():
    rng = np.random.default_rng(0)
    n, chance = 2_000, np.array([0.2, 0.3, 0.5])
    action = rng.choice(3, n, p=chance)
    columns = {"x": rng.normal(size=n), "a": action, "p": chance[action]}
    columns["r"] = 1.0 * (rng.random(n) < np.array([0.1, 0.2, 0.6])[action])
    log = log_of_columns(columns, target=TargetPolicy(table=np.tile(chance, (n, 1))))
    rows = estimate(log, ["dr-eb", "sndr", "dr-eb[toward=tmle]"])
    for label in ("dr-eb toward=sndr", "dr-eb toward=tmle"):
        assert (rows[label].lift, rows[label].lift_low, rows[label].lift_high) == (0.0, 0.0, 0.0)
    assert rows["dr-eb"].value == pytest.approx(rows["sndr"].value, abs=1e-4)


def test_the_standard_error_is_that_of_the_whole_correction_or_more():
    mine, full = golden.run(DREB()), golden.run(SNDR())
    assert mine.standard_error >= full.standard_error * (1 - 1e-12)
    assert mine.standard_error >= mine.diagnostics["residual_error"]


def errors(draw, model_rate, replicates=200):
    """Errors over logs: weights, rewards and truth from ``draw``, a constant model."""
    found = []
    for seed in range(replicates):
        weight, reward, truth = draw(np.random.default_rng(seed))
        n = len(weight)
        q = reward.mean() if model_rate is None else model_rate
        part = correction(weight, reward - q, np.zeros(n), np.ones(n), np.arange(n))
        found.append(q + part.share * part.value - truth)
    return np.array(found)


def test_a_strong_correction_is_kept_although_the_model_found_nothing():
    """Rewards of .6 where the target plays, 5 % of the rows, and .05 elsewhere."""

    def draw(rng):
        plays = rng.random(2_000) < 0.05
        reward = rng.random(2_000) < np.where(plays, 0.6, 0.05)
        return 20.0 * plays, reward.astype(float), 0.6

    assert np.sqrt(np.mean(np.square(errors(draw, None)))) < 0.1


def test_no_click_among_rows_with_weight_does_not_mean_a_rate_of_zero():
    def draw(rng):
        weight = np.where(np.arange(2_000) < 20, 100.0, 0.0)
        reward = (rng.random(2_000) < 0.01) * (weight == 0)
        return weight, reward.astype(float), 0.01

    found = 0.01 + errors(draw, None)
    assert found.min() > 0.002
    assert found.mean() == pytest.approx(0.01, abs=0.002)


def test_a_uniform_target_in_a_log_of_one_row_runs():
    one = replace(
        golden.problem(golden.CONTEXT[:1], golden.ACTION[:1], golden.REWARD[:1]),
        target_policy=Uniform(3),
    )
    assert golden.run(DREB(), one).value == pytest.approx(0.4)


def test_the_signal_is_what_the_model_explains_of_rewards_that_it_has_not_seen():
    told = golden.run(DREB()).diagnostics["reward_r2"]
    left = golden.REWARD - golden.REWARD_MODEL[golden.CONTEXT, golden.ACTION]
    assert told == pytest.approx(1 - np.square(left).mean() / golden.REWARD.var())


def test_units_of_one_row_in_any_order_stand_for_as_many_rows_as_their_weight():
    rng = np.random.default_rng(3)
    weight, residual, contrast = rng.gamma(1, 1, 8), rng.normal(size=8), rng.normal(size=8)
    count = np.array([1.0, 2, 1, 1, 3, 1, 1, 2])
    rows = np.arange(8)
    found = correction(weight, residual, contrast, count, rows)
    assert correction(weight, residual, contrast, count, rows[::-1]) == found
    one = np.eye(8)[3]
    assert correction(one, residual, contrast, 1 + one, rows[::-1]).variance < math.inf
    assert correction(one, residual, contrast, 1 + 0 * one, rows[::-1]).variance == math.inf
    long = rows.repeat(count.astype(int))
    parts = (weight[long], residual[long], contrast[long], np.ones(len(long)))
    whole = correction(*parts, np.arange(len(long)))
    assert list(vars(whole).values()) == pytest.approx(list(vars(found).values()))
