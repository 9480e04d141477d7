"""Asks `advise` and the rules that people use about logs whose answer is known.

    results/regenerate run verdicts [--limit SECONDS] [--jobs N] [--truths]
        [--shift N --output FILE]

Sizes, seeds and what is judged are those of results/verdicts/plan.md, written before the draw.
Most logs are of worlds made with NumPy alone (outside_worlds.py), the others of worlds of the
second priors; of both a third is logged by a rule or by a logger that learns, and a third has
faults. The 22 randomized trials are asked about twice, for a rule and for one arm. What was said
lies in results/verdicts/logs.json, of which `results/regenerate write` makes the page. Calls
resume, so that `--limit` draws it in parts; to draw all again, delete the file or name another
one. What is found on the page is to be mended on other worlds, which `--shift` draws.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np

from draws.outside_worlds import FAULTS, LOGGERS, OutsideLog, outside_log
from ope_bench import (
    FloatArray,
    Log,
    Problem,
    TargetPolicy,
    UnavailableError,
    advise,
    stream,
)
from ope_environments.damaged import logged_rows
from ope_environments.damaged.environment import Damaged
from ope_environments.randomized.environment import Randomized
from ope_environments.randomized.stratified_value import stratified_value

FOLDER = Path(__file__).resolve().parents[1] / "verdicts"

OUTSIDE, FIRST_OUTSIDE = 750, 1_001
"""Worlds that are made with NumPy alone, and the number of the first."""

EACH, FIRST_WORLD = 150, 80_001
"""Worlds of the priors of each sort: clean, faulty, logged by a rule or a logger that learns."""

OUTSIDE_RULED = ("bandit", "rule", "exploring rule", "rule", "estimated rule")
"""Loggers of NumPy's worlds that learn or are a rule, in turn: most rules write p = 1."""

RULED = ("rule", "thompson", "decreasing")

TRIALS = (
    *("rand", "star", "hiv", "apples", "arthritis", "colon", "eyes", "help", "indomethacin"),
    *("insurance", "jobs", "legislators", "liver", "nsw", "pbc", "periodontal", "recidivism"),
    *("respiratory", "resumes", "rhdnase", "uis", "voucher"),
)

LOGGER_FAULTS = ("confounding", "exploration", "support")
"""Faults that change the policy which logs; others change what is written of it."""

DRAWS = 400_000
"""Rewards of which the deviation of one is taken."""

UNSUPPORTED = 0.03
"""Share of the new policy that a drawn logger never plays, from which its log has a fault."""


def cases(shift: int = 0, loggers: Mapping[int, str] | None = None) -> Iterator[tuple[str, Any]]:
    """Yield every log by its kind and what draws it, of all kinds in turn.

    Parameters
    ----------
    shift : of the numbers of worlds; trials, of which there are no others, are then left out.
    loggers : kinds of the loggers of worlds that need not be drawn to know them.
    """
    outside = [("outside", FIRST_OUTSIDE + shift + number) for number in range(OUTSIDE)]
    trials = [("trial", (data, target)) for data in TRIALS for target in ("rule", "arm")]
    trials = [] if shift else trials
    drawn = [("drawn", (number, sort)) for number, sort in _worlds(FIRST_WORLD + shift, loggers)]
    waiting = [iter(outside), iter(drawn[::2]), iter(drawn[1::2]), iter(trials)]
    while waiting:
        for one in list(waiting):
            try:
                yield next(one)
            except StopIteration:
                waiting.remove(one)


def _worlds(number: int, loggers: Mapping[int, str] | None) -> Iterator[tuple[int, str]]:
    """Yield numbers of drawn worlds, from a number on, with the sort that each fills."""
    left = dict.fromkeys(("ruled", "faulty", "clean"), EACH)
    while any(left.values()):
        logger = (loggers or {}).get(number) or _logger(number)
        sorts = ("ruled",) if logger in RULED else ("faulty", "clean")
        free = [one for one in sorts if left[one]]
        if free:
            sort = max(free, key=lambda one: left[one])
            left[sort] -= 1
            yield number, sort
        number += 1


def _logger(number: int) -> str:
    nothing = cast("Any", None)
    return str(_environment(number).examine(nothing, nothing)["world_logging"])


@cache
def _drawn(number: int, faulty: bool) -> tuple[Problem, dict[str, Any]]:
    """Return a log of a drawn world, and facts.

    Raises
    ------
    UnavailableError : its faults leave no log.
    """
    environment = _environment(number, drawn=faulty)
    problem, _ = environment.sample(**_streams(number))
    return problem, dict(environment.examine(problem, cast("Any", None)))


