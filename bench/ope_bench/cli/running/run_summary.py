"""Summarize a finished run, one setting at a time, without keeping its records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ope_bench.boards.board import Board, By
from ope_bench.boards.leaderboard import stream_boards
from ope_bench.contracts.data import TruthKind
from ope_bench.store import Store
from ope_bench.trials.outcomes import STATUSES, Outcomes
from ope_bench.trials.record import reason_of
from ope_bench.trials.status import Severity, Status

__all__ = ["RunSummary", "Failures"]

BOARDS_SHOWN = 4

Kind = tuple[str, Status, str | None]


@dataclass
class Failures:
    """Failures of one estimator with the same status and type of error.

    Parameters
    ----------
    key, message : those of the first such trial.
    count : number of such trials.
    """

    key: str
    message: str
    count: int = 0


@dataclass
class RunSummary:
    """Boards and failures of a run, and further boards that its records allow.

    Parameters
    ----------
    boards : all boards of a small run; of a large one those by RMSE; none if not requested.
    failures : by estimator, status and type of error.
    notes : how many trials have each note, by estimator and note.
    questions : measures for which the records give boards, RMSE first.
    """

    boards: list[Board] = field(default_factory=list)
    failures: dict[Kind, Failures] = field(default_factory=dict)
    notes: Counter[tuple[str, str]] = field(default_factory=Counter)
    questions: list[By] = field(default_factory=lambda: ["rmse"])

    @classmethod
    def of(cls, store: Store, run: str, truth: TruthKind, *, boards: bool) -> RunSummary:
        """Summarize the records of a run.

        Parameters
        ----------
        store : the open store.
        run : id of the run.
        truth : the value against which errors are measured.
        boards : whether to compute boards, which costs more than all the rest.
        """
        ending = cls()
        settings = ending._noted(store.outcomes(run=run))
        if not boards:
            for _ in settings:
                pass
            return ending
        by_rmse = stream_boards(settings, truth=truth)
        more = ending.questions[1:] if len(by_rmse) < BOARDS_SHOWN else ()
        others = [
            board
            for by in more
            for board in stream_boards(store.outcomes(run=run), by=by, truth=truth)
            if board.rows
        ]
        few = len(by_rmse) + len(others) <= BOARDS_SHOWN
        ending.boards = [*by_rmse, *others] if few else by_rmse
        return ending

    def _noted(self, settings: Iterator[Outcomes]) -> Iterator[Outcomes]:
        for outcomes in settings:
            self._note(outcomes)
            yield outcomes

    def _note(self, outcomes: Outcomes) -> None:
        if outcomes.has(Status.POSITIVITY).any() and "positivity" not in self.questions:
            self.questions.insert(1, "positivity")
        if outcomes.exclusive.any() and "time" not in self.questions:
            self.questions.append("time")
        for spec, note in zip(outcomes.estimator.tolist(), outcomes.note.tolist(), strict=True):
            if note:
                self.notes[spec.label or spec.id, note] += 1
        for place in np.flatnonzero(_SEVERE[outcomes.status]).tolist():
            spec, status = outcomes.estimator[place], STATUSES[outcomes.status[place]]
            error = outcomes.error_type[place]
            kind = (spec.label or spec.id, status, error)
            if kind not in self.failures:
                message = outcomes.error_message[place] or error or ""
                reason = reason_of(status, message, outcomes.traceback[place], spec)
                self.failures[kind] = Failures(outcomes.key[place], reason)
            self.failures[kind].count += 1


_SEVERE = np.array([status.severity > Severity.WARNING for status in STATUSES])
