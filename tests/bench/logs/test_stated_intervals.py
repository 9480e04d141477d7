"""Which intervals are printed of a user's log: by what carries the value, and by drawn logs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ope_bench import Log, TargetPolicy, advise, estimate
from ope_bench.base.errors import OpeBenchError
from ope_bench.cli.app import invoke
from ope_bench.logs import estimation, problem, recommendation
from ope_bench.logs.recommendation import AlikeLogs, Stated, recommendations
from ope_bench.logs.result import EstimateRow
from ope_bench.statistics.value_intervals import empirical_likelihood_interval
from support.small_logs import log_of_columns, write_small

LOGGING, TARGET = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])


def clicks(rows: int = 400, rate: float = 0.3, **changes: Any) -> Log:
    """Three actions, clicks at a rate; rows of weights .4, 1 and 2.5."""
    rng = np.random.default_rng(1)
    action = rng.choice(3, rows, p=LOGGING)
    columns: dict[str, Any] = {"x": rng.normal(size=rows), "a": action}
    columns |= {"r": (rng.random(rows) < rate) * 1.0, "p": LOGGING[action]}
    whole = TargetPolicy(table=np.tile(TARGET, (rows, 1)))
    named: dict[str, Any] = {
        "target": whole,
        "logging": TargetPolicy(table=np.tile(LOGGING, (rows, 1))),
    }
    return log_of_columns(columns | changes.pop("columns", {}), **(named | changes))


def state(monkeypatch: pytest.MonkeyPatch, *cells: AlikeLogs) -> None:
    """Let the rule for known policies have these cells."""
    rules = recommendations()
    found = {**rules, "known": replace(rules["known"], cells=cells)}
    monkeypatch.setattr(recommendation, "recommendations", lambda: found)


ALL = AlikeLogs(0.0, 0.0, 400, 0.957, True)


def row_of(text: str) -> Any:
    """An estimator with a value and a standard error."""
    names = EstimateRow.__dataclass_fields__
    known = dict.fromkeys(names) | {"estimator": text, "value": 0.3, "standard_error": 0.02}
    return EstimateRow(**known)


def likelihood_of(log: Log, ends: tuple[float, float]) -> Any:
    weight = (TARGET / LOGGING)[log.action]
    return empirical_likelihood_interval(
        weight, log.reward, reward_range=(0.0, 1.0), weight_range=ends
    )


def lift_of(log, low, value, high):
    """The ends of value less today's average, as if both were independent."""
    error = 1.959964 * float(log.reward.std(ddof=1)) / np.sqrt(log.n)
    lift = value - log.reward.mean()
    return lift - np.hypot(value - low, error), lift + np.hypot(high - value, error)


def lift_ends(row):
    return row.lift_low, row.lift_high


def test_few_rewards_leave_empirical_likelihood_alone(monkeypatch):
    state(monkeypatch, ALL)
    log = clicks(rate=0.03)
    rewarded, effective = recommendation.carriers(log, "target")
    assert rewarded < 20 < 30 < effective
    rows = estimate(log, ["ipw", "ipws", "sndr[regressor=ridge]"])
    told = likelihood_of(log, (0.4, 2.5))
    assert (rows["ipw"].low, rows["ipw"].high) == pytest.approx((told.low, told.high), abs=1e-9)
    assert rows["ipw"].interval == "empirical-likelihood"
    ends = told.low, rows["ipw"].value, told.high
    assert lift_ends(rows["ipw"]) == pytest.approx(lift_of(log, *ends), abs=1e-7)
    for row in [*rows][1:]:
        assert (row.low, row.high, row.lift_low, row.lift_high, row.interval) == (None,) * 5
        assert f"{rewarded:.3g} effective rewarded rows" in row.message
        assert row.standard_error > 0
    found = advise(log)
    chosen = found.recommended
    assert (chosen.low, chosen.high) == pytest.approx((told.low, told.high), abs=1e-9)
    assert (chosen.interval, chosen.stated_coverage) == ("empirical-likelihood", 0.957)
    ends = lift_of(log, told.low, chosen.value, told.high)
    assert lift_ends(chosen) == pytest.approx(ends, abs=1e-7)
    assert (found.verdict, found.better) == ("caution", "cannot tell")


