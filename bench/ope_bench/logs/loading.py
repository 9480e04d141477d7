"""Load and check the tables that a log's description names, and make arrays of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.data import Column, Schema
from ope_bench.logs.asked_policy import LONGEST
from ope_bench.logs.log_data import ESTIMATED, Items, LogData, LogSpec
from ope_bench.logs.source import (
    LOOKED_AT,
    BoolArray,
    column_names,
    load_table,
    path_of,
    refuse_first,
    word_columns,
)
from ope_bench.logs.targets import ActionCodes, Target, TargetTable, policy_column, resolve
from ope_bench.tables import DataFileError, StringColumn, Table


def load_log(
    spec: LogSpec, timeout: float | None = None, *, table: Table | None = None
) -> LogData:
    """Load a log.

    Parameters
    ----------
    spec : what the user named.
    timeout : seconds that a policy of a Python file may take.
    table : the columns, where they are read already.

    Raises
    ------
    UsageError : a mistake in the data; the message has file, row, column and cure.
    """
    if spec.categorical is None:
        categorical = word_columns(spec.table, spec.context)
    else:
        categorical = tuple(name for name in spec.context if name in spec.categorical)
        known = set(spec.context)
        if spec.items is not None:
            known |= set(spec.items.embedding or column_names(spec.items.table))
        stray = [name for name in spec.categorical if name not in known]
        if stray:
            what = (
                f"categorical column '{stray[0]}' is in neither context nor items; add it to one"
            )
            raise DataFileError(path_of(spec.table), what)
    table = _read(spec, categorical) if table is None else table
    table, kept, dropped = _without_missing(spec, table)
    rows = None if kept.all() else np.flatnonzero(kept)
    if spec.categorical is None:
        _refuse_timestamps(table, categorical)
    reward = table.number(spec.reward)
    if spec.reward_range is not None:
        low, high = spec.reward_range
        what = f"is outside of reward_range [{low:g}, {high:g}]; correct either"
        refuse_first(table, spec.reward, reward, (reward < low) | (reward > high), what)
    propensity = None
    if spec.propensity not in (None, ESTIMATED):
        propensity = table.number(spec.propensity)
        cure = "write the probability with which the log's policy chose the logged action"
        refuse_first(table, spec.propensity, propensity, propensity > 1, f"is above 1; {cure}")
        what = f"is not positive, but the action was logged; {cure}"
        refuse_first(table, spec.propensity, propensity, propensity <= 0, what)
        tiny = propensity < np.finfo(np.float64).tiny
        refuse_first(
            table, spec.propensity, propensity, tiny, f"is so small that 1/p overflows; {cure}"
        )
    weight = None
    stand_for: tuple[str, ...] = ()
    if spec.weight is not None:
        weight = table.number(spec.weight)
        what = "is not positive; write for how many rows the row stands, or leave it out"
        refuse_first(table, spec.weight, weight, weight <= 0, what)
        n, total = len(weight[kept]), float(weight[kept].sum())
        stand_for = (f"{spec.weight}: {n:,} rows stand for {total:,.0f}",)
    items = described = None
    if spec.items is not None:
        items, described = _load_items(spec.items, spec.categorical)
    policies = dict(spec.targets)
    if spec.logging is not None:
        policies["logging"] = spec.logging
    tables = {
        name: TargetTable(policy.value, table.n)
        for name, policy in policies.items()
        if policy.form == "table" and not isinstance(policy.value, np.ndarray | list)
    }
    predicted = spec.predicted_reward
    predictions = None
    if isinstance(predicted, Mapping):
        predictions = TargetTable(predicted["table"], table.n, "prediction")
    named = [*tables.values(), *([] if predictions is None else [predictions])]
    codes = _action_codes(spec, table, items, named)
    logged = codes.of(table, spec.action)
    encoded = _encode(table if rows is None else table.select(rows), spec.context, categorical)
    encoded_context = encoded.values
    if rows is not None:
        # Rows that are left out below have no context.
        encoded_context = np.zeros((table.n, encoded.values.shape[1]))
        encoded_context[rows] = encoded.values
    # What a policy sees: words as words, numbers with NaN where they are missing.
    contexts: dict[str, np.ndarray[Any, Any]] = {}
    for name in spec.context:
        if name in categorical:
            code, words = table.words(name)
            contexts[name] = np.array(words)[code]
        else:
            contexts[name] = table.number(name)
    found: dict[str, Target] = {
        name: resolve(
            name,
            policy,
            table=table,
            given=tables.get(name),
            codes=codes,
            context=contexts,
            actions=spec.actions,
            timeout=timeout or LONGEST,
        )
        for name, policy in policies.items()
    }
    logging = found.pop("logging") if spec.logging is not None else None
    embedding = None
    if spec.items is not None and items is not None and described is not None:
        embedding = np.empty_like(described.values)
        embedding[codes.of(items, spec.items.key)] = described.values
    time = None if spec.time is None else table.words(spec.time)
    rewards = None
    if predicted is not None:
        rewards = _predicted_rewards(spec, table, predictions, codes, logged, found, kept)
    log = LogData(
        context=encoded_context,
        action=logged,
        reward=reward,
        schema=Schema(encoded.columns, () if described is None else described.columns),
        context_names=encoded.names,
        actions=codes.names,
        propensity=propensity,
        estimated_propensity=spec.propensity == ESTIMATED,
        predicted_reward=rewards,
        embedding=embedding,
        weight=weight,
        unit=None if spec.unit is None else table.words(spec.unit)[0],
        time=None if time is None else time[0],
        time_span=None if time is None else (time[1][0], time[1][-1]),
        logging=None if logging is None else logging.matrix,
        targets=found,
        notes=(
            *dropped,
            *encoded.notes,
            *(() if described is None else described.notes),
            *stand_for,
            *((ESTIMATED_NOTE,) if spec.propensity == ESTIMATED else ()),
        ),
        reward_range=spec.reward_range,
        spec=spec,
    )
    return log if rows is None else log.part(rows)


def _without_missing(spec: LogSpec, table: Table) -> tuple[Table, BoolArray, tuple[str, ...]]:
    """Return the table, which rows have action, reward and propensity, and a note on the others.

    The table gets some action where it has none, so that its other columns can be read first.
    """
    kept = np.ones(table.n, dtype=bool)
    if spec.drop_missing:
        missing = {role: table.missing(name) for role, name in _needed(spec).items()}
        kept = ~np.logical_or.reduce(list(missing.values()))
    if kept.all():
        return table, kept, ()
    if not kept.any():
        raise DataFileError(table.path, f"every row lacks {' or '.join(missing)}; fill some in")
    codes, words = table.words(spec.action)
    actions = StringColumn()
    actions.extend_coded(codes, [word or words[-1] for word in words])
    counts = ", ".join(f"{role} {one.sum():,}" for role, one in missing.items() if one.any())
    note = f"{(~kept).sum():,} of {table.n:,} rows left out, since values are missing: {counts}"
    return table.with_columns({}, {spec.action: actions}), kept, (note,)


def _needed(spec: LogSpec) -> dict[str, str]:
    """Return the columns, by role, without which a row says nothing."""
    found = {"action": spec.action, "reward": spec.reward}
    if spec.propensity not in (None, ESTIMATED):
        found["propensity"] = str(spec.propensity)
    return found


ESTIMATED_NOTE = (
    "propensities are estimated: a classifier of actions that has not seen the row's unit, "
    "calibrated; standard errors take them as known"
)


def _predicted_rewards(
    spec: LogSpec,
    table: Table,
    given: TargetTable | None,
    codes: ActionCodes,
    logged: IntArray,
    targets: Mapping[str, Target],
    kept: BoolArray,
) -> FloatArray:
    """Return predicted rewards, 0 where no policy needs one: (n, n_actions).

    Raises
    ------
    DataFileError : a prediction is missing, given twice, or given differently.
    """
    n, n_actions = table.n, len(codes.names)
    rows = np.arange(n)
    if given is None:
        array = np.asarray(spec.predicted_reward, dtype=np.float64)
        columns = codes.names if spec.actions is None else spec.actions
        if array.shape != (n, len(columns)):
            what = f"predicted_reward has shape {array.shape}; expected ({n}, {len(columns)})"
            raise DataFileError(table.path, what)
        place = {name: at for at, name in enumerate(columns)}
        found = array[:, [place[name] for name in codes.names]]
    else:
        found = np.full((n, n_actions), np.nan)
        matrix = given.matrix(codes)
        found[np.repeat(rows, np.diff(matrix.indptr)), matrix.indices] = matrix.data
    if given is not None and (name := spec.predicted_reward.get("logged")) is not None:
        own, other = table.number(name), found[rows, logged]
        apart = kept & (np.abs(own - other) > _SAME_PREDICTION * (1.0 + np.abs(own)))
        what = "is not the prediction that the table has for this row and action; correct one"
        refuse_first(table, name, own, apart, what)
        found[rows, logged] = own
    needed: dict[str, tuple[Any, Any]] = {"the logged action": (rows, logged)}
    for target in targets.values():
        if target.matrix is not None:
            wanted = target.matrix.tocoo()
            needed[f"policy '{target.name}'"] = wanted.row, wanted.col
    for whose, (row, action) in needed.items():
        missing = kept[row] & np.isnan(found[row, action])
        if missing.any():
            at = int(np.argmax(missing))
            what = (
                f"no prediction for row {row[at]:,}, action '{codes.names[action[at]]}', which "
                f"{whose} needs; add it"
            )
            raise DataFileError(table.path if given is None else given.table.path, what)
    found[np.isnan(found)] = 0.0
    return found


_SAME_PREDICTION = 1e-6


def _refuse_timestamps(table: Table, names: Sequence[str]) -> None:
    """Raise an error at a column of dates: as words, each of them would be a category."""
    for name in names:
        some = [word for word in table.words(name)[1] if word][:LOOKED_AT]
        if some and all(_is_timestamp(word) for word in some):
            what = (
                f"column '{name}' holds timestamps ('{some[0]}'); make numbers of them (the hour, "
                "days since a date), name it as `time`, or list it in `categorical`"
            )
            raise DataFileError(table.path, what)


def _is_timestamp(word: str) -> bool:
    try:
        datetime.fromisoformat(word)
    except ValueError:
        return False
    return "-" in word


def _read(spec: LogSpec, categorical: Sequence[str]) -> Table:
    """Read the log's table; a column of words and numbers alike is read as words."""
    words = [*categorical, spec.action]
    words += [name for name in (spec.unit, spec.time) if name is not None]
    numbers = [name for name in spec.context if name not in categorical]
    propensity = spec.propensity
    if propensity == ESTIMATED:
        if ESTIMATED in column_names(spec.table):
            what = f"column '{ESTIMATED}' has the name that asks for estimates; rename it"
            raise DataFileError(path_of(spec.table), what)
        propensity = None
    numbers += [name for name in (spec.reward, propensity, spec.weight) if name is not None]
    if isinstance(spec.predicted_reward, Mapping) and "logged" in spec.predicted_reward:
        numbers.append(spec.predicted_reward["logged"])
    for policy in spec.targets.values():
        if isinstance(policy.value, str) and policy.form in ("action", "probability"):
            (words if policy.form == "action" else numbers).append(policy.value)
    try:
        return load_table(
            spec.table,
            numbers=[name for name in dict.fromkeys(numbers) if name not in words],
            words=list(dict.fromkeys(words)),
            optional=set(spec.context) - {spec.unit, spec.time}
            | set(_needed(spec).values() if spec.drop_missing else ()),
        )
    except DataFileError as exc:
        needed = any(exc.where.endswith(f"column '{one}'") for one in _needed(spec).values())
        if needed and "missing" in exc.what:
            what = f"{exc.what} (--drop-missing, or `drop_missing: true` in a log file, does that)"
            raise DataFileError(exc.path, what, where=exc.where) from exc
        name = next((one for one in spec.context if exc.where.endswith(f"column '{one}'")), "")
        if not name or "missing" in exc.what:
            raise
        what = f"{exc.what}; if '{name}' holds words or codes, list it in `categorical`"
        raise DataFileError(exc.path, what, where=exc.where) from exc


