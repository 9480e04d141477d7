"""The table of logged decisions as arrays; errors name row and column."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from ope_bench import (
    Column,
    DataFileError,
    FloatArray,
    IntArray,
    ParameterError,
    Table,
    read_table,
)

__all__ = ["LogColumns", "LoggedDecisions", "EXAMPLE", "read_decisions"]

EXAMPLE = Path(__file__).with_name("example.csv")


@dataclass(frozen=True)
class LogColumns:
    """The roles of the table's columns.

    Parameters
    ----------
    context, action, reward : names.
    propensity : of the logged action; None where unknown.
    embedding : columns that describe the action.
    categorical : columns of context and embedding that contain words or codes.
    """

    context: tuple[str, ...]
    action: str
    reward: str
    propensity: str | None
    embedding: tuple[str, ...]
    categorical: tuple[str, ...]

    def __post_init__(self) -> None:
        named = [*self.context, self.action, self.reward, *self.embedding]
        named += [self.propensity] if self.propensity else []
        twice = next((name for name in named if named.count(name) > 1), None)
        if twice is not None:
            msg = f"logs: column '{twice}' is named twice; context, action, reward must differ"
            raise ParameterError(msg)
        stray = set(self.categorical) - {*self.context, *self.embedding}
        if stray:
            msg = f"logs: categorical column '{min(stray)}' is in neither context nor embedding"
            raise ParameterError(msg)
        if not self.context:
            msg = "logs: name at least one context column"
            raise ParameterError(msg)


@dataclass(frozen=True, eq=False)
class LoggedDecisions:
    """Logged decisions.

    Parameters
    ----------
    context : (n, d_context), codes of categorical columns
    columns : their kinds
    action : (n,)
    actions : the actions' names
    reward : (n,)
    propensity : (n,) or None
    embedding : (n_actions, d_embedding), one-hot without embedding columns
    embedding_columns : their kinds
    """

    context: FloatArray
    columns: tuple[Column, ...]
    action: IntArray
    actions: tuple[str, ...]
    reward: FloatArray
    propensity: FloatArray | None
    embedding: FloatArray
    embedding_columns: tuple[Column, ...]


def read_decisions(path: str | None, columns: LogColumns) -> LoggedDecisions:
    """Read the table, or the example if ``path`` is None.

    Raises
    ------
    UnavailableError : there is no such file.
    DataFileError : a column is missing, a value is wrong, an action has two embeddings.
    """
    file = EXAMPLE if path is None else Path(path)
    stat = file.stat() if file.is_file() else None
    return _read(file, columns, (stat.st_mtime_ns, stat.st_size) if stat else None)


@lru_cache(maxsize=2)
def _read(path: Path, columns: LogColumns, _state: object) -> LoggedDecisions:
    described = (*columns.context, *columns.embedding)
    categorical = set(columns.categorical)
    words = [name for name in described if name in categorical]
    numbers = [name for name in described if name not in categorical]
    given = [columns.propensity] if columns.propensity else []
    try:
        named = [*words, columns.action]
        table = read_table(path, [*numbers, columns.reward, *given, *named], spelled=named)
        for described_by in numbers:
            table.numbers(described_by)
    except DataFileError as exc:
        name = next((name for name in numbers if exc.where.endswith(f"column '{name}'")), None)
        if name is None:
            raise
        what = f"{exc.what}; if '{name}' contains words or codes, add it to 'categorical'"
        raise DataFileError(exc.path, what, where=exc.where) from exc
    action, names = table.codes(columns.action)
    if len(names) < 2:
        raise DataFileError(path, f"column '{columns.action}' has one action only, {names[0]!r}")
    propensity = table.numbers(columns.propensity, high=1) if columns.propensity else None
    if propensity is not None and (propensity <= 0).any():
        row = int(np.argmax(propensity <= 0))
        what = f"{propensity[row]:g} is not positive, but the action was logged"
        table.raise_error(row, str(columns.propensity), what)
    context, kinds = _encoded(table, columns.context, columns.categorical)
    embedding, embedding_kinds = (
        np.eye(len(names)),
        (Column("categorical", (0.0, 1.0)),) * len(names),
    )
    if columns.embedding:
        shown, embedding_kinds = _encoded(table, columns.embedding, columns.categorical)
        embedding = _by_action(table, columns.embedding, action, shown)
        embedding_kinds = tuple(
            kind if kind.kind == "categorical" else Column("atoms") for kind in embedding_kinds
        )
    reward = table.numbers(columns.reward)
    return LoggedDecisions(
        context, kinds, action, tuple(names), reward, propensity, embedding, embedding_kinds
    )


def _encoded(
    table: Table, names: tuple[str, ...], categorical: tuple[str, ...]
) -> tuple[FloatArray, tuple[Column, ...]]:
    arrays, kinds = [], []
    coded = set(categorical)
    for name in names:
        if name in coded:
            code, words = table.codes(name)
            arrays.append(code.astype(np.float64))
            kinds.append(Column("categorical", tuple(map(float, range(len(words))))))
        else:
            arrays.append(table.numbers(name))
            kinds.append(Column())
    return np.stack(arrays, axis=1), tuple(kinds)


def _by_action(
    table: Table, names: tuple[str, ...], action: IntArray, shown: FloatArray
) -> FloatArray:
    """Return one row per action; rows of the same action must be equal."""
    first = np.unique(action, return_index=True)[1]
    differs = shown != shown[first[action]]
    if differs.any():
        row, column = map(int, np.argwhere(differs)[0])
        what = f"differs from {table.place(int(first[action[row]]))}, which has the same action"
        table.raise_error(row, names[column], what)
    return shown[first]
