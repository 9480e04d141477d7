"""Intervals on a user's own log: asked of estimators, in their kind and level, and judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ope_bench.logs.estimation
from ope_bench import (
    Log,
    Problem,
    TargetPolicy,
    UsageError,
    betting_interval,
    confidence_sequence,
    empirical_likelihood_interval,
    estimate,
    logarithmic_interval,
)
from ope_bench.execution import Event, Finished, Message
from ope_bench.logs.estimation import INTERVALS
from ope_bench.logs.problem import normal_interval
from ope_bench.statistics.weight_checks import (
    RARE_WEIGHTS,
)
from ope_estimators.actions.weighting.ipw import IPW
from support.small_logs import discrete, frame_of, items_of, log_of, log_of_columns, table_of

TABLE = Path(ope_bench.logs.estimation.__file__).with_name("interval_choice.json")


def bounded(n: int = 160) -> Problem:
    """Rewards squeezed into a known range."""
    given = discrete(n)
    reward = 1 / (1 + np.exp(-given.reward))
    return replace(given, reward=reward)


def ranged(given: Problem, **facts: object) -> Log:
    """The problem as a log whose rewards have a range."""
    frame = frame_of(given)
    named = {
        "context": [name for name in frame if name.startswith("x")],
        "action": "a",
        "reward": "r",
        "propensity": "p",
        "reward_range": (0.0, 1.0),
        "items": items_of(given),
        "logging": TargetPolicy(table=table_of(given.logging_policy, given)),
        "target": TargetPolicy(table=table_of(given.target_policy, given)),
    }
    return Log.from_frame(frame, **(named | facts))


def weights_of(given: Problem) -> np.ndarray:
    return given.target_policy.probability(given.context, given.action) / given.propensity


@pytest.mark.parametrize("asked", ["ipw", IPW(), IPW(clip=2.0)])
def test_estimators_are_asked_for_the_kind_and_the_level(asked):
    given = bounded()
    log, weight = ranged(given), weights_of(given)
    row = next(iter(estimate(log, asked, interval="guaranteed", level=0.8)))
    of_contexts = table_of(given.target_policy, given) / table_of(given.logging_policy, given)
    bets = {"reward_range": (0, 1), "level": 0.8, "largest_weight": of_contexts.max(axis=1)}
    own = betting_interval(weight, given.reward, **bets)
    assert (row.low, row.high, row.interval, row.level) == (own.low, own.high, "guaranteed", 0.8)
    row = next(iter(estimate(log, asked, interval="empirical-likelihood")))
    limits = float(of_contexts.min()), float(of_contexts.max())
    own = empirical_likelihood_interval(
        weight, given.reward, reward_range=(0, 1), weight_range=limits
    )
    assert (row.low, row.high) == pytest.approx((own.low, own.high), rel=1e-9)


def test_bets_on_units_need_their_largest_size_and_no_logging_policy():
    given = bounded()
    log, weight, unit = ranged(given), weights_of(given), np.arange(160) // 3
    spec = replace(log.spec, table={**log.spec.table, "u": unit}, unit="u", logging=None)
    result = estimate(Log.of(spec), ["ipw", "dr"], interval="guaranteed")
    lacking, of_terms = result
    assert not any("asymptotic" in note for note in result.notes)
    assert (lacking.low, lacking.status) == (None, "ok")
    assert lacking.value == pytest.approx((weight * given.reward).mean())
    assert "largest_unit" in lacking.message
    assert "largest_unit" in of_terms.message
    known = Log.of(replace(spec, largest_unit=4))
    (row,) = estimate(known, ["ipw"], interval="guaranteed")
    bets = {"reward_range": (0, 1), "unit": unit, "largest_unit": 4}
    own = betting_interval(weight, given.reward, **bets)
    assert (row.low, row.high) == (own.low, own.high)
    (row,) = estimate(known, ["ipw"], interval="anytime")
    own = confidence_sequence(weight, given.reward, **bets)
    assert (row.low, row.high) == (own.low, own.high)
    (row,) = estimate(known, ["ls-ipw"], interval="guaranteed")
    own = logarithmic_interval(weight, given.reward, **bets)
    assert (row.low, row.high) == (own.low, own.high)
    for wrong in ({"largest_unit": 2}, {"largest_unit": 4, "unit": None}):
        with pytest.raises(UsageError, match="largest_unit"):
            Log.of(replace(spec, **wrong))


def test_an_estimator_with_a_kind_of_its_own_keeps_it():
    row = estimate(ranged(bounded()), "ipw[interval=bootstrap]", interval="guaranteed")["ipw"]
    assert (row.low, row.interval) == (None, None)
    assert row.params["interval"] == "bootstrap"


def test_what_the_log_lacks_for_an_interval_costs_the_interval_and_not_the_value():
    log = log_of(bounded())
    row = estimate(log, "ipw", interval="guaranteed")["ipw"]
    assert row.value is not None
    assert row.low is None
    assert "offers no guaranteed interval here: give `reward_range: [LOW, HIGH]`" in row.message
    without = ranged(bounded(), logging=None)
    dr, ipw = estimate(without, ["dr[regressor=ridge]", "ipw"], interval="guaranteed")
    assert (dr.status, dr.low) == ("ok", None)
    assert "here: give `logging: {table: FILE}`" in dr.message
    assert ipw.low is not None
    dr = estimate(ranged(bounded()), "dr[regressor=ridge]", interval="guaranteed")["dr"]
    assert dr.low < dr.high
    assert dr.interval == "guaranteed"


@pytest.mark.parametrize("kind", [one for one in INTERVALS if one != "disagreement"])
def test_lifts_have_asymptotic_and_anytime_intervals_and_differences_the_first_alone(kind):
    given = bounded()
    policies = {
        name: TargetPolicy(table=table_of(policy, given))
        for name, policy in (("new", given.target_policy), ("old", given.logging_policy))
    }
    result = estimate(ranged(given, target=policies), "ipw", interval=kind)
    assert result["ipw"].interval == kind
    (difference,) = result.differences
    for low, high, kinds in (
        (result["ipw"].lift_low, result["ipw"].lift_high, ("asymptotic", "anytime")),
        (difference.low, difference.high, ("asymptotic",)),
    ):
        assert (low is not None and high is not None) == (kind in kinds)


@pytest.fixture
def few_are_enough(monkeypatch):
    """Intervals by standard errors of logs whose few rewards would withhold them."""
    monkeypatch.setattr(ope_bench.logs.estimation, "few_rewards", lambda *_: "")


@pytest.mark.parametrize("kind", ["bootstrap", "empirical-likelihood"])
@pytest.mark.usefixtures("few_are_enough")
def test_why_one_unit_or_equal_rewards_have_no_interval_is_told(kind):
    given = bounded(20)
    columns = frame_of(given) | {"session": np.zeros(20)}
    target = TargetPolicy(logged_probability="q")
    log = log_of_columns(columns, unit="session", target=target)
    row = estimate(log, "ipw", interval=kind)["ipw"]
    assert f"offers no {kind} interval here: the log has one unit" in row.message
    row = estimate(log_of(replace(given, reward=np.ones(20))), "ipw", interval=kind)["ipw"]
    if kind == "bootstrap":
        assert row.low < row.high
    else:
        assert row.low is None
        assert "here: give `reward_range: [LOW, HIGH]`" in row.message


def test_the_bootstrap_needs_no_target_sample():
    log = ranged(bounded(), target=TargetPolicy(logged_probability="q"), logging=None)
    row = estimate(log, "ipws", interval="bootstrap")["ipws"]
    assert row.interval == "bootstrap"
    assert row.low < row.value < row.high


@pytest.mark.usefixtures("few_are_enough")
def test_few_units_have_the_quantiles_of_students_distribution():
    given = bounded(40)
    frame = frame_of(given) | {"session": np.repeat(np.arange(4), 10)}
    log = log_of_columns(frame, unit="session", target=TargetPolicy(logged_probability="q"))
    row = estimate(log, "ipw")["ipw"]
    # The 97.5 % point of Student's distribution with three degrees of freedom.
    assert row.high - row.value == pytest.approx(3.182446 * row.standard_error, rel=1e-6)
    assert normal_interval(1.0, 0.5, 0.95, 1) == (None, None)


def test_the_warning_of_the_trials_stands_in_the_row():
    given = bounded(30)
    rare = np.full((30, 4), (1 - 1e-4) / 3)
    rare[:, 0] = 1e-4
    action = np.where(given.action == 0, 1, given.action)
    log = ranged(
        replace(given, action=action, propensity=rare[np.arange(30), action]),
        logging=TargetPolicy(table=rare),
    )
    assert RARE_WEIGHTS in estimate(log, "ipw")["ipw"].message
    row = estimate(log, "ipw", interval="guaranteed")["ipw"]
    assert RARE_WEIGHTS not in (row.message or "")


def test_a_bootstrap_says_what_it_costs_before_it_starts():
    given = discrete(40)
    events: list[Event] = []
    log = log_of(given)
    estimate(log, ["ipws", "dm[regressor=ridge]"], interval="bootstrap", on_event=events.append)
    said = events[0]
    assert isinstance(said, Message)
    assert "200 resamples of 1 estimator" in said.text
    assert [type(one) for one in events[1:]] == [Finished, Finished]


def test_a_bootstrap_is_offered_by_estimators_that_have_one():
    table = estimate(log_of(discrete(40)), ["dm[regressor=ridge]", "dr-os[regressor=ridge]"])
    assert "bootstrap" not in table["dm"].message
    # What `edr` withholds on these few rows, its resamples share.
    edr = "edr[regressor=ridge,classifier=logistic]"
    assert "gives one" not in (estimate(log_of(discrete(40)), edr)["edr"].message or "")
