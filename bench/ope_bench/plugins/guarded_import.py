"""Imports of plugins that may not end the process silently."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, NoReturn

__all__ = ["USER_EXITS", "ImportEnded", "SignalExit", "guarded_import"]


class SignalExit(SystemExit):
    """A signal that ends the command; no plugin's failure, whatever was imported."""


USER_EXITS = (KeyboardInterrupt, SignalExit)
"""Exceptions that end an import without a fault of the plugin."""


class ImportEnded(Exception):  # noqa: N818  what happened, in the words of a message
    """An import tried to end the process."""


@contextlib.contextmanager
def guarded_import() -> Iterator[None]:
    """Make ``os._exit`` and a raised KeyboardInterrupt ordinary failures of the import.

    A Ctrl-C is still one. What ends the process from C code, by a signal for example, cannot be
    held up here; its exit code is never 0.

    Raises
    ------
    ImportEnded : the block tried to end the process.
    """
    real, pid = os._exit, os.getpid()

    def refuse(status: int) -> NoReturn:
        if os.getpid() != pid:  # a child that it forked
            real(status)
        msg = f"it ends the process by os._exit({status})"
        raise ImportEnded(msg)

    pressed: list[int] = []
    with _noticed_interrupts(pressed):
        os._exit = refuse
        try:
            yield
        except KeyboardInterrupt as exc:
            if pressed or threading.current_thread() is not threading.main_thread():
                raise
            msg = "it raises KeyboardInterrupt"
            raise ImportEnded(msg) from exc
        finally:
            os._exit = real


@contextlib.contextmanager
def _noticed_interrupts(pressed: list[int]) -> Iterator[None]:
    """Note each SIGINT in a list, and handle it as before."""
    before: Any = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        pressed.append(number)
        before(number, frame)

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is handle:
            signal.signal(signal.SIGINT, before)
