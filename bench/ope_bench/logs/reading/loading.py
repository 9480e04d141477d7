"""Load and check the tables that a log's description names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.schema import Column, Schema
from ope_bench.logs.reading.asked_policy import LONGEST
from ope_bench.logs.reading.encoding import Encoded, encode
from ope_bench.logs.reading.log_data import LogData
from ope_bench.logs.reading.source import column_names, load_table, word_columns
from ope_bench.logs.reading.spec import Items, LogSpec
from ope_bench.logs.reading.targets import ActionCodes, Target, TargetTable, resolve
from ope_bench.tables.errors import DataFileError
from ope_bench.tables.table import StringColumn, Table

__all__ = ["load_log"]


def load_log(spec: LogSpec, timeout: float | None = None) -> LogData:
    """Load a log.

    Parameters
    ----------
    spec : what the user named.
    timeout : seconds that a policy of a Python file may take.

    Raises
    ------
    UsageError : a mistake in the data; the message has file, row, column and cure.
    """
    columns = _Columns.of(spec)
    table = _read(spec, columns)
    reward = table.number(spec.reward)
    if spec.reward_range is not None:
        _check_range(table, spec, reward)
    propensity = _propensity(table, spec)
    items = None if spec.items is None else _load_items(spec.items, spec.categorical)
    policies = dict(spec.targets)
    if spec.logging is not None:
        policies["logging"] = spec.logging
    tables = {
        name: TargetTable(policy.value, table.n)
        for name, policy in policies.items()
        if policy.form == "table" and not _is_array(policy.value)
    }
    codes = _action_codes(spec, table, items, tables)
    encoded = encode(table, spec.context, columns.categorical)
    contexts = _before_encoding(table, spec, columns)
    found: dict[str, Target] = {
        name: resolve(
            name,
            policy,
            table=table,
            given=tables.get(name),
            codes=codes,
            context=contexts,
            timeout=timeout or LONGEST,
        )
        for name, policy in policies.items()
    }
    logging = found.pop("logging") if spec.logging is not None else None
    action = codes.of(table, spec.action)
    embedding, kinds, notes = _embedding(items, codes)
    return LogData(
        context=encoded.values,
        action=action,
        reward=reward,
        schema=Schema(encoded.columns, kinds),
        context_names=encoded.names,
        actions=codes.names,
        propensity=propensity,
        embedding=embedding,
        unit=None if spec.unit is None else table.words(spec.unit)[0],
        time=None if spec.time is None else table.words(spec.time)[0],
        logging=None if logging is None else logging.matrix,
        targets=found,
        notes=(*encoded.notes, *notes),
        reward_range=spec.reward_range,
        spec=spec,
    )


@dataclass(frozen=True)
class _Columns:
    """The columns to read of the log's table.

    Parameters
    ----------
    categorical : context columns of words.
    numbers, words : all columns.
    """

    categorical: tuple[str, ...]
    numbers: tuple[str, ...]
    words: tuple[str, ...]

    @classmethod
    def of(cls, spec: LogSpec) -> _Columns:
        if spec.categorical is None:
            categorical = word_columns(spec.table, spec.context)
        else:
            categorical = tuple(name for name in spec.context if name in spec.categorical)
            _check_categorical(spec)
        words = [*categorical, spec.action]
        words += [name for name in (spec.unit, spec.time) if name is not None]
        numbers = [name for name in spec.context if name not in categorical]
        numbers += [spec.reward, *([] if spec.propensity is None else [spec.propensity])]
        for policy in spec.targets.values():
            if isinstance(policy.value, str) and policy.form in ("action", "probability"):
                (words if policy.form == "action" else numbers).append(policy.value)
        return cls(categorical, tuple(dict.fromkeys(numbers)), tuple(dict.fromkeys(words)))


def _check_categorical(spec: LogSpec) -> None:
    known = set(spec.context)
    if spec.items is not None:
        known |= set(spec.items.embedding or column_names(spec.items.table))
    stray = [name for name in spec.categorical or () if name not in known]
    if stray:
        what = f"categorical column '{stray[0]}' is in neither context nor items; add it to one"
        raise DataFileError(_name(spec.table), what)


def _name(source: Any) -> str:
    return str(source) if isinstance(source, str) or hasattr(source, "is_file") else "the frame"


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | list) and getattr(value, "dtype", None) is not object


def _read(spec: LogSpec, columns: _Columns) -> Table:
    """Read the log's table; a column of words and numbers alike is read as words."""
    both = set(columns.numbers) & set(columns.words)
    try:
        table = load_table(
            spec.table,
            numbers=[name for name in columns.numbers if name not in both],
            words=columns.words,
            optional=set(spec.context) - {spec.unit, spec.time},
        )
    except DataFileError as exc:
        name = next((one for one in spec.context if exc.where.endswith(f"column '{one}'")), None)
        if name is None or "missing" in exc.what:
            raise
        what = f"{exc.what}; if '{name}' holds words or codes, list it in `categorical`"
        raise DataFileError(exc.path, what, where=exc.where) from exc
    numbers: dict[str, FloatArray] = {}
    words: dict[str, StringColumn] = {}
    for name in both:
        values = table.as_numbers(name)
        if values is None:
            what = f"column '{name}' holds words; expected numbers"
            raise DataFileError(table.path, what)
        numbers[name] = values
    for name, policy in spec.targets.items():
        if isinstance(policy.value, str) or policy.form not in ("action", "probability"):
            continue
        column = f"target '{name}'"
        kind = {"words": [column]} if policy.form == "action" else {"numbers": [column]}
        part = load_table(
            {column: np.asarray(policy.value)}, **{"numbers": (), "words": (), **kind}
        )
        if part.n != table.n:
            raise DataFileError(table.path, f"{column} has {part.n} rows; the log has {table.n}")
        numbers |= part.number_columns
        words |= part.word_columns
    return table.with_columns(numbers, words)


