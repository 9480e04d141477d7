"""The registry of board columns: built-in ones and those of plugins.

A plugin adds a column by an entry point of the group ``ope_bench.columns`` whose value is a
`BoardColumn`. A broken column of a plugin is omitted, with one line in the log.
"""

from __future__ import annotations

import importlib.metadata
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from typing import Any

from ope_bench.base.errors import USER_EXITS, UsageError, did_you_mean
from ope_bench.boards.board import Board, By
from ope_bench.boards.built_in_columns import COLUMNS, LAYOUTS
from ope_bench.boards.columns import BoardColumn

GROUP = "ope_bench.columns"

_log = logging.getLogger(__name__)


class ColumnRegistry:
    """The known columns of boards.

    Parameters
    ----------
    entry_points : for tests; the installed ones by default.
    """

    def __init__(
        self, entry_points: Iterable[importlib.metadata.EntryPoint] | None = None
    ) -> None:
        if entry_points is None:
            entry_points = importlib.metadata.entry_points(group=GROUP)
        self._points = [point for point in entry_points if point.group == GROUP]

    @cached_property
    def columns(self) -> Mapping[str, BoardColumn]:
        """Return all columns by key."""
        return {**COLUMNS, **{column.key: column for column in self.plugins}}

    @cached_property
    def plugins(self) -> tuple[BoardColumn, ...]:
        """Return the columns of plugins, ordered by key; their functions never raise."""
        columns: dict[str, BoardColumn] = {}
        owners: dict[str, str] = {}
        # A distribution may be on the path twice; its entry points count once.
        for point in {(_origin(one), one.name, one.value): one for one in self._points}.values():
            where = f"column '{point.name}' ({_origin(point)}, {point.value})"
            try:
                column = point.load()
            # A broken plugin may raise any exception at import, SystemExit included.
            except BaseException as exc:
                if isinstance(exc, USER_EXITS):
                    raise
                _log.warning("%s left out: %s", where, _reason(exc))
                continue
            if not isinstance(column, BoardColumn):
                _log.warning("%s left out: it is not an ope_bench.BoardColumn", where)
                continue
            owner = "ope-bench" if column.key in COLUMNS else owners.get(column.key)
            if owner:
                _log.warning("%s left out: key '%s' is taken by %s", where, column.key, owner)
                continue
            owners[column.key] = _origin(point)
            columns[column.key] = replace(column, value=_guard(column, where))
        return tuple(columns[key] for key in sorted(columns))

    def layout(self, by: By) -> list[BoardColumn]:
        """Return the columns of one kind of board, plugins' columns last."""
        own = [COLUMNS[key] for key in LAYOUTS[by].shown]
        return own + [column for column in self.plugins if by in column.boards]

    def shown(self, board: Board) -> list[BoardColumn]:
        """Return the columns of a board, without empty ones that hide."""
        return [
            column
            for column in self.layout(board.by)
            if not column.hide_empty or any(column.value(row) is not None for row in board.rows)
        ]


@cache
def column_registry() -> ColumnRegistry:
    """Return the registry of installed columns, read once per process."""
    return ColumnRegistry()


def select_columns(
    keys: Sequence[str], known: Iterable[BoardColumn] | None = None
) -> list[BoardColumn]:
    """Return the columns with the given keys, in their order.

    Parameters
    ----------
    keys : keys from the user.
    known : available columns; those of boards by default.

    Raises
    ------
    UsageError : no column has one of the keys, or a key is repeated.
    """
    columns = column_registry().columns.values() if known is None else known
    by_key = {column.key: column for column in columns}
    for index, key in enumerate(keys):
        if key in keys[:index]:
            msg = f"column '{key}' is named twice"
            raise UsageError(msg)
        if key not in by_key:
            hint = did_you_mean(key, by_key) or "."
            msg = f"unknown column '{key}'{hint} Columns: {', '.join(by_key)}"
            raise UsageError(msg)
    return [by_key[key] for key in keys]


def _origin(point: importlib.metadata.EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "unknown 0"


def _reason(exc: BaseException) -> str:
    return " ".join(f"{type(exc).__name__}: {exc}".split())


def _guard(column: BoardColumn, where: str) -> Callable[[Any], Any]:
    """Wrap the column's function: on an error it returns None and logs one line."""
    failed: list[str] = []

    def value(row: Any) -> Any:
        try:
            return _plain(column.value(row), column)
        except Exception as exc:
            if not failed:
                failed.append(where)
                _log.warning("%s has no value for some rows: %s", where, _reason(exc))
            return None

    return value


def _plain(value: Any, column: BoardColumn) -> Any:
    """Convert a value for its format; None for a number that is not finite."""
    if isinstance(value, tuple | list) and len(value) == 2:
        low, high = (_plain(part, column) for part in value)
        return None if low is None or high is None else (low, high)
    # NumPy scalars.
    number = value.item() if hasattr(value, "item") else value
    if number is None or (isinstance(number, str | bool) and not column.numeric):
        return number
    if isinstance(number, int | float) and column.numeric:
        return number if math.isfinite(number) else None
    msg = f"its value is {type(value).__name__}, which its format '{column.format}' cannot show"
    raise TypeError(msg)
