"""Make stdout and stderr safe to write: their reader may end, and may not read UTF-8."""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO

__all__ = ["replace_standard_streams"]


def replace_standard_streams() -> None:
    """Replace ``sys.stdout`` and ``sys.stderr`` by streams that a command need not guard.

    What a closed pipe (``| head``) does not take is discarded, so that the command ends with its
    own exit code. What the encoding lacks is written as an escape.
    """
    sys.stdout, sys.stderr = _safe(sys.stdout), _safe(sys.stderr)


class _Descriptor(io.FileIO):
    """A descriptor that is written without a BrokenPipeError."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as exc:
            # The buffer keeps what could not be written, and is flushed again at exit.
            with open(os.devnull, "wb") as nothing:
                os.dup2(nothing.fileno(), self.fileno())
            if not isinstance(exc, BrokenPipeError):
                raise
            return len(data)


def _safe(stream: Any) -> TextIO:
    if stream is None:  # the shell has closed the descriptor
        return open(os.devnull, "w", encoding="utf-8")
    return io.TextIOWrapper(
        io.BufferedWriter(_Descriptor(stream.fileno(), "wb", closefd=False)),
        encoding=stream.encoding,
        errors="backslashreplace",
        # Unbuffered (python -u), what is written is whole lines here.
        line_buffering=stream.line_buffering or stream.write_through,
    )
