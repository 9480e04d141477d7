"""``ope-bench store``: what a store holds; prune it; take over another one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ope_bench.cli.options import DEFAULT_STORE, StoreOption
from ope_bench.cli.output import Format, FormatOption, document, note, write

if TYPE_CHECKING:
    from ope_bench.store import Store

__all__ = ["app"]

CONFLICTS_SHOWN = 5

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
    others: Annotated[list[Path], typer.Argument(help="Stores whose runs are taken over.")],
    store: StoreOption = DEFAULT_STORE,
    output: FormatOption = Format.TEXT,
) -> int:
    """Take over the runs and outcomes of other stores; those stay as they are.

    Trials that the same code answered differently there are told: both answers are kept, and
    boards show that of the newer run.
    """
    from ope_bench.store import Store

    added = other_code = 0
    found: list[dict[str, Any]] = []
    with document(output) as emit:
        # All are looked at before the first is taken over: a wrong path changes nothing.
        with contextlib.ExitStack() as opened:
            sources = [opened.enter_context(Store.open(other)) for other in others]
            ours = opened.enter_context(Store.open(store, write=True))
            for other, source in zip(others, sources, strict=True):
                found += _conflicts(ours, source, other)
                other_code += ours.told_by_other_code(source)
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
        note(f"{other_code} trials were answered by other code there; the newer run counts")
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
    """What was different about the machines, where that is known."""
    from ope_bench.machine import differences

    if changed := differences(here, there):
        return f"other versions there: {', '.join(changed)}"
    processors = [machine.get("cpu") or "unknown" for machine in (here, there)]
    if processors[0] != processors[1]:
        return f"other processor there: {processors[1]}, here {processors[0]}"
    return "same versions and processor: the estimator is not deterministic"


def _answer(one: Mapping[str, Any]) -> str:
    return f"{one['estimate']!r}" if one["estimate"] is not None else str(one["status"])
