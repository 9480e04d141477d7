"""The paper's suites beside another revision's: processor time, and errors on the same data sets.

    python results/performance/scripts/paper_cost.py --name REVISION --peer OTHER/bin/python \\
        --output results/performance/paper-cost

Time: some replicates of every setting run on both sides in turns, each replicate's estimators in
one process on the same data, where shared fits are kept, as a worker does; of replicates that are
trained together one block runs whole. Answers of trials that both sides have are compared bit by
bit. Errors: the committed trials of both revisions, paired by data set. Without ``--peer`` the
seconds that the page has stay, and the errors alone are compared again.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import io
import json
import math
import shlex
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import interleaved
import numpy as np
from sections import table
from statement import facts_now, statement

SUITES = (
    "paper-actions",
    "paper-samples",
    "paper-failures",
    "paper-behance",
    "paper-appendix-actions",
    "paper-appendix-samples",
)

RENAMED = {"gbm-exact": "gbm"}
"""Regressors that stand in a suite for those of the other revision."""

NORMAL_95 = 1.96

Timer = dict[str, float]


def suite_named(name: str) -> Any:
    """A suite of the side's own revision; earlier ones have the function in another module."""
    try:
        module = importlib.import_module("ope_bench.suites.discovery")
    except ModuleNotFoundError:
        module = importlib.import_module("ope_bench.suites.suite")
    return module.find_suite(name)


def prepare(job: dict[str, Any]) -> Any:
    """The trials of a suite by setting and replicate; all libraries are loaded and used once.

    Those of a block that is trained together are at replicate ``None``.
    """
    from ope_bench.suites.manifest import plan
    from ope_bench.trials.isolation import thread_limit
    from ope_bench.trials.trial import Workspace

    suite = suite_named(job["data"])
    groups: dict[tuple[str, int | None], list[Any]] = defaultdict(list)
    for trial in plan(replace(suite, replicates=max(job["replicates"] + 1, 25))).trials:
        at = None if trial.device.batched else trial.replicate
        if at is None or at <= job["replicates"]:
            groups[repr(trial.environment.params), at].append(trial)
    warm_up, *_ = groups.values()
    with thread_limit(1):
        for _ in answered(warm_up, Workspace()):
            pass
    return groups


def answered(trials: Sequence[Any], workspace: Any) -> Iterator[tuple[str, float, str, str]]:
    """Of each trial its estimator, processor seconds, key and answer."""
    from ope_bench.suites.suite import selector_of
    from ope_bench.trials.trial import run_trial

    for trial in trials:
        begun = time.process_time()
        record = run_trial(trial, workspace)
        spent = time.process_time() - begun
        answer = (record.status, record.estimate, record.standard_error, record.diagnostics)
        yield selector_of(trial.estimator), spent, trial.key, repr(answer)


def work(groups: Any, job: dict[str, Any]) -> dict[str, Any]:
    """The estimators of one replicate, or block of replicates, of one setting."""
    from ope_bench.trials.isolation import thread_limit
    from ope_bench.trials.trial import Workspace

    trials = groups.get((job["setting"], job["replicate"]), [])
    seconds: Timer = defaultdict(float)
    answers = {}
    with thread_limit(1):
        for estimator, spent, key, answer in answered(trials, Workspace()):
            seconds[estimator] += spent
            answers[key] = answer
    counted = len({trial.replicate for trial in trials})
    return {"estimators": seconds, "replicates": counted, "answers": answers}


def measure(
    sides: Mapping[str, interleaved.Side],
    suite: str,
    replicates: int,
    rounds: int,
    known: set[tuple[str, str]],
) -> dict[str, Any]:
    """Seconds of a whole suite on both sides, by estimator.

    Parameters
    ----------
    known : settings and estimators of suites before, whose trials are not run again on our side;
        those of this suite are added.
    """
    from ope_bench.suites.manifest import plan

    described = suite_named(suite)
    settings = {repr(cell.environment.params): None for cell in plan(described).cells}
    row: dict[str, Any] = {"suite": suite, "trials": 0, "shared": 0.0, "blocks": 0, "differ": 0}
    for side in sides:
        row[side] = {"seconds": 0.0, "estimators": defaultdict(float)}
    for setting in settings:
        added = set()
        for replicate in (*range(1, replicates + 1), None):
            job = {
                "data": suite,
                "setting": setting,
                "replicate": replicate,
                "replicates": replicates,
                "timeout": 3600,
            }
            ask: dict[str, Callable[[], Any]] = {
                name: functools.partial(side.ask, job) for name, side in sides.items()
            }
            found = interleaved.in_turns(ask, seconds=1e9, most=rounds if replicate else 1)
            answers: dict[str, str] = {}
            for figures in (one for runs in found.values() for one in runs):
                if "failed" in figures:
                    raise SystemExit(f"{suite}: {setting}: {figures['failed']}")
                for key, answer in figures["answers"].items():
                    row["differ"] += answers.setdefault(key, answer) != answer
            row["trials"] += len(answers)
            row["blocks"] += replicate is None and bool(answers)
            for side, runs in found.items():
                least = min(runs, key=lambda figures: sum(figures["estimators"].values()))
                scale = described.replicates / (least["replicates"] or 1)
                scale /= 1 if replicate is None else replicates
                for name, spent in least["estimators"].items():
                    if side == "ours" and (setting, name) in known:
                        row["shared"] += scale * spent
                        continue
                    if side == "ours":
                        added.add((setting, name))
                    row[side]["seconds"] += scale * spent
                    row[side]["estimators"][name] += scale * spent
        known |= added
    return row


