"""``ope-bench run --dry-run``: how much there is to do, and for how long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ope_bench.cli.exit_codes import CLEAN, EMPTY
from ope_bench.cli.forecast import predicted_seconds
from ope_bench.cli.omissions import left_out, why_empty
from ope_bench.manifest import Manifest
from ope_bench.quantities import format_duration
from ope_bench.resolve import selector_of
from ope_bench.runner import digest_of
from ope_bench.store import Freshness, Seconds, Store

__all__ = ["as_text", "foresee"]


def foresee(manifest: Manifest, path: Path, jobs: int, retry: Any) -> dict[str, Any]:
    """What a run would do; nothing is written, and the store need not exist.

    Parameters
    ----------
    manifest : the plan.
    path : of the store.
    jobs : trials side by side.
    retry : as the run would be told.
    """
    trials = manifest.trials
    stored: set[str] = set()
    seconds: dict[str, Seconds] = {}
    if path.exists() and trials:
        stored, seconds = _known(manifest, path, retry)
    to_run = [trial for trial in trials if trial.key not in stored]
    alone = [trial for trial in to_run if manifest.exclusive(trial)]
    together = [trial for trial in to_run if not manifest.exclusive(trial)]
    parts = [predicted_seconds(together, seconds, jobs), predicted_seconds(alone, seconds, 1)]
    unknown = sum(count for _, count in parts)
    known = [predicted for predicted, _ in parts if predicted is not None]
    predicted = sum(known) if unknown < len(to_run) or not to_run else None
    return {
        "schema": 1,
        "suite": manifest.suite.name,
        "store": str(path),
        "dry_run": True,
        "environments": len({id(cell.environment) for cell in manifest.cells}),
        "estimators": len({id(cell.estimator) for cell in manifest.cells}),
        "cells": [
            {
                "environment": selector_of(cell.environment),
                "estimator": selector_of(cell.estimator),
                "device": cell.device,
            }
            for cell in manifest.cells
        ],
        "replicates": manifest.suite.replicates,
        "planned": len(trials),
        "stored": len(stored),
        "to_run": len(to_run),
        "alone": len(alone),
        "jobs": jobs,
        "predicted_seconds": predicted,
        "without_timings": unknown,
        "exit_code": CLEAN if trials else EMPTY,
        "reason": left_out(manifest) if trials else why_empty(manifest),
    }


def _known(manifest: Manifest, path: Path, retry: Any) -> tuple[set[str], dict[str, Seconds]]:
    suite = manifest.suite
    freshness = Freshness(digest_of, manifest.exclusive, suite.timeout, suite.memory, retry)
    with Store.open(path) as store:
        current = set(store.current(manifest.trials, freshness))
        return current, store.seconds(manifest.trials)


def as_text(told: dict[str, Any]) -> str:
    """The forecast for reading."""
    if not told["planned"]:
        return f"{told['suite']}: {told['reason']}"
    first = f"{told['suite']}: {told['planned']:,} trials = {told['environments']} settings of "
    first += f"environments x {told['estimators']} estimators x {told['replicates']} replicates"
    lines = [first]
    if len(told["cells"]) != told["environments"] * told["estimators"]:
        lines.append(f"cells   {len(told['cells'])} after exclusions and devices")
    lines += [told["reason"]] if told["reason"] else []
    lines.append(f"stored  {told['stored']:,} in {told['store']}")
    alone = f", {told['alone']:,} of them alone" if told["alone"] else ""
    lines.append(f"to run  {told['to_run']:,} with {told['jobs']} jobs{alone}")
    predicted = told["predicted_seconds"]
    if predicted is None:
        lines.append("time    unknown: no timings of such trials are stored")
    else:
        rough = f", {told['without_timings']:,} trials guessed" if told["without_timings"] else ""
        lines.append(f"time    about {format_duration(predicted)} from stored timings{rough}")
    return "\n".join(lines)
