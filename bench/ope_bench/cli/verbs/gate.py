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
from ope_bench.cli.options import DEFAULT_STORE, LARGEST_SEED, NoCodeOption, StoreOption
from ope_bench.console.output import Format, document, note, use_color, width, write

if TYPE_CHECKING:
    from ope_bench.execution import RunEvent
    from ope_bench.gate.baseline import Baseline
    from ope_bench.gate.session import GateReport, Options
    from ope_bench.gate.trial_source import StoreTrials

__all__ = ["command"]


class GateFormat(enum.StrEnum):
    """How the verdicts are printed."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    JUNIT = "junit"
    GITHUB = "github"


def command(
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
    reuse: Annotated[
        bool,
        typer.Option(
            "--reuse",
            help="Take stored outcomes of unchanged code instead of running their trials, for "
            "example to resume an interrupted gate. Changes of environment variables, data "
            "files or C libraries go unseen.",
        ),
    ] = False,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Pass if the baseline file does not exist.")
    ] = False,
    # From when a missing baseline passed; now a missing one is an error anyway.
    require_baseline: Annotated[bool, typer.Option("--require-baseline", hidden=True)] = False,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Trials that run at once; by default one for each core."),
    ] = None,
    no_code: NoCodeOption = False,
    output: Annotated[GateFormat, typer.Option("--format", help="Form of the verdicts.")] = (
        GateFormat.TEXT
    ),
) -> int:
    """Run a baseline's trials on today's code and judge every row, trial by trial.

    A row is worse if its mean squared error or its typical absolute error is larger, beyond the
    margin and beyond chance. Exits with 1 if a row is worse or fails, with 2 if there is no such
    baseline, with 4 if less ran than planned.
    A baseline that names classes in files runs these files; --no-code refuses that.
    """
    from ope_bench.errors import OpeBenchError

    with document(Format.JSON if output is GateFormat.JSON else Format.TEXT) as emit:
        try:
            if not file.exists():
                return _no_baseline(
                    file, output, emit, passes=allow_missing and not require_baseline
                )
            from ope_bench.gate.session import Options

            asked = Options(seed=seed, extend=extend, margin=margin)
            baseline, report = _run(file, store, jobs, asked, reuse=reuse)
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
    note(f"gate  {report.trials_run}")
    note(f"gate  {code}: {reason}")
    return code


def _no_baseline(
    file: Path, output: GateFormat, emit: Callable[[Any], None], *, passes: bool
) -> int:
    from ope_bench.errors import StoreError

    msg = (
        f"there is no baseline {file}: nothing was compared; "
        f"`ope-bench baseline save {file} --suite SUITE` makes one"
    )
    if not passes:
        msg += ", --allow-missing passes without one"
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
    from ope_bench.report.text.junit import junit_of_nothing
    from ope_bench.report.text.verdicts import github_line

    if output is GateFormat.JUNIT:
        write(junit_of_nothing(str(file), reason, kind).rstrip())
    if output is GateFormat.GITHUB:
        write(github_line("error" if kind == "error" else "notice", reason))


def _run(
    file: Path, path: Path, jobs: int | None, options: Options, *, reuse: bool
) -> tuple[Baseline, GateReport]:
    from dataclasses import replace

    from ope_bench.execution import Executor
    from ope_bench.execution.local import LocalExecutor
    from ope_bench.execution.machine import available_cores, machine_facts, software_changes
    from ope_bench.gate.baseline import load
    from ope_bench.gate.session import run_gate
    from ope_bench.gate.trial_source import StoreTrials
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
        bench = StoreTrials(baseline, store, executor_of, machine, watch, reuse=reuse)
        try:
            report = run_gate(baseline, bench, options)
        except KeyboardInterrupt as exc:
            raise KeyboardInterrupt(_progress(bench)) from exc
    changed = ", ".join(software_changes(baseline.machine, machine)) if baseline.machine else ""
    told = (f"other software than the baseline's: {changed}",) if changed else ()
    return baseline, replace(report, notices=(*told, *report.notices))


def _progress(bench: StoreTrials) -> str:
    """How far an interrupted gate came."""
    if bench.unfinished is None:
        return ""
    if bench.unfinished:
        left = f"{bench.unfinished} trial{'s' * (bench.unfinished > 1)} left"
        return f"interrupted; {left}, `gate --reuse` resumes"
    return "interrupted after all trials had run; `gate --reuse` gives the verdicts"


class _Watch:
    """A line on stderr every few seconds."""

    def __init__(self) -> None:
        self._done = 0
        self._told = time.monotonic()

    def __call__(self, event: RunEvent) -> None:
        from ope_bench.execution import Finished, Message, Reused

        if isinstance(event, Message):
            note(event.text)
        if isinstance(event, Finished | Reused):
            self._done += 1
            if time.monotonic() - self._told > 10:
                self._told = time.monotonic()
                note(f"gate  {self._done} trials done")


def _print(
    output: GateFormat, file: Path, baseline: Baseline, report: GateReport, *, gate_time: bool
) -> None:
    from ope_bench.report.text import verdicts
    from ope_bench.report.text.junit import junit

    ending = report.exit_code(gate_time=gate_time)
    if output is GateFormat.TEXT:
        table = verdicts.text_table(
            report.judgements, report.times, width=width(), color=use_color()
        )
        write(table.rstrip())
    elif output is GateFormat.JUNIT:
        write(junit(report, baseline.suite.name, ending).rstrip())
    elif output in (GateFormat.MARKDOWN, GateFormat.GITHUB):
        title = f"ope-bench gate: {baseline.suite.name}"
        table = verdicts.markdown_table(report.judgements, title, report.times, report.trials_run)
        if output is GateFormat.MARKDOWN:
            write(table.rstrip())
            return
        write(verdicts.github_lines(report, str(file), ending).rstrip())
        summary = os.environ.get("GITHUB_STEP_SUMMARY")
        if summary:
            try:
                with Path(summary).open("a", encoding="utf-8") as stream:
                    stream.write(table + "\n")
            except OSError as exc:
                note(f"gate  the table is not in GITHUB_STEP_SUMMARY ({summary}): {exc.strerror}")


def _as_json(
    file: Path, baseline: Baseline, report: GateReport, code: int, reason: str
) -> dict[str, Any]:
    from ope_bench.report.text.verdicts import judgement_json, row_names, time_json

    names = row_names(report.judgements)
    return {
        "schema": 1,
        "baseline": str(file),
        "suite": baseline.suite.name,
        "exit_code": code,
        "reason": reason,
        "planned": report.planned,
        "outcomes": report.outcomes,
        "asked": report.asked,
        "executed": report.executed,
        "reused": report.reused,
        "verdicts": {word.value: count for word, count in report.verdicts.items()},
        "rows": [
            judgement_json(name, one) for name, one in zip(names, report.judgements, strict=True)
        ],
        "times": time_json(report.times),
        "notices": list(report.notices),
    }
