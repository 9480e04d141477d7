"""Processor time of the suites of the paper, beside another revision, by suite and by estimator.

    python tests/benchmarks/paper_cost.py --peer OTHER/bin/python --name REVISION

Some replicates of every setting run on both sides in turns, each replicate's estimators in one
process on the same data, where shared fits are kept, as a worker does. The sides must give the
same answers to the last bit. Time is of the processor; what one replicate costs is the least of
the rounds, because other work on the machine only adds to it.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import interleaved
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

PARTS = {
    "trees, in compiled code": "scikit-learn: sorts every column at every node of every tree",
    "boosting around the trees": "scikit-learn: checks weights and makes an object at every stage",
    "predictions of boosting": "scikit-learn, for each context and action that trees tell apart",
    "boosting by histograms": "scikit-learn",
    "training of networks": "torch and zuko: flows and perceptrons, step by step",
    "policies": "scikit-learn's logistic regression",
    "everything else": "ours: data, features, calibration, diagnostics, weights",
}
"""Parts of the time, with whose code it is."""

Timer = dict[str, float]


def follow(owner: Any, name: str, part: str, seconds: Timer, open_parts: list[float]) -> None:
    """Add a function's processor time to a part, without that of parts inside it."""
    function = getattr(owner, name)

    @functools.wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        begun = time.process_time()
        open_parts.append(0.0)
        try:
            return function(*args, **kwargs)
        finally:
            spent = time.process_time() - begun
            seconds[part] += spent - open_parts.pop()
            if open_parts:
                open_parts[-1] += spent

    setattr(owner, name, timed)


def follow_parts() -> Timer:
    """Time the parts from now on; return their seconds, which grow."""
    import sklearn.ensemble as ensembles
    from sklearn.linear_model import LogisticRegression
    from sklearn.tree import _classes as trees

    from ope_estimators.flows import flow
    from ope_estimators.learning import mlp

    seconds: Timer = defaultdict(float)
    whole: list[float] = []

    class Builder(trees.DepthFirstTreeBuilder):  # type: ignore[misc]
        """Of a compiled class only a subclass takes another method."""

        def build(self, *args: Any) -> None:
            super().build(*args)

    follow(Builder, "build", "trees, in compiled code", seconds, whole)
    trees.DepthFirstTreeBuilder = Builder
    boosting = "boosting around the trees"
    predictions = "predictions of boosting"
    for owner, name, part in (
        (ensembles.GradientBoostingRegressor, "fit", boosting),
        (ensembles.GradientBoostingClassifier, "fit", boosting),
        (ensembles.GradientBoostingRegressor, "predict", predictions),
        (ensembles.GradientBoostingClassifier, "predict_proba", predictions),
        (ensembles.HistGradientBoostingClassifier, "fit", "boosting by histograms"),
        (LogisticRegression, "fit", "policies"),
        (flow, "train", "training of networks"),
        (mlp, "train", "training of networks"),
    ):
        follow(owner, name, part, seconds, whole)
    return seconds


def prepare(job: dict[str, Any]) -> Any:
    """The trials of a suite by setting and replicate; all libraries are loaded and used once."""
    from ope_bench.suites.discovery import find_suite
    from ope_bench.suites.manifest import plan
    from ope_bench.trials.isolation import thread_limit
    from ope_bench.trials.trial import Workspace

    suite = find_suite(job["data"])
    groups: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for trial in plan(replace(suite, replicates=job["replicates"] + 1)).trials:
        groups[repr(trial.environment.params), trial.replicate].append(trial)
    warm_up, *_ = groups.values()
    with thread_limit(1):
        for _ in answered(warm_up, Workspace()):
            pass
    return groups


def answered(trials: Sequence[Any], workspace: Any) -> Iterator[tuple[str, float, str]]:
    """Of each trial its estimator, processor seconds and answer."""
    from ope_bench.suites.suite import selector_of
    from ope_bench.trials.trial import run_trial

    for trial in trials:
        begun = time.process_time()
        record = run_trial(trial, workspace)
        spent = time.process_time() - begun
        answer = (record.status, record.estimate, record.standard_error, record.diagnostics)
        yield selector_of(trial.estimator), spent, repr(answer)


def work(groups: Any, job: dict[str, Any]) -> dict[str, Any]:
    """The estimators of one replicate of one setting, in the order of the suite."""
    from ope_bench.trials.isolation import thread_limit
    from ope_bench.trials.trial import Workspace

    parts = follow_parts()
    with thread_limit(1):
        rows = list(answered(groups[job["setting"], job["replicate"]], Workspace()))
    seconds = {name: spent for name, spent, _ in rows}
    return {
        "cpu_seconds": sum(seconds.values()),
        "estimators": seconds,
        "parts": {**parts, "everything else": sum(seconds.values()) - sum(parts.values())},
        "answers": {name: answer for name, _, answer in rows},
    }


def jobs(suite: str, replicates: int) -> Iterator[dict[str, Any]]:
    """One for each setting and replicate of a suite, the first left to the warm-up."""
    from ope_bench.suites.discovery import find_suite
    from ope_bench.suites.manifest import plan

    settings = {repr(cell.environment.params): None for cell in plan(find_suite(suite)).cells}
    for setting in settings:
        for replicate in range(1, replicates + 1):
            yield {
                "data": suite,
                "setting": setting,
                "replicate": replicate,
                "replicates": replicates,
                "timeout": 600,
            }


