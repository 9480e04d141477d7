"""The exit codes, and the reason that a run gives for its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ope_bench.runner import Outcome

__all__ = [
    "CLEAN",
    "EMPTY",
    "FAILED_TRIALS",
    "INTERRUPTED",
    "OUR_BUG",
    "REGRESSION",
    "USAGE",
    "reason",
]

CLEAN = 0
REGRESSION = 1
USAGE = 2
FAILED_TRIALS = 3
EMPTY = 4
OUR_BUG = 70  # sysexits.h EX_SOFTWARE: so that a crash of ours never looks like a regression
INTERRUPTED = 130


def reason(outcome: Outcome, code: int) -> str:
    """Why a run exits with ``code``."""
    missing = outcome.planned - sum(outcome.status.values())
    if code == INTERRUPTED:
        return f"interrupted; {missing} of {outcome.planned} trials left, run again to resume"
    if outcome.planned == 0:
        return "the plan is empty"
    if code == EMPTY:
        return f"{missing} of {outcome.planned} planned trials have no stored outcome"
    broken = ", ".join(f"{n} {word}" for word, n in outcome.status.items() if n and word.broken)
    if code == FAILED_TRIALS:
        return f"of {outcome.planned} planned trials {broken} (--allow-failures accepts that)"
    if broken:
        return f"of {outcome.planned} planned trials {broken}, which --allow-failures accepts"
    return "every planned trial has an outcome"
