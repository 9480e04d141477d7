"""What a run shows while it runs: a live screen on a terminal, plain lines elsewhere.

Everything goes to stderr, so that stdout is left for results.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from ope_bench.cli.forecast import Forecast
from ope_bench.cli.output import note
from ope_bench.execution import Finished, Started
from ope_bench.manifest import Manifest
from ope_bench.naming import setting_labels
from ope_bench.quantities import format_duration
from ope_bench.records import PluginSpec, Status, Trial, TrialRecord
from ope_bench.runner import Notice, Reused, RunEvent
from ope_bench.suite import TruthKind

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["LiveProgress", "PlainProgress", "Watch", "progress_for"]

SECONDS_BETWEEN_LINES = 10.0


@dataclass
class _Sum:
    """The running figures of one cell."""

    finite: int = 0
    squares: float = 0.0
    failed: int = 0

    def word(self) -> str:
        if self.finite:
            rmse = f"{math.sqrt(self.squares / self.finite):.3g}"
            return f"{rmse} !{self.failed}" if self.failed else rmse
        return f"!{self.failed}" if self.failed else "."


@dataclass
class Watch:
    """The state of a run, from its events.

    Parameters
    ----------
    trials : all that are planned.
    truth : what errors are measured against.
    jobs : trials that run side by side.
    alone : which trials run alone.
    """

    trials: Sequence[Trial]
    truth: TruthKind
    jobs: int
    alone: Callable[[Trial], bool] = lambda trial: False
    status: Counter[Status] = field(default_factory=Counter)
    reused: int = 0
    executed: int = 0
    running: dict[int, tuple[Trial, float]] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        # Records come back from other processes; the plan's own objects say which cell is theirs.
        self._planned = {trial.key: trial for trial in self.trials}
        self._forecast = Forecast(self.trials, self.jobs, self.alone)
        self._sums: dict[tuple[int, int], _Sum] = {}
        self._worlds = _labelled(trial.environment for trial in self.trials)
        self._methods = _labelled(trial.estimator for trial in self.trials)

    def handle(self, event: RunEvent) -> None:
        """Take in one event."""
        if isinstance(event, Started):
            self.running[event.slot] = (event.trial, time.monotonic())
        elif isinstance(event, Finished):
            self._finished(event)
        elif isinstance(event, Reused):
            self.reused += 1
            trial = self._count(event.record)
            if trial is not None:
                self._forecast.dropped(trial)

    def _finished(self, event: Finished) -> None:
        self.executed += 1
        begun, since = self.running.pop(event.slot, (None, 0.0))
        record = event.record
        if begun is not None and begun.key == record.key:
            seconds = time.monotonic() - since
        else:
            # One of a chunk that came back as a whole.
            both = (record.fit_seconds or 0.0) + (record.estimate_seconds or 0.0)
            seconds = max(both - record.shared_seconds, 0.0)
        trial = self._count(record)
        if trial is not None:
            self._forecast.finished(trial, seconds)

    def _count(self, record: TrialRecord) -> Trial | None:
        self.status[record.status] += 1
        trial = self._planned.get(record.key)
        if trial is None:
            return None
        cell = self._sums.setdefault((id(trial.environment), id(trial.estimator)), _Sum())
        truth = getattr(record, f"truth_{self.truth}")
        if record.status is Status.OK and record.estimate is not None and truth is not None:
            cell.finite += 1
            cell.squares += (record.estimate - truth) ** 2
        elif record.status is not Status.UNAVAILABLE:
            cell.failed += 1
        return trial

    @property
    def done(self) -> int:
        """Trials with an outcome."""
        return self.reused + self.executed

    def remaining(self) -> float | None:
        """Seconds to go, None before anything is known."""
        return self._forecast.seconds()

    def counts(self) -> str:
        """Trials by status, the usual first."""
        words = [f"{word.value} {self.status[word]}" for word in Status if self.status[word]]
        if self.reused:
            words.append(f"(reused {self.reused})")
        return "  ".join(words)

    def name(self, trial: Trial) -> str:
        """A trial in words."""
        trial = self._planned.get(trial.key, trial)
        method = self._methods.get(id(trial.estimator), trial.estimator.id)
        world = self._worlds.get(id(trial.environment), trial.environment.id)
        return f"{method} on {world}, replicate {trial.replicate}"

    def board(self, columns: int, rows: int) -> list[list[str]]:
        """RMSE so far, estimators by settings, as far as there is room: cells of a table."""
        heads = list(self._worlds.values())
        # One parameter varies as a rule: it alone tells the columns apart.
        ids = {trial.environment.id for trial in self.trials}
        if len(ids) == 1:
            heads = [head.removeprefix(*ids).strip() or head for head in heads]
        first = min(max(map(len, self._methods.values()), default=0), columns // 3)
        room, shown = columns - first - 2, 0
        while shown < len(heads) and room >= (need := max(len(heads[shown]), 8) + 2):
            room -= need
            shown += 1
        table = [["RMSE so far", *heads[:shown]]]
        for method, name in list(self._methods.items())[: max(rows - 1, 0)]:
            sums = [self._sums.get((world, method)) for world in list(self._worlds)[:shown]]
            cells = ["" if one is None else one.word() for one in sums]
            table.append([name[:first], *cells])
        return table


def _labelled(specs: Iterable[PluginSpec]) -> dict[int, str]:
    """What tells the settings apart, by their identity, in the order of the plan."""
    found = {id(spec): spec for spec in specs}
    return dict(zip(found, setting_labels(list(found.values())), strict=True))


class PlainProgress:
    """A line now and then, for logs and pipes."""

    def __init__(self, watch: Watch, title: str) -> None:
        self.watch = watch
        self.title = title
        self._last = time.monotonic()
        self._told = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.watch.executed > self._told:
            self._line()

    def handle(self, event: RunEvent) -> None:
        """Take in one event."""
        self.watch.handle(event)
        if isinstance(event, Notice):
            note(event.text)
        elif isinstance(event, Finished) and time.monotonic() > self._last + SECONDS_BETWEEN_LINES:
            self._line()

    def _line(self) -> None:
        watch = self.watch
        self._last, self._told = time.monotonic(), watch.executed
        rest = watch.remaining()
        left = f"  about {format_duration(rest)} left" if rest else ""
        note(f"{self.title}: {watch.done}/{len(watch.trials)}  {watch.counts()}{left}")


class LiveProgress:
    """A bar, the counts, what runs now, and a running board where there is room."""

    def __init__(self, watch: Watch, title: str) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self.watch = watch
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            TextColumn("{task.completed}/{task.total}", markup=False),
            TimeElapsedColumn(),
            TextColumn("{task.fields[rest]}", markup=False),
            expand=True,
        )
        self._task = self._bar.add_task(title, total=len(watch.trials), rest="")
        self.console = Console(stderr=True)
        self._live = Live(
            get_renderable=self._screen,
            console=self.console,
            refresh_per_second=4,
            transient=True,
            # Plugins run elsewhere; what this process writes to stdout is meant for stdout.
            redirect_stdout=False,
        )

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.__exit__(None, None, None)
        note(f"{self.watch.done}/{len(self.watch.trials)}  {self.watch.counts()}")

    def handle(self, event: RunEvent) -> None:
        """Take in one event."""
        self.watch.handle(event)
        if isinstance(event, Notice):
            self.console.print(event.text, markup=False, highlight=False)

    def _screen(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        watch = self.watch
        rest = watch.remaining()
        told = "" if rest is None else f"{format_duration(rest)} left"
        self._bar.update(self._task, completed=watch.done, rest=told)
        columns, lines = self.console.size
        parts: list[Any] = [self._bar, Text(watch.counts() or "starting", "dim")]
        parts += [Text(line, no_wrap=True, overflow="ellipsis") for line in self._now()]
        room = lines - len(parts) - 2
        if room >= 4 and watch.executed:
            parts.append(_table(watch.board(columns, room)))
        return Group(*parts)

    def _now(self) -> Iterable[str]:
        # A copy: the screen is drawn by a thread of its own.
        for slot, (trial, since) in sorted(self.watch.running.copy().items())[:8]:
            spent = format_duration(time.monotonic() - since)
            yield f"  {slot}: {self.watch.name(trial)}, {spent}"


def _table(cells: list[list[str]]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for index, head in enumerate(cells[0]):
        table.add_column(Text(head), justify="right" if index else "left", no_wrap=True)
    for row in cells[1:]:
        table.add_row(*(Text(cell) for cell in row))
    return table


def progress_for(manifest: Manifest, jobs: int) -> LiveProgress | PlainProgress:
    """The live screen on a terminal, lines elsewhere."""
    watch = Watch(manifest.trials, manifest.suite.truth, jobs, manifest.exclusive)
    live = sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
    return (LiveProgress if live else PlainProgress)(watch, manifest.suite.name)
