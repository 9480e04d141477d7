"""The user's policies as arrays over the log's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

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
from ope_bench.plugins.registry import registry
from ope_bench.tables import DataFileError, Table, finite_number

# The forms in which a user gives a policy.

Form = Literal["action", "probability", "table", "policy"]

FORMS: tuple[Form, ...] = ("action", "probability", "table", "policy")
"""The keys of a log file, of which a policy has exactly one."""

_FORMER = {"sampled": "action", "logged_probability": "probability", "predict": "policy"}
"""Former names of forms in Python."""


@dataclass(frozen=True, eq=False)
class TargetPolicy:
    """A policy of the user, in exactly one of four forms.

    Parameters
    ----------
    action : column of the log with the action that the policy took, once, in the row's context;
        in Python also an array (n,). Gives a target sample and no probabilities. Former name:
        ``sampled``.
    probability : column of the log with the policy's probability of the logged action; in
        Python also an array (n,). Gives what importance weights need and nothing else. Former
        name: ``logged_probability``.
    table : a file with the columns ``row`` (the log's rows, from 0), ``action`` and
        ``probability``, in which actions of probability zero may be left out; in Python also a
        data frame or mapping of these columns, or an array (n, n_actions) in the order of
        `Log.actions`. Gives everything.
    policy : ``FILE.py:NAME`` of an object with ``probability(context, action)``; in Python also
        the object, or a function of the contexts (a mapping of column names to arrays) that
        returns probabilities (k, n_actions). Gives everything. Former name: ``predict``.
    """

    action: Any = None
    probability: Any = None
    table: Any = None
    policy: Any = None
    # Not InitVar, which mypy loses where it must look at the class twice.
    sampled: Any = field(default=None, repr=False)
    logged_probability: Any = field(default=None, repr=False)
    predict: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        former = [getattr(self, name) for name in _FORMER]
        given: list[str] = [form for form in FORMS if getattr(self, form) is not None]
        given += [name for name, value in zip(_FORMER, former, strict=True) if value is not None]
        if len(given) != 1:
            msg = (
                f"a policy is given in {len(given)} forms ({', '.join(given) or 'none'}); give "
                f"exactly one of {', '.join(FORMS)}"
            )
            raise UsageError(msg)
        for (_, form), value in zip(_FORMER.items(), former, strict=True):
            if value is not None:
                object.__setattr__(self, form, value)

    @property
    def form(self) -> Form:
        """The form, by its key in a log file."""
        return next(form for form in FORMS if getattr(self, form) is not None)

    @property
    def value(self) -> Any:
        """The column, array, file or function that was given."""
        return getattr(self, self.form)

    @classmethod
    def of(cls, form: Form, value: Any) -> TargetPolicy:
        """Build the policy of a log file's key."""
        return cls(**{form: value})


def read_policy(given: Any, name: str) -> TargetPolicy:
    """Return the policy that a user's value means.

    Parameters
    ----------
    given : a column's name (the probability of the logged action), a mapping of one form to its
        value as in a log file, an array (n, n_actions), a data frame with the columns row, action
        and probability, a function of contexts, an object with ``probability``, or a
        `TargetPolicy`.
    name : of the policy, for messages.

    Raises
    ------
    UsageError : it is none of these.
    """
    if isinstance(given, TargetPolicy):
        return given
    if isinstance(given, str):
        return TargetPolicy(probability=given)
    if isinstance(given, Mapping) and not {"row", "action", "probability"} <= given.keys():
        if len(given) != 1:
            msg = f"{name}: {len(given)} forms; give exactly one of {', '.join(FORMS)}"
            raise UsageError(msg)
        ((key, value),) = given.items()
        form = _FORMER.get(str(key), str(key))
        if form not in FORMS:
            hint = did_you_mean(str(key), FORMS)
            msg = f"{name}: no form '{key}'{hint}; give one of {', '.join(FORMS)}"
            raise UsageError(msg)
        if value is None:
            msg = f"{name}: `{key}` is None; give a column, an array, a file or a function"
            raise UsageError(msg)
        return TargetPolicy(**{form: value})
    if isinstance(given, np.ndarray | list) and not getattr(given, "dtype", np.dtype(float)).names:
        array = np.asarray(given)
        if array.ndim == 1:
            msg = (
                f"{name}: an array of one dimension may be actions or probabilities; write "
                '{"action": array} or {"probability": array}'
            )
            raise UsageError(msg)
        return TargetPolicy(table=array)
    if callable(given) or hasattr(given, "probability"):
        return TargetPolicy(policy=given)
    if hasattr(given, "columns") or isinstance(given, Mapping | np.ndarray):
        return TargetPolicy(table=given)
    msg = (
        f"{name}: {type(given).__name__} is no policy; give a column's name, a mapping of one of "
        f"{', '.join(FORMS)}, an array (n, n_actions), a function of contexts or an object with "
        "probability(context, action)"
    )
    raise UsageError(msg)


def read_policies(given: Any, only: str) -> dict[str, TargetPolicy]:
    """Return the policies that a user's value means, by name.

    Parameters
    ----------
    given : one policy as for `read_policy`, or a mapping of names that are no forms to such.
    only : the name of one that has none.
    """
    if not isinstance(given, Mapping):
        return {only: read_policy(given, only)}
    if not given:
        msg = "target: no policy; give one, or several by name"
        raise UsageError(msg)
    if not all(isinstance(one, TargetPolicy) for one in given.values()):
        keys = {str(key) for key in given}
        # A misspelled form is no name of a policy.
        misspelled = len(keys) == 1 and did_you_mean(next(iter(keys)), FORMS)
        if misspelled or keys & {*FORMS, *_FORMER}:
            return {only: read_policy(given, only)}
    return {str(name): read_policy(one, str(name)) for name, one in given.items()}


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
