"""Boards as text: one setting, over several settings, estimators by settings, all formats.

Each kind of board has a function that makes its `Table`; `render` writes tables in one format, and
`render_result` shows what a run or a store has as a whole.
"""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ope_bench.base.canonical import canonical_json
from ope_bench.base.errors import UsageError, did_you_mean
from ope_bench.base.printable import printable
from ope_bench.boards import built_in_columns as built_in
from ope_bench.boards.board import Board, Row
from ope_bench.boards.built_in_columns import column_registry, select_columns
from ope_bench.boards.columns import (
    ENVIRONMENT,
    BoardColumn,
    Style,
    all_params,
    parameter_column,
    parameter_columns,
)
from ope_bench.boards.over_settings import OverSettings, Summary, summaries
from ope_bench.report import tables
from ope_bench.report.notes import (
    BOLD,
    STAR,
    board_notes,
    codes_of_labels,
    findings,
    notes_on_base,
    notes_on_codes,
)
from ope_bench.report.tables import Cell, TableColumn, TextTable, column_table, figure, row_name

Shown = Sequence["Board | OverSettings | ParameterSweep"]

Columns = Sequence[BoardColumn] | None
"""Exactly these columns, in this order; a table's usual ones if None."""

# One setting


def board_table(board: Board, columns: Columns = None, *, tied: str = BOLD) -> TextTable:
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
    truth = f"{board.truth} truth"
    if board.truth_rms is not None:
        truth += f" (rms {figure(board.truth_rms)})"
    title = f"{board.label} | by {board.by} | {truth} | {tables.replicates_of(board.rows)}"
    notes = board_notes(board, keys, tied=tied)
    table = column_table(title, chosen, board.rows, board=board, notes=notes)

    def adjust(cell: Cell, column: TableColumn, row: Row) -> Cell:
        if not (board.by == "rmse" and board.decided) and cell.style in ("best", "good"):
            # Ties are of the score: on boards in another order a style for them says nothing.
            cell = Cell(cell.text, cell.value)
        if board.by == "rmse" and column.key == "rank":
            # Color may not be visible.
            return replace(cell, text=f"{cell.text}{rank_sign(board, row, tied)}")
        return cell

    rows = (
        tuple(adjust(*pair, row) for pair in zip(cells, table.columns, strict=True))
        for cells, row in zip(table.rows, board.rows, strict=True)
    )
    return replace(table, rows=tuple(rows))


def rank_sign(board: Board, row: Row, tied: str) -> str:
    """Return the sign at a row's rank: tied with the best, open, or neither.

    Parameters
    ----------
    tied : mark of rows tied with the best, `BOLD` or `STAR`.
    """
    if row.rank and row.tied is None:
        return built_in.OPEN
    if tied == BOLD:
        return ""
    return STAR if row.tied and board.decided else " "


def csv_table(board: Board, columns: Columns, parameters: Sequence[BoardColumn]) -> TextTable:
    """Make the table of a board for programs: by default the setting, then all columns.

    Parameters
    ----------
    board : what to show.
    columns : exactly these.
    parameters : those of all boards, which follow the other columns.
    """
    usual = [
        *(built_in.COLUMNS[key] for key in built_in.CSV_KEYS),
        *built_in.json_columns(board.by),
    ]
    usual += [*column_registry().plugins, *parameters]
    return column_table("", usual if columns is None else columns, board.rows, board=board)


def terminal_table(board: Board, columns: Columns = None) -> TextTable:
    """Make the table of a board for a terminal: intervals drawn, redundant columns omitted.

    Parameters
    ----------
    board : what to show.
    columns : exactly these, in this order.
    """
    table = board_table(board, columns, tied=STAR)
    if columns is not None or not board.rows:
        return table
    table = table.without(
        {
            column.key
            for column in column_registry().shown(board)
            if all(column.value(row) is None for row in board.rows)
            or not (column.informative is None or column.informative(board))
        }
    )
    keys = [column.key for column in table.columns]
    if board.by != "rmse" or "rmse" not in keys:  # no row has an estimate
        return table
    place = 1 + keys.index("rmse_interval" if "rmse_interval" in keys else "rmse")
    heading, bars = bar_column(board.rows)
    return replace(
        table,
        columns=(*table.columns[:place], heading, *table.columns[place:]),
        rows=tuple(
            (*cells[:place], bar, *cells[place:])
            for cells, bar in zip(table.rows, bars, strict=True)
        ),
    )


