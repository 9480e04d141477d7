"""The user's policies as arrays over the log's rows."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
from scipy import sparse

from ope_bench.base.errors import UsageError, did_you_mean
from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.policies import DiscretePolicy
from ope_bench.logs.policy_code import (
    policy_of_file,
    policy_of_function,
    policy_of_object,
    values_of,
)
from ope_bench.logs.source import SLACK, distribution, load_table, probabilities_of
from ope_bench.plugins.registry import registry
from ope_bench.reader import Column, DataFileError, Table, finite_number, table_of
from ope_bench.reader.frames import in_order_of, is_shuffled, places_in, series_of, shortest
from ope_bench.reader.mistakes import is_index
from ope_bench.reader.text import name_of, sorted_names, spelled_as

# The forms in which a user gives a policy.

Form = Literal["action", "probability", "table", "list", "policy"]

FORMS: tuple[Form, ...] = ("action", "probability", "table", "list", "policy")
"""The keys of a log file, of which a policy has exactly one."""

_FORMER = {"sampled": "action", "logged_probability": "probability", "predict": "policy"}
"""Former names of forms in Python."""


@dataclass(frozen=True, eq=False)
class TargetPolicy:
    """A policy of the user, in exactly one of five forms.

    Parameters
    ----------
    action : column of the log with the action that the policy took, once, in the row's context;
        in Python also an array (n,). Gives a target sample and no probabilities. Former name:
        ``sampled``.
    probability : column of the log with the policy's probability of the logged action; in
        Python also an array (n,). Gives what importance weights need and nothing else. Former
        name: ``logged_probability``.
    table : a file with the columns ``row`` (the log's rows, from 0), ``action`` and
        ``probability``, in which actions of probability zero may be left out, or with a column
        for each action and as many rows as the log; in Python also a data frame or mapping of
        these columns, or an array (n, n_actions) in the order of ``actions``. Gives everything.
    list : column of the log with the list of probabilities of all ``actions``. Gives everything.
    policy : ``FILE.py:NAME`` of an object with ``probability(context, action)``; in Python also
        the object, a function of the contexts (a mapping of column names to arrays) that returns
        probabilities (k, n_actions) in the order of ``actions``, or a classifier of scikit-learn.
        Gives everything. Former name: ``predict``.
    """

    action: Any = None
    probability: Any = None
    table: Any = None
    list: Any = None
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
        value as in a log file, an array (n, n_actions), a data frame (long or wide, see
        `TargetPolicy`), a function of contexts, an object with ``probability``, a classifier of
        scikit-learn, or a `TargetPolicy`.
    name : of the policy, for messages.

    Raises
    ------
    UsageError : it is none of these.
    """
    if isinstance(given, TargetPolicy):
        return given
    if isinstance(given, str):
        return TargetPolicy(probability=given)
    if isinstance(given, Mapping) and not _is_table(given):
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
    series = type(given).__name__ == "Series"
    if series or (isinstance(given, np.ndarray | list) and not _is_structured(given)):
        array = np.asarray(given) if series else policy_array(given, name, None)
        if array.ndim == 1:
            msg = (
                f"{name}: an array of one dimension may be actions or probabilities; write "
                '{"action": array} or {"probability": array}'
            )
            raise UsageError(msg)
        return TargetPolicy(table=array)
    # First of all: a frame may have a column of any name, which some show as an attribute.
    if is_frame(given):
        return TargetPolicy(table=given)
    if callable(given) or hasattr(given, "probability") or hasattr(given, "predict_proba"):
        return TargetPolicy(policy=given)
    msg = (
        f"{name}: {type(given).__name__} is no policy; give a column's name, a mapping of one of "
        f"{', '.join(FORMS)}, an array (n, n_actions), a function of contexts or an object with "
        "probability(context, action)"
    )
    raise UsageError(msg)


def _is_structured(given: Any) -> bool:
    return isinstance(given, np.ndarray) and given.dtype.names is not None


def is_frame(given: Any) -> bool:
    """Return whether a value is a data frame or a mapping of columns."""
    if isinstance(given, Mapping) or _is_structured(given):
        return True
    # The columns of a lazy frame come with a warning.
    of_class = hasattr(type(given), "__arrow_c_stream__") or hasattr(given, "collect_schema")
    return of_class or hasattr(given, "columns")


def _is_table(given: Mapping[Any, Any]) -> bool:
    """Return whether a mapping holds columns of a long or wide table, not forms or names."""
    if {"row", "action", "probability"} <= given.keys():
        return True
    forms = {*FORMS, *_FORMER}
    return (
        len(given) > 1
        and not forms & {str(one) for one in given}
        and all(_is_column(one) and np.ndim(one) == 1 for one in given.values())
    )


def _is_column(given: Any) -> bool:
    """Return whether a value is a list, an array or a series of some library."""
    listed = isinstance(given, Sequence) and not isinstance(given, str)
    return listed or hasattr(given, "dtype") or hasattr(given, "to_pylist")


def read_policies(given: Any, only: str) -> dict[str, TargetPolicy]:
    """Return the policies that a user's value means, by name.

    Parameters
    ----------
    given : one policy as for `read_policy`, or a mapping of names that are no forms to such.
    only : the name of one that has none.
    """
    if not isinstance(given, Mapping) or _is_table(given):
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
        if logging is not None and (policy := self.whole(logging.shape[1])) is not None:
            supported = share @ policy.multiply((logging > 0).astype(np.float64)).sum(axis=1)
            return max(0.0, 1.0 - float(supported / share.sum()))
        if self.action is not None:
            return float(np.average(~np.isin(self.action, action), weights=share))
        if self.matrix is None:
            return None
        never = np.ones(self.matrix.shape[1])
        never[action] = 0.0
        return float(share @ (self.matrix @ never) / share.sum())

    def whole(self, n_actions: int) -> sparse.csr_array | None:
        """Return all probabilities, those of a sample being 0 and 1; None where unknown."""
        if self.action is None:
            return self.matrix
        at = np.arange(len(self.action)), self.action
        return sparse.csr_array((np.ones(len(self.action)), at), (len(self.action), n_actions))


class ActionCodes:
    """Names of actions, and their codes in sorted order; numbers sort as numbers.

    Parameters
    ----------
    names : of all actions.
    closed : where from, if no other action may occur.
    """

    def __init__(self, names: Iterable[str], closed: str | None = None) -> None:
        self.names = tuple(sorted_names([*names]))
        self._code = {name: code for code, name in enumerate(self.names)}
        self._closed = closed

    @property
    def are_numbers(self) -> bool:
        """Whether all names are integers, whose order goes without saying."""
        return all(name.removeprefix("-").isdecimal() for name in self.names)

    def require_order(self, name: str) -> None:
        """Refuse an array whose columns nobody named, unless the actions are integers."""
        if not self.are_numbers:
            shown = ", ".join(f'"{one}"' for one in self.names[:6])
            shown += ", ..." if self.names[6:] else ""
            msg = (
                f"{name}: the order of its actions is not known; the sorted one is "
                f"actions=[{shown}]; name them in the order of its columns, or give a frame with "
                "a column for each"
            )
            raise UsageError(msg)

    def of(self, table: Table, column: str) -> IntArray:
        """Return the codes of a column of names: (n,).

        Raises
        ------
        DataFileError : an action is not among the names.
        """
        codes, words = table.codes(column)
        words = spelled_as(words, self.names)
        known = np.array([self._code.get(word, -1) for word in words], dtype=np.int64)
        if (known < 0).any():
            row = int(np.argmax((known < 0)[codes]))
            word = words[codes[row]]
            hint = did_you_mean(word, self.names)
            what = f"action '{word}' is not in {self._closed}{hint}; add it there"
            table.raise_error(row, column, what)
        return known[codes]

    def place(self, columns: Sequence[str], name: str) -> IntArray:
        """Return the place of each action among the columns of an array."""
        at = {word: k for k, word in enumerate(spelled_as(columns, self.names))}
        missing = [one for one in self.names if one not in at]
        if missing:
            msg = f"{name}: action '{missing[0]}' is not in `actions`; add it there"
            raise UsageError(msg)
        return np.array([at[one] for one in self.names])


def refuse_near_names(sources: Mapping[str, Iterable[str]]) -> None:
    """Refuse a name that has no exact partner in another source, but one but for its spelling.

    Parameters
    ----------
    sources : names of actions, by where they come from.

    Raises
    ------
    UsageError : both spellings are named.
    """
    names = {source: set(found) for source, found in sources.items()}
    for source, found in names.items():
        others = {one: where for where, some in names.items() if where != source for one in some}
        folded = {_folded(one): one for one in others}
        for name in sorted(found - others.keys()):
            near = folded.get(_folded(name))
            if near is not None and near not in found:
                msg = (
                    f"action '{name}' of {source} and '{near}' of {others[near]} differ in "
                    "spelling alone; write one of them in both"
                )
                raise UsageError(msg)


def _folded(name: str) -> str:
    """Return a name without case, spaces and forms of characters and numbers."""
    text = "".join(unicodedata.normalize("NFKC", name).casefold().split())
    value = finite_number(text)
    return text if value is None else repr(value)


class TargetTable:
    """A file or frame of probabilities of actions, not yet coded.

    Long, with the columns row, action and probability, or wide, with a column for each action and
    a row for each of the log.

    Parameters
    ----------
    source : path, data frame or mapping of columns.
    log : the table of the log.
    rows : rows of it that are used; of the others nothing is asked.
    known : names of the logged actions.
    column : ``prediction`` for predictions of the reward, which need not sum to one.
    """

    def __init__(
        self,
        source: Any,
        log: Table,
        rows: IntArray,
        known: Sequence[str],
        column: str = "probability",
    ) -> None:
        long = ("row", "action", column)

        def chosen(names: list[str]) -> Sequence[str]:
            return long if len({*long} & {*names}) > 1 else names

        self.table = load_table(source, chosen, spelled=["action"], form=log.form)
        self.n, self.rows, self.column = log.n, rows, column
        self._known = {*map(name_of, known)}
        self.wide = not {*long} <= {*self.table.names}
        if self.wide:
            self._read_wide(log.index)
            return
        if log.index is not None and is_shuffled(log.index):
            what = (
                "`row` may be the label of the log's row or its place; `.reset_index(drop=True)`"
            )
            raise DataFileError(self.table.path, f"{what} of the log, and count from 0")
        place = np.full(log.n, -1)
        place[rows] = np.arange(len(rows))
        self.row = place[self._rows("row")]
        used = np.flatnonzero(self.row >= 0)
        self.table, self.row = self.table.select(used), self.row[used]
        self.value = self._values(column)
        self.actions = self.table.codes("action")[1]

    def _values(self, name: str) -> FloatArray:
        if self.column != "probability":
            return self.table.numbers(name)
        return probabilities_of(self.table, name, of="the row's action")

    def _rows(self, name: str) -> IntArray:
        """Return a column of rows of the log, counted from 0."""
        column = self.table.column(name)
        row = self.table.numbers(name, cure="count the log's rows from 0")
        what = f"is not a row of the log; its rows are 0 to {self.n - 1:,}; count from 0"
        what += _NO_INDEX if self.wide else ""
        wrong = (row != np.floor(row)) | (row < 0) | (row >= self.n)
        column.refuse_first(wrong, lambda one: f"{one} {what}")
        return row.astype(np.int64)

    def _read_wide(self, index: Any) -> None:
        labels = [one for one in self.table.names if is_index(one) or one.lower() in _LABELS]
        names = [one for one in self.table.names if one not in labels]
        what = f"{self.table.n:,} rows and the columns {', '.join(names[:5])}"
        how = f"the columns row, action, {self.column}, or one for each action"
        if self.table.n != self.n:
            what = f"has {what}; the log has {self.n:,} rows; give {how}, and a row for each"
            raise DataFileError(self.table.path, what)
        if labels:
            row = self._rows(labels[0])
            place, count = np.argsort(row), np.bincount(row, minlength=self.n)
            what = f"is there twice; count each row once, from 0{_NO_INDEX}"
            again = count[row] > 1
            self.table.column(labels[0]).refuse_first(again, lambda one: f"{one} {what}")
        elif (place := places_in(self.table.index, index, "the table of a target")) is None:
            place = np.arange(self.n)
        self.table = self.table.select(place[self.rows])
        for name in names:
            column = self.table.column(name)
            other = name_of(name) not in self._known
            if not column.is_number or (other and self._is_beyond(column)):
                cure = "and is no action of the log; leave it out, or " if other else ""
                what = f"column '{name}' holds no probabilities, {cure}give {how}"
                raise DataFileError(self.table.path, what)
        values = np.stack([self._values(name) for name in names], axis=1)
        self.actions = [name_of(name) for name in names]
        self.row, self._coded = np.divmod(np.arange(values.size), len(names))
        self.value = values.reshape(-1)

    def matrix(self, codes: ActionCodes) -> sparse.csr_array:
        """Return the probabilities or predictions: (n, n_actions).

        Raises
        ------
        DataFileError : a row has an action twice, or its probabilities do not sum to one.
        """
        if self.wide:
            place = {name: code for code, name in enumerate(codes.names)}
            labels = spelled_as(self.actions, codes.names)
            unknown = [name for name in labels if name not in place]
            if unknown:
                what = f"column '{unknown[0]}' is no known action; leave it out, or add it there"
                raise DataFileError(self.table.path, what)
            action = np.array([place[name] for name in labels])[self._coded]
        else:
            action = codes.of(self.table, "action")
        n_actions = len(codes.names)
        key = self.row * n_actions + action
        order = None if (key[1:] > key[:-1]).all() else np.argsort(key, kind="stable")
        if order is not None:
            same = np.flatnonzero(key[order][1:] == key[order][:-1])
            if len(same):
                at = int(order[same + 1].min())
                twice = (
                    f"row {self.rows[self.row[at]]:,} has action '{codes.names[action[at]]}' twice"
                )
                self.table.raise_error(0 if self.wide else at, "action", f"{twice}; keep one")
        pick = slice(None) if order is None else order
        count = np.bincount(self.row, minlength=len(self.rows))
        indptr = np.concatenate([[0], np.cumsum(count)])
        matrix = sparse.csr_array(
            (self.value[pick], action[pick].astype(np.int32), indptr),
            shape=(len(self.rows), n_actions),
        )
        return matrix if self.column != "probability" else self._distribution(matrix)

    def _distribution(self, matrix: sparse.csr_array) -> sparse.csr_array:
        def error(row: int, what: str) -> NoReturn:
            entries = np.flatnonzero(self.row == row)
            if self.wide or not len(entries):
                others = [one for one in self.actions if one not in self._known]
                hint = f"; '{others[0]}' is no action of the log, leave it out?" if others else ""
                where = self.table.place(row) if self.wide else ""
                raise DataFileError(self.table.path, what + hint, where=where)
            self.table.column("probability").error(int(entries[0]), what)

        return distribution(matrix, self.rows, error)

    def _is_beyond(self, column: Column) -> bool:
        values = column.numbers()
        beyond = (values < -SLACK) | (values > 1 + SLACK)
        return self.column == "probability" and bool(beyond.any())


_NO_INDEX = ", or leave the column out (`index=False`) where all rows are in the log's order"
_LABELS = ("row", "index")
"""Columns of a wide table that say which row of the log each of its rows is."""


def named_actions(given: Iterable[Any]) -> tuple[str, ...]:
    """Return the names of actions that a user lists, as a column of them would have.

    >>> named_actions([0.0, 1.0]), named_actions(["007", "7"]), named_actions(["1.0", "x"])
    (('0', '1'), ('007', '7'), ('1.0', 'x'))
    """
    listed = np.asarray(given).tolist() if isinstance(given, np.ndarray) else list(given)
    table = table_of({"actions": listed}, spelled=["actions"])
    codes, names = table.codes("actions")
    return tuple(names[code] for code in codes)


def policy_column(
    name: str, policy: TargetPolicy, table: Table, rows: IntArray
) -> tuple[Table, str]:
    """Return table and column of a policy that is a column of the log's table, or an array.

    Parameters
    ----------
    name, policy : the policy.
    table : the log's.
    rows : those that are used.
    """
    if isinstance(policy.value, str):
        return table.select(rows), policy.value
    column = f"target '{name}'"
    values = in_order_of(policy.value, table.index, column)
    spelled = [column] if policy.form == "action" else []
    array = load_table({column: values}, None, spelled=spelled, form=table.form)
    if array.n != table.n:
        raise DataFileError(table.path, f"{column} has {array.n} rows; the log has {table.n}")
    return array.select(rows), column


def resolve(
    name: str,
    policy: TargetPolicy,
    *,
    table: Table,
    rows: IntArray,
    given: TargetTable | None,
    column: tuple[Table, str] | None,
    codes: ActionCodes,
    context: Callable[[], Mapping[str, np.ndarray[Any, Any]]],
    actions: Sequence[str] | None,
    timeout: float,
) -> Target:
    """Return a policy over the log's rows.

    Parameters
    ----------
    name : its name, for messages.
    policy : what the user gave.
    table : the log's, with the columns that the policy names.
    rows : rows of it that are used.
    given : the policy's own table, if it has one.
    column : the policy's column of actions or probabilities, and its table, if it is one.
    codes : of the actions.
    context : returns the context columns before encoding, which few forms need.
    actions : the actions to which columns of arrays belong; those of the codes where None.
    timeout : seconds that a policy of a file may take.
    """
    if column is not None and policy.form == "action":
        return Target(name, "action", action=codes.of(*column))
    if column is not None:
        return Target(name, "probability", probability=probabilities_of(*column))
    if given is not None:
        return Target(name, "table", matrix=given.matrix(codes))
    form, value = policy.form, policy.value
    columns = codes.names if actions is None else tuple(actions)
    labeled = hasattr(value, "probability") or hasattr(value, "predict_proba")
    if actions is None and not labeled and (form == "list" or not isinstance(value, str)):
        codes.require_order(name)
    hint = ""
    if form in ("table", "list"):
        array = table.select(rows).column(value).vectors() if form == "list" else None
        if array is None:
            array = policy_array(value, name)
            array = array[rows] if len(array) == table.n else array
        if array.shape != (len(rows), len(columns)):
            msg = (
                f"{name}: table has shape {array.shape}; expected ({table.n}, {len(columns)}); "
                "name the actions of its columns by `actions`, those that were never logged too"
            )
            raise UsageError(msg)
        matrix = sparse.csr_array(array)
    elif isinstance(value, DiscretePolicy):
        # It takes contexts as one array, and actions as codes.
        matrix = policy_of_function(
            lambda part: value.table(np.column_stack(list(part.values())).astype(float)),
            context(),
            len(columns),
            name,
        )
    elif isinstance(value, str | Path):
        reference = str(value)
        if not Path(reference.rpartition(":")[0]).is_file():
            msg = f"{name}: {reference}: no such file; expected FILE.py:NAME"
            raise UsageError(msg)
        if not registry().files_allowed:
            msg = f"{name}: {reference} is a file whose code would run; --no-code refuses that"
            raise UsageError(msg)
        matrix = policy_of_file(reference, context(), columns, timeout=timeout, name=name)
    else:
        matrix = policy_of_object(value, context(), columns, name)
    if form == "policy":
        shown = ", ".join(map(repr, values_of(columns)[:3].tolist()))
        hint = f"; its actions are given as {shown}"

    def error(_: int, what: str) -> NoReturn:
        msg = f"{name}: {what}{hint}"
        raise UsageError(msg)

    matrix = distribution(matrix, rows, error)
    if columns != codes.names:
        matrix = sparse.csr_array(matrix[:, codes.place(columns, name)])
        # Look-ups search in sorted columns.
        matrix.sort_indices()
    return Target(name, form, matrix=matrix)


def policy_array(given: Any, name: str, dtype: Any = np.float64) -> FloatArray:
    """Return an array of probabilities; a third dimension of length one is left out."""
    try:
        if isinstance(given, np.ma.MaskedArray):
            # What is masked is missing.
            given = np.ma.filled(given.astype(np.float64), np.nan)
        array = np.asarray(given)
        if array.dtype in (np.float16, np.float32) and dtype is not None:
            # As in columns: the shortest text of each, so that .1 is .1.
            array = shortest(series_of(array.ravel())).to_numpy().reshape(array.shape)
        array = np.asarray(array, dtype=dtype)
    except (TypeError, ValueError) as exc:
        msg = f"{name}: the array holds other things than numbers, or rows differ in length"
        raise UsageError(msg) from exc
    return array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array
