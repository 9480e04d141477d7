"""What a run of ten million trials would cost the harness: measured small, computed large.

    python results/performance/scripts/ten_million_trials.py [--full] [--again]

Every stage that a run passes through besides the trials themselves is measured at growing numbers
of trials, each in a process of its own: planning and queueing, looking up what is stored already,
appending outcomes, boards, a report. A power law through each then gives its cost at ten
million, and at which number it no longer fits this machine. ``--full`` goes up to a million trials
(about twelve minutes on an idle core), else up to a hundred thousand (about a minute). Results
go to results/performance/ten-million-trials.json as they come, so that a second call goes on
where the first was stopped; the page is filled in from them.

A trial's outcome is a real one whose estimate was changed, so that its columns are as long as they
are in use. Settings grow with the trials: ten estimators, a hundred replicates each.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from exponent import Power, power
from statement import Page, facts_now, keep, resumed
from trial_cost import one_thread

OUTPUT = Path(__file__).parents[1] / "ten-million-trials.json"
TEMPLATE = Path(__file__).with_suffix(".md").read_text().split("<!-- next part -->\n")
"""The text in front of the machines' sections, that of a section, and that behind them."""

ACME = Path(__file__).parents[3] / "tests" / "plugins" / "acme-ope"
SIZES = (1_000, 3_000, 10_000, 20_000, 50_000, 100_000)
FULL = (*SIZES, 200_000, 500_000, 1_000_000)
ESTIMATORS, REPLICATES = 10, 100
TEN_MILLION = 10_000_000

DIGEST = "0123456789abcdef"
"""Of the code behind the invented outcomes: no change of code makes them stale."""

Figures = dict[str, float]


