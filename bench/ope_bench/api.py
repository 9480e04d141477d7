"""Run a benchmark in one call, and show its results: for notebooks and scripts."""

from __future__ import annotations

import contextlib
import html
import sys
import time
import warnings
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, SupportsIndex, overload

from ope_bench.base.canonical import canonical_json
from ope_bench.base.errors import UsageError, did_you_mean, short_errors
from ope_bench.base.files import atomic_write
from ope_bench.base.units import format_duration
from ope_bench.boards.board import Board, By
from ope_bench.boards.built_in_columns import select_columns
from ope_bench.boards.columns import BoardColumn
from ope_bench.boards.leaderboard import boards
from ope_bench.boards.over_settings import summaries
from ope_bench.boards.tracks import TrackBoard, settings_of, track_boards, tracks_document
from ope_bench.contracts.data import TruthKind
from ope_bench.contracts.plugins import Environment, Estimator
from ope_bench.outcomes import Outcomes
from ope_bench.plugins.registry import registry
from ope_bench.plugins.requirements import data_frame
from ope_bench.plugins.spec import PluginSpec, complete_params, distinct_labels, spec_of
from ope_bench.report import needs_extra
from ope_bench.report.boards import (
    FEWEST_SETTINGS,
    board_table,
    over_settings_table,
    overview_table,
    render,
    render_result,
    summary_table,
)
from ope_bench.report.notes import findings
from ope_bench.report.tables import Cell, TableColumn, TextTable, cells, render_html, render_text
from ope_bench.suites.manifest import specs_of
from ope_bench.trials.isolation import random_states_restored, thread_limit
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status
from ope_bench.trials.trial import Workspace, build, environment_failed, run_trial

if TYPE_CHECKING:
    from ope_bench.report.content import ReportData

_WIDTH = 100
"""Columns of a result that is printed."""

_PLOT_SCALE = 1.8
"""Size of a chart on a screen over its size in print."""

EstimatorLike = Estimator | str
EnvironmentLike = Environment | str


@short_errors
def evaluate(
    estimators: EstimatorLike | Iterable[EstimatorLike],
    environments: EnvironmentLike | Iterable[EnvironmentLike],
    *,
    replicates: int = 20,
    seed: int = 0,
    n_jobs: int = 1,
    progress: bool | None = None,
) -> Results:
    """Run every estimator on every environment and return the rows.

    The numbers are those of ``ope-bench run`` with the same names, parameters and seed, whatever
    ``n_jobs``. Nothing is stored, and a plugin that hangs or crashes takes its process with it.

    Parameters
    ----------
    estimators : objects, ids or selectors such as ``epws[classifier=gbm]``.
    environments : objects, ids or selectors; ``saito-toy[n_actions=[10,100]]`` names two.
    replicates : number of data sets of each environment.
    seed : from which all random streams derive.
    n_jobs : processes that share the data sets; 1 for this process alone, -1 for one a core.
    progress : show how many trials are done; by default in terminals and notebooks, for what
        takes longer than a second.

    Raises
    ------
    UsageError : an id, a parameter or ``n_jobs`` is wrong, or an environment cannot be sampled.
    """
    if isinstance(environments, str | Environment):
        environments = [environments]
    if isinstance(estimators, str | Estimator):
        estimators = [estimators]
    if n_jobs == 0:
        msg = "n_jobs = 0: expected the number of processes, or -1 for one a core"
        raise UsageError(msg)
    methods: list[tuple[PluginSpec, Estimator]] = []
    for estimator in estimators:
        if isinstance(estimator, Estimator):
            methods.append((spec_of(estimator), estimator))
        else:
            methods += [
                (spec, build(spec)) for spec in specs_of("estimator", estimator, typed=True)
            ]
    data_sets = []
    for item in environments:
        if isinstance(item, Environment):
            sampled = [(spec_of(item), item)]
        else:
            sampled = [(spec, build(spec)) for spec in specs_of("environment", item, typed=True)]
        data_sets += [
            _DataSet(spec, environment, replicate, seed, methods)
            for spec, environment in sampled
            for replicate in range(replicates)
        ]
    found = Results()
    run = _run_here(data_sets) if n_jobs == 1 else _run_in_processes(data_sets, n_jobs)
    total = len(data_sets) * len(methods)
    with contextlib.closing(run), Progress(total, progress) as shown:
        for record in run:
            if environment_failed(record):
                raise UsageError(record.reason)
            found.append(record)
            shown.add(record.status)
    return found


