"""``ope-bench baseline``: accepted numbers, in a file under version control."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ope_bench.base.console import Format, json_stdout, note, use_color, width, write
from ope_bench.base.errors import StoreError, UsageError
from ope_bench.cli import options

if TYPE_CHECKING:
    from ope_bench.gate import baseline as baselines
    from ope_bench.trials.record import Trial, TrialRecord

baseline_app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Save, accept and show baselines, with which the gate compares.",
)

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The baseline file.")]


@baseline_app.command()
def save(
    file: FileArgument,
    suite: Annotated[str | None, typer.Option(help="A shipped name or a file.")] = None,
    env: options.EnvOption = None,
    est: options.EstOption = None,
    changes: options.SetOption = None,
    replicates: options.ReplicatesOption = None,
    seed: options.SeedOption = None,
    device: options.DeviceOption = None,
    timeout: options.TimeoutOption = None,
    memory: options.MemoryOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    reason: Annotated[str, typer.Option(help="Why these numbers are right.")] = "saved",
) -> int:
    """Write what the store holds of a run into a baseline file.

    Options that name and change the suite are those of the `ope-bench run` before, so that a run
    of --env and --est can be a baseline too. Over an older baseline the history of acceptances is
    kept. A missing folder is made.
    """
    from ope_bench.cli.session import suite_of
    from ope_bench.gate import baseline as baselines
    from ope_bench.suites.manifest import given_parameters, plan

    if not (suite or env or est):
        msg = "what is to be saved? name --suite, or --env and --est, as for `ope-bench run`"
        raise UsageError(msg)
    settings = {
        "replicates": replicates,
        "seed": seed,
        "device": device,
        "timeout": timeout,
        "memory": memory,
    }
    asked = suite_of(suite, env, est, changes, settings)
    history = baselines.load(file).history if baselines.is_baseline(file) else ()
    if file.exists() and not baselines.is_baseline(file):
        msg = f"{file} exists and is not a baseline; name another file"
        raise StoreError(msg)
    facts = baselines.SuiteFacts(
        asked.name,
        asked.truth,
        asked.replicates,
        title=asked.title,
        timeout=asked.timeout,
        memory=asked.memory,
    )
    words = ["ope-bench", "run", *([suite] if suite else [])]
    for option, texts in (("--env", env), ("--est", est), ("--set", changes)):
        words += [word for text in texts or () for word in (option, text)]
    for name, value in {**settings, "store": store}.items():
        words += [] if value is None else [f"--{name}", str(value)]
    remedy = f"`{shlex.join(words)}` first"
    records, machine = _stored(plan(asked).trials, store, facts, remedy)
    given = {
        baselines.identity_of(spec): names for spec, names in reversed(given_parameters(asked))
    }
    entry = baselines.Acceptance(_now(), reason)
    _write(file, baselines.Baseline(facts, records, machine, (*history, entry), given))
    return 0


@baseline_app.command()
def accept(
    file: FileArgument,
    reason: Annotated[str, typer.Option(help="Why the new numbers are right.")],
    store: options.StoreOption = options.DEFAULT_STORE,
) -> int:
    """Replace a baseline's numbers by the store's, and record the reason."""
    from ope_bench.gate import baseline as baselines
    from ope_bench.gate import pairing
    from ope_bench.gate.verdict import judge

    if not reason.strip():
        msg = "--reason: say why the new numbers are right"
        raise UsageError(msg)
    baseline = baselines.load(file)
    rows = pairing.paired_rows(baseline)
    wanted = [pair.trial for row in rows for pair in row.pairs if pair.trial is not None]
    remedy = f"`ope-bench gate {file} --store {store}` or `ope-bench run` first"
    records, machine = _stored(wanted, store, baseline.suite, remedy)
    by_key = {record.key: record for record in records}
    judgements = judge([pairing.with_outcomes(row, by_key) for row in rows], baseline.suite.truth)
    changes = Counter(one.verdict.value for one in judgements)
    accepted = replace(
        baseline,
        records=records,
        machine=machine,
        history=(*baseline.history, baselines.Acceptance(_now(), reason, dict(changes))),
        given=pairing.map_given_parameters(baseline, rows),
    )
    _write(file, accepted)
    note("rows  " + ", ".join(f"{count} {word}" for word, count in changes.items()))
    return 0


@baseline_app.command()
def show(file: FileArgument, output: options.FormatOption = Format.TEXT) -> int:
    """Print a baseline: its suite, history and boards."""
    from ope_bench.boards.leaderboard import boards, boards_document
    from ope_bench.gate import baseline as baselines
    from ope_bench.report.boards import render

    with json_stdout(output) as emit:
        baseline = baselines.load(file)
        found = boards(baseline.records, truth=baseline.suite.truth)
        emit(
            {
                "baseline": str(file),
                "suite": vars(baseline.suite),
                "trials": len(baseline.records),
                "status": _statuses(baseline.records),
                "history": [vars(one) for one in baseline.history],
                "machine": baseline.machine,
                **boards_document(found),
            }
        )
    if output is Format.TEXT:
        counts = f"{len(baseline.records)} trials, {baseline.suite.replicates} replicates"
        write(f"{file}: suite '{baseline.suite.name}', {counts}, {baseline.suite.truth} truth")
        for one in baseline.history:
            changes = ", ".join(f"{count} {word}" for word, count in one.changes.items())
            write(f"  {one.at}  {one.reason}" + (f" ({changes})" if changes else ""))
        write("")
        write(render(found, width=width(), color=use_color()).rstrip())
    return 0


def _stored(
    wanted: Iterable[Trial], store: Path, limits: baselines.SuiteFacts, remedy: str
) -> tuple[tuple[TrialRecord, ...], dict[str, Any]]:
    """Return the store's records of these trials by the current code, with current labels.

    With them come the facts of the newest run's machine, and the arithmetic that all runs share.

    Raises
    ------
    StoreError : some are missing, or are of other code.
    """
    from ope_bench.execution.machine import machine_facts, same_arithmetic
    from ope_bench.execution.runner import digest_of
    from ope_bench.store import Freshness, Store

    trials: Mapping[str, Trial] = {trial.key: trial for trial in wanted}
    freshness = Freshness(digest_of, timeout=limits.timeout, memory=limits.memory)
    with Store.open(store) as opened:
        newest = {one.key: one for one in opened.records() if one.key in trials}
        found = opened.current(trials.values(), freshness)
        machines = [run.machine for run in opened.runs()]
    # Runs do not reuse unavailable trials, which may become available; for a baseline they count.
    not_run = (one for one in newest.values() if not one.status.tried)
    found = {one.key: one for one in not_run} | found
    other = len(newest) - len(found)
    missing = len(trials) - len(found)
    if missing:
        told = f" ({other} are stored, but of code that has changed since)" if other > 0 else ""
        msg = f"store {store} lacks {missing} of the {len(trials)} trials{told}: {remedy}"
        raise StoreError(msg)
    facts = {**machine_facts(), **machines[-1]}
    if not same_arithmetic(*machines):
        facts["arithmetic"] = None
    return tuple(replace(found[key], trial=trial) for key, trial in trials.items()), facts


def _statuses(records: Iterable[TrialRecord]) -> dict[str, int]:
    return dict(Counter(record.status.value for record in records))


def _write(file: Path, baseline: baselines.Baseline) -> None:
    from ope_bench.gate import baseline as baselines

    baselines.save(file, baseline)
    counts = ", ".join(f"{count} {word}" for word, count in _statuses(baseline.records).items())
    note(f"wrote {file}: {len(baseline.records)} trials ({counts})")


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
