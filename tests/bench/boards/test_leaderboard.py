import json
import math
import random

import numpy as np
import pytest
from scipy import stats

from ope_bench import STANDARD_ERROR_WITHHELD
from ope_bench.boards.built_in_columns import as_json
from ope_bench.boards.leaderboard import boards, boards_document, stream_boards
from ope_bench.boards.over_settings import across
from ope_bench.outcomes import Outcomes
from ope_bench.report.notes import board_notes
from ope_bench.statistics.weight_checks import LEAST_EFFECTIVE, RARE_WEIGHTS
from ope_bench.trials.status import Status

FIXED_KEYS = [
    "rank",
    "estimator",
    "label",
    "params",
    "access",
    "device",
    "origin",
    "replicates",
    "finite",
    "rmse",
    "rmse_low",
    "rmse_high",
    "heavy_tailed",
    "log10_rmse",
    "score",
    "imputed",
    "bias",
    "sd",
    "median_absolute_error",
    "tied",
    "status",
    "positivity_rate",
    "failure_rate",
    "unsupported_mass",
    "observed_unsupported_mass",
    "ess_fraction",
    "max_weight_share",
    "fit_seconds",
    "estimate_seconds",
]


def only(found):
    (board,) = found
    return board


def test_the_json_has_the_documented_keys_and_is_json(normal_row):
    told = boards_document(boards(normal_row()))
    assert told == json.loads(json.dumps(told, allow_nan=False))
    assert told["schema"] == 1
    board = told["boards"][0]
    board_keys = "by environment environment_params environment_origin truth truth_se rows"
    assert set(board_keys.split()) <= set(board)
    assert set(FIXED_KEYS) <= set(board["rows"][0])


def test_the_number_of_resamples_is_told(normal_row):
    assert boards_document(boards(normal_row()))["bootstrap"]["resamples"] == 10_000
    many = boards([*normal_row(replicates=4_000), *normal_row("dm", replicates=100)])
    assert boards_document(many)["bootstrap"]["resamples"] == 5_000
    assert "5,000 to 10,000 resamples" in " ".join(board_notes(many[0]))


def test_figures_of_a_row_are_those_of_its_errors(record):
    errors = [0.3, -0.1, 0.2, 0.4]
    row = only(boards([record("ipw", r, e) for r, e in enumerate(errors)])).rows[0]
    rmse = math.sqrt(np.square(errors).mean())
    assert row.rmse.value == pytest.approx(rmse)
    assert row.score == row.rmse.value
    assert row.log10_rmse == pytest.approx(math.log10(rmse))
    assert row.errors.bias == pytest.approx(np.mean(errors))
    assert row.errors.sd == pytest.approx(np.std(errors, ddof=1))
    assert row.errors.median_absolute_error == pytest.approx(0.25)
    assert row.relative_rmse == pytest.approx(rmse / 1.0)
    assert (row.rmse.low, row.heavy_tailed, row.tied, row.rank) == (None, False, True, 1)


def test_the_area_under_the_error_distribution_is_relative_to_the_logging_average(record):
    # Its squared error is .25; errors of 0 and of .5 lie at either end.
    records = [record("ipw", 0, 0.0), record("ipw", 1, 0.5)]
    assert only(boards(records)).rows[0].error_cdf_area == pytest.approx(0.5)


def test_errors_are_measured_against_the_truth_that_is_asked_for(record):
    records = [record("ipw", 0, 0.1, truth_empirical=1.3)]
    assert only(boards(records, truth="empirical")).rows[0].errors.bias == pytest.approx(-0.2)
    assert only(boards(records, truth="expected")).rows[0].errors.bias == pytest.approx(0.1)


def test_failures_are_imputed_by_the_logging_average_and_counted(record):
    records = [record("ipw", 0, 0.1), record("ipw", 1, status=Status.POSITIVITY)]
    row = only(boards(records)).rows[0]
    assert row.rmse.value == pytest.approx(0.1)
    assert row.score == pytest.approx(math.sqrt((0.1**2 + 0.5**2) / 2))
    assert (row.imputed, row.finite, row.replicates) == (1, 1, 2)
    assert (row.failure.value, row.positivity.value) == (0.5, 0.5)
    assert row.status == {"ok": 1, "positivity": 1}


