"""The data of a report: a store's runs, boards, and the trials of every row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

from ope_bench.boards.board import Board, Row
from ope_bench.boards.leaderboard import stream_boards
from ope_bench.boards.summary import Summary, across
from ope_bench.contracts.data import TruthKind
from ope_bench.garbage import gc_disabled
from ope_bench.plugins.labels import distinct_label
from ope_bench.plugins.spec import PluginSpec
from ope_bench.store import Run, Store
from ope_bench.trials.outcomes import STATUSES, Outcomes
from ope_bench.trials.status import Status

__all__ = ["EstimatorInfo", "ReportData", "Setting", "summaries_of"]

TRUTHS: tuple[TruthKind, ...] = ("empirical", "expected")

OURS = "ope-bench "
"""Prefix of the origins of built-in plugins."""


def _one_thread() -> AbstractContextManager[object]:
    """Use one thread: products of small tables are slower with threads."""
    from threadpoolctl import threadpool_limits

    return cast("AbstractContextManager[object]", threadpool_limits(1))


@dataclass(frozen=True, kw_only=True)
class EstimatorInfo:
    """An estimator with its parameters and device, common to all settings.

    Parameters
    ----------
    label : unique in the report.
    """

    label: str
    estimator: str
    params: Mapping[str, object]
    device: str
    access: tuple[str, ...]
    origin: str

    @property
    def third_party(self) -> bool:
        """Return whether it is a plugin of another distribution."""
        return not self.origin.startswith(OURS)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One board by RMSE, and the trials of its rows.

    Parameters
    ----------
    label : unique in the report.
    methods : of each row, its index in ``methods`` of the report.
    trials : of each row, its trials by seed and replicate, without their diagnostics.
    dirty : of each row, whether a run with uncommitted changes made any of them.
    """

    label: str
    board: Board
    methods: tuple[int, ...]
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


def summaries_of(settings: Iterable[Setting]) -> tuple[tuple[str, Summary], ...]:
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
    settings: tuple[Setting, ...]
    methods: tuple[EstimatorInfo, ...]

    @classmethod
    def read(cls, store: Path, *, suite: str | None = None, run: str | None = None) -> ReportData:
        """Read the data of a store, or of a part of it.

        Raises
        ------
        StoreError : the store cannot be read, or there is no such run.
        """
        with gc_disabled(), _one_thread(), Store.open(store) as opened:
            runs = opened.runs()
            # One setting after another: no more than one is in memory with all it has.
            settings = {
                truth: opened.outcomes(suite=suite, run=run, truth=truth)
                for truth in TRUTHS
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
        methods = _methods([pair for _, rows in found for pair in rows])
        place = {name: index for index, name in enumerate(methods)}
        dirty = {one.id for one in runs if (one.machine.get("git") or {}).get("dirty")}
        settings = tuple(
            Setting(
                label=label,
                board=board,
                methods=tuple(place[_identity(row)] for row, _ in rows),
                trials=tuple(group for _, group in rows),
                dirty=tuple(not dirty.isdisjoint(group.made_by) for _, group in rows),
            )
            for label, (board, rows) in zip(_labels([b for b, _ in found]), found, strict=True)
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
            methods=tuple(methods.values()),
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

    def labels_of(self, summary: Summary) -> list[str]:
        """Return the labels of a summary's rows."""
        known = {
            _spec_identity(one.estimator, one.params, one.device): one.label
            for one in self.methods
        }
        return [known[_spec_identity(r.estimator, r.params, r.device)] for r in summary.rows]


def _spec_identity(estimator: str, params: Mapping[str, object], device: str) -> tuple[str, str]:
    return PluginSpec("estimator", "", estimator, params).identity_json, device


def _identity(row: Row) -> tuple[str, str, int]:
    spec = PluginSpec("estimator", "", row.estimator, row.params)
    return spec.identity_json, row.device, row.threads


def _with_trials(
    settings: Iterable[Outcomes], truth: TruthKind
) -> list[tuple[Board, list[tuple[Row, Outcomes]]]]:
    """Match each board's rows with their trials."""
    behind: dict[tuple[str, str, str, int], Outcomes] = {}

    def remember_rows() -> Iterator[Outcomes]:
        for outcomes in settings:
            newest = outcomes.newest()
            yield newest
            for row in newest.without_diagnostics().by_row():
                specs = row.environment[0].identity_json, row.estimator[0].identity_json
                behind[(*specs, row.device[0], int(row.threads[0]))] = row.by_data()

    found = []
    for board in stream_boards(remember_rows(), truth=truth):
        world = PluginSpec(
            "environment",
            "",
            board.environment,
            board.environment_params,
            worlds="fixed" if board.worlds == "fixed" else "redrawn",
            version=board.environment_version,
        ).identity_json
        found.append((board, [(row, behind[(world, *_identity(row))]) for row in board.rows]))
    return found


def _methods(
    rows: Sequence[tuple[Row, Outcomes]],
) -> dict[tuple[str, str, int], EstimatorInfo]:
    """Return estimators in the order of their first rank, with unique labels."""
    first: dict[tuple[str, str, int], tuple[Row, PluginSpec]] = {}
    for row, group in rows:
        spec = next((one for one in group.estimator if one.label), group.estimator[0])
        known = first.get(_identity(row))
        if known is None or (spec.label and not known[1].label):
            first[_identity(row)] = (row, spec)
    specs = [spec for _, spec in first.values()]
    devices = {row.device for row, _ in first.values()} | {"cpu"}
    labels = []
    for row, spec in first.values():
        label = distinct_label(spec, specs)
        if len(devices) > 1 and row.device != "cpu":
            label += f" ({row.device})"
        if row.threads != 1:
            label += f" ({row.threads} threads)"
        labels.append(label)
    unique = _unique(labels)
    return {
        name: EstimatorInfo(
            label=label,
            estimator=row.estimator,
            params=row.params,
            device=row.device,
            access=row.access,
            origin=row.origin,
        )
        for label, (name, (row, _)) in zip(unique, first.items(), strict=True)
    }


def _labels(found: Sequence[Board]) -> list[str]:
    kinds = {board.truth for board in found}
    return _unique([f"{b.label} ({b.truth} truth)" if len(kinds) > 1 else b.label for b in found])


def _unique(labels: Sequence[str]) -> list[str]:
    seen: dict[str, int] = {}
    unique = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        unique.append(label if seen[label] == 1 else f"{label} #{seen[label]}")
    return unique
