"""Asks `advise` and the rules that people use about logs whose answer is known.

    python results/verdicts.py [--limit SECONDS] [--jobs N] [--shift N --output FILE]

A third of the logs is of worlds made with NumPy alone (outside_worlds.py), two thirds of worlds of
the second priors from number 60,001 on, which chose nothing; of both a third is logged by a rule
or by a logger that learns, and a third has faults. The 22 randomized trials are asked about twice,
for a rule and for one arm. What was said lies in results/verdicts/logs.json, of which
`results/write.py` makes the page. Calls resume. What is found on the page is mended on other
worlds, which `--shift` draws.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
from outside_worlds import FAULTS, LOGGERS, outside_log

from ope_bench import (
    FloatArray,
    Log,
    Problem,
    TargetPolicy,
    UnavailableError,
    advise,
    stream,
)
from ope_environments.damaged.environment import Damaged
from ope_environments.randomized.environment import Randomized
from ope_environments.randomized.stratified_value import stratified_value

FOLDER = Path(__file__).resolve().parent / "verdicts"

OUTSIDE = 102
"""Worlds that are made with NumPy alone."""

EACH = 68
"""Worlds of the priors of each sort: clean, faulty, logged by a rule or a logger that learns."""

FIRST_WORLD = 60_001
RULED = ("rule", "thompson", "decreasing")

TRIALS = (
    *("rand", "star", "hiv", "apples", "arthritis", "colon", "eyes", "help", "indomethacin"),
    *("insurance", "jobs", "legislators", "liver", "nsw", "pbc", "periodontal", "recidivism"),
    *("respiratory", "resumes", "rhdnase", "uis", "voucher"),
)

UNSUPPORTED = 0.03
"""Share of the new policy that a drawn logger never plays, from which its log has a fault."""


def cases(shift: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield every log by its kind and what draws it, of all kinds in turn.

    Parameters
    ----------
    shift : of the numbers of worlds; trials, of which there are no others, are then left out.
    """
    outside = [("outside", shift + number) for number in range(1, OUTSIDE + 1)]
    trials = [("trial", (data, target)) for data in TRIALS for target in ("rule", "arm")]
    trials = [] if shift else trials
    drawn = [("drawn", (number, sort)) for number, sort in _worlds(FIRST_WORLD + shift)]
    waiting = [iter(outside), iter(drawn[::2]), iter(drawn[1::2]), iter(trials)]
    while waiting:
        for one in list(waiting):
            try:
                yield next(one)
            except StopIteration:
                waiting.remove(one)


def _worlds(number: int) -> Iterator[tuple[int, str]]:
    """Yield numbers of drawn worlds, from a number on, with the sort that each fills."""
    left = dict.fromkeys(("ruled", "faulty", "clean"), EACH)
    while any(left.values()):
        logger = str(_drawn(number, faulty=False)[2]["world_logging"])
        sorts = ("ruled",) if logger in RULED else ("faulty", "clean")
        free = [one for one in sorts if left[one]]
        if free:
            sort = max(free, key=lambda one: left[one])
            left[sort] -= 1
            yield number, sort
        number += 1


@cache
def _drawn(number: int, faulty: bool) -> tuple[Problem, float, dict[str, Any]]:
    """Return a log of a drawn world, the new policy's value and facts.

    Raises
    ------
    UnavailableError : its faults leave no log.
    """
    given = f"population[world={number},priors=2,known=policy,target_form=probabilities]"
    environment = Damaged(given, drawn=faulty, priors=2)
    names = ("world", "logged", "target")
    rngs = {f"{name}_rng": stream("verdicts", number, name) for name in names}
    problem, truth = environment.sample(**rngs)
    return problem, float(truth.expected), dict(environment.examine(problem, cast("Any", None)))


def judged(kind: str, which: Any) -> dict[str, Any]:
    """Return what each tool says of one log, and what is true."""
    if kind == "outside":
        log, found = _outside(which)
    elif kind == "trial":
        log, found = _trial(*which)
    else:
        log, found = _of_priors(*which)
    return found | asked(log)