def test_an_estimator_cannot_win_by_failing_where_it_is_hard(record):
    steady = [record("steady", r, 0.2) for r in range(20)]
    picky = [record("picky", r, 0.1) for r in range(5)]
    picky += [record("picky", r, status=Status.ERROR) for r in range(5, 20)]
    rows = only(boards([*steady, *picky])).rows
    assert [row.estimator for row in rows] == ["steady", "picky"]


def test_a_crashed_trial_takes_its_data_from_its_neighbors(record):
    dead = {"truth_expected": None, "truth_empirical": None, "logging_average": None}
    records = [record("a", 0), record("b", 0, status=Status.CRASH, **dead)]
    rows = {row.estimator: row for row in only(boards(records)).rows}
    assert rows["b"].score == pytest.approx(0.5)
    alone = only(boards(records[1:])).rows[0]
    assert (alone.score, alone.rank, alone.failure.value) == (None, None, 1.0)


def test_unavailable_is_no_failure_and_has_no_rank(record):
    records = [record("a", 0), record("b", 0, status=Status.UNAVAILABLE)]
    last = only(boards(records)).rows[-1]
    assert (last.estimator, last.rank, last.score, last.failure.value) == ("b", None, None, None)
    assert (last.imputed, last.tied) == (0, False)


def test_equal_scores_share_a_rank_and_all_errors_zero_are_no_trouble(record):
    records = [record(name, r, 0.0) for name in "ab" for r in range(20)]
    rows = only(boards(records)).rows
    assert [(row.rank, row.tied) for row in rows] == [(1, True), (1, True)]
    assert (rows[0].rmse.value, rows[0].log10_rmse, rows[0].rmse.low) == (0.0, None, None)


def test_rows_worse_beyond_doubt_are_not_tied_and_close_ones_are(normal_row):
    close = normal_row("close", scale=0.101, stream=0)
    records = [*normal_row("best"), *close, *normal_row("bad", scale=0.5, stream=2)]
    tied = {row.estimator: row.tied for row in only(boards(records)).rows}
    assert tied["bad"] is False
    assert tied["best"] is True


def test_a_difference_of_half_that_would_go_unseen_leaves_ties_open(normal_row, record):
    close = normal_row("close", scale=0.15, stream=3, replicates=20)
    wild = [record("wild", r, 0.08) for r in range(19)] + [record("wild", 19, 1e11)]
    rows = only(boards([*normal_row("best", replicates=20), *close, *wild])).rows
    tied = {row.estimator: row.tied for row in rows}
    assert tied == {"best": True, "close": None, "wild": None}
    assert {row.estimator: row.detectable is None for row in rows}["close"] is False
    many = [*normal_row("best"), *normal_row("close", scale=0.11, stream=3)]
    seen = {row.estimator: row for row in only(boards(many)).rows}["close"]
    assert seen.tied is True
    assert 0.1 < seen.detectable < 0.5


def test_a_row_that_mostly_failed_is_listed_and_not_ranked(normal_row, record):
    tried = [record("shy", r, 0.001) for r in range(4)]
    refused = [record("shy", r, status=Status.POSITIVITY) for r in range(4, 10)]
    rows = only(boards([*normal_row("ipw", 0.1, replicates=10), *tried, *refused])).rows
    assert [(row.estimator, row.rank) for row in rows] == [("ipw", 1), ("shy", None)]
    assert rows[1].rmse.value == pytest.approx(0.001)
    assert rows[1].score > 0.3


def test_the_error_against_the_target_sample_stands_beside_the_error_against_the_value(record):
    records = [
        record("ipw", r, error, truth_expected=1.0, truth_empirical=1.0 + error)
        for r, error in enumerate([0.1, -0.2, 0.3, 0.1])
    ]
    row = only(boards(records, truth="expected")).rows[0]
    assert row.rmse.value > 0.1
    assert row.rmse_empirical == pytest.approx(0.0, abs=1e-15)


