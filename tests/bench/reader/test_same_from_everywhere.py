"""Every type of column, with and without missing values, is the same from every file and frame.

Run as a script it writes the table of bench/docs/own-log-tables.md.
"""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ope_bench.reader import DataFileError, Table, read_table, table_of

PAGE = Path(__file__).resolve().parents[3] / "bench" / "docs" / "own-log-tables.md"
HEADING = "## The same from everywhere"
TIMES = [datetime(2024, 3, day, 22, 30) for day in (5, 1, 9, 5)]
VALUES: dict[str, list[Any]] = {
    "integer": [3, -1, 0, 3],
    "integer above 2^53": [2**53 + 1, 2**53 + 2, -(2**60) - 1, 2**53 + 1],
    "integer above 2^63": [2**63 + 1, 2**63 + 3, 5, 2**63 + 1],
    "float": [0.1, 1 / 3, -2e-300, 0.1],
    "whole float": [1.0, 20.0, 3.0, 1.0],
    "boolean": [True, False, True, True],
    "text": ["b", "Café", "None", "b"],
    "text of digits": ["007", "7", "x", "007"],
    "time": TIMES,
    "time with zone": [one.replace(tzinfo=UTC) for one in TIMES],
    "list": [[0.1, 2.0], [1 / 3, -1.0], [5.0, 0.0], [0.1, 2.0]],
    "Python objects": [{"a": 1}, {"b": 2}, {1, 2}, {"a": 1}],
}
NULL = 1
"""The row without a value, where there is one."""

NUMPY = {"integer": "int64", "float": "float64", "whole float": "float64", "boolean": "bool"}
NULLABLE = {
    "integer": "Int64",
    "integer above 2^53": "Int64",
    "integer above 2^63": "UInt64",
    "float": "Float64",
    "whole float": "Float64",
    "boolean": "boolean",
    "text": "string",
    "text of digits": "string",
    "time": "datetime64[us]",
    "time with zone": "datetime64[us, UTC]",
}
SUITABLE = {"integer above 2^63": pl.UInt64, "list": pl.List(pl.Float64)}


def polars_frame(kind: str, values: list[Any]) -> pl.DataFrame:
    dtype = pl.Object if kind == "Python objects" else SUITABLE.get(kind)
    return pl.DataFrame({"x": pl.Series(values, dtype=dtype, strict=False)})


def arrow_table(kind: str, values: list[Any]) -> Any:
    import pyarrow as pa

    types = {"integer above 2^63": pa.uint64(), "time with zone": pa.timestamp("us", "UTC")}
    return pa.table({"x": pa.array(values, type=types.get(kind))})


def pandas_series(kind: str, values: list[Any], types: dict[str, str]) -> Any:
    import pandas as pd

    dtype: Any = types.get(kind, "object")
    if types is NUMPY and None in values:
        dtype = "float64" if dtype == "float64" else "object"
    return pd.Series(values, dtype=dtype, name="x")


def arrow_backed(kind: str, values: list[Any]) -> Any:
    import pandas as pd

    column = arrow_table(kind, values)["x"]
    return pd.DataFrame({"x": pd.Series(pd.arrays.ArrowExtensionArray(column))})


def texts(values: list[Any]) -> list[str]:
    def text(value: Any) -> str:
        if value is None:
            return ""
        if isinstance(value, datetime):
            return value.isoformat()
        return f'"{value}"' if isinstance(value, list) else str(value)

    return [text(value) for value in values]


def csv_bytes(values: list[Any]) -> bytes:
    rows = (f"{k},{text}" for k, text in enumerate(texts(values)))
    return ("k,x\n" + "\n".join(rows) + "\n").encode()


def json_lines(values: list[Any]) -> bytes:
    def plain(value: Any) -> Any:
        return value.isoformat() if isinstance(value, datetime) else value

    return "\n".join(json.dumps({"x": plain(value)}) for value in values).encode()


def of_file(name: str, make: Callable[[list[Any]], bytes]) -> Callable[[str, list[Any]], Table]:
    def table(kind: str, values: list[Any]) -> Table:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(make(values))
            return read_table(path, ["x"])

    return table


