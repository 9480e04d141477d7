"""The data of a report: a store's runs, boards, and the trials of every row."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ope_bench.base.files import gc_disabled
from ope_bench.boards.board import Board, ReplicateFacts, Row, errors_of
from ope_bench.boards.built_in_columns import column_registry
from ope_bench.boards.columns import BoardColumn, all_params
from ope_bench.boards.leaderboard import stream_boards
from ope_bench.boards.over_settings import Summary, across
from ope_bench.boards.tracks import SettingAnswers, settings_of_rows
from ope_bench.contracts.data import TruthKind
from ope_bench.contracts.plugins import SIGNAL
from ope_bench.outcomes import STATUSES, Outcomes
from ope_bench.plugins.spec import PluginSpec, distinct_labels
from ope_bench.report.boards import along_parameters
from ope_bench.report.notes import OURS
from ope_bench.statistics.error_distribution import squared_error_cdf
from ope_bench.store import Run, Store
from ope_bench.trials.status import Status

_TRUTHS: tuple[TruthKind, ...] = ("empirical", "expected")


@dataclass(frozen=True, kw_only=True)
class EstimatorInfo:
    """An estimator with its parameters and device, common to all settings.

    Parameters
    ----------
    label : unique in the report.
    """

    label: str
    spec: PluginSpec
    device: str
    access: tuple[str, ...]
    origin: str

    @property
    def estimator(self) -> str:
        """Id of the estimator."""
        return self.spec.id

    @property
    def third_party(self) -> bool:
        """Return whether it is a plugin of another distribution."""
        return not self.origin.startswith(OURS)


@dataclass(frozen=True, kw_only=True)
class SettingTrials:
    """One board by RMSE, and the trials of its rows.

    Parameters
    ----------
    label : unique in the report.
    estimators : of each row, its index in ``estimators`` of the report.
    trials : of each row, its trials by seed and replicate; of their diagnostics the signal.
    dirty : of each row, whether a run with uncommitted changes made any of them.
    """

    label: str
    board: Board
    estimators: tuple[int, ...]
    trials: tuple[Outcomes, ...]
    dirty: tuple[bool, ...]

    @property
    def third_party(self) -> bool:
        """Return whether somebody else's environment made the data."""
        return not self.board.environment_origin.startswith(OURS)

    @property
    def surrogate(self) -> bool:
        """Return whether the data are a surrogate."""
        return "surrogate" in self.board.environment_origin.lower()

    @property
    def size(self) -> int:
        """Return the number of trials."""
        return sum(map(len, self.trials))

    def outcomes(self) -> Outcomes:
        """Return the trials of all rows, one row behind another."""
        return Outcomes.joined(self.trials, self.size)


def summaries_of(settings: Iterable[SettingTrials]) -> tuple[tuple[str, Summary], ...]:
    """Summarize each environment's settings, and all settings, if at least two are complete.

    Settings with different truths are never mixed.

    Parameters
    ----------
    settings : settings of a report.
    """
    groups: dict[str, list[Board]] = {}
    for setting in settings:
        board = setting.board
        groups.setdefault(f"all settings, {board.truth} truth", []).append(board)
        groups.setdefault(f"{board.environment}, {board.truth} truth", []).append(board)
    found: dict[tuple[int, ...], tuple[str, Summary]] = {}
    for name, group in groups.items():
        summary = across(group)
        if summary is not None and summary.complete >= 2:
            # With one environment, its name is used instead of "all".
            found[tuple(map(id, group))] = (name, summary)
    return tuple(found.values())