def test_a_heavy_tailed_row_is_marked_and_has_an_interval_all_the_same(normal_row, record):
    records = [*normal_row(replicates=50), record("ipw", 50, 30.0)]
    row = only(boards(records)).rows[0]
    assert row.heavy_tailed
    assert 0.0 < row.rmse.low < row.rmse.value < row.rmse.high
    assert row.errors.median_absolute_error < 0.2


def test_the_order_of_records_plays_no_part(normal_row, record):
    records = [*normal_row("a"), *normal_row("b", 0.2, stream=1), record("b", 5, 9.0, n=50)]
    shuffled = records.copy()
    random.Random(0).shuffle(shuffled)
    assert boards_document(boards(records)) == boards_document(boards(shuffled))


def test_a_key_counts_once_with_its_newest_record(record):
    row = only(boards([record(error=5.0), record(error=0.1)])).rows[0]
    assert (row.replicates, row.rmse.value) == (1, pytest.approx(0.1))


def test_settings_and_versions_have_boards_of_their_own_in_natural_order(record):
    found = boards([record(n=500), record(n=50), record(n=50, version=2)])
    assert [board.label for board in found] == [
        "toy n=50 version=1",
        "toy n=50 version=2",
        "toy n=500 version=1",
    ]


def test_labels_tell_parameters_apart(record):
    rows = only(
        boards([record(params={"clip": 1}), record(params={"clip": 2}), record("dm", label="DM!")])
    ).rows
    assert {row.label for row in rows} == {"ipw clip=1", "ipw clip=2", "DM!"}


def test_times_come_only_from_trials_that_ran_alone(record):
    seconds = {"fit_seconds": 2.0, "estimate_seconds": 1.0}
    records = [record("a", 0, exclusive=True, **seconds), record("b", 0, **seconds)]
    rows = {row.estimator: row for row in only(boards(records)).rows}
    assert rows["a"].cost.seconds == 3.0
    assert rows["b"].cost.fit_seconds is None
    assert [row.estimator for row in only(boards(records, by="time")).rows] == ["a"]


def test_coverage_is_always_against_the_expected_truth(record):
    records = [record("ipw", r, 0.05, standard_error=0.1, truth_empirical=9.0) for r in range(10)]
    row = only(boards(records, truth="empirical")).rows[0]
    assert row.coverage.share.value == 1.0
    assert row.coverage.width == pytest.approx(2 * 1.96 * 0.1, rel=1e-3)


def test_the_coverage_board_has_every_row_that_offers_an_interval(record):
    withheld = {STANDARD_ERROR_WITHHELD: "doubt"}
    records = [
        # Two of twenty miss, one on each side: a coverage of .9, .05 from what it should be.
        *(
            record("near", r, (-1) ** r * (0.3 if r < 2 else 0.1), standard_error=0.1)
            for r in range(20)
        ),
        *(record("short", r, -0.5, standard_error=0.1) for r in range(20)),
        *(record("silent", r, 0.1, diagnostics=withheld) for r in range(20)),
        *(record("without", r, 0.1) for r in range(20)),
    ]
    board = only(boards(records, by="coverage"))
    assert [(row.rank, row.estimator) for row in board.rows] == [
        (1, "near"),
        (2, "short"),
        (None, "silent"),
    ]
    near, short, silent = as_json(board)["rows"]
    wilson = stats.binomtest(18, 20).proportion_ci(method="wilson")
    assert near["coverage"] == 0.9
    assert (near["coverage_low"], near["coverage_high"]) == pytest.approx(
        (wilson.low, wilson.high)
    )
    assert (near["missed_below"], near["missed_above"]) == (0.05, 0.05)
    assert near["interval_width"] == pytest.approx(2 * 1.959964 * 0.1)
    assert (short["coverage"], short["missed_below"], short["missed_above"]) == (0.0, 1.0, 0.0)
    assert (near["intervals"], near["withheld"]) == (20, 0)
    assert (silent["intervals"], silent["withheld"], silent["coverage"]) == (0, 20, None)
    assert silent["warnings"] == ["standard error withheld in 20 of 20 trials: doubt"]