def test_a_few_rewards_say_that_a_policy_is_better(monkeypatch):
    """Nineteen of 2,000 rows have a reward, all of the action that the new policy wants more."""
    state(monkeypatch, ALL)
    log = clicks(rows=2_000, rate=0.0)
    wanted = np.flatnonzero(log.action == int(np.argmax(TARGET / LOGGING)))
    reward = log.reward.copy()
    reward[wanted[::20][:19]] = 1.0
    found = advise(replace(log, reward=reward))
    assert found.recommended.interval == "empirical-likelihood"
    assert found.recommended.lift_low > 0
    assert (found.verdict, found.better) == ("caution", "better")


def test_no_lift_is_said_where_an_interval_misses_its_estimate():
    stated = Stated(0.2, 0.5, "empirical-likelihood")
    below, above = np.hypot(0.1, 0.196), np.hypot(0.2, 0.196)
    ends = stated.lift(0.3, 0.15, 0.1, 0.95)
    assert ends == pytest.approx((0.15 - below, 0.15 + above), abs=1e-4)
    assert stated.lift(0.51, 0.15, 0.1, 0.95) == (None, None)
    assert Stated().lift(0.3, 0.15, 0.1, 0.95) == (None, None)


def test_a_log_without_a_click_has_an_interval_that_ends_above_zero(monkeypatch):
    state(monkeypatch, ALL)
    chosen = advise(clicks(rate=0.0)).recommended
    assert chosen.low == 0.0
    assert 0.0 < chosen.high < 0.05


def test_twenty_rewarded_rows_have_normal_intervals():
    rows = estimate(clicks(), ["ipws"])
    assert rows["ipws"].interval == "asymptotic"
    assert rows["ipws"].low < rows["ipws"].value < rows["ipws"].high


def test_intervals_that_held_too_seldom_are_withheld_with_the_share():
    rule = recommendations()["known"]
    assert {"dr-os", "dr-ps", "switch", "switch-dr", "cab"} <= rule.withheld.keys()
    assert all(share < 0.85 for share in rule.withheld.values())
    row = estimate(clicks(), "dr-os[regressor=ridge]")["dr-os"]
    assert row.value is not None
    assert (row.low, row.high, row.lift_low, row.interval) == (None,) * 4
    assert f"{rule.withheld['dr-os']:.0%}"[:-1] in row.message


def test_differences_of_withheld_intervals_are_withheld():
    tables = [TargetPolicy(table=np.tile(one, (400, 1))) for one in (TARGET, [0.3, 0.3, 0.4])]
    log = clicks(target=dict(zip("ab", tables, strict=True)))
    found = estimate(log, ["ipws", "dr-os[regressor=ridge]"]).differences
    ends = {one.estimator: (one.low, one.high) for one in found}
    assert ends["dr-os"] == (None, None)
    assert None not in ends["ipws"]


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ((), "too few drawn logs are like this one"),
        ((AlikeLogs(0.0, 0.0, 29, 1.0, True),), "too few drawn logs are like this one"),
        ((AlikeLogs(0.0, 1e6, 400, 1.0, True),), "too few drawn logs are like this one"),
        ((ALL, AlikeLogs(20.0, 30.0, 400, 0.85, False)), "held the value in 85%"),
    ],
)
def test_no_interval_is_stated_without_drawn_logs_in_which_it_held(cells, said):
    rule = replace(recommendations()["known"], cells=cells)
    rows = {text: row_of(text) for text in rule.estimators}
    found = rule.stated(rows, clicks(), "target", 0.95)
    assert (found.low, found.high, found.kind, found.coverage) == (None,) * 4
    assert said in found.reason.replace(" %", "%")
    found = replace(rule, cells=(ALL,)).stated(rows, clicks(), "target", 0.95)
    assert (found.kind, found.coverage) == ("disagreement", 0.957)
    assert found.low < 0.3 < found.high


