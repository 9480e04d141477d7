"""Errors and time of `mips` by its ways to weights, at 5,000 rows and 1,000 actions.

    python tests/benchmarks/embedding_weights.py --write results/performance/embedding-weights.md

The exact marginal weights of `eipw` stand beside them. Times are of the processor, of fitting.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sections import put, table

from ope_bench import Access, FloatArray, IntArray, View, evaluate
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import FitCache
from ope_bench.suites.manifest import specs_of
from ope_bench.trials.isolation import thread_limit
from ope_bench.trials.record import Trial
from ope_bench.trials.trial import Workspace, build
from ope_estimators.features.actions import design, encoded
from ope_estimators.learning.folds import fold_of

WORLD = "saito-mips[n_samples=5000,n_actions=1000]"
TITLE = "Weights of embeddings by classification and by regression"
FOLDS = 5

WAYS: dict[str, str] = {
    "exact weights": "eipw",
    "classifier": "mips",
    "classifier, 20 iterations": "mips[classifier_params={max_iter: 20}]",
    "softmax, double precision": "mips[classifier=softmax,classifier_params={precision: double}]",
    "softmax": "mips[classifier=softmax]",
    "softmax, 20 iterations": "mips[classifier=softmax,classifier_params={max_iter: 20}]",
    "regression, ridge": "mips[weights=regression,regressor=ridge]",
    "regression, hist-gbm": "mips[weights=regression,regressor=hist-gbm]",
    "regression, gbm": "mips[weights=regression]",
}

INTRO = """\
`{world}`, {replicates} environments drawn anew, one thread. Errors are against the value; with so
few of them the RMSE is that of the worst. *Times as fast*: over the classifier, medians over
environments and the least and the most. Log-likelihood: the mean over the logged actions that the
classifier reaches, and after how many iterations. `softmax` has the objective of `logistic`,
passes over chunks of rows and is in single precision unless it is told otherwise.
"""

WARM = """\
Five fits of scikit-learn's logistic regression to the rows outside one fold each, on the first of
these environments, each from zero or from the coefficients of the fit before it. It is what a
cross-fitted classifier would do; `mips` fits one classifier to all rows, because the other folds
lack actions: {lacking} of {actions} on average. Here the rows of actions that all folds have are
used, {rows} of {n}, so that the coefficients are of the same classes.
"""


def ways(replicates: int) -> str:
    """The table of errors and times."""
    found = {name: evaluate(one, WORLD, replicates=replicates) for name, one in WAYS.items()}
    slow = np.array([one.fit_cpu_seconds for one in found["classifier"]])
    rows = []
    for name, records in found.items():
        errors = np.array([one.estimate - one.truth_expected for one in records])
        seconds = np.array([one.fit_cpu_seconds for one in records])
        fitted = name != "exact weights"
        rows.append(
            (
                name,
                f"{np.sqrt(np.square(errors).mean()):.2f}",
                f"{np.median(np.abs(errors)):.2f}",
                f"{errors.mean():+.2f}",
                f"{np.median(seconds):.2g}" if fitted else "–",
                _spread(slow / seconds) if fitted else "–",
                _mean(records, "log_likelihood", ".4f"),
                _mean(records, "iterations", ".0f"),
            )
        )
    heads = ("weights", "RMSE", "median error", "bias", "seconds", "times as fast")
    body = table((*heads, "log-likelihood", "iterations"), rows)
    return f"{INTRO.format(world=WORLD, replicates=replicates)}\n{body}"


def _spread(ratio: FloatArray) -> str:
    return f"{np.median(ratio):.3g} ({ratio.min():.3g} to {ratio.max():.3g})"


def _mean(records: Sequence[Any], name: str, form: str) -> str:
    values = [one.diagnostics.get(name) for one in records]
    return "–" if None in values else format(np.mean(values), form)


def warm_starts() -> str:
    """The table of cold and warm starts."""
    features, label = classified_rows()
    fold = fold_of(len(label), FOLDS, np.random.default_rng(0))
    actions = np.unique(label)
    held = [set(label[fold != k]) for k in range(FOLDS)]
    common = np.isin(label, list(set.intersection(*held)))
    rows = []
    for name, warm in (("from zero", False), ("from the fit before", True)):
        seconds, iterations, likelihood = fits(features[common], label[common], fold[common], warm)
        rows.append((name, f"{seconds:.2g}", f"{iterations:.1f}", f"{likelihood:.5f}"))
    intro = WARM.format(
        lacking=f"{len(actions) - np.mean([len(one) for one in held]):.0f}",
        actions=len(actions),
        rows=int(common.sum()),
        n=len(label),
    )
    heads = ("start", "seconds a fit", "iterations", "log-likelihood of its own rows")
    return f"{intro}\n{table(heads, rows)}"


def classified_rows() -> tuple[FloatArray, IntArray]:
    """Standardized features and actions of the first environment."""
    (world,) = specs_of("environment", WORLD)
    (ipw,) = specs_of("estimator", "ipw")
    trial = Trial(world, ipw, 0)
    problem = Workspace().data(trial, build(world)).problem
    seed = DataSeed("warm", 0, 0)
    view = View(problem, Access.SAMPLES, seed=seed, fit_cache=FitCache())
    features = design(
        encoded(view.schema.context, view.context), encoded(view.schema.embedding, view.embedding)
    )
    return (features - features.mean(axis=0)) / features.std(axis=0), view.action


def fits(
    features: FloatArray, label: IntArray, fold: IntArray, warm: bool
) -> tuple[float, float, float]:
    """Mean seconds, iterations and log-likelihood of the fits after the first."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=1000, warm_start=warm)
    found = []
    for k in range(FOLDS):
        train = fold != k
        begun = time.process_time()
        model.fit(features[train], label[train])
        seconds = time.process_time() - begun
        column = np.searchsorted(model.classes_, label[train])
        logged = model.predict_proba(features[train])[np.arange(train.sum()), column]
        found.append((seconds, float(model.n_iter_.max()), float(np.log(logged).mean())))
    seconds, iterations, likelihood = np.mean(found[1:], axis=0)
    return float(seconds), float(iterations), float(likelihood)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=Path, help="page whose sections to replace")
    parser.add_argument("--replicates", type=int, default=10)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    with thread_limit(1):
        sections = {"Errors and time": ways(given.replicates), "Warm starts": warm_starts()}
    for heading, body in sections.items():
        if given.write:
            put(given.write, TITLE, heading, body)
        else:
            print(f"## {heading}\n\n{body}\n")


if __name__ == "__main__":
    main()
