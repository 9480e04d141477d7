"""What a piece of work costs: wall, CPU and device time, and peak memory."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

__all__ = [
    "Cost",
    "measured",
    "peak_gpu_bytes",
    "peak_rss_bytes",
    "reset_peak_rss",
    "synchronize",
    "warm_up",
]


@dataclass
class Cost:
    """Seconds of one measured block."""

    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0


def synchronize(device: str) -> None:
    """Wait until the device has done all that it was asked for."""
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


@contextlib.contextmanager
def measured(device: str = "cpu") -> Iterator[Cost]:
    """Time the block into the Cost it yields; the device is synchronised before and after."""
    cost = Cost()
    synchronize(device)
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        yield cost
    finally:
        synchronize(device)
        cost.wall_seconds = time.perf_counter() - wall
        cost.cpu_seconds = time.process_time() - cpu


@cache
def warm_up(device: str) -> None:
    """Pay a device's one-time costs (context, libraries) outside of any trial, once a process."""
    if device == "cuda":
        import torch

        square = torch.ones(256, 256, device="cuda")
        (square @ square).sum().item()
        torch.cuda.synchronize()


def peak_gpu_bytes(device: str) -> int | None:
    """Peak memory allocated on the GPU since the last call, None on the CPU."""
    if device != "cuda":
        return None
    import torch

    peak = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    return int(peak)


def reset_peak_rss() -> None:
    """Let the kernel count this process's peak resident memory from now on (Linux)."""
    with contextlib.suppress(OSError):
        file = os.open("/proc/self/clear_refs", os.O_WRONLY)
        try:
            os.write(file, b"5")
        finally:
            os.close(file)


def peak_rss_bytes() -> int | None:
    """Peak resident memory since the last reset, None where the kernel does not say."""
    with contextlib.suppress(OSError):
        file = os.open("/proc/self/status", os.O_RDONLY)
        try:
            status = os.read(file, 8_192)
        finally:
            os.close(file)
        _, found, after = status.partition(b"VmHWM:")
        if found:
            return int(after.split(None, 1)[0]) * 1024
    return None
