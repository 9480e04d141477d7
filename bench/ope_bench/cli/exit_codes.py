"""The exit codes, and which one a run deserves."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = [
    "CLEAN",
    "EMPTY",
    "FAILED_TRIALS",
    "INTERRUPTED",
    "OUR_BUG",
    "REGRESSION",
    "USAGE",
    "of_run",
]

CLEAN = 0
REGRESSION = 1
USAGE = 2
FAILED_TRIALS = 3
EMPTY = 4
OUR_BUG = 70  # sysexits.h EX_SOFTWARE: so that a crash of ours never looks like a regression
INTERRUPTED = 130


def of_run(
    planned: int,
    status: Mapping[str, int],
    *,
    interrupted: bool = False,
    allow_failures: bool = False,
) -> tuple[int, str]:
    """Exit code of a run and the reason for it.

    Parameters
    ----------
    planned : trials that the suite asks for.
    status : how many of them have each status, reused ones included.
    interrupted : by Ctrl-C.
    allow_failures : broken trials are accepted.
    """
    from ope_bench.records import Status

    missing = planned - sum(status.values())
    broken = {word: count for word, count in status.items() if count and Status(word).broken}
    if interrupted:
        return INTERRUPTED, f"interrupted; {missing} of {planned} trials left, run again to resume"
    if planned == 0:
        return EMPTY, "the plan is empty"
    if missing:
        return EMPTY, f"{missing} of {planned} planned trials have no stored outcome"
    if broken:
        counts = ", ".join(f"{count} {word}" for word, count in broken.items())
        if allow_failures:
            return CLEAN, f"{counts}, accepted by --allow-failures"
        return FAILED_TRIALS, f"{counts} of {planned} planned trials"
    return CLEAN, "all planned trials have an outcome"
