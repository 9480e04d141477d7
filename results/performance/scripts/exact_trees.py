"""The regressor `gbm-exact` beside `gbm`: predictions, errors of estimators, and time.

    python results/performance/scripts/exact_trees.py --output results/performance/exact-trees

Both grow the same trees but for ties, which scikit-learn breaks at random, and for rounding. So
their predictions are compared with what another seed of scikit-learn changes, and errors pairwise
on the same data sets.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from interleaved import written
from sections import table
from statement import facts_now, statement

WORLDS = (
    "saito-toy[n_samples=1000,n_actions=100]",
    "saito-toy[n_samples=1000,n_actions=500]",
    "saito-toy[n_samples=3000,n_actions=100,d_context=3,d_embedding=3]",
)

ESTIMATORS = (
    "dm",
    "dm[action_features=ordinal]",
    "dm[action_features=embedding]",
    "dr",
    "edm",
    "dm-star",
    "edr",
)

MODELS = ("gbm", "gbm-exact")

SHARE = 1e-4
"""Of the standard deviation of rewards: predictions that differ by more count as different."""

ROWS = 20_000
"""Pairs of a context and an action at which predictions are compared, in each data set."""

TEXT = """\
# Exact trees by XGBoost

`gbm-exact` grows the trees of `gbm` by XGBoost's exact search on rows without the zeros of one-hot
actions. {replicates} data sets a world, one thread.

## Predictions

Share of {rows:,} pairs of context and action whose predictions differ by more than {share:g}
standard deviations of the reward, one-hot actions, means over data sets; *other seed*: `gbm` with
another seed, whose ties fall elsewhere. Seconds of fitting.

{predictions}

## Errors and time

RMSE with both; *difference* of the mean squares over its standard error, paired by data set;
processor seconds of a data set, fits included.

{errors}
"""


def predictions(world: str, replicates: int) -> dict[str, Any]:
    """Shares of predictions that differ, and seconds of fits."""
    from ope_bench import Access, View
    from ope_bench.contracts.view import FitCache
    from ope_bench.suites.manifest import specs_of
    from ope_bench.trials.record import Trial
    from ope_bench.trials.trial import Workspace, build
    from ope_estimators.features.pairs import PairFeatures
    from ope_estimators.learning.learners import fitted, regressor

    (setting,), (spec,) = specs_of("environment", world), specs_of("estimator", "dm")
    environment = build(setting)
    sides = {"gbm": ("gbm", 0), "other seed": ("gbm", 1), "gbm-exact": ("gbm-exact", 0)}
    differ: dict[str, list[float]] = defaultdict(list)
    seconds: dict[str, list[float]] = defaultdict(list)
    for replicate in range(replicates):
        trial = Trial(setting, spec, replicate, seed=4711)
        problem = Workspace().data(trial, environment).problem
        view = View(problem, Access.SAMPLES, seed=trial.data_seed, fit_cache=FitCache())
        features = PairFeatures(view, "action", "one-hot")
        rng = np.random.default_rng(replicate)
        assert view.n_actions is not None
        rows, actions = (rng.integers(size, size=ROWS) for size in (view.n, view.n_actions))
        pairs = features(view.context[rows], actions)
        given = features(view.context, view.action)
        found = {}
        for name, (learner, seed) in sides.items():
            begun = time.process_time()
            model = fitted(regressor(learner, seed=seed), given, view.reward, None)
            seconds[name].append(time.process_time() - begun)
            found[name] = model.predict(pairs)
        for name in ("gbm-exact", "other seed"):
            gap = np.abs(found[name] - found["gbm"])
            differ[name].append(float((gap > SHARE * view.reward.std()).mean()))
    return {
        "world": world,
        "differ": {name: float(np.mean(shares)) for name, shares in differ.items()},
        "seconds": {name: float(np.mean(spent)) for name, spent in seconds.items()},
    }


def errors(world: str, replicates: int) -> list[dict[str, Any]]:
    """Errors and seconds of each estimator with both regressors, on the same data sets."""
    from ope_bench.suites.manifest import specs_of
    from ope_bench.trials.record import Trial
    from ope_bench.trials.trial import Workspace, run_trial

    (setting,) = specs_of("environment", world)
    rows = []
    for estimator in ESTIMATORS:
        name, _, given = estimator.rstrip("]").partition("[")
        row: dict[str, Any] = {"world": world, "estimator": estimator}
        for model in MODELS:
            params = ",".join(filter(None, (given, f"regressor={model}")))
            (spec,) = specs_of("estimator", f"{name}[{params}]")
            found, begun = [], time.process_time()
            for replicate in range(replicates):
                record = run_trial(Trial(setting, spec, replicate, seed=4711), Workspace())
                if record.estimate is None or record.truth_expected is None:
                    raise SystemExit(f"{world}, {estimator}: {record.error_message}")
                found.append(record.estimate - record.truth_expected)
            row[model] = found
            row[f"{model}_seconds"] = (time.process_time() - begun) / replicates
        rows.append(row)
    return rows


def markdown(report: dict[str, Any]) -> str:
    """The page."""
    shares = [
        [
            f"`{row['world']}`",
            *(f"{row['differ'][name]:.1%}" for name in ("gbm-exact", "other seed")),
            *(f"{row['seconds'][name]:.3f}" for name in MODELS),
            f"{row['seconds']['gbm'] / row['seconds']['gbm-exact']:.1f}",
        ]
        for row in report["predictions"]
    ]
    lines = []
    for row in report["errors"]:
        squares = [np.square(row[name]) for name in MODELS]
        gap = squares[1] - squares[0]
        spread = float(gap.std(ddof=1)) / math.sqrt(len(gap))
        seconds = [row[f"{name}_seconds"] for name in MODELS]
        lines.append(
            [
                f"`{row['world']}`",
                f"`{row['estimator']}`",
                *(f"{math.sqrt(one.mean()):.4f}" for one in squares),
                f"{float(gap.mean()) / spread:+.1f}" if spread > 0 else "0",
                *(f"{one:.2f}" for one in seconds),
                f"{seconds[0] / seconds[1]:.1f}",
            ]
        )
    text = TEXT.format(
        replicates=report["replicates"],
        rows=ROWS,
        share=SHARE,
        predictions=table(
            ("world", "`gbm-exact`", "other seed", "`gbm`, s", "`gbm-exact`, s", "ratio"), shares
        ),
        errors=table(
            (
                "world",
                "estimator",
                "`gbm`",
                "`gbm-exact`",
                "difference",
                "`gbm`, s",
                "`gbm-exact`, s",
                "ratio",
            ),
            lines,
        ),
    )
    return f"{text}\n{statement(report)}"


def main() -> int:
    """Measure and write."""
    from ope_bench.trials.isolation import thread_limit

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--replicates", type=int, default=20)
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    report: dict[str, Any] = {
        "command": shlex.join(["python", *sys.argv]),
        **facts_now(),
        "replicates": given.replicates,
        "predictions": [],
        "errors": [],
    }
    with thread_limit(1):
        for world in WORLDS:
            report["predictions"].append(predictions(world, given.replicates))
            report["errors"] += errors(world, given.replicates)
            print(world, flush=True)
    written(given.output, report, markdown(report))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
