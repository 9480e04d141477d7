"""Typed columns of data frames, mappings of arrays, and objects of Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from ope_bench.base.errors import UsageError
from ope_bench.reader.library import LibraryRefusalError, guarded, library
from ope_bench.reader.mistakes import Columns, DataFileError, wanted_columns
from ope_bench.reader.table import Table
from ope_bench.reader.text import (
    EXACT,
    TextForm,
    as_kind,
    half_character,
    narrow,
    settle,
    without_missing,
)

FRAME = Path("the frame")


def table_of(
    source: Any,
    columns: Columns = None,
    *,
    spelled: Collection[str] = (),
    form: TextForm | None = None,
) -> Table:
    """Return the named columns of a frame as a table.

    Parameters
    ----------
    source : a data frame of pandas, Polars (eager or lazy), pyarrow (also a data set) or DuckDB,
        a mapping of names to arrays, lists or series, or a structured array.
    columns : those wanted, or a function that chooses among the names, all if None; the others
        are not looked at.
    spelled, form : as for `read_table`.

    Raises
    ------
    UsageError : it is no frame, a column is missing, or columns differ in length or order.
    """
    form = form or TextForm()
    names, get = _columns_of(source)
    wanted = wanted_columns(FRAME, names, columns)
    try:
        with guarded(FRAME):
            found = get(wanted)
            lengths = {name: len(one) for name, one in zip(wanted, found, strict=True)}
            if len(set(lengths.values())) > 1:
                shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
                raise DataFileError(FRAME, f"columns differ in length ({shown})")
            if not sum(lengths.values()):
                raise DataFileError(FRAME, "has columns but no rows")
            return typed_table(
                FRAME,
                lambda row: f"row {row:,}",
                library().DataFrame(dict(zip(wanted, found, strict=True))),
                frozenset(spelled),
                form,
                index=index_of(source, wanted),
                lack=lambda name: _missing_of(source, name),
            )
    except LibraryRefusalError as exc:
        raise DataFileError(FRAME, f"cannot be read: {exc}") from exc


def _columns_of(source: Any) -> tuple[list[str], Any]:
    """Return the names of a source's columns, and a function that returns some as series."""
    package = type(source).__module__.partition(".")[0]
    if package == "polars" and hasattr(source, "collect_schema"):
        lazy = source.lazy()
        names = lazy.collect_schema().names()
        return names, lambda wanted: lazy.select(wanted).collect().get_columns()
    if isinstance(source, Mapping):
        found = {str(name): column for name, column in source.items()}
        return [*map(str, source)], lambda wanted: [
            series_of(one, name) for name, one in _aligned(found, wanted).items()
        ]
    if isinstance(source, np.ndarray) and source.dtype.names:
        return list(source.dtype.names), lambda wanted: [series_of(source[k], k) for k in wanted]
    if package == "pandas" and hasattr(source, "columns"):
        labels = {str(label): label for label in source.columns}
        return [*map(str, source.columns)], lambda wanted: [
            series_of(source[labels[k]], k) for k in wanted
        ]
    if package == "pyarrow" and hasattr(source, "schema"):
        names = [str(name) for name in source.schema.names]
        part = source.to_table if hasattr(source, "to_table") else source.select
        return names, lambda wanted: _of_arrow(part(columns=wanted), wanted)
    if package in ("duckdb", "_duckdb") and hasattr(source, "columns"):
        return list(source.columns), lambda wanted: _of_duckdb(source, wanted)
    if hasattr(source, "__arrow_c_stream__") and type(source).__name__ != "Series":
        frame = library().DataFrame(source)
        return frame.columns, lambda wanted: frame.select(wanted).get_columns()
    if hasattr(source, "columns") and hasattr(source, "__getitem__"):
        names = [str(name) for name in source.columns]
        return names, lambda wanted: [series_of(source[name], name) for name in wanted]
    msg = (
        f"expected a data frame (pandas, Polars, pyarrow, DuckDB) or a mapping of columns, not "
        f"{type(source).__name__}"
    )
    raise UsageError(msg)


def _of_arrow(table: Any, wanted: Sequence[str]) -> list[Any]:
    return list(library().DataFrame(library().from_arrow(table)).select(wanted).get_columns())


