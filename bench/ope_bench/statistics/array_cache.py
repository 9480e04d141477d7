"""Keep the arrays that a function made last, up to a number of bytes.

``functools.lru_cache`` counts entries, whatever their size: those of a hundred replicates are some
kilobytes, those of a hundred thousand are many megabytes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import wraps
from threading import Lock
from typing import Any, TypeVar, TypeVarTuple

import numpy.typing as npt

__all__ = ["array_cache"]

Ts = TypeVarTuple("Ts")
A = TypeVar("A", bound=npt.NDArray[Any])


def array_cache(most_bytes: int) -> Callable[[Callable[[*Ts], A]], Callable[[*Ts], A]]:
    """Decorate a function of hashable, positional arguments that returns an array.

    The arrays returned are read-only. Those used longest ago are forgotten first, and an array
    larger than ``most_bytes`` is not kept.

    Parameters
    ----------
    most_bytes : size of all kept arrays together.

    >>> import numpy as np
    >>> drawn = array_cache(100)(lambda n: np.zeros(n))
    >>> drawn(10) is drawn(10), drawn(20) is drawn(20)
    (True, False)
    """

    def decorate(make: Callable[[*Ts], A]) -> Callable[[*Ts], A]:
        kept: OrderedDict[Hashable, A] = OrderedDict()
        lock = Lock()

        @wraps(make)
        def cached(*args: *Ts) -> A:
            with lock:
                if args in kept:
                    kept.move_to_end(args)
                    return kept[args]
            made = make(*args)
            made.setflags(write=False)
            if made.nbytes > most_bytes:
                return made
            with lock:
                kept[args] = made
                held = sum(one.nbytes for one in kept.values())
                while held > most_bytes:
                    held -= kept.popitem(last=False)[1].nbytes
            return made

        return cached

    return decorate