@dataclass(frozen=True, kw_only=True)
class ReportData:
    """The data of a report.

    Parameters
    ----------
    store : path of the store, as given.
    suite, run : the selected suite and run, if any.
    runs : runs of the shown trials, oldest first.
    """

    store: Path
    suite: str | None
    run: str | None
    runs: tuple[Run, ...]
    settings: tuple[SettingTrials, ...]
    estimators: tuple[EstimatorInfo, ...]

    @classmethod
    def read(cls, store: Path, *, suite: str | None = None, run: str | None = None) -> ReportData:
        """Read the data of a store, or of a part of it.

        Raises
        ------
        StoreError : the store cannot be read, or there is no such run.
        """
        from threadpoolctl import threadpool_limits

        # Products of small tables are slower with threads.
        with gc_disabled(), threadpool_limits(1), Store.open(store) as opened:
            runs = opened.runs()
            # One setting after another: no more than one is in memory with all it has.
            settings = {
                truth: opened.outcomes(suite=suite, run=run, truth=truth)
                for truth in _TRUTHS
                if any(one.truth == truth for one in runs)
            }
            return cls.of(store, settings, runs, suite=suite, run=run)

    @classmethod
    def of(
        cls,
        store: Path,
        outcomes: Mapping[TruthKind, Iterable[Outcomes]],
        runs: Sequence[Run],
        *,
        suite: str | None = None,
        run: str | None = None,
    ) -> ReportData:
        """Collect the data of each setting's outcomes, by kind of truth."""
        found = [
            (board, rows)
            for truth, settings in outcomes.items()
            for board, rows in _with_trials(settings, truth)
        ]
        estimators = _estimators(row for _, rows in found for row, _ in rows)
        place = {name: index for index, name in enumerate(estimators)}
        truths = {board.truth for board, _ in found}
        labels = _unique(
            [f"{b.label} ({b.truth} truth)" if len(truths) > 1 else b.label for b, _ in found]
        )
        dirty = {one.id for one in runs if (one.machine.get("git") or {}).get("dirty")}
        settings = tuple(
            SettingTrials(
                label=label,
                board=board,
                estimators=tuple(place[row.key] for row, _ in rows),
                trials=tuple(group for _, group in rows),
                dirty=tuple(not dirty.isdisjoint(group.made_by) for _, group in rows),
            )
            for label, (board, rows) in zip(labels, found, strict=True)
        )
        if suite is not None or run is not None:
            shown = [group for _, rows in found for _, group in rows]
            shown_runs = {name for one in shown for name in (*one.made_by, *one.selected_by)}
            runs = [
                one
                for one in runs
                if one.id in shown_runs or one.suite == suite or (run and one.id.startswith(run))
            ]
        return cls(
            store=store,
            suite=suite,
            run=run,
            runs=tuple(runs),
            settings=settings,
            estimators=tuple(estimators.values()),
        )

    @cached_property
    def ends(self) -> Mapping[str, Status]:
        """Return the outcome of each trial by key; a trial under two truths counts once."""
        return {
            key: STATUSES[status]
            for setting in self.settings
            for group in setting.trials
            for key, status in zip(group.key.tolist(), group.status.tolist(), strict=True)
        }

    @cached_property
    def across(self) -> tuple[tuple[str, Summary], ...]:
        """Return the summaries over all settings, by name."""
        return summaries_of(self.settings)

    @cached_property
    def tracks(self) -> list[SettingAnswers]:
        """Return the settings on which tracks are judged, whatever the truth of their boards."""
        rows: dict[str, list[Outcomes]] = {}
        for setting in self.settings:
            rows.setdefault(setting.board.spec.identity_json, []).extend(setting.trials)
        return settings_of_rows(rows.values())

    @cached_property
    def looks(self) -> tuple[dict[str, str], dict[str, Any]]:
        """Return short labels by label, and the styles of all estimators by short label."""
        from ope_bench.report.styles import short_labels, styles_of

        short = short_labels([one.label for one in self.estimators])
        return short, styles_of({short[one.label]: one.estimator for one in self.estimators})

    def rows_of(self, setting: SettingTrials) -> Iterator[tuple[str, Row, Outcomes]]:
        """Yield label, row and trials of each row of a setting."""
        labels = (self.estimators[place].label for place in setting.estimators)
        return zip(labels, setting.board.rows, setting.trials, strict=True)

    def labels_of(self, summary: Summary) -> list[str]:
        """Return the labels of a summary's rows."""
        known = {(one.spec.identity_json, one.device): one.label for one in self.estimators}
        return [known[row.key] for row in summary.rows]


def _with_trials(
    settings: Iterable[Outcomes], truth: TruthKind
) -> list[tuple[Board, list[tuple[Row, Outcomes]]]]:
    """Match each board's rows with their trials."""
    trials: dict[tuple[str, str, str, int], Outcomes] = {}

    def remember_rows() -> Iterator[Outcomes]:
        for outcomes in settings:
            yield outcomes
            for row in outcomes.newest().with_diagnostics({SIGNAL}).by_row():
                specs = row.environment[0].identity_json, row.estimator[0].identity_json
                trials[*specs, row.device[0], int(row.threads[0])] = row.by_data()

    return [
        (board, [(row, trials[board.spec.identity_json, *row.key]) for row in board.rows])
        for board in stream_boards(remember_rows(), truth=truth)
    ]


