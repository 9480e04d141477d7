"""Predictions that the problem has, in the place of a reward model: ``regressor=given``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from ope_bench import Access, AccessError, DataError, ParameterError, UnavailableError
from ope_bench import problem_rows as some_rows
from ope_bench.plugins.registry import registry
from support import golden_log as golden
from support import tiny_worlds as tiny

PREDICTED = golden.REWARD_MODEL[golden.CONTEXT]

GOLDEN = [
    ("dm", {}, 0.48),
    ("dr", {}, 1.087222),
    ("sndr", {}, 0.915458),
    ("switch", {"threshold": 2.0}, 0.498333),
    ("switch-dr", {"threshold": 2.0}, 0.528889),
    ("dr-os", {"lambda_": 4.0}, 0.653029),
    ("dr-ps", {"clip": 2.0}, 0.828889),
    ("sg-dr", {"lambda_": 0.1}, 0.971172),
    ("cab", {"threshold": 2.0}, 0.945),
    ("dr", {"interval": "bootstrap", "resamples": 4}, 1.087222),
]


def made(reference, **params):
    return registry().find("estimator", f"ope-bench:{reference}").cls(regressor="given", **params)


def given(predicted=PREDICTED):
    return replace(golden.problem(), predicted_reward=predicted)


@pytest.mark.parametrize(("reference", "params", "value"), GOLDEN)
def test_the_value_is_that_of_the_golden_log(reference, params, value):
    assert tiny.run(made(reference, **params), given()).value == pytest.approx(value, abs=6e-7)


def test_predictions_follow_the_rows_not_the_contexts():
    """Two rows with one context may be predicted differently."""
    predicted = PREDICTED + np.arange(6.0)[:, None]
    value = tiny.run(made("dm"), given(predicted)).value
    assert value == pytest.approx(0.48 + np.arange(6.0).mean())
    order = np.array([3, 1, 5, 0, 2, 4])
    shuffled = some_rows(given(predicted), order, order)
    assert tiny.run(made("dr"), shuffled).value == pytest.approx(
        tiny.run(made("dr"), given(predicted)).value
    )
    view = tiny.view_of(given(predicted), made("dm").access).rows(order, order)
    np.testing.assert_array_equal(view.predicted_reward, predicted[order])


def test_predictions_are_granted_to_those_that_name_them_alone():
    view = tiny.view_of(given(), registry().find("estimator", "dr").cls().access)
    with pytest.raises(AccessError, match="PREDICTED_REWARD"):
        _ = view.predicted_reward
    assert made("dm").access == Access.TARGET_POLICY | Access.PREDICTED_REWARD
    assert made("dm").access.words() == ["target_policy", "predicted_reward"]
    with pytest.raises(UnavailableError, match="predicted_reward"):
        tiny.run(made("dm"), golden.problem())


@pytest.mark.parametrize("reference", ["tmle", "mdr", "dm-star", "edm-star", "mr", "mrdr"])
def test_others_ask_for_a_regressor(reference):
    with pytest.raises(ParameterError, match="given"):
        tiny.run(made(reference), given())


def test_bets_need_predictions_elsewhere():
    estimator = made("dr", interval="guaranteed", reward_range=(0.0, 1.0))
    many = np.arange(60) % 6
    log = golden.problem(golden.CONTEXT[many], golden.ACTION[many], golden.REWARD[many])
    log = replace(log, predicted_reward=PREDICTED[many])
    with pytest.raises(UnavailableError, match="regressor=given"):
        tiny.run(estimator, log)


def test_predictions_have_a_column_for_each_action():
    with pytest.raises(DataError, match=r"predicted_reward has shape \(6, 2\); expected \(6, 3\)"):
        given(PREDICTED[:, :2])


def worst_mean(atoms, chance, strength, sign):
    """The largest (least) mean that odds within [1/strength, strength] give, by a linear program.

    Of an action that the row did not log: factors of the atoms of its reward, of mean one.
    """
    found = linprog(
        -sign * chance * atoms, A_eq=chance[None], b_eq=[1.0], bounds=(1 / strength, strength)
    )
    return -sign * found.fun


@pytest.mark.parametrize("strength", [1.5, 3.0])
@pytest.mark.parametrize("binary", [True, False])
def test_given_predictions_have_sharp_bounds_under_a_hidden_cause(binary, strength):
    """A logged action has its prediction, each other one the worst mean of its rewards.

    Logged actions stand in for the logging policy. Rewards of 0 and 1 are coins, others the
    prediction and one of the log's residuals.
    """
    reward = golden.REWARD if binary else golden.REWARD * [1.5, 0.7, 2.0, -1.0, 3.0, 0.2]
    predicted = np.random.default_rng(1).uniform(0.05, 0.95, (6, 3))
    log = replace(given(predicted), reward=reward)
    found = tiny.run(made("dm", hidden_cause=(1.0, strength)), log)
    residual = reward - predicted[np.arange(6), golden.ACTION]
    target, ends = golden.TARGET[golden.CONTEXT], []
    for sign in (-1, 1):
        total = 0.0
        for i, a in np.ndindex(6, 3):
            mean = predicted[i, a]
            if a == golden.ACTION[i]:
                worst = mean
            elif binary:
                chance = np.array([1 - mean, mean])
                worst = worst_mean(np.array([0.0, 1.0]), chance, strength, sign)
            else:
                atoms = mean + residual - residual.mean()
                worst = worst_mean(atoms, np.full(6, 1 / 6), strength, sign)
            total += target[i, a] * worst / 6
        ends.append(total)
    told = [found.diagnostics[f"hidden_cause_{end}[{strength:g}]"] for end in ("low", "high")]
    assert ends[0] < found.value < ends[1]
    assert told == pytest.approx(ends)
    assert found.diagnostics["hidden_cause_low[1]"] == pytest.approx(found.value)
