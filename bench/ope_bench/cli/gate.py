"""``ope-bench gate``, ``baseline``, ``submit`` and ``verify``: numbers run again, and judged."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ope_bench.base.console import Format, json_stdout, note, use_color, width, write
from ope_bench.base.errors import OpeBenchError, StoreError, UsageError
from ope_bench.base.exit_codes import CLEAN, INTERRUPTED
from ope_bench.cli import options
from ope_bench.execution import RunEvent

if TYPE_CHECKING:
    from ope_bench.gate import baseline as baselines
    from ope_bench.gate.baseline import Baseline
    from ope_bench.gate.session import GateReport
    from ope_bench.trials.record import Trial, TrialRecord

GateFormat = Literal["text", "json", "markdown", "junit", "github"]

MOST_MARGIN = 10.0
"""The largest growth of the squared error that is tolerated: errors are 3.3 times as large."""

NUMBERS = ("planned", "outcomes", "asked", "executed", "reused")
"""The numbers of trials in the document of a gate."""


def gate_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The baseline file.")],
    store: options.StoreOption = options.DEFAULT_STORE,
    margin: Annotated[
        float, typer.Option(min=0.0, help="Tolerated relative increase of the MSE, at most 10.")
    ] = 0.02,
    reuse: Annotated[
        bool,
        typer.Option(
            "--reuse",
            help="Take stored outcomes of unchanged code instead of running their trials, for "
            "example to resume an interrupted gate. Changes of environment "
            "variables, of data files that the code does not name, of modules that it imports by "
            "computed names, or of C libraries go unseen.",
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
    """Run a baseline's trials on today's code and judge every row.

    A row is worse if its mean squared error or its typical absolute error is larger, beyond the
    margin and beyond chance. Exits with 1 if a row is worse or fails, with 2 if there is no such
    baseline, with 4 if less ran than planned.
    A baseline that names classes in files runs these files; --no-code refuses that.
    """
    from ope_bench.gate import verdict_tables

    if not margin <= MOST_MARGIN:
        msg = (
            f"--margin {margin:g}: a gate that lets errors triple compares nothing; give a share "
            f"up to {MOST_MARGIN:g}, such as 0.02"
        )
        raise UsageError(msg)
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
            "margin": margin,
            **{name: getattr(report, name) for name in NUMBERS},
            "verdicts": {word.value: count for word, count in report.verdicts.items()},
            "rows": verdict_tables.judgements_json(report.judgements),
            "tracks": [vars(one) for one in report.tracks],
            "notices": list(report.notices),
        }
        emit(_document(file, code, reason) | facts)
    for line in report.notices:
        note(line)
    at = "" if store == options.DEFAULT_STORE else f" --store {shlex.quote(str(store))}"
    told = f"{reason}, margin {margin:g}"
    lines = verdict_tables.verdict_lines(report, (code, told), str(file), at)
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
    from ope_bench.cli.progress import PlainProgress, RunState
    from ope_bench.execution import machine
    from ope_bench.execution.local import LocalExecutor
    from ope_bench.gate.baseline import load
    from ope_bench.gate.session import StoreTrials, run_gate
    from ope_bench.gate.verdict import Rules
    from ope_bench.store import Store

    baseline = load(file)
    arithmetic = machine.mode_of(baseline.machine)
    threads = max((record.trial.threads for record in baseline.records), default=1)

    cores = jobs or machine.available_cores()
    executor_of = partial(LocalExecutor, cores, threads=threads, arithmetic=arithmetic)

    def watch(planned: Sequence[Trial]) -> Callable[[RunEvent], None]:
        return PlainProgress(RunState(planned, baseline.suite.truth, cores), "gate").handle

    here = machine.machine_facts(arithmetic)
    same = machine.same_arithmetic(baseline.machine, here)
    with Store.open(path, write=True) as store:
        trials = StoreTrials(baseline, store, executor_of, here, watch, reuse=reuse)
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


def _print(
    output: GateFormat, file: Path, baseline: Baseline, report: GateReport, lines: Sequence[str]
) -> None:
    """Print the verdicts; with json they are printed already."""
    from ope_bench.gate import verdict_tables

    ending, newline = report.exit_code(), "\n"
    title = f"ope-bench gate: {baseline.suite.name}"
    table = verdict_tables.markdown_table(
        report.judgements, title, report.trials_run, report.tracks
    )
    if output == "text":
        text = verdict_tables.text_table(
            report.judgements, report.tracks, width=width(), color=use_color()
        )
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


# ``ope-bench baseline``: accepted numbers, in a file under version control.

baseline_app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Save, accept and show the baselines of the gate.",
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
    """Save a run's stored results as a baseline.

    Options that name and change the suite are those of the `ope-bench run` before, so that a run
    of --env and --est can be a baseline too. Over an older baseline the history of acceptances is
    kept. A missing folder is made.
    """
    from ope_bench.cli.session import suite_of
    from ope_bench.gate import baseline as baselines
    from ope_bench.suites.manifest import given_parameters, plan

    if not (suite or env or est):
        msg = "nothing to save: give --suite, or --env and --est, as for `ope-bench run`"
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
    names = (one.name for one in fields(baselines.SuiteFacts))
    facts = baselines.SuiteFacts(**{name: getattr(asked, name) for name in names})
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
    """Replace a baseline's numbers by the store's, with a reason."""
    from ope_bench.gate import baseline as baselines
    from ope_bench.gate.verdict import judge

    if not reason.strip():
        msg = "--reason: say why the new numbers are right"
        raise UsageError(msg)
    baseline = baselines.load(file)
    rows = baselines.paired_rows(baseline)
    wanted = [pair.trial for row in rows for pair in row.pairs if pair.trial is not None]
    remedy = f"`ope-bench gate {file} --store {store}` or `ope-bench run` first"
    records, machine = _stored(wanted, store, baseline.suite, remedy)
    by_key = {record.key: record for record in records}
    judgements = judge(
        [baselines.with_outcomes(row, by_key) for row in rows], baseline.suite.truth
    )
    changes = Counter(one.verdict.value for one in judgements)
    accepted = replace(
        baseline,
        records=records,
        machine=machine,
        history=(*baseline.history, baselines.Acceptance(_now(), reason, dict(changes))),
        given=baselines.map_given_parameters(baseline, rows),
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


# ``ope-bench submit`` and ``verify``: entries of others, and results that are what they say.

SUBMISSIONS = Path("results/submissions")

JobsOption = Annotated[int, typer.Option(min=1, help="Trials that run at once.")]


def submit_command(
    package: Annotated[
        str, typer.Argument(help="An installed distribution, or the folder of its project.")
    ],
    est: options.EstOption = None,
    into: Annotated[Path, typer.Option(help="The folder of all submissions.")] = SUBMISSIONS,
    jobs: JobsOption = 1,
    output: options.FormatOption = Format.TEXT,
) -> int:
    """Write the folder of a submission, after checks and one shard.

    The folder is named after the package; what an author wrote into its submission.yaml stays.
    Exits with 1 if a conformance check fails.
    """
    from ope_bench.cli import submissions

    return submissions.submit(package, est, into, jobs, output)


def verify_command(
    folder: Annotated[Path, typer.Argument(help="A suite's results, or a submission.")],
    secret: Annotated[
        str | None,
        typer.Option(
            help="Secret of the round, or - for standard input: run the submission on the seeds "
            "derived from it."
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N", help="With --secret: its part of the suite, which follows from it."
        ),
    ] = None,
    share: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Part of the trials that run again.")
    ] = 0.02,
    jobs: JobsOption = 1,
    allow_code: options.AllowCodeOption = False,
    output: options.FormatOption = Format.TEXT,
) -> int:
    """Check committed results, and run a part of the trials again.

    Offline; installs nothing; runs installed plugins, and no Python file that a suite names.
    Numbers are equal bit for bit where the machines' facts agree, else up to rounding. With
    --secret a submission runs on fresh seeds, which adds to attempts.jsonl.
    Exits with 1 if something does not agree, with 4 if no trial could run.
    """
    from ope_bench.cli import submissions

    return submissions.verify(folder, secret, shard, share, jobs, output)
