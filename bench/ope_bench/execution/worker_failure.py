"""Build the record of a trial whose worker process died."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Mapping
from typing import Any

from ope_bench.plugins.code_digest import result_digest
from ope_bench.plugins.memory_errors import is_out_of_memory
from ope_bench.trials.building import build
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.serialization import facts_from
from ope_bench.trials.status import Status

__all__ = ["failure_record", "words_for_exit"]


def failure_record(
    trial: Trial,
    facts: Mapping[str, Any] | None,
    *,
    batch: int = 0,
    returncode: int | None,
    kill_reason: tuple[Status, str] | None,
    output: str | None,
    exclusive: bool,
) -> TrialRecord:
    """Build the record of a trial whose worker died.

    Parameters
    ----------
    facts : facts that the worker sent before fit, None if it died earlier.
    batch : number of replicates in training, if the worker died in batched training.
    returncode : exit code of the worker, negative for a signal.
    kill_reason : status and message if the coordinator killed it.
    output : the end of its output.
    """
    where = "in fit or estimate" if facts is not None else "before fit"
    if batch:
        where = f"while {batch} replicates were trained together"
    known = facts_from(facts) if facts is not None else _facts(trial, exclusive)
    if kill_reason is not None:
        status, message = kill_reason
    elif returncode != -signal.SIGKILL and is_out_of_memory(output or ""):
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
    """Describe how a process ended.

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
    """Return the facts that are known without the worker."""
    facts: dict[str, Any] = {
        "code_digest": "",
        "exclusive": exclusive,
        "origin": trial.estimator.origin,
        "environment_origin": trial.environment.origin,
    }
    with contextlib.suppress(Exception):
        environment, estimator = build(trial.environment), build(trial.estimator)
        facts["code_digest"] = result_digest(environment, estimator)
        facts["access"] = tuple(estimator.access.words())
    return facts
