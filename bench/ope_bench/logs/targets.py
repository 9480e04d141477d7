"""The user's policies as arrays over the log's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ope_bench.base.errors import UsageError, did_you_mean
from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.policies import DiscretePolicy
from ope_bench.logs.asked_policy import (
    ROUNDING,
    policy_of_file,
    policy_of_function,
    policy_of_pairs,
)
from ope_bench.logs.source import load_table, refuse_first
from ope_bench.logs.target_policy import Form, TargetPolicy
from ope_bench.plugins.registry import registry
from ope_bench.tables import DataFileError, Table, finite_number


@dataclass(frozen=True, eq=False)
class Target:
    """A policy of the user over the rows of a log; one of the three is given.

    Parameters
    ----------
    name : its name.
    form : the form in which it was given.
    action : (n,), the action that it took in each row's context.
    probability : (n,), its probability of each logged action.
    matrix : (n, n_actions), all its probabilities.
    """

    name: str
    form: Form
    action: IntArray | None = None
    probability: FloatArray | None = None
    matrix: sparse.csr_array | None = None

    def of_logged(self, action: IntArray) -> FloatArray | None:
        """Return the probability of each logged action, None where unknown: (n,)."""
        if self.matrix is None:
            return self.probability
        return np.asarray(self.matrix[np.arange(len(action)), action]).reshape(-1)

    def part(self, rows: IntArray) -> Target:
        """Return the policy over some of the log's rows."""
        return replace(
            self,
            action=None if self.action is None else self.action[rows],
            probability=None if self.probability is None else self.probability[rows],
            matrix=None if self.matrix is None else sparse.csr_array(self.matrix[rows]),
        )

    def unsupported_mass(
        self,
        action: IntArray,
        logging: sparse.csr_array | None,
        row_weight: FloatArray | None = None,
    ) -> float | None:
        """Return the share of the policy on actions that were never logged.

        With a known logging policy: those to which it gives probability zero in the row; else
        those that no row logged. None where only probabilities of logged actions are known.
        """
        share = np.ones(len(action)) if row_weight is None else row_weight
        if self.matrix is not None and logging is not None:
            supported = share @ self.matrix.multiply((logging > 0).astype(np.float64)).sum(axis=1)
            return max(0.0, 1.0 - float(supported / share.sum()))
        if self.action is not None and logging is not None:
            probability = np.asarray(logging[np.arange(len(action)), self.action])
            return float(np.average(probability == 0, weights=share))
        if self.action is not None:
            return float(np.average(~np.isin(self.action, action), weights=share))
        if self.matrix is None:
            return None
        never = np.ones(self.matrix.shape[1])
        never[action] = 0.0
        return float(share @ (self.matrix @ never) / share.sum())


class ActionCodes:
    """Names of actions, and their codes in sorted order; numbers sort as numbers.

    Parameters
    ----------
    names : of all actions.
    closed : where from, if no other action may occur.
    """

    def __init__(self, names: set[str], closed: str | None = None) -> None:
        values = {name: finite_number(name) for name in names}
        if any(value is None for value in values.values()):
            self.names = tuple(sorted(names))
        else:
            self.names = tuple(sorted(names, key=lambda name: (values[name] or 0.0, name)))
        self._code = {name: code for code, name in enumerate(self.names)}
        self._closed = closed

    def of(self, table: Table, column: str) -> IntArray:
        """Return the codes of a column of words: (n,).

        Raises
        ------
        DataFileError : an action is not among the names.
        """
        codes, words = table.words(column)
        known = np.array([self._code.get(word, -1) for word in words], dtype=np.int64)
        if (known < 0).any():
            row = int(np.argmax((known < 0)[codes]))
            word = words[codes[row]]
            hint = did_you_mean(word, self.names)
            what = f"action '{word}' is not in {self._closed}{hint}; add it there"
            table.raise_error(row, column, what)
        return known[codes]


