"""`blue`, estimators of later values, and confidence sequences."""

from dataclasses import replace

import numpy as np
import pytest

from ope_bench import (
    STANDARD_ERROR_WITHHELD,
    PositivityViolation,
    Problem,
    Tabular,
    UnavailableError,
    betting_interval,
    confidence_sequence,
)
from ope_bench.statistics.value_intervals import ANYTIME_BETS
from ope_estimators.actions.doubly_robust.dr import DR
from ope_estimators.actions.weighting.ipw import IPW
from ope_estimators.drift.opfv import OPFV
from ope_estimators.drift.prognosticator import Prognosticator
from ope_estimators.selection.blue import Blue, blue_weights
from support import golden_log as golden
from support import tiny_lists

DUMMY = "sklearn.dummy.DummyRegressor"


def test_blue_has_the_golden_logs_weights_value_and_error():
    found = golden.run(Blue(["ipw", "dr[regressor=ridge,cross_fit=1]"]))
    weights = [part for name, part in found.diagnostics.items() if name.startswith("weight[")]
    assert weights == pytest.approx([-0.770187, 1.770187], abs=1e-6)
    assert found.value == pytest.approx(0.897671, abs=1e-6)
    assert found.diagnostics["error_given_weights"] == pytest.approx(0.072125, abs=1e-6)
    assert found.standard_error is None
    assert "estimated" in found.diagnostics[STANDARD_ERROR_WITHHELD]
    again = golden.run(Blue(["ipw", "dr[regressor=ridge,cross_fit=1]", "ipw"]))
    assert again.value == pytest.approx(found.value, abs=1e-9)
    errors = [one.diagnostics["error_given_weights"] for one in (again, found)]
    assert errors[0] == pytest.approx(errors[1], abs=1e-9)


def test_blue_weights_are_inverse_covariances():
    assert blue_weights(np.array([[1, 0.6], [0.6, 2]])) == pytest.approx([7 / 9, 2 / 9])
    assert blue_weights(np.diag([1.0, 4.0])) == pytest.approx([0.8, 0.2])
    assert blue_weights(np.zeros((2, 2))) == pytest.approx([0.5, 0.5])


def test_one_candidate_is_itself():
    found, plain = golden.run(Blue(["ipw"])), golden.run(IPW())
    assert found.value == pytest.approx(plain.value, abs=1e-12)
    assert found.standard_error == pytest.approx(plain.standard_error, abs=1e-12)


def test_a_constant_phi_and_degree_zero_give_dr():
    plain = golden.run(DR("ridge", cross_fit=1))
    constant = golden.run(OPFV("ridge", cross_fit=1, phi="constant"))
    assert (constant.value, constant.standard_error) == (plain.value, plain.standard_error)
    flat = golden.run(Prognosticator("ridge", cross_fit=1, degree=0, periods=2))
    assert flat.value == pytest.approx(plain.value, abs=1e-12)


def in_time(reward):
    """A log whose target policy is the logging policy, with rewards in the order of time."""
    n = len(reward)
    rows = np.random.default_rng(0).integers(2, size=n)
    log = golden.problem(rows, np.random.default_rng(1).integers(3, size=n), reward)
    return replace(
        log,
        target_policy=log.logging_policy,
        target_context=None,
        target_action=None,
        target_embedding=None,
    )


def test_a_trend_is_forecast_and_a_cycle_is_found():
    time = np.linspace(0, 1, 400)
    trend = in_time(2.0 + 3.0 * time)
    found = tiny_lists.run(Prognosticator(DUMMY, cross_fit=1, horizon=0.1), trend)
    assert found.value == pytest.approx(2.0 + 3.0 * 1.1, abs=0.02)
    assert found.standard_error < 0.02
    recent = tiny_lists.run(OPFV(DUMMY, cross_fit=1, period=0.1), trend)
    assert recent.value == pytest.approx(2.0 + 3.0 * 0.95, abs=0.02)
    season = in_time((time % 0.25 >= 0.125).astype(float))
    cycle = OPFV(DUMMY, cross_fit=1, phi="cycle", period=0.25, bins=2, horizon=0.05)
    assert tiny_lists.run(cycle, season).value == pytest.approx(0.0, abs=0.05)
    later = OPFV(DUMMY, cross_fit=1, phi="cycle", period=0.25, bins=2, horizon=0.2)
    assert tiny_lists.run(later, season).value == pytest.approx(1.0, abs=0.05)
    waves = in_time(np.sin(2 * np.pi * time))
    wave = Prognosticator(DUMMY, cross_fit=1, waves=1, horizon=0.25, periods=40)
    assert tiny_lists.run(wave, waves).value == pytest.approx(1.0, abs=0.05)


