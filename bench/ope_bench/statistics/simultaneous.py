"""The quantile of the largest of several studentized differences, by a multiplier bootstrap."""

from __future__ import annotations

import numpy as np

from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.random import stream

RESAMPLES = 1000


@np.errstate(over="ignore", invalid="ignore")  # an error that overflows decides nothing
def simultaneous(
    influence: FloatArray, alpha: float, *, versus_last: bool = False
) -> tuple[float, FloatArray]:
    """Return the quantile of the largest studentized difference, and the differences' errors.

    Parameters
    ----------
    influence : (n_units, n_policies), each unit's part of a value, centered.
    alpha : probability above the quantile.
    versus_last : whether only differences to the last policy count.
    """
    k = influence.shape[1]
    gram = influence.T @ influence
    spread = np.maximum(np.add.outer(np.diag(gram), np.diag(gram)) - 2 * gram, 0.0)
    error: FloatArray = np.sqrt(spread * len(influence) / max(len(influence) - 1, 1))
    # Policies of equal terms differ by nothing.
    tiny = 1e-9 * float(np.sqrt(np.diag(gram)).max(initial=0.0))
    inverse = np.divide(1.0, error, out=np.zeros_like(error), where=error > tiny)
    draws = (stream("shortlist").standard_normal((RESAMPLES, len(influence))) @ influence).T.copy()
    largest = np.zeros(RESAMPLES)
    for one in range(k - 1):
        others = slice(k - 1 if versus_last else one + 1, k)
        studentized = draws[one] - draws[others]
        studentized *= inverse[one, others, None]
        np.maximum(largest, np.abs(studentized, out=studentized).max(axis=0), out=largest)
    return float(np.quantile(largest, 1 - alpha)), error
