"""Load and check the tables that a log's description names, and make arrays of them."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from ope_bench.base.errors import UsageError
from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.data import Column as SchemaColumn
from ope_bench.contracts.data import Schema
from ope_bench.logs.log_data import (
    ESTIMATED,
    LEVELS_SEEN,
    ColumnFact,
    Items,
    LogData,
    LogSpec,
    most_levels,
)
from ope_bench.logs.policy_code import LONGEST
from ope_bench.logs.source import load_table, probabilities_of
from ope_bench.logs.targets import (
    ActionCodes,
    Target,
    TargetTable,
    is_frame,
    policy_array,
    policy_column,
    refuse_near_names,
    resolve,
)
from ope_bench.reader import Column, DataFileError, Table
from ope_bench.reader.column import BoolArray
from ope_bench.reader.frames import FRAME
from ope_bench.reader.mistakes import is_index
from ope_bench.reader.text import has_comma, is_nearly_number, spelled_as


def load_log(
    spec: LogSpec,
    timeout: float | None = None,
    *,
    table: Table | None = None,
    levels: Mapping[str, list[str]] | None = None,
) -> LogData:
    """Load a log.

    Parameters
    ----------
    spec : what the user named.
    timeout : seconds that a policy of a Python file may take.
    table : the columns, where they are read already.
    levels : sorted names of categories, where these rows may hold some of them only.

    Raises
    ------
    UsageError : a mistake in the data; the message has file, row, column and cure.
    """
    table = _read(spec) if table is None else table
    context = context_names(spec.context, table.names, spec.roles)
    table, kept, dropped = without_missing(spec, table)
    rows = np.flatnonzero(kept)
    used = table if kept.all() else table.select(rows)
    reward, *others = (_reward(spec, name, used) for name in spec.rewards)
    propensity = weight = None
    if spec.propensity not in (None, ESTIMATED):
        propensity = probabilities_of(used, spec.propensity, positive=True)
        if spec.smallest_propensity is not None:
            floor = spec.smallest_propensity
            what = f"is under smallest_propensity, {floor:g}; correct either"
            low = propensity < floor * (1 - 1e-9)
            used.column(spec.propensity).refuse_first(low, lambda one: f"{one} {what}")
    stand_for: tuple[str, ...] = ()
    if spec.weight is not None:
        weight = used.numbers(spec.weight)
        what = "is not positive; write for how many rows the row stands, or leave it out"
        used.column(spec.weight).refuse_first(weight <= 0, lambda one: f"{one} {what}")
        stand_for = (f"{spec.weight}: {used.n:,} rows stand for {weight.sum():,.0f}",)
    items = described = None
    if spec.items is not None:
        items, described = _load_items(spec, spec.items)
    for name in spec.categorical or ():
        if name not in context and (described is None or name not in described.names):
            what = f"categorical column '{name}' is in neither context nor items; add it to one"
            raise DataFileError(table.path, what)
    policies = dict(spec.targets)
    if spec.logging is not None:
        policies["logging"] = spec.logging
    known = used.column(spec.action).codes()[1]
    tables = {
        name: TargetTable(policy.value, table, rows, known)
        for name, policy in policies.items()
        if policy.form == "table" and (is_frame(policy.value) or _is_path(policy.value))
    }
    predicted = spec.predicted_reward
    predictions = None
    if isinstance(predicted, Mapping):
        predictions = TargetTable(predicted["table"], table, rows, known, "prediction")
    columns = {
        name: policy_column(name, policy, table, rows)
        for name, policy in policies.items()
        if policy.form == "action"
    }
    codes, apart = _action_codes(spec, used, items, tables, predictions, columns, levels or {})
    logged = codes.of(used, spec.action)
    encoded = encode(used, context, spec.categorical, levels=levels or {})
    found: dict[str, Target] = {
        name: resolve(
            name,
            policy,
            table=table,
            rows=rows,
            given=tables.get(name),
            column=columns.get(name) or policy_column(name, policy, table, rows)
            if policy.form in ("action", "probability")
            else None,
            codes=codes,
            context=lambda: raw_columns(used, context) or {"row": rows},
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
    time = None if spec.time is None else used.column(spec.time).times()
    rewards = None
    if predicted is not None:
        rewards = _predicted_rewards(spec, table, rows, predictions, codes, logged, found)
    return LogData(
        context=encoded.values,
        action=logged,
        reward=reward,
        schema=Schema(encoded.columns, () if described is None else described.columns),
        context_names=encoded.names,
        levels=encoded.levels,
        actions=codes.names,
        propensity=propensity,
        estimated_propensity=spec.propensity == ESTIMATED,
        predicted_reward=rewards,
        embedding=embedding,
        weight=weight,
        unit=None if spec.unit is None else _unit(used, spec.unit, spec.largest_unit),
        time=None if time is None else time[0],
        time_span=None if time is None else time[1],
        logging=None if logging is None else logging.matrix,
        targets=found,
        notes=(
            *dropped,
            *encoded.notes,
            *(() if described is None else described.notes),
            *stand_for,
            *apart,
            *_left_out(spec, table.names, context),
            *((ESTIMATED_NOTE,) if spec.propensity == ESTIMATED else ()),
        ),
        reward_range=spec.reward_range,
        columns=(*encoded.facts, *_facts(spec, used, None if time is None else time[1])),
        smallest_propensity=spec.smallest_propensity,
        spec=spec,
        other_rewards=dict(zip(spec.other_rewards, others, strict=True)),
    )


def _is_path(value: Any) -> bool:
    return isinstance(value, str | Path)


# Roles of the log's table


def _needed(spec: LogSpec) -> dict[str, str]:
    """Return the columns, by role, without which a row says nothing."""
    found = {"action": spec.action, "reward": spec.reward}
    found |= {f"reward {name}": name for name in spec.other_rewards}
    if spec.propensity not in (None, ESTIMATED):
        found["propensity"] = str(spec.propensity)
    return found


def _read(spec: LogSpec) -> Table:
    """Read the columns of the log's table that are named."""
    named = list(_needed(spec).values())
    named += [one for one in (spec.weight, spec.unit, spec.time) if one is not None]
    if isinstance(spec.predicted_reward, Mapping) and "logged" in spec.predicted_reward:
        named.append(spec.predicted_reward["logged"])
    spelled = {spec.action, spec.unit, *(spec.categorical or ())}
    spelled |= {spec.time} if spec.form.time_format else set()
    for policy in (*spec.targets.values(), *([spec.logging] if spec.logging else [])):
        if isinstance(policy.value, str) and policy.form in ("action", "probability", "list"):
            named.append(policy.value)
            spelled |= {policy.value} if policy.form == "action" else set()

    def chosen(names: list[str]) -> list[str]:
        if spec.propensity == ESTIMATED and ESTIMATED in names:
            what = f"column '{ESTIMATED}' has the name that asks for estimates; rename it"
            raise DataFileError(spec.table if _is_path(spec.table) else FRAME, what)
        return [*context_names(spec.context, names, spec.roles), *named]

    return load_table(spec.table, chosen, spelled=spelled, form=spec.form)


