"""Results of a suite made again from its committed trials: only what is missing runs.

For changes of boards, and of suites that gained estimators, settings or replicates: trials whose
keys are committed are not run again, since the same key means the same numbers (tests/results runs
a sample of them). Where an estimator gains data sets of a setting and its code has changed, all of
them run.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from judging.trials.rows import rows_of

from ope_bench.base.canonical import plain
from ope_bench.cli.progress import PlainProgress, RunState
from ope_bench.execution.local import LocalExecutor
from ope_bench.execution.machine import machine_facts
from ope_bench.execution.runner import RunCounts, digest_of, run
from ope_bench.store import Store, export
from ope_bench.store.reader import Result
from ope_bench.suites.manifest import Manifest, plan
from ope_bench.suites.suite import find_suite
from ope_bench.trials.record import Trial
from verbs import folders


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
    folder = folders.folder_of(suite)
    folder.mkdir(exist_ok=True)
    manifest = plan(find_suite(suite))
    planned = {trial.key: trial for trial in manifest.trials}
    have = kept_keys(folder, planned, anew)
    if run_missing:
        have = of_one_code(folder, planned, have)
    missing = [trial for key, trial in planned.items() if key not in have]
    new: list[Result] = []
    if missing:
        new = (run_trials if run_missing else stored_trials)(manifest, missing, jobs)
    write_trials(folder, have, new)
    write_runs(folder, new, len(have))
    folders.show(suite)


def kept_keys(folder: Path, planned: dict[str, Trial], anew: Collection[str]) -> set[str]:
    """Return the keys of committed trials that are planned and need not run again."""
    path = folder / "trials.parquet"
    keys = [row["key"] for row in rows_of(folder, "key")] if path.exists() else []
    return {key for key in keys if key in planned and names(planned[key]).isdisjoint(anew)}


def of_one_code(folder: Path, planned: dict[str, Trial], kept: set[str]) -> set[str]:
    """Return the kept keys without those of rows that gain trials of another code."""
    rows = {_row(planned[key]) for key in kept}
    gaining = {_row(trial): trial for key, trial in planned.items() if key not in kept}
    now = {row: digest_of(trial) for row, trial in gaining.items() if row in rows}
    if not now:
        return kept
    codes = {row["key"]: row["code_digest"] for row in rows_of(folder, "key", "code_digest")}
    return {key for key in kept if now.get(_row(planned[key])) in (None, codes[key])}


def _row(trial: Trial) -> tuple[str, str]:
    """Return what tells the row of a board in which a trial counts."""
    return trial.environment.identity_json, trial.estimator.identity_json


def names(trial: Trial) -> set[str]:
    """Return an estimator's name, the values of its parameters, and these as NAME:VALUE."""
    name, values = trial.estimator.id, {str(one) for one in trial.estimator.params.values()}
    return {name, *values, *(f"{name}:{value}" for value in values)}


def store_of(suite: str) -> Path:
    """Return the store of the trials that a suite has gained; the paper's share one.

    A trial that two of its suites have is run once.
    """
    shared = "paper" if suite.startswith("paper-") else suite
    return folders.RESULTS.parent / f"results-{shared}-added.sqlite"


def stored_trials(manifest: Manifest, trials: Sequence[Trial], _jobs: int) -> list[Result]:
    """Return what an interrupted call of `run_trials` has stored."""
    path = store_of(manifest.suite.name)
    if not path.exists():
        return []
    wanted = {trial.key for trial in trials}
    with Store.open(path) as store:
        return as_made(store, (one for one in store.results() if one.record.key in wanted))


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
            command=shlex.join(["results/regenerate", *sys.argv[1:]]),
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
        return as_made(store, store.results(run=number))


def as_made(store: Store, results: Iterable[Result]) -> list[Result]:
    """Return results with the run that made each: an earlier one, where a run went on with it."""
    runs = {run.id: run for run in store.runs()}
    return [replace(one, run=runs.get(one.made_by, one.run)) for one in results]


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
    export.writer_for(path)(path, export.rows_of(results), numbered)


def write_runs(folder: Path, new: Sequence[Result], records: int) -> None:
    """Add the run of new trials to the committed facts of runs."""
    if not new:
        return
    path = folder / "run.json"
    facts = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"runs": []}
    made = {result.run.id: vars(result.run) for result in new}
    former = [one for one in facts["runs"] if one["id"] not in made] if records else []
    facts["runs"] = former + sorted(made.values(), key=lambda one: one["started"])
    facts["records"] = facts["trials"] = records + len(new)
    statuses = Counter(row["status"] for row in rows_of(folder, "status"))
    facts["status"] = dict(sorted(statuses.items()))
    folders.write(path, json.dumps(plain(facts), ensure_ascii=False))
