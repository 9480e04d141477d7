"""The leaderboard: figures by hand, and what renaming, cloning and dropping leave alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from judging.pages.leaderboard import Whole, over_strata
from judging.pages.prediction import by_textbook, predicted, textbook, yardsticks_of
from judging.trials.field import FieldSetting, settings_of
from scipy.stats import spearmanr

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
    return FieldSetting(source or f"world {number}", number, known, np.zeros(4), found)


def worlds(count=30, **scales):
    """Each estimator errs its scale times the reference, up to a factor of its own a world."""
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
    assert line.median == pytest.approx(np.exp(np.median(logs)))
    assert line.ninth == pytest.approx(np.exp(np.quantile(logs, 0.9)))
    assert (line.failures, line.coverage, line.settings) == (0.0, 1.0, 3)
    half = 12.706205 * logs.std(ddof=1) / np.sqrt(2)
    assert line.high == pytest.approx(np.exp(logs.mean() + half), rel=1e-6)
    assert mean_interval(np.array([1.0]))[1] == -np.inf
    np.testing.assert_array_equal(by_source(settings, [1.0, 2.0, 4.0]), [1.0, 3.0])


def test_estimators_that_do_not_differ_share_a_rank():
    board = board_of(TRACK, worlds(ref=1.0, good=0.5, same=0.505, bad=3.0))
    assert [(line.estimator, line.rank, line.rank_high) for line in board] == [
        ("good", 1, 2), ("same", 1, 2), ("ref", 3, 3), ("bad", 4, 4),
    ]  # fmt: skip


def test_an_estimator_that_ran_on_a_part_has_no_rank_and_takes_none():
    settings = worlds(ref=1.0, good=0.5, part=0.1)
    settings = [one if one.number % 10 == 1 else without(one, "part") for one in settings]
    board = {line.estimator: line for line in board_of(TRACK, settings)}
    assert board["part"].rank is None
    assert board["part"].settings == 3
    assert (board["good"].rank, board["ref"].rank) == (1, 2)


def without(one: FieldSetting, *names: str) -> FieldSetting:
    return replace(one, answers={k: v for k, v in one.answers.items() if k not in names})


def renamed(one: FieldSetting, names: dict[str, str]) -> FieldSetting:
    return replace(one, answers={names.get(k, k): v for k, v in one.answers.items()})


def figures(board):
    return {
        line.estimator: (line.ratio, line.low, line.high, line.near, line.ninth) for line in board
    }


SCALES = {"ref": 1.0, "good": 0.5, "a": 0.7, "b": 1.4, "c": 2.0}


def test_order_and_figures_do_not_depend_on_who_else_enters():
    settings = worlds(**SCALES)
    whole = board_of(TRACK, settings)
    order = [line.estimator for line in whole]
    dropped = board_of(TRACK, [without(one, "a") for one in settings])
    assert [line.estimator for line in dropped] == [name for name in order if name != "a"]
    assert figures(dropped).items() <= figures(whole).items()
    cloned = [
        replace(one, answers={**one.answers, **{f"a{k}": one.answers["a"] for k in range(50)}})
        for one in settings
    ]
    among = [line for line in board_of(TRACK, cloned) if not line.estimator[1:].isdigit()]
    assert [line.estimator for line in among] == order
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


def test_the_interval_of_an_order_is_that_of_a_jackknife():
    rng = np.random.default_rng(3)
    names = list("abcdefgh")
    drawn = [
        setting(k, dict(zip(names, np.exp(rng.standard_normal(8)), strict=True))) for k in range(9)
    ]
    real = [
        replace(setting(k, dict(zip(names, np.exp(rng.standard_normal(8)), strict=True))),
                source=f"randomized {k}", number=None)
        for k in range(5)
    ]  # fmt: skip
    left, right = (
        np.array(
            [[np.log(np.sqrt(np.square(one.errors(x)).mean())) for x in names] for one in part]
        )
        for part in (drawn, real)
    )
    left, right = (one - one.mean(axis=1, keepdims=True) for one in (left, right))

    def fisher(a, b):
        return np.arctanh(spearmanr(a.mean(axis=0), b.mean(axis=0)).statistic)

    variance = 0.0
    for part, others in ((left, right), (right, left)):
        each = [fisher(np.delete(part, k, 0), others) for k in range(len(part))]
        variance += (len(part) - 1) * np.var(each)
    ends = np.tanh(fisher(left, right) + np.array([-1.96, 1.96]) * np.sqrt(variance))
    found = predicted(drawn, real, names)
    assert (found.low, found.high) == pytest.approx(tuple(ends))
    assert found.low < found.value < found.high


def test_the_textbook_rule_knows_three_levels():
    assert [textbook(x) for x in ("ipws", "dm", "logging-average", "ipw")] == [0, 0, 1, 2]
    scales = {"ipws": 1.0, "dm": 0.9, "logging-average": 2.0, "ipw": 4.0}
    real = [replace(setting(k, scales), source=f"randomized {k}", number=None) for k in range(4)]
    assert by_textbook(real, list(scales)).value == pytest.approx(3 / np.sqrt(10))
    assert np.isnan(by_textbook(real, ["ipws", "dm"]).value)


def test_strata_have_equal_weights_whatever_their_sizes():
    sizes = {"weak": (20, 0.0, 0.5), "middle": (4, 0.1, 1.0), "strong": (5, 0.9, 4.0)}
    settings, number = [], 0
    for count, signal, scale in sizes.values():
        for _ in range(count):
            number += 1
            one = setting(number, {"ref": 1.0, "good": scale, "bad": 9.0 * scale})
            settings.append(replace(one, signal=signal))
    settings.append(replace(setting(99, {"ref": 1.0, "good": 1e-6, "bad": 1e-6}), signal=None))
    board = {one.estimator: one for one in over_strata(TRACK, settings)}
    good: Whole = board["good"]
    assert good.ratios == pytest.approx({"weak": 0.5, "middle": 1.0, "strong": 4.0})
    assert good.mean == pytest.approx(2 ** (1 / 3))
    assert good.worst == pytest.approx(4.0)
    assert (board["ref"].rank_low, board["bad"].rank_low) == (1, 3)
    assert list(board) == ["ref", "good", "bad"]


def test_a_failure_never_pays():
    """Where the logged average is nearer to the truth than the reference, the reference counts."""
    one = setting(1, {"ref": 2.0, "good": 1.0, "logging-average": 0.5})
    truth = one.truth
    refuses = replace(one.answers["logging-average"], failed=np.ones(4))
    one = replace(one, answers={**one.answers, "refuses": refuses})
    assert one.log_rmse("refuses", "ref") == pytest.approx(one.log_rmse("ref"))
    near = replace(one, answers={**one.answers, "ref": one.answers["good"]}, truth=truth + 9.0)
    worse = np.maximum(np.abs(near.errors("logging-average")), np.abs(near.errors("ref")))
    np.testing.assert_allclose(np.abs(near.errors("refuses", "ref")), worse)
    assert line_of(TRACK, [one], "refuses").failures == 1.0


def test_errors_on_trials_are_against_the_rows_that_a_log_leaves():
    drawn = worlds(ref=1.0, good=0.5, a=4.0, b=9.0)
    names = ["ref", "good", "a", "b"]
    one = replace(drawn[0], source="randomized x", number=None)
    other = replace(one, others=one.answers["b"].value)
    np.testing.assert_array_equal(other.errors_against_others("b"), 0.0)
    np.testing.assert_array_equal(one.errors_against_others("b"), one.errors("b"))
    assert predicted(drawn, [one], names).value == 1.0
    assert predicted(drawn, [other], names).value < 1.0


def test_a_yardstick_is_judged_by_the_order_of_the_exact_value(tmp_path):
    exact = [0.0, 1.0, 2.0, 3.0]
    told = {
        "yardsticks": ["exact", "same", "turned"],
        "entrants": list("abcd"),
        "trials": {k: [exact, [0.1, 0.9, 2.5, 2.6], exact[::-1]] for k in range(5)},
    }
    path = tmp_path / "yardsticks.json"
    path.write_text(json.dumps(told))
    assert yardsticks_of(path) == pytest.approx({"same": 1.0, "turned": -1.0})


def test_a_trial_without_an_answer_counts_as_the_logged_average(tmp_path):
    rows = []
    for replicate in range(2):
        for estimator, value in (("logging-average", 0.4), ("ipw", None if replicate else 0.9)):
            rows.append(
                {
                    "environment": "population",
                    "environment_params": json.dumps({"world": 7}),
                    "estimator": estimator,
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
    # An estimator with fewer data sets than others would be left out of all tables.
    (tmp_path / "fewer").mkdir()
    pq.write_table(pa.Table.from_pylist(rows[:-1]), tmp_path / "fewer" / "trials.parquet")
    with pytest.raises(LookupError, match="1 of 2"):
        settings_of(Path(tmp_path), ("fewer",))