BAR = 17
ROUNDING = 1e-9

FARTHEST = 10.0
"""How far beyond the smallest and largest figure the scale goes, as a factor; intervals that reach
farther are cut, since one of them would else leave no room for all others."""


def bar_column(rows: Sequence[Row]) -> tuple[TableColumn, list[Cell]]:
    """Draw RMSE and interval of all rows on one logarithmic scale, which is the heading."""
    values = [row.rmse.value for row in rows if row.rmse.value]
    least, most = (min(values), max(values)) if values else (1.0, 1.0)
    ends = [end for row in rows for end in (row.rmse.low, row.rmse.high) if end]
    low = max(least / FARTHEST, min([least, *ends]))
    high = min(most * FARTHEST, max([most, *ends]))
    title = f"{figure(low, 2)}".ljust(BAR - len(figure(high, 2))) + figure(high, 2)
    cells = []
    for row in rows:
        sign = built_in.HEAVY.sign if row.heavy_tailed else ""
        end = math.inf if row.rmse.low is not None and row.rmse.high is None else row.rmse.high
        bar = interval_bar(row.rmse.value, row.rmse.low, end, low, high)
        cells.append(Cell(f"{bar} {sign}".rstrip(), style=built_in.interval_style(row)))
    return TableColumn(key="bar", title=title, right=False), cells


def interval_bar(
    value: float | None,
    start: float | None,
    end: float | None,
    low: float,
    high: float,
    cells: int = BAR,
) -> str:
    """Draw a point and its interval on a logarithmic scale from ``low`` to ``high``.

    An end beyond the scale is an arrow.

    >>> interval_bar(2.0, 1.0, 4.0, 1.0, 16.0, cells=9)
    '╶─●─╴    '
    >>> interval_bar(2.0, 1.0, 40.0, 1.0, 16.0, cells=9)
    '╶─●─────›'
    """
    if value is None or value <= 0:
        return " " * cells
    span = math.log(high) - math.log(low) if high > low else 1.0

    def cell_of(number: float) -> int:
        if math.isinf(number):
            return cells - 1
        # Logarithms first: a quotient of a huge and a tiny number overflows.
        share = (math.log(number) - math.log(low)) / span
        return min(cells - 1, max(0, round(share * (cells - 1))))

    drawn = [" "] * cells
    if start is not None and end is not None and start > 0:
        first, last = cell_of(start), cell_of(end)
        drawn[first : last + 1] = "─" * (last - first + 1)
        drawn[first] = "‹" if start < low * (1 - ROUNDING) else "╶"
        drawn[last] = "›" if end > high * (1 + ROUNDING) else "╴"
    drawn[cell_of(value)] = "●"
    return "".join(drawn)


# Over several settings


def over_settings_table(board: OverSettings, columns: Columns = None) -> TextTable:
    """Make the table of a board over several settings; exactly these columns, if any are given."""
    usual = select_columns(board.layout, board.columns)
    chosen = columns or built_in.without_empty(usual, board.rows)
    notes = [
        f"{column.title}: {column.explanation}"
        for column in chosen
        if column.key in board.explained
    ]
    notes += notes_on_base(board)
    return column_table(board.title, chosen, board.rows, board=board, notes=notes)


def summary_table(summary: Summary) -> TextTable:
    """Make the table of a summary over settings."""
    notes = [
        "x best: score over the setting's best, interquartile mean",
        "within: share of settings in which the score is within that factor of the best",
    ]
    if summary.critical_difference is not None:
        notes.append(
            f"mean ranks ({summary.complete} settings) differ if they are "
            f"{figure(summary.critical_difference)} apart (Nemenyi, 5 %, settings independent)"
        )
    return replace(over_settings_table(summary), notes=(*notes, *notes_on_base(summary)))


