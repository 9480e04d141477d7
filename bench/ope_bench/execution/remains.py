"""The record of a trial whose worker did not live to write it."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Mapping
from typing import Any

from ope_bench.provenance import answer_digest
from ope_bench.records import Status, Trial, TrialRecord
from ope_bench.rows import facts_from
from ope_bench.shortage import tells_of_shortage
from ope_bench.trial import build

__all__ = ["record_of_dead", "words_for_exit"]


def record_of_dead(
    trial: Trial,
    facts: Mapping[str, Any] | None,
    *,
    batch: int = 0,
    returncode: int | None,
    verdict: tuple[Status, str] | None,
    output: str | None,
    exclusive: bool,
) -> TrialRecord:
    """What can be said of a trial that took its worker with it.

    Parameters
    ----------
    facts : what the worker told before fit, None if it did not come so far.
    batch : how many replicates were being trained together, if that is what it died in.
    returncode : of the worker, negative for a signal.
    verdict : status and message where the coordinator killed it.
    output : the end of what it wrote.
    """
    where = "in fit or estimate" if facts is not None else "before fit"
    if batch:
        where = f"while {batch} replicates were trained together"
    known = facts_from(facts) if facts is not None else _facts(trial, exclusive)
    if verdict is not None:
        status, message = verdict
    elif returncode != -signal.SIGKILL and tells_of_shortage(output or ""):
        status = Status.MEMORY
        message = f"the worker ran out of memory and {words_for_exit(returncode)} {where}"
    else:
        status, message = Status.CRASH, f"the worker {words_for_exit(returncode)} {where}"
    known |= {
        "error_type": {Status.TIMEOUT: "TimeoutError", Status.MEMORY: "MemoryError"}.get(
            status, "WorkerDied"
        ),
        "error_message": message,
        "output_tail": output,
    }
    return TrialRecord(trial, status=status, **known)


def words_for_exit(returncode: int | None) -> str:
    """How a process ended.

    >>> words_for_exit(-11)
    'died of SIGSEGV'
    """
    if returncode is None:
        return "was killed"
    if returncode >= 0:
        return f"exited with {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    hint = " (the kernel's, if memory ran out)" if returncode == -signal.SIGKILL else ""
    return f"died of {name}{hint}"


def _facts(trial: Trial, exclusive: bool) -> dict[str, Any]:
    """What is known without the worker."""
    facts: dict[str, Any] = {
        "code_digest": "",
        "exclusive": exclusive,
        "origin": trial.estimator.origin,
        "environment_origin": trial.environment.origin,
    }
    with contextlib.suppress(Exception):
        environment, estimator = build(trial.environment), build(trial.estimator)
        facts["code_digest"] = answer_digest(environment, estimator)
        facts["access"] = tuple(estimator.access.words())
    return facts
