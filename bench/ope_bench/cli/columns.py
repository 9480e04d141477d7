"""The option ``--columns``: select the columns of boards, or list all columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ope_bench.cli.options import option_error
from ope_bench.console.output import Format, document, width, write
from ope_bench.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from ope_bench.boards.board import Board
    from ope_bench.boards.columns.column import BoardColumn

__all__ = ["HELP", "ColumnsOption", "check_parameters", "parse_columns", "print_columns"]

OPTION = "--columns"
HELP = "help"
"""Value of ``--columns`` that lists the columns."""

ColumnsOption = Annotated[
    str | None,
    typer.Option(
        OPTION,
        metavar="KEY,...",
        help="Show exactly these columns, in this order; 'help' lists them. Parameters are "
        "columns too: env_NAME of the environment, est_NAME of the estimator.",
    ),
]


def _available(by: str) -> list[BoardColumn]:
    """Return the columns that boards by a measure can show."""
    from ope_bench.boards.columns.registry import column_registry
    from ope_bench.boards.policy_selection import SELECTION_COLUMNS
    from ope_bench.boards.regret import REGRET_COLUMNS

    if by == "selection":
        return list(SELECTION_COLUMNS)
    if by == "regret":
        return list(REGRET_COLUMNS)
    return list(column_registry().columns.values())


def parse_columns(text: str | None, by: str, form: str) -> list[BoardColumn] | None:
    """Return the columns that ``--columns`` names, None without the option.

    Raises
    ------
    UsageError : a column is unknown, or the format has fixed columns.
    """
    from ope_bench.boards.columns.registry import select_columns
    from ope_bench.report.parameter_columns import parameter_column

    if text is None:
        return None
    if form == "json":
        reason = "JSON always has all columns; choose --format text, markdown, csv or latex"
        raise option_error(OPTION, reason)
    keys = [key.strip() for key in text.split(",")]
    parameters = [column for key in keys if (column := parameter_column(key))]
    try:
        return select_columns(keys, [*_available(by), *parameters])
    except UsageError as exc:
        raise option_error(OPTION, str(exc)) from exc


def check_parameters(columns: Sequence[BoardColumn] | None, boards: Sequence[Board]) -> None:
    """Refuse the column of a parameter that no environment or estimator of the boards has.

    Raises
    ------
    UsageError : there is such a column.
    """
    from ope_bench.report.parameter_columns import parameter_column, parameter_columns

    asked = [one.key for one in columns or () if parameter_column(one.key)]
    known = [column.key for column in parameter_columns(boards)] if asked and boards else asked
    for key in asked:
        if key not in known:
            hint = did_you_mean(key, known) or f" (there are {', '.join(known)})"
            reason = f"no parameter has the column '{key}'{hint}"
            raise option_error(OPTION, reason)


def print_columns(by: str, form: Any) -> None:
    """Print the columns that boards by a measure can show, with their explanations."""
    from ope_bench.boards.columns.layouts import LAYOUTS
    from ope_bench.boards.policy_selection import SELECTION_LAYOUT
    from ope_bench.boards.regret import REGRET_LAYOUT
    from ope_bench.report.text.boards import column_list
    from ope_bench.report.text.render import render_tables

    shown: dict[str, tuple[str, ...]]
    if by in ("selection", "regret"):
        shown = {by: SELECTION_LAYOUT if by == "selection" else REGRET_LAYOUT}
    else:
        shown = {name: layout.shown for name, layout in LAYOUTS.items()}
    table = column_list(_available(by), shown)
    with document(Format.JSON if form == "json" else Format.TEXT) as emit:
        emit({"schema": 1, **table.as_json()})
    if form != "json":
        write(render_tables([table], form, width=width()).rstrip("\n"))
