"""Columns of tables and boards, and their makers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from operator import attrgetter
from typing import Any, Literal, get_args

from ope_bench.base.canonical import canonical_json
from ope_bench.base.errors import ParameterError
from ope_bench.boards.board import Board, By, Row
from ope_bench.plugins.registry import Kind
from ope_bench.plugins.spec import PluginSpec, complete_params

NumberFormat = Literal["number", "percent", "seconds", "bytes", "count"]
ColumnFormat = Literal[NumberFormat, "text", "flag", "estimator", "access", "status", "json"]
Style = Literal["", "best", "good", "caution", "bad", "changed", "dim"]
"""Meaning of a cell; each output format has its own style for it."""

_KEY = re.compile(r"[a-z][a-z0-9_]*")
_LAST = 100
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
class TableColumn:
    """One column of a table.

    Parameters
    ----------
    key : its name in CSV and JSON.
    title : its heading.
    right : aligned right, as numbers are.
    code : Markdown and LaTeX show it as program text.
    overflow : what a terminal may do with a long text: ``cut`` it or ``fold`` it into lines.
        Without either it is always shown whole: half a number would be wrong.
    drop : narrow terminals omit columns, small numbers first; None: never omitted.
    """

    key: str
    title: str
    right: bool = True
    code: bool = False
    overflow: Literal["", "cut", "fold"] = ""
    drop: int | None = None


@dataclass(frozen=True, kw_only=True)
class BoardColumn(TableColumn):
    """One column of a leaderboard: a table's column that reads its values from rows.

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
    right, code, overflow : follow from the format.
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
    drop: int | None = _LAST
    hide_empty: bool = True
    mark: Mark | None = None
    style: Callable[[Row], Style] | None = None
    informative: Callable[[Board], bool] | None = None
    of_board: bool = False
    right: bool = field(init=False)
    code: bool = field(init=False, default=False)
    overflow: Literal["", "cut", "fold"] = field(init=False)

    def __post_init__(self) -> None:
        unknown = [name for name in self.boards if name not in get_args(By)]
        problem = ""
        if not _KEY.fullmatch(self.key) or self.key == "help":
            problem = (
                "a key may have small letters, digits and underscores, and must not be 'help'"
            )
        elif not callable(self.value):
            problem = "value must be a function of a row"
        elif self.format not in get_args(ColumnFormat):
            formats = ", ".join(get_args(ColumnFormat))
            problem = f"unknown format {self.format!r}; known: {formats}"
        elif unknown:
            problem = f"unknown board {unknown[0]!r}; known: {', '.join(get_args(By))}"
        if problem:
            msg = f"column {self.key!r}: {problem}"
            raise ParameterError(msg)
        # The class is frozen.
        object.__setattr__(self, "title", self.title or self.key.replace("_", " "))
        object.__setattr__(self, "right", self.numeric)
        object.__setattr__(self, "overflow", "cut" if self.format == "estimator" else "")

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
        return self.format in get_args(NumberFormat)


def number(
    key: str,
    title: str,
    explanation: str,
    value: str | Callable[[Any], Any] = "",
    **facts: Any,
) -> BoardColumn:
    """Make a column that its boards show also where it is empty; of numbers by default.

    Parameters
    ----------
    key, title, explanation, facts : see `BoardColumn`.
    value : attribute of the row, as ``coverage.share.low``, or a function of it; the attribute of
        the key's name by default.
    """
    shown = {"hide_empty": False, "drop": None} | facts
    read = value if callable(value) else attrgetter(value or key)
    return BoardColumn(key=key, title=title, explanation=explanation, value=read, **shown)


percent: Callable[..., BoardColumn] = partial(number, format="percent")
seconds: Callable[..., BoardColumn] = partial(number, format="seconds")
count: Callable[..., BoardColumn] = partial(number, format="count")
text: Callable[..., BoardColumn] = partial(number, format="text")
flag: Callable[..., BoardColumn] = partial(number, format="flag")
json_value: Callable[..., BoardColumn] = partial(number, format="json")


# Columns of parameters: ``env_n_actions`` of the environment, ``est_clip`` of the estimator.

ENVIRONMENT, ESTIMATOR = "env_", "est_"
"""Prefixes of the keys."""


@cache
def _complete_params(kind: Kind, name: str, params: str) -> dict[str, Any]:
    # By text, as mappings are not hashable: thousands of rows share a few specs.
    return complete_params(kind, name, json.loads(params))


def all_params(spec: PluginSpec) -> dict[str, Any]:
    """Return a spec's parameters, with added ones that keys omit."""
    return _complete_params(spec.kind, spec.reference, canonical_json(spec.params))


def parameter_column(key: str) -> BoardColumn | None:
    """Return the column of one parameter by its key, None for other keys."""
    prefix, name = key[: len(ENVIRONMENT)], key[len(ENVIRONMENT) :]
    if prefix not in (ENVIRONMENT, ESTIMATOR) or not name:
        return None
    of_board = prefix == ENVIRONMENT

    def value(subject: Any) -> Any:
        found = all_params(subject.spec).get(name)
        return list(found) if isinstance(found, tuple) else found

    return BoardColumn(
        key=key.lower(),
        title=name.replace("_", " "),
        explanation=f"parameter of the {'environment' if of_board else 'estimator'}",
        value=value,
        format="json",
        drop=None,
        of_board=of_board,
    )


def parameter_columns(boards: Sequence[Board]) -> list[BoardColumn]:
    """Return a column for each parameter of the boards' environments and of their estimators."""
    specs = [(ENVIRONMENT, board.spec) for board in boards]
    specs += [(ESTIMATOR, row.spec) for board in boards for row in board.rows]
    keys = (f"{prefix}{name}" for prefix, spec in specs for name in all_params(spec))
    columns = (parameter_column(key) for key in dict.fromkeys(keys))
    return [column for column in columns if column is not None]
