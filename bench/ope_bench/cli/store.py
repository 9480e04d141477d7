"""``ope-bench store``, ``rerun``, ``doctor`` and ``data``: stores, and the machine they are on."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import platform
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from ope_bench.base import exit_codes
from ope_bench.base.console import Format, json_stdout, note, write
from ope_bench.base.errors import PluginError, StoreError, UsageError
from ope_bench.base.units import format_size
from ope_bench.cli import catalog
from ope_bench.cli.app import command_of
from ope_bench.cli.options import DEFAULT_STORE, FormatOption, StoreOption
from ope_bench.execution import Finished
from ope_bench.plugins.requirements import CORE, EXTRAS, installed_version

# ``ope-bench data``: prepare the raw data of environments.

GROUP = "ope_bench.data"


class _Installed(typer.core.TyperGroup):
    """A group whose commands are entry points, loaded when used."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted({point.name for point in _points()})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        points = [point for point in _points() if point.name == cmd_name]
        if len({point.value for point in points}) > 1:
            owners = " and ".join(sorted(point.dist.name for point in points if point.dist))
            msg = f"data command '{cmd_name}' is ambiguous: installed by {owners}"
            raise UsageError(msg)
        if not points:
            return None
        try:
            found = points[0].load()
        except Exception as exc:
            msg = f"data command '{cmd_name}' ({points[0].value}) cannot be loaded: {exc}"
            raise PluginError(msg) from exc
        return command_of(found, cmd_name)


def _points() -> list[importlib.metadata.EntryPoint]:
    return list(importlib.metadata.entry_points(group=GROUP))


data_app = typer.Typer(
    cls=_Installed, add_completion=False, rich_markup_mode=None, no_args_is_help=True
)


@data_app.callback()
def _about_data() -> None:
    """Check and prepare the raw data of an environment."""


# ``ope-bench doctor``: describe this machine and its installed packages.


def doctor_command(store: StoreOption = DEFAULT_STORE, output: FormatOption = Format.TEXT) -> int:
    """Show versions, extras, hardware, store and broken plugins."""
    from ope_bench.execution import machine
    from ope_bench.store import Store

    with json_stdout(output) as emit:
        extras = {}
        for name, parts in EXTRAS.items():
            missing = any(importlib.util.find_spec(module) is None for module in parts)
            extras[name] = {
                "installed": not missing,
                "versions": {one: installed_version(one) for one in parts.values()},
                "install": f'pip install "ope-bench[{name}]"' if missing else None,
            }
        state: dict[str, Any] = {"path": str(store), "exists": store.exists(), "problem": None}
        if store.exists():
            try:
                with Store.open(store) as opened:
                    state |= asdict(opened.info())
            except StoreError as exc:
                state["problem"] = str(exc)
        rows: dict[str, list[catalog.Row]] = {
            kind: catalog.rows_of(kind) for kind in catalog.KINDS
        }
        every = [row for group in rows.values() for row in group]
        facts = {
            "schema": 1,
            "python": {
                "version": platform.python_version(),
                "executable": sys.executable,
                "platform": platform.platform(),
            },
            "packages": {name: installed_version(name) for name in ("ope-bench", *CORE.values())},
            "extras": extras,
            "hardware": {
                "cpu": machine.cpu_name(),
                "cores": os.cpu_count(),
                "usable_cores": machine.available_cores(),
                "memory_bytes": machine.memory_bytes(),
                "blas": machine.thread_pools(),
                "gpu": _gpu(),
            },
            "store": state,
            "plugins": {
                **{name: sum(not row["broken"] for row in group) for name, group in rows.items()},
                "broken": [row for row in every if row["broken"]],
                "ambiguous": sorted({row["reference"] for row in every if row["ambiguous"]}),
            },
        }
        emit(facts)
    if output is Format.TEXT:
        write(_doctor_text(facts))
    return 0


def _gpu() -> dict[str, Any]:
    if importlib.util.find_spec("torch") is None:
        return {"available": False, "reason": "torch is not installed"}
    import torch

    if not torch.cuda.is_available():
        return {"available": False, "reason": f"torch {torch.__version__} sees no CUDA device"}
    return {
        "available": True,
        "name": torch.cuda.get_device_name(0),
        "count": torch.cuda.device_count(),
        "cuda": torch.version.cuda,
    }


