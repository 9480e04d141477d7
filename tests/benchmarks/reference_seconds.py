"""How long every trial of the shipped suites takes, for `ope-bench run --dry-run`.

    python tests/benchmarks/reference_seconds.py [--replicates 1] [--kept FILE] [SUITE...]

runs a replicate of every setting in this process, one trial after another, and writes
`bench/ope_bench/cli/running/reference_seconds.json`. What counts is processor time, divided by the
processor time of a fixed piece of work that is repeated before each data set, so that a busy
machine does little harm. Half an hour; with `--kept` an interrupted run resumes by suite. With
names of suites, all that these do not run stays in the table as it is.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

Line = dict[str, Any]

OUT = Path(__file__).parents[2] / "bench" / "ope_bench" / "cli" / "running"


def measured(suite: str, replicates: int) -> Iterator[Line]:
    """Yield the cost of sampling each data set of a suite and of each of its trials."""
    from dataclasses import replace

    from ope_bench.cli.running.reference import sizes_of
    from ope_bench.errors import UnavailableError
    from ope_bench.execution.calibration import calibration_seconds
    from ope_bench.plugins.requirements import import_all
    from ope_bench.suites.discovery import find_suite
    from ope_bench.suites.manifest import plan
    from ope_bench.suites.selector import selector_of
    from ope_bench.trials.building import build
    from ope_bench.trials.process.threads import pinned
    from ope_bench.trials.status import Status
    from ope_bench.trials.trial import run_trial
    from ope_bench.trials.workspace import Workspace

    trials = plan(replace(find_suite(suite), replicates=replicates)).trials
    for trial in trials:
        import_all((*build(trial.environment).requires, *build(trial.estimator).requires))
    workspace = Workspace()
    for _, group in groupby(trials, key=lambda trial: trial.data_key):
        members = list(group)
        calibration_seconds.cache_clear()
        unit = calibration_seconds()
        where = {
            "environment": members[0].environment.id,
            "sizes": sizes_of(members[0].environment),
        }
        with pinned(1):
            begun = time.process_time()
            try:
                workspace.data(members[0], build(members[0].environment))
            except UnavailableError as exc:  # data that nobody may pass on
                print(f"{suite}: {exc}", file=sys.stderr)
                continue
            yield where | {"sampling": (time.process_time() - begun) / unit}
            for trial in members:
                begun = time.process_time()
                record = run_trial(trial, workspace)
                own = time.process_time() - begun
                if record.status is Status.UNAVAILABLE:
                    continue
                spent = (record.fit_cpu_seconds or 0.0) + (record.estimate_seconds or 0.0)
                whole = max(own, spent)
                told = {"estimator": selector_of(trial.estimator), "status": record.status.value}
                yield where | told | {"own": own / unit, "whole": whole / unit}


def table(lines: list[Line]) -> list[dict[str, Any]]:
    """Return the mean costs by setting and estimator."""
    settings: dict[str, list[Line]] = {}
    for line in lines:
        settings.setdefault(json.dumps([line["environment"], line["sizes"]]), []).append(line)
    found = []
    for name in sorted(settings):
        group = settings[name]
        environment, sizes = json.loads(name)
        costs: dict[str, list[Line]] = {}
        for line in group:
            if "estimator" in line:
                costs.setdefault(line["estimator"], []).append(line)
        found.append(
            {
                "environment": environment,
                "sizes": sizes,
                "sampling": _mean([one["sampling"] for one in group if "sampling" in one]),
                "costs": {
                    text: [_mean([one[part] for one in many]) for part in ("own", "whole")]
                    for text, many in sorted(costs.items())
                },
            }
        )
    return found


def _mean(values: list[float]) -> float:
    return float(f"{sum(values) / len(values):.3g}")


def merged(before: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a table with the costs of another one put in or added."""
    found = {json.dumps([one["environment"], one["sizes"]]): one for one in before}
    for one in new:
        name = json.dumps([one["environment"], one["sizes"]])
        known = found.get(name, one)["costs"]
        found[name] = one | {"costs": dict(sorted({**known, **one["costs"]}.items()))}
    return [found[name] for name in sorted(found)]


def write(settings: list[dict[str, Any]], machines: list[str], path: Path) -> None:
    """Write the table, one estimator a line, so that changes can be read."""
    from ope_bench.execution.calibration import calibration_seconds
    from ope_bench.execution.machine import cpu_name

    document = {
        "schema": 1,
        "command": "python tests/benchmarks/reference_seconds.py",
        "machine": "; ".join(dict.fromkeys([*machines, cpu_name()])),
        "calibration_seconds": float(f"{calibration_seconds():.3g}"),
        "settings": settings,
    }
    text = json.dumps(document, indent=1)
    # Two numbers on one line.
    path.write_text(_pairs_on_one_line(text) + "\n", encoding="utf-8")


def _pairs_on_one_line(text: str) -> str:
    import re

    return re.sub(r"\[\s+([-\d.e+]+),\s+([-\d.e+]+)\s+\]", r"[\1, \2]", text)


def main() -> None:
    """Measure what is not kept yet, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="*")
    parser.add_argument("--replicates", type=int, default=1)
    parser.add_argument("--kept", type=Path, default=Path("reference-seconds-kept.json"))
    asked = parser.parse_args()
    from ope_bench.suites.discovery import suite_files

    kept: dict[str, list[Line]] = {}
    if asked.kept.exists():
        kept = json.loads(asked.kept.read_text(encoding="utf-8"))
    for suite in asked.suites or [one.id for one in suite_files()]:
        if suite in kept and not asked.suites:
            continue
        begun = time.monotonic()
        kept[suite] = list(measured(suite, asked.replicates))
        asked.kept.write_text(json.dumps(kept), encoding="utf-8")
        spent = time.monotonic() - begun
        print(f"{suite}: {len(kept[suite])} figures in {spent:.0f} s", file=sys.stderr)
    path = OUT / "reference_seconds.json"
    settings = table([line for lines in kept.values() for line in lines])
    machines: list[str] = []
    if asked.suites:
        before = json.loads(path.read_text(encoding="utf-8"))
        settings, machines = merged(before["settings"], settings), before["machine"].split("; ")
    write(settings, machines, path)


if __name__ == "__main__":
    main()