def changed_rows(revision: str, suite: str) -> list[dict[str, Any]]:
    """Errors of both revisions in each setting, of each estimator whose trials are others now."""
    import pyarrow.parquet as pq

    path = f"results/paper/{suite.removeprefix('paper-')}/trials.parquet"
    before = subprocess.run(["git", "show", f"{revision}:{path}"], capture_output=True, check=True)
    sides: list[dict[tuple[str, str], dict[int, dict[str, Any]]]] = []
    for source in (io.BytesIO(before.stdout), path):
        cells: dict[tuple[str, str], dict[int, dict[str, Any]]] = defaultdict(dict)
        for trial in pq.read_table(source).to_pylist():
            params = json.loads(trial["params"])
            params["regressor"] = RENAMED.get(*[params.get("regressor")] * 2)
            at = trial["environment_params"], json.dumps([trial["estimator"], params])
            cells[at][trial["replicate"]] = trial
        sides.append(cells)
    rows = []
    for (setting, estimator), old in sides[0].items():
        new = sides[1][setting, estimator]
        pairs = [(old[at], new[at]) for at in sorted(old)]
        if all(one["key"] == other["key"] for one, other in pairs):
            continue
        ok = [pair for pair in pairs if all(one["status"] == "ok" for one in pair)]
        errors = np.array(
            [[one["estimate"] - one["truth_expected"] for one in pair] for pair in ok]
        )
        squares = np.square(errors)
        gap = squares[:, 1] - squares[:, 0]
        error = float(gap.std(ddof=1)) / math.sqrt(len(gap))
        rows.append(
            {
                "suite": suite,
                "setting": json.loads(setting),
                "estimator": json.loads(estimator),
                "pairs": len(pairs),
                "both": len(ok),
                "rmse": [math.sqrt(one) for one in squares.mean(axis=0)],
                "moved": float(np.median(np.abs(errors[:, 1] - errors[:, 0]))),
                "z": float(gap.mean()) / error if error else 0.0,
            }
        )
    return rows


def cells(before: float, after: float) -> tuple[str, str, str]:
    """Seconds before and after, and their ratio."""
    return f"{before:,.0f}", f"{after:,.0f}", f"{after / before:.2f}" if before else "-"


TEXT = """\
# What the paper costs

Processor seconds of the paper's six suites that have claims, computed from
{replicates} of the replicates of each setting{block} ({trials:,} trials), without starting
workers. *Before* is {other}: scikit-learn's trees (`gbm`), flows trained one by one, a store for
each suite. *After*: the same trees grown by XGBoost (`gbm-exact`, [exact trees](exact-trees.md)),
{flows}, one store, in which a trial that two suites have is run once ({shared:,.0f} s that are
not spent). Of the answers of what both sides run, {differ} differ in some bit. The first
estimator that asks for a fit pays for it, and others find it.

{suites}

## By estimator

What took two seconds or more in all suites together.

{estimators}

## Errors before and after

All committed trials of the rows that changed, on the same data sets: {cells} settings and
estimators. RMSE over each row's settings (root of the mean of their squares) before and after; by
how much the median estimate moved, in parts of the RMSE; in how many settings the mean squared
errors differ by more than {limit} standard errors of their paired difference (chance: one in
twenty), and the largest difference in such errors. *Smaller*, *larger*: of those, by what came
after.

{errors}

In all {beyond} of {cells} ({share:.0%}) differ by more than {limit} standard errors: {smaller} are
smaller and {larger} larger than before. With Holm's correction over all of them, {significant}
differ at 5 %{named}.

"""


