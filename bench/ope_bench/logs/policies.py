"""Policies that a user gives by the log's rows, and contexts that know which rows they are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NoReturn

import numpy as np
from scipy import sparse

from ope_bench.base.errors import DataError, UnavailableError
from ope_bench.contracts.arrays import CHUNK_ENTRIES, FloatArray, IntArray
from ope_bench.contracts.embeddings import RowIndex
from ope_bench.contracts.policies import DiscretePolicy, PairFunction, RowValues


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


class RowPolicy(DiscretePolicy):
    """A sparse table of probabilities, one row for each row of the log.

    Arrays that know their rows of the log get the rows' own probabilities, other arrays the mean
    over the log's rows of equal context. Sums over actions run over the support alone, in the
    order of a dense table where nothing is zero, so that the results are those of one.

    Parameters
    ----------
    matrix : (n, n_actions), each row summing to one.
    context : (n, d_context), the log's.
    """

    def __init__(self, matrix: sparse.csr_array, context: FloatArray) -> None:
        super().__init__(matrix.shape[1])
        self.matrix = matrix
        self._context = context
        self._dense = matrix.nnz == matrix.shape[0] * matrix.shape[1]
        self.full_support = bool(self._dense and (matrix.data > 0).all())

    @cached_property
    def _groups(self) -> ContextGroups:
        return ContextGroups(self._context)

    @cached_property
    def _by_context(self) -> sparse.csr_array:
        """The mean over the rows of each context: (number of contexts, n_actions)."""
        group, n = self._groups.group, len(self._groups.group)
        size = np.bincount(group, minlength=self._groups.n)
        ones = sparse.csr_array(
            (1.0 / size[group], (group, np.arange(n))), shape=(self._groups.n, n)
        )
        return sparse.csr_array(ones @ self.matrix)

    def _at(self, context: FloatArray) -> tuple[sparse.csr_array, IntArray]:
        rows = rows_of(context)
        if rows is not None:
            return self.matrix, rows
        return self._by_context, self._groups(context)

    def table(self, context: FloatArray) -> FloatArray:
        """Return the probabilities of a chunk: (k, n_actions)."""
        matrix, rows = self._at(context)
        return np.asarray(matrix[rows].toarray())

    def probability(self, context: FloatArray, action: IntArray) -> FloatArray:
        """Look up each pair: (n,)."""
        matrix, rows = self._at(context)
        return _look_up(matrix, rows, np.asarray(action))

    def draw(self, context: FloatArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Draw one action per row by the inverse CDF over its support."""
        matrix, rows = self._at(context)
        uniform = rng.random(len(rows))
        action = np.empty(len(rows), dtype=np.int64)
        probability = np.empty(len(rows))
        for start in range(0, len(rows), CHUNK_ENTRIES):
            # A row has few entries, so that rows bound the memory of a chunk.
            part = slice(start, start + CHUNK_ENTRIES)
            at, count = _entries(matrix, rows[part])
            total = np.cumsum(matrix.data[at])
            last = np.cumsum(count) - 1
            before = np.concatenate([[0.0], total[last[:-1]]])
            wanted = before + uniform[part] * (total[last] - before)
            chosen = np.searchsorted(total, wanted, side="right")
            # Rounding of the running sum may lead into a neighboring row.
            chosen = np.clip(chosen, last - count + 1, last)
            action[part] = matrix.indices[at[chosen]]
            probability[part] = matrix.data[at[chosen]]
        return action, probability

    def expect(self, context: FloatArray, f: PairFunction) -> FloatArray:
        """Return the sum over the support of pi(a|x) f(x, a): (n,)."""
        if self._dense:
            return super().expect(context, f)
        matrix, rows = self._at(context)
        out = np.empty(len(rows))
        for part in _chunks(matrix, rows):
            at, count = _entries(matrix, rows[part])
            pairs = np.repeat(np.asarray(context[part]), count, axis=0)
            values = f(pairs, matrix.indices[at].astype(np.int64))
            out[part] = _sum_by_row(matrix.data[at] * values, count)
        return out

    def contract(self, context: FloatArray, values: RowValues) -> FloatArray:
        """Return the sum over the support of pi(a|x) times each row's values: (n,)."""
        if self._dense:
            return super().contract(context, values)
        matrix, rows = self._at(context)
        out = np.empty(len(rows))
        step = max(1, CHUNK_ENTRIES // self.n_actions)
        for start in range(0, len(rows), step):
            part = slice(start, min(start + step, len(rows)))
            at, count = _entries(matrix, rows[part])
            block = values(part)[np.repeat(np.arange(len(count)), count), matrix.indices[at]]
            out[part] = _sum_by_row(matrix.data[at] * block, count)
        return out

    def project(self, context: FloatArray, features: FloatArray) -> FloatArray:
        """Return E[features[a]] over actions: (n, k)."""
        matrix, rows = self._at(context)
        return np.asarray(matrix[rows] @ features)


def _entries(matrix: sparse.csr_array, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Return the positions of the rows' stored entries, and how many each row has."""
    start, count = matrix.indptr[rows].astype(np.int64), np.diff(matrix.indptr)[rows]
    count = count.astype(np.int64)
    before = np.cumsum(count) - count
    return np.repeat(start - before, count) + np.arange(int(count.sum())), count


def _look_up(matrix: sparse.csr_array, rows: IntArray, action: IntArray) -> FloatArray:
    """Return single entries, by a search in the sorted columns of each row: (k,)."""
    # All rows at once halve their interval of columns.
    low = matrix.indptr[rows].astype(np.int64)
    high = end = matrix.indptr[rows + 1].astype(np.int64)
    last = max(len(matrix.indices) - 1, 0)
    while (low < high).any():
        middle = (low + high) // 2
        right = (low < high) & (matrix.indices[np.minimum(middle, last)] < action)
        low, high = np.where(right, middle + 1, low), np.where(right, high, middle)
    found = (low < end) & (matrix.indices[np.minimum(low, last)] == action)
    return np.where(found, matrix.data[np.minimum(low, last)], 0.0)


def _chunks(matrix: sparse.csr_array, rows: IntArray) -> list[slice]:
    """Split rows into slices with at most `CHUNK_ENTRIES` entries each, or one row."""
    count = np.diff(matrix.indptr)[rows]
    block = (np.cumsum(count) - 1) // CHUNK_ENTRIES
    starts = np.flatnonzero(np.diff(block, prepend=-1)) if len(rows) else np.array([], dtype=int)
    ends = [*starts[1:].tolist(), len(rows)]
    return [slice(start, end) for start, end in zip(starts.tolist(), ends, strict=False)]


def _sum_by_row(terms: FloatArray, count: IntArray) -> FloatArray:
    """Sum consecutive terms, ``count`` of them for each row, which has at least one."""
    sums: FloatArray = np.add.reduceat(terms, np.cumsum(count) - count)
    return sums


@dataclass(eq=False, repr=False)
class LoggedProbability:
    """A policy of which only the probability of each logged action is known.

    Parameters
    ----------
    logged : (n,), the probabilities.
    context, action : the log's.
    n_actions : number of actions.
    reason : why nothing else is known, and what would give it.
    """

    logged: FloatArray
    context: FloatArray
    action: IntArray
    n_actions: int
    reason: str
    known_where_logged: ClassVar[bool] = True

    def probability(self, context: FloatArray, action: IntArray) -> FloatArray:
        """Return the probabilities of logged pairs: (n,)."""
        rows = rows_of(context)
        if rows is not None and np.array_equal(self.action[rows], action):
            return self.logged[rows]
        groups, mean = self._pairs
        return mean[groups(np.column_stack([np.asarray(context), action]))]

    @cached_property
    def _pairs(self) -> tuple[ContextGroups, FloatArray]:
        groups = ContextGroups(np.column_stack([np.asarray(self.context), self.action]))
        size = np.bincount(groups.group)
        return groups, np.bincount(groups.group, self.logged) / size

    def _refuse(self) -> NoReturn:
        raise UnavailableError(self.reason)

    def sample(self, context: FloatArray, rng: np.random.Generator) -> IntArray:
        """Raise UnavailableError."""
        self._refuse()

    def expect(self, context: FloatArray, f: PairFunction) -> FloatArray:
        """Raise UnavailableError."""
        self._refuse()

    def __getattr__(self, name: str) -> Any:
        """Raise UnavailableError for the other members of a policy."""
        if name.startswith("_"):
            raise AttributeError(name)
        raise UnavailableError(self.reason)
