"""Estimators of other packages beside ours on the same data sets."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from judging.pages.page import opening, table
from judging.trials.rows import rows_of
from ope_bench.boards.tracks import log_rmse, with_failures
from ope_bench.contracts.arrays import FloatArray
from ope_bench.statistics.ranks import mean_interval

OURS = ("ipws", "sndr", "dr-os", "dm", "logging-average")
"""Estimators of `choice` on the same data sets."""

REFERENCE = "ipws"

PACKAGES = {
    "obp/dm": "Open Bandit Pipeline 0.5.10 (Saito, Aihara, Matsutani, Narita), DM, random forest",
    "obp/dr": "Open Bandit Pipeline 0.5.10 (Saito, Aihara, Matsutani, Narita), DR, random forest",
    "coba-ips": 'coba 8.1.0 (Mark Rucker), `OpeRewards("IPS")`',
    "offline-ips": "offline-evaluation 0.0.6 (Conti, Vital, Gilley), IPS",
    "vw-cressie-read": "vw-estimators 0.1.1 (Vowpal Wabbit), `bandits.cressieread`",
    "vw-ips": "vw-estimators 0.1.1 (Vowpal Wabbit), `bandits.ips`",
    "vw-mle": "vw-estimators 0.1.1 (Vowpal Wabbit), `bandits.mle`",
    "vw-snips": "vw-estimators 0.1.1 (Vowpal Wabbit), `bandits.snips`",
}
"""Id of each adapter, with its package, release and authors; the metadata of vw-estimators
name an organization alone."""

Log = tuple[int, int]
"""World and replicate of a data set."""


def errors_of(results: Path) -> dict[str, dict[Log, float]]:
    """Return errors by estimator and data set, on those that the folders share; NaN for a failure.

    Raises
    ------
    ValueError : the folders do not agree on a value; adapters in an environment of their own have
        another release of NumPy, which moves its last digit.
    """
    paths = sorted((results / "others").glob("answers*.parquet"))
    answers = [row for path in paths for row in pq.read_table(path).to_pylist()]
    others = [row for row in answers if row["estimator"] != REFERENCE]
    truths = {
        (row["environment_params"], row["replicate"]): row["truth_expected"] for row in others
    }
    ours = [
        row
        for row in rows_of(results / "choice")
        if row["estimator"] in OURS and (row["environment_params"], row["replicate"]) in truths
    ]
    found: dict[str, dict[Log, float]] = {}
    for row in [*others, *ours]:
        told = truths[row["environment_params"], row["replicate"]]
        if not math.isclose(row["truth_expected"], told, rel_tol=1e-12):
            msg = f"others and choice do not have the same data: {row}"
            raise ValueError(msg)
        log = json.loads(row["environment_params"])["world"], row["replicate"]
        error = row["estimate"] - told if row["status"] == "ok" else math.nan
        found.setdefault(str(row["estimator"]), {})[log] = error
    return found


def log_errors(errors: Mapping[str, Mapping[Log, float]]) -> dict[str, FloatArray]:
    """Return the logarithm of each estimator's RMSE by world: (n_worlds,).

    A failure counts with the larger error of the logged average and the reference, which have all
    answers.
    """
    average, reference = errors["logging-average"], errors[REFERENCE]
    logs = sorted(reference)
    others = np.array([reference[log] for log in logs])
    told = {}
    for name, by_log in errors.items():
        failed = np.array([float(math.isnan(by_log[log])) for log in logs])
        own = np.where(failed > 0, [average[log] for log in logs], [by_log[log] for log in logs])
        worlds: dict[int, list[float]] = {}
        for (world, _), error in zip(logs, with_failures(own, failed, others), strict=True):
            worlds.setdefault(world, []).append(error)
        told[name] = np.array([log_rmse(np.array(one)) for one in worlds.values()])
    return told


def others_section(results: Path) -> str:
    """Return the section of the leaderboard's page."""
    errors = errors_of(results)
    logs = log_errors(errors)
    rows = []
    for name in sorted(logs, key=lambda name: float(logs[name].mean())):
        told = np.exp(np.array(mean_interval(logs[name] - logs[REFERENCE])))
        ninth = float(np.exp(np.quantile(logs[name] - logs[REFERENCE], 0.9)))
        fails = float(np.mean([math.isnan(one) for one in errors[name].values()]))
        words = PACKAGES.get(name, f"`{name}`, ours")
        figure = f"{told[0]:.2f} ({told[1]:.2f} to {told[2]:.2f})"
        rows.append([words, figure, f"{ninth:.2f}", f"{fails:.1%}"])
    worlds = len(logs[REFERENCE])
    facts = {"worlds": worlds, "sets": len(errors[REFERENCE]) // worlds}
    text = opening("leaderboard others", **facts)
    return f"{text}\n\n{table(['estimator', 'error', '90 %', 'fails'], rows, 'lr', tight=True)}"
