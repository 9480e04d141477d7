"""What a run's records say at its end, read one setting at a time: none is kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ope_bench.leaderboard import Board, By, TruthKind, boards_in_turn
from ope_bench.records import Status, TrialRecord
from ope_bench.store import Store

__all__ = ["Ending", "Failures"]

BOARDS_SHOWN = 4

Kind = tuple[str, Status, str | None]


@dataclass
class Failures:
    """One way in which one estimator broke or could not run.

    Parameters
    ----------
    key, message : of the first such trial.
    count : how many there are.
    """

    key: str
    message: str
    count: int = 0


@dataclass
class Ending:
    """Boards, failures, and what else could be asked.

    Parameters
    ----------
    boards : all of a small run; of a large one those by RMSE; none if none were asked for.
    failures : by estimator, status and type of error.
    questions : what boards the records can fill, that of RMSE first.
    """

    boards: list[Board] = field(default_factory=list)
    failures: dict[Kind, Failures] = field(default_factory=dict)
    questions: list[By] = field(default_factory=lambda: ["rmse"])

    @classmethod
    def of(cls, store: Store, run: str, truth: TruthKind, *, boards: bool) -> Ending:
        """What the records of a run say.

        Parameters
        ----------
        store : open.
        run : its id.
        truth : what errors are measured against.
        boards : whether they are wanted, which costs more than all the rest.
        """
        ending = cls()
        settings = ending._noted(_settings(store, run))
        if not boards:
            for _ in settings:
                pass
            return ending
        by_rmse = boards_in_turn(settings, truth=truth)
        more = ending.questions[1:] if len(by_rmse) < BOARDS_SHOWN else ()
        others = [
            board
            for by in more
            for board in boards_in_turn(_settings(store, run), by=by, truth=truth)
            if board.rows
        ]
        few = len(by_rmse) + len(others) <= BOARDS_SHOWN
        ending.boards = [*by_rmse, *others] if few else by_rmse
        return ending

    def _noted(self, settings: Iterator[list[TrialRecord]]) -> Iterator[list[TrialRecord]]:
        for records in settings:
            for record in records:
                self._note(record)
            yield records

    def _note(self, record: TrialRecord) -> None:
        if record.status is Status.POSITIVITY and "positivity" not in self.questions:
            self.questions.insert(1, "positivity")
        if record.exclusive and "time" not in self.questions:
            self.questions.append("time")
        if record.status.broken or record.status is Status.UNAVAILABLE:
            spec = record.trial.estimator
            kind = (spec.label or spec.id, record.status, record.error_type)
            words = " ".join((record.error_message or record.error_type or "").split())
            self.failures.setdefault(kind, Failures(record.key, words)).count += 1


def _settings(store: Store, run: str) -> Iterator[list[TrialRecord]]:
    for results in store.settings(run=run):
        yield [result.record for result in results]
