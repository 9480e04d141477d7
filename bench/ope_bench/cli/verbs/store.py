"""``ope-bench store``: inspect, check, prune and merge stores."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ope_bench.cli import exit_codes
from ope_bench.cli.options import DEFAULT_STORE, StoreOption
from ope_bench.console.output import Format, FormatOption, document, note, write

if TYPE_CHECKING:
    from ope_bench.store import Store

__all__ = ["app"]

CONFLICTS_SHOWN = 5

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Look into a store, check it, prune it, merge another into it.",
)


@app.callback()
def _about() -> None:
    """Look into a store, check it, prune it, merge another into it."""


@app.command()
def info(store: StoreOption = DEFAULT_STORE, output: FormatOption = Format.TEXT) -> int:
    """Show the contents of a store, and its runs."""
    from ope_bench.store import Store

    with document(output) as emit:
        with Store.open(store) as opened:
            held, runs = asdict(opened.info()), opened.runs()
        emit({"schema": 1, "store": str(store), **held, "runs": [vars(run) for run in runs]})
    if output is Format.TEXT:
        write(f"store     {store}")
        for name, value in held.items():
            if name == "path":
                continue
            if isinstance(value, dict):
                value = ", ".join(f"{count} {word}" for word, count in value.items()) or "none"
            write(f"{name.replace('_', ' '):<10}{value}")
        for run in runs:
            began = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started))
            ended = "killed" if run.exit_code is None else f"exit {run.exit_code}"
            write(f"run       {run.id}  {began}  {run.suite}, {run.planned} trials, {ended}")
    return 0


@app.command()
def check(store: StoreOption = DEFAULT_STORE, output: FormatOption = Format.TEXT) -> int:
    """Look for damage: compare the file and every record with their checksums.

    Exits with 2 if something is damaged. Records that an older version stored have no checksum.
    """
    from ope_bench.store import Store

    with document(output) as emit:
        with Store.open(store) as opened:
            found = opened.check()
        emit({"schema": 1, "store": str(store), **asdict(found)})
    for text in found.damage:
        note(f"damaged   {text}")
    unchecked = f", {found.unchecked} of them without a checksum" if found.unchecked else ""
    if found.damage:
        note(f"{store} is damaged: restore a copy, or remove it and run again")
        return exit_codes.USAGE
    note(f"{store}: {found.records} records{unchecked}, no damage")
    return 0


@app.command()
def prune(store: StoreOption = DEFAULT_STORE, output: FormatOption = Format.TEXT) -> int:
    """Delete outcomes that newer ones of the same trial have replaced."""
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
    others: Annotated[
        list[Path], typer.Argument(help="Stores from which runs and outcomes are copied.")
    ],
    store: StoreOption = DEFAULT_STORE,
    output: FormatOption = Format.TEXT,
) -> int:
    """Copy the runs and outcomes of other stores, which do not change.

    Reports trials for which the same code gave different outcomes. Both are kept; boards show that
    of the newer run.
    """
    from ope_bench.store import Store

    added = other_code = 0
    found: list[dict[str, Any]] = []
    with document(output) as emit:
        # All stores are opened before the first is copied: a wrong path changes nothing.
        with contextlib.ExitStack() as opened:
            sources = [opened.enter_context(Store.open(other)) for other in others]
            ours = opened.enter_context(Store.open(store, write=True))
            for other, source in zip(others, sources, strict=True):
                found += _conflicts(ours, source, other)
                other_code += ours.count_code_mismatches(source)
                added += ours.merge(source)
        emit(
            {
                "schema": 1,
                "store": str(store),
                "other": str(others[0]),
                "others": [str(other) for other in others],
                "added": added,
                "conflicts": found,
                "other_code": other_code,
            }
        )
    for one in found[:CONFLICTS_SHOWN]:
        note(
            f"conflict  {one['estimator']} on {one['environment']}, replicate {one['replicate']} "
            f"({one['key'][:12]}): {_answer(one['here'])} here, {_answer(one['there'])} in "
            f"{one['other']}; {one['reason']}"
        )
    if len(found) > CONFLICTS_SHOWN:
        note(f"          and {len(found) - CONFLICTS_SHOWN} more conflicts; --format json has all")
    if other_code:
        note(f"{other_code} trials have outcomes by other code there; the newer run counts")
    names = ", ".join(map(str, others))
    note(f"{added} outcomes from {names} added to {store}, {len(found)} conflicts")
    return 0


def _conflicts(ours: Store, source: Store, other: Path) -> list[dict[str, Any]]:
    machines = {run.id: run.machine for run in (*ours.runs(), *source.runs())}
    return [
        {
            "key": one.key,
            "estimator": one.estimator,
            "environment": one.environment,
            "replicate": one.replicate,
            "other": str(other),
            "here": {"run": one.run, "status": one.status, "estimate": one.estimate},
            "there": {
                "run": one.other_run,
                "status": one.other_status,
                "estimate": one.other_estimate,
            },
            "reason": _reason(machines[one.run], machines[one.other_run]),
        }
        for one in ours.conflicts(source)
    ]


def _reason(here: Mapping[str, Any], there: Mapping[str, Any]) -> str:
    """Describe differences between the machines, as far as known."""
    from ope_bench.execution.machine import software_changes

    if changed := software_changes(here, there):
        return f"other versions there: {', '.join(changed)}"
    processors = [machine.get("cpu") or "unknown" for machine in (here, there)]
    if processors[0] != processors[1]:
        return f"other processor there: {processors[1]}, here {processors[0]}"
    return "same versions and processor: the estimator is not deterministic"


def _answer(one: Mapping[str, Any]) -> str:
    return f"{one['estimate']!r}" if one["estimate"] is not None else str(one["status"])
