"""False alarms of `ope-bench log check` on clean drawn worlds, and its power for each fault.

    python results/performance/scripts/log_check_power.py --write results/performance/log-check.md

Logs are those of `population`, the clean ones of both versions of its priors in turn, exported as
a user would have them: one row a decision with its time, units where the log names them,
propensities where the world grants them, and the target policy's probability of the logged action,
or a sample of it. A log with duplicates has the time of each decision in both of its rows. A
finding counts as an alarm where it says that the log is wrong; how many rows' worth the weights
and rewards carry, how much of the policy is hardly ever logged, that a logger is a rule, or that
all rewards are equal, is true of clean logs as well and is counted apart. Worlds in which a rule
lacks the policy's choices, or propensities are averaged over phases, are not clean. Interrupted,
it goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
from advice_verdicts import UNSUPPORTED
from sections import put, table

from ope_bench import DiscretePolicy, Estimate, Log, Problem, TargetPolicy, UnavailableError
from ope_bench.contracts.random import DataSeed
from ope_bench.logs.checks import findings_of
from ope_bench.logs.finding import Check
from ope_bench.logs.row_faults import coinciding_columns
from ope_bench.statistics.coverage import wilson
from ope_bench.suites.manifest import specs_of
from ope_bench.trials.trial import build

TRUE_OF_CLEAN_LOGS = {
    one.value
    for one in (
        *(Check.EFFECTIVE_SIZE, Check.SUPPORT, Check.REWARDED, Check.SUPPORT_SIZE),
        *(Check.EXPLORATION, Check.REWARD),
    )
}
FIRST = 51_001
"""Worlds of no suite, on which no level was set: those were 5001 to 5500, 7001 to 9000, and 11001
to 12500 of the first priors, 30001 to 31060 of the second."""

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
    "near copies: 10 %": "jitter=0.1",
    "retention: 1 of 10": "retention=0.1",
    "confounding: odds 2": "confounding=2",
    "delay: last 10 %": "delay=0.1",
    "late rewards: 5 % of the log": "late=0.05",
    "a rule": "exploration=0",
    "a rule with 2 % exploration": "exploration=0.02",
    "propensities averaged over phases": "logging=thompson,phases=averaged,priors=2",
}

OF_SUPPORT = {name for name in FAULTS if "support" in name or "rule" in name}
"""Faults of support, which the model of the logged action sees by the whole policy."""

LIMITS = (
    "No log shows a hidden cause: it stays near the rate of false alarms. Users that nobody names "
    "are found where two columns of numbers come again together, which the rows of a user above "
    "do not: see below. Many wrong propensities, actions without support and rows dropped by "
    "their reward are not found either. Ask whoever writes the log."
)


def exported(problem: Problem, *, times: bool, copies: bool, whole: bool) -> Log:
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
    elif whole and isinstance(problem.target_policy, DiscretePolicy):
        target = TargetPolicy(table=problem.target_policy.table(problem.context))
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


def found(
    environment: str, *, times: bool = True, copies: bool = False, whole: bool = False
) -> list[str] | None:
    """Return the names of the checks that failed, without that of the policy; None: no log.

    Parameters
    ----------
    whole : the log has all of the new policy's probabilities.
    """
    (spec,) = specs_of("environment", environment)
    seed = DataSeed(spec.id, 1, 0)
    built = build(spec)
    try:
        problem, _ = built.sample(
            world_rng=seed.world(), logged_rng=seed.logged(), target_rng=seed.target()
        )
    except UnavailableError:
        return None
    facts = built.examine(problem, Estimate(0.0))
    lacking = float(facts.get("world_unsupported") or 0.0) > UNSUPPORTED
    if spec.id == "population" and (lacking or facts.get("world_phases") == "averaged"):
        return None
    log = exported(problem, times=times, copies=copies, whole=whole)
    return sorted({one.check.value for one in findings_of(log) if one.passed is False})


def users_log(number: int, rows: int, *, drawn: bool) -> Log:
    """Return a log of users with so many rows each, whom nobody names: one with 1.

    A user has an age, a place and what was spent so far; of the moment are hour and basket.

    Parameters
    ----------
    number : of the log, from which its numbers are drawn.
    rows : of a user; with `drawn` on average, each row being of a user drawn at random.
    """
    rng = np.random.default_rng([FIRST, number])
    n = int(10 ** rng.uniform(3, 4.3))
    user = np.arange(n) // rows
    if drawn:
        user = rng.integers(max(n // rows, 2), size=n)
    many = int(user.max()) + 1
    own = {
        "age": rng.integers(18, 80, many),
        "place": rng.integers(5, size=many),
        "spent": rng.lognormal(3.0, 1.0, many).round(2),
        "visits": rng.geometric(0.1, many),
    }
    frame: dict[str, Any] = {name: values[user] for name, values in own.items()}
    frame |= {"hour": rng.integers(24, size=n), "basket": rng.lognormal(2.0, 1.0, n).round(1)}
    alike = rng.normal(size=many)[user]
    chance = 0.2 + 0.6 / (1 + np.exp(-frame["hour"] / 6 + 2))
    action = (rng.random(n) < chance).astype(int)
    likes = 1 / (1 + np.exp(2.0 - alike - 0.5 * action))
    frame |= {"a": action, "p": np.where(action == 1, chance, 1 - chance)}
    frame |= {"r": (rng.random(n) < likes).astype(int)}
    return Log.from_frame(
        frame, context=[*own, "hour", "basket"], categorical=["place"], action="a", reward="r",
        propensity="p", target=TargetPolicy(table=np.full((n, 2), 0.5)),
    )  # fmt: skip


def users_section(logs: int) -> str:
    """Return how often users are found whom nobody names, by how their rows are drawn."""
    kinds = {"one row each": (1, False)}
    for rows in (2, 5, 10):
        kinds[f"{rows} rows each"] = rows, False
        kinds[f"{rows} rows on average, users drawn at random"] = rows, True
    lines = []
    for at, (name, (rows, drawn)) in enumerate(kinds.items()):
        of = 3 * logs if rows == 1 else logs
        found = [
            next(coinciding_columns(users_log(1000 * at + one, rows, drawn=drawn)))
            for one in range(of)
        ]
        lines.append([name, str(of), share(sum(not one.passed for one in found), of)])
    return (
        "Logs of 1,000 to 20,000 rows whose users have an age, a place, a sum spent and a number "
        "of visits, beside what is of the moment. Where no user comes again a finding is a false "
        "alarm; those in clean drawn worlds, many of which draw contexts from a pool, stand "
        f"above.\n\n{table(['users', 'logs', 'found'], lines)}"
    )


def counted(
    logs: Sequence[list[str] | None], wanted: Set[str] = frozenset()
) -> tuple[int, int, Counter[str]]:
    """Return the numbers of logs and of logs with an alarm, and how many each check has.

    Parameters
    ----------
    wanted : names that are alarms though they are true of clean logs.
    """
    known = [set(one) for one in logs if one is not None]
    by_check = Counter(name for one in known for name in one)
    silent = TRUE_OF_CLEAN_LOGS - wanted
    return len(known), sum(bool(one - silent) for one in known), by_check


def share(count: int, of: int) -> str:
    """Return a share in percent with Wilson's interval."""
    one = wilson(count, of)
    return f"{one.value:.1%} ({one.low:.1%} to {one.high:.1%})"


