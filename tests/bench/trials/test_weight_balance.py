"""The balance of weighted logs with the target sample."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from ope_bench import Column, Estimate, Schema, evaluate
from ope_bench.contracts.data import Problem
from ope_bench.trials import weights as module
from ope_bench.trials.weights import weight_accuracy, weight_balance, weight_diagnostics
from ope_environments.saito.toy import SaitoToy
from ope_estimators.embedded.balancing.entropy_balancing import EntropyBalancing

CODES = (0.0, 1.0, 2.0)


def problem(n=60, m=40, seed=0, **changes) -> Problem:
    """Two continuous contexts and one embedding of three categories, all of them shifted."""
    rng = np.random.default_rng(seed)
    arrays = {
        "context": rng.normal(size=(n, 2)) * [1.0, 3.0],
        "action": rng.integers(0, 3, n),
        "embedding": rng.choice(CODES, (n, 1), p=(0.5, 0.3, 0.2)),
        "reward": rng.normal(size=n),
        "target_context": rng.normal([0.4, 1.0], size=(m, 2)),
        "target_action": rng.integers(0, 3, m),
        "target_embedding": rng.choice(CODES, (m, 1), p=(0.1, 0.3, 0.6)),
        "n_actions": 3,
        "schema": Schema((Column(), Column()), (Column("categorical", CODES),)),
    }
    return Problem(**arrays | changes)


def weights_of(n=60, seed=1):
    return np.random.default_rng(seed).exponential(size=n)


def estimate(weights, space="embedding"):
    return Estimate(0.0, weights=weights, weight_space=space)


def columns_of(context, embedding):
    return np.column_stack([context, *(embedding[:, 0] == code for code in CODES)])


def both_sides(given):
    return (
        columns_of(given.context, given.embedding),
        columns_of(given.target_context, given.target_embedding),
    )


def standardized_by(logged, target):
    return np.sqrt((logged.var(axis=0) + target.var(axis=0)) / 2)


def test_mean_differences_are_those_of_the_definition():
    given, w = problem(), weights_of()
    logged, target = both_sides(given)
    scale = standardized_by(logged, target)

    def largest(share):
        return max(
            abs(np.average(logged[:, j], weights=share) - target[:, j].mean()) / scale[j]
            for j in range(5)
        )

    facts = weight_balance(given, estimate(w))
    assert facts["smd_after"] == pytest.approx(largest(w))
    assert facts["smd_before"] == pytest.approx(largest(np.ones(60)))
    assert facts["smd_before"] != pytest.approx(facts["smd_after"])


def test_many_frequencies_give_the_distance_of_the_gaussian_kernel(monkeypatch):
    monkeypatch.setattr(module, "FREQUENCIES", 40_000)
    given, w = problem(), weights_of()
    logged, target = both_sides(given)
    rows = np.concatenate([logged, target]) / standardized_by(logged, target)
    squared = ((rows[:, None] - rows) ** 2).sum(axis=2)
    kernel = np.exp(-squared / (2 * rows.shape[1]))

    def distance(share):
        u = np.concatenate([share / share.sum(), np.full(40, -1 / 40)])
        return math.sqrt(u @ kernel @ u)

    facts = weight_balance(given, estimate(w))
    assert facts["mmd_after"] == pytest.approx(distance(w), rel=0.01)
    assert facts["mmd_before"] == pytest.approx(distance(np.ones(60)), rel=0.01)


def test_cosines_of_steps_move_the_distance_by_less_than_a_ten_thousandth():
    for seed in range(5):
        given, w = problem(600, 400, seed), weights_of(600, seed)
        logged, target = both_sides(given)
        scale, center = standardized_by(logged, target), target.mean(axis=0)
        frequency = np.random.default_rng(5).normal(scale=1 / math.sqrt(5), size=(5, 64))
        angles = [(side - center) / scale @ frequency for side in (logged, target)]
        here, there = (np.concatenate([np.cos(one), np.sin(one)], axis=1) for one in angles)
        distance = np.linalg.norm(w @ here / w.sum() - there.mean(axis=0)) / 8
        facts = weight_balance(given, estimate(w))
        assert facts["mmd_after"] == pytest.approx(distance, rel=1e-4)


def test_logs_that_are_the_target_sample_after_weighting_have_no_distance():
    given = problem()
    twice = np.concatenate([given.context, given.target_context])
    embedding = np.concatenate([given.embedding, given.target_embedding])
    action = np.concatenate([given.action, given.target_action])
    both = replace(given, context=twice, embedding=embedding, action=action, reward=np.zeros(100))
    facts = weight_balance(both, estimate(np.repeat([0.0, 2.5], [60, 40])))
    assert facts["smd_after"] == pytest.approx(0.0, abs=1e-12)
    assert facts["mmd_after"] == pytest.approx(0.0, abs=1e-6)
    assert facts["smd_before"] > 0.1
    assert facts["mmd_before"] > 0.02


def test_scale_of_weights_units_of_columns_and_order_of_rows_do_not_matter():
    given, w = problem(), weights_of()
    told = weight_balance(given, estimate(w))
    assert weight_balance(given, estimate(w * 1e300)) == pytest.approx(told)
    assert weight_balance(given, estimate(w, "action")) == told
    units = replace(
        given,
        context=given.context * [7.0, 0.1] + 3.0,
        target_context=given.target_context * [7.0, 0.1] + 3.0,
    )
    assert weight_balance(units, estimate(w)) == pytest.approx(told)
    order = np.random.default_rng(2).permutation(60)
    names = ("context", "action", "embedding", "reward")
    shuffled = replace(given, **{name: getattr(given, name)[order] for name in names})
    assert weight_balance(shuffled, estimate(w[order])) == pytest.approx(told)


def test_columns_that_never_change_say_nothing():
    given, w = problem(), weights_of()
    wider = replace(
        given,
        context=np.column_stack([given.context, np.full(60, 0.1)]),
        target_context=np.column_stack([given.target_context, np.full(40, 0.1)]),
        schema=Schema((Column(),) * 3, (Column("categorical", (*CODES, 3.0)),)),
    )
    assert weight_balance(wider, estimate(w)) == weight_balance(given, estimate(w))


def test_a_column_that_no_weights_balance_is_said_by_silence():
    context = np.zeros((60, 2))
    apart = problem(context=context, target_context=np.full((40, 2), 1.0))
    assert weight_balance(apart, estimate(weights_of())) == {}
    same = problem(context=context, target_context=context[:40])
    assert set(weight_balance(same, estimate(weights_of()))) == {
        "smd_before",
        "smd_after",
        "mmd_before",
        "mmd_after",
    }


@pytest.mark.parametrize(
    "wrong",
    [
        Estimate(0.0),
        Estimate(0.0, weights=np.ones(60)),
        estimate(np.ones(59)),
        estimate(np.zeros(60)),
        estimate(-np.ones(60)),
        estimate(np.r_[1.0, -np.ones(59)]),
        Estimate(math.nan, weights=np.full(60, math.inf), weight_space="action"),
    ],
)
def test_without_shares_of_rows_there_is_no_balance(wrong):
    assert weight_balance(problem(), wrong) == {}


def test_without_a_target_sample_or_columns_or_room_there_is_no_balance(monkeypatch):
    good = estimate(weights_of())
    missing = {"target_context": None, "target_action": None, "target_embedding": None}
    assert weight_balance(problem(**missing), good) == {}
    nothing = {"context": np.empty((60, 0)), "target_context": np.empty((40, 0))}
    nothing |= {"embedding": np.empty((60, 0)), "target_embedding": np.empty((40, 0))}
    assert weight_balance(problem(**nothing, schema=Schema((), ())), good) == {}
    entries = 100 * (5 + 2 * module.FREQUENCIES)
    monkeypatch.setattr(module, "MOST_FEATURES", entries - 1)
    assert weight_balance(problem(), good) == {}
    monkeypatch.setattr(module, "MOST_FEATURES", entries)
    assert len(weight_balance(problem(), good)) == 4


def test_numbers_that_overflow_are_left_out():
    given = problem()
    far = replace(given, context=given.context * 1e200)
    facts = weight_balance(far, estimate(weights_of()))
    assert all(math.isfinite(value) for value in facts.values())


def test_estimators_on_one_problem_share_what_is_prepared(monkeypatch):
    given, calls = problem(), []
    prepare = module._sides

    def counted(one):
        calls.append(one)
        return prepare(one)

    monkeypatch.setattr(module, "_sides", counted)
    for seed in range(3):
        weight_balance(given, estimate(weights_of(seed=seed)))
    assert len(calls) == 1
    weight_balance(replace(given), estimate(weights_of()))
    assert len(calls) == 2


def test_equal_weights_in_a_row_are_looked_at_once(monkeypatch):
    given, w, calls = problem(), weights_of(), []
    both = estimate(w), estimate(2.0 * w**2)
    anew = [weight_accuracy(given, one) | weight_balance(given, one) for one in both]

    def counted(one, of):
        calls.append(1)
        return weight_balance(one, of)

    monkeypatch.setattr(module, "weight_balance", counted)
    assert weight_diagnostics(given, estimate(w)) == anew[0]
    assert weight_diagnostics(given, estimate(w.copy())) == anew[0]
    assert len(calls) == 1
    # An estimator that keeps its array changes it for the next one.
    held = estimate(w)
    weight_diagnostics(given, held)
    held.weights[:] = 2.0 * w**2
    assert weight_diagnostics(given, held) == anew[1]
    others = [estimate(w, "action"), Estimate(0.0, weights=w), estimate(w)]
    for number, one in enumerate(others, 3):
        weight_diagnostics(given, one)
        assert len(calls) == number
    weight_diagnostics(replace(given), estimate(w))
    assert len(calls) == 6


def test_a_trial_records_the_balance_and_balanced_means_have_no_difference():
    [record] = evaluate(EntropyBalancing(), SaitoToy(n_samples=300), replicates=1)
    facts = record.diagnostics
    assert facts["smd_after"] == pytest.approx(0.0, abs=1e-6)
    assert facts["smd_before"] > 0.05
    assert 0 < facts["mmd_after"] < facts["mmd_before"]


def test_mean_differences_have_the_bits_of_a_product_with_more_columns():
    given = problem(n=3000, m=2000)
    sides = module._sides(given)
    share = weights_of(3000)
    wide = np.hstack([sides.logged, np.zeros((3000, 128))])
    assert (share @ sides.logged).tolist() == (share @ wide)[: sides.logged.shape[1]].tolist()
