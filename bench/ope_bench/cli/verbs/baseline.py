"""``ope-bench baseline``: accepted numbers, in a file under version control."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ope_bench.cli.options import (
    DEFAULT_STORE,
    DEVICES,
    DeviceOption,
    EnvOption,
    EstOption,
    MemoryOption,
    ReplicatesOption,
    SeedOption,
    SetOption,
    StoreOption,
    TimeoutOption,
    duration,
    size,
)
from ope_bench.console.output import Format, FormatOption, document, note, use_color, width, write

if TYPE_CHECKING:
    from ope_bench.cli.running.request import Request
    from ope_bench.gate.baseline import Baseline, SuiteFacts
    from ope_bench.trials.record import Trial, TrialRecord

__all__ = ["app"]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Save, accept and show baselines, with which the gate compares.",
)

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The baseline file.")]


@app.command()
def save(
    file: FileArgument,
    suite: Annotated[str | None, typer.Option(help="A shipped name or a file.")] = None,
    env: EnvOption = None,
    est: EstOption = None,
    changes: SetOption = None,
    replicates: ReplicatesOption = None,
    seed: SeedOption = None,
    device: DeviceOption = None,
    timeout: TimeoutOption = None,
    memory: MemoryOption = None,
    store: StoreOption = DEFAULT_STORE,
    reserve: Annotated[
        int, typer.Option(min=0, help="Further replicates, for `gate --extend`.")
    ] = 0,
    reason: Annotated[str, typer.Option(help="Why these numbers are right.")] = "saved",
) -> int:
    """Write what the store holds of a run into a baseline file.

    Options that name and change the suite are those of the `ope-bench run` before, so that a run
    of --env and --est can be a baseline too. Over an older baseline the history of acceptances is
    kept. A missing folder is made.
    """
    from dataclasses import replace

    from ope_bench.cli.running.request import Request, suite_of
    from ope_bench.errors import UsageError
    from ope_bench.execution.machine import machine_facts
    from ope_bench.gate.baseline import Acceptance, Baseline, SuiteFacts
    from ope_bench.gate.baseline import save as write_file
    from ope_bench.gate.baseline_format import identity_of
    from ope_bench.suites.manifest import given_parameters, plan

    if not (suite or env or est):
        msg = "what is to be saved? name --suite, or --env and --est, as for `ope-bench run`"
        raise UsageError(msg)
    request = Request(
        suite=suite,
        environments=env or (),
        estimators=est or (),
        replicates=replicates,
        seed=seed,
        devices=None if device is None else DEVICES[device],
        timeout=duration("--timeout", timeout),
        memory=size("--memory", memory),
        changes=changes or (),
    )
    asked = suite_of(request)
    planned = plan(replace(asked, replicates=asked.replicates + reserve)).trials
    history = _history(file)
    given = {identity_of(spec): names for spec, names in reversed(given_parameters(asked))}
    facts = SuiteFacts(
        asked.name,
        asked.truth,
        asked.replicates,
        title=asked.title,
        timeout=asked.timeout,
        memory=asked.memory,
    )
    rest = {"seed": seed, "device": device, "timeout": timeout, "memory": memory, "store": store}
    remedy = _run_command(request, asked.replicates + reserve if reserve else replicates, rest)
    records = _stored(planned, store, facts, remedy)
    entry = Acceptance(_now(), reason)
    baseline = Baseline(facts, tuple(records), machine_facts(), (*history, entry), given)
    write_file(file, baseline)
    _print_summary(file, records)
    return 0


@app.command()
def accept(
    file: FileArgument,
    reason: Annotated[str, typer.Option(help="Why the new numbers are right.")],
    store: StoreOption = DEFAULT_STORE,
) -> int:
    """Replace a baseline's numbers by the store's, and record the reason."""
    from dataclasses import replace

    from ope_bench.errors import UsageError
    from ope_bench.execution.machine import machine_facts
    from ope_bench.gate.baseline import Acceptance, load
    from ope_bench.gate.baseline import save as write_file
    from ope_bench.gate.decision import judge
    from ope_bench.gate.pairing import map_given_parameters, paired_rows, with_outcomes

    if not reason.strip():
        msg = "--reason: say why the new numbers are right"
        raise UsageError(msg)
    baseline = load(file)
    rows = paired_rows(baseline)
    wanted = [pair.trial for row in rows for pair in row.pairs if pair.trial is not None]
    remedy = f"`ope-bench gate {file} --store {store}` or `ope-bench run` first"
    records = _stored(wanted, store, baseline.suite, remedy)
    judged = judge(
        [with_outcomes(row, {record.key: record for record in records}) for row in rows],
        baseline.suite.truth,
    )
    changes = Counter(one.verdict.value for one in judged)
    entry = Acceptance(_now(), reason, dict(changes))
    history = (*baseline.history, entry)
    accepted = replace(
        baseline,
        records=tuple(records),
        machine=machine_facts(),
        history=history,
        given=map_given_parameters(baseline, rows),
    )
    write_file(file, accepted)
    _print_summary(file, records)
    note("rows  " + ", ".join(f"{count} {word}" for word, count in changes.items()))
    return 0


@app.command()
def show(file: FileArgument, output: FormatOption = Format.TEXT) -> int:
    """Print a baseline: its suite, history and boards."""
    from ope_bench.boards.leaderboard import boards
    from ope_bench.boards.leaderboard import document as board_document
    from ope_bench.gate.baseline import load
    from ope_bench.report.text.render import render

    with document(output) as emit:
        baseline = load(file)
        found = boards(baseline.records, truth=baseline.suite.truth)
        emit(
            {
                "baseline": str(file),
                "suite": vars(baseline.suite),
                "trials": len(baseline.records),
                "status": _statuses(baseline.records),
                "history": [vars(one) for one in baseline.history],
                "machine": baseline.machine,
                **board_document(found),
            }
        )
    if output is Format.TEXT:
        write(_header(file, baseline))
        write(render(found, width=width(), color=use_color()).rstrip())
    return 0


def _header(file: Path, baseline: Baseline) -> str:
    suite = baseline.suite
    counts = f"{len(baseline.records)} trials, {suite.replicates} replicates"
    lines = [f"{file}: suite '{suite.name}', {counts}, {suite.truth} truth"]
    for one in baseline.history:
        changes = ", ".join(f"{count} {word}" for word, count in one.changes.items())
        lines.append(f"  {one.at}  {one.reason}" + (f" ({changes})" if changes else ""))
    return "\n".join([*lines, ""])


def _run_command(request: Request, replicates: int | None, rest: Mapping[str, object]) -> str:
    """Say which `ope-bench run` stores what a baseline of this request needs."""
    words = ["ope-bench", "run", *([request.suite] if request.suite else [])]
    words += [word for text in request.environments for word in ("--env", text)]
    words += [word for text in request.estimators for word in ("--est", text)]
    words += [word for text in request.changes for word in ("--set", text)]
    for name, value in {"replicates": replicates, **rest}.items():
        words += [] if value is None else [f"--{name}", str(value)]
    return f"`{shlex.join(words)}` first"


def _history(file: Path) -> Sequence[Any]:
    """Return the history of a baseline that is about to be overwritten."""
    from ope_bench.errors import StoreError
    from ope_bench.gate.baseline import is_baseline, load

    if not file.exists():
        return ()
    if not is_baseline(file):
        msg = f"{file} exists and is not a baseline; name another file"
        raise StoreError(msg)
    return load(file).history


def _stored(
    wanted: Iterable[Trial], store: Path, limits: SuiteFacts, remedy: str
) -> list[TrialRecord]:
    """Return the store's records of these trials by the current code, with current labels.

    Raises
    ------
    StoreError : some are missing, or are of other code.
    """
    from dataclasses import replace

    from ope_bench.errors import StoreError
    from ope_bench.execution.runner import digest_of
    from ope_bench.store import Freshness, Store

    trials: Mapping[str, Trial] = {trial.key: trial for trial in wanted}
    freshness = Freshness(digest_of, timeout=limits.timeout, memory=limits.memory)
    with Store.open(store) as opened:
        newest = {one.key: one for one in opened.records() if one.key in trials}
        found = opened.current(trials.values(), freshness)
    # Runs do not reuse unavailable trials, which may become available; for a baseline they count.
    not_run = (one for one in newest.values() if not one.status.tried)
    found = {one.key: one for one in not_run} | found
    other = len(newest) - len(found)
    missing = len(trials) - len(found)
    if missing:
        told = f" ({other} are stored, but of code that has changed since)" if other > 0 else ""
        msg = f"store {store} lacks {missing} of the {len(trials)} trials{told}: {remedy}"
        raise StoreError(msg)
    return [replace(found[key], trial=trial) for key, trial in trials.items()]


def _statuses(records: Iterable[TrialRecord]) -> dict[str, int]:
    return dict(Counter(record.status.value for record in records))


def _print_summary(file: Path, records: Sequence[TrialRecord]) -> None:
    counts = ", ".join(f"{count} {word}" for word, count in _statuses(records).items())
    note(f"wrote {file}: {len(records)} trials ({counts})")


def _now() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
