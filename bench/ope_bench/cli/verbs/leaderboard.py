"""``ope-bench leaderboard``: boards of stored outcomes."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ope_bench.cli.columns import (
    HELP,
    ColumnsOption,
    check_parameters,
    parse_columns,
    print_columns,
)
from ope_bench.cli.options import (
    DEFAULT_STORE,
    BoardsOption,
    EnvOption,
    EstOption,
    StoreOption,
    check_suite,
    option_error,
)
from ope_bench.console.output import Format, document, note, use_color, width, write

if TYPE_CHECKING:
    from ope_bench.boards.board import Board, By
    from ope_bench.boards.columns.column import BoardColumn
    from ope_bench.boards.policy_selection import SelectionBoard
    from ope_bench.boards.regret import RegretBoard
    from ope_bench.contracts.data import TruthKind
    from ope_bench.plugins.spec import PluginSpec
    from ope_bench.store import Store
    from ope_bench.suites.selector import Selector
    from ope_bench.trials.outcomes import Outcomes

__all__ = ["command", "stored_boards"]


class Question(enum.StrEnum):
    """The measure that orders the rows."""

    RMSE = "rmse"
    POSITIVITY = "positivity"
    COVERAGE = "coverage"
    TIME = "time"
    RATIO = "ratio"
    BALANCE = "balance"
    SELECTION = "selection"
    REGRET = "regret"


class BoardFormat(enum.StrEnum):
    """Output format of boards."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    CSV = "csv"
    LATEX = "latex"


def command(
    by: Annotated[
        Question, typer.Option(help="The measure that orders the rows.")
    ] = Question.RMSE,
    suite: Annotated[str | None, typer.Option(help="Only outcomes of runs of this suite.")] = None,
    run: Annotated[str | None, typer.Option(help="Only outcomes of this run.")] = None,
    env: EnvOption = None,
    est: EstOption = None,
    store: StoreOption = DEFAULT_STORE,
    columns: ColumnsOption = None,
    sweep: Annotated[
        str | None,
        typer.Option(
            metavar="PARAM", help="Estimators along this parameter of the environment, by score."
        ),
    ] = None,
    boards: BoardsOption = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Show the whole store, not the newest run's suite.")
    ] = False,
    output: Annotated[
        BoardFormat, typer.Option("--format", help="With json, stdout is one JSON document.")
    ] = BoardFormat.TEXT,
) -> int:
    """Print the leaderboards of a store, from the newest outcome of every trial.

    Text shows the suite and seed of the newest run, or with --all the whole store; the other
    formats always have the whole store. With --by selection: selection among target policies on
    the same logs by their estimates. With --by regret: one board over all settings, errors over
    those of the best fixed choice. With --sweep: one table for each set of settings that differ
    in that parameter alone; --columns says what stands in its cells.
    """
    json_wanted = output is BoardFormat.JSON
    form: Any = output.value
    if columns == HELP:
        print_columns(by.value, form)
        return 0
    chosen = parse_columns(columns, by.value, form)
    if sweep is not None and by is not Question.RMSE:
        option, reason = "--sweep", f"it is by rmse, not by {by.value}"
        raise option_error(option, reason)
    if by is Question.SELECTION:
        return _selection(_Part(store, suite, run, env or (), est or ()), form, chosen)
    if by is Question.REGRET:
        return _regret(_Part(store, suite, run, env or (), est or ()), form, chosen)
    with document(Format.JSON if json_wanted else Format.TEXT) as emit:
        from ope_bench.boards.leaderboard import document as board_document
        from ope_bench.report.text.render import render, render_sweeps
        from ope_bench.report.text.sweep_table import parameter_sweeps, sweep_json

        question: Any = by.value
        part = _Part(store, suite, run, env or (), est or ())
        if output is BoardFormat.TEXT and not (everything or suite or run or env or est):
            part = part.newest()
        found = _boards_with_rows(part, question)
        check_parameters(chosen, found)
        swept = parameter_sweeps(found, sweep) if sweep is not None and found else []
        emit(sweep_json(swept) if sweep is not None else board_document(found))
    if json_wanted:
        return 0
    if swept:
        text = render_sweeps(swept, form, width=width(), color=use_color(), columns=chosen)
        write(text.rstrip("\n"))
    elif not found:
        note(f"no {'timed ' if by is Question.TIME else ''}outcomes to show in {store}")
    elif output is BoardFormat.TEXT and by is Question.RMSE and chosen is None:
        from ope_bench.report.text.result import render_result

        write(render_result(found, width=width(), color=use_color(), every_board=boards))
    else:
        text = render(found, form, width=width(), color=use_color(), columns=chosen)
        write(text.rstrip("\n"))
    return 0