def _of_duckdb(relation: Any, wanted: Sequence[str]) -> list[Any]:
    chosen = relation.project(", ".join('"' + name.replace('"', '""') + '"' for name in wanted))
    if hasattr(chosen, "__arrow_c_stream__"):
        try:
            return list(library().DataFrame(chosen).get_columns())
        except ImportError:
            pass
    rows = chosen.fetchall()
    return [series_of([row[k] for row in rows], name) for k, name in enumerate(wanted)]


def _aligned(columns: Mapping[str, Any], wanted: Sequence[str]) -> dict[str, Any]:
    """Return columns of a mapping in one order, that of the first series with an index."""
    index = index_of(columns, wanted)
    return {name: in_order_of(columns[name], index, f"column '{name}'") for name in wanted}


def is_indexed(values: Any) -> bool:
    """Return whether values are a series or frame of pandas, which has an index."""
    return type(values).__module__.partition(".")[0] == "pandas" and hasattr(values, "index")


def index_of(source: Any, wanted: Sequence[str]) -> Any:
    """Return the index of a frame of pandas, or of the first series wanted of a mapping."""
    values = {wanted[0]: source} if not isinstance(source, Mapping) else source
    given = {name: one for name, one in values.items() if str(name) in wanted}
    indexed = {name: one.index for name, one in given.items() if is_indexed(one)}
    if len(indexed) < len(given):
        for name, index in indexed.items():
            places_in(index, None, f"column '{name}'")
    return next(iter(indexed.values()), None)


def in_order_of(values: Any, index: Any, what: str) -> Any:
    """Return a series of pandas in the order of an index; anything else as it is."""
    places = places_in(values.index, index, what) if is_indexed(values) else None
    return values if places is None else values.iloc[places]


def is_shuffled(index: Any) -> bool:
    """Return whether an index has the numbers from 0, in another order."""
    rows = [*range(len(index))]
    return [*index] != rows and {*index} == {*rows}


def places_in(index: Any, other: Any, what: str) -> Any:
    """Return where in an index the entries of another one are; None where rows are in one order.

    Raises
    ------
    UsageError : it has other entries, or the numbers from 0 while the other has them in another
        order: its rows may be in their order, or in that of the other's rows.
    """
    if index is None or (other is not None and index.equals(other)):
        return None
    if other is None and not is_shuffled(index):
        return None
    if other is not None and len(index) == len(other):
        anew, numbered = ([*one] == [*range(len(index))] for one in (index, other))
        same = index.is_unique and other.is_unique and other.isin(index).all()
        if same and not anew:
            return index.get_indexer(other)
        if (anew or numbered) and not same:
            # Numbered anew from 0: the order is that of the rows.
            return None
    msg = f"{what}: its index differs from that of the frame; give both the same, or both "
    msg += "`.reset_index(drop=True)` where their rows are in one order"
    raise UsageError(msg)


# Series


def series_of(values: Any, name: str = "") -> Any:
    """Return values of any library as a Polars series."""
    pl = library()
    if isinstance(values, pl.Series):
        return values.alias(name)
    if is_indexed(values):
        return _of_pandas(values, name)
    if hasattr(values, "to_pylist") and hasattr(values, "type"):
        return pl.Series(name, pl.from_arrow(values))
    if not isinstance(values, np.ndarray) and not isinstance(values, list | tuple | range):
        values = np.asarray(values)
    if not isinstance(values, np.ndarray):
        return _of_objects(list(values), name)
    if isinstance(values, np.ma.MaskedArray):
        return _of_masked(values, name)
    if values.ndim > 1 and values.dtype.kind in "biuf":
        return pl.Series(name, values.reshape(len(values), -1).astype(np.float64))
    if values.dtype.kind in "biuf":
        if values.dtype.itemsize > 8:
            values = values.astype(np.float64)
        if values.dtype == np.float16:
            return pl.Series(name, [str(one) for one in values]).cast(pl.Float64)
        values = values.astype(values.dtype.newbyteorder("="))
        return pl.Series(name, np.ascontiguousarray(values))
    if values.dtype.kind == "M":
        return pl.Series(name, values.astype("datetime64[us]"))
    return _of_objects(values.tolist(), name)


