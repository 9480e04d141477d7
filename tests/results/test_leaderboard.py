"""The leaderboard: figures by hand, and what renaming, cloning and dropping leave alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from judging.field import Setting, settings_of
from judging.leaderboard import tree_of
from judging.prediction import (
    Prediction,
    Source,
    along_trials,
    among_trials,
    chosen_by_halves,
    judged_yardsticks,
    levels_of,
    predicted,
    reliability,
    sources_of,
)

from ope_bench.boards.tracks import Answers, Track, board_of, by_source, line_of
from ope_bench.contracts.view import Access
from ope_bench.statistics.ranks import mean_interval

TRACK = Track("all", Access.PROPENSITY, "ref", ("ref", "good"), "ref")


def answers(errors, truth=0.0, held=1.0, failed=0.0, se=1.0):
    errors = np.asarray(errors, dtype=float)
    whole = np.full(len(errors), 1.0)
    return Answers(truth + errors, se * whole, held * whole, failed * whole, whole)


def setting(number, scales, *, source=None, rng=None, **facts):
    rng = np.random.default_rng(number) if rng is None else rng
    common = rng.standard_normal(4)
    found = {name: answers(scale * common) for name, scale in scales.items()}
    known = {"world_known": "policy", "world_target_form": "probabilities", **facts}
    return Setting(source or f"world {number}", number, known, np.zeros(4), found)


def worlds(count=30, **scales):
    """Each entrant errs its scale times the reference, up to a factor of its own a world."""
    rng = np.random.default_rng(0)
    found = []
    for number in range(1, count + 1):
        noise = np.exp(0.1 * rng.standard_normal(len(scales)))
        own = {name: one * n for (name, one), n in zip(scales.items(), noise, strict=True)}
        found.append(setting(number, own))
    return found


def test_figures_of_a_line_are_those_by_hand():
    settings = [
        setting(1, {"ref": 1.0, "good": 0.5, "e": 2.0}),
        setting(2, {"ref": 1.0, "good": 2.0, "e": 0.5}, source="table"),
        setting(3, {"ref": 1.0, "good": 1.0, "e": 1.1}, source="table"),
    ]
    line = line_of(TRACK, settings, "e")
    # Settings of a source are averaged first.
    logs = np.array([np.log(2.0), (np.log(0.5) + np.log(1.1)) / 2])
    assert line.ratio == pytest.approx(np.exp(logs.mean()))
    assert line.near == pytest.approx(2 / 3)
    assert line.ninth == pytest.approx(np.exp(np.quantile(np.log([2.0, 0.5, 1.1]), 0.9)))
    assert (line.failures, line.coverage, line.settings) == (0.0, 1.0, 3)
    half = 12.706205 * logs.std(ddof=1) / np.sqrt(2)
    assert line.high == pytest.approx(np.exp(logs.mean() + half), rel=1e-6)
    assert mean_interval(np.array([1.0]))[1] == -np.inf
    np.testing.assert_array_equal(by_source(settings, [1.0, 2.0, 4.0]), [1.0, 3.0])


def test_entrants_that_do_not_differ_share_a_rank():
    board = board_of(TRACK, worlds(ref=1.0, good=0.5, same=0.505, bad=3.0))
    assert [(line.entrant, line.rank) for line in board] == [
        ("good", 1), ("same", 1), ("ref", 3), ("bad", 4),
    ]  # fmt: skip


def test_an_entrant_that_ran_on_a_part_has_no_rank_and_takes_none():
    settings = worlds(ref=1.0, good=0.5, part=0.1)
    settings = [one if one.number % 10 == 1 else without(one, "part") for one in settings]
    board = {line.entrant: line for line in board_of(TRACK, settings)}
    assert board["part"].rank is None
    assert board["part"].settings == 3
    assert (board["good"].rank, board["ref"].rank) == (1, 2)


def without(one: Setting, *names: str) -> Setting:
    return replace(one, answers={k: v for k, v in one.answers.items() if k not in names})


def renamed(one: Setting, names: dict[str, str]) -> Setting:
    return replace(one, answers={names.get(k, k): v for k, v in one.answers.items()})


def figures(board):
    return {
        line.entrant: (line.ratio, line.low, line.high, line.near, line.ninth) for line in board
    }


SCALES = {"ref": 1.0, "good": 0.5, "a": 0.7, "b": 1.4, "c": 2.0}


def test_order_and_figures_do_not_depend_on_who_else_enters():
    settings = worlds(**SCALES)
    whole = board_of(TRACK, settings)
    order = [line.entrant for line in whole]
    dropped = board_of(TRACK, [without(one, "a") for one in settings])
    assert [line.entrant for line in dropped] == [name for name in order if name != "a"]
    assert figures(dropped).items() <= figures(whole).items()
    cloned = [
        replace(one, answers={**one.answers, **{f"a{k}": one.answers["a"] for k in range(50)}})
        for one in settings
    ]
    among = [line for line in board_of(TRACK, cloned) if not line.entrant[1:].isdigit()]
    assert [line.entrant for line in among] == order
    assert figures(among) == figures(whole)


def test_names_and_the_order_of_settings_decide_nothing():
    settings = worlds(**SCALES)
    whole = figures(board_of(TRACK, settings))
    other = board_of(TRACK, [renamed(one, {"a": "zzz", "c": "aaa"}) for one in settings])
    assert figures(other)["zzz"] == whole["a"]
    assert figures(other)["aaa"] == whole["c"]
    backwards = figures(board_of(TRACK, settings[::-1]))
    for name, one in whole.items():
        assert backwards[name] == pytest.approx(one, rel=1e-12)


def test_the_tree_finds_the_fact_that_decides():
    settings = []
    for number in range(1, 81):
        small = number % 4 < 2
        scales = {"ref": 1.0, "a": 0.5 if small else 2.0, "b": 2.0 if small else 0.5}
        facts = {"world_rows": 100 if small else 1000, "world_actions": 10}
        facts |= {"world_rows_over_weight": 10.0, "world_ess_fraction": 0.5}
        facts |= dict.fromkeys(
            (
                "world_reward",
                "world_structure",
                "world_embedding",
                "world_logging",
                "world_target",
            ),
            "x",
        )
        settings.append(setting(number, scales, **facts))
    tree = tree_of(settings, ["ref", "a", "b"])
    assert "rows" in tree.question
    assert {tree.choice(one) for one in settings[:4]} == {"a", "b"}
    assert all(
        tree.choice(one) == ("a" if one.facts["world_rows"] == 100 else "b") for one in settings
    )


def test_equal_orders_predict_and_reversed_ones_do_not():
    drawn = worlds(ref=1.0, good=0.5, a=4.0, b=9.0)
    names = ["ref", "good", "a", "b"]
    same = [replace(one, source="randomized x", number=None) for one in drawn[:3]]
    assert predicted(drawn, same, names).value == 1.0
    turned = worlds(ref=1.0, good=2.0, a=0.25, b=0.1)
    real = [replace(one, source="randomized x", number=None) for one in turned[:3]]
    found = predicted(drawn, real, names)
    assert found.value == -1.0
    assert found.high < 0
    assert found.chosen == pytest.approx(20, rel=0.3)


def test_errors_on_trials_are_against_the_rows_that_a_log_leaves():
    drawn = worlds(ref=1.0, good=0.5, a=4.0, b=9.0)
    names = ["ref", "good", "a", "b"]
    one = replace(drawn[0], source="randomized x", number=None)
    other = replace(one, others=one.answers["b"].value)
    np.testing.assert_array_equal(other.errors_against_others("b"), 0.0)
    np.testing.assert_array_equal(one.errors_against_others("b"), one.errors("b"))
    assert predicted(drawn, [one], names).value == 1.0
    assert predicted(drawn, [other], names).value < 1.0


def trials_like(settings, count=6):
    return [
        replace(one, source=f"randomized {k}", number=None)
        for k, one in enumerate(settings[:count])
    ]


def test_trials_among_themselves_are_the_yardstick_and_each_is_left_out_of_its_own():
    names = ["ref", "good", "a", "b"]
    drawn = worlds(ref=1.0, good=0.5, a=4.0, b=9.0)
    turned = trials_like(worlds(ref=1.0, good=2.0, a=0.25, b=0.1))
    others, ours = among_trials(drawn, turned, names)
    np.testing.assert_allclose(others, 1.0)
    np.testing.assert_allclose(ours, -1.0)
    # Two trials of opposite orders: the other one never has a trial's own order.
    pair = [*trials_like(drawn, 1), turned[1]]
    others, _ = among_trials(drawn, pair, names)
    np.testing.assert_allclose(others, -1.0)


def test_intervals_are_over_trials_where_there_are_many():
    names = ["ref", "good", "a", "b"]
    drawn = worlds(ref=1.0, good=0.5, a=4.0, b=9.0)
    turned = worlds(ref=1.0, good=2.0, a=0.25, b=0.1)
    mixed = [*trials_like(drawn, 4), *trials_like(turned[4:], 2)]
    mixed = [replace(one, source=f"randomized {k}") for k, one in enumerate(mixed)]
    found = predicted(drawn, mixed, names)
    assert found.high == 1.0
    assert found.low < 0.5


def worlds_of_two_orders(count=60):
    """Every third world, of the structure none, has the order turned around."""
    scales = {"ref": 1.0, "good": 0.5, "a": 4.0, "b": 9.0}
    turned = {"ref": 1.0, "good": 2.0, "a": 0.25, "b": 0.1}
    rng = np.random.default_rng(0)
    drawn = []
    for number in range(1, count + 1):
        facts: dict[str, object] = {
            name: float(rng.random())
            for name in ("world_rows_over_weight", "world_ess_fraction", "world_rows")
        }
        facts |= {"world_actions": 3.0, "world_structure": "linear" if number % 3 else "none"}
        kinds = ("world_reward", "world_embedding", "world_logging", "world_target")
        facts |= {name: "ab"[int(rng.random() < 0.5)] for name in kinds}
        drawn.append(setting(number, scales if number % 3 else turned, **facts))
    return drawn, ["ref", "good", "a", "b"]


def test_the_dial_that_explains_where_an_order_does_not_carry_over_comes_first():
    drawn, names = worlds_of_two_orders()
    levels = levels_of(drawn, trials_like(drawn[:2], 2), names)
    assert [(level.dial, level.value) for level in levels[:2]] == [
        ("structure", "linear"), ("structure", "none"),
    ]  # fmt: skip
    assert levels[0].found.value == 1.0
    assert levels[1].found.value < 0
    assert sum(level.worlds for level in levels[:2]) == 60


def test_a_part_of_the_worlds_that_half_of_the_trials_choose_is_judged_on_the_other_half():
    drawn, names = worlds_of_two_orders()
    # Trials have the order of the third of the worlds that the mean over all does not have.
    turned = trials_like([one for one in drawn if one.facts["world_structure"] == "none"], 8)
    chosen, whole = chosen_by_halves(drawn, turned, names)
    np.testing.assert_allclose(chosen, 1.0)
    assert whole.max() < 0
    # Trials of both orders: what agrees with one half disagrees with the other.
    mixed = [*trials_like(drawn[:2], 2), *trials_like([drawn[2], drawn[5]], 2)]
    mixed = [replace(one, source=f"randomized {k}") for k, one in enumerate(mixed)]
    chosen, _ = chosen_by_halves(drawn, mixed, names)
    assert chosen.mean() < 0.5


def test_reliability_of_orders_is_that_of_spearman_and_brown():
    same = np.tile([1.0, 2.0, 3.0, 4.0, 5.0], (3, 1))
    assert reliability(same) == pytest.approx((1.0, 1.0))
    # 1 - 6 (1 + 1) / (5 * 24) = .9 for one exchange of neighbors.
    near = np.array([[1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 1.0, 3.0, 4.0, 5.0]])
    assert reliability(near) == pytest.approx((0.9, 1.8 / 1.9))
    assert reliability(np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])) == pytest.approx((-1.0, 0.0))


def test_a_trial_whose_data_sets_disagree_has_a_low_ceiling():
    drawn = worlds(ref=1.0, good=0.5, a=4.0, b=9.0)
    names = ["ref", "good", "a", "b"]
    rng = np.random.default_rng(0)
    noisy = {name: answers(rng.standard_normal(8)) for name in names}
    noise = Setting("randomized noise", None, {}, np.zeros(8), noisy)
    clear = replace(drawn[0], source="randomized clear", number=None)
    first, last = sources_of(drawn, [noise, clear], names)
    assert (first.name, last.name) == ("clear", "noise")
    assert first.ceiling == pytest.approx(1.0)
    assert first.spread > last.spread
    assert last.pair < 0.3
    signal = np.array([[1.0], [0.5], [4.0], [9.0]]) * rng.standard_normal(8)
    near = {
        name: answers(one + rng.standard_normal(8))
        for name, one in zip(names, signal, strict=True)
    }
    (between,) = sources_of(drawn, [replace(noise, answers=near)], names)
    assert 0.1 < between.pair < 0.9
    assert between.ceiling == pytest.approx((8 * between.pair / (1 + 7 * between.pair)) ** 0.5)


def test_what_trials_are_like_is_compared_with_how_well_they_are_predicted():
    sources = [
        Source(f"t{k}", Prediction(k / 40, 0, 1, 1), pair=k % 5, ceiling=0.7, spread=k % 3)
        for k in range(40)
    ]
    facts = {f"t{k}": {"noise_share": -k, "rows": k % 7, "arms": k % 4} for k in range(40)}
    found = along_trials(sources, facts)
    assert found[0][0] == "noise share of the reward"
    assert found[0][1] == pytest.approx(-1.0)
    assert found[0][3] < -0.99


def test_a_yardstick_is_judged_by_the_order_of_the_exact_value(tmp_path):
    exact = [0.0, 1.0, 2.0, 3.0]
    told = {
        "yardsticks": ["exact", "same", "turned"],
        "entrants": list("abcd"),
        "trials": {k: [exact, [0.1, 0.9, 2.5, 2.6], exact[::-1]] for k in range(5)},
    }
    path = tmp_path / "yardsticks.json"
    path.write_text(json.dumps(told))
    found = judged_yardsticks(path)
    assert found["same"].value == pytest.approx(1.0)
    assert found["same"].chosen == 1.0
    assert found["turned"].value == pytest.approx(-1.0)
    assert found["turned"].chosen == pytest.approx(np.exp(3.0))


def test_a_trial_without_an_answer_counts_as_the_logged_average(tmp_path):
    rows = []
    for replicate in range(2):
        for entrant, value in (("logging-average", 0.4), ("ipw", None if replicate else 0.9)):
            rows.append(
                {
                    "environment": "population",
                    "environment_params": json.dumps({"world": 7}),
                    "estimator": entrant,
                    "params": "{}",
                    "replicate": replicate,
                    "status": "ok" if value is not None else "positivity",
                    "estimate": value,
                    "standard_error": None,
                    "interval_low": None,
                    "interval_high": None,
                    "truth_expected": 0.5,
                    "truth_empirical": 0.5,
                    "fit_cpu_seconds": 0.1,
                    "diagnostics": json.dumps({"world": 7}),
                }
            )
    folder = tmp_path / "field"
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(rows), folder / "trials.parquet")
    (one,) = settings_of(Path(tmp_path), ("field",))
    np.testing.assert_allclose(one.errors("ipw"), [0.4, -0.1])
    np.testing.assert_array_equal(one.answers["ipw"].failed, [0.0, 1.0])
    assert one.log_rmse("ipw") == pytest.approx(0.5 * np.log((0.16 + 0.01) / 2))
    assert (one.number, one.odd, one.real) == (7, True, False)