def test_the_cell_of_a_log_is_the_one_that_its_rewarded_rows_and_size_are_in(monkeypatch):
    cells = [
        AlikeLogs(rewarded, effective, 100, 0.9 + rewarded / 1000 + effective / 10000, True)
        for rewarded in (0.0, 20.0, 50.0)
        for effective in (30.0, 100.0, 500.0)
    ]
    state(monkeypatch, *cells)
    log = clicks()
    rewarded, effective = recommendation.carriers(log, "target")
    assert 50 < rewarded < effective < 500
    cell = recommendation.recommendation_for(log, "target").cell(log, "target")
    assert (cell.rewarded, cell.effective) == (50.0, 100.0)
    (note,) = (one for one in estimate(log, "ipws").notes if one.startswith("tip:"))
    assert "96%" in note.replace(" %", "%")


def test_a_floor_of_the_propensities_narrows_empirical_likelihood(monkeypatch):
    state(monkeypatch, ALL)
    q = {"q": np.tile(TARGET, (400, 1))[np.arange(400), clicks().action]}
    half = {"columns": q, "target": TargetPolicy(logged_probability="q"), "logging": None}
    wide = estimate(clicks(rate=0.03, **half), "ipw")["ipw"]
    near = estimate(clicks(rate=0.03, smallest_propensity=0.2, **half), "ipw")["ipw"]
    told = [likelihood_of(clicks(rate=0.03), ends) for ends in ((0.0, np.inf), (0.0, 5.0))]
    for row, one in zip((wide, near), told, strict=True):
        assert (row.low, row.high) == pytest.approx((one.low, one.high), abs=1e-9)
    assert wide.high - wide.low > 1.2 * (near.high - near.low)
    assert "smallest_propensity" in wide.message
    assert near.message is None


def test_the_floor_is_a_key_a_flag_and_a_parameter_and_is_checked(tmp_path, capsys):
    path = write_small(tmp_path)
    text = path.read_text() + "smallest_propensity: 0.25\n"
    path.write_text(text)
    assert Log.read(path).smallest_propensity == 0.25
    path.write_text(text.replace("0.25", "0.3"))
    with pytest.raises(OpeBenchError, match=r"row 2|line 3") as caught:
        Log.read(path)
    assert "smallest_propensity" in str(caught.value)
    path.write_text(text.replace("0.25", "0"))
    with pytest.raises(OpeBenchError, match="smallest_propensity"):
        Log.read(path)
    table = ["estimate", str(tmp_path / "d.csv"), "--context", "x0,x1", "--action", "a"]
    table += ["--reward", "r", "--propensity", "p", "--target-probability", "q", "--est", "ipw"]
    assert invoke([*table, "--smallest-propensity", "0.25"]) == 0
    assert invoke([*table, "--smallest-propensity", "few"]) == 2
    assert "--smallest-propensity" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"columns": {"r": np.r_[np.zeros(390), np.arange(10) / 3]}}, "reward_range"),
        ({"columns": {"k": np.full(400, 2.0)}, "weight": "k"}, "row weights"),
    ],
)
def test_why_few_rewards_have_no_interval_is_said(changes, said, monkeypatch):
    state(monkeypatch, ALL)
    found = advise(clicks(rate=0.01, **changes))
    assert (found.recommended.low, found.recommended.interval) == (None, None)
    assert any(said in note for note in found.notes)


def estimated(rows: int = 400, rate: float = 0.5) -> Log:
    return replace(
        clicks(rows, rate=rate), propensity=None, logging=None, estimated_propensity=True
    )


def test_intervals_of_estimated_propensities_are_those_of_drawn_logs_that_estimate(monkeypatch):
    rules = recommendations()
    found = {
        **rules,
        "estimated": replace(rules["estimated"], cells=(AlikeLogs(20, 30, 99, 0.9, True),)),
    }
    monkeypatch.setattr(recommendation, "recommendations", lambda: found)
    log = estimated()
    assert recommendation.carriers(log, "target") is None
    advice = advise(log)
    chosen = advice.recommended
    assert (chosen.interval, chosen.stated_coverage) == ("disagreement", 0.9)
    assert chosen.low < chosen.value < chosen.high
    known = advise(clicks()).recommended
    assert chosen.high - chosen.low == pytest.approx(known.high - known.low, rel=0.2)
    found["estimated"] = replace(rules["estimated"], cells=())
    assert advise(log).recommended.low is None


