"""``ope-bench store``: what a store holds; prune it; take over another one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from ope_bench.cli.options import DEFAULT_STORE, StoreOption
from ope_bench.cli.output import Format, FormatOption, document, note, write

__all__ = ["app"]

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Look into a store, prune it, merge another into it.",
)


@app.callback()
def _about() -> None:
    """Look into a store, prune it, merge another into it."""


@app.command()
def info(store: StoreOption = DEFAULT_STORE, output: FormatOption = Format.TEXT) -> int:
    """Show what a store holds, and its runs."""
    from ope_bench.store import Store

    with document(output) as emit:
        with Store.open(store) as opened:
            facts = opened.info()
            runs = [_run_facts(one) for one in opened.runs()]
        emit({"schema": 1, "store": str(store), **facts, "runs": runs})
    if output is Format.TEXT:
        write(f"store     {store}")
        for name, value in facts.items():
            if name == "path":
                continue
            if isinstance(value, dict):
                value = ", ".join(f"{count} {word}" for word, count in value.items()) or "none"
            write(f"{name.replace('_', ' '):<10}{value}")
        for one in runs:
            began = time.strftime("%Y-%m-%d %H:%M", time.localtime(one["started"]))
            ended = "killed" if one["exit_code"] is None else f"exit {one['exit_code']}"
            write(
                f"run       {one['id']}  {began}  {one['suite']}, {one['planned']} trials, {ended}"
            )
    return 0


def _run_facts(one: Any) -> dict[str, Any]:
    names = (
        "id",
        "suite",
        "truth",
        "command",
        "started",
        "finished",
        "planned",
        "exit_code",
        "machine",
    )
    return {name: getattr(one, name) for name in names}


@app.command()
def prune(store: StoreOption = DEFAULT_STORE, output: FormatOption = Format.TEXT) -> int:
    """Drop the outcomes that newer ones of the same trial have replaced."""
    from ope_bench.errors import StoreError
    from ope_bench.store import Store

    if not store.exists():
        msg = f"there is no store {store}"
        raise StoreError(msg)
    with document(output) as emit:
        with Store.open(store, write=True) as opened:
            dropped = opened.prune()
        emit({"schema": 1, "store": str(store), "dropped": dropped})
    note(f"{dropped} replaced outcomes dropped from {store}")
    return 0


@app.command()
def merge(
    other: Annotated[Path, typer.Argument(help="The store whose runs are taken over.")],
    store: StoreOption = DEFAULT_STORE,
    output: FormatOption = Format.TEXT,
) -> int:
    """Take over another store's runs and outcomes; the other one stays as it is."""
    from ope_bench.store import Store

    with document(output) as emit:
        with Store.open(other) as source, Store.open(store, write=True) as opened:
            added = opened.merge(source)
        emit({"schema": 1, "store": str(store), "other": str(other), "added": added})
    note(f"{added} outcomes from {other} added to {store}")
    return 0