def _estimators(rows: Iterable[Row]) -> dict[tuple[str, str, int], EstimatorInfo]:
    """Return estimators in the order of their first rank, with unique labels."""
    first: dict[tuple[str, str, int], Row] = {}
    for row in rows:
        # Not every run of an estimator needs to give it a label.
        if row.key not in first or (row.spec.label and not first[row.key].spec.label):
            first[row.key] = row
    labels = []
    specs = [row.spec for row in first.values()]
    for row, label in zip(first.values(), distinct_labels(specs), strict=True):
        if row.device != "cpu":
            label += f" ({row.device})"
        if row.threads != 1:
            label += f" ({row.threads} threads)"
        labels.append(label)
    return {
        name: EstimatorInfo(
            label=label, spec=row.spec, device=row.device, access=row.access, origin=row.origin
        )
        for label, (name, row) in zip(_unique(labels), first.items(), strict=True)
    }


def _unique(labels: Sequence[str]) -> list[str]:
    seen: dict[str, int] = {}
    unique = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        unique.append(label if seen[label] == 1 else f"{label} #{seen[label]}")
    return unique


# Columns whose values charts and the page show.

OF_ESTIMATORS = ("estimator", "label", "params", "access", "device", "origin")
"""Columns that a report stores once per estimator."""


def figure_columns() -> list[BoardColumn]:
    """Return the columns whose values a report stores for each row of a board."""
    return [
        column
        for column in column_registry().columns.values()
        if not (
            column.of_board or column.key in OF_ESTIMATORS or column.format in ("status", "json")
        )
    ]


# Sweeps: settings that differ in one numeric parameter only.


@dataclass(frozen=True)
class Sweep:
    """Settings along one parameter, everything else equal.

    Parameters
    ----------
    title : environment, parameter, and fixed parameters that distinguish the sweep.
    parameter : name of the parameter.
    at : (value, index of the setting), by value.
    """

    title: str
    parameter: str
    at: tuple[tuple[float, int], ...]

    @property
    def axis(self) -> str:
        """Title of the parameter's axis."""
        return re.sub("^n ", "number of ", self.parameter.replace("_", " "))


def sweeps(settings: Sequence[SettingTrials]) -> list[Sweep]:
    """Return all sweeps of at least two values, the longest first."""
    boards = [setting.board for setting in settings]
    known = [(board, all_params(board.spec)) for board in boards]
    found = []
    for (name, _), group in along_parameters(boards).items():
        points = [
            (float(value), index)
            for value, index in group
            if isinstance(value, int | float) and not isinstance(value, bool)
        ]
        if len({value for value, _ in points}) < 2:
            continue
        board, params = known[points[0][1]]
        namesakes = [one for one in known if one[0].environment == board.environment]
        fixed = [
            f"{key}={value}"
            for key, value in params.items()
            if key != name and any(other.get(key) != value for _, other in namesakes)
        ]
        if any(other.truth != board.truth for other, _ in namesakes):
            fixed.append(f"{board.truth} truth")
        title = f"{board.environment} by {name}" + (f" ({', '.join(fixed)})" if fixed else "")
        found.append(Sweep(title, name, tuple(sorted(points))))
    return sorted(found, key=lambda one: -len(one.at))


# The data of charts, as lines by column name, without Altair: pages hold finished charts.

Lines = list[dict[str, Any]]

MOST_RANKED = 25
"""Most estimators in a critical-difference diagram."""


def board_lines(content: ReportData, setting: SettingTrials) -> Lines:
    """Return a line for each row of one board.

    A row with failures stands at its score: the RMSE of the trials that are left looks better.
    """
    figures = figure_columns()
    lines: Lines = []
    for label, row, _ in content.rows_of(setting):
        line = {
            "method": label,
            "setting": setting.label,
            "environment": setting.board.environment,
            "device": row.device,
            **{column.key: column.value(row) for column in figures},
        }
        if line["imputed"] and line["rmse"] and line["score"]:
            line["rmse"], line["log10_rmse"] = line["score"], math.log10(line["score"])
            line["rmse_low"] = line["rmse_high"] = None
        lines.append(line)
    return lines


