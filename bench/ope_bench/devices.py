"""Devices, and the batched kind of each.

A batched device trains what many replicates need at once. Training is chaotic: rounding that
differs in the last bit ends in other parameters, so that single estimates differ from those of
one-by-one training while their distribution does not. Hence a batched device is a device of its
own, in keys and on boards.
"""

from __future__ import annotations

from typing import Literal, get_args

__all__ = ["BLOCK", "DEVICES", "Device", "batched_form", "is_batched", "place"]

Device = Literal["cpu", "cuda", "cpu-batch", "cuda-batch"]

DEVICES: tuple[Device, ...] = get_args(Device)

_SUFFIX = "-batch"

BLOCK = {"cpu-batch": 25, "cuda-batch": 50}
"""Replicates that are trained together: block k holds replicates [k size, (k + 1) size).

All of them are trained, whichever are asked for: what a trial's key says determines its bits, and
nothing else does. On a CPU more than 25 gain nothing (the matrices no longer fit the cache),
while fewer blocks than workers leave workers idle; a GPU is filled by more.
"""


def is_batched(device: str) -> bool:
    """Whether replicates are trained together there.

    >>> is_batched("cpu"), is_batched("cpu-batch")
    (False, True)
    """
    return device.endswith(_SUFFIX)


def place(device: str) -> str:
    """Where the tensors are: what estimators are told.

    >>> place("cuda-batch")
    'cuda'
    """
    return device.removesuffix(_SUFFIX)


def batched_form(device: str) -> str:
    """The batched kind of a device.

    >>> batched_form("cuda")
    'cuda-batch'
    """
    return device + _SUFFIX
