"""``ope-bench gate``: a baseline's trials run again, and every row judged."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ope_bench.base.console import json_stdout, note, use_color, width, write
from ope_bench.base.errors import OpeBenchError, StoreError
from ope_bench.cli import options
from ope_bench.cli.exit_codes import CLEAN, INTERRUPTED
from ope_bench.execution import Executor, Finished, Message, Reused, RunEvent

if TYPE_CHECKING:
    from ope_bench.gate.baseline import Baseline
    from ope_bench.gate.session import GateReport

GateFormat = Literal["text", "json", "markdown", "junit", "github"]


def gate_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The baseline file.")],
    store: options.StoreOption = options.DEFAULT_STORE,
    margin: Annotated[
        float, typer.Option(min=0.0, help="Growth of the mean squared error that may pass.")
    ] = 0.02,
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
    jobs: options.JobsOption = None,
    no_code: options.NoCodeOption = False,
    output: Annotated[GateFormat, typer.Option("--format", help="Form of the verdicts.")] = "text",
) -> int:
    """Run a baseline's trials on today's code and judge every row, trial by trial.

    A row is worse if its mean squared error or its typical absolute error is larger, beyond the
    margin and beyond chance. Exits with 1 if a row is worse or fails, with 2 if there is no such
    baseline, with 4 if less ran than planned.
    A baseline that names classes in files runs these files; --no-code refuses that.
    """
    from ope_bench.gate import verdict_tables

    with json_stdout(output) as emit:
        try:
            if not file.exists():
                msg = (
                    f"there is no baseline {file}: nothing was compared; "
                    f"`ope-bench baseline save {file} --suite SUITE` makes one"
                )
                if require_baseline or not allow_missing:
                    msg += ", --allow-missing passes without one"
                    raise StoreError(msg)
                note(f"ope-bench: {msg}")
                _tell_nothing(output, file, "skipped", msg)
                emit(_document(file, CLEAN, msg))
                return CLEAN
            baseline, report = _run(file, store, jobs, margin, reuse=reuse)
        except OpeBenchError as exc:
            _tell_nothing(output, file, "error", str(exc))
            raise
        except KeyboardInterrupt as exc:
            reason = str(exc) or "interrupted before any trial ran"
            note(f"gate  {INTERRUPTED}: {reason}")
            _tell_nothing(output, file, "error", reason)
            emit(_document(file, INTERRUPTED, reason))
            return INTERRUPTED
        code, reason = report.exit_code()
        facts = {
            "suite": baseline.suite.name,
            "planned": report.planned,
            "outcomes": report.outcomes,
            "asked": report.asked,
            "executed": report.executed,
            "reused": report.reused,
            "verdicts": {word.value: count for word, count in report.verdicts.items()},
            "rows": verdict_tables.judgements_json(report.judgements),
            "notices": list(report.notices),
        }
        emit(_document(file, code, reason) | facts)
    for line in report.notices:
        note(line)
    at = "" if store == options.DEFAULT_STORE else f" --store {shlex.quote(str(store))}"
    lines = verdict_tables.verdict_lines(report, (code, reason), str(file), at)
    _print(output, file, baseline, report, lines)
    for line in lines:
        note(line)
    return code


def _document(file: Path, code: int, reason: str) -> dict[str, Any]:
    """Return the document of a gate without verdicts, the beginning of every other."""
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
    """Print for continuous integration why a gate has no verdicts: empty output would pass."""
    from ope_bench.gate import verdict_tables

    if output == "junit":
        write(verdict_tables.junit_of_nothing(str(file), reason, kind).rstrip())
    if output == "github":
        write(verdict_tables.github_line("error" if kind == "error" else "notice", reason))


def _run(
    file: Path, path: Path, jobs: int | None, margin: float, *, reuse: bool
) -> tuple[Baseline, GateReport]:
    from ope_bench.execution import machine
    from ope_bench.execution.local import LocalExecutor
    from ope_bench.gate.baseline import load
    from ope_bench.gate.session import StoreTrials, run_gate
    from ope_bench.gate.verdict import Rules
    from ope_bench.store import Store

    baseline = load(file)
    arithmetic = machine.mode_of(baseline.machine)
    threads = max((record.trial.threads for record in baseline.records), default=1)

    def executor_of(timeout: float | None, memory: int | None) -> Executor:
        return LocalExecutor(
            jobs or machine.available_cores(),
            threads=threads,
            timeout=timeout,
            memory=memory,
            arithmetic=arithmetic,
        )

    here = machine.machine_facts(arithmetic)
    same = machine.same_arithmetic(baseline.machine, here)
    with Store.open(path, write=True) as store:
        trials = StoreTrials(baseline, store, executor_of, here, _Watch(), reuse=reuse)
        try:
            report = run_gate(baseline, trials, Rules(margin=margin, same_arithmetic=same))
        except KeyboardInterrupt as exc:
            reached = ""
            if trials.unfinished:
                left = f"{trials.unfinished} trial{'s' * (trials.unfinished > 1)} left"
                reached = f"interrupted; {left}, `gate --reuse` resumes"
            elif trials.unfinished == 0:
                reached = "interrupted after all trials had run; `gate --reuse` gives the verdicts"
            raise KeyboardInterrupt(reached) from exc
    notices = []
    if baseline.machine and (changed := machine.software_changes(baseline.machine, here)):
        notices.append(f"other software than the baseline's: {', '.join(changed)}")
    if not same:
        notices.append(
            "kernels or versions are not the baseline's: numbers are equal up to rounding"
        )
    return baseline, replace(report, notices=(*notices, *report.notices))


class _Watch:
    """A line on stderr every ten seconds."""

    def __init__(self) -> None:
        self._done = 0
        self._told = time.monotonic()

    def __call__(self, event: RunEvent) -> None:
        if isinstance(event, Message):
            note(event.text)
        if isinstance(event, Finished | Reused):
            self._done += 1
            if time.monotonic() - self._told > 10:
                self._told = time.monotonic()
                note(f"gate  {self._done} trials done")


def _print(
    output: GateFormat, file: Path, baseline: Baseline, report: GateReport, lines: Sequence[str]
) -> None:
    """Print the verdicts; with json they are printed already."""
    from ope_bench.gate import verdict_tables

    ending, newline = report.exit_code(), "\n"
    title = f"ope-bench gate: {baseline.suite.name}"
    table = verdict_tables.markdown_table(report.judgements, title, report.trials_run)
    if output == "text":
        text = verdict_tables.text_table(report.judgements, width=width(), color=use_color())
        write(text.rstrip())
    elif output == "junit":
        write(verdict_tables.junit(report, baseline.suite.name, ending).rstrip())
    elif output == "markdown":
        write(table.rstrip())
    elif output == "github":
        write(verdict_tables.github_lines(report, str(file), ending).rstrip())
        if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
            try:
                with Path(summary).open("a", encoding="utf-8") as stream:
                    stream.write(f"{table}\n```text\n{newline.join(lines)}\n```\n")
            except OSError as exc:
                note(f"gate  the table is not in GITHUB_STEP_SUMMARY ({summary}): {exc.strerror}")
