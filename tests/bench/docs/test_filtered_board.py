"""The leaderboard's filters show the figures of the committed page."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

import filtered_board as filtered_board_of
from committed import RESULTS, TRACKS
from filtered_board import boards_of_filters, filtered_board, last_trial
from ope_bench.boards.tracks import STRATA


@pytest.fixture(scope="module")
def section() -> str:
    return filtered_board()


def test_every_stratum_and_track_has_the_rows_of_the_page(section: str) -> None:
    text = (RESULTS / "leaderboard.md").read_text(encoding="utf-8")
    shown = json.loads(re.search(r'id="filtered-board">(.*?)</script>', section)[1])
    for stratum in STRATA:
        part = text.partition(f"\n## {stratum.title()}\n")[2].partition("\n## ")[0]
        tables = part.split("<summary>")[1:]
        assert len(tables) == len(TRACKS)
        for track, table in zip(TRACKS, tables, strict=True):
            told = table.replace("| 1 (reference) |", "| 1.00 (1.00 to 1.00) |", 1)
            rows = re.findall(
                r"^\| \d+ to \d+ \| `([^`]+)` \| (\S+) \((\S+) to (\S+)\)", told, re.M
            )
            board = next(
                one
                for one in shown["boards"]
                if (one["may know"], one["signal"], one["settings"])
                == (track.name, stratum, "all")
            )
            assert board["counts"] == [
                int(one) for one in re.findall(r"\((\d+), (\d+) sources", table)[0]
            ]
            assert [name for name, *_ in rows] == [name for name, *_ in board["rows"]]
            for (_, *told), (_, *figures) in zip(rows, board["rows"], strict=True):
                assert [float(one) for one in told] == pytest.approx(figures[:3], abs=0.0056)
    assert f"Last trial {last_trial()}" in section


def test_the_last_trial_is_of_the_run_that_ended_last_or_was_killed_after(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    day = 86400.0
    runs = [{"started": 0.0, "finished": 3 * day}, {"started": 2 * day, "finished": None}]
    monkeypatch.setattr(filtered_board_of, "BOARD", ("field",))
    monkeypatch.setattr(filtered_board_of, "RESULTS", tmp_path)
    (tmp_path / "field").mkdir()
    (tmp_path / "field" / "run.json").write_text(json.dumps({"runs": runs}))
    assert last_trial() == "1970-01-04"
    runs[1]["started"] = 5 * day
    (tmp_path / "field" / "run.json").write_text(json.dumps({"runs": runs}))
    assert last_trial() == "1970-01-06"


def test_drawn_worlds_and_tables_make_up_all_settings_and_differ() -> None:
    boards = {
        (one["may know"], one["signal"], one["settings"]): one for one in boards_of_filters()
    }
    for track in TRACKS[:2]:
        for stratum in STRATA:
            every, *parts = (
                boards[track.name, stratum, sources]
                for sources in ("all", "drawn worlds", "tables and trials")
            )
            for place in (0, 1):
                assert every["counts"][place] == sum(one["counts"][place] for one in parts)
            assert parts[0]["rows"] != parts[1]["rows"]


def test_the_best_stands_first_and_every_name_has_a_kind(section: str) -> None:
    shown = json.loads(re.search(r'id="filtered-board">(.*?)</script>', section)[1])
    for board in shown["boards"]:
        assert all(one[1] <= other[1] for one, other in pairwise(board["rows"]))
        assert {name for name, *_ in board["rows"]} <= shown["kinds"].keys()
    assert shown["kinds"]["ipw"].startswith("Importance weighting")