@dataclass(frozen=True)
class _Part:
    """The selected part of a store."""

    store: Path
    suite: str | None = None
    run: str | None = None
    environments: Sequence[str] = ()
    estimators: Sequence[str] = ()
    seed: int | None = None

    def newest(self) -> _Part:
        """Select the suite and seed of the newest run that has outcomes; name what is left out."""
        with self._opened() as opened:
            runs = opened.runs()
            for one in reversed(runs):
                first = next(opened.results(run=one.id), None)
                if first is None:
                    continue
                seed = first.record.trial.seed
                if one.suite == "adhoc":
                    others, part = len(runs) - 1, replace(self, run=one.id)
                else:
                    others = sum(other.suite != one.suite for other in runs)
                    part = replace(self, suite=one.suite, seed=seed)
                if others:
                    plural = "" if others == 1 else "s"
                    note(f"shown: the newest run; --all shows {others} other run{plural} too")
                return part
        return self

    def selection(self) -> list[SelectionBoard]:
        """Compute the boards of policy selection."""
        from ope_bench.boards.policy_selection import stream_selection_boards

        with self._opened() as opened:
            return stream_selection_boards(self._settings(opened, None))

    def regret(self) -> list[RegretBoard]:
        """Compute the regret board for each kind of truth."""
        from ope_bench.boards.regret import stream_regret_board

        truths: tuple[TruthKind, ...] = ("empirical", "expected")
        with self._opened() as opened:
            found = [
                stream_regret_board(self._settings(opened, truth), truth=truth) for truth in truths
            ]
        return [board for board in found if board is not None]

    def boards(self, by: By) -> list[Board]:
        """Compute the boards for each kind of truth, setting by setting."""
        from ope_bench.boards.leaderboard import stream_boards

        truths: tuple[TruthKind, ...] = ("empirical", "expected")
        with self._opened() as opened:
            return [
                board
                for truth in truths
                for board in stream_boards(self._settings(opened, truth), by=by, truth=truth)
            ]

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Store]:
        from ope_bench.garbage import gc_disabled
        from ope_bench.store import Store

        with gc_disabled(), Store.open(self.store) as opened:
            check_suite(opened, self.suite)
            yield opened

    def _settings(self, opened: Store, truth: TruthKind | None) -> Iterator[Outcomes]:
        from ope_bench.suites.manifest import selects
        from ope_bench.suites.selector import parse_selector

        worlds = [parse_selector(text) for text in self.environments]
        methods = [parse_selector(text) for text in self.estimators]

        def matches_any(spec: PluginSpec, selectors: Sequence[Selector]) -> bool:
            return not selectors or any(selects(one, spec) for one in selectors)

        for outcomes in opened.outcomes(suite=self.suite, run=self.run, truth=truth):
            kept = outcomes.where("environment", lambda spec: matches_any(spec, worlds))
            kept = kept.where("estimator", lambda spec: matches_any(spec, methods))
            if self.seed is not None:
                kept = kept.take(kept.seed == self.seed)
            if len(kept):
                yield kept


def _selection(part: _Part, form: Any, columns: Sequence[BoardColumn] | None) -> int:
    """Compute selection boards, always against the expected truth, the value of a policy."""
    with document(Format.JSON if form == "json" else Format.TEXT) as emit:
        found = part.selection()
        emit({"schema": 1, "boards": [{"by": "selection"} | one.as_json() for one in found]})
    if form == "json":
        return 0
    from ope_bench.report.text.render import render_over_settings

    if not found:
        note(f"no two settings in {part.store} share their logs and differ in the target policy")
    else:
        text = render_over_settings(found, form, width=width(), color=use_color(), columns=columns)
        write(text.rstrip("\n"))
    return 0


def _regret(part: _Part, form: Any, columns: Sequence[BoardColumn] | None) -> int:
    """Compute regret boards, over all settings of each kind of truth."""
    with document(Format.JSON if form == "json" else Format.TEXT) as emit:
        found = part.regret()
        emit({"schema": 1, "boards": [{"by": "regret"} | one.as_json() for one in found]})
    if form == "json":
        return 0
    from ope_bench.report.text.render import render_over_settings

    if not found:
        note(f"no fixed choice with an estimate in {part.store}")
    else:
        text = render_over_settings(found, form, width=width(), color=use_color(), columns=columns)
        write(text.rstrip("\n"))
    return 0


def stored_boards(
    store: Path,
    by: By = "rmse",
    suite: str | None = None,
    run: str | None = None,
    environments: Sequence[str] = (),
    estimators: Sequence[str] = (),
) -> list[Board]:
    """Compute the boards of a store, or of a part of it, for each kind of truth.

    Parameters
    ----------
    store : path of the store.
    by : the measure that orders the rows.
    suite, run : only outcomes of runs of this suite, or of this run.
    environments, estimators : selectors; only outcomes that one of them matches.
    """
    return _boards_with_rows(_Part(store, suite, run, environments, estimators), by)


def _boards_with_rows(part: _Part, by: By) -> list[Board]:
    """Leave out boards without rows, as by coverage, time, ratio or balance: no answers."""
    return [board for board in part.boards(by) if board.rows]
