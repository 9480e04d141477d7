"""Progress of a run: a live screen on a terminal, plain lines elsewhere.

All output goes to stderr, so that stdout has results only.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from ope_bench.base.console import note
from ope_bench.base.printable import printable
from ope_bench.base.units import format_duration
from ope_bench.cli.durations import Forecast
from ope_bench.contracts.data import TruthKind
from ope_bench.execution import Finished, Message, Reused, RunEvent, Started
from ope_bench.plugins.spec import PluginSpec, distinct_labels
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status

SECONDS_BETWEEN_LINES = 10.0


@dataclass
class _Sum:
    """Running sums of one cell.

    Parameters
    ----------
    finite : trials with an estimate.
    root : square root of the sum of their squared errors; the sum itself may overflow.
    failed : trials without an estimate.
    """

    finite: int = 0
    root: float = 0.0
    failed: int = 0

    def word(self) -> str:
        if self.finite:
            rmse = f"{self.root / math.sqrt(self.finite):.3g}"
            return f"{rmse} !{self.failed}" if self.failed else rmse
        return f"!{self.failed}" if self.failed else "."


@dataclass
class RunState:
    """The state of a run, from its events.

    Parameters
    ----------
    trials : all planned trials.
    truth : the value against which errors are measured.
    jobs : number of trials at once.
    alone : which trials run alone.
    deadline : when a budget ends, by the monotonic clock; None for none.
    """

    trials: Sequence[Trial]
    truth: TruthKind
    jobs: int
    alone: Callable[[Trial], bool] = lambda trial: False
    deadline: float | None = None
    status: Counter[Status] = field(default_factory=Counter)
    reused: int = 0
    executed: int = 0
    running: dict[int, tuple[Trial, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Records come from other processes, so their cell is looked up by the plan's objects.
        self._planned = {trial.key: trial for trial in self.trials}
        self.forecast = Forecast(self.trials, self.jobs, self.alone)
        self._sums: dict[tuple[int, int], _Sum] = {}
        self._environments = _labelled(trial.environment for trial in self.trials)
        self._estimators = _labelled(trial.estimator for trial in self.trials)

    def handle(self, event: RunEvent) -> None:
        """Update the state by one event."""
        if isinstance(event, Started):
            self.running[event.worker] = (event.trial, time.monotonic())
        elif isinstance(event, Finished):
            self.executed += 1
            begun, since = self.running.pop(event.worker, (None, 0.0))
            seconds = time.monotonic() - since
            if begun is None or begun.key != event.record.key:
                # One of a chunk whose records arrived together.
                seconds = _own_seconds(event.record)
            trial = self._count(event.record)
            if trial is not None:
                self.forecast.finished(trial, seconds)
        elif isinstance(event, Reused):
            self.reused += 1
            trial = self._count(event.record)
            if trial is None:
                return
            if event.record.fit_seconds is None:
                self.forecast.dropped(trial)
            else:
                self.forecast.finished(trial, _own_seconds(event.record))

    def _count(self, record: TrialRecord) -> Trial | None:
        self.status[record.status] += 1
        trial = self._planned.get(record.key)
        if trial is None:
            return None
        cell = self._sums.setdefault((id(trial.environment), id(trial.estimator)), _Sum())
        truth = getattr(record, f"truth_{self.truth}")
        if record.status is Status.OK and record.estimate is not None and truth is not None:
            cell.finite += 1
            cell.root = math.hypot(cell.root, record.estimate - truth)
        elif record.status.tried:
            cell.failed += 1
        return trial

    @property
    def done(self) -> int:
        """Number of trials with an outcome."""
        return self.reused + self.executed

    def rest(self) -> str:
        """Format the time that is left: of the budget, else as far as it can be foreseen."""
        if self.deadline is not None:
            left = max(self.deadline - time.monotonic(), 0.0)
            return f"{format_duration(left)} of the budget left"
        rest = self.forecast.remaining()
        return str(rest) if rest and rest.seconds else ""

    def counts(self) -> str:
        """Format the numbers of trials by status, the usual statuses first."""
        words = [f"{word.value} {self.status[word]}" for word in Status if self.status[word]]
        if self.reused:
            words.append(f"(reused {self.reused})")
        return "  ".join(words)

    def name(self, trial: Trial) -> str:
        """Describe a trial."""
        trial = self._planned.get(trial.key, trial)
        estimator = self._estimators.get(id(trial.estimator), trial.estimator.id)
        environment = self._environments.get(id(trial.environment), trial.environment.id)
        return printable(f"{estimator} on {environment}, replicate {trial.replicate}")

    def board(self, columns: int, rows: int) -> list[list[str]]:
        """Return a table of RMSEs so far, estimators by settings, cropped to the given size."""
        heads = list(self._environments.values())
        # Usually one parameter varies, so its values suffice as column headings.
        ids = {trial.environment.id for trial in self.trials}
        if len(ids) == 1:
            heads = [head.removeprefix(*ids).strip() or head for head in heads]
        first = min(max(map(len, self._estimators.values()), default=0), columns // 3)
        room, shown = columns - first - 2, 0
        while shown < len(heads) and room >= (need := max(len(heads[shown]), 8) + 2):
            room -= need
            shown += 1
        table = [["RMSE so far", *map(printable, heads[:shown])]]
        room = max(rows - 1, 0)
        left_out = len(self._estimators) - room
        if left_out > 0:
            # The last line says how many there are below.
            room = max(room - 1, 0)
        for estimator, name in list(self._estimators.items())[:room]:
            sums = [
                self._sums.get((environment, estimator))
                for environment in list(self._environments)[:shown]
            ]
            cells = ["" if one is None else one.word() for one in sums]
            table.append([printable(name)[:first], *cells])
        if left_out > 0:
            table.append([f"and {left_out + 1} more", *[""] * shown])
        return table


def _own_seconds(record: TrialRecord) -> float:
    """Return the seconds of fit and estimate, without fits that were found in the cache."""
    both = (record.fit_seconds or 0.0) + (record.estimate_seconds or 0.0)
    return max(both - record.shared_seconds, 0.0)


def _labelled(specs: Iterable[PluginSpec]) -> dict[int, str]:
    """Return the distinguishing labels of settings by identity, in the order of the plan."""
    found = {id(spec): spec for spec in specs}
    return dict(zip(found, distinct_labels(list(found.values())), strict=True))


class PlainProgress:
    """Occasional progress lines, for logs and pipes."""

    def __init__(self, state: RunState, title: str) -> None:
        self.state = state
        self.title = title
        self._last = time.monotonic()
        self._told = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.state.executed > self._told:
            self._line()

    def handle(self, event: RunEvent) -> None:
        """Update the state by one event."""
        self.state.handle(event)
        if isinstance(event, Message):
            note(event.text)
        elif isinstance(event, Finished) and time.monotonic() > self._last + SECONDS_BETWEEN_LINES:
            self._line()

    def _line(self) -> None:
        state = self.state
        self._last, self._told = time.monotonic(), state.executed
        parts = (f"{state.done}/{len(state.trials)}", state.counts(), state.rest())
        note(f"{self.title}: {'  '.join(filter(None, parts))}")


class LiveProgress:
    """A live screen: bar, counts, running trials, and a table of RMSEs if there is room."""

    def __init__(self, state: RunState, title: str) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self.state = state
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            TextColumn("{task.completed}/{task.total}", markup=False),
            TimeElapsedColumn(),
            TextColumn("{task.fields[rest]}", markup=False),
            expand=True,
        )
        self._task = self._bar.add_task(title, total=len(state.trials), rest="")
        self.console = Console(stderr=True)
        self._live = Live(
            get_renderable=self._screen,
            console=self.console,
            refresh_per_second=4,
            transient=True,
            # Plugins run in other processes, so output of this process to stdout is intended.
            redirect_stdout=False,
        )

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.__exit__(None, None, None)
        note(f"{self.state.done}/{len(self.state.trials)}  {self.state.counts()}")

    def handle(self, event: RunEvent) -> None:
        """Update the state by one event."""
        self.state.handle(event)
        if isinstance(event, Message):
            self.console.print(printable(event.text), markup=False, highlight=False)

    def _screen(self) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        state = self.state
        self._bar.update(self._task, completed=state.done, rest=state.rest())
        columns, lines = self.console.size
        parts: list[Any] = [self._bar, Text(state.counts() or "starting", "dim")]
        # A copy, because another thread draws the screen.
        for slot, (trial, since) in sorted(state.running.copy().items())[:8]:
            line = f"  {slot}: {state.name(trial)}, {format_duration(time.monotonic() - since)}"
            parts.append(Text(line, no_wrap=True, overflow="ellipsis"))
        room = lines - len(parts) - 2
        if room >= 4 and state.executed:
            heads, *rows = state.board(columns, room)
            table = Table(box=None, pad_edge=False, header_style="dim")
            for index, head in enumerate(heads):
                table.add_column(Text(head), justify="right" if index else "left", no_wrap=True)
            for row in rows:
                table.add_row(*map(Text, row))
            parts.append(table)
        return Group(*parts)


def display(state: RunState, title: str) -> LiveProgress | PlainProgress:
    """Return the display of a run: a live screen on a terminal, plain lines elsewhere."""
    live = sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
    return (LiveProgress if live else PlainProgress)(state, title)
