"""Speed of this machine: processor seconds of a fixed piece of work."""

from __future__ import annotations

import time
from functools import cache

__all__ = ["calibration_seconds"]

REPEATS = 5


@cache
def calibration_seconds() -> float:
    """Return the processor seconds of a fixed piece of work on one thread, measured once.

    The work is a mixture of what trials spend their time on: products of matrices, sorting,
    elementary functions, and Python itself. The shortest of several repetitions counts, because
    other processes only lengthen them; all together take about 0.2 s.
    """
    import numpy as np
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(0)
    square, column = rng.standard_normal((300, 300)), rng.standard_normal(100_000)
    shortest = float("inf")
    with threadpool_limits(1):
        for _ in range(REPEATS):
            begun = time.process_time()
            np.linalg.solve(square @ square.T + np.eye(300), square)
            np.exp(np.sort(column)).cumsum()
            sum(value * value for value in range(100_000))
            shortest = min(shortest, time.process_time() - begun)
    return shortest