def column_list(columns: Iterable[BoardColumn], shown: Mapping[str, Collection[str]]) -> TextTable:
    """Make the table of the columns that some board shows; the others are in JSON and CSV.

    Parameters
    ----------
    columns : those that there are.
    shown : the keys of the columns that each kind of board shows without being asked.
    """
    rows = []
    for column in columns:
        boards = [by for by, keys in shown.items() if column.key in keys or by in column.boards]
        if not boards:
            continue
        everywhere = len(boards) == len(shown) > 1
        rows.append(
            (
                Cell(column.key, column.key),
                Cell(column.title, column.title),
                Cell("all" if everywhere else ", ".join(boards), boards),
                Cell(column.explanation or tables.MISSING, column.explanation),
            )
        )
    return TextTable(
        columns=(
            TableColumn(key="key", title="key", right=False),
            TableColumn(key="title", title="title", right=False, drop=1),
            TableColumn(key="boards", title="boards", right=False),
            TableColumn(key="explanation", title="meaning", right=False, overflow="fold"),
        ),
        rows=tuple(rows),
        notes=("boards: values of --by whose boards show the column without --columns",),
    )


# Estimators by settings: an overview of all settings, and sweeps along one parameter

_HEAVY, _FAILED = "~", "!"


def estimators_by_setting(
    boards: Sequence[Board],
    title: str,
    heads: Iterable[tuple[str, str]],
    cell: Callable[[Row | None], Cell],
) -> TextTable:
    """Make a table of estimators by settings, the smallest typical score first.

    Narrow terminals lose the last settings first.

    Parameters
    ----------
    boards : by RMSE, one a setting.
    title : heading of the estimators.
    heads : key and heading of each setting's column.
    cell : makes the cell of a row; None where the estimator did not run.
    """
    settings = [{row_name(row): row for row in board.rows} for board in boards]

    def typical(label: str) -> tuple[int, float]:
        # Those that lack settings stand apart: the others may be the harder ones.
        lacking = sum(label not in rows for rows in settings)
        # The geometric mean: no setting's unit outweighs another's.
        rows = (rows[label] for rows in settings if label in rows)
        logs = [math.log(max(row.score, 1e-300)) for row in rows if row.score is not None]
        return lacking, sum(logs) / len(logs) if logs else math.inf

    labels = sorted(dict.fromkeys(label for rows in settings for label in rows), key=typical)
    columns = [TableColumn(key="estimator", title=title, right=False, overflow="cut")]
    columns += [TableColumn(key=key, title=head, drop=-k) for k, (key, head) in enumerate(heads)]
    rows = (
        (Cell(label, label), *(cell(rows.get(label)) for rows in settings)) for label in labels
    )
    return TextTable(columns=tuple(columns), rows=tuple(rows))


def score_cell(row: Row | None, *, emphasis: bool = False) -> Cell:
    """Make the cell of a row's score, with marks.

    ``~`` marks a heavy-tailed row, whose RMSE may not be repeated by another seed; ``!`` the share
    of trials that failed, which the score counts at the logging average's error.

    Parameters
    ----------
    row : None where the estimator did not run.
    emphasis : whether scores that do not differ significantly from the best are emphasized.
    """
    if row is None:
        return Cell("")
    rate = row.failure.value or 0.0
    if row.score is None or not row.finite:
        return Cell(f"{_FAILED}{rate:.0%}" if rate else tables.MISSING)
    text = figure(row.score) + (_HEAVY if row.heavy_tailed else "")
    style: Style = "best" if emphasis and row.tied else ""
    return Cell(f"{text} {_FAILED}{rate:.0%}" if rate else text, row.score, style)


def _notes_on_marks(table: TextTable) -> Iterator[str]:
    texts = "".join(cell.text for row in table.rows for cell in row[1:])
    if _HEAVY in texts:
        yield f"{_HEAVY} heavy-tailed: compare median errors in the boards"
    if _FAILED in texts:
        yield f"{_FAILED} share of trials that failed, counted at the logging average's error"


def overview_table(boards: Sequence[Board]) -> TextTable:
    """Make the table of scores of all estimators in all settings; its notes explain its marks."""
    title, heads = "RMSE", [board.label for board in boards]
    if len({board.environment for board in boards}) == 1:
        # As short as the settings can be told apart: by a parameter's value if it alone varies.
        name = boards[0].environment
        heads = [label.removeprefix(name).strip() or "default" for label in heads]
        parameters = {head.partition("=")[0] for head in heads}
        if len(parameters) == 1 and all(head.count("=") == 1 for head in heads):
            title = f"RMSE by {parameters.pop()}"
            heads = [head.partition("=")[2] for head in heads]
    keys = [board.label for board in boards]
    table = estimators_by_setting(boards, title, zip(keys, heads, strict=True), score_cell)
    return replace(table, notes=tuple(_notes_on_marks(table)))