def test_a_column_of_times_needs_no_order():
    time = np.random.default_rng(3).permutation(400) / 400
    log = replace(in_time(1.0 + time), schema=None)
    context = np.column_stack([log.context[:, 0], time])
    moved = replace(log, context=context, schema=None)
    found = tiny_lists.run(Prognosticator(DUMMY, cross_fit=1, time=1), moved)
    assert found.value == pytest.approx(2.0, abs=0.02)


def season_and_trend(n, rng):
    """r = a (t + .5 sin 4 pi t) + .2 + noise, pi0 uniform and pi1 = (.1, .9); t in column 0."""
    time, action = np.linspace(0, 1, n), rng.integers(2, size=n)
    context = np.column_stack([time, rng.integers(2, size=n).astype(float)])
    reward = action * drifting(time) + 0.2 + 0.1 * rng.standard_normal(n)
    target = Tabular(np.array([[0.1, 0.9]] * 2), lambda x: x[:, 1].astype(int))
    return Problem(
        context, action, np.eye(2)[action], reward, None, None, None, 2,
        propensity=np.full(n, 0.5), target_policy=target,
    )  # fmt: skip


def drifting(time):
    return time + 0.5 * np.sin(4 * np.pi * time)


LATER = {"time": 0, "horizon": 0.25, "period": 0.5, "cross_fit": 1}


def perfect(log):
    """Predictions of a perfect model, at each row's time and at t' = 1.25."""
    own = np.column_stack([np.full(len(log.reward), 0.2), 0.2 + drifting(log.context[:, 0])])
    wanted = np.broadcast_to([0.2, 0.2 + drifting(1.25)], own.shape)
    return replace(log, predicted_reward=own, predicted_reward_wanted=wanted)


def test_a_perfect_model_predicts_at_the_wanted_time():
    """The value is .9 f(1.25) + .2 = 1.325; predictions at the rows' own times average .651."""
    found = [
        tiny_lists.run(
            OPFV("given", phi=phi, **LATER),
            perfect(season_and_trend(2000, np.random.default_rng(k))),
        )
        for k in range(20)
        for phi in ("cycle", "recent")
    ]
    values, errors = np.array([[one.value, one.standard_error] for one in found]).T
    error = np.sqrt(np.square(errors).sum()) / len(found)
    assert values.mean() == pytest.approx(1.325, abs=4 * error)
    assert error < 0.003


def test_given_predictions_at_the_wanted_time_are_needed_where_phi_is_not_constant():
    log = perfect(season_and_trend(200, np.random.default_rng(0)))
    without = replace(log, predicted_reward_wanted=None)
    with pytest.raises(UnavailableError, match="predicted_reward_wanted"):
        tiny_lists.run(OPFV("given", **LATER), without)
    constant = OPFV("given", **LATER | {"phi": "constant"})
    plain = tiny_lists.run(DR("given", cross_fit=1), without)
    assert tiny_lists.run(constant, without).value == plain.value
    later = (log.predicted_reward_wanted - log.predicted_reward) @ [0.1, 0.9]
    known = tiny_lists.run(constant, log).value
    assert known == pytest.approx(plain.value + later.mean(), abs=1e-12)


