"""``ope-bench leaderboard``: boards of what is stored."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
    SELECTION = "selection"


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
    """Print the leaderboards of a store: the newest outcome of every trial in it.

    By selection: how well estimators choose among target policies on the same logs.
    """
    json_wanted = output is BoardFormat.JSON
    form: Any = output.value
    if by is Question.SELECTION:
        return _selection(_Part(store, suite, run, env or (), est or ()), form)
    with document(Format.JSON if json_wanted else Format.TEXT) as emit:
        from ope_bench.leaderboard import document as board_document
        from ope_bench.report import render

        question: Any = by.value
        found = stored_boards(store, question, suite, run, env or (), est or ())
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


@dataclass(frozen=True)
class _Part:
    """What of which store is looked at."""

    store: Path
    suite: str | None = None
    run: str | None = None
    environments: Sequence[str] = ()
    estimators: Sequence[str] = ()

    def records(self) -> dict[TruthKind, list[TrialRecord]]:
        """The newest outcomes, by the truth that their suites measure against."""
        from ope_bench.store import Store

        found: dict[TruthKind, list[TrialRecord]] = {}
        with Store.open(self.store) as opened:
            if told := opened.without_runs_of(self.suite):
                note(told)
            for result in opened.results(suite=self.suite, run=self.run):
                truth: TruthKind = "expected" if result.run.truth == "expected" else "empirical"
                found.setdefault(truth, []).append(result.record)
        return {
            truth: _chosen(records, self.environments, self.estimators)
            for truth, records in found.items()
        }


def _selection(part: _Part, form: Any) -> int:
    """Boards of choices; always against the expected truth, the value of a policy."""
    with document(Format.JSON if form == "json" else Format.TEXT) as emit:
        from ope_bench.selecting import selection_boards

        newest = {one.key: one for kept in part.records().values() for one in kept}
        found = selection_boards(newest.values())
        emit({"schema": 1, "boards": [{"by": "selection"} | one.as_json() for one in found]})
    if form == "json":
        return 0
    from ope_bench.report.selection import render_selection

    if not found:
        note(f"no two settings in {part.store} share their logs and differ in the target policy")
    else:
        write(render_selection(found, form, width=width()).rstrip("\n"))
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

    by_truth = _Part(store, suite, run, environments, estimators).records()
    return [
        board
        for truth, records in by_truth.items()
        for board in boards(records, by=by, truth=truth)
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
