"""Weights on landmarks beside those of all pairs: error and time, on worlds of every kind.

    python results/performance/scripts/landmarks.py --output results/performance/landmarks

`kmm` and `energy-balancing` compare all pairs of up to 4,000 rows, and use landmarks beyond. Here
both are computed of the same logs, which are small enough for all pairs.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from interleaved import written
from sections import table
from statement import facts_now, statement

ESTIMATORS = ("energy-balancing", "kmm")
WAYS = ("pairs", "landmarks")

WORLDS = (
    "saito-mips[n_samples={rows},n_actions=1000]",
    "saito-mips[n_samples={rows},n_actions=50,d_context=3,n_cat_dim=2]",
    "saito-toy[n_samples={rows},n_actions=100]",
    "saito-toy[n_samples={rows},n_actions=30,d_context=3,d_embedding=3]",
    "linear-bandit[n_samples={rows},n_actions=20]",
    "population[world=2001,n_samples={rows}]",
    "population[world=2002,n_samples={rows}]",
    "linear-gaussian[n_samples={rows}]",
)

TEXT = """\
# Weights on landmarks

{data_sets} data sets of {rows:,} rows of each world. *Moved*: the root mean square of what the
estimate moves by when landmarks replace all pairs; *error*: the RMSE of all pairs against the
value; *logged mean*: how far the mean reward of the logs is from the estimate of all pairs.
*Correlation* of both sets of weights, and the *effective rows* of both. Processor seconds of one
data set.

{tables}

With all pairs each of some hundred steps reads a table of rows squared. On landmarks that many are
read once for the means of the target sample, and by `energy-balancing` five times more. `kmm` with
all pairs ends after 2,000 steps, short of its minimum; on landmarks it is the minimum with a ridge
that stands for those steps. Where the target sample lies at few logged rows, or columns are
hundreds, it moves by as much as the estimator errs; there neither way is to be trusted.
"""


def answers(world: str, replicate: int) -> Iterator[dict[str, Any]]:
    """Yield the answers of each estimator with all pairs and on landmarks."""
    from ope_bench.suites.manifest import specs_of
    from ope_bench.trials.record import Trial
    from ope_bench.trials.trial import Workspace, run_trial
    from ope_estimators.density_ratio import matching
    from ope_estimators.density_ratio.sample_weights import SampleWeights

    (setting,) = specs_of("environment", world)
    kept: list[SampleWeights] = []
    for estimator, model in (
        ("energy-balancing", matching.EnergyWeights),
        ("kmm", matching.KernelMeanWeights),
    ):
        (spec,) = specs_of("estimator", estimator)
        row: dict[str, Any] = {"world": world, "replicate": replicate, "estimator": estimator}
        weigh = model.weigh

        def followed(self: Any, *given: Any, weigh: Any = weigh) -> SampleWeights:
            kept.append(weigh(self, *given))
            return kept[-1]

        known = matching.PAIRED_ROWS
        for name, paired_rows in (("pairs", sys.maxsize), ("landmarks", 0)):
            model.weigh, matching.PAIRED_ROWS = followed, paired_rows  # type: ignore[method-assign, assignment]
            begun = time.process_time()
            record = run_trial(Trial(setting, spec, replicate, seed=4711), Workspace())
            model.weigh, matching.PAIRED_ROWS = weigh, known  # type: ignore[method-assign]
            if record.estimate is None:
                raise SystemExit(f"{world}, {estimator}: {record.error_message}")
            row[name] = record.estimate
            row[f"{name}_seconds"] = round(time.process_time() - begun, 3)
            weights = kept[-1].logged
            row[f"{name}_effective"] = float(weights.sum() ** 2 / (weights @ weights))
            row["truth"] = record.truth_expected
        row["correlation"] = float(np.corrcoef(kept[-2].logged, kept[-1].logged)[0, 1])
        (mean,) = specs_of("estimator", "logging-average")
        row["mean"] = run_trial(Trial(setting, mean, replicate, seed=4711), Workspace()).estimate
        yield row


def markdown(report: dict[str, Any]) -> str:
    """The page."""
    heads = ("world", "moved", "error", "logged mean", "correlation", "effective", "pairs, s",
             "landmarks, s")  # fmt: skip
    parts = []
    for estimator in ESTIMATORS:
        lines = []
        for world in dict.fromkeys(row["world"] for row in report["rows"]):
            rows = [
                one
                for one in report["rows"]
                if one["world"] == world and one["estimator"] == estimator
            ]

            def of(key: str, rows: list[dict[str, Any]] = rows) -> Any:
                return np.array([one[key] for one in rows])

            def size(values: Any) -> str:
                return f"{float(np.sqrt(np.square(values).mean())):.4f}"

            lines.append(
                (
                    f"`{world}`",
                    size(of("landmarks") - of("pairs")),
                    size(of("pairs") - of("truth")),
                    size(of("mean") - of("pairs")),
                    f"{of('correlation').mean():.3f}",
                    ", ".join(f"{of(f'{one}_effective').mean():,.0f}" for one in WAYS),
                    *(f"{of(f'{one}_seconds').mean():.1f}" for one in WAYS),
                )
            )
        parts.append(f"## `{estimator}`\n\n{table(heads, lines)}")
    text = TEXT.format(
        data_sets=report["data_sets"], rows=report["n_rows"], tables="\n\n".join(parts)
    )
    return f"{text}\n{statement(report)}"


def main() -> int:
    """Measure and write."""
    from ope_bench.trials.isolation import thread_limit

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--data-sets", type=int, default=3)
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    facts = facts_now()
    rows = []
    with thread_limit(1):
        for world in WORLDS:
            for replicate in range(given.data_sets):
                rows += answers(world.format(rows=given.rows), replicate)
            print(rows[-1]["world"], flush=True)
    report = {
        "command": shlex.join(["python", *sys.argv]),
        **facts,
        "data_sets": given.data_sets,
        "n_rows": given.rows,
        "rows": rows,
    }
    written(given.output, report, markdown(report))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
