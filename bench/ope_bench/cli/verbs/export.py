"""``ope-bench export``: write all stored outcomes as one table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ope_bench.cli.options import DEFAULT_STORE, StoreOption, check_suite
from ope_bench.console.output import Format, FormatOption, document, note

__all__ = ["command"]


def command(
    to: Annotated[Path, typer.Option("--to", help="A .parquet, .csv or .jsonl file.")],
    suite: Annotated[str | None, typer.Option(help="Only outcomes of runs of this suite.")] = None,
    run: Annotated[str | None, typer.Option(help="Only outcomes of this run.")] = None,
    store: StoreOption = DEFAULT_STORE,
    output: FormatOption = Format.TEXT,
) -> int:
    """Write the newest outcome of every stored trial to a file."""
    from ope_bench.errors import UsageError
    from ope_bench.files import atomic_write
    from ope_bench.store import Store
    from ope_bench.store.export import COLUMNS, rows_of, writer_for

    write_rows = writer_for(to)
    with document(output) as emit:
        with Store.open(store) as opened:
            check_suite(opened, suite)
            with atomic_write(to, UsageError) as partial:
                count = write_rows(partial, rows_of(opened.results(suite=suite, run=run)))
        emit({"schema": 1, "file": str(to), "rows": count, "columns": list(COLUMNS)})
    note(f"{count} rows in {to}")
    return 0
