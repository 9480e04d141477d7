"""``ope-bench leaderboard``: boards of what is stored."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ope_bench.cli.options import DEFAULT_STORE, EnvOption, EstOption, StoreOption
from ope_bench.cli.output import Format, document, note, use_colour, width, write

if TYPE_CHECKING:
    from ope_bench.leaderboard import Board, By, TruthKind
    from ope_bench.records import TrialRecord

__all__ = ["leaderboard", "stored_boards"]


class Question(enum.StrEnum):
    """What orders the rows."""

    RMSE = "rmse"
    POSITIVITY = "positivity"
    TIME = "time"
    RATIO = "ratio"


class BoardFormat(enum.StrEnum):
    """How boards are printed."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    CSV = "csv"
    LATEX = "latex"


def leaderboard(
    by: Annotated[Question, typer.Option(help="What orders the rows.")] = Question.RMSE,
    suite: Annotated[str | None, typer.Option(help="Only what runs of this suite hold.")] = None,
    run: Annotated[str | None, typer.Option(help="Only what this run holds.")] = None,
    env: EnvOption = None,
    est: EstOption = None,
    store: StoreOption = DEFAULT_STORE,
    output: Annotated[
        BoardFormat, typer.Option("--format", help="With json, stdout is one JSON document.")
    ] = BoardFormat.TEXT,
) -> int:
    """Print the leaderboards of a store: the newest outcome of every trial in it."""
    json_wanted = output is BoardFormat.JSON
    form: Any = output.value
    with document(Format.JSON if json_wanted else Format.TEXT) as emit:
        from ope_bench.leaderboard import document as board_document
        from ope_bench.report import render

        found = stored_boards(store, by.value, suite, run, env or (), est or ())
        emit(board_document(found))
    if json_wanted:
        return 0
    if not found:
        note(f"no {'timed ' if by is Question.TIME else ''}outcomes to show in {store}")
    elif output is BoardFormat.TEXT:
        write(render(found, width=width(), colour=use_colour()).rstrip())
    else:
        write(render(found, form).rstrip("\n"))
    return 0


def stored_boards(
    store: Path,
    by: By = "rmse",
    suite: str | None = None,
    run: str | None = None,
    environments: Sequence[str] = (),
    estimators: Sequence[str] = (),
) -> list[Board]:
    """The boards of a store, or of a part of it, one set for each kind of truth.

    Parameters
    ----------
    store : the path.
    by : the question.
    suite, run : only what runs of this suite, or this run, hold.
    environments, estimators : selectors; only what one of them names.
    """
    from ope_bench.leaderboard import boards
    from ope_bench.store import Store

    with Store.open(store) as opened:
        by_truth: dict[TruthKind, list[TrialRecord]] = {}
        for result in opened.results(suite=suite, run=run):
            truth: TruthKind = "expected" if result.run.truth == "expected" else "empirical"
            by_truth.setdefault(truth, []).append(result.record)
    return [
        board
        for truth, records in by_truth.items()
        for board in boards(_chosen(records, environments, estimators), by=by, truth=truth)
        # A board by time or ratio without rows answers nothing.
        if board.rows
    ]


def _chosen(
    records: Iterable[TrialRecord], environments: Sequence[str], estimators: Sequence[str]
) -> list[TrialRecord]:
    from ope_bench.manifest import selects
    from ope_bench.selector import parse_selector

    worlds = [parse_selector(text) for text in environments]
    methods = [parse_selector(text) for text in estimators]
    return [
        record
        for record in records
        if (not worlds or any(selects(one, record.trial.environment) for one in worlds))
        and (not methods or any(selects(one, record.trial.estimator) for one in methods))
    ]