def of_written(name: str, how: str) -> Callable[[str, list[Any]], Table]:
    def table(kind: str, values: list[Any]) -> Table:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            getattr(polars_frame(kind, values), how)(path)
            return read_table(path, ["x"])

    return table


@cache
def duckdb_connection() -> Any:
    connection = importlib.import_module("duckdb").connect()
    connection.execute("set TimeZone='UTC'; set threads=1")
    return connection


def duckdb_relation(kind: str, values: list[Any]) -> Any:
    types = {
        "integer": "BIGINT",
        "integer above 2^53": "BIGINT",
        "integer above 2^63": "UBIGINT",
        "boolean": "BOOLEAN",
        "time": "TIMESTAMP",
        "time with zone": "TIMESTAMPTZ",
        "list": "DOUBLE[]",
    }
    dtype = types.get(kind, "DOUBLE" if "float" in kind else "VARCHAR")
    connection = duckdb_connection()
    connection.execute(f"create or replace table t (x {dtype})")
    connection.executemany("insert into t values (?)", [[value] for value in values])
    return connection.table("t")


def pandas_frame(kind: str, values: list[Any], types: dict[str, str]) -> Any:
    return pandas_series(kind, values, types).to_frame()


def as_array(kind: str, values: list[Any]) -> Any:
    if kind == "list":
        found = np.empty(len(values), dtype=object)
        found[:] = values
        return found
    plain = kind in NUMPY and (None not in values or "float" in kind)
    return np.array(values, dtype=NUMPY[kind] if plain else object)


FORMS: dict[str, Callable[[str, list[Any]], Table]] = {
    "CSV": of_file("t.csv", csv_bytes),
    "CSV, gzip": of_file("t.csv.gz", lambda values: gzip.compress(csv_bytes(values))),
    "JSON lines": of_file("t.jsonl", json_lines),
    "Parquet": of_written("t.parquet", "write_parquet"),
    "Arrow file": of_written("t.arrow", "write_ipc"),
    "pandas": lambda kind, values: table_of(pandas_frame(kind, values, NUMPY)),
    "pandas, nullable": lambda kind, values: table_of(pandas_frame(kind, values, NULLABLE)),
    "pandas, Arrow": lambda kind, values: table_of(arrow_backed(kind, values)),
    "Polars": lambda kind, values: table_of(polars_frame(kind, values)),
    "Polars, lazy": lambda kind, values: table_of(polars_frame(kind, values).lazy()),
    "Arrow table": lambda kind, values: table_of(arrow_table(kind, values)),
    "DuckDB": lambda kind, values: table_of(duckdb_relation(kind, values)),
    "lists": lambda kind, values: table_of({"x": values}),
    "arrays": lambda kind, values: table_of({"x": as_array(kind, values)}),
    "mapping of Series": lambda kind, values: table_of({"x": pandas_series(kind, values, NUMPY)}),
}
LIBRARIES = {
    **dict.fromkeys(("pandas", "pandas, nullable", "mapping of Series"), ("pandas",)),
    "pandas, Arrow": ("pandas", "pyarrow"),
    "Arrow table": ("pyarrow",),
    "DuckDB": ("duckdb",),
}
NEED_ARROW = {"pandas, Arrow", "Arrow table"}
FILES = {"CSV", "CSV, gzip", "JSON lines", "Parquet", "Arrow file"}


def holds(form: str, kind: str) -> bool:
    """Return whether a form can hold a type."""
    if kind == "Python objects":
        return form not in FILES | {"pandas, Arrow", "Arrow table", "DuckDB"}
    return True


def content(kind: str, table: Table) -> dict[str, Any]:
    """Return what a column gives to each role, or that it refuses.

    A file of texts has times and lists as they are written, and so are names made of them.
    """
    column, found = table.column("x"), {}
    zoned = kind == "time with zone"
    roles: dict[str, Callable[[], Any]] = {
        "numbers": lambda: column.numbers().tobytes(),
        "names": lambda: (column.codes()[0].tolist(), [] if zoned else column.codes()[1]),
        "times": lambda: column.times()[0].tolist(),
        "vectors": lambda: column.vectors().tobytes(),
        "missing": column.missing.tolist,
    }
    if kind == "list":
        del roles["names"]
    for role, get in roles.items():
        try:
            found[role] = get()
        except DataFileError:
            found[role] = "refused"
    return found


