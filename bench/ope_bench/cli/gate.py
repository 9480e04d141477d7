"""``ope-bench gate``: a baseline's trials run again, and every row judged."""

from __future__ import annotations

import enum
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ope_bench.cli.exit_codes import CLEAN, INTERRUPTED
from ope_bench.cli.options import DEFAULT_STORE, LARGEST_SEED, StoreOption
from ope_bench.cli.output import Format, document, note, use_colour, width, write

if TYPE_CHECKING:
    from ope_bench.baseline import Baseline
    from ope_bench.gate.bench import StoreBench
    from ope_bench.gate.session import GateReport, Options
    from ope_bench.runner import RunEvent

__all__ = ["gate"]


class GateFormat(enum.StrEnum):
    """How the verdicts are printed."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    JUNIT = "junit"
    GITHUB = "github"


def gate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The baseline file.")],
    store: StoreOption = DEFAULT_STORE,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=LARGEST_SEED, help="Gate on fresh data of this seed."),
    ] = None,
    extend: Annotated[
        int, typer.Option(min=0, help="More replicates for undecided rows, from the reserve.")
    ] = 0,
    margin: Annotated[
        float, typer.Option(min=0.0, help="Growth of the mean squared error that may pass.")
    ] = 0.02,
    gate_time: Annotated[
        bool, typer.Option("--gate-time", help="Fail on slower rows too.")
    ] = False,
    require_baseline: Annotated[
        bool, typer.Option("--require-baseline", help="A missing baseline is an error.")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Trials side by side; the cores by default.")
    ] = None,
    output: Annotated[GateFormat, typer.Option("--format", help="How to print.")] = (
        GateFormat.TEXT
    ),
) -> int:
    """Run a baseline's trials on today's code and judge every row, trial by trial.

    Exits with 1 if a row is worse or fails, with 4 if less ran than planned.
    """
    from ope_bench.errors import OpeBenchError

    with document(Format.JSON if output is GateFormat.JSON else Format.TEXT) as emit:
        try:
            if not file.exists():
                return _no_baseline(file, output, emit, required=require_baseline)
            from ope_bench.gate.session import Options

            asked = Options(seed, extend, margin=margin)
            baseline, report = _run(file, store, jobs, asked)
        except OpeBenchError as exc:
            _tell_nothing(output, file, "error", str(exc))
            raise
        except KeyboardInterrupt as exc:
            reason = str(exc) or "interrupted before any trial ran"
            note(f"gate  {INTERRUPTED}: {reason}")
            _tell_nothing(output, file, "error", reason)
            emit(_nothing(file, INTERRUPTED, reason))
            return INTERRUPTED
        code, reason = report.exit_code(gate_time=gate_time)
        emit(_as_json(file, baseline, report, code, reason))
    for line in report.notices:
        note(line)
    _print(output, file, baseline, report, gate_time=gate_time)
    note(f"gate  {code}: {reason}")
    return code


def _no_baseline(
    file: Path, output: GateFormat, emit: Callable[[Any], None], *, required: bool
) -> int:
    from ope_bench.errors import StoreError

    msg = (
        f"there is no baseline {file}: nothing was compared; "
        f"`ope-bench baseline save {file} --suite SUITE` makes one"
    )
    if required:
        raise StoreError(msg)
    note(f"ope-bench: {msg}")
    _tell_nothing(output, file, "skipped", msg)
    emit(_nothing(file, CLEAN, msg))
    return CLEAN


def _nothing(file: Path, code: int, reason: str) -> dict[str, Any]:
    """The document of a gate without verdicts."""
    return {
        "schema": 1,
        "baseline": str(file),
        "exit_code": code,
        "reason": reason,
        "rows": [],
    }


def _tell_nothing(
    output: GateFormat, file: Path, kind: Literal["error", "skipped"], reason: str
) -> None:
    """What continuous integration reads of a gate without verdicts: never just nothing."""
    from ope_bench.report.junit import junit_of_nothing
    from ope_bench.report.verdicts import github_line

    if output is GateFormat.JUNIT:
        write(junit_of_nothing(str(file), reason, kind).rstrip())
    if output is GateFormat.GITHUB:
        write(github_line("error" if kind == "error" else "notice", reason))


def _run(
    file: Path, path: Path, jobs: int | None, options: Options
) -> tuple[Baseline, GateReport]:
    from dataclasses import replace

    from ope_bench.baseline import load
    from ope_bench.cli.run import available_cores
    from ope_bench.execution import Executor
    from ope_bench.execution.local import LocalExecutor
    from ope_bench.gate.bench import StoreBench
    from ope_bench.gate.session import run_gate
    from ope_bench.machine import differences, machine_facts
    from ope_bench.store import Store

    baseline = load(file)
    threads = max((record.trial.threads for record in baseline.records), default=1)

    def executor_of(timeout: float | None, memory: int | None) -> Executor:
        return LocalExecutor(
            jobs or available_cores(), threads=threads, timeout=timeout, memory=memory
        )

    with Store.open(path, write=True) as store:
        watch = _Watch()
        machine = machine_facts()
        bench = StoreBench(baseline, store, executor_of, machine, watch)
        try:
            report = run_gate(baseline, bench, options)
        except KeyboardInterrupt as exc:
            raise KeyboardInterrupt(_progress(bench)) from exc
    changed = ", ".join(differences(baseline.machine, machine)) if baseline.machine else ""
    told = (f"other software than the baseline's: {changed}",) if changed else ()
    return baseline, replace(report, notices=(*told, *report.notices))


def _progress(bench: StoreBench) -> str:
    """How far an interrupted gate came."""
    if bench.unfinished is None:
        return ""
    if bench.unfinished:
        left = f"{bench.unfinished} trial{'s' * (bench.unfinished > 1)} left"
        return f"interrupted; {left}, gate again to resume"
    return "interrupted after all trials had run; gate again for the verdicts"


class _Watch:
    """A line on stderr every few seconds."""

    def __init__(self) -> None:
        self._done = 0
        self._told = time.monotonic()

    def __call__(self, event: RunEvent) -> None:
        from ope_bench.execution import Finished
        from ope_bench.runner import Notice, Reused

        if isinstance(event, Notice):
            note(event.text)
        if isinstance(event, Finished | Reused):
            self._done += 1
            if time.monotonic() - self._told > 10:
                self._told = time.monotonic()
                note(f"gate  {self._done} trials done")


def _print(
    output: GateFormat, file: Path, baseline: Baseline, report: GateReport, *, gate_time: bool
) -> None:
    from ope_bench.report import verdicts
    from ope_bench.report.junit import junit

    ending = report.exit_code(gate_time=gate_time)
    if output is GateFormat.TEXT:
        table = verdicts.text_table(
            report.judgements, report.times, width=width(), colour=use_colour()
        )
        write(table.rstrip())
    elif output is GateFormat.JUNIT:
        write(junit(report, baseline.suite.name, ending).rstrip())
    elif output in (GateFormat.MARKDOWN, GateFormat.GITHUB):
        title = f"ope-bench gate: {baseline.suite.name}"
        table = verdicts.markdown_table(report.judgements, title, report.times)
        if output is GateFormat.MARKDOWN:
            write(table.rstrip())
            return
        write(verdicts.github_lines(report, str(file), ending).rstrip())
        summary = os.environ.get("GITHUB_STEP_SUMMARY")
        if summary:
            with Path(summary).open("a", encoding="utf-8") as stream:
                stream.write(table + "\n")


def _as_json(
    file: Path, baseline: Baseline, report: GateReport, code: int, reason: str
) -> dict[str, Any]:
    from ope_bench.report.verdicts import judgement_json, row_names, time_json

    names = row_names(report.judgements)
    return {
        "schema": 1,
        "baseline": str(file),
        "suite": baseline.suite.name,
        "exit_code": code,
        "reason": reason,
        "planned": report.planned,
        "outcomes": report.outcomes,
        "verdicts": {word.value: count for word, count in report.verdicts.items()},
        "rows": [
            judgement_json(name, one) for name, one in zip(names, report.judgements, strict=True)
        ],
        "times": time_json(report.times),
        "notices": list(report.notices),
    }
