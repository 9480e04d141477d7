"""Error and cost of reward models on worlds of no suite: how the default was chosen.

    python results/performance/scripts/reward_models.py --part choose confirm boards \
        --output results/performance/reward-models

Each estimator runs with each reward model on the same data sets. The default was chosen on the
half ``choose`` and is confirmed on the other, ``confirm``; ``boards`` compares it with the former
default, gradient boosting, on settings of suites.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from interleaved import written
from sections import table
from sklearn.base import BaseEstimator, RegressorMixin
from statement import JOINED, facts_now, statement

from ope_bench import FloatArray
from ope_estimators.learning.learners import regressor
from ope_estimators.learning.pooled import PooledRegressor
from ope_estimators.nuisance import pooled

FORMER = "gbm"
DEFAULT = "pooled"

ACTION_MODELS = {
    FORMER: "regressor=gbm,action_features=one-hot",
    "hist-gbm, action as a category": "regressor=pooled,regressor_params={candidate: hist}",
    "ridge": "regressor=ridge,action_features=one-hot",
    "ridge, separate": "regressor=ridge,action_features=separate",
    "quadratic": "regressor=quadratic,action_features=one-hot",
    "logistic": "regressor=pooled,regressor_params={candidate: logistic}",
    "stack": "regressor=pooled,regressor_params={candidate: stack}",
    DEFAULT: "regressor=pooled",
}
"""Reward models given context and action; ``candidate`` names one of `CANDIDATES`."""

EMBEDDING_MODELS = {
    name: f"regressor={name}" for name in (FORMER, "hist-gbm", "ridge", "quadratic", DEFAULT)
}
"""Reward models given context and embedding."""

ACTION_ESTIMATORS = ("dm", "dr", "dr-os", "dm-star")
EMBEDDING_ESTIMATORS = ("edm", "edm-star", "edr")
CONTINUOUS_ESTIMATORS = ("kernel-dr", "dm-star")

BOARD_ESTIMATORS = (
    *("dm", "dm-star", "dr", "sndr", "switch", "switch-dr", "dr-os", "dr-ps", "sg-dr", "cab"),
    *("mrdr", "tmle", "ipw-re", "mdr", "offcem", "group-ipw", "kernel-dr"),
    *("edm", "edm-star", "edr"),
)
"""All whose default changed; `fedr` has the reward model of `edr`."""

BOARDS = ("weighting", "doubly-robust", "large-actions", "samples-only")

MAX_ONE_HOT_ACTIONS = 500
"""On boards, settings of more actions are left out: gradient boosting takes minutes there."""

CATEGORIES = 250
"""Most categories of histogram boosting; other actions are a missing value."""


class HistRegressor(RegressorMixin, BaseEstimator):
    """Histogram boosting with the action's number as a category, the first column."""

    def __init__(self, n_context: int = 0) -> None:
        self.n_context = n_context

    def fit(self, features: FloatArray, outcome: FloatArray) -> HistRegressor:
        """Fit; the most frequent actions are categories."""
        from sklearn.ensemble import HistGradientBoostingRegressor

        seen, count = np.unique(features[:, 0], return_counts=True)
        self.kept_ = np.sort(seen[np.argsort(-count, kind="stable")[:CATEGORIES]])
        self.model_ = HistGradientBoostingRegressor(categorical_features=[0], random_state=0)
        self.model_.fit(self._coded(features), outcome)
        return self

    def predict(self, features: FloatArray) -> FloatArray:
        """Predict the outcome."""
        predicted: FloatArray = self.model_.predict(self._coded(features))
        return predicted

    def _coded(self, features: FloatArray) -> FloatArray:
        at = np.minimum(np.searchsorted(self.kept_, features[:, 0]), len(self.kept_) - 1)
        code = np.where(self.kept_[at] == features[:, 0], at, np.nan)
        return np.column_stack([code, features[:, 1:]])


