"""Makes results of suites again from their committed trials, and runs only what is missing.

    python results/remake.py [--jobs N] [--without-missing] [--anew NAME,...] SUITE...
    python results/remake.py --show SUITE...

For changes of boards, and of suites that gained estimators, settings or replicates: trials whose
keys are committed are not run again, since the same key means the same numbers (tests/results runs
a sample of them). With ``--anew dr`` trials of `dr` record the signal of logs, which older
releases did not. ``--show`` writes boards and figures of committed trials. ``results/regenerate``
runs everything anew.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
from judging.trials.committed import boards_of
from seal import seal

from ope_bench.base.canonical import plain
from ope_bench.cli.app import invoke
from ope_bench.cli.progress import PlainProgress, RunState
from ope_bench.execution.local import LocalExecutor
from ope_bench.execution.machine import machine_facts
from ope_bench.execution.runner import RunCounts, run
from ope_bench.report.boards import render
from ope_bench.store import Store
from ope_bench.store.export import rows_of, writer_for
from ope_bench.store.reader import Result
from ope_bench.suites.manifest import Manifest, plan
from ope_bench.suites.suite import find_suite
from ope_bench.trials.record import Trial

RESULTS = Path(__file__).resolve().parent


def folder_of(suite: str) -> Path:
    """Return where the results of a suite lie."""
    part = suite.removeprefix("paper-")
    return RESULTS / "paper" / part if part != suite else RESULTS / suite


def remake(suite: str, *, jobs: int, run_missing: bool, anew: Collection[str] = ()) -> None:
    """Write trials, boards, figures and facts of a suite's runs.

    Parameters
    ----------
    suite : its name.
    jobs : trials that run at once.
    run_missing : run trials of the suite that are not committed; otherwise leave them out.
    anew : trials of these estimators, with these values of a parameter, or with both, NAME:VALUE,
        run again though they are committed: they tell more now, or what they compute has changed.
    """
    folder = folder_of(suite)
    folder.mkdir(exist_ok=True)
    manifest = plan(find_suite(suite))
    planned = {trial.key: trial for trial in manifest.trials}
    have = kept_keys(folder, planned, anew)
    missing = [trial for key, trial in planned.items() if key not in have]
    new: list[Result] = []
    if missing:
        new = (run_trials if run_missing else stored_trials)(manifest, missing, jobs)
    write_trials(folder, have, new)
    write_runs(folder, new, len(have))
    # The field's suites have one page of all worlds, by `results/write.py`, and no boards.
    if suite.startswith("field"):
        seal(folder)
    else:
        show(folder)


def show(folder: Path) -> None:
    """Write the boards of committed trials as Markdown, and the figures that pages show."""
    write(folder / "leaderboard.md", render(boards_of(folder), "markdown"))
    draw(folder)
    seal(folder)


def kept_keys(folder: Path, planned: dict[str, Trial], anew: Collection[str]) -> set[str]:
    """Return the keys of committed trials that are planned and need not run again."""
    path = folder / "trials.parquet"
    keys = pq.read_table(path, columns=["key"])["key"].to_pylist() if path.exists() else []
    return {key for key in keys if key in planned and names(planned[key]).isdisjoint(anew)}


def names(trial: Trial) -> set[str]:
    """Return an estimator's name, the values of its parameters, and these as NAME:VALUE."""
    name, values = trial.estimator.id, {str(one) for one in trial.estimator.params.values()}
    return {name, *values, *(f"{name}:{value}" for value in values)}


def store_of(suite: str) -> Path:
    """Return the store of the trials that a suite has gained; the paper's share one.

    A trial that two of its suites have is run once.
    """
    shared = "paper" if suite.startswith("paper-") else suite
    return RESULTS.parent / f"results-{shared}-added.sqlite"


def stored_trials(manifest: Manifest, trials: Sequence[Trial], _jobs: int) -> list[Result]:
    """Return what an interrupted call of `run_trials` has stored."""
    path = store_of(manifest.suite.name)
    if not path.exists():
        return []
    wanted = {trial.key for trial in trials}
    with Store.open(path) as store:
        return [result for result in store.results() if result.record.key in wanted]