@pytest.mark.parametrize("cross_fit", [1, 3])
@pytest.mark.parametrize("column", [0, -2])
def test_a_fitted_model_predicts_with_the_wanted_time_in_its_column(cross_fit, column):
    """r = 3 t + 2 a, times from 7 to 11: a linear model is right at t' = 7 + 1.25 * 4 = 12."""
    log = season_and_trend(300, np.random.default_rng(5))
    context = log.context * [4.0, 1.0] + [7.0, 0.0]
    log = replace(log, context=context, reward=3.0 * context[:, 0] + 2.0 * log.action)
    options = LATER | {"time": column, "cross_fit": cross_fit}
    for phi in ("cycle", "recent", "constant"):
        found = tiny_lists.run(OPFV("linear", phi=phi, **options), log)
        assert found.value == pytest.approx(3.0 * 12.0 + 2.0 * 0.9, abs=1e-9)


def test_a_time_at_the_start_of_a_part_is_in_it_whatever_rounding():
    """1.15 / .05 = 23, but 22.999999999999996 in floating point: the first part, not the last."""
    log = in_time((np.arange(401) % 20 < 5).astype(float))
    options = {"phi": "cycle", "period": 0.05, "horizon": 0.15}
    assert tiny_lists.run(OPFV(DUMMY, cross_fit=1, **options), log).value > 0.99


def test_no_row_like_the_wanted_time_has_no_support():
    never = OPFV(DUMMY, cross_fit=1, phi="cycle", period=10.0, bins=10, horizon=5.0)
    with pytest.raises(PositivityViolation):
        tiny_lists.run(never, in_time(np.ones(50)))


ALPHA = 0.1
VALUE, LOGGED = 0.6 * 0.5 + 0.4 * 0.3, 0.2 * 0.5 + 0.8 * 0.3


def streams(n_streams, n):
    """Two actions, propensities .2 and .8, target .6 and .4, click rates .5 and .3."""
    rng = np.random.default_rng(11)
    first = rng.random((n_streams, n)) < 0.2
    reward = (rng.random((n_streams, n)) < np.where(first, 0.5, 0.3)).astype(float)
    return np.where(first, 3.0, 0.5), reward


@pytest.mark.parametrize("difference", [False, True])
def test_looks_after_every_row_miss_in_at_most_their_share_of_streams(difference):
    weight, reward = streams(1000, 300)
    truth = VALUE - LOGGED if difference else VALUE
    missed = np.zeros(1000, dtype=bool)
    # The interval of the first n rows misses where a wealth at the truth is above its limit.
    for upper in (False, True):
        gain = 1.0 - reward if upper else reward
        raised = 1.0 if difference else 0.0
        x = raised + (weight - raised) * gain
        mean = raised + (
            (-truth if upper else truth) if difference else (1 - truth if upper else truth)
        )
        wealth = np.zeros_like(weight)
        for share in ANYTIME_BETS:
            wealth += np.exp(np.cumsum(np.log1p(share * (x / mean - 1.0)), axis=1))
        missed |= (wealth / len(ANYTIME_BETS) >= 2 / ALPHA).any(axis=1)
    assert missed.mean() <= ALPHA
    # The same of the function itself, at a few looks at a few streams.
    for k in range(5):
        for n in (10, 100, 300):
            found = confidence_sequence(
                weight[k, :n],
                reward[k, :n],
                reward_range=(0, 1),
                level=1 - ALPHA,
                difference=difference,
            )
            assert found.kind == "anytime"
            assert missed[k] or found.holds(truth)


def test_sequences_shrink_and_are_wider_than_one_look():
    weight, reward = (part[0] for part in streams(1, 4000))
    early, late = (
        confidence_sequence(weight[:n], reward[:n], reward_range=(0, 1)) for n in (400, 4000)
    )
    once = betting_interval(weight, reward, reward_range=(0, 1))
    assert once.width < late.width < 1.5 * once.width < early.width
    assert late.holds(VALUE)


def test_the_parameter_gives_an_interval_of_the_value_and_of_the_lift():
    log = replace(golden.problem(), reward_range=(0.0, 1.0))
    found = golden.run(IPW(interval="anytime"), log)
    assert found.interval.kind == "anytime"
    low, high = found.diagnostics["lift_low"], found.diagnostics["lift_high"]
    assert -1 <= low < high <= 1
    direct = confidence_sequence(found.weights, log.reward, reward_range=(0, 1), difference=True)
    assert (low, high) == (direct.low, direct.high)
