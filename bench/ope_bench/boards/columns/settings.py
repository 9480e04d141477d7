"""Columns with one value for all rows of a board: facts of its setting."""

from __future__ import annotations

from typing import Any

from ope_bench.boards.board import Board
from ope_bench.boards.columns.column import BoardColumn

__all__ = ["CSV_KEYS", "SETTING_COLUMNS"]


def _setting(key: str, explanation: str, *, field: str = "", **facts: Any) -> BoardColumn:
    def value(board: Board) -> Any:
        return board.facts()[field or key]

    known: dict[str, Any] = {"format": "text", "hide_empty": False, "drop": None}
    known |= facts
    return BoardColumn(key=key, explanation=explanation, value=value, of_board=True, **known)


SETTING_COLUMNS = (
    _setting("by", "measure that orders the rows"),
    _setting("environment", "id of the environment"),
    _setting("environment_params", "all parameters of the environment", format="json"),
    _setting("environment_origin", "distribution of the environment, and its data"),
    _setting("truth", "the value against which errors are measured"),
    _setting("truth_se", "standard error of the expected truth", format="number"),
    _setting("truth_rms", "root mean square of the truth", format="number"),
    _setting(
        "setting",
        "environment with the parameters that distinguish settings",
        field="label",
    ),
)

CSV_KEYS = (
    "by",
    "environment",
    "environment_params",
    "environment_origin",
    "truth",
    "truth_se",
)
"""The columns of a CSV table that repeat the board's facts in each line."""
