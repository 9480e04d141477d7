"""``ope-bench baseline``: numbers that someone declared right, in a file that git keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ope_bench.cli.options import DEFAULT_STORE, StoreOption
from ope_bench.cli.output import Format, FormatOption, document, note, use_colour, width, write

if TYPE_CHECKING:
    from ope_bench.baseline import Baseline, SuiteFacts
    from ope_bench.records import Trial, TrialRecord

__all__ = ["app"]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Save, accept and show baselines: what the gate compares with.",
)

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The baseline file.")]


@app.command()
def save(
    file: FileArgument,
    suite: Annotated[str, typer.Option(help="A shipped name or a file.")],
    store: StoreOption = DEFAULT_STORE,
    reserve: Annotated[
        int, typer.Option(min=0, help="Further replicates, for `gate --extend`.")
    ] = 0,
    reason: Annotated[str, typer.Option(help="Why these numbers are right.")] = "saved",
) -> int:
    """Write what the store holds of a suite into a baseline file.

    Over an older baseline the history of acceptances is kept.
    """
    from dataclasses import replace

    from ope_bench.baseline import Acceptance, Baseline, SuiteFacts
    from ope_bench.baseline import save as write_file
    from ope_bench.catalogue import find_suite
    from ope_bench.machine import machine_facts
    from ope_bench.manifest import plan

    asked = find_suite(suite)
    planned = plan(replace(asked, replicates=asked.replicates + reserve)).trials
    history = _history(file)
    hint = f"--replicates {asked.replicates + reserve} " if reserve else ""
    facts = SuiteFacts(
        asked.name, asked.truth, asked.replicates, asked.title, asked.timeout, asked.memory
    )
    remedy = f"`ope-bench run {suite} {hint}--store {store}` first"
    records = _stored(planned, store, facts, remedy)
    entry = Acceptance(_now(), reason)
    write_file(file, Baseline(facts, tuple(records), machine_facts(), (*history, entry)))
    _tell(file, records)
    return 0


@app.command()
def accept(
    file: FileArgument,
    reason: Annotated[str, typer.Option(help="Why the new numbers are right.")],
    store: StoreOption = DEFAULT_STORE,
) -> int:
    """Replace a baseline's numbers by the store's, and note why."""
    from dataclasses import replace

    from ope_bench.baseline import Acceptance, load
    from ope_bench.baseline import save as write_file
    from ope_bench.errors import UsageError
    from ope_bench.gate.judging import judge
    from ope_bench.gate.pairing import completed, paired_rows
    from ope_bench.machine import machine_facts

    if not reason.strip():
        msg = "--reason: say why the new numbers are right"
        raise UsageError(msg)
    baseline = load(file)
    rows = paired_rows(baseline)
    wanted = [pair.trial for row in rows for pair in row.pairs if pair.trial is not None]
    remedy = f"`ope-bench gate {file} --store {store}` or `ope-bench run` first"
    records = _stored(wanted, store, baseline.suite, remedy)
    judged = judge(
        [completed(row, {record.key: record for record in records}) for row in rows],
        baseline.suite.truth,
    )
    changes = Counter(one.verdict.value for one in judged)
    entry = Acceptance(_now(), reason, dict(changes))
    history = (*baseline.history, entry)
    kept = replace(baseline, records=tuple(records), machine=machine_facts(), history=history)
    write_file(file, kept)
    _tell(file, records)
    note("rows  " + ", ".join(f"{count} {word}" for word, count in changes.items()))
    return 0


@app.command()
def show(file: FileArgument, output: FormatOption = Format.TEXT) -> int:
    """Print a baseline: whose, when and why accepted, and the boards that it gives."""
    from ope_bench.baseline import load
    from ope_bench.leaderboard import boards
    from ope_bench.leaderboard import document as board_document
    from ope_bench.report import render

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
        write(render(found, width=width(), colour=use_colour()).rstrip())
    return 0


def _header(file: Path, baseline: Baseline) -> str:
    suite = baseline.suite
    counts = f"{len(baseline.records)} trials, {suite.replicates} replicates"
    lines = [f"{file}: suite '{suite.name}', {counts}, {suite.truth} truth"]
    for one in baseline.history:
        changes = ", ".join(f"{count} {word}" for word, count in one.changes.items())
        lines.append(f"  {one.at}  {one.reason}" + (f" ({changes})" if changes else ""))
    return "\n".join([*lines, ""])


def _history(file: Path) -> Sequence[Any]:
    """The history of a baseline that is about to be written over."""
    from ope_bench.baseline import is_baseline, load
    from ope_bench.errors import StoreError

    if not file.exists():
        return ()
    if not is_baseline(file):
        msg = f"{file} exists and is no baseline; name another file"
        raise StoreError(msg)
    return load(file).history


def _stored(
    wanted: Iterable[Trial], store: Path, limits: SuiteFacts, remedy: str
) -> list[TrialRecord]:
    """The store's records of these trials by today's code, with today's labels.

    Raises
    ------
    StoreError : some are not there, or are of other code.
    """
    from dataclasses import replace

    from ope_bench.errors import StoreError
    from ope_bench.records import Status
    from ope_bench.runner import digest_of
    from ope_bench.store import Freshness, Store

    trials: Mapping[str, Trial] = {trial.key: trial for trial in wanted}
    freshness = Freshness(digest_of, timeout=limits.timeout, memory=limits.memory)
    with Store.open(store) as opened:
        newest = {one.key: one for one in opened.records() if one.key in trials}
        found = opened.current(trials.values(), freshness)
    # A run never reuses these, since what they lack may come; for a baseline they are outcomes.
    unavailable = (one for one in newest.values() if one.status is Status.UNAVAILABLE)
    found = {one.key: one for one in unavailable} | found
    other = len(newest) - len(found)
    missing = len(trials) - len(found)
    if missing:
        told = f" ({other} are there, but of code that has changed since)" if other > 0 else ""
        msg = f"store {store} lacks {missing} of the {len(trials)} trials{told}: {remedy}"
        raise StoreError(msg)
    return [replace(found[key], trial=trial) for key, trial in trials.items()]


def _statuses(records: Iterable[TrialRecord]) -> dict[str, int]:
    return dict(Counter(record.status.value for record in records))


def _tell(file: Path, records: Sequence[TrialRecord]) -> None:
    counts = ", ".join(f"{count} {word}" for word, count in _statuses(records).items())
    note(f"wrote {file}: {len(records)} trials ({counts})")


def _now() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
