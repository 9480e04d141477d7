"""Our estimators beside the libraries inside them, called bare: our cost on top.

    python results/performance/scripts/side_by_side_bare.py

Bare is what somebody writes who has the arrays ready and wants this one number: fit, predict,
average. Ours get a view and do what an estimator does: compose features, hold out, calibrate,
diagnose. The learner, its parameters, seed and rows are the same, so the numbers are, and the
script ends with an error unless they are; the flow's are not, because ours keeps rows aside to
stop early: there the steps are as many. One process a side, forked for each measurement.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import interleaved
import numpy as np
from statement import Page, facts_now

from ope_bench.report.tables import figure

EPOCHS = 4
CASES = {
    "Ridge in `dm`": 1e-9,
    "HistGradientBoosting in `dm`": 1e-9,
    "LogisticRegression in `mips`": 1e-9,
    "HistGradientBoosting in `epws`, in-sample": 1e-9,
    "HistGradientBoosting in `epws`, as it comes": None,
    "XGBoost in `epws`, in-sample": 1e-6,
    "zuko's MAF in front of a ratio": None,
}
"""By how much, relatively, both sides may differ; None where the work is only of equal size."""

SIZES = (1_000, 10_000)
FEW_TREES = {"max_iter": 50}
WHOLE = {"early_stopping": False}
"""Beyond 10,000 rows scikit-learn keeps some aside, drawn by a seed that differs here."""


def prepare(job: dict[str, Any]) -> Any:
    """A problem of so many rows; both sides draw the same one."""
    import sklearn.ensemble
    import sklearn.linear_model
    import sklearn.pipeline
    import sklearn.preprocessing
    import torch
    import xgboost
    import zuko

    from ope_environments.saito.toy import SaitoToy

    loaded = (sklearn, torch, xgboost, zuko)
    assert all(loaded)
    torch.set_num_threads(1)
    names = ("world_rng", "logged_rng", "target_rng")
    streams = map(np.random.default_rng, np.random.SeedSequence(0).spawn(3))
    return SaitoToy(n_actions=50, n_samples=job["data"]).sample(
        **dict(zip(names, streams, strict=True))
    )[0]


def ours(problem: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Through a view."""
    from ope_bench.contracts.random import DataSeed
    from ope_bench.contracts.view import Access, FitCache, View
    from ope_estimators.actions.direct.dm import DM
    from ope_estimators.embedded.learned.epws import EPWS
    from ope_estimators.embedded.learned.mips import MIPS
    from ope_estimators.flows.flow import FlowModel

    seen = {"cross_fit": 0, "calibration": "none"}
    estimators = {
        "Ridge in `dm`": DM("ridge", action_features="ordinal"),
        "HistGradientBoosting in `dm`": DM("hist-gbm", FEW_TREES, "ordinal"),
        "LogisticRegression in `mips`": MIPS(),
        "HistGradientBoosting in `epws`, in-sample": EPWS(classifier_params=WHOLE, **seen),
        "HistGradientBoosting in `epws`, as it comes": EPWS(),
        "XGBoost in `epws`, in-sample": EPWS(classifier="xgboost", **seen),
    }

    def view(access: Access) -> View:
        return View(problem, access, seed=DataSeed("bare", 0, 0), fit_cache=FitCache())

    def estimated(_: object) -> float:
        estimator = estimators[job["case"]]
        given = view(estimator.access)
        estimator.fit(given, rng=np.random.default_rng(0), device="cpu")
        return float(estimator.estimate(given).value)

    def flow(_: object) -> float:
        fitted = view(Access.SAMPLES).fitted(FlowModel(epochs=EPOCHS))
        return float(fitted.diagnostics["flow_train_nll"])  # type: ignore[arg-type]

    return _measured(flow if "zuko" in job["case"] else estimated)


def bare(problem: Any, job: dict[str, Any]) -> dict[str, Any]:
    """The library alone, on arrays that are ready."""
    case = job["case"]
    if "`dm`" in case:
        return _measured(_bare_dm(problem, case))
    if "`mips`" in case:
        return _measured(_bare_mips(problem))
    if "zuko" in case:
        return _measured(_bare_flow(problem))
    return _measured(_bare_ratio(problem, case))


