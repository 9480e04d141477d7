"""Open, add, look up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from ope_bench.records import Trial, TrialRecord

__all__ = ["Freshness", "Result", "Retry", "Run", "Store"]

Retry = Literal["failed", "all"]


@dataclass(frozen=True)
class Run:
    """One run.

    Parameters
    ----------
    id : sorts by time.
    suite : its name, ``adhoc`` for none.
    truth : ``empirical`` or ``expected``: what its boards measure errors against.
    command : what was typed.
    started, finished : seconds since 1970; finished is None for one that was killed.
    planned : number of trials.
    exit_code : None for one that was killed.
    machine : facts of the machine.
    """

    id: str
    suite: str
    truth: str
    command: str = ""
    started: float = 0.0
    finished: float | None = None
    planned: int = 0
    exit_code: int | None = None
    machine: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """A stored record and the run through which it is looked at.

    The labels of the record's specs are those that this run gave.

    Parameters
    ----------
    record : the outcome.
    run : the newest run of those asked for that holds the trial.
    """

    record: TrialRecord
    run: Run


@dataclass(frozen=True)
class Freshness:
    """When a stored record may stand for a planned trial.

    Parameters
    ----------
    code_digest : of the code that would answer now.
    exclusive : whether the trial is to run alone.
    timeout, memory : the limits now; a failure at a lower limit is run again.
    retry : run failed ones, or all, again.
    """

    code_digest: Callable[[Trial], str]
    exclusive: Callable[[Trial], bool] = lambda trial: False
    timeout: float | None = None
    memory: int | None = None
    retry: Retry | None = None


class Store:
    """One SQLite file; open it with ``with Store.open(path, write=True) as store``.

    Raises
    ------
    StoreError : with one clear line.
    """

    path: Path

    @classmethod
    def open(cls, path: str | Path, *, write: bool = False) -> Self:
        """Open a store; with ``write`` it is created where missing, and nobody else may write.

        Raises
        ------
        StoreError : it is missing, foreign, newer, in use by another run or not writable.
        """
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and let others write."""
        raise NotImplementedError

    def begin_run(
        self,
        *,
        suite: str,
        truth: str,
        command: str = "",
        planned: int = 0,
        machine: Mapping[str, Any] | None = None,
    ) -> str:
        """A new run's id."""
        raise NotImplementedError

    def end_run(self, run_id: str, exit_code: int) -> None:
        """Note how a run ended."""
        raise NotImplementedError

    def add(
        self, record: TrialRecord, run_id: str, *, timeout: float | None, memory: int | None
    ) -> None:
        """Store one outcome durably."""
        raise NotImplementedError

    def reuse(self, records: Iterable[TrialRecord], run_id: str) -> None:
        """Make stored outcomes part of a run."""
        raise NotImplementedError

    def current(self, trials: Iterable[Trial], freshness: Freshness) -> dict[str, TrialRecord]:
        """Stored outcomes, by key, that may stand for these trials."""
        raise NotImplementedError

    def results(self, *, suite: str | None = None, run: str | None = None) -> Iterator[Result]:
        """The newest record per key and truth, over all runs or those asked for."""
        raise NotImplementedError

    def records(
        self, *, suite: str | None = None, run: str | None = None
    ) -> Iterator[TrialRecord]:
        """The newest record per key, over all runs or those asked for."""
        raise NotImplementedError

    def find(self, prefix: str) -> TrialRecord:
        """The newest record of the one key that begins so.

        Raises
        ------
        StoreError : no key, or more than one, begins so.
        """
        raise NotImplementedError

    def runs(self) -> list[Run]:
        """All runs, oldest first."""
        raise NotImplementedError

    def info(self) -> dict[str, Any]:
        """Counts and sizes, as plain values."""
        raise NotImplementedError

    def seconds(self, trials: Iterable[Trial]) -> dict[str, float]:
        """Mean seconds of stored trials like these, by key: what a dry run predicts from."""
        raise NotImplementedError

    def prune(self) -> int:
        """Drop records that newer ones replaced; how many."""
        raise NotImplementedError

    def merge(self, other: Store) -> int:
        """Take over another store's runs and records; how many records were new."""
        raise NotImplementedError
