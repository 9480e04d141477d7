"""The exit codes, and an end by a signal."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

from ope_bench.base.errors import SignalExit

CLEAN = 0
REGRESSION = 1
USAGE = 2
FAILED_TRIALS = 3
EMPTY = 4
OUR_BUG = 70  # EX_SOFTWARE of sysexits.h, so that a bug never looks like a regression
INTERRUPTED = 130

MEANINGS = {
    CLEAN: "Done. Positivity failures and unavailable trials are results, not failures.",
    REGRESSION: "`gate`, or `compare --fail-on worse`, found a regression, a check of `check` or "
    "`submit` failed, or `verify` found a mismatch.",
    USAGE: "A mistake in the command, a file or store that cannot be used, or no memory left. "
    "`gate`: there is no such baseline (`--allow-missing` makes this 0).",
    FAILED_TRIALS: "`run`: trials ended in nonfinite, error, timeout, memory or crash "
    "(`--allow-failures` makes this 0). `rerun`: the trial did. `estimate` and `advise`: no "
    "estimator has a value.",
    EMPTY: "`run` and `gate`: the plan is empty, or a planned trial has no outcome. `run`: every "
    "planned trial is unavailable. `gate` and "
    "`check`: nothing could be compared or computed.",
    OUR_BUG: "A bug of ope-bench. The traceback is on stderr.",
    INTERRUPTED: "Interrupted. Outcomes so far are stored; the same command resumes, `gate` with "
    "`--reuse`.",
}
"""Meaning of each code, for the reference of the command line."""

PRECEDENCE = "Where several apply: 130 before 2, 2 before 4, 4 before 3."


# End a command by a signal with its cleanup.

_NAMES = ("SIGTERM", "SIGHUP")


@contextlib.contextmanager
def exit_on_signals() -> Iterator[None]:
    """Raise SignalExit on SIGTERM and SIGHUP, which otherwise end the process without cleanup.

    The exit code is the one that a shell shows for the signal: 143 or 129. A signal that is
    ignored, as SIGHUP is under ``nohup``, stays so.
    """
    numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    default = [one for one in numbers if signal.getsignal(one) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        default = []

    def end(number: int, frame: FrameType | None) -> NoReturn:
        # A second signal would end the cleanup.
        for one in default:
            signal.signal(one, signal.SIG_IGN)
        raise SignalExit(128 + number)

    for one in default:
        signal.signal(one, end)
    try:
        yield
    finally:
        for one in default:
            signal.signal(one, signal.SIG_DFL)