def compared(kind: str, nulls: bool, form: str) -> str:
    """Return what is the same from a form as from plain lists of Python."""
    values, expected = values_of(kind, nulls), plain(kind, nulls)
    if not holds(form, kind):
        return "not held"
    found = content(kind, FORMS[form](kind, values))
    apart = [role for role in expected if found[role] != expected[role]]
    if apart:
        return f"DIFFERENT: {', '.join(apart)}: {[found[one] for one in apart]!r:.200}"
    given = [role for role in found if found[role] != "refused" and role != "missing"]
    return ", ".join(given) or "refused"


@cache
def plain(kind: str, nulls: bool) -> dict[str, Any]:
    """Return what a column of plain lists of Python gives."""
    return content(kind, FORMS["lists"](kind, values_of(kind, nulls)))


def values_of(kind: str, nulls: bool) -> list[Any]:
    return [None if nulls and k == NULL else one for k, one in enumerate(VALUES[kind])]


def known_forms() -> list[str]:
    """Return the forms whose libraries are installed."""
    return [form for form in FORMS if all(map(importlib.util.find_spec, LIBRARIES.get(form, ())))]


def cells() -> dict[str, str]:
    """Return what is the same, by type and form, as far as this environment has the forms."""
    return {
        f"{kind}|{nulls}|{form}": compared(kind, nulls, form)
        for kind in VALUES
        for nulls in (False, True)
        for form in known_forms()
    }


def without_arrow(folder: Path) -> subprocess.Popen[str]:
    """Start to print the cells of an environment with every installed package but pyarrow."""
    for site in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in Path(site).iterdir():
            if not entry.name.startswith("pyarrow") and not (folder / entry.name).exists():
                (folder / entry.name).symlink_to(entry)
    sources = [str(PAGE.parents[2] / name) for name in ("bench", "estimators", "environments")]
    path = os.pathsep.join([*sources, str(folder)])
    return subprocess.Popen(
        [sys.executable, "-S", __file__, "cells"],
        env={**os.environ, "PYTHONPATH": path, "POLARS_MAX_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )


def page(found: dict[str, str]) -> str:
    """Return the table, a row for each form."""
    lines = [
        HEADING,
        "",
        "What each type of column gives, from each form of file and frame, without and with a",
        "missing value: **n**umbers, na**m**es, **t**imes, **v**ectors; *refused*: by every role;",
        "a dash: the form cannot hold the type. All forms in a column agree to the bit, with and",
        "without pyarrow installed. `python tests/bench/reader/test_same_from_everywhere.py`",
        "makes the table.",
        "",
        "| form | " + " | ".join(VALUES) + " |",
        "| --- |" + " --- |" * len(VALUES),
    ]
    short = {"numbers": "n", "names": "m", "times": "t", "vectors": "v"}

    def shown(cell: str) -> str:
        if cell == "not held":
            return "–"
        return "".join(short.get(word, word) for word in cell.split(", "))

    for form in dict.fromkeys(at.rpartition("|")[2] for at in found):
        entries = [
            " ".join(
                dict.fromkeys(shown(found[f"{kind}|{nulls}|{form}"]) for nulls in (False, True))
            )
            for kind in VALUES
        ]
        lines.append(f"| {form} | " + " | ".join(entries) + " |")
    return "\n".join(lines) + "\n"


def test_every_type_is_the_same_from_every_form_with_and_without_pyarrow(tmp_path: Path) -> None:
    with without_arrow(tmp_path) as run:
        found = cells()
        bare = json.loads(run.communicate()[0])
    assert run.returncode == 0
    assert not [f"{at}: {cell}" for at, cell in found.items() if "DIFFERENT" in cell or not cell]
    assert set(page(found).splitlines()) <= set(PAGE.read_text().splitlines())
    assert {f"| {form} " in PAGE.read_text() for form in FORMS} == {True}
    assert bare == {
        at: cell for at, cell in found.items() if at.rpartition("|")[2] not in NEED_ARROW
    }


if __name__ == "__main__":
    if sys.argv[1:] == ["cells"]:
        print(json.dumps(cells()))
    else:
        PAGE.write_text(PAGE.read_text().partition(HEADING)[0] + page(cells()))
