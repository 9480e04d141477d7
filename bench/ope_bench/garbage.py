"""Do without the garbage collector while much is read and kept."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["gc_disabled"]


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Disable the garbage collector, which would scan all that a reader holds repeatedly.

    One collection may follow the outermost block, so a whole report should be made in one block.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