def render_overview(boards: Sequence[Board], *, width: int = 80) -> str:
    """Return the score of every estimator in every setting, as many settings as the width allows.

    Parameters
    ----------
    boards : by RMSE, one a setting.
    width : columns of the terminal.
    """
    table = overview_table(boards)
    fitted = tables.fit(table, width)
    notes = [*_notes_on_marks(fitted)]
    left_out = len(table.columns) - len(fitted.columns)
    if left_out:
        notes.append(f"and {left_out} more setting{'' if left_out == 1 else 's'}")
    return tables.render_text(replace(fitted, notes=tuple(notes)), width=width).rstrip()


_LONG_KEYS = (
    "estimator",
    "label",
    "rank",
    "rmse",
    "rmse_low",
    "rmse_high",
    "score",
    "median_absolute_error",
    "failure_rate",
    "replicates",
    "tied",
    "heavy_tailed",
)
"""Columns of a sweep's CSV after the environment and the parameter."""


@dataclass(frozen=True)
class ParameterSweep:
    """Boards of one environment along one parameter.

    Parameters
    ----------
    parameter : its name.
    fixed : the other parameters in which sweeps of this environment differ, with their values.
    at : (value, board) by value.
    """

    parameter: str
    fixed: dict[str, Any]
    at: tuple[tuple[Any, Board], ...]

    @property
    def boards(self) -> list[Board]:
        """The boards in the order of the values."""
        return [board for _, board in self.at]


def along_parameters(boards: Sequence[Board]) -> dict[tuple[str, str], list[tuple[Any, int]]]:
    """Return (value, index of the board) by parameter and by all that is equal beside it."""
    found: dict[tuple[str, str], list[tuple[Any, int]]] = {}
    for index, board in enumerate(boards):
        spec, params = board.spec, all_params(board.spec)
        for name, value in params.items():
            rest = {key: other for key, other in params.items() if key != name}
            frame = [spec.id, board.truth, spec.worlds, spec.version, rest]
            found.setdefault((name, canonical_json(frame)), []).append((value, index))
    return found


def parameter_sweeps(boards: Sequence[Board], parameter: str) -> list[ParameterSweep]:
    """Group boards by everything but the parameter.

    Raises
    ------
    UsageError : no environment has the parameter, or no two settings differ in it alone.
    """
    known = [all_params(board.spec) for board in boards]
    names = {name for params in known for name in params}
    if parameter not in names:
        hint = did_you_mean(parameter, names) or f" (there are {', '.join(sorted(names))})"
        msg = f"--sweep: no environment has a parameter '{parameter}'{hint}"
        raise UsageError(msg)
    groups = [
        group
        for (name, _), group in along_parameters(boards).items()
        if name == parameter and len(group) > 1
    ]
    if not groups:
        varying = sorted(name for name in names if _varies(known, name))
        hint = f"; {', '.join(varying)} vary" if varying else ""
        msg = f"--sweep: no two settings differ in '{parameter}' alone{hint}"
        raise UsageError(msg)
    sweeps = []
    for group in groups:
        first = group[0][1]
        # Of this environment's sweeps, which may differ in other parameters.
        others = [
            known[other[0][1]]
            for other in groups
            if boards[other[0][1]].environment == boards[first].environment
        ]
        fixed = {
            name: value
            for name, value in known[first].items()
            if name != parameter and _varies(others, name)
        }
        at = sorted(((value, boards[index]) for value, index in group), key=_numbers_first)
        sweeps.append(ParameterSweep(parameter, fixed, tuple(at)))
    return sweeps


def _varies(params: Sequence[Mapping[str, Any]], name: str) -> bool:
    return len({canonical_json(one[name]) for one in params if name in one}) > 1