def _load_items(items: Items, categorical: tuple[str, ...] | None) -> tuple[Table, _Encoded]:
    """Return the table of items, and its columns as numbers in the order of its rows."""
    names = items.embedding or tuple(
        name for name in column_names(items.table) if name != items.key
    )
    if not names:
        raise DataFileError(path_of(items.table), "no column describes the items")
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
    return table, _encode(table, names, words, atoms=True)


def _action_codes(
    spec: LogSpec, table: Table, items: Table | None, tables: Sequence[TargetTable]
) -> ActionCodes:
    if spec.items is not None and items is not None:
        known = set(items.words(spec.items.key)[1])
        if spec.actions is not None and known != {*spec.actions}:
            name = sorted(known ^ {*spec.actions})[0]
            what = f"action '{name}' is in one of items and `actions` only; name the same in both"
            raise DataFileError(items.path, what)
        return ActionCodes(known, f"the items ({items.path})")
    if spec.actions is not None:
        return ActionCodes(set(spec.actions), "`actions`")
    names = set(table.words(spec.action)[1])
    for name, policy in spec.targets.items():
        if policy.form == "action":
            source, column = policy_column(name, policy, table)
            names |= set(source.words(column)[1])
    for one in tables:
        names |= set(one.table.words("action")[1])
    if len(names) < 2:
        what = (
            f"column '{spec.action}' has one action only, '{next(iter(names))}'; a log needs two "
            "actions or more"
        )
        raise DataFileError(table.path, what)
    return ActionCodes(names)


