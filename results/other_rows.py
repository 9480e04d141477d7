"""Writes for each data set of `field-trials` the target's value in the rows that its log leaves.

    python results/other_rows.py

The truth of a randomized trial is estimated from all of its rows, those of the log among them, so
that errors against it favor estimators that err as it does. The other rows' estimate errs
independently of the log's. It needs the installed trials, no estimator.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq

from ope_bench.contracts.random import DataSeed
from ope_bench.plugins.spec import resolve
from ope_bench.trials.trial import build

FOLDER = Path(__file__).resolve().parent / "field-trials"


def main() -> int:
    """Draw the data sets again and write the values."""
    columns = ["environment_params", "replicate"]
    trials = pq.read_table(FOLDER / "trials.parquet", columns=columns).to_pylist()
    found: dict[str, dict[int, tuple[float, float]]] = {}
    for params, replicate in sorted(
        {(one["environment_params"], one["replicate"]) for one in trials}
    ):
        spec = resolve("environment", "randomized", json.loads(params))
        seed = DataSeed(spec.stream_id, 0, replicate, spec.worlds)
        world = build(spec).world(seed.world())
        value = world.value_of_others(seed.logged())
        found.setdefault(params, {})[replicate] = value
    text = json.dumps(found, indent=0)
    (FOLDER / "other-rows.json").write_text(f"{text}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