def _numbers_first(point: tuple[Any, Board]) -> tuple[bool, float, str]:
    """Return a key that sorts values: numbers by size, then all others by their text."""
    value, _ = point
    if isinstance(value, int | float) and not isinstance(value, bool):
        return False, float(value), ""
    return True, 0.0, canonical_json(value)


def sweep_table(sweep: ParameterSweep, columns: Columns = None, *, tied: str = BOLD) -> TextTable:
    """Make the table of a sweep for people: a row an estimator, a column a value.

    Parameters
    ----------
    sweep : the sweep.
    columns : figures in each cell, separated by spaces; by default the score, with the share of
        trials that failed.
    tied : mark of scores that do not differ significantly from the best, `BOLD` or `STAR`.
    """

    def cell(row: Row | None) -> Cell:
        if columns is None:
            found = score_cell(row, emphasis=True)
        elif row is None:
            found = Cell(tables.MISSING)
        else:
            values = [column.value(row) for column in columns]
            shown = zip(values, columns, strict=True)
            text = " ".join(tables.value_text(value, column.format) for value, column in shown)
            found = Cell(text, values, "best" if row.tied else "")
        if tied != STAR:
            return found
        # Color may not be visible; cells without a mark keep their alignment.
        return replace(found, text=found.text + (STAR if found.style == "best" else " "))

    heads = [(f"{sweep.parameter}_{value}", _value_text(value)) for value, _ in sweep.at]
    table = estimators_by_setting(sweep.boards, "estimator", heads, cell)
    notes = [*(() if columns else _notes_on_marks(table))]
    notes += notes_on_codes(codes_of_labels(sweep.boards))
    if any(cell.style == "best" for row in table.rows for cell in row):
        what = "does not differ significantly from the best score of its column"
        notes.append(f"{tied} {what} (paired, Holm, 5 %)")
    board = sweep.boards[0]
    fixed = [f"{name}={_value_text(value)}" for name, value in sweep.fixed.items()]
    what = " ".join(column.title for column in columns) if columns else "RMSE"
    title = (
        " ".join([board.environment, *fixed]),
        f"{what} by {sweep.parameter}",
        f"{board.truth} truth",
        tables.replicates_of(row for board in sweep.boards for row in board.rows),
    )
    return replace(table, title=" | ".join(title), notes=tuple(notes))