def run_trials(manifest: Manifest, trials: Sequence[Trial], jobs: int) -> list[Result]:
    """Run trials into a store of their own, which a further call resumes."""
    suite = manifest.suite
    path = store_of(suite.name)
    executor = LocalExecutor(jobs, timeout=suite.timeout, memory=suite.memory)
    outcome = RunCounts()
    state = RunState(trials, suite.truth, jobs, manifest.exclusive)
    with Store.open(path, write=True) as store:
        number = store.begin_run(
            suite=suite.name,
            truth=suite.truth,
            command=shlex.join(sys.argv),
            planned=len(trials),
            machine=machine_facts(executor.arithmetic),
        )
        with PlainProgress(state, suite.name) as progress:
            for event in run(
                trials,
                store=store,
                run_id=number,
                executor=executor,
                outcome=outcome,
                exclusive=manifest.exclusive,
            ):
                progress.handle(event)
        store.end_run(number, outcome.exit_code())
        if outcome.interrupted or outcome.executed + outcome.reused < outcome.planned:
            sys.exit(outcome.exit_code())
        return list(store.results(run=number))


def write_trials(folder: Path, old: Collection[str], new: Sequence[Result]) -> None:
    """Write the committed trials whose keys are in ``old``, and the new ones."""
    path = folder / "trials.parquet"
    results, runs = [*new], {result.run.id: result.run for result in new}
    if path.exists():
        with Store.open(path) as store:
            results += (one for one in store.results() if one.record.key in old)
            runs = {one.id: one for one in store.runs()} | runs
    results.sort(key=lambda one: one.record.key)
    numbered = [replace(one, number=place) for place, one in enumerate(runs.values(), 1)]
    writer_for(path)(path, rows_of(results), numbered)


def write_runs(folder: Path, new: Sequence[Result], records: int) -> None:
    """Add the run of new trials to the committed facts of runs."""
    if not new:
        return
    path = folder / "run.json"
    facts = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"runs": []}
    made = {result.run.id: vars(result.run) for result in new}
    facts["runs"] = (facts["runs"] if records else []) + list(made.values())
    facts["records"] = facts["trials"] = records + len(new)
    statuses = Counter(
        row["status"] for row in pq.read_table(folder / "trials.parquet").to_pylist()
    )
    facts["status"] = dict(sorted(statuses.items()))
    write(path, json.dumps(plain(facts), ensure_ascii=False))


def write(path: Path, text: str) -> None:
    """Write a text that ends in one line end."""
    path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")


def shown() -> set[Path]:
    """Return the figures that committed pages show."""
    pages = [RESULTS.parent / "README.md", *RESULTS.rglob("*.md")]
    return {
        (page.parent / link).resolve()
        for page in pages
        for link in re.findall(r"\]\(([^)\s]+\.svg)\)", page.read_text(encoding="utf-8"))
    }


def draw(folder: Path) -> None:
    """Draw the figures of a folder that pages show; `ope-bench report` draws all."""
    figures = folder / "figures"
    wanted = [path for path in shown() if path.parent == figures.resolve()]
    shutil.rmtree(figures, ignore_errors=True)
    if not wanted:
        return
    with tempfile.TemporaryDirectory() as scratch:
        given = ["--store", str(folder / "trials.parquet"), "--figures", scratch]
        code = invoke(["report", *given])
        if code:
            sys.exit(code)
        figures.mkdir()
        for one in wanted:
            shutil.copyfile(Path(scratch) / one.name, one)


def main() -> int:
    """Read the arguments and make the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("suites", nargs="+", metavar="SUITE")
    parser.add_argument("--jobs", type=int, default=1, help="trials that run at once")
    parser.add_argument(
        "--without-missing", action="store_true", help="run nothing, leave them out"
    )
    parser.add_argument("--show", action="store_true", help="only write what trials show")
    parser.add_argument("--anew", default="", help="names, values, or NAME:VALUE")
    given = parser.parse_args()
    for suite in given.suites:
        if given.show:
            show(folder_of(suite))
            continue
        remake(
            suite,
            jobs=given.jobs,
            run_missing=not given.without_missing,
            anew=given.anew.split(","),
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