class LogisticRegressor(RegressorMixin, BaseEstimator):
    """Logistic regression with an intercept and slopes for each action; for rewards of 0 and 1."""

    def __init__(self, n_context: int = 0) -> None:
        self.n_context = n_context

    def fit(self, features: FloatArray, outcome: FloatArray) -> LogisticRegressor:
        """Fit; the penalty is chosen by cross-validation."""
        from sklearn.linear_model import LogisticRegressionCV

        self.seen_ = np.unique(features[:, 0])
        self.mean_ = features[:, 1:].mean(axis=0)
        spread = features[:, 1:].std(axis=0)
        self.scale_ = np.where(spread > 0, spread, 1.0)
        self.constant_ = float(outcome.mean()) if outcome.std() == 0 else None
        if self.constant_ is None:
            options: dict[str, Any] = {"scoring": "neg_log_loss", "max_iter": 300}
            if "use_legacy_attributes" in LogisticRegressionCV().get_params():
                options["use_legacy_attributes"] = False
            folds = int(min(3, outcome.sum(), len(outcome) - outcome.sum()))
            self.model_ = LogisticRegressionCV(
                Cs=[0.01, 0.1, 1.0], cv=max(2, folds), **options
            ).fit(self._design(features), outcome)
        return self

    def predict(self, features: FloatArray) -> FloatArray:
        """Predict the probability of 1."""
        if self.constant_ is not None:
            return np.full(len(features), self.constant_)
        out: FloatArray = np.concatenate(
            [
                self.model_.predict_proba(self._design(rows))[:, 1]
                for rows in np.array_split(features, -(-len(features) // 20_000))
            ]
        )
        return out

    def _design(self, features: FloatArray) -> Any:
        from scipy.sparse import csr_array, hstack

        indicator = (features[:, :1] == self.seen_).astype(np.float64)
        scaled = (features[:, 1:] - self.mean_) / self.scale_
        context = scaled[:, : self.n_context] / math.sqrt(max(1, self.n_context))
        slopes = (indicator[:, :, None] * context[:, None]).reshape(len(features), -1)
        return hstack([csr_array(indicator), csr_array(slopes), csr_array(scaled)], format="csr")


class Pooled(RegressorMixin, BaseEstimator):
    """`PooledRegressor` as scikit-learn clones it."""

    def __init__(self, n_context: int = 0) -> None:
        self.n_context = n_context

    def fit(self, features: FloatArray, outcome: FloatArray) -> Pooled:
        """Fit."""
        self.model_ = PooledRegressor(self.n_context, by_action=True).fit(features, outcome)
        return self

    def predict(self, features: FloatArray) -> FloatArray:
        """Predict the outcome."""
        return self.model_.predict(features)


def stack(n_context: int) -> Any:
    """A stack of the linear mixed model and of histogram boosting."""
    from sklearn.ensemble import StackingRegressor
    from sklearn.linear_model import LinearRegression

    members = [("pooled", Pooled(n_context)), ("hist", HistRegressor(n_context))]
    return StackingRegressor(members, final_estimator=LinearRegression(positive=True), cv=3)


CANDIDATES = {"hist": HistRegressor, "logistic": LogisticRegressor, "stack": stack}


def build_candidate(name: str, *, seed: int, params: dict[str, Any]) -> Any:
    """Build the default regressor, or the candidate that the parameters name."""
    chosen = params.get("candidate")
    if chosen is None:
        return regressor(name, seed=seed, params=params)
    return CANDIDATES[chosen](params["n_context"])


def development_worlds(part: str) -> list[str]:
    """The worlds of one half, of no suite: other sizes, policies, splits and numbers."""
    second = part == "confirm"
    bandits = [
        (600, 8, -0.4, 2, "linear"),
        (500, 70, 0.9, -1.2, "linear"),
        (500, 30, 1, -3, "logistic"),
        (900, 15, -2, 4, "logistic"),
    ]
    first = [
        (400, 5, 0.7, -1, "linear"),
        (800, 40, -0.7, 1.5, "linear"),
        (600, 10, 2, -2, "logistic"),
        (700, 60, 0.3, 3, "logistic"),
    ]
    worlds = [
        f"linear-bandit[n_samples={n},n_actions={k},logging_beta={b},target=softmax,"
        f"target_beta={t},reward={r}]"
        for n, k, b, t, r in (bandits if second else first)
    ]
    splits = [("digits", 400, 21, 0.5), ("wine", 80, 22, 0.2)]
    if not second:
        splits = [("digits", 600, 11, 0.2), ("breast_cancer", 200, 12, 0.15)]
    worlds += [
        f"multiclass[dataset={d},n_samples={n},split_seed={s},logging_epsilon={e}]"
        for d, n, s, e in splits
    ]
    mips = [(1200, 200, 4, 2.0, 0.0), (1000, 40, 2, 1.0, 0.4)]
    if not second:
        mips = [(1500, 60, 4, 1.5, 0.0), (1000, 300, 5, 1.0, 0.2)]
    worlds += [
        f"saito-mips[n_samples={n},n_actions={k},n_cat_dim={c},reward_std={s},"
        f"deficient_share={q},d_context=6]"
        for n, k, c, s, q in mips
    ]
    k, s, d = (60, 0.3, 3) if second else (30, 0.5, 2)
    worlds.append(
        f"saito-toy[n_samples=600,n_actions={k},reward_std={s},d_embedding={d},"
        "shared_contexts=false]"
    )
    rows = [600, 1000, 1500, 800, 2000, 1200, 700]
    worlds += [
        f"population[world={(1500 if second else 1000) + i},n_samples={rows[i % 7]},"
        "known=policy,target_form=probabilities]"
        for i in range(14)
    ]
    slope, shift = (1.3, 0.8) if second else (0.8, 0.4)
    worlds.append(f"linear-gaussian[n_samples=700,target_slope={slope},target_std=0.3]")
    worlds.append(f"gaussian[n_samples=700,shift={shift},embedding_std=0.5,curvature=0.3]")
    return worlds


def board_worlds() -> list[str]:
    """The settings of the suites named, but those of very many actions."""
    from ope_bench.suites.manifest import plan
    from ope_bench.suites.suite import find_suite, selector_of

    worlds = []
    for suite in BOARDS:
        for spec in plan(find_suite(suite)).plugins():
            if spec.kind != "environment" or spec.params.get("n_actions", 0) > MAX_ONE_HOT_ACTIONS:
                continue
            text = f"{suite}|{selector_of(spec)}"
            if text.split("|")[1] not in {one.split("|")[1] for one in worlds}:
                worlds.append(text)
    return worlds


def measure(part: str, replicates: int, models: Sequence[str]) -> list[dict[str, Any]]:
    """Run all, and return the RMSE and the seconds of each combination."""
    from ope_bench.suites.manifest import specs_of
    from ope_bench.trials.isolation import thread_limit
    from ope_bench.trials.record import Trial
    from ope_bench.trials.trial import Workspace, run_trial

    rows = []
    for text in board_worlds() if part == "boards" else development_worlds(part):
        suite, _, world = text.rpartition("|")
        (setting,) = specs_of("environment", world)
        errors: dict[tuple[str, str], list[float]] = defaultdict(list)
        seconds: dict[tuple[str, str], float] = defaultdict(float)
        reasons: dict[tuple[str, str], str] = {}
        begun = time.process_time()
        with thread_limit(1):
            for replicate in range(replicates):
                board = Workspace()
                for name, estimator, selector in combinations(part, world):
                    if name not in models:
                        continue
                    (spec,) = specs_of("estimator", selector)
                    started = time.process_time()
                    record = run_trial(Trial(setting, spec, replicate, seed=4711), board)
                    seconds[name, estimator] += time.process_time() - started
                    if record.estimate is None or record.truth_expected is None:
                        reasons[name, estimator] = record.status.value
                    else:
                        error = record.estimate - record.truth_expected
                        errors[name, estimator].append(error)
        for (name, estimator), spent in seconds.items():
            found = errors[name, estimator]
            complete = len(found) == replicates
            rows.append(
                {
                    **({"suite": suite} if suite else {}),
                    "world": world,
                    "model": name,
                    "estimator": estimator,
                    "rmse": float(f"{math.sqrt(np.mean(np.square(found))):.4g}")
                    if complete
                    else None,
                    "seconds": round(spent, 3),
                    **({} if complete else {"status": reasons.get((name, estimator), "")}),
                }
            )
        print(f"{part} {world} {time.process_time() - begun:.0f} s", flush=True)
    return rows


def combinations(part: str, world: str) -> Iterable[tuple[str, str, str]]:
    """Yield model, estimator and selector; models of one data set share fits."""
    kind = world.partition("[")[0]
    continuous = kind in ("gaussian", "linear-gaussian", "gaussian-pairs")
    if part == "boards":
        for name in (FORMER, DEFAULT):
            for estimator in BOARD_ESTIMATORS:
                yield name, estimator, f"{estimator}[regressor={name}]"
        return
    if continuous:
        for name, model in EMBEDDING_MODELS.items():
            for estimator in (*CONTINUOUS_ESTIMATORS, *EMBEDDING_ESTIMATORS):
                if estimator != "kernel-dr" or kind == "linear-gaussian":
                    yield name, estimator, f"{estimator}[{model}]"
        return
    binary = "logistic" in world or kind == "multiclass"
    for name, model in ACTION_MODELS.items():
        if name != "logistic" or binary:
            for estimator in ACTION_ESTIMATORS:
                yield name, estimator, f"{estimator}[{model}]"
    for name, model in EMBEDDING_MODELS.items():
        for estimator in EMBEDDING_ESTIMATORS:
            yield name, estimator, f"{estimator}[{model}]"


def ratios(rows: Sequence[dict[str, Any]], name: str, **wanted: str) -> FloatArray:
    """Return log ratios of the RMSE of a model to the former default's, by world: (k,)."""
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for row in rows:
        if row["rmse"] and all(row.get(key) == value for key, value in wanted.items()):
            found[row["world"], row["estimator"]][row["model"]] = row["rmse"]
    pairs = [one for one in found.values() if {name, FORMER} <= one.keys()]
    return np.array([math.log(one[name] / one[FORMER]) for one in pairs])


def interval(values: FloatArray) -> str:
    """The geometric mean of ratios, and a bootstrap interval over worlds."""
    if len(values) == 0:
        return "–"
    rng = np.random.default_rng(0)
    means = rng.choice(values, (2000, len(values))).mean(axis=1)
    low, high = np.exp(np.quantile(means, [0.025, 0.975]))
    return f"{math.exp(values.mean()):.2f} ({low:.2f} to {high:.2f})"


def development_table(rows: Sequence[dict[str, Any]], estimators: Sequence[str]) -> str:
    """Ratios of RMSE by model and estimator, worlds answered, and seconds over the default's."""
    found = {row["model"] for row in rows if row["estimator"] in estimators}
    models = [one for one in {**ACTION_MODELS, **EMBEDDING_MODELS} if one in found]
    seconds: dict[tuple[str, str], float] = defaultdict(float)
    answered: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row["estimator"] in estimators and row["rmse"] is not None:
            seconds[row["model"], row["world"]] += row["seconds"]
            answered[row["model"]].add(row["world"])
    lines = []
    for name in models:
        worlds = answered[name] & answered[DEFAULT]
        spent, ours = (sum(seconds[one, world] for world in worlds) for one in (name, DEFAULT))
        cells = [interval(ratios(rows, name, estimator=one)) for one in estimators]
        lines.append([name, *cells, str(len(worlds)), f"{spent / ours:.1f}"])
    heads = ["reward model", *(f"`{one}`" for one in estimators), "worlds", "time"]
    return table(heads, lines)


def family_of(world: str) -> str:
    """The kind of a world, and of its rewards."""
    return world.partition("[")[0] + (", logistic" if "logistic" in world else "")


def family_table(rows: Sequence[dict[str, Any]], models: Sequence[str]) -> str:
    """Ratios of RMSE by kind of world, over the estimators with models of actions."""
    labeled = [
        {**row, "family": family_of(row["world"])}
        for row in rows
        if row["estimator"] in ACTION_ESTIMATORS
    ]
    families = list(dict.fromkeys(row["family"] for row in labeled))
    lines = [
        [name, *(interval(ratios(labeled, name, family=one)) for one in families)]
        for name in models
    ]
    return table(["reward model", *families], lines)


def board_table(rows: Sequence[dict[str, Any]]) -> str:
    """Ratios of the default's RMSE to the former one's, by estimator and suite, and seconds."""
    suites = list(dict.fromkeys(row["suite"] for row in rows))
    lines = []
    for estimator in BOARD_ESTIMATORS:
        spent = {
            name: sum(
                row["seconds"]
                for row in rows
                if row["estimator"] == estimator and row["model"] == name
            )
            for name in (FORMER, DEFAULT)
        }
        cells = [interval(ratios(rows, DEFAULT, estimator=estimator, suite=one)) for one in suites]
        both = interval(ratios(rows, DEFAULT, estimator=estimator))
        times = [f"{spent[name]:.1f}" for name in (FORMER, DEFAULT)]
        lines.append([f"`{estimator}`", *cells, both, *times])
    heads = ["", *(f"`{one}`" for one in suites), "all", "before, s", "after, s"]
    return table(heads, lines)


TEXT = """\
# The default reward model

RMSE with each reward model over that with `{former}`, the former default: geometric means over
worlds, {replicates} data sets each, with bootstrap intervals over worlds. Below 1 the model errs
less. *Worlds*: those in which it answers. *Time*: processor seconds over those of `{default}` in
the same worlds, fits and estimates of all estimators of the row; estimators with one reward model
share its fit. Worlds are of no suite: linear bandits of other sizes and policies, `multiclass`
with other splits, `saito-mips` and `saito-toy` of other dimensions, drawn worlds of other numbers,
continuous actions.

`{default}` is a linear mixed model: effects common to all actions (squares and products too, or
products of context and embedding, where they are few), and of each action an intercept and slopes
that are shrunk to 0. `ridge, separate` shrinks toward a ridge regression that is fitted before.
The stack has `{default}` and histogram boosting, combined with positive weights on three folds;
the logistic regression has the same effects of actions as `{default}`, its penalty by three
folds, and is for rewards of 0 and 1.

{parts}
"""

BOARDS_TEXT = """\
RMSE with the default over that with `{former}` on one-hot actions, on the settings of the suites
named that have at most {most} actions, {count} data sets each. Intervals are over settings.
Seconds are of all settings; of estimators that share a fit, the first has its cost."""

HALVES = {"choose": "Where it was chosen", "confirm": "Where it is confirmed"}


def markdown(report: dict[str, Any]) -> str:
    """The page."""
    sections = []
    for part, title in HALVES.items():
        rows = report["parts"].get(part)
        if rows:
            sections += [
                f"## {title}",
                development_table(rows, ACTION_ESTIMATORS),
                development_table(rows, EMBEDDING_ESTIMATORS),
                "By kind of world, all estimators of the first table:",
                family_table(rows, [name for name in ACTION_MODELS if name != FORMER]),
            ]
    if rows := report["parts"].get("boards"):
        sections += [
            "## Boards, before and after",
            BOARDS_TEXT.format(
                former=FORMER, most=MAX_ONE_HOT_ACTIONS, count=report["replicates"]["boards"]
            ),
            board_table(rows),
        ]
    count = report["replicates"].get("choose", report["replicates"].get("confirm", 0))
    text = TEXT.format(
        former=FORMER, default=DEFAULT, replicates=count, parts="\n\n".join(sections)
    )
    return f"{text}\n{statement(report)}"


def main() -> int:
    """Measure parts, and write the page of all that are measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--part", nargs="*", default=[], choices=[*HALVES, "boards"])
    known = [*ACTION_MODELS, *(name for name in EMBEDDING_MODELS if name not in ACTION_MODELS)]
    parser.add_argument("--model", nargs="+", default=known, help="measure these; keep the others")
    parser.add_argument("--replicates", type=int, default=4)
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    pooled.regressor = build_candidate  # type: ignore[assignment, attr-defined]
    data = given.output.with_suffix(".json")
    former = json.loads(data.read_text()) if data.exists() else {"parts": {}, "replicates": {}}
    commands = former.get("command", "").split(JOINED)
    commands = [
        one for one in dict.fromkeys([*commands, shlex.join(["python", *sys.argv])]) if one
    ]
    report = {**former, "command": JOINED.join(commands), **facts_now()}
    for part in given.part:
        rows = measure(part, given.replicates, given.model)
        kept = [row for row in report["parts"].get(part, []) if row["model"] not in given.model]
        report["parts"][part] = kept + rows
        report["replicates"][part] = given.replicates
    written(given.output, report, markdown(report))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
