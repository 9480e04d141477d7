"""Committed boards come again from the exported trials, and from the renderers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from board_json import board_from_json
from judging.committed import records_of, unknown
from remake import board_document

from ope_bench.boards.leaderboard import boards, boards_document
from ope_bench.report.boards import render
from support.paths import RESULTS

FOLDERS = sorted(path.parent for path in RESULTS.rglob("leaderboard.json"))
EXPORTED = [folder for folder in FOLDERS if (folder / "trials.parquet").exists()]


def _name(folder: Path) -> str:
    return folder.relative_to(RESULTS).as_posix()


def _document(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "leaderboard.json").read_text(encoding="utf-8"))


MOST_TRIALS = 6_000
"""Of a folder with more, boards with half as many are made again."""


def _assert_same(found: Any, told: Any) -> None:
    """Same keys, same values; sums may differ in the last bits.

    Linear algebra adds in another order on another processor, or with another number of threads,
    and a column may be a difference of large sums.
    """
    if isinstance(told, dict):
        assert found.keys() == told.keys()
        for name, value in told.items():
            _assert_same(found[name], value)
    elif isinstance(told, list):
        assert len(found) == len(told)
        for value, expected in zip(found, told, strict=True):
            _assert_same(value, expected)
    else:
        assert type(found) is type(told)
        assert found == (pytest.approx(told, rel=1e-9) if isinstance(told, float) else told)


@pytest.mark.parametrize("folder", EXPORTED, ids=_name)
def test_exported_trials_give_the_committed_json(folder: Path) -> None:
    committed = _document(folder)
    first = committed["boards"][0]
    # Boards are made one by one: some show what all would. Names and what is over all settings
    # need all, and are those of the other folders.
    trials = pq.read_metadata(folder / "trials.parquet").num_rows
    every = 1 if trials <= MOST_TRIALS else round(2 * trials / MOST_TRIALS)
    committed["boards"] = committed["boards"][::every]
    records = records_of(folder, every)
    found = boards_document(boards(records, by=first["by"], truth=first["truth"]))
    assert list(found) == list(committed)
    if every > 1:
        found["across"] = committed["across"]
        for board, told in zip(found["boards"], committed["boards"], strict=True):
            board["label"] = told["label"]
    for board, told in zip(found["boards"], committed["boards"], strict=True):
        # The order of the keys is part of the file.
        assert list(board) == list(told)
        board["truth_se"] = told["truth_se"]
        for row, line in zip(board["rows"], told["rows"], strict=True):
            if "codes" not in line:  # of a release before this key
                del row["codes"]
            assert list(row) == list(line)
            row.update({name: line[name] for name in unknown(row)})
    for summary, told in zip(found["across"], committed["across"], strict=True):
        for row, line in zip(summary["rows"], told["rows"], strict=True):
            if "codes" not in line:
                row.pop("codes", None)
    _assert_same(found, committed)


def test_boards_made_again_keep_what_the_trials_do_not_tell() -> None:
    """No row of this suite is the logging average, whose error ends the area under errors."""
    committed = _document(RESULTS / "intervals-models")
    rows = [row for board in committed["boards"] for row in board["rows"]]
    assert all(row["error_cdf_area"] > 0 for row in rows)
    records = records_of(RESULTS / "intervals-models")
    first = committed["boards"][0]
    _assert_same(board_document(records, first["by"], committed["boards"]), committed)


@pytest.mark.parametrize("folder", FOLDERS, ids=_name)
def test_the_committed_json_renders_as_the_committed_boards(folder: Path) -> None:
    found = [board_from_json(board) for board in _document(folder)["boards"]]
    committed = (folder / "leaderboard.md").read_text(encoding="utf-8")
    assert render(found, "markdown").rstrip("\n") + "\n" == committed


@pytest.mark.parametrize("folder", FOLDERS, ids=_name)
def test_no_two_rows_of_a_board_have_one_name(folder: Path) -> None:
    for board in _document(folder)["boards"]:
        names = [(row["label"], row["device"], row["threads"]) for row in board["rows"]]
        assert len(set(names)) == len(names)


def test_names_of_rows_are_made_again_and_not_read(tmp_path: Path) -> None:
    """A row's name is what tells it from the rows beside it, whatever its committed name says."""
    committed = _document(RESULTS / "large-samples")
    told = [row["label"] for row in committed["boards"][0]["rows"]]
    made = [row for board in committed["boards"] for row in board["rows"] if "=" in row["label"]]
    assert made
    for row in made:
        row["label"] = row["estimator"]
    (tmp_path / "leaderboard.json").write_text(json.dumps(committed), encoding="utf-8")
    (tmp_path / "trials.parquet").symlink_to(RESULTS / "large-samples" / "trials.parquet")
    found = boards(records_of(tmp_path), by="rmse", truth=committed["boards"][0]["truth"])
    assert [row["label"] for row in boards_document(found)["boards"][0]["rows"]] == told