def main() -> int:
    """Read the arguments, count, and print or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=Path, metavar="PAGE.md")
    parser.add_argument("--clean", type=int, default=500, help="clean worlds")
    parser.add_argument("--faulty", type=int, default=25, help="worlds of each fault")
    parser.add_argument("--seconds", type=float, default=600.0, help="of the processor, at most")
    parser.add_argument("--store", type=Path, default=Path("log-check.jsonl"))
    parser.add_argument("--users", type=int, help="logs of users, counted alone")
    given = parser.parse_args()
    if given.users:
        text = users_section(given.users)
        if given.write:
            put(given.write, "What `log check` finds", "Users without a unit", text)
        else:
            sys.stdout.write(f"{text}\n")
        return 0
    tasks, step = [], given.clean // given.faulty
    # Some of each kind in turn, so that what is done when it is interrupted has all of them.
    for k in range(given.faulty):
        numbers = range(FIRST + k * step, FIRST + (k + 1) * step)
        tasks += [("clean", f"population[world={one},priors={1 + one % 2}]") for one in numbers]
        for name, dials in FAULTS.items():
            world = f"world={FIRST + k},known="
            plain = f"population[{world}propensity,{dials}]"
            damaged = f'damaged[environment="population[{world}policy]",known=propensity,{dials}]'
            tasks.append((name, plain if "phases" in dials else damaged))
    done: dict[str, list[str] | None] = {}
    if given.store.is_file():
        done = dict(map(json.loads, given.store.read_text(encoding="utf-8").splitlines()))
    with given.store.open("a", encoding="utf-8") as store:
        for name, environment in tasks:
            key = f"{name}: {environment}"
            if key not in done and time.process_time() < given.seconds:
                done[key] = found(
                    environment,
                    times="no times" not in name,
                    copies="duplicates" in name,
                    whole=name in OF_SUPPORT,
                )
                store.write(json.dumps([key, done[key]]) + "\n")
                store.flush()
    kinds: dict[str, list[list[str] | None]] = {name: [] for name in ("clean", *FAULTS)}
    for name, environment in tasks:
        if (key := f"{name}: {environment}") in done:
            kinds[name].append(done[key])
    logs, alarmed, by_check = counted(kinds.pop("clean"))
    told = {"clean": {"logs": logs, "alarmed": alarmed, "checks": dict(by_check)}, "faults": {}}
    rows = []
    for name, those in kinds.items():
        n, hit, checks = counted(
            those, {"unsupported mass", "exploration"} if name in OF_SUPPORT else set()
        )
        if not n:
            continue
        told["faults"][name] = {"logs": n, "found": hit, "checks": dict(checks)}
        most = [
            f"{check} {count / n:.0%}"
            for check, count in checks.most_common()
            if count / n >= 0.05
        ]
        rows.append([name, str(n), share(hit, n), ", ".join(most) or "-"])
    of_each = ", ".join(
        f"{check} {count}"
        for check, count in by_check.most_common()
        if check not in TRUE_OF_CLEAN_LOGS
    )
    about = ", ".join(f"{check} {by_check[check]}" for check in sorted(TRUE_OF_CLEAN_LOGS))
    text = (
        f"**{share(alarmed, logs)}** of {logs:,} clean drawn worlds (from {FIRST} on, "
        f"which no level of a check was set on) have a false alarm, of "
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
