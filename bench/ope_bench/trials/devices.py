"""Devices and their batched forms.

A batched device trains the fits of many replicates at once. Training amplifies rounding: a
difference in the last bit leads to other parameters, so that single estimates differ from those of
one-by-one training while their distribution is the same. Hence a batched device is a separate
device in keys and on boards.
"""

from __future__ import annotations

import enum
from typing import Self

__all__ = ["Device"]


class Device(enum.StrEnum):
    """The device on which a trial trains, and how many replicates are trained together.

    Block k of a batched device holds the replicates [k size, (k + 1) size). All of them are
    trained, even those that no plan contains, so that a trial's key alone determines its result.
    On a CPU more than 25 are no faster (the matrices no longer fit the cache), and fewer blocks
    than workers leave workers idle; a GPU needs more replicates for full use.

    Attributes
    ----------
    backend : ``cpu`` or ``cuda``, the ``device`` that is passed to estimators.
    block_size : number of replicates that are trained together.
    batched : whether ``block_size`` exceeds one.

    >>> Device("cuda-batch").backend, Device("cuda-batch").block_size, Device.CPU.block_size
    ('cuda', 50, 1)
    """

    backend: str
    block_size: int
    batched: bool

    CPU = "cpu", "cpu", 1
    CUDA = "cuda", "cuda", 1
    CPU_BATCH = "cpu-batch", "cpu", 25
    CUDA_BATCH = "cuda-batch", "cuda", 50

    def __new__(cls, word: str, backend: str = "cpu", block_size: int = 1) -> Self:
        """Make a member; the defaults let type checkers accept the call Device("cpu")."""
        device = str.__new__(cls, word)
        device._value_ = word
        device.backend = backend
        device.block_size = block_size
        device.batched = block_size > 1
        return device
