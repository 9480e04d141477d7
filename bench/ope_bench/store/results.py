"""Results of a store: runs, records with their runs, contents, conflicts; and their freshness."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, NamedTuple

from ope_bench.contracts.data import TruthKind
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Retry


class Seconds(NamedTuple):
    """Mean seconds of the trials of a cell.

    Parameters
    ----------
    own : without reused shared fits.
    whole : with reused shared fits.
    """

    own: float
    whole: float


@dataclass(frozen=True, kw_only=True)
class Run:
    """A stored run.

    Parameters
    ----------
    id : identifier that sorts by time.
    number : place among the runs of its store, in the order in which they began.
    suite : name of the suite, ``adhoc`` without one.
    truth : the value against which its boards measure errors.
    command : the command line.
    started, finished : seconds since 1970; finished is None for a killed run.
    planned : number of trials.
    exit_code : None for a killed run.
    machine : facts of the machine.
    """

    id: str
    number: int = 0
    suite: str
    truth: TruthKind
    command: str = ""
    started: float = 0.0
    finished: float | None = None
    planned: int = 0
    exit_code: int | None = None
    machine: Mapping[str, Any] = field(default_factory=dict)


RUN_COLUMNS = tuple(one.name for one in fields(Run) if one.name != "machine")
"""The columns of the table of runs, without the machine."""


@dataclass(frozen=True)
class Result:
    """A stored record and the run from which it is read.

    The labels of the record's specs are those of this run.

    Parameters
    ----------
    record : the outcome.
    run : the newest of the selected runs that contains the trial.
    made_by : id of the run that executed the trial; others reuse it.
    """

    record: TrialRecord
    run: Run
    made_by: str


@dataclass(frozen=True, kw_only=True)
class Conflict:
    """A trial with different outcomes of the same code in two stores.

    Parameters
    ----------
    key : key of the trial.
    estimator, environment, replicate : parts of the trial.
    run, status, estimate : outcome in this store.
    other_run, other_status, other_estimate : outcome in the other store.
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


@dataclass(frozen=True, kw_only=True)
class StoreInfo:
    """Contents of a store.

    Parameters
    ----------
    path, bytes, schema : of the file.
    runs, machines, records : numbers of them.
    trials : number of distinct keys among the records.
    status : numbers of records by status.
    suites : numbers of runs by suite.
    """

    path: str
    bytes: int
    schema: int
    runs: int
    machines: int
    records: int
    trials: int
    status: Mapping[str, int]
    suites: Mapping[str, int]


@dataclass(frozen=True)
class Freshness:
    """The rule by which stored records replace planned trials.

    Parameters
    ----------
    code_digest : digest of the current code of the trial.
    exclusive : whether the trial is to run alone.
    timeout, memory : the current limits; a failure at a lower limit runs again.
    retry : run failed trials, or all, again.
    """

    code_digest: Callable[[Trial], str]
    _: KW_ONLY
    exclusive: Callable[[Trial], bool] = lambda trial: False
    timeout: float | None = None
    memory: int | None = None
    retry: Retry | None = None

    def accepts(self, record: TrialRecord, timeout: float | None, memory: float | None) -> bool:
        """Return whether a record that was made under these limits may replace the trial."""
        status = record.status
        if status.limit is not None:
            limits = {"timeout": (timeout, self.timeout), "memory": (memory, self.memory)}
            before, now = limits[status.limit]
            if before is not None and (now is None or now > before):
                return False
        return not (
            not status.tried
            or (self.retry == "failed" and status.broken)
            or (self.exclusive(record.trial) and not record.exclusive)
        )
