"""Writes the signal of each setting of the leaderboard: the out-of-fold R2 of its reward model.

    python results/signals.py [FOLDER...]

Trials of older releases do not tell it. The first data set of a setting is drawn again, and the
model that `dr` had there (`pooled`, five folds by unit) fitted to it; no value is used.
A setting whose logs lack propensities or the target's policy has none. Interrupted, it resumes.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from ope_bench.plugins.spec import resolve
from ope_bench.store.exported import trial_of
from ope_bench.trials.trial import Workspace, run_trial

RESULTS = Path(__file__).resolve().parent
FOLDERS = ("field-real", "field-trials", "field")


def write(folder: Path) -> None:
    """Write signals.json beside a folder's trials."""
    path = folder / "signals.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    rows = pq.read_table(
        folder / "trials.parquet",
        filters=[("estimator", "=", "dr"), ("replicate", "=", 0), ("status", "=", "ok")],
    ).to_pylist()
    estimator = resolve("estimator", "dr-eb", {"regressor": "pooled"})
    for row in rows:
        name = row["environment_params"]
        if name not in found:
            record = run_trial(replace(trial_of(row), estimator=estimator), Workspace())
            signal = record.diagnostics.get("reward_r2")
            found[name] = None if signal is None else round(signal, 6)
            text = json.dumps(dict(sorted(found.items())), indent=0)
            path.write_text(text + "\n", encoding="utf-8")


def main() -> int:
    """Write the signals of the folders that are named, or all."""
    for name in sys.argv[1:] or FOLDERS:
        write(RESULTS / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