def _environment(number: int, **faults: Any) -> Damaged:
    given = f"population[world={number},priors=2,known=policy,target_form=probabilities]"
    return Damaged(given, priors=2, **faults)


def _streams(number: int) -> dict[str, np.random.Generator]:
    names = ("world", "logged", "target")
    return {f"{name}_rng": stream("verdicts", number, name) for name in names}


def judged(kind: str, which: Any) -> dict[str, Any]:
    """Return what each tool says of one log, what is true, and the time that both took."""
    begun = time.process_time()
    found = known(kind, which) | asked(_LOGS[kind](which))
    return found | {"whole_seconds": round(time.process_time() - begun, 2)}


def known(kind: str, which: Any) -> dict[str, Any]:
    """Return what is true of one log: both policies' values, their error, the reward's deviation.

    Values are those of the world without faults, the old policy's that of the policy which logged.
    ``error`` is the standard error of their difference; 0 where both are sums over all contexts.
    """
    return _KNOWN[kind](which)


@lru_cache(maxsize=1)
def _outside_world(number: int) -> tuple[OutsideLog, str, str | None]:
    sort = ("ruled", "faulty", "clean")[number % 3]
    # Of an even logger the propensities of all actions are one.
    kinds = {"ruled": OUTSIDE_RULED, "faulty": LOGGERS[1:3], "clean": LOGGERS[:3]}[sort]
    logger = kinds[number // 3 % len(kinds)]
    fault = FAULTS[number // 3 % len(FAULTS)] if sort == "faulty" else None
    return outside_log(number, logger, fault), logger, fault


def _outside(number: int) -> Log:
    one, _, _ = _outside_world(number)
    return Log.from_frame(
        one.frame,
        target=TargetPolicy(table=one.new_policy),
        actions=range(one.new_policy.shape[1]),
        **one.given,
    )


def _known_outside(number: int) -> dict[str, Any]:
    one, logger, fault = _outside_world(number)
    return {
        "source": "outside",
        "name": f"outside {number}",
        "logger": logger,
        "faults": [fault] if fault else [],
        "signal": one.signal,
        "truth": one.truth,
        "today": one.today,
        "error": one.error,
        "deviation": one.deviation,
    }


def _of_priors(which: Any) -> Log:
    number, sort = which
    return log_of(_drawn(number, sort == "faulty")[0])


def _known_of_priors(which: Any) -> dict[str, Any]:
    number, sort = which
    environment = _environment(number, drawn=sort == "faulty")
    facts = dict(environment.examine(cast("Any", None), cast("Any", None)))
    faults = [name.removeprefix("damage_") for name in facts if name.startswith("damage_")]
    changes = {name: facts[f"damage_{name}"] for name in LOGGER_FAULTS if name in faults}
    if facts.get("world_phases") == "averaged":
        faults.append("averaged")
    if float(facts["world_unsupported"] or 0.0) > UNSUPPORTED and facts["world_logging"] != "rule":
        faults.append("support")
    return {
        "source": "priors",
        "name": f"world {number}",
        "logger": facts["world_logging"],
        "faults": faults,
        "signal": float(cast("float", facts["world_signal"])),
        **values(number, changes),
    }


def values(number: int, changes: Mapping[str, Any]) -> dict[str, float]:
    """Return truth, today, its error and the deviation of one reward, in a drawn world.

    The old policy is the one that logged: of a logger that learns the average over the phases of
    this log, of a changed logger the changed one. A hidden cause, unlike other faults, is a part
    of the world: it moves rewards, and leaves the new policy's value as it is.

    Parameters
    ----------
    number : of the world.
    changes : faults of `damaged` that change the logger, `LOGGER_FAULTS`.
    """
    rngs = _streams(number)
    problem, truth = _environment(number).sample(**rngs)
    value, world_rng, limits = float(truth.expected), rngs["world_rng"], problem.reward_range
    # The logger is that of a damaged log: both take what they change from the first log.
    makers: dict[str, Callable[[float], logged_rows.Accept]] = {
        "confounding": lambda odds: logged_rows.confounded(odds, value, world_rng),
        "exploration": lambda share: logged_rows.ruled(share, world_rng),
        "support": lambda share: logged_rows.Unsupported(share, world_rng),
    }
    rng = stream("verdicts", number, "values")
    for name, make in makers.items():
        if name in changes:
            problem, _ = make(changes[name])(problem, rng)
    population = cast("Any", _environment(number).wrapped)._drawn().population
    rows = np.arange(len(population.context))
    policy: Any = problem.logging_policy
    actions = range(policy.n_actions)
    reward = np.stack([population.reward_at(rows, np.full(len(rows), a)) for a in actions], axis=1)
    joint = population.share[:, None] * policy.table(population.context)
    today = float((joint * reward).sum())
    ends = np.cumsum(joint)
    drawn = np.searchsorted(ends, rng.random(DRAWS) * ends[-1], side="right")
    noisy = population.noise(reward.ravel()[np.minimum(drawn, joint.size - 1)], rng)
    variance, error = float(noisy.var()), 0.0
    if "confounding" in changes:
        if limits is None:
            variance *= 2.0
        else:  # half of the rewards are ends of the range, whose mean is the value
            square = float((noisy**2).mean() + value * sum(limits) - limits[0] * limits[1]) / 2
            today = (today + value) / 2
            variance = square - today**2
        if len(changes) > 1:  # rows are kept by action, and so by the cause: from a redrawn log
            log, _ = _environment(number, **changes).sample(**_streams(number))
            today = float(log.reward.mean())
            error = float(log.reward.std() / np.sqrt(len(log.reward)))
    deviation = float(np.sqrt(max(variance, 0.0)))
    return {"truth": value, "today": today, "error": error, "deviation": deviation}


@lru_cache(maxsize=1)
def _trial_log(data: Any, target: Any) -> tuple[Randomized, Problem]:
    environment = Randomized(data=data, target=target, n_samples=1_000, toward=0.5)
    names = ("world", "logged", "target")
    rngs = {f"{name}_rng": stream("verdicts", data, target, name) for name in names}
    return environment, environment.sample(**rngs)[0]


def _trial(which: Any) -> Log:
    return log_of(_trial_log(*which)[1])


def _known_trial(which: Any) -> dict[str, Any]:
    """Return what all rows of a randomized trial tell of both policies."""
    data, target = which
    environment, problem = _trial_log(data, target)
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
    return {
        "source": "trial",
        "name": f"{data}, {target}",
        "logger": "trial",
        "faults": [],
        "signal": None,
        "truth": truth,
        "today": today,
        "error": float(np.hypot(error, its_error)),
        "deviation": float(problem.reward.std()),
    }


_LOGS: dict[str, Callable[[Any], Log]] = {
    "outside": _outside,
    "drawn": _of_priors,
    "trial": _trial,
}
_KNOWN: dict[str, Callable[[Any], dict[str, Any]]] = {
    "outside": _known_outside,
    "drawn": _known_of_priors,
    "trial": _known_trial,
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


def _corrected(one: dict[str, Any]) -> dict[str, Any]:
    """Return a judged log with what is true of it computed again, and its answers as they were.

    A trial whose data are not installed stays as it is.
    """
    if "skipped" in one:
        return one
    try:
        return one | known(one["kind"], one["which"])
    except UnavailableError as exc:
        sys.stderr.write(f"{one['name']} stays as it is: {exc}\n")
        return one


def main(words: Sequence[str]) -> None:
    """Judge the logs that are not yet judged."""
    parser = argparse.ArgumentParser(
        prog="results/regenerate run verdicts", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--shift", type=int, default=0, help="of the numbers of worlds")
    parser.add_argument("--output", type=Path, default=FOLDER / "logs.json")
    parser.add_argument(
        "--truths", action="store_true", help="compute what is true again, and ask nothing"
    )
    given = parser.parse_args(words)
    path, begun = given.output, time.monotonic()
    found = json.loads(path.read_text()) if path.is_file() else []
    # A world without a log stays one; a trial may lack its data today alone.
    found = [one for one in found if "skipped" not in one or one["kind"] == "drawn"]
    path.parent.mkdir(parents=True, exist_ok=True)
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        if given.truths:
            _write(path, pool.map(_corrected, found, chunksize=1))
            return
        done = {json.dumps([one["kind"], one["which"]]) for one in found}
        drawn = [one for one in found if one["kind"] == "drawn" and "skipped" not in one]
        loggers = {one["which"][0]: one["logger"] for one in drawn}
        left = [one for one in cases(given.shift, loggers) if json.dumps(one) not in done]
        for one in pool.imap_unordered(_judged, left):
            found.append(one)
            _write(path, found)
            if time.monotonic() - begun > given.limit:
                pool.terminate()
                return


def _write(path: Path, found: list[dict[str, Any]]) -> None:
    found.sort(key=lambda each: json.dumps([each["kind"], each["which"]]))
    lines = ",\n".join(json.dumps(each) for each in found)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
