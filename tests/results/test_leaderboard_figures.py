"""Figures and places of the leaderboard's page, by a small board whose answers are known."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from judging.pages import leaderboard, leaders, prediction
from judging.pages.leaderboard import by_kind, over_strata
from judging.trials.field import FieldSetting

from ope_bench.boards.tracks import STRATA, Answers, Track
from ope_bench.contracts.view import Access

TRACK = Track("all", Access.PROPENSITY, "ipws", ("ipws", "dm"), "ipws")
SIGNALS = {"weak": 0.0, "middle": 0.1, "strong": 0.9}
LOGS: dict[str, dict[bool, tuple[float, ...]]] = {
    "weak": {False: (-1.0, -0.8), True: (0.2, 0.4, 0.9)},
    "middle": {False: (-0.5, -0.1), True: (0.1, 0.3)},
    "strong": {False: (0.4, 0.9, 1.4), True: (0.6, 0.7)},
}
"""By stratum and whether a table: logarithms of the error of `dm` over that of `ipws`."""


def answers(scale):
    errors = scale * np.array([1.0, -1.0])
    return Answers(errors, np.ones(2), np.ones(2), np.zeros(2), np.ones(2))


def board():
    """Errors of `dm` are as in `LOGS`; `far` errs a hundred times as much as `ipws`."""
    found, number = [], 0
    for stratum, kinds in LOGS.items():
        for real, logs in kinds.items():
            for log in logs:
                number += 1
                scales = {"ipws": 1.0, "dm": np.exp(log), "far": 100 * np.exp(0.01 * number)}
                its = {name: answers(scale) for name, scale in scales.items()}
                source = f"multiclass t{number}" if real else f"world {number}"
                where = None if real else number
                found.append(FieldSetting(source, where, {}, np.zeros(2), its, SIGNALS[stratum]))
    return found


def figure(text):
    """A ratio with its interval, or a ratio alone, read from a cell or a sentence."""
    return [float(one) for one in re.findall(r"\d+\.\d\d", text)]


def rows_of(page):
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in page.splitlines()]


def test_the_interval_of_equal_weights_is_that_of_three_means():
    (dm,) = (one for one in over_strata(TRACK, board()) if one.estimator == "dm")
    parts = [np.array([*kinds[False], *kinds[True]]) for kinds in LOGS.values()]
    mean = sum(part.sum() / len(part) for part in parts) / 3
    # The variance of each mean, by sums of squares.
    each = [
        (np.square(part).sum() - part.sum() ** 2 / len(part)) / (len(part) - 1) / len(part)
        for part in parts
    ]
    half = 1.96 * np.sqrt(sum(each) / 9)
    assert np.log([dm.mean, dm.low, dm.high]) == pytest.approx([mean, mean - half, mean + half])
    assert list(dm.ratios) == list(STRATA)
    assert dm.worst == pytest.approx(np.exp(parts[2].mean()))


def test_worlds_stand_before_tables_in_a_line_and_in_the_table(monkeypatch):
    settings = [one for one in board() if one.stratum == "weak"]
    worlds, tables = (np.exp(np.mean(LOGS["weak"][real])) for real in (False, True))
    drawn, real = by_kind(TRACK, settings, "dm")
    assert [drawn.ratio, real.ratio] == pytest.approx([worlds, tables])
    assert [drawn.settings, real.settings] == [2, 3]
    assert by_kind(TRACK, [one for one in settings if one.real], "dm")[0] is None
    monkeypatch.setattr(leaderboard, "TRACKS", (TRACK, TRACK))
    rows = rows_of(leaderboard._stratum("weak", settings))
    head = next(row for row in rows if row[0] == "ranks")
    (row, _) = (row for row in rows if row[1:2] == ["`dm`"])
    told = dict(zip(head, row, strict=True))
    assert figure(told["worlds"]) == [pytest.approx(worlds, abs=0.0051)]
    assert figure(told["tables"]) == [pytest.approx(tables, abs=0.0051)]


def test_the_first_table_has_strata_the_mean_and_the_worst_in_their_places(monkeypatch):
    monkeypatch.setattr(leaderboard, "TRACKS", (TRACK, TRACK))
    whole = over_strata(TRACK, board())
    head, _, *rows = rows_of(leaderboard._whole_table(whole))
    told = {row[1].strip("`"): dict(zip(head, row, strict=True)) for row in rows}
    for one in whole:
        cells = told[one.estimator]
        assert cells["ranks"] == f"{one.rank_low} to {one.rank_high}"
        for stratum in STRATA:
            assert figure(cells[stratum]) == [pytest.approx(one.ratios[stratum], abs=0.0051)]
        assert figure(cells["worst"]) == [pytest.approx(one.worst, abs=0.0051)]
        if one.estimator != "ipws":
            mean = [one.mean, one.low, one.high]
            assert figure(cells["equal weights"]) == pytest.approx(mean, abs=0.0051)


def test_the_facts_count_worlds_and_tables(monkeypatch, tmp_path):
    facts = {}

    def opening(name, **its):
        facts.setdefault(name, its)
        return name

    # One table has two settings.
    settings = [*board()[1:], board()[-1]]
    settings[0].facts["damages"] = ["noise"]  # a world with a fault
    monkeypatch.setattr(leaderboard, "opening", opening)
    monkeypatch.setattr(leaderboard, "TRACKS", (TRACK, TRACK))
    monkeypatch.setattr(leaderboard, "board_settings", lambda _: settings)
    monkeypatch.setattr(leaderboard, "entries_section", lambda _: "")
    monkeypatch.setattr(leaderboard, "_part_section", lambda _: "")
    monkeypatch.setattr(leaderboard, "_core_seconds", lambda _: 7200.0)
    leaderboard.leaderboard_pages(tmp_path, "predicts", "leaders")
    told = facts["leaderboard"]
    names = ("settings", "sizes", "worlds", "faulty", "real", "sources", "none", "hours")
    assert [told[name] for name in names] == ["14", "2", 6, 1, 8, 7, 0, "1.0"]
    facts.clear()
    ones = np.ones(5)
    long = dict.fromkeys(settings[0].answers, Answers(ones, ones, ones, ones, ones))
    settings[0] = replace(settings[0], truth=ones, answers=long)
    leaderboard.leaderboard_pages(tmp_path, "predicts", "leaders")
    assert facts["leaderboard"]["sizes"] == "2 to 5"


def test_estimators_of_a_part_are_named_and_stand_beside_others_on_the_same_settings(monkeypatch):
    settings = board()
    slow = settings[::3]
    for one in slow:
        one.answers["slow"] = one.answers["dm"]
    monkeypatch.setattr(leaderboard, "TRACKS", (TRACK, TRACK))
    page = leaderboard._part_section(settings)
    assert "`slow`" in page
    assert "`dm`" not in page.split("<details>")[0]
    assert f"same {len(slow)}" in " ".join(page.split())
    told = {row[1].strip("`"): row[2:] for row in rows_of(page) if len(row) > 5}
    assert told["slow"] == told["dm"]


def test_core_seconds_are_those_of_the_jobs_of_every_run(monkeypatch, tmp_path):
    def run(command, started, finished, cores=4):
        return {
            "command": command, "started": started, "finished": finished,
            "machine": {"cores": cores},
        }  # fmt: skip

    runs = {
        "a": [run("run a --jobs 3", 10.0, 20.0), run("run a", 100.0, 105.0)],
        "b": [run("run b --jobs 1 --store x", 0.0, 7.0), run("run b --jobs 9", 5.0, None)],
    }
    for folder, its in runs.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "run.json").write_text(json.dumps({"runs": its}))
    monkeypatch.setattr(leaderboard, "BOARD", tuple(runs))
    # Three jobs for 10 seconds, all four cores for 5, one for 7; one run never finished.
    assert leaderboard._core_seconds(tmp_path) == 30 + 20 + 7


def test_the_first_of_a_stratum_has_the_least_error_and_its_worlds_come_first(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(leaders, "TRACKS", (TRACK, TRACK))
    monkeypatch.setattr(leaders, "board_settings", lambda _: board())
    monkeypatch.setattr(leaders, "opened_settings", lambda *_: [])
    # `dm` and `ipws` may be best, `far` is last; of `dm` there are predictions.
    first = {"weak": "dm", "middle": "dm", "strong": "ipws"}
    for named, best in ((("far",), first), (("dm", "far"), dict.fromkeys(first, "dm"))):
        monkeypatch.setattr(leaders, "NAMED", named)
        lines = dict(zip(STRATA, leaders.leaders(tmp_path).splitlines(), strict=True))
        for stratum, line in lines.items():
            assert stratum in line
            before, errs = line.split("errs")
            assert re.findall(r"`([\w-]+)`", before)[-1] == best[stratum]
            assert "`far`" not in line
            ratios = figure(errs)[::3]
            wanted = [np.exp(np.mean(LOGS[stratum][real])) for real in (False, True)]
            if best[stratum] == "dm":
                assert ratios == pytest.approx(wanted, abs=0.0051)
                assert "`ipws`" in before
        short = leaders.leaders(tmp_path, short=True).splitlines()
        for (stratum, its), line in zip(best.items(), short, strict=True):
            assert stratum in line
            assert f"`{its}`" in line
            assert line.endswith("; 2 of 3 may be best")


def verdict(pooled=True, pairs=(True, True), registered=0.5, naive=0.6):
    def slope(reached):
        return {"value": 1.25, "low": 0.75, "high": 1.75, "reached": reached}

    return {
        "sources": 26,
        "slope": slope(pooled),
        "slopes": {f"pair {k}": slope(one) for k, one in enumerate(pairs)},
        "errors": {"registered": registered, prediction.NAIVE: naive, "drawn worlds alone": 0.0},
    }


def test_predictions_come_true_where_all_slopes_are_right_and_they_err_less(monkeypatch, tmp_path):
    assert prediction.outcome(verdict()) == "came true"
    for other in (
        verdict(pooled=False), verdict(pairs=(True, False)), verdict(registered=0.6),
        verdict(registered=0.7),
    ):  # fmt: skip
        assert prediction.outcome(other) == "failed"
    for told, less in ((verdict(), True), (verdict(registered=0.7), False)):
        monkeypatch.setattr(prediction, "verdict_of", lambda _, told=told: told)
        text = prediction.prediction_sentence(tmp_path)
        assert ("no less than" in text) is not less
        assert text.index("2 of 2 pairs") < text.index("1.25 (0.75 to 1.75)")