def _value_text(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return value if isinstance(value, str) else canonical_json(value)


def sweep_csv_table(board: Board, parameter: str, columns: Columns) -> TextTable:
    """Make the lines of one value of a sweep: environment, parameter, estimator, figures."""
    key = parameter_column(f"{ENVIRONMENT}{parameter}")
    chosen = [built_in.COLUMNS[name] for name in _LONG_KEYS] if columns is None else [*columns]
    named = [built_in.COLUMNS["environment"], *([key] if key else [])]
    if columns is not None:
        named += [built_in.COLUMNS[name] for name in ("estimator", "label")]
    keys = [column.key for column in chosen]
    before = [column for column in named if column.key not in keys]
    return column_table("", [*before, *chosen], board.rows, board=board)


def sweep_json(sweeps: Sequence[ParameterSweep]) -> dict[str, Any]:
    """Return the document of ``leaderboard --sweep PARAM --format json``."""
    return {
        "schema": 1,
        "sweeps": [
            {
                "parameter": sweep.parameter,
                "environment": sweep.boards[0].environment,
                "truth": sweep.boards[0].truth,
                "fixed": sweep.fixed,
                "at": [{"value": value, **built_in.as_json(board)} for value, board in sweep.at],
            }
            for sweep in sweeps
        ],
    }


# All formats

BoardFormat = Literal["text", "markdown", "latex", "csv"]

LATEX_COLUMNS = ("estimator", "rmse", "rmse_interval", "median_absolute_error", "failure_rate")
"""Columns that fit in one column of an article; ``--columns`` names others."""

FEWEST_SETTINGS = 3
"""Number of boards from which on text output has a summary instead of all boards."""


def render(
    shown: Shown,
    form: BoardFormat = "text",
    *,
    width: int = 80,
    color: bool = False,
    columns: Columns = None,
) -> str:
    """Return boards in one of the formats, text and Markdown with a summary over settings.

    Parameters
    ----------
    shown : boards of settings, boards over settings, or sweeps.
    form : ``text`` for a terminal, ``markdown``, ``latex`` or ``csv``.
    width : columns of the terminal.
    color : whether text may hold escape sequences.
    columns : exactly these, in this order, and no summary.
    """
    found = _tables(shown, form, columns)
    return render_tables(found, form, width=width, color=color, whole=columns is not None)


def _tables(shown: Shown, form: BoardFormat, columns: Columns) -> Iterator[TextTable]:
    boards = [one for one in shown if isinstance(one, Board)]
    parameters = parameter_columns(boards) if form == "csv" else []
    for one in shown:
        if isinstance(one, ParameterSweep):
            if form == "csv":
                yield from (sweep_csv_table(board, one.parameter, columns) for board in one.boards)
            else:
                yield sweep_table(one, columns, tied=STAR if form == "text" else BOLD)
        elif isinstance(one, OverSettings):
            if form == "csv":
                yield column_table("", columns or one.columns, one.rows, board=one)
            else:
                yield over_settings_table(one, columns)
        elif form == "csv":
            yield csv_table(one, columns, parameters)
        elif form == "text":
            yield terminal_table(one, columns)
        elif form == "latex" and columns is None and one.by == "rmse":
            few = select_columns(LATEX_COLUMNS)
            yield board_table(one, [key for key in few if any(key.value(row) for row in one.rows)])
        else:
            yield board_table(one, columns)
    if form in ("text", "markdown") and columns is None and len(boards) >= FEWEST_SETTINGS:
        yield from map(summary_table, summaries(boards))


def render_tables(
    found: Iterable[TextTable],
    form: BoardFormat,
    *,
    width: int = 80,
    color: bool = False,
    whole: bool = False,
) -> str:
    """Return the tables in one of the formats, a blank line between them.

    Parameters
    ----------
    found : what to show.
    form, width, color : as for `render`.
    whole : a terminal shows all columns, in lines that are longer than it if need be.
    """
    if form == "csv":
        return tables.render_csv(found)
    if form == "markdown":
        return "\n".join(map(tables.render_markdown, found))
    if form == "latex":
        return "\n".join(map(tables.render_latex, found))
    # Notes that several tables share are moved to the end, each once.
    parts = list(found)
    counts = Counter(note for table in parts for note in dict.fromkeys(table.explained))
    shared = tuple(note for note, count in counts.items() if count > 1)
    parts = [
        replace(table, notes=tuple(note for note in table.notes if note not in shared))
        for table in parts
    ]
    if shared:
        parts.append(TextTable(columns=(), rows=(), notes=shared))
    return "\n".join(
        tables.render_text(one, width=width, color=color, whole=whole) for one in parts
    )


def render_result(
    boards: Sequence[Board],
    *,
    width: int = 80,
    color: bool = False,
    every_board: bool = False,
    conclude: bool = True,
) -> str:
    """Return the estimators by settings, a summary over settings, boards, and what they show.

    The boards of single settings follow where there is one setting only, or on request.

    Parameters
    ----------
    boards : of any measure and kind of truth.
    width : columns of the terminal.
    color : whether the text may hold escape sequences.
    every_board : whether boards are shown where there are several settings.
    conclude : end with the findings in sentences.
    """
    truths = dict.fromkeys(board.truth for board in boards)
    parts = []
    for truth in truths:
        if len(truths) > 1:
            parts.append(f"Errors against the {truth} truth")
        members = [board for board in boards if board.truth == truth]
        by_rmse = [board for board in members if board.by == "rmse"]
        if len(by_rmse) > 1:
            parts.append(render_overview(by_rmse, width=width))
        found: list[TextTable] = []
        if len(by_rmse) >= FEWEST_SETTINGS:
            found += map(summary_table, summaries(by_rmse))
        if len(by_rmse) < 2 or every_board:
            found += map(terminal_table, members)
        if found:
            parts.append(render_tables(found, "text", width=width, color=color).rstrip())
        if conclude and (sentences := render_findings(by_rmse, width=width)):
            parts.append(sentences)
    return "\n\n".join(parts)


def render_findings(boards: Sequence[Board], *, width: int) -> str:
    """Return what boards by RMSE show, a sentence a paragraph; empty if there are none."""
    return "\n".join(textwrap.fill(printable(line), width) for line in findings(boards))