@dataclass(frozen=True)
class _DataSet:
    """One replicate of a setting, with everything that runs on it."""

    spec: PluginSpec
    environment: Environment
    replicate: int
    seed: int
    estimators: Sequence[tuple[PluginSpec, Estimator]]


def _run_here(data_sets: Iterable[_DataSet]) -> Generator[TrialRecord, None, None]:
    with thread_limit(1), random_states_restored():
        workspace = Workspace()
        for data_set in data_sets:
            for spec, estimator in data_set.estimators:
                yield run_trial(
                    Trial(data_set.spec, spec, data_set.replicate, seed=data_set.seed),
                    workspace,
                    environment=data_set.environment,
                    estimator=estimator,
                    # Once for all, above.
                    restore=False,
                )


def _run_one(data_set: _DataSet) -> list[TrialRecord]:
    return list(_run_here([data_set]))


def _run_in_processes(
    data_sets: Iterable[_DataSet], n_jobs: int
) -> Generator[TrialRecord, None, None]:
    """Run data sets in other processes, to which joblib sends classes of notebooks, too."""
    from joblib import Parallel, delayed

    run = Parallel(n_jobs=n_jobs, return_as="generator", batch_size=1)
    outputs = run(delayed(_run_one)(data_set) for data_set in data_sets)
    try:
        for records in outputs:
            yield from records
    finally:
        with warnings.catch_warnings():
            # Of an interrupted evaluation: that other data sets were begun in vain.
            warnings.simplefilter("ignore")
            outputs.close()


class Progress:
    """The number of finished trials: in a notebook a bar, elsewhere a line over itself.

    Parameters
    ----------
    total : number of trials.
    shown : None for terminals and notebooks only, and after a second.
    """

    def __init__(self, total: int, shown: bool | None = None) -> None:
        watched = sys.stderr.isatty() or "ipykernel" in sys.modules
        self.total = total
        self.shown = watched if shown is None else shown
        self._begun = time.monotonic()
        self._next = self._begun + (1.0 if shown is None else 0.0)
        self._status: Counter[Status] = Counter()
        self._width = 0
        self._bar: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._width:
            self._write()
        if self._width and self._bar is None:
            sys.stderr.write("\n")

    def add(self, status: Status) -> None:
        """Count one more finished trial."""
        self._status[status] += 1
        if self.shown and time.monotonic() >= self._next:
            self._write()
            self._next = time.monotonic() + 0.2

    def _write(self) -> None:
        counts = "  ".join(f"{word.value} {n}" for word, n in self._status.items())
        spent = format_duration(time.monotonic() - self._begun)
        done = self._status.total()
        line = f"{done}/{self.total} trials  {counts}  {spent}"
        if "ipykernel" in sys.modules:
            # What goes to stderr is red there.
            shown = import_module("IPython.display")
            bar = shown.HTML(f'<progress value="{done}" max="{self.total}"></progress> {line}')
            if self._bar is None:
                self._bar = shown.display(bar, display_id=True)
            else:
                self._bar.update(bar)
            self._width = 1
            return
        sys.stderr.write(f"\r{line:<{self._width}}")
        sys.stderr.flush()
        self._width = len(line)


# Results


class _Records(list[TrialRecord]):
    """A list of records; slices and sums have its class, too."""

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> TrialRecord: ...
    @overload
    def __getitem__(self, index: slice | str, /) -> Self: ...
    def __getitem__(self, index: Any, /) -> Any:
        """Return a record, a slice, or the records of an estimator by its id or label."""
        if isinstance(index, str):
            specs = [record.trial.estimator for record in self]
            for name in (index, registry().meant("estimator", index)):
                some = [
                    x for x, spec in zip(self, specs, strict=True) if name in (spec.id, spec.label)
                ]
                if some:
                    break
            else:
                names = dict.fromkeys(spec.label or spec.id for spec in specs)
                msg = f"no estimator '{index}'{did_you_mean(index, names)}; there are: "
                raise KeyError(msg + ", ".join(names))
            return type(self)(some)
        found = super().__getitem__(index)
        return type(self)(found) if isinstance(index, slice) else found

    def __add__(self, other: Iterable[TrialRecord]) -> Self:  # type: ignore[override]
        return type(self)([*self, *other])


