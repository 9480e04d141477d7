"""``ope-bench leaderboard``: boards of what is stored."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ope_bench.cli.options import DEFAULT_STORE, EnvOption, EstOption, StoreOption
from ope_bench.cli.output import Format, document, note, use_colour, width, write

if TYPE_CHECKING:
    from ope_bench.leaderboard import Board, By, TruthKind
    from ope_bench.records import TrialRecord
    from ope_bench.store import Result, Store

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

    def records(self) -> list[TrialRecord]:
        """The newest outcomes."""
        with self._opened() as opened:
            found = opened.results(suite=self.suite, run=self.run)
            return [result.record for result in self._chosen(found)]

    def boards(self, by: By) -> list[Board]:
        """One set for each truth that suites measure against, made setting by setting."""
        from ope_bench.leaderboard import boards_in_turn

        truths: tuple[TruthKind, ...] = ("empirical", "expected")
        with self._opened() as opened:
            return [
                board
                for truth in truths
                for board in boards_in_turn(self._settings(opened, truth), by=by, truth=truth)
            ]

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Store]:
        from ope_bench.store import Store

        with Store.open(self.store) as opened:
            if told := opened.without_runs_of(self.suite):
                note(told)
            yield opened

    def _settings(self, opened: Store, truth: TruthKind) -> Iterator[list[TrialRecord]]:
        if all(run.truth != truth for run in opened.runs()):
            return
        for results in opened.settings(suite=self.suite, run=self.run):
            kept = [result for result in results if result.run.truth == truth]
            yield [result.record for result in self._chosen(kept)]

    def _chosen(self, results: Iterable[Result]) -> Iterator[Result]:
        from ope_bench.manifest import selects
        from ope_bench.selector import parse_selector

        worlds = [parse_selector(text) for text in self.environments]
        methods = [parse_selector(text) for text in self.estimators]
        for result in results:
            trial = result.record.trial
            if (not worlds or any(selects(one, trial.environment) for one in worlds)) and (
                not methods or any(selects(one, trial.estimator) for one in methods)
            ):
                yield result


def _selection(part: _Part, form: Any) -> int:
    """Boards of choices; always against the expected truth, the value of a policy."""
    with document(Format.JSON if form == "json" else Format.TEXT) as emit:
        from ope_bench.selecting import selection_boards

        newest = {one.key: one for one in part.records()}
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
    part = _Part(store, suite, run, environments, estimators)
    # A board by time or ratio without rows answers nothing.
    return [board for board in part.boards(by) if board.rows]
