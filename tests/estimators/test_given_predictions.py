"""Predictions that the problem has, in the place of a reward model: ``regressor=given``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

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


@pytest.mark.parametrize("binary", [True, False])
def test_given_predictions_have_sharp_bounds_under_a_hidden_cause(binary):
    """The mean of each row's bounds: Q- and Q+ of its actions, weighed by the target policy.

    Logged actions stand in for the logging policy, whose mean of π1 π0 is that of π1 at them.
    """
    log = given() if binary else replace(given(), reward=golden.REWARD * 1.5)
    found = tiny.run(made("dm", hidden_cause=(1.0, 2.0)), log)
    low, high = (found.diagnostics[f"hidden_cause_{end}[2]"] for end in ("low", "high"))
    assert found.diagnostics["hidden_cause_low[1]"] == pytest.approx(0.48)
    assert low < 0.48 < high
    if not binary:
        return
    target = golden.TARGET[golden.CONTEXT]
    chance = target[np.arange(6), golden.ACTION]
    # A coin of mean p has the tails p s (above) with s = 2/3 where p <= 1/3, else (1 - p) / 3.
    upper = np.where(PREDICTED <= 1 / 3, PREDICTED * 2 / 3, (1 - PREDICTED) / 3)
    whole = (target * upper).sum(axis=1).mean()
    logged = (chance * upper[np.arange(6), golden.ACTION]).mean()
    assert high == pytest.approx(0.48 + 1.5 * (whole - logged))
