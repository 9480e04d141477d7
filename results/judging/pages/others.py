"""Estimators of other packages beside ours on the same data sets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from judging.pages.page import opening, table
from judging.trials.rows import rows_of
from ope_bench.statistics.ranks import mean_interval

OURS = ("ipws", "sndr", "dr-os", "dm", "logging-average")
"""Estimators of `choice` on the same data sets."""

REFERENCE = "ipws"

PACKAGES = {
    "coba-ips": 'coba 8.1.0 (Mark Rucker), `OpeRewards("IPS")`',
    "offline-ips": "offline-evaluation 0.0.6 (Conti, Vital, Gilley), IPS",
    "vw-cressie-read": "vw-estimators 0.1.1 (Vowpal Wabbit), `bandits.cressieread`",
    "vw-ips": "vw-estimators 0.1.1, `bandits.ips`",
    "vw-mle": "vw-estimators 0.1.1, `bandits.mle`",
    "vw-snips": "vw-estimators 0.1.1, `bandits.snips`",
}
"""Id of each adapter, with its package, release and authors."""

Row = Mapping[str, Any]


def squares_of(results: Path) -> dict[str, dict[int, list[float]]]:
    """Return squared errors by estimator and world, on data sets that both folders have.

    Raises
    ------
    ValueError : the two folders do not agree on a data set, or an adapter has no answer.
    """
    answers = pq.read_table(results / "others" / "answers.parquet").to_pylist()
    others = [row for row in answers if row["estimator"] != REFERENCE]
    truths = {
        (row["environment_params"], row["replicate"]): row["truth_expected"] for row in others
    }
    ours = [
        row
        for row in rows_of(results / "choice")
        if row["estimator"] in OURS and (row["environment_params"], row["replicate"]) in truths
    ]
    found: dict[str, dict[int, list[float]]] = {}
    for row in [*others, *ours]:
        if row["truth_expected"] != truths[row["environment_params"], row["replicate"]]:
            msg = f"others and choice do not have the same data: {row}"
            raise ValueError(msg)
        if row["status"] != "ok":
            msg = f"no answer: {row}"
            raise ValueError(msg)
        world = json.loads(row["environment_params"])["world"]
        error = (row["estimate"] - row["truth_expected"]) ** 2
        found.setdefault(str(row["estimator"]), {}).setdefault(world, []).append(error)
    return found


def others_section(results: Path) -> str:
    """Return the section of the leaderboard's page."""
    squares = squares_of(results)
    logs = {
        name: np.array(
            [0.5 * np.log(max(float(np.mean(one)), 1e-24)) for _, one in sorted(by.items())]
        )
        for name, by in squares.items()
    }
    rows = []
    for name in sorted(logs, key=lambda name: float(logs[name].mean())):
        told = np.exp(np.array(mean_interval(logs[name] - logs[REFERENCE])))
        ninth = float(np.exp(np.quantile(logs[name] - logs[REFERENCE], 0.9)))
        words = PACKAGES.get(name, f"`{name}`, ours")
        rows.append([words, f"{told[0]:.2f} ({told[1]:.2f} to {told[2]:.2f})", f"{ninth:.2f}"])
    facts = {"worlds": len(logs[REFERENCE]), "sets": len(next(iter(squares[REFERENCE].values())))}
    text = opening("leaderboard others", **facts)
    return f"{text}\n\n{table(['estimator', 'error', '90 %'], rows, 'lr', tight=True)}"
