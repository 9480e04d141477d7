"""Tables of estimators along one parameter of the environment, everything else equal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ope_bench.boards.board import Board, Row
from ope_bench.boards.columns.built_in import COLUMNS, as_json
from ope_bench.boards.columns.column import BoardColumn
from ope_bench.canonical import canonical_json
from ope_bench.errors import UsageError, did_you_mean
from ope_bench.report.parameter_columns import (
    ENVIRONMENT,
    environment_params,
    parameter_column,
)
from ope_bench.report.text.board_notes import BOLD, STAR
from ope_bench.report.text.column_table import column_table, row_name
from ope_bench.report.text.formats import MISSING, value_text
from ope_bench.report.text.overview import labels_by_score, marks_of, score_cell
from ope_bench.report.text.table import Cell, Table, TableColumn

__all__ = ["ParameterSweep", "parameter_sweeps", "sweep_csv_table", "sweep_json", "sweep_table"]

LONG_KEYS = (
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


def parameter_sweeps(boards: Sequence[Board], parameter: str) -> list[ParameterSweep]:
    """Group boards by everything but the parameter.

    Raises
    ------
    UsageError : no environment has the parameter, or no two settings differ in it alone.
    """
    known = [(environment_params(board), board) for board in boards]
    names = {name for params, _ in known for name in params}
    if parameter not in names:
        hint = did_you_mean(parameter, names) or f" (there are {', '.join(sorted(names))})"
        msg = f"--sweep: no environment has a parameter '{parameter}'{hint}"
        raise UsageError(msg)
    groups: dict[str, list[tuple[Any, dict[str, Any], Board]]] = {}
    for params, board in known:
        if parameter in params:
            rest = {name: value for name, value in params.items() if name != parameter}
            frame = [board.environment, board.truth, board.worlds, board.environment_version, rest]
            groups.setdefault(canonical_json(frame), []).append((params[parameter], rest, board))
    found = [group for group in groups.values() if len(group) > 1]
    if not found:
        varying = sorted(
            {name for name in names if _varies([params for params, _ in known], name)}
        )
        hint = f"; {', '.join(varying)} vary" if varying else ""
        msg = f"--sweep: no two settings differ in '{parameter}' alone{hint}"
        raise UsageError(msg)
    return [_sweep(parameter, group, found) for group in found]


def _sweep(
    parameter: str,
    group: list[tuple[Any, dict[str, Any], Board]],
    among: Iterable[list[tuple[Any, dict[str, Any], Board]]],
) -> ParameterSweep:
    environment = group[0][2].environment
    frames = [other[0][1] for other in among if other[0][2].environment == environment]
    rest = group[0][1]
    fixed = {name: rest[name] for name in rest if _varies(frames, name)}
    at = sorted(((value, board) for value, _, board in group), key=lambda one: _order(one[0]))
    return ParameterSweep(parameter, fixed, tuple(at))


def _varies(params: Sequence[dict[str, Any]], name: str) -> bool:
    return len({canonical_json(one[name]) for one in params if name in one}) > 1


def _order(value: Any) -> tuple[bool, float, str]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return False, float(value), ""
    return True, 0.0, canonical_json(value)


def sweep_table(
    sweep: ParameterSweep, columns: Sequence[BoardColumn] | None = None, *, tied: str = BOLD
) -> Table:
    """Make the table of a sweep for people: a row an estimator, a column a value.

    Parameters
    ----------
    sweep : the sweep.
    columns : figures in each cell, separated by spaces; by default the score, with the share of
        trials that failed.
    tied : mark of scores that do not differ significantly from the best, `BOLD` or `STAR`.
    """
    boards = sweep.boards
    settings = [{row_name(row): row for row in board.rows} for board in boards]
    labels = labels_by_score(settings)
    what = " ".join(column.title for column in columns) if columns else "RMSE"
    heads = [TableColumn(key="estimator", title="estimator", right=False, overflow="cut")]
    heads += [
        TableColumn(key=f"{sweep.parameter}_{value}", title=_text(value), drop=-index)
        for index, (value, _) in enumerate(sweep.at)
    ]
    rows = tuple(
        (Cell(label, label), *(_cell(rows.get(label), columns) for rows in settings))
        for label in labels
    )
    table = Table(title=_title(sweep, what), columns=tuple(heads), rows=rows)
    notes = [*(() if columns else marks_of(table)), *_tied_note(table, tied)]
    if tied == STAR:
        rows = tuple((row[0], *map(_starred, row[1:])) for row in rows)
    return replace(table, rows=rows, notes=tuple(notes))


def _starred(cell: Cell) -> Cell:
    """Mark a cell by a character, since color may not be visible; others keep their alignment."""
    return replace(cell, text=f"{cell.text}{STAR if cell.style == 'best' else ' '}")


def _cell(row: Row | None, columns: Sequence[BoardColumn] | None) -> Cell:
    if columns is None:
        return score_cell(row, emphasis=True)
    if row is None:
        return Cell(MISSING)
    values = [column.value(row) for column in columns]
    texts = [
        value_text(value, column.format) for value, column in zip(values, columns, strict=True)
    ]
    return Cell(" ".join(texts), values, "best" if row.tied else "")


def _tied_note(table: Table, mark: str) -> list[str]:
    if any(cell.style == "best" for row in table.rows for cell in row):
        what = "does not differ significantly from the best score of its column"
        return [f"{mark} {what} (paired, Holm, 5 %)"]
    return []


def _title(sweep: ParameterSweep, what: str) -> str:
    boards = sweep.boards
    counts = sorted({row.replicates for board in boards for row in board.rows})
    n = "-".join(map(str, dict.fromkeys((counts[0], counts[-1])))) if counts else "0"
    fixed = [f"{name}={_text(value)}" for name, value in sweep.fixed.items()]
    return " | ".join(
        [
            " ".join([boards[0].environment, *fixed]),
            f"{what} by {sweep.parameter}",
            f"{boards[0].truth} truth",
            f"{n} replicate{'' if n == '1' else 's'}",
        ]
    )


def _text(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return value if isinstance(value, str) else canonical_json(value)


def sweep_csv_table(board: Board, parameter: str, columns: Sequence[BoardColumn] | None) -> Table:
    """Make the lines of one value of a sweep: environment, parameter, estimator, figures."""
    key = parameter_column(f"{ENVIRONMENT}{parameter}")
    chosen = [COLUMNS[name] for name in LONG_KEYS] if columns is None else [*columns]
    named = [COLUMNS["environment"], *([key] if key else [])]
    if columns is not None:
        named += [COLUMNS[name] for name in ("estimator", "label")]
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
                "at": [{"value": value, **as_json(board)} for value, board in sweep.at],
            }
            for sweep in sweeps
        ],
    }