def test_coverage_is_of_the_estimators_own_interval_where_it_has_one(record):
    own = {"interval_level": 0.8, "interval_kind": "guaranteed"}
    records = [
        # The truth is 1: held, wholly below by .1, wholly above by .3, and a normal interval.
        record("own", 0, 0.05, standard_error=9.0, interval_low=0.9, interval_high=1.4, **own),
        record("own", 1, -0.2, standard_error=9.0, interval_low=0.6, interval_high=0.9, **own),
        record("own", 2, 0.5, standard_error=9.0, interval_low=1.3, interval_high=1.5, **own),
        record("own", 3, 0.1, interval_low=0.9, interval_high=1.5, **own),
        record("normal", 0, 0.1, standard_error=0.1),
        record("normal", 1, 0.3, standard_error=0.1, ess_fraction=0.005),
        record("normal", 2, 0.1, standard_error=0.1, ess_fraction=0.01),
        record("normal", 3, 0.1, standard_error=0.1, ess_fraction=0.1),
    ]
    board = only(boards(records, by="coverage"))
    rows = {row["estimator"]: row for row in as_json(board)["rows"]}
    own_row, normal = rows["own"], rows["normal"]
    assert (own_row["coverage"], own_row["intervals"]) == (0.5, 4)
    assert (own_row["missed_below"], own_row["missed_above"]) == (0.25, 0.25)
    assert own_row["interval_width"] == pytest.approx((0.5 + 0.3 + 0.2 + 0.6) / 4)
    assert own_row["median_interval_width"] == pytest.approx(0.4)
    assert own_row["interval_score"] == pytest.approx(0.4 + 10 * (0.1 + 0.3) / 4)
    assert own_row["interval_level"] == pytest.approx(0.8)
    reach = 1.959964 * 0.1
    assert normal["interval_score"] == pytest.approx(2 * reach + 40 * (0.3 - reach) / 4)
    parts = [
        (normal[f"coverage_ess_{part}"], normal[f"intervals_ess_{part}"])
        for part in ("low", "middle", "high")
    ]
    assert parts == [(0.0, 1), (1.0, 1), (1.0, 1)]
    assert [row.estimator for row in board.rows] == ["normal", "own"]
    assert "interval_score" not in as_json(only(boards(records)))["rows"][0]


def test_a_coverage_board_tells_the_kind_and_doubts_what_rests_on_the_logged_weights(record):
    doubtful = {"diagnostics": {LEAST_EFFECTIVE: 0.5}, "standard_error": 0.1}
    own = {"interval_low": 0.5, "interval_high": 1.5, "interval_level": 0.95}
    records = [
        *(record("normal", r, 0.1, **doubtful) for r in range(3)),
        *(record("held", r, 0.1, interval_kind="guaranteed", **own, **doubtful) for r in range(3)),
        *(record("drawn", r, 0.1, interval_kind="bootstrap", **own, **doubtful) for r in range(3)),
        record("mixed", 0, 0.1, interval_kind="guaranteed", **own, **doubtful),
        record("mixed", 1, 0.1, **doubtful),
        record("failed", 0, status=Status.ERROR, **doubtful),
    ]
    board = only(boards(records, by="coverage"))
    rows = {row["estimator"]: row for row in as_json(board)["rows"]}
    assert {name: row["interval_kind"] for name, row in rows.items()} == {
        "normal": "asymptotic",
        "held": "guaranteed",
        "drawn": "bootstrap",
        "mixed": "asymptotic, guaranteed",
    }
    assert {name: row["warnings"] for name, row in rows.items()} == {
        "normal": [RARE_WEIGHTS],
        "held": [],
        "drawn": [RARE_WEIGHTS],
        "mixed": [RARE_WEIGHTS],
    }


