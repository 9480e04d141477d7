"""The page of the paper's other readings: what changes where it can be read in two ways."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from judging.claims.errors import ratio
from judging.claims.line import figure, marks
from judging.pages.page import opening, table
from judging.trials.rows import Estimator, Trials
from ope_bench.contracts.arrays import FloatArray
from ope_bench.statistics.error_distribution import rmse_intervals

ESTIMATORS = ("logging-average", "ipw", "ipws", "eipw", "epw", "epw-paper", "epws", "epws-paper")


def readings_page(results: Path) -> str:
    """Return results/paper/readings.md.

    Parameters
    ----------
    results : the folder results/, with paper/behance, paper/behance-resampled and
        paper/flow-adapted.
    """
    paper = results / "paper"
    independent = [
        Trials(paper / "behance", "n_samples", truth) for truth in ("expected", "empirical")
    ]
    resampled = [
        Trials(paper / "behance-resampled", "n_samples", truth)
        for truth in ("expected", "empirical")
    ]
    rows = []
    for name in ESTIMATORS:
        estimator = Estimator.of(name, name)
        cells = [_rmse(trials, estimator) for trials in (*independent, *resampled)]
        rows.append([f"`{name}`", *cells])
    head = ["RMSE against", "V, independent", "V_s, independent", "V, resampled", "V_s, resampled"]
    flows = Trials(paper / "flow-adapted", "n_actions", "expected")
    ours = Estimator.of("fepws-paper", "fepws-paper")
    adapted = Estimator.of(
        "fepws-paper", "adapted", flow="maf-norm", flow_params={"transforms": 5, "hidden": [100]}
    )
    plain = Estimator.of("epws-paper", "epws-paper")
    lines = []
    for setting in flows.settings:
        errors = {
            estimator: flows.errors(estimator, setting) for estimator in (ours, adapted, plain)
        }
        lines.append(
            [
                str(setting),
                *(f"{_root(errors[estimator]):.3g}" for estimator in (plain, ours, adapted)),
                ratio("", "", errors[adapted], errors[ours]).number,
            ]
        )
    flow_head = [
        "actions",
        "`epws-paper`",
        "`fepws-paper`",
        "adapted flow",
        "adapted / `fepws-paper`",
    ]
    return opening(
        "readings",
        behance=table(head, rows, "lr"),
        found=_found(independent[0], resampled[0]),
        flows=table(flow_head, lines, "rr"),
    )


def _found(independent: Trials, resampled: Trials) -> str:
    """Return which estimators err less than the logging average under each reading."""
    sentences = []
    for name, trials in (("independent data sets", independent), ("resamples", resampled)):
        (setting,) = trials.settings
        average = trials.errors(Estimator.of("logging-average", ""), setting)
        lines = [
            ratio(f"`{one}`", "", trials.errors(Estimator.of(one, one), setting), average)
            for one in ESTIMATORS[1:]
        ]
        less = [line.what for line, mark in zip(lines, marks(lines), strict=True) if mark == "+"]
        listed = ", ".join(less) or "no estimator"
        sentences.append(f"with {name}, less than the logging average: {listed}")
    return f"Significantly (paired, Holm, 5 %) {'; '.join(sentences)}."


def _rmse(trials: Trials, estimator: Estimator) -> str:
    """Return the RMSE of a suite of one setting, with its interval."""
    (setting,) = trials.settings
    found = rmse_intervals(trials.errors(estimator, setting))
    return figure(float(found.rmse[0]), float(found.low[0]), float(found.high[0]))


def _root(errors: FloatArray) -> float:
    return float(np.sqrt(np.square(errors).mean()))
