"""What a store hands out: its runs, and records as seen through them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ope_bench.records import TrialRecord

__all__ = ["Conflict", "Result", "Run", "Seconds"]


class Seconds(NamedTuple):
    """What trials of a cell took on average.

    Parameters
    ----------
    own : without the fits that they found ready-made.
    whole : with them.
    """

    own: float
    whole: float


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
    run : the newest run, of those asked for, that holds the trial.
    made_by : id of the run that executed the trial; others reuse it.
    """

    record: TrialRecord
    run: Run
    made_by: str


@dataclass(frozen=True)
class Conflict:
    """A trial that the same code answered differently in two stores.

    Parameters
    ----------
    key : of the trial.
    estimator, environment, replicate : which it is.
    run, status, estimate : the answer here.
    other_run, other_status, other_estimate : the answer there.
    """

    key: str
    estimator: str
    environment: str
    replicate: int
    run: str
    status: str
    estimate: float | None
    other_run: str
    other_status: str
    other_estimate: float | None