def errors_table(rows: Sequence[dict[str, Any]]) -> str:
    """Errors before and after by suite and estimator."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["suite"], shown(row)].append(row)
    lines = []
    for (suite, estimator), own in groups.items():
        before, after = (math.sqrt(np.mean([one["rmse"][i] ** 2 for one in own])) for i in (0, 1))
        moved = np.median([one["moved"] / one["rmse"][0] for one in own])
        beyond = [one["z"] for one in own if abs(one["z"]) > NORMAL_95]
        lines.append(
            [
                f"`{suite}`",
                f"`{estimator}`",
                str(len(own)),
                f"{before:.4g}",
                f"{after:.4g}",
                f"{moved:.2g}",
                str(sum(one < 0 for one in beyond)),
                str(sum(one > 0 for one in beyond)),
                f"{max((one['z'] for one in own), key=abs):+.1f}",
            ]
        )
    heads = (
        "suite",
        "estimator",
        "settings",
        "before",
        "after",
        "moved",
        "smaller",
        "larger",
        "z",
    )
    return table(heads, lines)


def shown(row: Mapping[str, Any]) -> str:
    """An estimator with its features of actions, which tell its rows apart."""
    name, params = row["estimator"]
    features = params.get("action_features")
    return f"{name}, {features}" if features not in (None, "one-hot") else str(name)


def markdown(report: dict[str, Any]) -> str:
    """The page."""
    from ope_bench.statistics.paired_tests import holm

    rows, errors = report["rows"], report["errors"]
    whole = [sum(row[side]["seconds"] for row in rows) for side in ("other", "ours")]
    suites = [
        (f"`{row['suite']}`", *cells(row["other"]["seconds"], row["ours"]["seconds"]))
        for row in rows
    ]
    spent: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row in rows:
        for place, side in enumerate(("other", "ours")):
            for name, seconds in row[side]["estimators"].items():
                for new, old in RENAMED.items():
                    name = name.replace(f"={new}", f"={old}")
                spent[name][place] += seconds
    estimators = [
        (f"`{name}`", *cells(*seconds))
        for name, seconds in sorted(spent.items(), key=lambda item: -item[1][0])
        if seconds[0] >= 2
    ]
    heads = ("before, s", "after, s", "after / before")
    beyond = [row["z"] for row in errors if abs(row["z"]) > NORMAL_95]
    adjusted = holm(np.array([math.erfc(abs(row["z"]) / math.sqrt(2)) for row in errors]))
    significant = [row for row, p in zip(errors, adjusted, strict=True) if p < 0.05]
    named = "; ".join(f"`{row['suite']}` `{shown(row)}` ({row['z']:+.1f})" for row in significant)
    together = any(row["blocks"] for row in rows)
    text = TEXT.format(
        block=", and one block of 25 of flows that are trained together" if together else "",
        flows="flows by [`cpu-batch`](batched.md)" if together else "flows as before",
        differ=sum(row["differ"] for row in rows) or "none",
        replicates=report["replicates"],
        trials=sum(row["trials"] for row in rows),
        shared=sum(row["shared"] for row in rows),
        other=report["other"],
        suites=table(("suite", *heads), [*suites, ("all", *cells(*whole))]),
        estimators=table(("estimator", *heads), estimators),
        errors=errors_table(errors),
        cells=len(errors),
        limit=NORMAL_95,
        beyond=len(beyond),
        share=len(beyond) / len(errors),
        smaller=sum(z < 0 for z in beyond),
        larger=sum(z > 0 for z in beyond),
        significant=len(significant) or "none",
        named=f": {named}" if named else "",
    )
    return f"{text}{statement(report)}"


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--peer", help="python of an environment with the other revision")
    parser.add_argument("--name", help="the other revision")
    parser.add_argument("--replicates", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--output", type=Path, help="FOLDER/NAME of the two files written")
    given = parser.parse_args()
    if given.serve:
        interleaved.serve(prepare, work)
        return 0
    if not given.name or not given.output:
        parser.error("--name and --output are needed")
    if given.peer:
        words = [word if word != given.peer else "OTHER/bin/python" for word in sys.argv]
        report: dict[str, Any] = {
            "command": shlex.join(["python", *words]),
            **facts_now(),
            "other": given.name,
            "replicates": given.replicates,
        }
        sides = {
            name: interleaved.Side(python, __file__, name)
            for name, python in (("other", given.peer), ("ours", sys.executable))
        }

        def rows() -> Iterator[dict[str, Any]]:
            known: set[tuple[str, str]] = set()
            for suite in SUITES:
                row = measure(sides, suite, given.replicates, given.rounds, known)
                seconds = (row[side]["seconds"] for side in ("other", "ours"))
                print(suite, *cells(*seconds), flush=True)
                yield row

        interleaved.conducted(report, sides, rows)
    else:
        report = json.loads(given.output.with_suffix(".json").read_text(encoding="utf-8"))
    report["errors"] = [row for suite in SUITES for row in changed_rows(given.name, suite)]
    interleaved.written(given.output, report, markdown(report))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