def _measured(block: Callable[[object], float]) -> dict[str, Any]:
    # Once for what happens only once: first calls into libraries, caches of the processor.
    block(None)
    return interleaved.measured(block, lambda: None)


def _bare_dm(problem: Any, case: str) -> Callable[[object], float]:
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    n, n_actions = len(problem.reward), problem.n_actions
    logged = np.column_stack([problem.context, problem.action])
    pairs = np.column_stack(
        [np.repeat(problem.context, n_actions, axis=0), np.tile(np.arange(n_actions), n)]
    )
    table = np.concatenate([block for _, block in problem.target_policy.blocks(problem.context)])

    def block(_: object) -> float:
        model = make_pipeline(StandardScaler(), Ridge())
        if "Hist" in case:
            model = HistGradientBoostingRegressor(random_state=0, **FEW_TREES)
        model.fit(logged, problem.reward)
        predicted = model.predict(pairs).reshape(n, n_actions)
        return float((table * predicted).sum(axis=1).mean())

    return block


def _bare_mips(problem: Any) -> Callable[[object], float]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    features = np.hstack([problem.context, problem.embedding])
    target, logging = (
        np.concatenate([block for _, block in policy.blocks(problem.context)])
        for policy in (problem.target_policy, problem.logging_policy)
    )

    def block(_: object) -> float:
        seen, label = np.unique(problem.action, return_inverse=True)
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        probability = model.fit(features, label).predict_proba(features)
        if problem.action_embedding is not None:
            same = (problem.action_embedding[seen] == problem.embedding[:, None]).all(axis=2)
            probability *= same
            probability /= probability.sum(axis=1, keepdims=True)
        weights = (probability * (target / logging)[:, seen]).sum(axis=1)
        return float((weights * problem.reward).mean())

    return block


def _bare_ratio(problem: Any, case: str) -> Callable[[object], float]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from xgboost import XGBClassifier

    from ope_estimators.density_ratio.capacity import default_params

    n = len(problem.reward)
    logged = np.hstack([problem.embedding, problem.context])
    target = np.hstack([problem.target_embedding, problem.target_context])
    features, label = np.concatenate([logged, target]), np.repeat([0, 1], [n, len(target)])
    name = "xgboost" if "XG" in case else "hist-gbm"
    params = default_params(name, len(label))
    if name == "hist-gbm" and "in-sample" in case:
        params = {**params, **WHOLE}
    folds = 5 if "as it comes" in case else 1
    fold = np.arange(len(label)) % folds

    def fitted(rows: Any) -> Any:
        if name == "xgboost":
            fixed = {"n_jobs": 1, "device": "cpu", "tree_method": "hist"}
            model: Any = XGBClassifier(random_state=0, **fixed, **params)
        else:
            model = HistGradientBoostingClassifier(random_state=0, **params)
        return model.fit(features[rows], label[rows])

    def scores(model: Any, rows: Any) -> Any:
        if name == "xgboost":
            return model.predict(features[rows], output_margin=True)
        return model.decision_function(features[rows])

    def block(_: object) -> float:
        score = np.empty(len(label))
        for k in range(folds):
            held = fold == k
            score[held] = scores(fitted(~held if folds > 1 else held), held)
        weights = np.clip(np.exp(score[:n]), 1e-3, 1e3)
        return float((weights * problem.reward).sum() / weights.sum())

    return block


