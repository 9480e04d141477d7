"""Contexts that know which rows of the log they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.embeddings import RowIndex
from ope_bench.errors import DataError, UnavailableError

__all__ = ["ContextGroups", "LoggedContext", "rows_of"]


class LoggedContext(np.ndarray[Any, np.dtype[np.float64]]):
    """An array (k, d_context) whose rows, and selections of them, know their rows in the log.

    A policy that a user gives by rows may differ between rows of equal context; an estimator sees
    ordinary contexts. Results of arithmetic are ordinary arrays.

    >>> context = LoggedContext.of(np.array([[1.0], [1.0], [2.0]]))
    >>> rows_of(context[1:]), rows_of(context[np.array([2, 0])]), rows_of(context + 1)
    (array([1, 2]), array([2, 0]), None)
    """

    rows: IntArray | None

    @classmethod
    def of(cls, context: FloatArray) -> LoggedContext:
        """Return the whole log's contexts."""
        made = np.asarray(context).view(cls)
        made.rows = np.arange(len(context))
        made.rows.flags.writeable = False
        return made

    def __array_finalize__(self, parent: object) -> None:
        self.rows = None

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = (_plain(one) for one in inputs)
        if "out" in options:
            options["out"] = tuple(_plain(one) for one in options["out"])
        return getattr(ufunc, method)(*plain, **options)

    def __getitem__(self, key: Any) -> Any:
        part = super().__getitem__(key)
        if not isinstance(part, LoggedContext):
            return part
        if self.rows is None or part.ndim != 2 or isinstance(key, tuple):
            return part.view(np.ndarray)
        part.rows = self.rows[np.asarray(key) if isinstance(key, list) else key]
        return part


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, LoggedContext) else value


def rows_of(context: FloatArray) -> IntArray | None:
    """Return the rows of the log that contexts are, None for other arrays: (k,)."""
    return context.rows if isinstance(context, LoggedContext) else None


class ContextGroups:
    """Rows of equal context, for arrays that do not know their rows.

    Parameters
    ----------
    context : (n, d_context), the log's.

    Attributes
    ----------
    group : (n,), the group of each row of the log.
    n : number of groups.
    """

    def __init__(self, context: FloatArray) -> None:
        plain = np.asarray(context)
        self._index = RowIndex(plain)
        first = self._index(plain)
        rows, self.group = np.unique(first, return_inverse=True)
        self._group_of_first = np.full(len(plain), -1)
        self._group_of_first[rows] = np.arange(len(rows))
        self.n = len(rows)

    def __call__(self, context: FloatArray) -> IntArray:
        """Return the group of each context: (k,).

        Raises
        ------
        UnavailableError : a context is not in the log.
        """
        try:
            group: IntArray = self._group_of_first[self._index(np.asarray(context))]
        except DataError as exc:
            msg = (
                "the policy is known in the log's contexts only, and the estimator asks for others"
            )
            raise UnavailableError(msg) from exc
        return group