def context_names(
    given: Sequence[str], names: Sequence[str], roles: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the columns that names and patterns such as ``emb_*`` mean.

    A pattern takes no column of another role, and no index that pandas wrote.
    """
    found: list[str] = []
    for one in given:
        hits = [one]
        if one not in names and any(mark in one for mark in "*?["):
            hits = fnmatch.filter(names, one)
            free = [hit for hit in hits if hit not in roles and not is_index(hit)]
            hits = free or hits or [one]
        found += hits
    return tuple(dict.fromkeys(found))


def _left_out(spec: LogSpec, names: Sequence[str], context: Sequence[str]) -> tuple[str, ...]:
    """Return a note on columns of other roles that patterns of the context would take."""
    others = [one for one in context_names(spec.context, names) if one not in context]
    return (f"context: patterns leave out {', '.join(others)}, of other roles",) if others else ()


def without_missing(spec: LogSpec, table: Table) -> tuple[Table, BoolArray, tuple[str, ...]]:
    """Return the table, which rows have action, reward and propensity, and a note on the others.

    A row that has all values is kept, whatever its words.
    """
    kept = np.ones(table.n, dtype=bool)
    missing = {
        role: table.column(name).codes()[0] < ("" in table.column(name).codes()[1])
        if role == "action"
        else table.missing(name)
        for role, name in _needed(spec).items()
    }
    if spec.drop_missing:
        kept = ~np.logical_or.reduce(list(missing.values()))
    else:
        first = {role: int(np.argmax(one)) for role, one in missing.items() if one.any()}
        if first:
            role = min(first, key=lambda one: first[one])
            cure = "0 where nothing came" if role.startswith("reward") else "or leave the row out"
            how = "--drop-missing, or `drop_missing: true` in a log file"
            what = f"{cure} ({how}, counts on the rows that have all values)"
            what = f"the value is missing; fill it in, {what}"
            table.raise_error(first[role], _needed(spec)[role], what)
    if kept.all():
        return table, kept, ()
    if not kept.any():
        raise DataFileError(table.path, f"every row lacks {' or '.join(missing)}; fill some in")
    counts = ", ".join(f"{role} {one.sum():,}" for role, one in missing.items() if one.any())
    note = f"{(~kept).sum():,} of {table.n:,} rows left out, since values are missing: {counts}"
    return table, kept, (note,)


def _reward(spec: LogSpec, name: str, table: Table) -> FloatArray:
    cure = "write a number, or true and false (`missing` names words that say there is none)"
    reward = table.numbers(name, yes_no=True, cure=cure)
    if spec.reward_range is not None:
        low, high = spec.reward_range
        what = f"is outside of reward_range [{low:g}, {high:g}]; correct either"
        wrong = (reward < low) | (reward > high)
        table.column(name).refuse_first(wrong, lambda one: f"{one} {what}")
    return reward


def _unit(table: Table, name: str, largest: int | None) -> IntArray:
    column = table.column(name)
    column.require_values()
    unit = column.groups()
    most = int(np.bincount(unit).max())
    if largest is not None and most > largest:
        msg = f"largest_unit: {largest} is not the most rows; one {name} has {most:,}"
        raise UsageError(msg)
    return unit


ESTIMATED_NOTE = (
    "propensities are estimated: a classifier of actions that has not seen the row's unit, "
    "calibrated; standard errors take them as known"
)


def _predicted_rewards(
    spec: LogSpec,
    table: Table,
    rows: IntArray,
    given: TargetTable | None,
    codes: ActionCodes,
    logged: IntArray,
    targets: Mapping[str, Target],
) -> FloatArray:
    """Return predicted rewards, 0 where no policy needs one: (n, n_actions).

    Raises
    ------
    DataFileError : a prediction is missing, given twice, or given differently.
    """
    n, at = len(rows), np.arange(len(rows))
    if given is None:
        array = policy_array(spec.predicted_reward, "predicted_reward")
        columns = codes.names if spec.actions is None else spec.actions
        if spec.actions is None:
            codes.require_order("predicted_reward")
        if array.shape != (expected := (table.n, len(columns))):
            what = f"predicted_reward has shape {array.shape}; expected {expected}"
            raise DataFileError(table.path, what)
        found = array[rows][:, codes.place(columns, "predicted_reward")]
    else:
        found = np.full((n, len(codes.names)), np.nan)
        matrix = given.matrix(codes)
        found[np.repeat(at, np.diff(matrix.indptr)), matrix.indices] = matrix.data
    if given is not None and (name := spec.predicted_reward.get("logged")) is not None:
        column = table.select(rows).column(name)
        own, other = column.numbers(), found[at, logged]
        apart = np.abs(own - other) > _SAME_PREDICTION * (1.0 + np.abs(own))
        what = "is not the prediction that the table has for this row and action; correct one"
        column.refuse_first(apart, lambda one: f"{one} {what}")
        found[at, logged] = own
    needed: dict[str, tuple[Any, Any]] = {"the logged action": (at, logged)}
    for target in targets.values():
        if target.matrix is not None:
            wanted = target.matrix.tocoo()
            needed[f"policy '{target.name}'"] = wanted.row, wanted.col
    for whose, (row, action) in needed.items():
        missing = np.isnan(found[row, action])
        if missing.any():
            k = int(np.argmax(missing))
            what = (
                f"no prediction for row {rows[row[k]]:,}, action '{codes.names[action[k]]}', "
                f"which {whose} needs; add it"
            )
            raise DataFileError(table.path if given is None else given.table.path, what)
    found[np.isnan(found)] = 0.0
    return found


_SAME_PREDICTION = 1e-6


def _load_items(spec: LogSpec, items: Items) -> tuple[Table, _Encoded]:
    """Return the table of items, and its columns as numbers in the order of its rows."""
    categorical = spec.categorical

    def chosen(names: list[str]) -> list[str]:
        found = items.embedding or (one for one in names if one != items.key and not is_index(one))
        return [items.key, *found]

    spelled = [items.key, *(categorical or ())]
    table = load_table(items.table, chosen, spelled=spelled, form=spec.form)
    names = items.embedding or tuple(name for name in table.names if name != items.key)
    if not names:
        raise DataFileError(table.path, "no column describes the items")
    codes, keys = table.codes(items.key)
    if len(keys) < len(codes):
        first = np.unique(codes, return_index=True)[1]
        row = int(np.setdiff1d(np.arange(len(codes)), first)[0])
        table.raise_error(row, items.key, f"item '{keys[codes[row]]}' is there twice; keep one")
    return table, encode(table, names, categorical, items=True)


def _action_codes(
    spec: LogSpec,
    table: Table,
    items: Table | None,
    tables: Mapping[str, TargetTable],
    predictions: TargetTable | None,
    columns: Mapping[str, tuple[Table, str]],
    levels: Mapping[str, list[str]],
) -> tuple[ActionCodes, tuple[str, ...]]:
    """Return the codes of all actions that are named, and notes on tables of others."""
    column = table.column(spec.action)
    logged = levels.get(spec.action) or column.codes()[1]
    if not 0 < len(levels.get(spec.action, ())) <= MOST_FLOATS:
        _refuse_continuous(column)
    sources: dict[str, list[str]] = {f"column '{spec.action}'": logged}
    for name, (source, of) in columns.items():
        found = source.column(of).codes()[1]
        sources[f"policy '{name}'"] = found
        known = {*logged, *(spec.actions or ())}
        if source.column(of).is_number and not {*found} & known and items is None:
            shown = ", ".join(found[:2])
            msg = (
                f"{name}: {shown} are no actions of column '{spec.action}'; give a column of "
                "actions, or did you mean the probability of the logged action (`probability`, "
                f"--target-probability {of})?"
            )
            raise UsageError(msg)
    sources |= {f"the table of '{name}'": one.actions for name, one in tables.items()}
    if predictions is not None:
        sources["the predictions"] = predictions.actions
    if spec.actions is not None:
        sources["`actions`"] = list(spec.actions)
    if items is not None and spec.items is not None:
        sources[f"the items ({items.path})"] = items.codes(spec.items.key)[1]
    sources = {source: spelled_as(found, logged) for source, found in sources.items()}
    refuse_near_names(sources)
    apart = _apart(sources, tables, predictions)
    if items is not None and spec.items is not None:
        known = set(sources[f"the items ({items.path})"])
        if spec.actions is not None and known != {*sources["`actions`"]}:
            name = sorted(known ^ {*sources["`actions`"]})[0]
            what = f"action '{name}' is in one of items and `actions` only; name the same in both"
            raise DataFileError(items.path, what)
        return ActionCodes(known, f"the items ({items.path})"), apart
    if spec.actions is not None:
        return ActionCodes(sources["`actions`"], "`actions`"), apart
    names = {name for some in sources.values() for name in some} - {""}
    if len(names) < 2:
        what = (
            f"column '{spec.action}' has one action only, '{next(iter(names))}'; a log needs two "
            "actions or more"
        )
        raise DataFileError(table.path, what)
    return ActionCodes(names), apart


def _apart(
    sources: Mapping[str, Sequence[str]],
    tables: Mapping[str, TargetTable],
    predictions: TargetTable | None,
) -> tuple[str, ...]:
    """Return what tables name beside and instead of the log's actions.

    Raises
    ------
    UsageError : it names none of them, or its labels are the numbers of a frame without names.
    """
    given = {f"the table of '{name}'": one for name, one in tables.items()}
    given |= {"the predictions": predictions} if predictions is not None else {}
    known = {name for source, found in sources.items() if source not in given for name in found}
    logged = [name for name in next(iter(sources.values())) if name]
    notes = []
    for source, one in given.items():
        labels = list(dict.fromkeys(sources[source]))
        others = [name for name in labels if name not in known]
        lacking = [name for name in logged if name not in labels]
        unnamed = one.wide and one.actions == [str(k) for k in range(len(labels))]
        shown, of = (", ".join(some[:5]) for some in (labels, logged))
        if others and (len(others) == len(labels) or (unnamed and lacking)):
            msg = f"{source} has {shown}; the log's actions are {of}; name them alike, or give an "
            raise UsageError(msg + "array with `actions` in the order of its columns")
        if others and lacking:
            what = f"{', '.join(others[:5])}, which the log has not, and lacks"
            notes.append(f"{source} names {what} {', '.join(lacking[:5])}; is it of this log?")
    return tuple(notes)


MOST_FLOATS, LEAST_ROWS_OF_FLOAT = 100, 10
"""Fractions are names of actions if there are so few, and so many rows have each."""


def _refuse_continuous(column: Column) -> None:
    """Refuse actions that are fractions, unless they are few and frequent."""
    if column.kind != "float":
        return
    values, counts = np.unique(column.numbers(), return_counts=True)
    if (values == np.round(values)).all():
        return
    if len(values) <= MOST_FLOATS and counts.min() >= LEAST_ROWS_OF_FLOAT:
        return
    row = int(np.argmax(column.numbers() != np.round(column.numbers())))
    hint = ""
    if values.min() >= 0 and values.max() <= 1:
        hint = "; if these are probabilities, name the column of actions instead"
    column.error(
        row,
        f"continuous actions: {len(values):,} different numbers, such as {column.shown(row)}; no "
        f"estimator here takes them; make groups of them (a name each){hint}",
    )


@dataclass(frozen=True, eq=False)
class _Encoded:
    """Columns of a table as numbers.

    Parameters
    ----------
    values : (n, d)
    columns : (d,), kinds of the columns.
    names : (d,), column of the table from which each was made.
    notes : what was done about missing values, one line each.
    facts : what was understood of each column.
    levels : names of the levels, by code, of the columns that hold categories.
    """

    values: FloatArray
    columns: tuple[SchemaColumn, ...]
    names: tuple[str, ...]
    notes: tuple[str, ...]
    facts: tuple[ColumnFact, ...]
    levels: dict[str, tuple[str, ...]]


def encode(
    table: Table,
    names: Sequence[str],
    categorical: Collection[str] | None,
    *,
    items: bool = False,
    levels: Mapping[str, list[str]] | None = None,
) -> _Encoded:
    """Encode columns: names as codes, numbers and vectors as they are.

    A missing number is replaced by the column's median, and a further column says where; a missing
    name is a category of its own. Of a category with more levels than `most_levels` the most
    frequent ones are kept.

    Parameters
    ----------
    table : the columns.
    names : columns, in this order.
    categorical : those of them that hold names, beside those that are found.
    items : whether numbers describe finitely many items.
    levels : sorted names of categories that are known beforehand.
    """
    found: list[tuple[FloatArray, SchemaColumn, str]] = []
    notes: list[str] = []
    facts: list[ColumnFact] = []
    words: dict[str, tuple[str, ...]] = {}
    for name in names:
        column = table.column(name)
        role = "items" if items else "context"
        if column.missing.all() and not (levels and name in levels):
            raise DataFileError(table.path, f"column '{name}' has no value; remove it")
        if name in (categorical or ()) or holds_names(column):
            code, distinct = column.codes()
            if levels and name in levels:
                at = {one: place for place, one in enumerate(levels[name])}
                code, distinct = np.array([at[one] for one in distinct])[code], levels[name]
            kept, shown, identifier = code, list(distinct), False
            if not items and not levels and len(distinct) > most_levels(table.n):
                identifier = True
                frequent, kept = _most_frequent(code)
                shown = [*(distinct[one] for one in frequent), "any other"]
                notes.append(
                    f"{name}: {len(distinct):,} levels in {table.n:,} rows, an identifier, free "
                    f"text or times; models see the {LEVELS_SEEN} most frequent and one for the "
                    "others; leave it out, group it, or give numbers (an embedding)"
                )
            words[name] = tuple(one or "missing" for one in shown)
            kind = SchemaColumn("categorical", tuple(map(float, range(len(shown)))))
            found.append((kept.astype(np.float64), kind, name))
            missing = int((code == 0).sum()) if distinct[0] == "" else 0
            if missing:
                notes.append(f"{name}: {missing:,} missing, a category of their own")
            facts.append(
                replace(
                    fact_of(column, role),
                    type=f"{column.kind}, category" if column.kind != "text" else "text",
                    levels=len(distinct) - bool(missing),
                    low=None,
                    high=None,
                    missing=missing,
                    identifier=identifier,
                )
            )
            continue
        facts.append(fact_of(column, role))
        kind = SchemaColumn("atoms") if items else SchemaColumn()
        if column.holds_vectors:
            vectors = column.vectors()
            found += [(one, kind, f"{name}[{k}]") for k, one in enumerate(vectors.T)]
            continue
        values = column.numbers(cure=_NAMES_CURE.format(name))
        if (row := column.inexact()) is not None:
            what = f"{column.shown(row)} has more digits than a float keeps"
            column.error(row, f"{what}; {_IDS_CURE.format(name)}")
        missing_at = np.isnan(values)
        if not missing_at.any():
            found.append((values, kind, name))
            continue
        median = float(np.median(values[~missing_at]))
        found.append((np.where(missing_at, median, values), kind, name))
        found.append(
            (missing_at.astype(np.float64), SchemaColumn("categorical", (0.0, 1.0)), name)
        )
        notes.append(
            f"{name}: {int(missing_at.sum()):,} missing, set to the median {median:g} and "
            "marked by an indicator"
        )
    if not found:
        # Estimators want at least one column.
        found = [(np.zeros(table.n), SchemaColumn(), "no context")]
    arrays, kinds, origins = zip(*found, strict=True)
    return _Encoded(np.stack(arrays, axis=1), kinds, origins, tuple(notes), tuple(facts), words)


def _most_frequent(code: IntArray) -> tuple[IntArray, IntArray]:
    """Return the most frequent levels in their order, and codes of them and of all others."""
    count = np.bincount(code)
    kept = np.sort(np.argsort(-count, kind="stable")[:LEVELS_SEEN])
    place = np.full(len(count), LEVELS_SEEN)
    place[kept] = np.arange(LEVELS_SEEN)
    return kept, place[code]


def holds_names(column: Column) -> bool:
    """Return whether a column that nobody calls categorical holds names.

    Raises
    ------
    DataFileError : it holds times, or numbers but for a few cells.
    """
    if column.is_number or column.kind in ("list", "other", "float") or column.holds_vectors:
        return False
    _refuse_times(column)
    odd = column.odd()
    valued = ~column.missing
    row = int(np.argmax(odd))
    first = column.shown(row)
    nearly = has_comma(first) or is_nearly_number(first, column.form.decimal)
    if nearly or odd.sum() <= valued.sum() / 2:
        cure = f"write a number, or `missing: {first!r}` if it says that there is none"
        column.error(
            row,
            f"{column.no_number(first, cure)}; {odd.sum():,} of {valued.sum():,} values are none; "
            f"if '{column.name}' holds names or codes, list it in `categorical`",
        )
    return True


def _refuse_times(column: Column) -> None:
    """Refuse a column of times: as names, each of them would be a category."""
    some = [column.shown(int(row)) for row in np.flatnonzero(~column.missing)[:_LOOKED_AT]]
    if column.kind == "time" or (some and all(map(_is_timestamp, some))):
        what = (
            f"column '{column.name}' holds timestamps ('{some[0]}'); make numbers of them (the "
            "hour, days since a date), name it as `time`, or list it in `categorical`"
        )
        raise DataFileError(column.path, what)


_LOOKED_AT = 1000


def _is_timestamp(word: str) -> bool:
    try:
        datetime.fromisoformat(word)
    except ValueError:
        return False
    return "-" in word


_IDS_CURE = "if '{}' holds identifiers, leave it out or list it in `categorical`; else divide it"
_NAMES_CURE = "write a number; if '{}' holds names or codes, list it in `categorical`"


def raw_columns(table: Table, context: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
    """Return what a policy sees: the columns as they stand in the table, lists as vectors."""
    return {
        name: table.column(name).vectors()
        if table.column(name).holds_vectors
        else table.as_it_stands(name)
        for name in context
    }


# What was understood


def fact_of(column: Column, role: str) -> ColumnFact:
    """Return what was understood of a column of numbers, vectors or times."""
    missing = column.missing
    low = high = None
    if column.is_number and not missing.all():
        values = column.numbers()
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
    first = int(np.argmin(missing))
    return ColumnFact(
        name=column.name,
        role=role,
        type=column.kind,
        low=low,
        high=high,
        missing=int(missing.sum()),
        example=column.shown(first),
    )


def _facts(spec: LogSpec, table: Table, span: tuple[str, str] | None) -> list[ColumnFact]:
    """Return what was understood of the columns that are no context."""
    found = []
    roles: dict[str, str | None] = {"action": spec.action, "unit": spec.unit}
    for name, policy in spec.targets.items():
        if isinstance(policy.value, str) and policy.form in ("action", "probability", "list"):
            roles[f"target '{name}' ({policy.form})"] = policy.value
    named_roles = [*roles.items(), *(("reward", one) for one in spec.rewards)]
    for role in ("propensity", "weight", "time"):
        value = getattr(spec, role)
        named_roles.append((role, None if value == ESTIMATED and role == "propensity" else value))
    for role, named in named_roles:
        if named is None or named not in table.names:
            continue
        column = table.column(named)
        fact = fact_of(column, role)
        timed = column.kind in ("text", "time") or spec.form.time_format is not None
        if role == "time" and span is not None and timed:
            fact = replace(fact, type="time", low=span[0], high=span[1])
        if role in ("action", "unit") or "(action)" in role:
            levels = column.levels
            fact = replace(fact, levels=levels, low=None, high=None)
        found.append(fact)
    return found