def _bare_flow(problem: Any) -> Callable[[object], float]:
    import torch
    import zuko

    rows = np.concatenate(
        [
            np.hstack([problem.embedding, problem.context]),
            np.hstack([problem.target_embedding, problem.target_context]),
        ]
    )
    rows = rows[:, rows.std(axis=0) > 0]
    x = torch.as_tensor((rows - rows.mean(axis=0)) / rows.std(axis=0), dtype=torch.float32)
    # As many rows as ours train on, the others being kept aside.
    x = x[: round(0.8 * len(x))]

    def block(_: object) -> float:
        flow = zuko.flows.MAF(x.shape[1], 0, transforms=5, hidden_features=(100, 100))
        optimizer = torch.optim.Adam(flow.parameters(), lr=3e-3)
        for _ in range(EPOCHS):
            for batch in torch.split(torch.randperm(len(x)), 128):
                loss = -flow().log_prob(x[batch]).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return float(loss.detach())

    return block


def compare(
    sizes: list[int], given: argparse.Namespace, sides: dict[str, interleaved.Side]
) -> Iterator[dict[str, Any]]:
    """A row for every case and size."""
    for size in sizes:
        for case, tolerance in CASES.items():
            job = {"data": size, "case": case, "timeout": 120.0, "memory": 0}
            found = interleaved.in_turns(
                {name: lambda side=side, job=job: side.ask(job) for name, side in sides.items()},
                seconds=given.budget,
                most=given.rounds,
            )
            for name, runs in found.items():
                if "failed" in runs[-1]:
                    msg = f"{case}, {size} rows, {name}: {runs[-1]['failed']}"
                    raise RuntimeError(msg)
            own, other = found["ours"][0]["value"], found["bare"][0]["value"]
            if tolerance is not None and not math.isclose(own, other, rel_tol=tolerance):
                msg = f"{case}, {size} rows: {own} is not {other}"
                raise AssertionError(msg)
            figures = ("seconds", "cpu_seconds", "rise_mb")
            row = {"case": case, "n": size, "equal": tolerance is not None}
            row |= {
                side: {name: interleaved.spread([run[name] for run in runs]) for name in figures}
                for side, runs in found.items()
            }
            row["ratios"] = interleaved.ratios(found["bare"], found["ours"], figures)
            print(line(row), flush=True)
            yield row


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    own, other = (1e3 * row[side]["cpu_seconds"]["median"] for side in ("ours", "bare"))
    cells = [row["case"], f"{row['n']:,}", f"{own:,.4g}", f"{other:,.4g}"]
    cells += [interleaved.told(row["ratios"]["cpu_seconds"]), figure(own - other, 2)]
    cells += ["equal" if row["equal"] else "of equal size"]
    return f"| {' | '.join(cells)} |"


INTRO = (
    "# Our cost on top of scikit-learn, XGBoost and zuko\n\n"
    "`saito-toy` with 50 actions. Milliseconds of the processor, medians; a ratio is ours over"
    " the library called bare on arrays that are ready, in turns, median (lowest to highest)."
    " *As it comes* adds nothing to the bare side but its five folds: calibration and"
    " diagnostics are ours alone."
)


def tables(report: dict[str, Any]) -> str:
    """The table of one machine."""
    return "\n".join(
        [
            "| what | rows | ours, ms | bare, ms | ratio | on top, ms | the numbers |",
            "|:---|---:|---:|---:|---:|---:|:---|",
            *map(line, report["rows"]),
        ]
    )


PAGE = Page(INTRO, tables)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES), help="rows")
    parser.add_argument("--rounds", type=int, default=7, help="at most, a cell")
    parser.add_argument("--budget", type=float, default=6.0, help="seconds of rounds, a cell")
    parser.add_argument("--output", type=Path, help="FOLDER/NAME of the two files written")
    parser.add_argument("--serve", choices=["ours", "bare"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        interleaved.serve(prepare, {"ours": ours, "bare": bare}[given.serve])
        return 0
    command = (
        f"python results/performance/scripts/{Path(__file__).name} --sizes"
        f" {' '.join(map(str, given.sizes))} --rounds {given.rounds} --budget {given.budget:g}"
    )
    report: dict[str, Any] = {"command": command, **facts_now()}
    sides = {name: interleaved.Side(sys.executable, __file__, name) for name in ("ours", "bare")}
    interleaved.conducted(report, sides, lambda: compare(given.sizes, given, sides))
    if given.output:
        PAGE.write(given.output, report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