def test_warnings_are_judged_on_their_fallback(record):
    # The logging average is off by .5: 2.0 is worse than that, 1.1 is not.
    records = [
        record("w", 0, status=Status.POSITIVITY, fallback=2.0),
        record("w", 1, status=Status.POSITIVITY, fallback=1.1),
        record("w", 2, 0.1),
        record("w", 3, 3.0),
    ]
    row = only(boards(records, by="positivity")).rows[0]
    assert (row.warnings.warned, row.warnings.judged) == (2, 2)
    assert (row.warnings.precision, row.warnings.recall) == (0.5, 0.5)
    assert row.failure.low < 0.5 < row.failure.high


def test_recall_is_unknown_where_a_warning_has_no_fallback(record):
    records = [record("w", 0, status=Status.POSITIVITY), record("w", 1, 3.0)]
    row = only(boards(records, by="positivity")).rows[0]
    assert (row.warnings.precision, row.warnings.recall) == (None, None)


def test_the_ratio_board_orders_by_the_error_of_the_log_ratio(record):
    records = [
        record("a", 0, diagnostics={"log_ratio_rmse": 0.5, "auc": 0.7, "how": "word"}),
        record("b", 0, 9.0, diagnostics={"log_ratio_rmse": 0.2}),
        record("c", 0),
    ]
    board = only(boards(records, by="ratio"))
    assert [(row.estimator, row.ratio_error) for row in board.rows] == [("b", 0.2), ("a", 0.5)]


def test_the_balance_board_orders_by_the_mean_difference_and_leaves_out_old_records(record):
    def told(after):
        return {"smd_before": 0.5, "smd_after": after, "mmd_before": 0.2, "mmd_after": 0.1}

    records = [
        *(record("a", r, diagnostics=told(0.3 + 0.1 * r)) for r in range(3)),
        *(record("b", r, 9.0, diagnostics=told(0.1)) for r in range(3)),
        # Of a store from before the diagnostics were recorded.
        *(record("c", r, diagnostics={"mean_weight": 1.0}) for r in range(3)),
    ]
    board = only(boards(records, by="balance"))
    found = as_json(board)["rows"]
    assert [(row["estimator"], row["rank"], row["smd_after"]) for row in found] == [
        ("b", 1, 0.1),
        ("a", 2, pytest.approx(0.4)),
    ]
    assert [found[0][key] for key in ("smd_before", "mmd_before", "mmd_after")] == [0.5, 0.2, 0.1]
    assert "smd_after" not in as_json(only(boards(records)))["rows"][0]
    assert any("standardized mean difference" in note for note in board_notes(board))


def test_no_records_give_no_boards():
    assert boards([]) == []
    empty = boards_document([])
    assert (empty["boards"], empty["across"]) == ([], [])


def test_a_summary_over_settings_ranks_by_mean_rank(record):
    records = []
    for n in (10, 50, 100):
        records += [record("good", r, 0.1 + 0.01 * r, n=n) for r in range(5)]
        records += [record("bad", r, 0.4 + 0.01 * r, n=n) for r in range(5)]
    found = across(boards(records))
    assert [(row.estimator, row.mean_rank) for row in found.rows] == [("good", 1), ("bad", 2)]
    assert found.rows[0].within == (1.0, 1.0, 1.0, 1.0, 1.0)
    assert found.rows[1].within == (0.0, 0.0, 0.0, 0.0, 1.0)
    assert found.critical_difference == pytest.approx(1.96 * math.sqrt(1 / 3), abs=1e-3)
    assert json.dumps(found.as_json(), allow_nan=False)
    assert across(boards(records[:10])) is None


def test_settings_that_come_in_turn_give_the_same_boards(record):
    records = [
        record("ipw", r, 0.1 * r, n=n, params={"clip": clip})
        for n in (10, 9)
        for clip in (None, 2)
        for r in range(3)
    ]
    settings = {}
    for one in records:
        settings.setdefault(one.trial.environment.identity_json, []).append(one)
    in_turn = stream_boards(map(Outcomes.of, settings.values()))
    assert in_turn == boards(records)
    assert [board.label for board in in_turn] == ["toy n=9", "toy n=10"]