def _of_masked(values: np.ma.MaskedArray[Any, Any], name: str) -> Any:
    """Return a masked array of NumPy: what is masked is missing, in vectors too."""
    if values.ndim > 1:
        return series_of(np.ma.filled(values.astype(np.float64), np.nan), name)
    series, mask = series_of(values.data, name), np.ma.getmaskarray(values)
    nothing = library().repeat(None, len(series), dtype=series.dtype, eager=True)
    return series.zip_with(library().Series(~mask), nothing)


def _of_pandas(column: Any, name: str) -> Any:
    """Return a column of pandas, of NumPy's types, nullable ones or Arrow's, without pyarrow."""
    pl = library()
    kind = str(getattr(column.dtype, "kind", "O"))
    if isinstance(column.dtype, np.dtype) and kind in "biuf":
        return series_of(column.to_numpy(), name)
    missing = column.isna().to_numpy(dtype=bool)
    if kind in "biu" and not hasattr(column.dtype, "categories"):
        wide = {"b": np.bool_, "i": np.int64, "u": np.uint64}[kind]
        values = column.to_numpy(dtype=wide, na_value=wide(0))
        return pl.Series(name, values).set(pl.Series(missing), None)
    if kind == "M" and not str(column.dtype).startswith("date32"):
        at = column if getattr(column.dt, "tz", None) is None else column.dt.tz_convert("UTC")
        at = at.dt.tz_localize(None) if getattr(at.dt, "tz", None) is not None else at
        return pl.Series(name, at.to_numpy(dtype="datetime64[us]")).set(pl.Series(missing), None)
    if kind == "f" and str(column.dtype).lower().startswith(("float32", "float[py", "halffloat")):
        kept = column.to_numpy(dtype=np.float32, na_value=np.float32("nan"))
        return series_of(kept, name)
    if kind == "f":
        return series_of(column.to_numpy(dtype=np.float64, na_value=np.nan), name)
    values = column.tolist()
    return _of_objects(
        [None if gone else v for v, gone in zip(values, missing, strict=True)], name
    )


