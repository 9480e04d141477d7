"""End a command by a signal with its cleanup."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

from ope_bench.plugins.guarded_import import SignalExit

__all__ = ["exit_on_signals"]

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
