"""False alarms of `ope-bench log check` on clean drawn worlds, and its power for each fault.

    python tests/benchmarks/log_check_power.py --write results/performance/log-check.md

Logs are those of `population`, exported as a user would have them: one row a decision with its
time, units where the log names them, propensities where the world grants them, and the target
policy's probability of the logged action, or a sample of it. A log with duplicates has the time
of each decision in both of its rows. A finding counts as an alarm where it says that the log is
wrong; that weights carry few rows' worth, or that much of the policy is on actions never logged,
is true of clean logs as well and is counted apart.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sections import put, table

from ope_bench import Log, Problem, TargetPolicy, UnavailableError
from ope_bench.contracts.random import DataSeed
from ope_bench.logs.checks import findings_of
from ope_bench.statistics.coverage import wilson
from ope_bench.suites.manifest import specs_of
from ope_bench.trials.trial import build

TRUE_OF_CLEAN_LOGS = ("effective sample size", "unsupported mass")
FIRST = 11_001
"""Worlds of no suite, on which no level was set: those were 5001 to 5500 and 7001 to 9000."""

FAULTS = {
    "propensity: items": "propensity=items",
    "propensity: rounded": "propensity=rounded",
    "propensity: clipped": "propensity=clipped",
    "propensity: stale": "propensity=stale",
    "propensity: temperature": "propensity=temperature",
    "propensity: constant": "propensity=constant",
    "propensity: monte-carlo": "propensity=monte-carlo,strength=256",
    "support: 10 % of the target": "support=0.1",
    "support: 30 % of the target": "support=0.3",
    "drift: half a deviation": "drift=0.5",
    "users: five rows, named": "users=5,named=true",
    "users: five rows, not named": "users=5",
    "duplicates: 10 %": "duplicates=0.1",
    "duplicates: 10 %, no times": "duplicates=0.1",
    "retention: 1 of 10": "retention=0.1",
    "confounding: odds 2": "confounding=2",
    "delay: last 10 %": "delay=0.1",
}

LIMITS = (
    "No log shows a hidden cause, or users whom it does not name: these stay near the rate of "
    "false alarms. Many wrong propensities, actions without support and rows dropped by their "
    "reward are not found either. Ask whoever writes the log."
)


def exported(problem: Problem, *, times: bool, copies: bool) -> Log:
    """Return a problem as a user's log."""
    n = len(problem.reward)
    rows: dict[str, Any] = {
        f"x{j}": problem.context[:, j] for j in range(problem.context.shape[1])
    }
    rows |= {"a": problem.action.astype(int), "r": problem.reward}
    names: dict[str, str] = {}
    if problem.propensity is not None:
        rows["p"], names["propensity"] = problem.propensity, "p"
    if problem.unit is not None and len(np.unique(problem.unit)) < n:
        rows["u"], names["unit"] = problem.unit, "u"
    if times:
        parts = np.column_stack([problem.context, problem.action, problem.reward])
        new = np.append(True, (parts[1:] != parts[:-1]).any(axis=1)) if copies else np.ones(n)
        rows["t"], names["time"] = np.cumsum(new), "t"
    if problem.target_policy is None:
        target = TargetPolicy(action=problem.target_action[:n].astype(int))
    else:
        action = problem.action.astype(int)
        target = TargetPolicy(
            probability=problem.target_policy.probability(problem.context, action)
        )
    return Log.from_frame(
        rows,
        context=[name for name in rows if name.startswith("x")],
        categorical=[
            f"x{j}" for j, one in enumerate(problem.schema.context) if one.kind == "categorical"
        ],
        action="a",
        reward="r",
        actions=range(problem.n_actions),
        target=target,
        **names,
    )


def found(environment: str, *, times: bool = True, copies: bool = False) -> set[str] | None:
    """Return the names of the checks that failed, without that of the policy; None: no log."""
    (spec,) = specs_of("environment", environment)
    seed = DataSeed(spec.id, 1, 0)
    try:
        problem, _ = build(spec).sample(
            world_rng=seed.world(), logged_rng=seed.logged(), target_rng=seed.target()
        )
    except UnavailableError:
        return None
    log = exported(problem, times=times, copies=copies)
    failed = (replace(one, policy=None) for one in findings_of(log) if one.passed is False)
    return {one.name for one in failed}


def counted(
    environments: Sequence[str], *, times: bool = True, copies: bool = False
) -> tuple[int, int, Counter[str]]:
    """Return the numbers of logs and of logs with an alarm, and how many each check has."""
    logs = alarmed = 0
    by_check: Counter[str] = Counter()
    for environment in environments:
        names = found(environment, times=times, copies=copies)
        if names is None:
            continue
        logs += 1
        by_check.update(names)
        alarmed += bool(names - set(TRUE_OF_CLEAN_LOGS))
    return logs, alarmed, by_check


def share(count: int, of: int) -> str:
    """Return a share in percent with Wilson's interval."""
    one = wilson(count, of)
    return f"{one.value:.1%} ({one.low:.1%} to {one.high:.1%})"


def main() -> int:
    """Read the arguments, count, and print or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=Path, metavar="PAGE.md")
    parser.add_argument("--clean", type=int, default=1_500, help="clean worlds")
    parser.add_argument("--faulty", type=int, default=60, help="worlds of each fault")
    given = parser.parse_args()
    clean = [f"population[world={FIRST + k}]" for k in range(given.clean)]
    logs, alarmed, by_check = counted(clean)
    told = {"clean": {"logs": logs, "alarmed": alarmed, "checks": dict(by_check)}, "faults": {}}
    rows = []
    for name, dials in FAULTS.items():
        copies = "duplicates" in name
        worlds = [
            f'damaged[environment="population[world={FIRST + k},known=policy]",known=propensity,'
            f"{dials}]"
            for k in range(given.faulty)
        ]
        n, hit, checks = counted(worlds, times="no times" not in name, copies=copies)
        told["faults"][name] = {"logs": n, "found": hit, "checks": dict(checks)}
        most = [
            f"{check} {count / n:.0%}"
            for check, count in checks.most_common()
            if check not in TRUE_OF_CLEAN_LOGS and count / n >= 0.05
        ]
        rows.append([name, str(n), share(hit, n), ", ".join(most) or "-"])
        sys.stderr.write(f"{name}: {hit} of {n}\n")
    of_each = ", ".join(
        f"{check} {count}"
        for check, count in by_check.most_common()
        if check not in TRUE_OF_CLEAN_LOGS
    )
    about = ", ".join(f"{check} {by_check[check]}" for check in TRUE_OF_CLEAN_LOGS)
    text = (
        f"**{share(alarmed, logs)}** of {logs:,} clean drawn worlds ({FIRST} to "
        f"{FIRST + given.clean - 1}, which no level of a check was set on) have a false alarm, of "
        f"all checks together: {of_each or 'none'}. Beside that the checks say what is true of "
        f"them: {about}."
        f"\n\nHow often a fault is found, by any check, in logs of drawn worlds with propensities:"
        f"\n\n{table(['fault', 'logs', 'found', 'by'], rows)}\n\n{LIMITS}"
    )
    if given.write:
        put(given.write, "What `log check` finds", "False alarms and power", text)
        path = given.write.with_suffix(".json")
        path.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    else:
        sys.stdout.write(f"{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