class FailureTable(_Records):
    """Records without an estimate; shown, they are a table of reasons."""

    def table(self) -> TextTable:
        """Make the table of reasons, the most frequent first.

        Records of one estimator, status and type of error share a row with the reason of the
        first.
        """
        found: Counter[tuple[str, Status, str | None]] = Counter()
        reasons: dict[tuple[str, Status, str | None], str] = {}
        for record in self:
            spec = record.trial.estimator
            kind = spec.label or spec.id, record.status, record.error_type
            found[kind] += 1
            reasons.setdefault(kind, record.reason)
        return TextTable(
            columns=(
                TableColumn(key="estimator", title="estimator", right=False, overflow="cut"),
                TableColumn(key="status", title="status", right=False),
                TableColumn(key="count", title="trials"),
                TableColumn(key="reason", title="reason", right=False, overflow="fold"),
            ),
            rows=tuple(
                cells(
                    name,
                    Cell(status.value, style="bad" if status.broken else "caution"),
                    f"{count:,}",
                    reasons[name, status, error],
                )
                for (name, status, error), count in found.most_common()
            ),
        )

    def __repr__(self) -> str:
        return render_text(self.table(), width=_WIDTH).rstrip() if self else "no failures"

    def _repr_html_(self) -> str:
        return render_html(self.table()) if self else "no failures"


class Results(_Records):
    """The rows of an evaluation; shown, they are their boards, failures and findings."""

    def boards(self, by: By = "rmse", truth: TruthKind = "expected") -> list[Board]:
        """Return the leaderboards of these rows."""
        return boards(self, by=by, truth=truth)

    def tracks(self, *beside: str | Path, columns: Sequence[str] | None = None) -> TrackTables:
        """Return the leaderboard by track of these rows, as ``ope-bench leaderboard --by track``.

        Parameters
        ----------
        beside : stores and exports whose trials count, too.
        columns : keys of the columns to show, in this order.

        Raises
        ------
        UsageError : a column is unknown, or a file cannot be read.
        """
        from ope_bench.store.store import outcomes_of

        parts = [Outcomes.by_setting(self), *map(outcomes_of, map(Path, beside))]
        chosen = select_columns(columns, TrackBoard.columns) if columns else None
        return TrackTables(track_boards(settings_of(parts)), chosen)

    @property
    def failures(self) -> FailureTable:
        """The rows without an estimate, with reasons and what to do."""
        return FailureTable(one for one in self if one.status is not Status.OK)

    def to_pandas(self) -> Any:
        """Return one line for each row as a pandas DataFrame.

        ``error`` is the estimate minus the expected true value. Parameters that differ between
        rows are columns: ``env_n_actions`` of the environment, ``est_clip`` of the estimator;
        ``environment_params`` and ``params`` have all.

        Raises
        ------
        UnavailableError : pandas is not installed.
        """
        return data_frame(record_lines(self))

    def plot(
        self,
        chart: str | None = None,
        *,
        estimators: str | Iterable[str] | None = None,
        truth: TruthKind = "expected",
    ) -> Any:
        """Return an Altair chart, which a notebook shows without the network.

        Parameters
        ----------
        chart : a kind of ``ope-bench report --charts``; by default RMSE against the parameter that
            varies, or the rows of one setting.
        estimators : ids or labels to show; all by default.

        Raises
        ------
        UsageError : the extra ``report`` is not installed, or there is nothing to plot.
        """
        needs_extra()
        from ope_bench.report.chart_parts import offline_chart
        from ope_bench.report.figures import KINDS, figure_spec, figures

        kinds = ("sweep", "intervals") if chart is None else (chart,)
        if unknown := [one for one in kinds if one not in KINDS]:
            hint = did_you_mean(unknown[0], KINDS)
            msg = f"chart '{unknown[0]}' is not one of {', '.join(KINDS)}{hint}"
            raise UsageError(msg)
        given = [estimators] if isinstance(estimators, str) else [*(estimators or ())]
        ids = {registry().meant("estimator", one) or one for one in given} | {*given}
        some = [
            x for x in self if not ids or ids & {x.trial.estimator.id, x.trial.estimator.label}
        ]
        content = Results(some)._content(truth)
        short, looks = content.looks
        figure = next(figures(content, short, kinds=kinds), None)
        if figure is None:
            msg = "nothing to plot: no row has an estimate, or the chart does not fit the rows"
            raise UsageError(msg)
        spec = figure_spec(figure, looks)
        # The figure is sized for print.
        spec |= {name: _PLOT_SCALE * spec[name] for name in ("width", "height")}
        return offline_chart(spec)

    def to_latex(self, by: By = "rmse", truth: TruthKind = "expected") -> str:
        """Return the leaderboards as LaTeX tables."""
        return render(self.boards(by, truth), "latex")

    def report(self, path: str | Path, *, truth: TruthKind = "expected") -> None:
        """Write the page of ``ope-bench report`` about these rows; it needs no network.

        Raises
        ------
        UsageError : the extra ``report`` is not installed, or the file cannot be written.
        """
        needs_extra()
        from ope_bench.report.page.html import render_page

        with atomic_write(Path(path), UsageError) as partial:
            partial.write_text(render_page(self._content(truth)), encoding="utf-8")

    def _content(self, truth: TruthKind) -> ReportData:
        from ope_bench.report.content import ReportData
        from ope_bench.store import Run

        now = time.time()
        run = Run(
            id="",
            suite="adhoc",
            truth=truth,
            command="ope_bench.evaluate",
            started=now,
            finished=now,
            planned=len(self),
            exit_code=0,
        )
        return ReportData.of(Path(), {truth: Outcomes.by_setting(self)}, [run])

    def __repr__(self) -> str:
        if not self:
            return "no rows"
        parts = [render_result(self.boards(), width=_WIDTH)]
        return "\n\n".join([*parts, repr(self.failures)] if self.failures else parts)

    def _repr_html_(self) -> str:
        if not self:
            return "no rows"
        shown = self.boards()
        tables = [overview_table(shown)] if len(shown) > 1 else [*map(board_table, shown)]
        if len(shown) >= FEWEST_SETTINGS:
            tables += [summary_table(summary) for summary in summaries(shown)]
        if failures := self.failures:
            tables.append(failures.table())
        sentences = "".join(f"<li>{html.escape(line)}</li>" for line in findings(shown))
        return "".join(map(render_html, tables)) + f"<ul>{sentences}</ul>"