def _doctor_text(facts: dict[str, Any]) -> str:

    python, hardware, store = facts["python"], facts["hardware"], facts["store"]
    lines = [f"python    {python['version']}  {python['executable']}"]
    lines.append(f"          {python['platform']}")
    for name, version in facts["packages"].items():
        lines.append(f"package   {name} {version or 'MISSING'}")
    for name, extra in facts["extras"].items():
        versions = ", ".join(f"{one} {version}" for one, version in extra["versions"].items())
        missing = extra["install"] and f"MISSING, {extra['install']}"
        lines.append(f"extra     {name}: {missing or versions or 'needs nothing'}")
    cores = f"{hardware['usable_cores']} of {hardware['cores']} cores usable"
    lines.append(f"cpu       {hardware['cpu']}, {cores}")
    lines.append(f"memory    {format_size(hardware['memory_bytes'])}")
    # NumPy and SciPy may have the same library each.
    pools = [
        f"{blas['internal_api']} {blas['version'] or ''}".strip()
        + f": {blas['num_threads']} here, 1 in a trial"
        for blas in hardware["blas"]
    ]
    lines += [f"threads   {text}" for text in dict.fromkeys(pools)]
    gpu = hardware["gpu"]
    if gpu["available"]:
        lines.append(f"gpu       {gpu['name']} x {gpu['count']}, CUDA {gpu['cuda']}")
    else:
        lines.append(f"gpu       none: {gpu['reason']}")
    state = store["problem"] or ("ready" if store["exists"] else "not there yet")
    lines.append(f"store     {store['path']}: {state}")
    plugins = facts["plugins"]
    lines.append("plugins   " + ", ".join(f"{plugins[kind]} {kind}" for kind in catalog.KINDS))
    lines += [
        f"BROKEN    {one['reference']} ({one['origin']}): {one['broken']}"
        for one in plugins["broken"]
    ]
    lines += [f"ambiguous {reference}" for reference in plugins["ambiguous"]]
    return "\n".join(lines)


# ``ope-bench rerun``: run one stored trial again and compare outcomes.

RERUN_FIELDS = (
    "status",
    "estimate",
    "standard_error",
    "interval_low",
    "interval_high",
    "truth_expected",
    "truth_empirical",
    "code_digest",
    "fit_seconds",
    "estimate_seconds",
    "peak_rss_bytes",
    "error_type",
    "error_message",
)


def rerun_command(
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="A trial's key, or the beginning of one.")
    ],
    store: StoreOption = DEFAULT_STORE,
    output: FormatOption = Format.TEXT,
) -> int:
    """Run one stored trial again and compare it bit for bit.

    Nothing is stored, and no limits apply. If other kernels or versions computed the stored
    outcome, numbers are equal up to rounding.
    """
    from ope_bench.execution import machine
    from ope_bench.execution.local import LocalExecutor
    from ope_bench.gate.verdict import rounding_only
    from ope_bench.store import Store
    from ope_bench.suites.suite import selector_of

    with json_stdout(output) as emit:
        with Store.open(store) as opened:
            before = opened.find(key)
            there = opened.machine_of(before.key)
        arithmetic = machine.mode_of(there)
        # In a worker process, so that a crash does not end this process.
        executor = LocalExecutor(1, threads=before.trial.threads, arithmetic=arithmetic)
        with contextlib.closing(executor):
            events = list(executor.run([before.trial]))
        after = next((one.record for one in events if isinstance(one, Finished)), None)
        if after is None:
            raise KeyboardInterrupt
        code = exit_codes.FAILED_TRIALS if after.status.broken else exit_codes.CLEAN
        same = machine.same_arithmetic(there, machine.machine_facts(arithmetic))
        trial, bit_equal = before.trial, before.answer == after.answer
        facts = {
            "schema": 1,
            "store": str(store),
            "key": before.key,
            "environment": selector_of(trial.environment),
            "estimator": selector_of(trial.estimator),
            "replicate": trial.replicate,
            "seed": trial.seed,
            "salt": trial.salt,
            "device": trial.device.value,
            "bit_equal": bit_equal,
            "same_arithmetic": same,
            "equal": bit_equal or (not same and rounding_only(before, after)),
            "same_code": before.code_digest == after.code_digest,
            "stored": {name: getattr(before, name) for name in RERUN_FIELDS},
            "fresh": {name: getattr(after, name) for name in RERUN_FIELDS},
            "warnings": list(after.warnings),
            "note": after.note,
            "traceback": after.traceback,
            "output_tail": after.output_tail,
            "exit_code": code,
        }
        emit(facts)
    if output is Format.TEXT:
        write(_rerun_text(facts))
    return code