def sweep_lines(content: ReportData, sweep: Sweep) -> Lines:
    """Return a line for each row, with the swept parameter as ``value``."""
    return [
        line | {"value": value}
        for value, index in sweep.at
        for line in board_lines(content, content.settings[index])
    ]


def error_lines(content: ReportData, setting: SettingTrials) -> Lines:
    """Return a line for each finite error: ``error``, ``replicate``."""
    facts = ReplicateFacts.of(setting.outcomes(), setting.board.truth)
    return [
        {"method": label, "replicate": replicate, "error": error}
        for label, _, group in content.rows_of(setting)
        for replicate, error in zip(
            group.replicate.tolist(), errors_of(group, facts).tolist(), strict=True
        )
        if not math.isnan(error)
    ]


def cdf_lines(content: ReportData, setting: SettingTrials) -> Lines:
    """Return the distribution function of squared error: ``squared_error``, ``share``.

    Failed trials are in the denominator, so a curve with failures ends below 1.
    """
    facts = ReplicateFacts.of(setting.outcomes(), setting.board.truth)
    lines: Lines = []
    for label, row, group in content.rows_of(setting):
        errors = errors_of(group, facts)
        finite = errors[~np.isnan(errors)]
        tried = row.replicates - sum(n for word, n in row.status.items() if not Status(word).tried)
        if not len(finite):
            continue
        squared = np.concatenate([finite**2, np.full(tried - len(finite), np.inf)])
        at = np.unique(finite**2)
        lines += [
            {"method": label, "squared_error": float(x), "share": float(y)}
            for x, y in zip(at, squared_error_cdf(squared, at), strict=True)
        ]
    return lines


def rank_lines(labels: Sequence[str], summary: Summary) -> Mapping[str, Lines]:
    """Lay out a critical-difference diagram; empty where it could not be read.

    That is without mean ranks, with too many of them, and where none differ significantly.

    Estimators are left and right of an axis of mean ranks, the best half on the left; ``bars``
    join those whose ranks differ by less than the critical difference; ``axis`` has the ticks.

    Parameters
    ----------
    labels : labels of the summary's rows.
    """
    ranked = sorted(
        (row.mean_rank, label)
        for row, label in zip(summary.rows, labels, strict=True)
        if row.mean_rank is not None
    )
    critical = summary.critical_difference
    few = 1 < len(ranked) <= MOST_RANKED
    if critical is None or not few or ranked[-1][0] - ranked[0][0] <= critical:
        return {"methods": [], "elbows": [], "bars": [], "axis": []}
    half = (len(ranked) + 1) // 2
    lowest, highest = ranked[0][0], ranked[-1][0]
    margin = 0.06 * max(highest - lowest, 1.0)
    # The maximal runs of ranks within the critical difference.
    cliques: list[tuple[int, int]] = []
    for start, (low, _) in enumerate(ranked):
        stop = max(k for k, (rank, _) in enumerate(ranked) if rank - low <= critical)
        if stop > start and (not cliques or stop > cliques[-1][1]):
            cliques.append((start, stop))
    first = len(cliques) + 1
    methods: Lines = []
    elbows: Lines = []
    for place, (rank, label) in enumerate(ranked):
        left = place < half
        level = first + (place if left else len(ranked) - 1 - place)
        edge = lowest - margin if left else highest + margin
        methods.append(
            {"method": label, "mean_rank": rank, "x": edge, "level": level, "left": left}
        )
        elbows += [
            {"method": label, "step": step, "x": x, "level": y}
            for step, (x, y) in enumerate([(rank, 0), (rank, level), (edge, level)])
        ]
    bars = [
        {"low": ranked[a][0], "high": ranked[b][0], "level": index + 1}
        for index, (a, b) in enumerate(cliques)
    ]
    least, most = math.floor(lowest), math.ceil(highest)
    apart = 1 + (most - least) // 12
    ticks = range(least, most + apart, apart)
    axis = [{"x": x, "level": 0, "first": x == least} for x in ticks]
    return {"methods": methods, "elbows": elbows, "bars": bars, "axis": axis}
