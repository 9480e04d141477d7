"""Committed boards are those of the committed trials."""

from __future__ import annotations

from pathlib import Path

import pytest
from judging.trials.committed import boards_of, folders_with_boards, labels_of

from ope_bench.report.boards import render
from support.paths import RESULTS

FOLDERS = folders_with_boards(RESULTS)


def _name(folder: Path) -> str:
    return folder.relative_to(RESULTS).as_posix()


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS, ids=_name)
def test_trials_give_the_committed_boards(folder: Path) -> None:
    committed = (folder / "leaderboard.md").read_text(encoding="utf-8")
    assert render(boards_of(folder), "markdown").rstrip("\n") + "\n" == committed


@pytest.mark.parametrize("folder", FOLDERS, ids=_name)
def test_no_two_rows_of_a_board_have_one_name(folder: Path) -> None:
    for board in boards_of(folder):
        names = [(row.label, row.device, row.threads) for row in board.rows]
        assert len(set(names)) == len(names)


def test_pages_name_rows_as_boards_do() -> None:
    folder = RESULTS / "loggers"
    labels = labels_of(folder)
    rows = {row.label for board in boards_of(folder) for row in board.rows}
    assert set(labels.values()) == rows