def _outside(number: int) -> tuple[Log, dict[str, Any]]:
    sort = ("ruled", "faulty", "clean")[number % 3]
    # Of an even logger the propensities of all actions are one.
    kinds = {"ruled": LOGGERS[3:], "faulty": LOGGERS[1:3], "clean": LOGGERS[:3]}[sort]
    logger = kinds[number // 3 % len(kinds)]
    fault = FAULTS[number // 3 % len(FAULTS)] if sort == "faulty" else None
    one = outside_log(number, logger, fault)
    log = Log.from_frame(
        one.frame,
        target=TargetPolicy(table=one.new_policy),
        actions=range(one.new_policy.shape[1]),
        **one.given,
    )
    return log, {
        "source": "outside",
        "name": f"outside {number}",
        "logger": logger,
        "faults": [fault] if fault else [],
        "signal": one.signal,
        "truth": one.truth,
        "today": one.today,
        "error": 0.0,
    }


def _of_priors(number: int, sort: str) -> tuple[Log, dict[str, Any]]:
    problem, truth, facts = _drawn(number, sort == "faulty")
    faults = [name.removeprefix("damage_") for name in facts if name.startswith("damage_")]
    faults = [name for name in faults if name != "removed"]
    if facts.get("world_phases") == "averaged":
        faults.append("averaged")
    if float(facts["world_unsupported"] or 0.0) > UNSUPPORTED and facts["world_logging"] != "rule":
        faults.append("support")
    today = float(facts["world_mean_reward"])
    if {"support", "exploration"} & set(faults):
        today = float(problem.reward.mean())  # the logger is another one
    return log_of(problem), {
        "source": "priors",
        "name": f"world {number}",
        "logger": facts["world_logging"],
        "faults": faults,
        "signal": float(facts["world_signal"]),
        "truth": truth,
        "today": today,
        "error": 0.0,
    }


def _trial(data: Any, target: Any) -> tuple[Log, dict[str, Any]]:
    """Return a log of a randomized trial, and what all of its rows tell of both policies."""
    environment = Randomized(data=data, target=target, n_samples=1_000, toward=0.5)
    names = ("world", "logged", "target")
    rngs = {f"{name}_rng": stream("verdicts", data, target, name) for name in names}
    problem, _ = environment.sample(**rngs)
    world = environment.world(stream("verdicts", data, target, "world"))
    trial, rows = world.trial, world.rows
    arm, stratum = trial.arm[rows], trial.stratum[rows]
    (truth, error), (today, its_error) = (
        stratified_value(
            one.probability(world.context, arm) / trial.share[stratum, arm],
            trial.outcome[rows],
            stratum,
            trial.unit[rows],
        )
        for one in (world.target, world.logging)
    )
    return log_of(problem), {
        "source": "trial",
        "name": f"{data}, {target}",
        "logger": "trial",
        "faults": [],
        "signal": None,
        "truth": truth,
        "today": today,
        "error": float(np.hypot(error, its_error)),
    }


def log_of(problem: Problem) -> Log:
    """Return a problem as a user has it: columns, propensities, the new policy's probabilities."""
    n = len(problem.reward)
    names = [f"x{j}" for j in range(problem.context.shape[1])]
    frame: dict[str, Any] = {name: problem.context[:, j] for j, name in enumerate(names)}
    frame |= {"action": problem.action, "reward": problem.reward, "time": np.arange(n)}
    schema: Any = problem.schema
    kinds = zip(names, schema.context, strict=True)
    given: dict[str, Any] = {
        "categorical": [name for name, column in kinds if column.kind == "categorical"],
        "propensity": None if problem.propensity is None else "propensity",
    }
    if problem.propensity is not None:
        frame["propensity"] = problem.propensity
    # Rows that are the same draw twice are no named user.
    if problem.unit is not None and len(np.unique(problem.unit)) < 0.75 * n:
        frame["user"] = problem.unit
        given["unit"] = "user"
    policy: Any = problem.target_policy
    return Log.from_frame(
        frame,
        context=names,
        action="action",
        reward="reward",
        time="time",
        target=TargetPolicy(table=policy.table(problem.context)),
        actions=range(problem.n_actions or 0),
        **given,
    )


def asked(log: Log) -> dict[str, Any]:
    """Return what `advise` says of a log, and what the other tools look at."""
    begun = time.process_time()
    advice: Any = advise(log)
    seconds = time.process_time() - begun
    chosen, weights = advice.recommended, log.weights(advice.target)
    begun = time.process_time()
    plain = None if weights is None else self_normalized(weights, log.reward)
    return {
        "rows": log.n,
        "deviation": float(log.reward.std()),
        "average": float(log.reward.mean()),
        "size": None if weights is None else float(weights.sum() ** 2 / (weights**2).sum()),
        "ipws": plain,
        "ipws_seconds": round(time.process_time() - begun, 2),
        "better": advice.better,
        "verdict": advice.verdict,
        "reasons": [one.check.value for one in advice.checks if one.passed is False],
        "lift": None if chosen is None else [chosen.lift, chosen.lift_low, chosen.lift_high],
        "seconds": round(seconds, 2),
    }


def self_normalized(weight: FloatArray, reward: FloatArray) -> list[float] | None:
    """Return sum_i w_i r_i / sum_i w_i with its 95 % interval, as any library has it.

    Parameters
    ----------
    weight, reward : (n,).
    """
    total = float(weight.sum())
    if total <= 0:
        return None
    value = float(weight @ reward) / total
    half = 1.96 * float(np.sqrt((weight**2 * (reward - value) ** 2).sum())) / total
    return [value, value - half, value + half]


def _judged(case: tuple[str, Any]) -> dict[str, Any]:
    kind, which = case
    name = {"kind": kind, "which": which}
    try:
        return name | judged(kind, which)
    except UnavailableError as exc:
        return name | {"skipped": str(exc)}


def main() -> None:
    """Judge the logs that are not yet judged."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--shift", type=int, default=0, help="of the numbers of worlds")
    parser.add_argument("--output", type=Path, default=FOLDER / "logs.json")
    given = parser.parse_args()
    path, begun = given.output, time.monotonic()
    found = json.loads(path.read_text()) if path.is_file() else []
    done = {json.dumps([one["kind"], one["which"]]) for one in found}
    left = [one for one in cases(given.shift) if json.dumps(one) not in done]
    path.parent.mkdir(exist_ok=True)
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        for one in pool.imap_unordered(_judged, left):
            found.append(one)
            found.sort(key=lambda each: json.dumps([each["kind"], each["which"]]))
            lines = ",\n".join(json.dumps(each) for each in found)
            path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
            if time.monotonic() - begun > given.limit:
                pool.terminate()
                return


if __name__ == "__main__":
    main()