def test_the_center_alone_does_not_tell_the_lift_of_a_policy_like_todays():
    """Where sampling has hardly an error, a center that is off is further from 0 than k D."""
    rule = recommendations()["known"]
    error, z = 0.001, 1.959964
    zero = {"lift": 0.0, "lift_low": -z * error, "lift_high": z * error, "level": 0.95}
    rows = {text: replace(row_of(text), **zero) for text in rule.estimators}
    rows[rule.center] = replace(rows[rule.center], value=0.31, lift=0.01)
    low, high = rule.interval(rows, 0.95, lift=True)
    assert low == pytest.approx(-z * error)
    half = np.hypot(z * error, rule.constant * 0.01)
    assert high == pytest.approx(0.01 + half, rel=1e-4)
    # Values, whose errors are .02, are around the center.
    low, high = rule.interval(rows, 0.95)
    assert (low + high) / 2 == pytest.approx(0.31)


def test_few_rewards_with_estimated_propensities_have_no_interval():
    advice = advise(estimated(rate=0.03))
    assert (advice.recommended.low, advice.verdict) == (None, "caution")
    assert any("it needs given propensities" in note for note in advice.notes)
    rows = estimate(estimated(rate=0.03), "ipws")
    assert rows["ipws"].low is None
    assert "effective rewarded rows" in rows["ipws"].message


def test_estimated_weights_carry_what_equal_given_weights_do():
    log = estimated(rate=0.3)
    weight = (TARGET / LOGGING)[log.action]
    told = [
        measured(log, "target", weight)
        for measured in (problem.effective_rewarded_rows, problem.effective_size)
    ]
    assert told == pytest.approx(recommendation.carriers(clicks(), "target"))


def test_a_cell_of_few_drawn_logs_gives_way_to_one_of_fewer_rewards():
    cells = (AlikeLogs(20, 30, 400, 0.95, True), AlikeLogs(50, 30, 29, 0.99, True))
    rule = replace(recommendations()["known"], cells=cells)
    assert recommendation.carriers(clicks(), "target") > (50, 30)
    assert rule.cell(clicks(), "target") is cells[0]


def test_equal_policies_differ_by_nothing_for_sure_however_few_rewards(monkeypatch):
    rows = 60
    same = TargetPolicy(table=np.tile(LOGGING, (rows, 1)))
    row = estimate(clicks(rows, rate=0.05, target=same), "ipws")["ipws"]
    assert row.low is None
    assert (row.lift, row.lift_low, row.lift_high) == (0.0, 0.0, 0.0)


def test_no_reward_at_all_tells_nothing_of_another_policy():
    row = estimate(clicks(60, rate=0.0), "ipws")["ipws"]
    assert (row.value, row.lift) == (0.0, 0.0)
    assert (row.low, row.lift_low, row.lift_high) == (None, None, None)


def test_few_rewards_have_one_interval_where_the_recommended_one_cannot_run():
    """Only the new policy's probability of the logged action is known."""
    rows = 400
    action = np.random.default_rng(1).choice(3, rows, p=LOGGING)
    log = clicks(rows, rate=0.02, columns={"q": TARGET[action]}, target={"probability": "q"})
    own = estimate(log, "ipw")["ipw"]
    advised = advise(log).recommended
    assert own.interval == advised.interval == "empirical-likelihood"
    assert (own.low, own.high) == (advised.low, advised.high)


def test_few_rewards_of_a_stream_are_those_of_all_its_rows():
    log = clicks(rate=0.03)
    assert recommendation.few_rewards(log, "target")
    assert not recommendation.few_rewards(log, "target", scale=10.0)
    assert estimation.withheld_for("ipws", "asymptotic", log, "target")
    assert not estimation.withheld_for("ipws", "asymptotic", log, "target", 10.0)
    assert not estimation.withheld_for("ipw", "guaranteed", log, "target")