@dataclass(frozen=True, eq=False)
class _Encoded:
    """Columns of a table as numbers.

    Parameters
    ----------
    values : (n, d)
    columns : (d,), kinds of the columns.
    names : (d,), column of the table from which each was made.
    notes : what was done about missing values, one line each.
    """

    values: FloatArray
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    notes: tuple[str, ...]


def _encode(
    table: Table, names: Sequence[str], categorical: Collection[str], *, atoms: bool = False
) -> _Encoded:
    """Encode columns: words as codes; numbers as they are.

    A missing number is replaced by the column's median, and a further column says where; a missing
    word is a category of its own.

    Parameters
    ----------
    table : the columns, with NaN and empty words where values are missing.
    names : columns, in this order.
    categorical : those of them that hold words or codes.
    atoms : numbers describe finitely many items.
    """
    found: list[tuple[FloatArray, Column, str]] = []
    notes: list[str] = []
    for name in names:
        if name in categorical:
            code, distinct = table.words(name)
            kind = Column("categorical", tuple(map(float, range(len(distinct)))))
            found.append((code.astype(np.float64), kind, name))
            if "" in distinct:
                missing = int((code == distinct.index("")).sum())
                notes.append(f"{name}: {missing:,} missing, a category of their own")
            continue
        values = table.number(name)
        missing_at = np.isnan(values)
        if missing_at.all():
            raise DataFileError(table.path, f"column '{name}' has no value; remove it")
        kind = Column("atoms") if atoms else Column()
        if not missing_at.any():
            found.append((values, kind, name))
        else:
            median = float(np.median(values[~missing_at]))
            found.append((np.where(missing_at, median, values), kind, name))
            found.append((missing_at.astype(np.float64), Column("categorical", (0.0, 1.0)), name))
            notes.append(
                f"{name}: {int(missing_at.sum()):,} missing, set to the median {median:g} and "
                "marked by an indicator"
            )
    arrays, kinds, origins = zip(*found, strict=True)
    return _Encoded(np.stack(arrays, axis=1), kinds, origins, tuple(notes))