def _of_objects(values: list[Any], name: str) -> Any:
    """Return objects of Python as the type that all of them have, else as texts."""
    pl = library()
    found = [None if _is_none(value) else value for value in values]
    kinds = {_class_of(value) for value in found if value is not None}
    if kinds <= {bool}:
        return pl.Series(name, found, dtype=pl.Boolean if kinds else pl.String)
    if kinds <= {bool, int}:
        texts = [None if one is None else str(int(one)) for one in found]
        exact = pl.Series(name, texts, dtype=pl.String).cast(pl.Int128, strict=False)
        return narrow(exact) if exact.null_count() == found.count(None) else pl.Series(name, texts)
    if kinds <= {bool, int, float}:
        large = [
            k for k, one in enumerate(found) if isinstance(one, Integral) and abs(int(one)) > EXACT
        ]
        if large and all(one is None or one // 1 == one for one in found):
            return _of_objects([None if one is None else int(one) for one in found], name)
        if large:
            what = (
                f"{found[large[0]]} has more digits than a float keeps; other rows have fractions"
            )
            where = f"row {large[0]}, column '{name}'"
            raise DataFileError(FRAME, f"{what}, write texts", where=where)
        return pl.Series(name, [None if one is None else float(one) for one in found])
    if kinds == {datetime}:
        zoned = [getattr(one, "tzinfo", None) is not None for one in found]
        naive = [one is not None and not has for one, has in zip(found, zoned, strict=True)]
        if any(zoned) and any(naive):
            where = f"row {naive.index(True)}, column '{name}'"
            what = "names no time zone, other rows do; write one in all or none"
            raise DataFileError(FRAME, what, where=where)
        moments = [None if one is None else _moment(one) for one in found]
        return pl.Series(name, moments, dtype=pl.Datetime("us"))
    if kinds == {list}:
        try:
            lists = [None if one is None else [*map(float, one)] for one in found]
        except (TypeError, ValueError):
            return pl.Series(name, found, dtype=pl.Object)
        series = pl.Series(name, lists, dtype=pl.List(pl.Float64))
        if (series.explode().abs() >= EXACT).any():
            lost = [one is not None and any(float(v) != v for v in one) for one in found]
            if any(lost):
                where = f"row {lost.index(True)}, column '{name}'"
                what = "holds an integer of more digits than a float keeps; divide it"
                raise DataFileError(FRAME, what, where=where)
        return series
    if kinds <= {bool, int, float, str}:
        if kinds != {str}:
            found = [None if one is None else _spelling(one) for one in found]
        try:
            return pl.Series(name, found, dtype=pl.String)
        except UnicodeEncodeError as exc:
            where = f"row {found.index(exc.object)}, column '{name}'"
            raise DataFileError(FRAME, half_character(exc.object), where=where) from exc
    return pl.Series(name, found, dtype=pl.Object)


def _is_none(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    return isinstance(value, float | np.floating | Decimal) and math.isnan(value)


def _class_of(value: Any) -> type:
    if isinstance(value, bool | np.bool_):
        return bool
    if isinstance(value, Integral):
        return int
    if isinstance(value, Real | Decimal | Fraction):
        return float
    if isinstance(value, str):
        return str
    if isinstance(value, date | np.datetime64):
        return datetime
    if isinstance(value, list | tuple | np.ndarray):
        return list
    return type(value)


def _moment(value: Any) -> datetime:
    """Return a time in UTC without a zone."""
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    offset = value.utcoffset()
    return (
        value.replace(tzinfo=None) - offset if offset is not None else value.replace(tzinfo=None)
    )


def _spelling(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return str(int(value)) if float(value).is_integer() else repr(float(value))
    return str(value)


def _missing_of(source: Any, name: str) -> Any:
    """Return what a column of a frame has where a value is missing: None, NaN or `pandas.NA`."""
    if isinstance(source, Mapping) or is_indexed(source):
        labels = {str(label): label for label in getattr(source, "columns", source)}
        return next((one for one in source[labels[name]] if _is_none(one)), None)
    return None


def typed_table(
    path: Path,
    place: Callable[[int], str],
    frame: Any,
    spelled: frozenset[str],
    form: TextForm,
    *,
    kinds: Mapping[str, Any] | None = None,
    **more: Any,
) -> Table:
    """Return a table of few types, such as integers and floats of 64 bits, of a Polars frame.

    Parameters
    ----------
    path, place, form : as for `Table`.
    frame : the columns, of any type.
    spelled : columns of names, as for `read_table`.
    kinds : types of whole columns, of which the frame has some rows.
    more : further fields of `Table`.
    """
    pl, kinds = library(), kinds or {}
    texts = {
        one.name: one if one.dtype == pl.String else one.cast(pl.String)
        for one in frame.get_columns()
        if one.dtype in (pl.String, pl.Categorical, pl.Enum)
    }
    # Of a list of series without a name Polars calls it column_0.
    found = {
        name: as_kind(texts[name], form, kinds[name])
        if name in kinds and name in texts
        else _typed(texts.get(name, frame.get_column(name)), name in spelled, form)
        for name in frame.columns
    }
    more["parts"] = frozenset(kinds)
    return Table(path, place, pl.DataFrame(found), form, texts=texts, **more)


def shortest(series: Any) -> Any:
    """Return floats of 32 bits or less as their shortest texts read, as a text file has them."""
    pl = library()
    return series.cast(pl.String).cast(pl.Float64)


def _typed(series: Any, spelled: bool, form: TextForm) -> Any:
    pl = library()
    dtype = series.dtype
    if isinstance(dtype, pl.Decimal):
        texts = series.cast(pl.String)
        series = texts.cast(pl.Int128 if not dtype.scale else pl.Float64)
        series = narrow(series) if not dtype.scale else series
    elif dtype.is_integer():
        series = narrow(series) if dtype in (pl.UInt64, pl.Int128) else series.cast(pl.Int64)
    elif dtype in (pl.Float32, getattr(pl, "Float16", pl.Float32)):
        series = shortest(series)
    elif dtype == pl.Date or isinstance(dtype, pl.Datetime):
        if getattr(dtype, "time_zone", None):
            series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        series = series.cast(pl.Datetime("us"))
    elif dtype == pl.Null:
        series = series.cast(pl.String)
    if series.dtype == pl.String:
        return settle(series, form, spelled=spelled)
    return without_missing(series, form)
