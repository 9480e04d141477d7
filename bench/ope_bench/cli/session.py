"""A run: its suite from options, its plan, its execution and its summary."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from ope_bench.base import exit_codes
from ope_bench.base.console import note
from ope_bench.base.errors import UsageError
from ope_bench.base.units import format_duration, format_estimate
from ope_bench.boards.board import Board, By
from ope_bench.boards.leaderboard import stream_boards
from ope_bench.cli import options
from ope_bench.cli.progress import RunState, display, predict
from ope_bench.contracts.data import TruthKind
from ope_bench.execution import Executor
from ope_bench.execution.machine import available_cores, machine_facts
from ope_bench.execution.runner import RunCounts, digest_of, run
from ope_bench.outcomes import STATUSES, Outcomes
from ope_bench.plugins.registry import registry
from ope_bench.plugins.requirements import is_installed, pip_line
from ope_bench.store import Freshness, Seconds, Store
from ope_bench.suites.manifest import Manifest
from ope_bench.suites.suite import Suite, adhoc, find_suite, overrides, parse_selector, selector_of
from ope_bench.trials.record import reason_of
from ope_bench.trials.status import Retry, Severity, Status
from ope_bench.trials.trial import build, devices_of

# Explain which estimators were not planned, and why.

NAMES_SHOWN = 6


def unplanned(manifest: Manifest) -> str:
    """Describe estimators without trials because of their devices; empty if there are none."""
    if not manifest.without_device:
        return ""
    by_devices: dict[tuple[str, ...], list[str]] = {}
    for spec, other_devices in manifest.without_device:
        by_devices.setdefault(other_devices, []).append(spec.label or spec.id)
    known = (
        f"{_names(names)} (only {', '.join(other_devices)})"
        for other_devices, names in by_devices.items()
    )
    count = len(manifest.without_device)
    subject = "1 estimator does" if count == 1 else f"{count} estimators do"
    devices = " or ".join(manifest.suite.devices)
    return f"{subject} not run on {devices}: {'; '.join(known)}"


def why_empty(manifest: Manifest) -> str:
    """Explain why nothing is planned, and what to do."""
    if not manifest.without_device:
        return "the plan is empty: every combination is excluded"
    message = f"the plan is empty: {unplanned(manifest)}"
    devices = [device for _, others in manifest.without_device for device in others]
    if devices:
        message += f"; try --device {devices[0]}"
    available = set(manifest.suite.devices)
    able = []
    for plugin in registry().plugins("estimator"):
        # Broken estimators and those with required parameters are not suggested.
        with contextlib.suppress(Exception):
            if available.intersection(devices_of(plugin.cls())):
                able.append(plugin.id)
    return f"{message}, or estimators that do: {_names(able)}" if able else message


def _names(names: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(names))
    more = f" and {len(distinct) - NAMES_SHOWN} more" if len(distinct) > NAMES_SHOWN else ""
    return ", ".join(distinct[:NAMES_SHOWN]) + more


# ``ope-bench run --dry-run``: summarize a plan and predict its duration from the store.

WIDTH = 80

BUSY = 1.75
"""Processes per core from which a plan has a note."""


def summarize_plan(
    manifest: Manifest, path: Path, jobs: int, retry: Retry | None
) -> dict[str, Any]:
    """Return the document of ``run --dry-run``; nothing is written, the store need not exist.

    ``to_run`` are the planned trials without a stored outcome, ``alone`` those of them that run
    alone, for timing. ``predicted_seconds`` counts those whose time is known, or ``guessed`` from
    other settings, but not those of which nothing is ``unknown``; ``time`` says the same in words.
    ``busy`` says how much longer it takes beside what else runs on this machine. ``exit_code`` is
    that of the run, if every trial succeeds.

    Parameters
    ----------
    manifest : the plan.
    path : path of the store.
    jobs : number of trials at once.
    retry : as for the run.
    """
    trials, cells = manifest.trials, manifest.cells
    stored: set[str] = set()
    seconds: dict[str, Seconds] = {}
    if path.exists() and trials:
        freshness = Freshness(
            digest_of,
            exclusive=manifest.exclusive,
            timeout=manifest.suite.timeout,
            memory=manifest.suite.memory,
            retry=retry,
        )
        with Store.open(path) as store:
            stored = set(store.current(trials, freshness))
            seconds = store.seconds(trials)
    to_run = [trial for trial in trials if trial.key not in stored]
    alone = [trial for trial in to_run if manifest.exclusive(trial)]
    together = [trial for trial in to_run if not manifest.exclusive(trial)]
    # More jobs than cores do not make a run shorter.
    cores = available_cores()
    at_once = min(jobs, cores)
    prediction = predict(together, trials, seconds, at_once) + predict(alone, trials, seconds, 1)
    unknown = sum(prediction.unknown.values())
    load = psutil.getloadavg()[0]
    share = max(1.0, (load + at_once) / cores)
    busy = ""
    if share >= BUSY and prediction.seconds:
        busy = (
            f"load {load:.1f} on {cores} core{'s' * (cores > 1)} from other processes: rather "
            f"{format_estimate(share * prediction.seconds)}"
        )
    left_out = f"left out: {unplanned(manifest)}" if manifest.without_device else ""
    return {
        "schema": 1,
        "dry_run": True,
        "suite": manifest.suite.name,
        "store": str(path),
        "environments": len({id(cell.environment) for cell in cells}),
        "estimators": len({id(cell.estimator) for cell in cells}),
        "cells": [
            {
                "environment": selector_of(cell.environment),
                "estimator": selector_of(cell.estimator),
                "device": cell.device.value,
            }
            for cell in cells
        ],
        "replicates": manifest.suite.replicates,
        "planned": len(trials),
        "stored": len(stored),
        "to_run": len(to_run),
        "alone": len(alone),
        "jobs": jobs,
        "predicted_seconds": prediction.seconds if unknown < len(to_run) or not to_run else None,
        "without_timings": len(to_run) - prediction.stored,
        "guessed": prediction.guessed,
        "unknown": unknown,
        "time": prediction.as_text(len(to_run)),
        "busy": busy,
        "exit_code": exit_codes.CLEAN if trials else exit_codes.EMPTY,
        "reason": left_out if trials else why_empty(manifest),
    }


def plan_text(facts: Mapping[str, Any]) -> str:
    """Format the document of ``run --dry-run`` as text."""
    if not facts["planned"]:
        return f"{facts['suite']}: {facts['reason']}"
    settings, estimators = facts["environments"], facts["estimators"]
    product = f"{settings} settings x {estimators} estimators x {facts['replicates']} replicates"
    lines = [f"suite   {facts['suite']}", f"plan    {facts['planned']:,} trials = {product}"]
    if len(facts["cells"]) != settings * estimators:
        lines.append(f"cells   {len(facts['cells'])} after exclusions and devices")
    lines.append(facts["reason"])
    lines.append(f"stored  {facts['stored']:,} in {facts['store']}")
    alone = f", {facts['alone']:,} of them alone" if facts["alone"] else ""
    lines.append(f"to run  {facts['to_run']:,} with {facts['jobs']} jobs{alone}")
    lines.append(f"time    {facts['time']}")
    lines.append(f"busy    {facts['busy']}" if facts["busy"] else "")
    return "\n".join(
        textwrap.fill(line, WIDTH, subsequent_indent=" " * 8, break_on_hyphens=False)
        for line in filter(None, lines)
    )


# Build a suite from the options of ``ope-bench run``.

DEFAULT_SUITE = "ope-bench:quick"


def suite_of(
    name: str | None,
    environments: Sequence[str] | None,
    estimators: Sequence[str] | None,
    changes: Sequence[str] | None,
    settings: Mapping[str, Any],
) -> Suite:
    """Return the requested suite, with the parts that options replace; None where not given.

    Parameters
    ----------
    name : of the suite.
    environments, estimators : selectors that replace the suite's.
    changes : texts ``ID.PARAM=VALUE``.
    settings : the other options by name: ``device``, and fields of the suite.

    Raises
    ------
    UsageError : the suite is unknown, a selector cannot be read, or only environments or only
        estimators are named.
    """
    given = adhoc(environments or (), estimators or ())
    if name is None and (given.environments or given.estimators):
        if not (given.environments and given.estimators):
            missing = "--est" if given.environments else "--env"
            msg = f"{missing} is missing: without a suite, name environments and estimators"
            raise UsageError(msg)
        suite = given
    else:
        suite = find_suite(name or DEFAULT_SUITE, typed=name is not None)
        if given.environments:
            suite = replace(suite, environments=given.environments)
        if given.estimators:
            suite = replace(suite, estimators=given.estimators)
    replaced = {option: value for option, value in settings.items() if value is not None}
    if "device" in replaced:
        replaced["devices"] = options.DEVICES[replaced.pop("device")]
    return overrides(replace(suite, **replaced), changes or ())


def check_data_files(manifest: Manifest) -> None:
    """Refuse a plan whose data are not where its parameters say.

    Raises
    ------
    UsageError : a path is missing, unreadable, or neither a file nor a folder.
    """
    for spec in manifest.plugins():
        for name in getattr(build(spec), "data_files", ()):
            path = Path(name)
            reason = ""
            if not path.exists():
                # A name without folder and ending may be that of data in a package.
                if path.name != name or path.suffix:
                    reason = "no such file or folder"
            elif not (path.is_file() or path.is_dir()):
                reason = "neither a file nor a folder"
            elif not os.access(path, os.R_OK):
                reason = "not readable"
            if reason:
                msg = f"{spec.kind} '{spec.id}': {name}: {reason}"
                raise UsageError(msg)


def check_modules(manifest: Manifest, selectors: Sequence[str]) -> None:
    """Report plugins with missing modules.

    Parameters
    ----------
    manifest : the plan.
    selectors : those of the command line.

    Raises
    ------
    UsageError : the command line names such a plugin explicitly.
    """
    named = {parse_selector(text).reference for text in selectors}
    for spec in manifest.plugins():
        missing = next((name for name in build(spec).requires if not is_installed(name)), None)
        if missing is None:
            continue
        line = pip_line(missing)
        if named & {spec.id, spec.reference, *registry().aliases_of(spec.id)}:
            msg = f"{spec.kind} '{spec.id}' needs '{missing}', which is not installed: {line}"
            raise UsageError(msg)
        note(f"{spec.kind} '{spec.id}' will be unavailable; to install it: {line}")


# Summarize a finished run, one setting at a time, without keeping its records.

BOARDS_SHOWN = 4

Kind = tuple[str, Status, str | None]


@dataclass
class Failures:
    """Failures of one estimator with the same status and type of error.

    Parameters
    ----------
    key, message : those of the first such trial.
    count : number of such trials.
    """

    key: str
    message: str
    count: int = 0


@dataclass
class RunSummary:
    """Boards and failures of a run, and further boards that its records allow.

    Parameters
    ----------
    boards : all boards of a small run; of a large one those by RMSE; none if not requested.
    failures : by estimator, status and type of error.
    notes : how many trials have each note, by estimator and note.
    questions : measures for which the records give boards, RMSE first.
    """

    boards: list[Board] = field(default_factory=list)
    failures: dict[Kind, Failures] = field(default_factory=dict)
    notes: Counter[tuple[str, str]] = field(default_factory=Counter)
    questions: list[By] = field(default_factory=lambda: ["rmse"])

    @classmethod
    def of(cls, store: Store, run: str, truth: TruthKind, *, boards: bool) -> RunSummary:
        """Summarize the records of a run.

        Parameters
        ----------
        store : the open store.
        run : id of the run.
        truth : the value against which errors are measured.
        boards : whether to compute boards, which costs more than all the rest.
        """
        ending = cls()
        settings = ending._noted(store.outcomes(run=run))
        if not boards:
            for _ in settings:
                pass
            return ending
        by_rmse = stream_boards(settings, truth=truth)
        more = ending.questions[1:] if len(by_rmse) < BOARDS_SHOWN else ()
        others = [
            board
            for by in more
            for board in stream_boards(store.outcomes(run=run), by=by, truth=truth)
            if board.rows
        ]
        few = len(by_rmse) + len(others) <= BOARDS_SHOWN
        ending.boards = [*by_rmse, *others] if few else by_rmse
        return ending

    def _noted(self, settings: Iterator[Outcomes]) -> Iterator[Outcomes]:
        """Yield the settings; note their failures and notes on the way."""
        for outcomes in settings:
            if outcomes.has(Status.POSITIVITY).any() and "positivity" not in self.questions:
                self.questions.insert(1, "positivity")
            if outcomes.exclusive.any() and "time" not in self.questions:
                self.questions.append("time")
            estimators = outcomes.estimator.tolist()
            for spec, text in zip(estimators, outcomes.note.tolist(), strict=True):
                if text:
                    self.notes[spec.label or spec.id, text] += 1
            for place in np.flatnonzero(_SEVERE[outcomes.status]).tolist():
                spec, status = estimators[place], STATUSES[outcomes.status[place]]
                error = outcomes.error_type[place]
                kind = (spec.label or spec.id, status, error)
                if kind not in self.failures:
                    message = outcomes.error_message[place] or error or ""
                    reason = reason_of(status, message, outcomes.traceback[place], spec)
                    self.failures[kind] = Failures(outcomes.key[place], reason)
                self.failures[kind].count += 1
            yield outcomes


_SEVERE = np.array([status.severity > Severity.WARNING for status in STATUSES])


# Execute a plan and report on it.

FAILURES_SHOWN = 5
MESSAGE_SHOWN = 400


@dataclass(frozen=True)
class Report:
    """The report of a run.

    Parameters
    ----------
    manifest : the plan.
    store : path of the store.
    outcome : counts of trials.
    exit_code, reason : exit code and its reason.
    ending : summary of the run's records, reused ones included; empty if nothing was run.
    """

    manifest: Manifest
    store: Path
    outcome: RunCounts
    exit_code: int
    reason: str
    ending: RunSummary = field(default_factory=RunSummary)

    def as_json(self) -> dict[str, Any]:
        """Return the document of ``run --format json``."""
        outcome = self.outcome
        return {
            "schema": 1,
            "suite": self.manifest.suite.name,
            "shard": str(self.manifest.shard) if self.manifest.shard else None,
            "store": str(self.store),
            "planned": outcome.planned,
            "reused": outcome.reused,
            "executed": outcome.executed,
            "status": {word.value: outcome.status[word] for word in Status},
            "seconds": round(outcome.seconds, 3),
            "exit_code": self.exit_code,
            "reason": self.reason,
        }

    def print_summary(self) -> None:
        """Print the last lines to stderr: failures, notes, counts, store, exit code."""
        outcome, ending = self.outcome, self.ending
        default = os.environ.get("OPE_BENCH_STORE", str(options.DEFAULT_STORE))
        path = str(self.store)
        store = "" if path == default else f" --store {shlex.quote(path)}"
        if self.manifest.without_device and self.manifest.cells:
            note(f"left out: {unplanned(self.manifest)}")
        kinds = sorted(ending.failures.items(), key=lambda one: -one[1].count)
        for (name, status, _), some in kinds[:FAILURES_SHOWN]:
            note(f"{status.value:<9} {some.count} x {name}: {some.message[:MESSAGE_SHOWN]}")
            if status.broken:
                note(f"          reproduce:    ope-bench rerun {some.key[:12]}{store}")
        if len(kinds) > FAILURES_SHOWN:
            note(f"          and {len(kinds) - FAILURES_SHOWN} more kinds of failure")
        # How estimators changed their process, the most frequent ways first.
        notes = ending.notes.most_common()
        for (name, text), count in notes[:FAILURES_SHOWN]:
            note(f"note      {count} x {name} {text[:200]}; no other trial saw that")
        if len(notes) > FAILURES_SHOWN:
            note(f"          and {len(notes) - FAILURES_SHOWN} more such notes")
        counts = ", ".join(f"{n} {word.value}" for word, n in outcome.status.items() if n)
        note(
            f"trials  {outcome.planned} planned, {outcome.reused} reused, {outcome.executed} run "
            f"in {format_duration(outcome.seconds)}" + (f": {counts}" if counts else "")
        )
        note(f"store   {self.store}")
        if sum(board.by == "rmse" for board in ending.boards) > 1:
            note(f"also    ope-bench leaderboard --boards{store}")
        for by in ending.questions[1:]:
            note(f"also    ope-bench leaderboard --by {by}{store}")
        note(f"exit    {self.exit_code}: {self.reason}")


def exit_reason(outcome: RunCounts, code: int) -> str:
    """Explain why a run exits with ``code``."""
    missing = outcome.planned - sum(outcome.status.values())
    if code == exit_codes.INTERRUPTED:
        return f"interrupted; {missing} of {outcome.planned} trials left, run again to resume"
    if outcome.planned == 0:
        return "the plan is empty"
    if outcome.planned == outcome.status[Status.UNAVAILABLE]:
        return "nothing could run: every planned trial is unavailable"
    if code == exit_codes.EMPTY:
        return f"{missing} of {outcome.planned} planned trials have no stored outcome"
    broken = ", ".join(f"{n} {word}" for word, n in outcome.status.items() if n and word.broken)
    if code == exit_codes.FAILED_TRIALS:
        return f"of {outcome.planned} planned trials {broken} (--allow-failures accepts these)"
    if broken:
        return f"of {outcome.planned} planned trials {broken}, which --allow-failures accepts"
    return "every planned trial has an outcome"


def run_session(
    manifest: Manifest,
    path: Path,
    executor: Executor,
    *,
    retry: Retry | None = None,
    allow_failures: bool = False,
    boards: bool = True,
) -> Report:
    """Run a plan and store its outcomes; an empty plan changes nothing.

    Parameters
    ----------
    manifest : the plan.
    path : of the store.
    executor : executor of the trials; closed at the end.
    retry : run stored failures, or all stored trials, again.
    allow_failures : exit with 0 in spite of broken trials.
    boards : whether the report contains boards.
    """
    trials, suite = manifest.trials, manifest.suite
    outcome = RunCounts(planned=len(trials))
    if not trials:
        return Report(manifest, path, outcome, exit_codes.EMPTY, why_empty(manifest))
    # The machines of a cluster's workers, as far as known.
    machines = getattr(executor, "machines", None)
    # `run` closes the executor too; here it ends also where the store cannot be opened.
    with contextlib.closing(executor), Store.open(path, write=True) as store:
        run_id = store.begin_run(
            suite=suite.name,
            truth=suite.truth,
            command=shlex.join(["ope-bench", *sys.argv[1:]]),
            planned=len(trials),
            plan=manifest.digest,
            machine=machine_facts(executor.arithmetic)
            | ({"cluster": machines} if machines else {})
            | ({"arithmetic_note": note} if (note := executor.arithmetic_note) else {}),
        )
        state = RunState(trials, suite.truth, executor.jobs, manifest.exclusive)
        try:
            with display(state, suite.name) as progress:
                for event in run(
                    trials,
                    store=store,
                    run_id=run_id,
                    executor=executor,
                    outcome=outcome,
                    exclusive=manifest.exclusive,
                    retry=retry,
                ):
                    progress.handle(event)
        except KeyboardInterrupt:
            outcome.interrupted = True
        except UsageError:
            store.end_run(run_id, exit_codes.USAGE)
            raise
        code = outcome.exit_code(allow_failures=allow_failures)
        store.end_run(run_id, code)
        ending = RunSummary.of(store, run_id, suite.truth, boards=boards)
    return Report(manifest, path, outcome, code, exit_reason(outcome, code), ending)
