"""Progress of a run: a live screen on a terminal, plain lines elsewhere.

All output goes to stderr, so that stdout has results only.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from ope_bench.base.console import note
from ope_bench.base.printable import printable
from ope_bench.base.units import format_duration, format_estimate
from ope_bench.contracts.data import TruthKind
from ope_bench.execution import Finished, Message, Reused, RunEvent, Started
from ope_bench.plugins.spec import PluginSpec, distinct_labels
from ope_bench.store import Seconds
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status

# Expected seconds of trials, from the times of similar trials: before a run and while it runs.

NAMES_SHOWN = 4


class _Expected(NamedTuple):
    """The expected time of a trial.

    Parameters
    ----------
    own, whole : seconds without and with fits that it shares with others on the same data.
    guessed : from other settings than its own.
    """

    own: float
    whole: float
    guessed: bool


class _TrialSeconds:
    """Expected seconds of trials: the mean of their cell, or of their estimator elsewhere.

    Most estimators cost as much a row, so the times of other settings are scaled by the ratio of
    the numbers of rows.
    """

    def __init__(self) -> None:
        # Number of trials, own and whole seconds, and rows, by what the trials share.
        self._sums: dict[tuple[object, ...], np.ndarray] = defaultdict(lambda: np.zeros(4))

    def learn(self, trial: Trial, seconds: Seconds, *, alone: bool = False) -> None:
        """Note the seconds of a trial."""
        for key in self._keys(trial, alone):
            self._sums[key] += (1, seconds.own, seconds.whole, _rows(trial))

    def expected(self, trial: Trial, *, alone: bool = False) -> _Expected | None:
        """Return the expected time of a trial, None if its estimator never ran."""
        *cells, estimator = self._keys(trial, alone)
        for key in cells:
            if key in self._sums:
                count, own, whole, _ = self._sums[key].tolist()
                return _Expected(own / count, whole / count, False)
        if estimator not in self._sums:
            return None
        _, own, whole, rows = self._sums[estimator].tolist()
        scale = _rows(trial) / rows
        return _Expected(scale * own, scale * whole, True)

    @staticmethod
    def _keys(trial: Trial, alone: bool) -> list[tuple[object, ...]]:
        """Return keys of a trial: of its cell run alone or beside others, its cell, its estimator.

        All trials of a manifest share their specs, so the specs' ids identify them.
        """
        estimator = id(trial.estimator), trial.device
        cell = id(trial.environment), *estimator
        return [(*cell, alone), cell, estimator]


def _rows(trial: Trial) -> float:
    rows = trial.environment.params.get("n_samples")
    return float(rows) if isinstance(rows, int) and rows > 0 else 1.0


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The expected time of trials that have not run.

    Parameters
    ----------
    seconds : of those whose time is known or guessed.
    stored : number of trials whose cell has stored timings.
    guessed : number of trials whose time comes from other settings.
    unknown : number of trials of which nothing is known, by estimator.
    """

    seconds: float
    stored: int
    guessed: int
    unknown: Mapping[str, int]

    def __add__(self, other: Prediction) -> Prediction:
        return Prediction(
            seconds=self.seconds + other.seconds,
            stored=self.stored + other.stored,
            guessed=self.guessed + other.guessed,
            unknown=Counter(self.unknown) + Counter(other.unknown),
        )

    def as_text(self, trials: int) -> str:
        """Return the expected duration as text, and how much of it is guessed.

        Parameters
        ----------
        trials : number of all predicted trials.
        """
        length = format_estimate(self.seconds)
        if not trials:
            return f"about {length}"
        unknown = sum(self.unknown.values())
        names = ", ".join([*self.unknown][:NAMES_SHOWN])
        more = len(self.unknown) - NAMES_SHOWN
        names += f" and {more} more" if more > 0 else ""
        if unknown == trials:
            return f"unknown: the store has no times of {names}"
        caveats = []
        if self.guessed:
            caveats.append(f"{self.guessed:,} trials guessed from other settings")
        if unknown:
            caveats.append(f"{unknown:,} trials of {names} not counted, which never ran here")
        if caveats:
            return f"at least {length}: {'; '.join(caveats)}"
        return f"about {length}, from stored timings"


