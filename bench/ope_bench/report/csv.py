"""Boards as one CSV table: a line a row, every figure in full precision."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any

from ope_bench.leaderboard import Board
from ope_bench.seeding import canonical_json

__all__ = ["render_csv"]

OF_BOARD = ("by", "environment", "environment_params", "environment_origin", "truth", "truth_se")


def render_csv(boards: Iterable[Board]) -> str:
    """All boards under one header; lists and mappings are JSON, a missing figure is empty."""
    lines = [
        {name: getattr(board, name) for name in OF_BOARD} | row.as_json()
        for board in boards
        for row in board.rows
    ]
    stream = io.StringIO()
    if lines:
        writer = csv.DictWriter(stream, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _cell(value) for name, value in line.items()} for line in lines)
    return stream.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, dict | list | tuple):
        return canonical_json(value)
    return repr(value) if isinstance(value, float) else value
