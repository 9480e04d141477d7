"""Arrays: checked once, on entry, and read-only then; tables in chunks of rows; reward ranges."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ope_bench.base.errors import DataError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
_AnyArray = npt.NDArray[np.generic]

CHUNK_ENTRIES = 1 << 17
"""Entries of the largest (rows, n_actions) table that is ever built.

One megabyte of floats: chunks that fit a core's cache are a third faster than larger ones.
"""

SHORT_ROW = 32
"""Columns up to which the largest entries of rows are found faster in a transposed table."""

LONG_ROW = 256
"""Columns from which an operation with a number per row is faster with NumPy's smallest buffer."""

_SMALLEST_BUFFER = 16


def weighted_terms(terms: FloatArray, row_weight: FloatArray | None) -> FloatArray:
    """Terms whose plain mean is the weighted mean V of some terms, and whose spread is its error.

        V + ω_i / mean(ω) (t_i - V),   V = sum(ω t) / sum(ω)

    Parameters
    ----------
    terms : (n,), or (k, n) for several rows of terms.
    row_weight : (n,), as `Problem.row_weight`; None leaves the terms as they are.

    >>> weighted_terms(np.array([1.0, 5.0]), np.array([3.0, 1.0])).tolist()
    [0.5, 3.5]
    """
    if row_weight is None:
        return terms
    relative = row_weight / row_weight.mean()
    value = (terms * relative).mean(axis=-1, keepdims=True)
    weighted: FloatArray = value + relative * (terms - value)
    return weighted


def validate_array(
    name: str,
    value: npt.ArrayLike,
    shape: tuple[int | str, ...],
    *,
    dtype: type[np.float64] | type[np.int64] = np.float64,
    low: float | None = None,
    high: float | None = None,
) -> npt.NDArray[np.generic]:
    """Validate an array and return it read-only and C-ordered, with the wanted dtype.

    Parameters
    ----------
    name : name of the array in messages.
    shape : one entry per dimension; a string allows any size and is shown in messages.
    low, high : inclusive bounds on the values.

    Raises
    ------
    DataError : wrong shape or dtype, a value that is not finite, or one out of bounds.

    >>> validate_array("reward", [1, 2], (3,))
    Traceback (most recent call last):
    ...
    ope_bench.base.errors.DataError: reward has shape (2,); expected (3,)
    """
    array = np.asarray(value)
    fits = array.ndim == len(shape) and all(
        isinstance(expected, str) or size == expected
        for size, expected in zip(array.shape, shape, strict=True)
    )
    if not fits:
        expected = f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
        msg = f"{name} has shape {array.shape}; expected {expected}"
        raise DataError(msg)
    if array.dtype.kind not in "biuf":
        msg = f"{name} has dtype {array.dtype}; expected numbers"
        raise DataError(msg)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        index = np.argwhere(~np.isfinite(array))[0]
        position = ", ".join(map(str, index))
        msg = f"{name}[{position}] is {array[tuple(index)]}; expected finite values"
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
        # A view, so that the caller's array stays writeable.
        converted = converted.view()
        converted.flags.writeable = False
    return converted


def real_number(name: str, value: Any) -> float:
    """Return one real number as a float; DataError for a word, a truth value or an array.

    >>> real_number("value", np.float32(0.5))
    0.5
    """
    if not isinstance(value, bool | str) and np.ndim(value) == 0 and not np.iscomplexobj(value):
        with contextlib.suppress(TypeError, ValueError):
            return float(value)
    msg = f"{name} is {type(value).__name__}; expected one real number"
    raise DataError(msg)


def finite_number(name: str, value: Any) -> float:
    """Return one finite real number as a float; DataError for any other value."""
    number = real_number(name, value)
    if not math.isfinite(number):
        msg = f"{name} is {number}; expected a finite number"
        raise DataError(msg)
    return number


def row_chunks(n_rows: int, row_entries: int) -> list[slice]:
    """Split ``n_rows`` into slices whose (rows, row_entries) chunks stay within the limit.

    >>> row_chunks(5, CHUNK_ENTRIES // 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, CHUNK_ENTRIES // max(1, row_entries))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def row_maxima(table: FloatArray) -> FloatArray:
    """Return the largest entry of each row: (k, 1).

    >>> row_maxima(np.array([[1.0, 3.0], [5.0, 2.0]])).tolist()
    [[3.0], [5.0]]
    """
    if table.shape[1] > SHORT_ROW:
        largest: FloatArray = table.max(axis=1, keepdims=True)
        return largest
    # A maximum along rows has a cost per row, which is most of it where they are short.
    columns: FloatArray = table.T.copy().max(axis=0)
    return columns[:, None]


def apply_by_row(operation: np.ufunc, table: FloatArray, column: FloatArray) -> None:
    """Write the result of an operation on a table and a number per row over the table.

    Parameters
    ----------
    operation : such as ``np.subtract``.
    table : (k, n_actions), overwritten.
    column : (k, 1)

    >>> table = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> apply_by_row(np.subtract, table, np.array([[1.0], [3.0]]))
    >>> table.tolist()
    [[0.0, 1.0], [0.0, 1.0]]
    """
    if table.shape[1] < LONG_ROW:
        operation(table, column, out=table)
        return
    # NumPy joins rows that fit its buffer, and copies the number of a row once for each column,
    # which is most of the time. No row fits the smallest buffer.
    size = np.setbufsize(_SMALLEST_BUFFER)
    try:
        operation(table, column, out=table)
    finally:
        np.setbufsize(size)


def require_one_per_row(name: str, values: npt.NDArray[Any], n: int) -> None:
    """Require one value per row, since other shapes would broadcast to wrong numbers.

    Parameters
    ----------
    name : name of the array in messages.
    values : (n,)
    n : number of rows.

    Raises
    ------
    DataError : another shape.

    >>> require_one_per_row("action", np.zeros((2, 1)), 2)
    Traceback (most recent call last):
    ...
    ope_bench.base.errors.DataError: action has shape (2, 1); expected (2,), one value per row
    """
    if np.shape(values) != (n,):
        msg = f"{name} has shape {np.shape(values)}; expected ({n},), one value per row"
        raise DataError(msg)


# --- ranges of rewards


def check_rewards(
    reward: FloatArray, reward_range: tuple[float, float], *, name: str = "reward"
) -> tuple[float, float]:
    """Return the range as two floats, after checking that all rewards are inside.

    Parameters
    ----------
    reward : (n,)
    reward_range : its smallest and its largest possible value.
    name : how messages call the array.

    Raises
    ------
    DataError : the range is not two finite numbers in ascending order, or a reward is outside.

    >>> check_rewards(np.array([0.0, 3.0]), (0, 1))
    Traceback (most recent call last):
    ...
    ope_bench.base.errors.DataError: reward[1] is 3.0, outside the declared reward_range [0.0, 1.0]
    """
    try:
        low, high = (float(value) for value in reward_range)
    except (TypeError, ValueError) as exc:
        msg = f"reward_range is {reward_range!r}; expected two numbers"
        raise DataError(msg) from exc
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        msg = f"reward_range is [{low}, {high}]; expected two finite numbers in ascending order"
        raise DataError(msg)
    outside = (reward < low) | (reward > high)
    if outside.any():
        row = int(np.argmax(outside))
        msg = f"{name}[{row}] is {reward[row]}, outside the declared reward_range [{low}, {high}]"
        raise DataError(msg)
    return low, high
