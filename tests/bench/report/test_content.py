from __future__ import annotations

from pathlib import Path

import pytest

from ope_bench.base.errors import StoreError
from ope_bench.report.content import (
    ReportData,
    cdf_lines,
    error_lines,
    rank_lines,
    sweep_lines,
    sweeps,
)
from ope_bench.store import Store
from ope_bench.trials.status import Status

from .conftest import HOSTILE, made


def test_every_row_has_the_trials_that_it_sums_up(content):
    for setting in content.settings:
        for row, trials in zip(setting.board.rows, setting.trials, strict=True):
            assert len(trials) == row.replicates
            assert {one.id for one in trials.estimator} == {row.estimator}
            replicates = trials.replicate.tolist()
            assert replicates == sorted(replicates)


def test_methods_are_the_same_in_every_setting_and_have_labels_of_their_own(content):
    labels = [method.label for method in content.estimators]
    assert sorted(labels) == sorted({"ipw", "dm", "eipw", "ipw-star", HOSTILE})
    for setting in content.settings:
        for row, place in zip(setting.board.rows, setting.estimators, strict=True):
            assert content.estimators[place].estimator == row.estimator


def test_methods_that_differ_in_device_are_told_apart(stored):
    records = [made("ipw"), made("ipw", device="cuda")]
    found = ReportData.read(stored(records))
    assert {method.label for method in found.estimators} == {"ipw", "ipw (cuda)"}


def test_third_party_surrogate_and_dirty_are_known(content):
    third = {method.label for method in content.estimators if method.third_party}
    assert third == {HOSTILE}
    assert {s.board.environment for s in content.settings if s.surrogate} == {"pictures"}
    assert all(all(setting.dirty) for setting in content.settings)


def test_a_clean_tree_is_not_called_dirty(stored):
    assert not any(ReportData.read(stored([made()])).settings[0].dirty)


def test_sweeps_follow_one_number_and_nothing_else(content):
    (only,) = sweeps(content.settings)
    assert only.parameter == "n_actions"
    assert [value for value, _ in only.at] == [10.0, 50.0, 200.0]
    lines = sweep_lines(content, only)
    assert {line["value"] for line in lines} == {10.0, 50.0, 200.0}
    assert {line["environment"] for line in lines} == {"toy"}


def test_failures_keep_the_distribution_of_squared_error_below_one(content):
    setting = content.settings[-1]
    curve = [line["share"] for line in cdf_lines(content, setting) if line["method"] == HOSTILE]
    assert curve[-1] == pytest.approx(8 / 12)
    assert curve == sorted(curve)


def test_errors_are_estimate_minus_truth(content):
    setting = content.settings[-1]
    found = {
        (line["method"], line["replicate"]): line["error"]
        for line in error_lines(content, setting)
    }
    for method, trials in zip(setting.estimators, setting.trials, strict=True):
        told = zip(trials.replicate, trials.has(Status.OK), trials.estimate, strict=True)
        for replicate, ok, estimate in told:
            place = content.estimators[method].label, replicate
            if ok:
                assert found[place] == pytest.approx(estimate - 1.0)
            else:
                assert place not in found


def test_bars_of_a_rank_diagram_span_no_more_than_the_critical_difference(content):
    ((_, summary),) = [one for one in content.across if one[0].startswith("toy")]
    tables = rank_lines(content.labels_of(summary), summary)
    assert len(tables["methods"]) == 5
    for bar in tables["bars"]:
        assert 0 < bar["high"] - bar["low"] <= summary.critical_difference
    levels = [(line["left"], line["level"]) for line in tables["methods"]]
    assert len(set(levels)) == len(levels)


def test_two_truths_give_two_settings_with_labels_of_their_own(tmp_path):
    path = tmp_path / "store.sqlite"
    with Store.open(path, write=True) as store:
        for truth in ("empirical", "expected"):
            store.add(made(), store.begin_run(suite=truth, truth=truth))
    found = ReportData.read(path)
    assert {s.label for s in found.settings} == {"toy (empirical truth)", "toy (expected truth)"}
    assert not found.across
    (one,) = ReportData.read(path, suite="expected").settings
    assert one.board.truth == "expected"


def test_a_missing_store_is_an_error():
    with pytest.raises(StoreError):
        ReportData.read(Path("nowhere.sqlite"))
