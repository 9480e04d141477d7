"""Boards, summaries over settings, selection and regret boards as tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from ope_bench.boards.board import Board
from ope_bench.boards.columns.built_in import COLUMNS, json_columns
from ope_bench.boards.columns.column import BoardColumn
from ope_bench.boards.columns.emphasis import OPEN
from ope_bench.boards.columns.registry import column_registry, select_columns
from ope_bench.boards.columns.settings import CSV_KEYS
from ope_bench.boards.policy_selection import SELECTION_COLUMNS, SELECTION_LAYOUT, SelectionBoard
from ope_bench.boards.regret import REGRET_COLUMNS, REGRET_LAYOUT, RegretBoard
from ope_bench.boards.summary import Summary, summary_columns
from ope_bench.report.text.board_notes import BOLD, STAR, board_notes
from ope_bench.report.text.column_table import column_table
from ope_bench.report.text.formats import MISSING, figure
from ope_bench.report.text.interval_bar import bar_column
from ope_bench.report.text.table import Cell, Table, TableColumn

__all__ = [
    "column_list",
    "board_table",
    "csv_table",
    "regret_csv_table",
    "regret_table",
    "selection_csv_table",
    "selection_table",
    "summary_table",
    "terminal_table",
]

Columns = Sequence[BoardColumn] | None


def board_table(board: Board, columns: Columns = None, *, tied: str = BOLD) -> Table:
    """Make the table of a board.

    Parameters
    ----------
    board : what to show.
    columns : exactly these, in this order; by default those of the board's layout, without those
        that would be empty in every row.
    tied : mark of rows tied with the best, `BOLD` or `STAR`.
    """
    chosen = column_registry().shown(board) if columns is None else columns
    keys = None if columns is None else [column.key for column in columns]
    table = column_table(
        _title(board), chosen, board.rows, board=board, notes=board_notes(board, keys, tied=tied)
    )
    # Ties are of the score: on boards in another order a style for them would say nothing.
    return table if board.by == "rmse" else _without_ties(table)


def _without_ties(table: Table) -> Table:
    rows = tuple(
        tuple(
            Cell(cell.text, cell.value) if cell.style in ("best", "good") else cell for cell in row
        )
        for row in table.rows
    )
    return replace(table, rows=rows)


def _title(board: Board) -> str:
    """Return setting, question, truth, and how many replicates."""
    counts = sorted({row.replicates for row in board.rows})
    replicates = "-".join(map(str, dict.fromkeys((counts[0], counts[-1])))) if counts else "0"
    truth = f"{board.truth} truth"
    if board.truth_rms is not None:
        truth += f" (rms {figure(board.truth_rms)})"
    plural = "" if replicates == "1" else "s"
    return f"{board.label} | by {board.by} | {truth} | {replicates} replicate{plural}"


def csv_table(
    board: Board, columns: Columns = None, parameters: Sequence[BoardColumn] = ()
) -> Table:
    """Make the table of a board for programs: by default the setting, then all columns.

    Parameters
    ----------
    board : what to show.
    columns : exactly these.
    parameters : those of all boards, which follow the other columns.
    """
    setting = [COLUMNS[key] for key in CSV_KEYS]
    everything = [*setting, *json_columns(board.by), *column_registry().plugins, *parameters]
    return column_table("", everything if columns is None else columns, board.rows, board=board)


def terminal_table(board: Board, columns: Columns = None) -> Table:
    """Make the table of a board for a terminal: intervals drawn, redundant columns omitted.

    Parameters
    ----------
    board : what to show.
    columns : exactly these, in this order.
    """
    table = board_table(board, columns, tied=STAR)
    if board.by == "rmse":
        table = _star_ranks(table, board)
    if columns is not None or not board.rows:
        return table
    table = table.without(_uninformative(board))
    return _insert_bars(table, board) if board.by == "rmse" else table


def _star_ranks(table: Table, board: Board) -> Table:
    """Mark the ranks of tied rows and of open comparisons, since color may not be visible."""
    ranks = [index for index, column in enumerate(table.columns) if column.key == "rank"]
    rows = []
    for cells, row in zip(table.rows, board.rows, strict=True):
        changed = list(cells)
        for index in ranks:
            sign = STAR if row.tied else OPEN if row.tied is None and row.rank else " "
            text = f"{changed[index].text}{sign}"
            changed[index] = replace(changed[index], text=text)
        rows.append(tuple(changed))
    return replace(table, rows=tuple(rows))


def _insert_bars(table: Table, board: Board) -> Table:
    keys = [column.key for column in table.columns]
    if "rmse" not in keys:  # no row has an estimate
        return table
    place = 1 + keys.index("rmse_interval" if "rmse_interval" in keys else "rmse")
    heading, bars = bar_column(board.rows)
    rows = (
        (*cells[:place], bar, *cells[place:]) for cells, bar in zip(table.rows, bars, strict=True)
    )
    columns = (*table.columns[:place], heading, *table.columns[place:])
    return replace(table, columns=columns, rows=tuple(rows))


def _uninformative(board: Board) -> set[str]:
    """Return the keys of columns that are empty or without information on this board."""
    return {
        column.key
        for column in column_registry().shown(board)
        if all(column.value(row) is None for row in board.rows)
        or not (column.informative is None or column.informative(board))
    }


def summary_table(summary: Summary) -> Table:
    """Make the table of a summary over settings."""
    columns = summary_columns(summary)
    notes = [
        "x best: score over the setting's best, interquartile mean",
        "within: share of settings in which the score is within that factor of the best",
    ]
    if summary.critical_difference is not None:
        notes.append(
            f"mean ranks ({summary.complete} settings) differ if they are "
            f"{figure(summary.critical_difference)} apart (Nemenyi, 5 %, settings independent)"
        )
    title = f"over {summary.settings} settings | {summary.truth} truth"
    return column_table(title, columns, summary.rows, notes=notes)


def selection_table(board: SelectionBoard, columns: Columns = None) -> Table:
    """Make the table of a selection board; exactly these columns, if any are given."""
    chosen = columns or select_columns(SELECTION_LAYOUT, SELECTION_COLUMNS)
    title = f"{board.environment} | choosing among {', '.join(board.policies)}"
    notes = [
        f"{column.title}: {column.explanation}"
        for column in chosen
        if column.key in ("regret", "type_one", "type_two")
    ]
    return column_table(title, chosen, board.rows, board=board, notes=notes)


def selection_csv_table(board: SelectionBoard, columns: Columns = None) -> Table:
    """Make the table of a selection board for programs."""
    return column_table("", columns or SELECTION_COLUMNS, board.rows, board=board)


def regret_table(board: RegretBoard, columns: Columns = None) -> Table:
    """Make the table of a regret board; exactly these columns, if any are given."""
    chosen = columns or [
        column
        for column in select_columns(REGRET_LAYOUT, REGRET_COLUMNS)
        if not column.hide_empty or any(column.value(row) is not None for row in board.rows)
    ]
    settings = f"{len(board.settings)} settings"
    notes = [
        f"{column.title}: {column.explanation}"
        for column in chosen
        if column.key in ("regret", "regret_interval", "regret_90", "own_regret")
    ]
    title = f"regret over {settings} | {board.truth} truth"
    return column_table(title, chosen, board.rows, notes=notes)


def regret_csv_table(board: RegretBoard, columns: Columns = None) -> Table:
    """Make the table of a regret board for programs."""
    return column_table("", columns or REGRET_COLUMNS, board.rows)


def column_list(columns: Iterable[BoardColumn], shown: Mapping[str, Collection[str]]) -> Table:
    """Make the table of all columns.

    Parameters
    ----------
    columns : what to list.
    shown : the keys of the columns that each kind of board shows without being asked.
    """
    rows = []
    for column in columns:
        boards = [by for by, keys in shown.items() if column.key in keys or by in column.boards]
        everywhere = len(boards) == len(shown) > 1
        rows.append(
            (
                Cell(column.key, column.key),
                Cell(column.title, column.title),
                Cell("all" if everywhere else ", ".join(boards) or MISSING, boards),
                Cell(column.explanation or MISSING, column.explanation),
            )
        )
    return Table(
        columns=(
            TableColumn(key="key", title="key", right=False),
            TableColumn(key="title", title="title", right=False, drop=1),
            TableColumn(key="boards", title="boards", right=False),
            TableColumn(key="explanation", title="meaning", right=False, overflow="fold"),
        ),
        rows=tuple(rows),
        notes=("boards: values of --by whose boards show the column without --columns",),
    )