def planned(n_trials: int) -> Any:
    """A manifest of so many trials."""
    from ope_bench.suites.manifest import plan
    from ope_bench.suites.suite import adhoc

    settings = max(1, n_trials // (ESTIMATORS * REPLICATES))
    environments = [f"saito-toy[n_actions={2 + number}]" for number in range(settings)]
    estimators = [f"ipw[clip={1 + number}]" for number in range(ESTIMATORS)]
    return plan(replace(adhoc(environments, estimators), replicates=REPLICATES))


class Watch:
    """Processor seconds, wall seconds and memory since it was made."""

    def __init__(self) -> None:
        from ope_bench.trials.timing import reset_peak_rss

        reset_peak_rss()
        self._memory = resident()
        self._start = time.process_time(), time.perf_counter()

    def read(self) -> Figures:
        from ope_bench.trials.timing import peak_rss_bytes

        return {
            "seconds": time.process_time() - self._start[0],
            "wall_seconds": time.perf_counter() - self._start[1],
            "held_bytes": resident() - self._memory,
            "peak_bytes": (peak_rss_bytes() or 0) - self._memory,
        }


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def written() -> int:
    """Bytes that this process has written so far, to files of any kind."""
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("wchar"):
            return int(line.split()[1])
    msg = "no wchar in /proc/self/io"
    raise OSError(msg)


def planning(n_trials: int, store: Path) -> Figures:
    """Manifest, trials, keys and the executor's queue, as a run holds them."""
    from ope_bench.execution.local import TrialQueue

    planned(1_000)
    watch = Watch()
    manifest = planned(n_trials)
    by_key = {trial.key: trial for trial in manifest.trials}
    queue = TrialQueue(list(by_key.values()))
    figures = watch.read()
    assert queue.take(0) is not None
    return figures


def appending(n_trials: int, store: Path) -> Figures:
    """One transaction a trial, as they come in."""
    from ope_bench.store import Store

    manifest = planned(n_trials)
    outcomes = list(invented(manifest.trials))
    log = store.with_name(f"{store.name}-wal")
    largest = 0
    with Store.open(store, write=True) as opened:
        run_id = opened.begin_run(suite="large", truth="empirical", planned=n_trials)
        before = written()
        watch = Watch()
        for number, record in enumerate(outcomes):
            opened.add(record, run_id)
            if number % 100 == 0:
                largest = max(largest, log.stat().st_size)
        figures = watch.read()
        figures["written_bytes"] = written() - before
        opened.end_run(run_id, 0)
    return {**figures, "log_bytes": largest, "file_bytes": store.stat().st_size, **pages(store)}


def pages(store: Path) -> Figures:
    """Bytes of outcomes, of the index by key, and of the run's list of keys."""
    import sqlite3

    names = {"record": "record_bytes", "record_key": "index_bytes", "run_record": "list_bytes"}
    sizes = "SELECT name, sum(pgsize) FROM dbstat GROUP BY name"
    with contextlib.closing(sqlite3.connect(store)) as opened:
        return {names[name]: size for name, size in opened.execute(sizes) if name in names}


def invented(trials: Any) -> Iterator[Any]:
    """Outcomes of trials that were never run, in the form of one that was."""
    import numpy as np

    from ope_bench.trials.record import RECORD_COLUMNS, from_row, to_row
    from ope_bench.trials.trial import Workspace, run_trial

    real = run_trial(trials[0], Workspace())
    assert real.status == "ok", real.error_message
    row = list(to_row(replace(real, code_digest=DIGEST)))
    estimate, truth = (RECORD_COLUMNS.index(name) for name in ("estimate", "truth_empirical"))
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(len(trials))
    for trial, error in zip(trials, noise, strict=True):
        row[truth] = 0.5 + 1e-3 * trial.replicate
        row[estimate] = row[truth] + 0.1 * float(error)
        yield from_row(trial, tuple(row))


def resuming(n_trials: int, store: Path) -> Figures:
    """A run of which all is stored: what is found, and the note that this run reuses it."""
    from ope_bench.execution import runner
    from ope_bench.execution.executors import InProcessExecutor
    from ope_bench.store import Store

    # The outcomes are invented, so no code here is the one that gave them.
    runner.digest_of = lambda trial: DIGEST
    trials = planned(n_trials).trials
    outcome, executor = runner.RunCounts(), InProcessExecutor()
    with Store.open(store, write=True) as opened:
        run_id = opened.begin_run(suite="large", truth="empirical", planned=n_trials)
        watch = Watch()
        for _ in runner.run(
            trials, store=opened, run_id=run_id, executor=executor, outcome=outcome
        ):
            pass
        figures = watch.read()
    assert outcome.reused == n_trials
    return figures


def judging(n_trials: int, store: Path) -> Figures:
    """Boards of the store, as `leaderboard` makes them: one setting after another."""
    from ope_bench.cli.stored_boards import StorePart

    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.sqlite"
        appending(1_000, small)
        StorePart(small).boards()
    watch = Watch()
    found = StorePart(store).boards()
    figures = watch.read()
    assert sum(len(board.rows) for board in found) == n_trials // REPLICATES
    return figures


def reporting(n_trials: int, store: Path) -> Figures:
    """The page of `report`, with all settings."""
    from ope_bench.cli.app import invoke

    with tempfile.TemporaryDirectory() as folder:
        small, page = Path(folder) / "small.sqlite", Path(folder) / "report.html"
        appending(1_000, small)
        assert invoke(["report", "--store", str(small), "-o", str(page)]) == 0
        watch = Watch()
        assert invoke(["report", "--store", str(store), "-o", str(page)]) == 0
        return {**watch.read(), "page_bytes": page.stat().st_size}


def executing(n_trials: int, store: Path) -> Figures:
    """Trials that do nothing, in a killable worker, with their records stored."""
    from ope_bench.execution.local import LocalExecutor
    from ope_bench.execution.runner import RunCounts, run
    from ope_bench.plugins import registry as registry_module
    from ope_bench.plugins.spec import resolve
    from ope_bench.store import Store
    from ope_bench.trials.record import Trial

    sys.path.insert(0, str(ACME))
    registry_module.registry.cache_clear()
    world = resolve("environment", "acme-coin")
    methods = [resolve("estimator", "acme-mean", {"label": str(n)}) for n in range(ESTIMATORS)]
    trials = [Trial(world, methods[n % ESTIMATORS], n // ESTIMATORS) for n in range(n_trials)]
    outcome = RunCounts()
    with Store.open(store, write=True) as opened:
        run_id = opened.begin_run(suite="large", truth="empirical", planned=n_trials)
        watch = Watch()
        executor = LocalExecutor(1)
        for _ in run(trials, store=opened, run_id=run_id, executor=executor, outcome=outcome):
            pass
        figures = watch.read()
    assert outcome.executed == n_trials
    return figures


STAGES: Mapping[str, tuple[Callable[[int, Path], Figures], str]] = {
    "planning": (planning, "plan, keys and queue"),
    "executing": (executing, "coordinator of one worker, store included"),
    "appending": (appending, "append to the store"),
    "resuming": (resuming, "resume: everything is stored"),
    "judging": (judging, "boards, setting by setting"),
    "reporting": (reporting, "the page of a report"),
}
SMALL = {"executing": 50_000}
"""Where fewer trials say enough: the largest size."""


def alone(stage: str, n_trials: int, store: Path) -> Figures:
    """One stage in a process of its own."""
    done = subprocess.run(
        [
            sys.executable,
            __file__,
            "--stage",
            stage,
            "--trials",
            str(n_trials),
            "--in",
            str(store),
        ],
        env=one_thread(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{stage} of {n_trials}:\n{done.stderr[-2_000:]}")
    figures: Figures = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def law_of(rows: list[dict[str, Any]], stage: str, figure: str) -> Power:
    mine = [row for row in rows if row["stage"] == stage and row["trials"] >= SIZES[0]]
    sizes, costs = [row["trials"] for row in mine], [max(1e-3, row[figure]) for row in mine]
    law = power(sizes, costs)
    if law is None:
        msg = f"{stage}: fewer than three sizes were measured"
        raise ValueError(msg)
    return law


def table(rows: list[dict[str, Any]]) -> str:
    """What was measured, per trial."""
    head = (
        "| stage | trials | processor, µs a trial | wall, µs a trial "
        "| held, bytes a trial | peak, bytes a trial |"
    )
    lines = [head, "|:---|---:|---:|---:|---:|---:|"]
    for stage, (_, title) in STAGES.items():
        for row in rows:
            if row["stage"] == stage:
                n = row["trials"]
                lines.append(
                    f"| {title} | {n:,} | {1e6 * row['seconds'] / n:,.1f} "
                    f"| {1e6 * row['wall_seconds'] / n:,.1f} | {row['held_bytes'] / n:,.0f} "
                    f"| {row['peak_bytes'] / n:,.0f} |"
                )
    return "\n".join(lines)


def projection(rows: list[dict[str, Any]], memory: int) -> str:
    """What ten million would take, and how many trials fit."""
    head = (
        "| stage | exponent of time | at ten million | exponent of memory | at ten million "
        "| trials that fit this machine's memory |"
    )
    lines = [head, "|:---|:---|---:|:---|---:|---:|"]
    for stage, (_, title) in STAGES.items():
        if not any(row["stage"] == stage for row in rows):
            continue
        seconds, peak = law_of(rows, stage, "seconds"), law_of(rows, stage, "peak_bytes")
        fit = (memory / peak.scale) ** (1 / peak.exponent) if peak.exponent > 0.5 else None
        lines.append(
            f"| {title} | {seconds.told()} | {duration(seconds.at(TEN_MILLION))} "
            f"| {peak.told()} | {gigabytes(peak.at(TEN_MILLION))} "
            f"| {f'{two_digits(fit):,}' if fit else 'any number'} |"
        )
    return "\n".join(lines)


def two_digits(value: float) -> int:
    return int(float(f"{value:.1e}"))


def duration(seconds: float) -> str:
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.1f} s"


def gigabytes(count: float) -> str:
    return f"{count / 2**30:,.1f} GiB"


def tables(report: dict[str, Any]) -> str:
    """One machine's section; every figure in it was measured, or computed from such."""
    rows = report["rows"]
    memory = report["machine"]["memory_bytes"]
    last = max((row for row in rows if row["stage"] == "appending"), key=lambda r: r["trials"])
    small = min((row for row in rows if row["stage"] == "appending"), key=lambda r: r["trials"])
    n = last["trials"]
    largest = {
        stage: max((r for r in rows if r["stage"] == stage), key=lambda r: r["trials"])
        for stage in STAGES
    }

    def at_ten_million(stage: str, figure: str) -> float:
        return law_of(rows, stage, figure).at(TEN_MILLION)

    from ope_bench.store.store import KEYS_AT_ONCE
    from ope_bench.suites.manifest import MAX_TRIALS

    coordinator = largest["executing"]
    a_trial = coordinator["wall_seconds"] / coordinator["trials"]
    keyed = (last["index_bytes"] + last["list_bytes"]) / n
    values = {
        "table": table(rows),
        "projection": projection(rows, memory),
        "largest": f"{n:,}",
        "file": f"{last['file_bytes'] / n:,.0f}",
        "file_all": gigabytes(last["file_bytes"] / n * TEN_MILLION),
        "written": f"{last['written_bytes'] / n / 1000:,.1f}",
        "written_small": f"{small['written_bytes'] / small['trials'] / 1000:,.1f}",
        "written_all": gigabytes(last["written_bytes"] / n * TEN_MILLION),
        "amplification": f"{last['written_bytes'] / last['file_bytes']:,.0f}",
        "log": f"{last['log_bytes'] / 2**20:,.1f}",
        "rate": f"{n / last['seconds']:,.0f}",
        "append_all": duration(at_ten_million("appending", "seconds")),
        "limit": f"{MAX_TRIALS:,}",
        "plan_seconds": duration(at_ten_million("planning", "seconds")),
        "plan_memory": gigabytes(at_ten_million("planning", "held_bytes")),
        "resume_seconds": duration(at_ten_million("resuming", "seconds")),
        "resume_memory": gigabytes(at_ten_million("resuming", "peak_bytes")),
        "report_seconds": duration(at_ten_million("reporting", "seconds")),
        "report_memory": gigabytes(at_ten_million("reporting", "peak_bytes")),
        "page": f"{largest['reporting']['page_bytes'] / 1e6:,.1f}",
        "boards_seconds": duration(at_ten_million("judging", "seconds")),
        "boards_memory": gigabytes(at_ten_million("judging", "peak_bytes")),
        "a_trial": f"{1e3 * a_trial:.2f}",
        "coordinator": f"{1e3 * coordinator['seconds'] / coordinator['trials']:.2f}",
        "workers": f"{coordinator['trials'] / coordinator['seconds']:,.0f}",
        "idle_all": duration(a_trial * TEN_MILLION),
        "core_days": f"{TEN_MILLION * 0.1 / 86_400:,.0f}",
        "record": f"{last['record_bytes'] / n:,.0f}",
        "keyed": f"{keyed:,.0f}",
        "keyed_all": gigabytes(keyed * TEN_MILLION),
        "portion": f"{KEYS_AT_ONCE:,}",
        "memory": gigabytes(memory),
    }
    text = TEMPLATE[1]
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


PAGE = Page(TEMPLATE[0], tables, TEMPLATE[2])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="up to a million trials")
    parser.add_argument("--again", action="store_true", help="measure everything anew")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    parser.add_argument("--trials", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--in", type=Path, dest="store", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.stage:
        print(json.dumps(STAGES[given.stage][0](given.trials, given.store)))
        return 0
    command = "python results/performance/scripts/ten_million_trials.py" + (
        " --full" if given.full else ""
    )
    report: dict[str, Any] = {"command": command, **facts_now(), "rows": []}
    if not given.again:
        report = resumed(given.output, report)
    done = {(row["stage"], row["trials"]) for row in report["rows"]}
    for n_trials in FULL if given.full else SIZES:
        asked = [
            stage
            for stage in STAGES
            if (stage, n_trials) not in done and n_trials <= SMALL.get(stage, n_trials)
        ]
        with tempfile.TemporaryDirectory() as folder:
            store = Path(folder) / "large.sqlite"
            if asked and "appending" not in asked:
                alone("appending", n_trials, store)
            for stage in asked:
                place = store.with_name("other.sqlite") if stage == "executing" else store
                row = {"stage": stage, "trials": n_trials, **alone(stage, n_trials, place)}
                print(json.dumps(row), file=sys.stderr, flush=True)
                report["rows"].append(row)
                keep(given.output, report)
    PAGE.write(given.output, report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
