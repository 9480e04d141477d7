"""One column of a board: its key, heading, meaning and value."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from ope_bench.boards.board import Board, By, Row
from ope_bench.errors import ParameterError

__all__ = ["BoardColumn", "ColumnFormat", "Mark", "Style"]

ColumnFormat = Literal[
    "number",
    "percent",
    "seconds",
    "bytes",
    "count",
    "text",
    "flag",
    "estimator",
    "access",
    "status",
    "json",
]
Style = Literal["", "best", "good", "caution", "bad", "changed", "dim"]
"""Meaning of a cell; each output format has its own style for it."""

NUMERIC = ("number", "percent", "seconds", "bytes", "count")
KEY = re.compile(r"[a-z][a-z0-9_]*")
LAST = 100
"""Position in the order of dropping of a column that names none."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A sign on values that need care in reading.

    Parameters
    ----------
    sign : the character.
    flag : key of the column that is true in rows with the mark.
    explanation : meaning of the sign.
    """

    sign: str
    flag: str
    explanation: str


@dataclass(frozen=True, kw_only=True)
class BoardColumn:
    """One column of a leaderboard.

    Parameters
    ----------
    key : name for ``--columns`` and in CSV: small letters, digits and underscores.
    title : heading; the key with spaces by default.
    explanation : its meaning, in one line.
    value : function of a row of a board that returns a number, a text, two numbers as (low, high),
        or None where the row has no such value.
    format : how values are printed: ``number`` (three digits), ``percent`` (of a share),
        ``seconds``, ``bytes``, ``count`` or ``text``; the others are for built-in columns.
    boards : the boards that show it after the built-in columns: ``rmse``, ``positivity``,
        ``coverage``, ``time``, ``ratio``, ``balance``. Empty: it is shown only if ``--columns``
        names it.
    drop : narrow terminals omit columns, small numbers first; None: never omitted.
    hide_empty : omitted from boards in which no row has a value.
    mark : a sign on some of its values.
    style : function of a row that returns the meaning of the cell.
    informative : function of a board; a terminal omits the column where it returns False.
    of_board : ``value`` is a function of the board, with one value for all rows.

    >>> BoardColumn(key="bias_share", value=lambda row: row.errors.bias / row.rmse.value).title
    'bias share'
    """

    key: str
    title: str = ""
    explanation: str = ""
    value: Callable[[Any], Any]
    format: ColumnFormat = "number"
    boards: tuple[By, ...] = ()
    drop: int | None = LAST
    hide_empty: bool = True
    mark: Mark | None = None
    style: Callable[[Row], Style] | None = None
    informative: Callable[[Board], bool] | None = None
    of_board: bool = False

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            msg = f"column {self.key!r}: {problem}"
            raise ParameterError(msg)
        if not self.title:
            object.__setattr__(self, "title", self.key.replace("_", " "))

    def _problem(self) -> str:
        if not KEY.fullmatch(self.key) or self.key == "help":
            return "a key may have small letters, digits and underscores, and must not be 'help'"
        if not callable(self.value):
            return "value must be a function of a row"
        if self.format not in get_args(ColumnFormat):
            return f"unknown format {self.format!r}; known: {', '.join(get_args(ColumnFormat))}"
        unknown = [name for name in self.boards if name not in get_args(By)]
        if unknown:
            return f"unknown board {unknown[0]!r}; known: {', '.join(get_args(By))}"
        return ""

    @classmethod
    def from_diagnostic(
        cls,
        name: str,
        *,
        statistic: Literal["mean", "median", "minimum", "maximum"] = "mean",
        key: str = "",
        **facts: Any,
    ) -> BoardColumn:
        """Make a column of a diagnostic of estimators, aggregated over replicates.

        Parameters
        ----------
        name : name of the diagnostic.
        statistic : over the replicates that have the diagnostic.
        key : the diagnostic's name by default.
        facts : other parameters of the column.

        >>> BoardColumn.from_diagnostic("bandwidth", boards=("rmse",)).explanation
        "mean over replicates of the diagnostic 'bandwidth'"
        """

        def value(row: Row) -> float | None:
            summary = row.diagnostics.get(name)
            number = None if summary is None else float(getattr(summary, statistic))
            return number if number is not None and math.isfinite(number) else None

        facts.setdefault("explanation", f"{statistic} over replicates of the diagnostic '{name}'")
        return cls(key=key or name, value=value, **facts)

    @property
    def numeric(self) -> bool:
        """Return whether values are numbers, which are aligned on the right."""
        return self.format in NUMERIC