def _rerun_text(facts: dict[str, Any]) -> str:
    lines = [
        f"key         {facts['key']}",
        f"estimator   {facts['estimator']}",
        f"environment {facts['environment']}",
        f"replicate   {facts['replicate']}, seed {facts['seed']}, {facts['device']}",
        "",
        f"{'':<17} {'stored':<26} fresh",
    ]
    for name in RERUN_FIELDS:
        then, now = facts["stored"][name], facts["fresh"][name]
        if then is not None or now is not None:
            lines.append(f"{name:<17} {_format_value(then):<26} {_format_value(now)}".rstrip())
    verdict = "equal up to rounding, by other kernels" if facts["equal"] else "DIFFERENT"
    verdict = "bit-equal" if facts["bit_equal"] else verdict
    code = "same code" if facts["same_code"] else "the code has changed since"
    lines += ["", f"{verdict} ({code})"]
    lines += [f"warning: {text}" for text in facts["warnings"]]
    if facts["note"]:
        lines.append(f"the trial {facts['note']}; no other trial saw that")
    for name in ("traceback", "output_tail"):
        if facts[name]:
            lines += ["", facts[name].rstrip()]
    return "\n".join(lines)


def _format_value(value: Any) -> str:
    return "-" if value is None else " ".join(str(value).split())


# ``ope-bench store``: inspect, check, prune and merge stores.

CONFLICTS_SHOWN = 5

CONFLICT_FIELDS = ("key", "estimator", "environment", "replicate")

store_app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Describe, check, prune or merge stores.",
)


@store_app.command()
def info(store: StoreOption = DEFAULT_STORE, output: FormatOption = Format.TEXT) -> int:
    """Show the contents of a store, and its runs."""
    from ope_bench.store import Store

    with json_stdout(output) as emit:
        with Store.open(store) as opened:
            held, runs = asdict(opened.info()), opened.runs()
        listed = [{k: v for k, v in vars(run).items() if k != "plan"} for run in runs]
        emit({"schema": 1, "store": str(store), **held, "runs": listed})
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
            if arithmetic := run.machine.get("arithmetic"):
                ended += f", {arithmetic['mode']} ({', '.join(arithmetic['blas_kernels'])})"
            write(f"run       {run.id}  {began}  {run.suite}, {run.planned} trials, {ended}")
    return 0


@store_app.command()
def check(store: StoreOption = DEFAULT_STORE, output: FormatOption = Format.TEXT) -> int:
    """Look for damage by the checksums of the file and its records.

    Exits with 2 if something is damaged. Records that an older version stored have no checksum.
    """
    from ope_bench.store import Store

    with json_stdout(output) as emit:
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


@store_app.command()
def prune(store: StoreOption = DEFAULT_STORE, output: FormatOption = Format.TEXT) -> int:
    """Delete outcomes that newer ones of the same trial have replaced."""
    from ope_bench.store import Store

    if not store.exists():
        msg = f"there is no store {store}"
        raise StoreError(msg)
    with json_stdout(output) as emit:
        with Store.open(store, write=True) as opened:
            dropped = opened.prune()
        emit({"schema": 1, "store": str(store), "dropped": dropped})
    note(f"{dropped} replaced outcomes dropped from {store}")
    return 0


@store_app.command()
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
    with json_stdout(output) as emit:
        # All stores are opened before the first is copied: a wrong path changes nothing.
        with contextlib.ExitStack() as opened:
            sources = [opened.enter_context(Store.open(other)) for other in others]
            ours = opened.enter_context(Store.open(store, write=True))
            for other, source in zip(others, sources, strict=True):
                machines = {run.id: run.machine for run in (*ours.runs(), *source.runs())}
                found += [
                    {
                        **{name: getattr(one, name) for name in CONFLICT_FIELDS},
                        "other": str(other),
                        "here": {"run": one.run, "status": one.status, "estimate": one.estimate},
                        "there": {
                            "run": one.other_run,
                            "status": one.other_status,
                            "estimate": one.other_estimate,
                        },
                        "reason": _difference(machines[one.run], machines[one.other_run]),
                    }
                    for one in ours.conflicts(source)
                ]
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


def _difference(here: Mapping[str, Any], there: Mapping[str, Any]) -> str:
    """Describe differences between the machines, as far as known."""
    from ope_bench.execution import machine

    if changed := machine.software_changes(here, there):
        return f"other versions there: {', '.join(changed)}"
    processors = [facts.get("cpu") or "unknown" for facts in (here, there)]
    if processors[0] != processors[1] and not machine.same_arithmetic(here, there):
        return f"other processor there: {processors[1]}, here {processors[0]}"
    return (
        "same code, versions and kernels as far as they are compared: the estimator draws its own "
        "numbers, or reads what no digest covers (`data_files` names it)"
    )


def _answer(one: Mapping[str, Any]) -> str:
    return f"{one['estimate']!r}" if one["estimate"] is not None else str(one["status"])
