"""Boards of a part of a store, and their columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

from ope_bench.base.console import json_stdout, note, width, write
from ope_bench.base.errors import UsageError, did_you_mean
from ope_bench.base.files import gc_disabled
from ope_bench.boards import over_settings, tracks
from ope_bench.boards.board import Board
from ope_bench.boards.built_in_columns import LAYOUTS, column_registry, select_columns
from ope_bench.boards.columns import BoardColumn, parameter_column, parameter_columns
from ope_bench.boards.leaderboard import averaged, stream_boards
from ope_bench.cli import options
from ope_bench.contracts.data import TruthKind
from ope_bench.outcomes import Outcomes
from ope_bench.plugins.registry import registry
from ope_bench.plugins.spec import PluginSpec
from ope_bench.report import boards as board_text
from ope_bench.store import Store
from ope_bench.store.store import outcomes_of
from ope_bench.suites.manifest import selects
from ope_bench.suites.suite import Selector, parse_selector

OVER_SETTINGS: dict[str, type[over_settings.OverSettings]] = {
    "selection": over_settings.SelectionBoard,
    "regret": over_settings.RegretBoard,
    "track": tracks.TrackBoard,
}
"""Measures of one board over several settings; the others have a board for each setting."""

NOTHING = {
    "selection": "no two settings in {} share their logs and differ in the target policy",
    "regret": "no fixed choice with an estimate in {}",
    "track": "no setting with the logging average and a track's reference in {}; --with adds "
    "exports that have them, such as results/field",
    "time": "no timed outcomes to show in {}; `ope-bench run --timing` makes some",
}
"""Why there are no boards by a measure, where that is not just for want of outcomes."""


def _available(by: options.Measure) -> list[BoardColumn]:
    """Return the columns that boards by a measure can show."""
    if by in OVER_SETTINGS:
        return list(OVER_SETTINGS[by].columns)
    return list(column_registry().columns.values())


def print_columns(by: options.Measure, form: Any) -> None:
    """Print the columns that boards by a measure can show, with their explanations."""
    shown: dict[str, Sequence[str]] = {name: one.shown for name, one in LAYOUTS.items()}
    if by in OVER_SETTINGS:
        shown = {by: OVER_SETTINGS[by].layout}
    table = board_text.column_list(_available(by), shown)
    with json_stdout(form) as emit:
        emit({"schema": 1, **table.as_json()})
    if form != "json":
        write(board_text.render_tables([table], form, width=width()).rstrip("\n"))


def parse_columns(text: str | None, by: options.Measure, form: str) -> list[BoardColumn] | None:
    """Return the columns that ``--columns`` names, None without the option.

    Raises
    ------
    UsageError : a column is unknown, or the format has fixed columns.
    """
    if text is None:
        return None
    if form == "json":
        msg = (
            "--columns: JSON always has all columns; choose --format text, markdown, csv or latex"
        )
        raise UsageError(msg)
    keys = [key.strip() for key in text.split(",")]
    parameters = [column for key in keys if (column := parameter_column(key))]
    try:
        return select_columns(keys, [*_available(by), *parameters])
    except UsageError as exc:
        msg = f"--columns: {exc}"
        raise UsageError(msg) from exc


def check_parameters(columns: Sequence[BoardColumn] | None, boards: Sequence[Board]) -> None:
    """Refuse the column of a parameter that no environment or estimator of the boards has.

    Raises
    ------
    UsageError : there is such a column.
    """
    asked = [one.key for one in columns or () if parameter_column(one.key)]
    if not asked or not boards:
        return
    known = [column.key for column in parameter_columns(boards)]
    for key in asked:
        if key not in known:
            hint = did_you_mean(key, known) or f" (there are {', '.join(known)})"
            msg = f"--columns: no parameter has the column '{key}'{hint}"
            raise UsageError(msg)


@dataclass(frozen=True)
class StorePart:
    """A part of a store.

    Parameters
    ----------
    store : path of the store.
    suite, run, plan : only outcomes of runs of this suite, of this run, or of one plan's shards.
    environments, estimators : selectors; only outcomes that one of them matches.
    seed : only outcomes with this seed.
    average : a parameter of environments over whose values boards average.
    beside : exports and stores whose trials count on the tracks, too.
    """

    store: Path
    suite: str | None = None
    run: str | None = None
    environments: Sequence[str] = ()
    estimators: Sequence[str] = ()
    drawn: tuple[str, int] | None = None
    average: str | None = None
    plan: str | None = None
    beside: Sequence[Path] = ()

    def newest(self) -> StorePart:
        """Select the suite and seed of the newest run that has outcomes; name what is left out."""
        with gc_disabled(), Store.open(self.store) as opened:
            runs = opened.runs()
            for one in reversed(runs):
                first = next(opened.results(run=one.id), None)
                if first is None:
                    continue
                trial = first.record.trial
                if one.suite == "adhoc" and one.plan:
                    others = sum(other.plan != one.plan for other in runs)
                    part = replace(self, plan=one.plan)
                elif one.suite == "adhoc":
                    others, part = len(runs) - 1, replace(self, run=one.id)
                else:
                    others = sum(other.suite != one.suite for other in runs)
                    part = replace(self, suite=one.suite, drawn=(trial.salt, trial.seed))
                if others:
                    plural = "" if others == 1 else "s"
                    note(f"shown: the newest run; --all shows {others} other run{plural} too")
                return part
        return self

    def require_known(self) -> None:
        """Raise, with a suggestion, where no plugin has a selected name."""
        for text in self.environments:
            registry().find("environment", parse_selector(text).reference)
        for text in self.estimators:
            registry().find("estimator", parse_selector(text).reference)

    def boards(self, by: options.Measure = "rmse") -> list[Any]:
        """Compute the boards by a measure that have rows, for each kind of truth.

        Boards of selection are computed against the expected truth, the value of a policy.
        """
        found: list[Any] = []
        with gc_disabled(), Store.open(self.store) as opened:
            opened.require_sound()
            check_suite(opened, self.suite)
            if by == "track":
                return self._tracks(opened)
            if by == "selection":
                return list(over_settings.selection_boards(self._settings(opened, None)))
            for truth in get_args(TruthKind):
                settings = self._settings(opened, truth)
                if by == "regret":
                    found.append(over_settings.regret_board(settings, truth=truth))
                else:
                    found += stream_boards(settings, by=by, truth=truth)
        return [board for board in found if board is not None and board.rows]

    def _tracks(self, opened: Store) -> list[tracks.TrackBoard]:
        """Return the boards of the tracks against the expected truth, the value of a policy."""
        parts = [self._settings(opened, None), *map(outcomes_of, self.beside)]
        return tracks.track_boards(tracks.settings_of(parts))

    def _settings(self, opened: Store, truth: TruthKind | None) -> Iterator[Outcomes]:
        """Yield the selected outcomes, one setting at a time."""
        found = self._stored(opened, truth)
        return found if self.average is None else averaged(found, self.average)

    def _stored(self, opened: Store, truth: TruthKind | None) -> Iterator[Outcomes]:
        environments = [parse_selector(text) for text in self.environments]
        estimators = [parse_selector(text) for text in self.estimators]

        def matches_any(selectors: Sequence[Selector], spec: PluginSpec) -> bool:
            return any(selects(one, spec) for one in selectors)

        part = {"suite": self.suite, "run": self.run, "plan": self.plan}
        for kept in opened.outcomes(**part, truth=truth):
            if environments:
                kept = kept.where("environment", partial(matches_any, environments))
            if estimators:
                kept = kept.where("estimator", partial(matches_any, estimators))
            if self.drawn is not None:
                salt, seed = self.drawn
                kept = kept.take((kept.salt == salt) & (kept.seed == seed))
            if len(kept):
                yield kept


def check_suite(store: Store, suite: str | None) -> None:
    """Refuse a suite without stored runs.

    Raises
    ------
    UsageError : the store holds runs, but none of this suite.
    """
    if message := store.missing_suite_message(suite):
        raise UsageError(message + did_you_mean(str(suite), {run.suite for run in store.runs()}))
