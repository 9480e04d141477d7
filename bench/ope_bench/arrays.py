"""The door: arrays are checked once, converted once and made read-only."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ope_bench.errors import DataError

__all__ = ["AnyArray", "FloatArray", "IntArray", "checked", "row_chunks"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
AnyArray = npt.NDArray[np.generic]

CHUNK_ENTRIES = 1 << 17
"""Entries of the largest (rows, n_actions) table that anything builds.

One megabyte of floats: chunks that stay in a core's cache are a third faster than larger ones.
"""


def checked(
    name: str,
    value: npt.ArrayLike,
    shape: tuple[int | str, ...],
    *,
    dtype: type[np.float64] | type[np.int64] = np.float64,
    low: float | None = None,
    high: float | None = None,
) -> npt.NDArray[np.generic]:
    """The array as read-only, C-ordered ``dtype``, or a DataError that says what is wrong.

    Parameters
    ----------
    name : how messages call the array.
    shape : one entry a dimension; a string stands for any size and is shown in messages.
    low, high : inclusive bounds on the values.

    >>> checked("reward", [1, 2], (3,))
    Traceback (most recent call last):
    ...
    ope_bench.errors.DataError: reward has shape (2,); expected (3,)
    """
    array = np.asarray(value)
    fits = array.ndim == len(shape) and all(
        isinstance(want, str) or have == want
        for have, want in zip(array.shape, shape, strict=True)
    )
    if not fits:
        expected = f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
        msg = f"{name} has shape {array.shape}; expected {expected}"
        raise DataError(msg)
    if array.dtype.kind not in "biuf":
        msg = f"{name} has dtype {array.dtype}; expected numbers"
        raise DataError(msg)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = np.argwhere(~np.isfinite(array))[0]
        where = ", ".join(map(str, bad))
        msg = f"{name}[{where}] is {array[tuple(bad)]}; expected finite values"
        raise DataError(msg)
    if dtype is np.int64 and array.dtype.kind == "f" and not (array == np.round(array)).all():
        msg = f"{name} holds fractions; expected integers"
        raise DataError(msg)
    if array.size and (
        (low is not None and array.min() < low) or (high is not None and array.max() > high)
    ):
        bounds = f"[{'-inf' if low is None else low}, {'inf' if high is None else high}]"
        msg = f"{name} has values in [{array.min()}, {array.max()}]; expected {bounds}"
        raise DataError(msg)
    converted = np.ascontiguousarray(array, dtype=dtype)
    if converted.flags.writeable:
        # A view, so that the owner's own array stays as it was.
        converted = converted.view()
        converted.flags.writeable = False
    return converted


def row_chunks(n_rows: int, row_entries: int) -> list[slice]:
    """Slices over ``n_rows`` such that a chunk of (rows, row_entries) stays within the limit.

    >>> row_chunks(5, CHUNK_ENTRIES // 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, CHUNK_ENTRIES // max(1, row_entries))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