class TargetTable:
    """A file or frame with the columns row, action and probability, not yet coded.

    Parameters
    ----------
    source : path, data frame or mapping of columns.
    n : number of rows of the log.
    column : ``prediction`` for predictions of the reward, which need not sum to one.
    """

    def __init__(self, source: Any, n: int, column: str = "probability") -> None:
        self.table = load_table(source, numbers=("row", column), words=("action",))
        row = self.table.number("row")
        wrong = (row != np.floor(row)) | (row < 0) | (row >= n)
        what = f"is not a row of the log; its rows are 0 to {n - 1:,}; count from 0"
        refuse_first(self.table, "row", row, wrong, what)
        self.row = row.astype(np.int64)
        self.n = n
        self.value = self.table.number(column)
        self.sums_to_one = column == "probability"
        if self.sums_to_one:
            wrong = (self.value < 0) | (self.value > 1)
            what = "is not a probability; expected 0 to 1"
            refuse_first(self.table, column, self.value, wrong, what)

    def matrix(self, codes: ActionCodes) -> sparse.csr_array:
        """Return the probabilities or predictions: (n, n_actions).

        Raises
        ------
        DataFileError : a row has an action twice, or its probabilities do not sum to one.
        """
        action = codes.of(self.table, "action")
        n_actions = len(codes.names)
        key = self.row * n_actions + action
        order = None if (key[1:] > key[:-1]).all() else np.argsort(key, kind="stable")
        if order is not None:
            same = np.flatnonzero(key[order][1:] == key[order][:-1])
            if len(same):
                at = int(order[same + 1].min())
                what = (
                    f"row {self.row[at]:,} has action '{codes.names[action[at]]}' twice; keep one"
                )
                self.table.raise_error(at, "action", what)
        pick = slice(None) if order is None else order
        count = np.bincount(self.row, minlength=self.n)
        indptr = np.concatenate([[0], np.cumsum(count)])
        matrix = sparse.csr_array(
            (self.value[pick], action[pick].astype(np.int32), indptr),
            shape=(self.n, n_actions),
        )
        if not self.sums_to_one:
            return matrix
        total = np.bincount(self.row, self.value, minlength=self.n)
        wrong = np.abs(total - 1.0) > ROUNDING
        if wrong.any():
            row = int(np.argmax(wrong))
            entries = np.flatnonzero(self.row == row)
            if not len(entries):
                what = f"row {row:,} of the log has no probabilities; give some for every row"
                raise DataFileError(self.table.path, what)
            what = f"the probabilities of row {row:,} sum to {total[row]:g}; they must sum to 1"
            self.table.raise_error(int(entries[0]), "probability", what)
        matrix.eliminate_zeros()
        return matrix


def policy_column(name: str, policy: TargetPolicy, table: Table) -> tuple[Table, str]:
    """Return table and column of a policy that is a column of the log's table, or an array."""
    if isinstance(policy.value, str):
        return table, policy.value
    column = f"target '{name}'"
    roles: dict[str, Any] = {"numbers": (), "words": ()}
    roles["words" if policy.form == "action" else "numbers"] = (column,)
    array = load_table({column: np.asarray(policy.value)}, **roles)
    if array.n != table.n:
        raise DataFileError(table.path, f"{column} has {array.n} rows; the log has {table.n}")
    return array, column


def resolve(
    name: str,
    policy: TargetPolicy,
    *,
    table: Table,
    given: TargetTable | None,
    codes: ActionCodes,
    context: Mapping[str, np.ndarray[Any, Any]],
    actions: Sequence[str] | None,
    timeout: float,
) -> Target:
    """Return a policy over the log's rows.

    Parameters
    ----------
    name : its name, for messages.
    policy : what the user gave.
    table : the log's, with the columns that the policy names.
    given : the policy's own table, if it has one.
    codes : of the actions.
    context : the context columns before encoding.
    actions : the actions to which columns of arrays belong; those of the codes where None.
    timeout : seconds that a policy of a file may take.
    """
    if policy.form == "action":
        return Target(name, "action", action=codes.of(*policy_column(name, policy, table)))
    if policy.form == "probability":
        source, column = policy_column(name, policy, table)
        values = source.number(column)
        what = "is not a probability; write one of the logged action, 0 to 1"
        refuse_first(source, column, values, ~((values >= 0) & (values <= 1)), what)
        return Target(name, "probability", probability=values)
    if given is not None:
        return Target(name, "table", matrix=given.matrix(codes))
    form, given_as = policy.form, policy.value
    columns = codes.names if actions is None else tuple(actions)
    rows: Mapping[str, np.ndarray[Any, Any]] = context
    if form == "table":
        try:
            array = np.asarray(given_as, dtype=np.float64)
        except (TypeError, ValueError) as exc:
            msg = f"{name}: the array of probabilities holds other things than numbers"
            raise UsageError(msg) from exc
        if array.shape != (table.n, len(columns)):
            msg = f"{name}: table has shape {array.shape}; expected ({table.n}, {len(columns)})"
            raise UsageError(msg)
        rows = {"row": np.arange(table.n)}

        def given_as(part: Mapping[str, np.ndarray[Any, Any]]) -> Any:
            return array[part["row"]]

    if isinstance(given_as, DiscretePolicy):
        # It takes contexts as one array, and actions as codes.
        matrix = policy_of_function(
            lambda part: policy.value.table(np.column_stack(list(part.values())).astype(float)),
            rows,
            len(columns),
            name,
        )
    elif hasattr(given_as, "probability"):
        matrix = policy_of_pairs(given_as.probability, rows, columns, name)
    elif callable(given_as):
        matrix = policy_of_function(given_as, rows, len(columns), name)
    else:
        reference = str(policy.value)
        if not Path(reference.rpartition(":")[0]).is_file():
            msg = f"{name}: {reference}: no such file; expected FILE.py:NAME"
            raise UsageError(msg)
        if not registry().files_allowed:
            msg = f"{name}: {reference} is a file whose code would run; --no-code refuses that"
            raise UsageError(msg)
        matrix = policy_of_file(reference, context, columns, timeout=timeout, name=name)
    if columns != codes.names:
        place = {word: at for at, word in enumerate(columns)}
        matrix = sparse.csr_array(matrix[:, [place[word] for word in codes.names]])
        # Look-ups search in sorted columns.
        matrix.sort_indices()
    return Target(name, form, matrix=matrix)