class TrackTables:
    """Boards of tracks; shown, they are tables.

    Parameters
    ----------
    boards : of each track and stratum.
    columns : what to show; the usual ones by default.
    """

    def __init__(
        self, boards: Sequence[TrackBoard], columns: Sequence[BoardColumn] | None = None
    ) -> None:
        self.boards, self.columns = boards, columns

    def as_json(self) -> dict[str, Any]:
        """Return the document of ``leaderboard --by track --format json``."""
        return tracks_document(self.boards)

    def to_pandas(self) -> Any:
        """Return a line for each board and estimator as a pandas DataFrame.

        Raises
        ------
        UnavailableError : pandas is not installed.
        """
        columns = self.columns or TrackBoard.columns
        return data_frame(
            [
                {one.key: one.value(board if one.of_board else row) for one in columns}
                for board in self.boards
                for row in board.rows
            ]
        )

    def __repr__(self) -> str:
        return render(self.boards, width=_WIDTH, columns=self.columns).rstrip() or _NO_TRACK

    def _repr_html_(self) -> str:
        tables = (over_settings_table(board, self.columns) for board in self.boards)
        return "".join(map(render_html, tables)) or _NO_TRACK


_NO_TRACK = "no setting has the logging average and a track's reference"


def record_lines(records: Sequence[TrialRecord]) -> list[dict[str, Any]]:
    """Return one line for each record, with the parameters that vary as columns."""
    # A table has no room for these.
    long = ("trial", "traceback", "output_tail", "code_digest")
    kept = [one.name for one in fields(TrialRecord) if one.name not in long]
    labels = distinct_labels([one.trial.estimator for one in records])
    specs = [
        tuple(
            complete_params(spec.kind, spec.reference, spec.params)
            for spec in (one.trial.environment, one.trial.estimator)
        )
        for one in records
    ]
    varying = {
        f"{prefix}_{name}": (which, name)
        for which, prefix in enumerate(("env", "est"))
        for name in _varying([pair[which] for pair in specs])
    }
    return [
        {
            "environment": record.trial.environment.id,
            "estimator": record.trial.estimator.id,
            "label": label,
            **{column: pair[which].get(name) for column, (which, name) in varying.items()},
            "replicate": record.trial.replicate,
            "seed": record.trial.seed,
            "device": record.trial.device.value,
            **{name: getattr(record, name) for name in kept},
            **_errors(record),
            "status": record.status.value,
            "warnings": "; ".join(record.warnings),
            "environment_params": pair[0],
            "params": pair[1],
            "key": record.key,
        }
        for record, label, pair in zip(records, labels, specs, strict=True)
    ]


def _errors(record: TrialRecord) -> dict[str, float | None]:
    value, truth = record.estimate, record.truth_expected
    error = None if value is None or truth is None else value - truth
    return {"error": error, "squared_error": None if error is None else error**2}


def _varying(params: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of parameters that differ, or that only some have."""
    names = dict.fromkeys(name for one in params for name in one)
    return [
        name
        for name in names
        if len({canonical_json(one[name]) if name in one else None for one in params}) > 1
    ]