def _check_range(table: Table, spec: LogSpec, reward: FloatArray) -> None:
    assert spec.reward_range is not None  # noqa: S101  the caller's condition
    low, high = spec.reward_range
    outside = (reward < low) | (reward > high)
    if outside.any():
        row = int(np.argmax(outside))
        what = f"{reward[row]:g} is outside of reward_range [{low:g}, {high:g}]; correct either"
        table.raise_error(row, spec.reward, what)


def _propensity(table: Table, spec: LogSpec) -> FloatArray | None:
    if spec.propensity is None:
        return None
    values = table.number(spec.propensity)
    wrong = (values <= 0) | (values > 1)
    if wrong.any():
        row = int(np.argmax(wrong))
        why = "is above 1" if values[row] > 1 else "is not positive, but the action was logged"
        cure = "; write the probability with which the log's policy chose the logged action"
        table.raise_error(row, spec.propensity, f"{values[row]:g} {why}{cure}")
    return values


@dataclass(frozen=True, eq=False)
class _LoadedItems:
    table: Table
    key: str
    encoded: Encoded


def _load_items(items: Items, categorical: tuple[str, ...] | None) -> _LoadedItems:
    names = items.embedding or tuple(
        name for name in column_names(items.table) if name != items.key
    )
    if not names:
        raise DataFileError(_name(items.table), "no column describes the items")
    if categorical is None:
        categorical = word_columns(items.table, names)
    words = [name for name in names if name in categorical]
    table = load_table(
        items.table,
        numbers=[name for name in names if name not in categorical],
        words=[*words, items.key],
        optional=set(names),
    )
    codes, keys = table.words(items.key)
    if len(keys) < len(codes):
        first = np.unique(codes, return_index=True)[1]
        row = int(np.setdiff1d(np.arange(len(codes)), first)[0])
        table.raise_error(row, items.key, f"item '{keys[codes[row]]}' is there twice; keep one")
    return _LoadedItems(table, items.key, encode(table, names, words, atoms=True))


def _action_codes(
    spec: LogSpec, table: Table, items: _LoadedItems | None, tables: dict[str, TargetTable]
) -> ActionCodes:
    if items is not None:
        return ActionCodes(set(items.table.words(items.key)[1]), f"the items ({items.table.path})")
    names = set(table.words(spec.action)[1])
    for name, policy in spec.targets.items():
        if policy.form == "action":
            column = policy.value if isinstance(policy.value, str) else f"target '{name}'"
            names |= set(table.words(column)[1])
    for one in tables.values():
        names |= one.words()
    if len(names) < 2:
        what = (
            f"column '{spec.action}' has one action only, '{next(iter(names))}'; a log needs two "
            "actions or more"
        )
        raise DataFileError(table.path, what)
    return ActionCodes(names)


def _before_encoding(
    table: Table, spec: LogSpec, columns: _Columns
) -> dict[str, np.ndarray[Any, Any]]:
    found: dict[str, np.ndarray[Any, Any]] = {}
    for name in spec.context:
        if name in columns.categorical:
            codes, words = table.words(name)
            found[name] = np.array(words)[codes]
        else:
            found[name] = table.number(name)
    return found


def _embedding(
    items: _LoadedItems | None, codes: ActionCodes
) -> tuple[FloatArray | None, tuple[Column, ...], tuple[str, ...]]:
    if items is None:
        return None, (), ()
    at = codes.of(items.table, items.key)
    values = np.empty_like(items.encoded.values)
    values[at] = items.encoded.values
    return values, items.encoded.columns, items.encoded.notes