def measure(
    sides: Mapping[str, interleaved.Side], suite: str, replicates: int, rounds: int
) -> dict[str, Any]:
    """Seconds of a whole suite on both sides, by estimator and by part."""
    from ope_bench.suites.discovery import find_suite

    scale = find_suite(suite).replicates / replicates
    row: dict[str, Any] = {"suite": suite, "trials": 0}
    for side in sides:
        row[side] = {"seconds": 0.0, "estimators": defaultdict(float), "parts": defaultdict(float)}
    for job in jobs(suite, replicates):
        ask: dict[str, Callable[[], Any]] = {
            name: functools.partial(side.ask, job) for name, side in sides.items()
        }
        found = interleaved.in_turns(ask, seconds=1e9, most=rounds)
        answers = {repr(figures["answers"]) for runs in found.values() for figures in runs}
        if len(answers) != 1:
            msg = f"{suite}: {job['setting']}, replicate {job['replicate']}: answers differ"
            raise SystemExit(msg)
        row["trials"] += len(found["ours"][0]["answers"])
        for side, runs in found.items():
            least = min(runs, key=lambda figures: figures["cpu_seconds"])
            row[side]["seconds"] += scale * least["cpu_seconds"]
            for kind in ("estimators", "parts"):
                for name, spent in least[kind].items():
                    row[side][kind][name] += scale * spent
    return row


def summed(rows: Sequence[dict[str, Any]], side: str, kind: str) -> Timer:
    """Seconds of all suites by estimator or part."""
    total: Timer = defaultdict(float)
    for row in rows:
        for name, spent in row[side][kind].items():
            total[name] += spent
    return total


def cells(before: float, after: float) -> tuple[str, str, str]:
    """Seconds before and after, and their ratio."""
    return f"{before:,.0f}", f"{after:,.0f}", f"{after / before:.2f}" if before else "-"


def compared(rows: Sequence[dict[str, Any]], kind: str) -> list[tuple[str, float, float]]:
    """Of each estimator or part its seconds before and after, the dearest first."""
    before, after = summed(rows, "other", kind), summed(rows, "ours", kind)
    return sorted(
        ((name, spent, after[name]) for name, spent in before.items()), key=lambda row: -row[2]
    )


TEXT = """\
# What the paper costs

Processor seconds of `results/regenerate paper`: all replicates of the six suites, computed from
{replicates} of each setting ({trials:,} trials), without starting workers. *Before* is {other}.
Both sides gave the same answers to the last bit. The first estimator that asks for a fit pays for
it, and others find it.

{suites}

## By estimator

What takes a second or more in all suites together.

{estimators}

## What is left

{parts}

Half of the time cannot be saved at equal bits: {libraries:.0%} of what is left is spent in
libraries. A tree of scikit-learn cannot be grown faster from outside without other rounding, and
every board would have to be made anew. The same holds for flows trained together (`cpu-batch`, see
[batched](batched.md)): they take .4 to .5 of the time of flows trained alone, with other numbers.
100 actions and 1,000 rows are in `paper-actions` and in `paper-samples`; each suite has a store of
its own, so that its folder tells its own runs, and these trials run twice.

"""


def markdown(report: dict[str, Any]) -> str:
    """The page."""
    rows = report["rows"]
    whole = [sum(row[side]["seconds"] for row in rows) for side in ("other", "ours")]
    suites = [
        (f"`{row['suite']}`", *cells(row["other"]["seconds"], row["ours"]["seconds"]))
        for row in rows
    ]
    heads = ("before, s", "after, s", "after / before")
    parts = [
        (name, *cells(before, after), f"{after / whole[1]:.0%}", PARTS[name])
        for name, before, after in compared(rows, "parts")
    ]
    estimators = [
        (f"`{name}`", *cells(before, after))
        for name, before, after in compared(rows, "estimators")
        if before >= 1
    ]
    text = TEXT.format(
        libraries=1 - summed(rows, "ours", "parts")["everything else"] / whole[1],
        replicates=report["replicates"],
        trials=sum(row["trials"] for row in rows),
        other=report["other"],
        suites=table(("suite", *heads), [*suites, ("all", *cells(*whole))]),
        estimators=table(("estimator", *heads), estimators),
        parts=table(("part", *heads, "share", "whose code"), parts),
    )
    return f"{text}{statement(report)}"


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--peer", help="python of an environment with the other revision")
    parser.add_argument("--name", default="the other revision", help="its name in the page")
    parser.add_argument("--replicates", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--output", type=Path, help="FOLDER/NAME of the two files written")
    given = parser.parse_args()
    if given.serve:
        interleaved.serve(prepare, work)
        return 0
    if not given.peer:
        parser.error("--peer names the interpreter of the other revision")
    command = f"python tests/benchmarks/{Path(__file__).name} --peer OTHER/bin/python"
    report: dict[str, Any] = {
        "command": f"{command} --replicates {given.replicates} --rounds {given.rounds}",
        **facts_now(),
        "other": given.name,
        "replicates": given.replicates,
    }
    sides = {
        name: interleaved.Side(python, __file__, name)
        for name, python in (("other", given.peer), ("ours", sys.executable))
    }

    def rows() -> Iterator[dict[str, Any]]:
        for suite in SUITES:
            row = measure(sides, suite, given.replicates, given.rounds)
            print(suite, *cells(row["other"]["seconds"], row["ours"]["seconds"]), flush=True)
            yield row

    interleaved.conducted(report, sides, rows)
    if given.output:
        interleaved.written(given.output, report, markdown(report))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