def predict(
    to_run: Sequence[Trial], planned: Sequence[Trial], stored: Mapping[str, Seconds], jobs: int
) -> Prediction:
    """Predict the time of trials without a stored outcome.

    Shared fits are counted once for all trials on the same data.

    Parameters
    ----------
    to_run : the trials.
    planned : all trials of the plan, from whose stored timings others are scaled.
    stored : mean seconds of similar stored trials, by key.
    jobs : number of trials at once.
    """
    seconds = _TrialSeconds()
    for trial in planned:
        if trial.key in stored:
            seconds.learn(trial, stored[trial.key])
    own: dict[tuple[int, int], float] = defaultdict(float)
    dearest: dict[tuple[int, int], float] = defaultdict(float)
    guessed, unknown = 0, Counter[str]()
    for trial in to_run:
        expected = seconds.expected(trial)
        if expected is None:
            unknown[trial.estimator.label or trial.estimator.id] += 1
            continue
        data = id(trial.environment), trial.replicate
        own[data] += expected.own
        # The trial that is charged for a shared fit may not be among the trials to run.
        dearest[data] = max(dearest[data], expected.whole)
        guessed += expected.guessed
    total = sum(max(spent, dearest[data]) for data, spent in own.items())
    return Prediction(
        seconds=total / max(jobs, 1),
        stored=sum(trial.key in stored for trial in to_run),
        guessed=guessed,
        unknown=unknown,
    )


class Remaining(NamedTuple):
    """The remaining time of a run.

    Parameters
    ----------
    seconds : expected.
    guessed : some of it comes from other settings than those that remain.
    """

    seconds: float
    guessed: bool

    def __str__(self) -> str:
        length = format_estimate(self.seconds)
        return f"{'at least' if self.guessed else 'about'} {length} left"


class Forecast:
    """Remaining time of a run, from the times of its trials so far.

    There is none before every estimator that remains has run once.

    Parameters
    ----------
    trials : the remaining trials.
    jobs : number of trials at once.
    alone : which trials run alone.
    """

    def __init__(
        self,
        trials: Iterable[Trial],
        jobs: int,
        alone: Callable[[Trial], bool] = lambda trial: False,
    ) -> None:
        self.jobs = max(jobs, 1)
        self._alone = alone
        self._seconds = _TrialSeconds()
        # The remaining trials of each cell; a cell's trials differ in their replicate alone.
        self._cells: dict[tuple[int, int, str, bool], Trial] = {}
        self._left: Counter[tuple[int, int, str, bool]] = Counter()
        for trial in trials:
            self._left[self._cell(trial)] += 1
            self._cells.setdefault(self._cell(trial), trial)

    def finished(self, trial: Trial, seconds: float) -> None:
        """Remove a finished trial and learn its time."""
        self.dropped(trial)
        self._seconds.learn(trial, Seconds(seconds, seconds), alone=self._alone(trial))

    def dropped(self, trial: Trial) -> None:
        """Remove a trial without learning from it."""
        cell = self._cell(trial)
        self._left[cell] -= 1
        if self._left[cell] <= 0:
            del self._left[cell]

    def remaining(self) -> Remaining | None:
        """Return the remaining time; None before every remaining estimator has run once."""
        rest, guessed = 0.0, False
        for cell, left in self._left.items():
            alone = cell[3]
            expected = self._seconds.expected(self._cells[cell], alone=alone)
            if expected is None:
                return None
            rest += left * expected.own / (1 if alone else self.jobs)
            guessed |= expected.guessed
        return Remaining(rest, guessed)

    def _cell(self, trial: Trial) -> tuple[int, int, str, bool]:
        return id(trial.environment), id(trial.estimator), trial.device, self._alone(trial)


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
