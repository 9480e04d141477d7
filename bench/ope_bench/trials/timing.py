"""Measure the cost of work: wall, CPU and device time, and peak memory."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache


@dataclass
class Cost:
    """Wall and CPU seconds of one measured block."""

    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0


def synchronize(device: str) -> None:
    """Wait until the device has finished all submitted work."""
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


@contextlib.contextmanager
def measured(device: str = "cpu") -> Iterator[Cost]:
    """Measure the block into the yielded Cost; the device is synchronized before and after."""
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
    """Initialize a device (context, libraries) once per process, outside of any trial's time."""
    if device == "cuda":
        import torch

        square = torch.ones(256, 256, device="cuda")
        (square @ square).sum().item()
        torch.cuda.synchronize()


def peak_gpu_bytes(device: str) -> int | None:
    """Return the peak memory allocated on the GPU since the last call, None on the CPU."""
    if device != "cuda":
        return None
    import torch

    peak = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    return int(peak)


_peak_at_reset = 0


def reset_peak_rss() -> None:
    """Reset the peak resident memory of this process.

    On Linux the kernel resets its counter through /proc, so that the peak is exact for each trial.
    psutil cannot do that; on other systems a process has one peak for its whole lifetime.
    """
    if sys.platform != "linux":
        global _peak_at_reset  # noqa: PLW0603  one counter a process, as the kernel has
        _peak_at_reset = _lifetime_peak()
        return
    with contextlib.suppress(OSError):
        file = os.open("/proc/self/clear_refs", os.O_WRONLY)
        try:
            os.write(file, b"5")
        finally:
            os.close(file)


def peak_rss_bytes() -> int | None:
    """Return the peak resident memory since the last reset, None where unknown.

    Where the counter cannot be reset, the peak is known only if the counter has risen since.
    """
    if sys.platform != "linux":
        peak = _lifetime_peak()
        return peak if peak > _peak_at_reset else None
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


def _lifetime_peak() -> int:
    import psutil

    peak = getattr(psutil.Process().memory_info(), "peak_wset", None)
    if peak is not None:  # Windows
        return int(peak)
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS
