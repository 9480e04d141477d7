"""A page holds whole settings' trials up to a limit, and says which it does not hold."""

from __future__ import annotations

import json

import pytest

from ope_bench.report.content import ReportData
from ope_bench.report.page.html import MOST_TRIALS, payload, read_part
from support.paths import ROOT

from .conftest import plenty


def sizes(content: ReportData) -> list[int]:
    return [sum(map(len, setting.trials)) for setting in content.settings]


@pytest.mark.parametrize("missing", [0, 1])
def test_settings_are_held_until_the_next_would_be_too_much(content, monkeypatch, missing):
    first, second, *others = sizes(content)
    monkeypatch.setattr("ope_bench.report.page.html.MOST_TRIALS", first + second - missing)
    told = payload(content)
    held = 2 - missing
    assert [bool(one) for one in told["trials"]] == [True] * held + [False] * (
        len(others) + 2 - held
    )
    said = told["left_out"]
    assert f"all {sum(sizes(content)):,} trials" in said
    assert f"first {held} of {len(others) + 2} settings, {sum(sizes(content)[:held]):,}" in said
    assert f"--store {content.store} --to trials.csv" in said
    # Boards and counts are of all trials.
    assert len(told["rows"]) == sum(len(one.board.rows) for one in content.settings)
    assert sum(told["status"].values()) == len(plenty())


def test_a_page_of_a_usual_store_holds_everything_and_says_nothing(content):
    told = payload(content)
    assert all(told["trials"])
    assert told["left_out"] == ""


def test_a_setting_that_is_too_large_alone_is_left_out_with_all_after_it(content, monkeypatch):
    monkeypatch.setattr("ope_bench.report.page.html.MOST_TRIALS", sizes(content)[0] - 1)
    assert not any(payload(content)["trials"])


def test_pages_of_the_runs_of_this_repository_are_complete():
    runs = [json.loads(path.read_text()) for path in ROOT.glob("results/*/run.json")]
    assert max(run["trials"] for run in runs) <= MOST_TRIALS


def test_the_page_shows_the_sentence_where_trials_are_missing():
    for script in ("boards", "runs", "trials"):
        assert "data.left_out" in read_part(f"scripts/{script}.js")
