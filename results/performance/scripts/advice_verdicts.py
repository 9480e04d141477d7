"""What `advise` and `log check` say of logs of drawn worlds, whose values are known.

    python results/performance/scripts/advice_verdicts.py --worlds 44001 44240 \\
        --output results/advice/verdicts.json

Of each 120 worlds the first 60 are clean, the others have one to three drawn faults, all by
version 2 of the priors; none of them chose an estimator, a constant or a threshold. Each log is
given as a user would: columns, the logged propensity where the world's logs have it, the new
policy's probabilities, users and the order of time where the log has them. Of every other clean
log with propensities and a known new policy the same is judged with estimated propensities too.
Interrupted, it goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from ope_bench import DiscretePolicy, Log, Problem, TargetPolicy, UnavailableError, advise, stream
from ope_environments.damaged.environment import Damaged

BLOCK = 60
"""Worlds of one kind that follow each other: clean, faulty, clean, and so on."""

UNSUPPORTED = 0.03
"""Share of the new policy that a logger never plays, from which its log is no clean one."""


def world_of(number: int, faulty: bool) -> Damaged:
    """Return the environment of a world, damaged or not."""
    known = ",known=policy" if faulty else ""
    return Damaged(f"population[world={number},priors=2{known}]", drawn=faulty, priors=2)


def log_of(problem: Problem, *, estimated: bool = False) -> Log:
    """Return a problem as a log; its propensities are to be estimated where that is asked."""
    n = len(problem.reward)
    names = [f"x{j}" for j in range(problem.context.shape[1])]
    frame: dict[str, Any] = {name: problem.context[:, j] for j, name in enumerate(names)}
    frame |= {"action": problem.action, "reward": problem.reward, "time": np.arange(n)}
    kinds = zip(names, problem.schema.context, strict=True)
    given: dict[str, Any] = {
        "categorical": [name for name, column in kinds if column.kind == "categorical"]
    }
    if estimated:
        given["propensity"] = "estimated"
    elif problem.propensity is not None:
        frame["propensity"] = problem.propensity
        given["propensity"] = "propensity"
    # Rows that are the same draw twice are no named user.
    if problem.unit is not None and len(np.unique(problem.unit)) < 0.75 * n:
        frame["user"] = problem.unit
        given["unit"] = "user"
    if isinstance(problem.target_policy, DiscretePolicy):
        table = problem.target_policy.table(problem.context)
        sparse = np.nonzero(table > 0)
        columns = {"row": sparse[0], "action": sparse[1], "probability": table[sparse]}
        target = TargetPolicy(table=columns)
    else:
        target = TargetPolicy(sampled=problem.target_action[:n])
    return Log.from_frame(
        frame,
        context=names,
        action="action",
        reward="reward",
        time="time",
        target=target,
        **given,
    )


def judged(number: int, faulty: bool) -> dict[str, Any]:
    """Return what is said of one log, and the truth."""
    environment = world_of(number, faulty)
    rngs = {
        f"{name}_rng": stream("advice", number, name) for name in ("world", "logged", "target")
    }
    try:
        problem, truth = environment.sample(**rngs)
    except UnavailableError as exc:
        return {"world": number, "skipped": str(exc)}
    facts = environment.examine(problem, None)
    if problem.target_policy is None and not problem.shared_contexts:
        # The policy's own choices are needed in the log's contexts.
        return {"world": number, "skipped": "a target sample of other rows"}
    if problem.row_weight is not None:
        return {"world": number, "skipped": "row weights"}
    faults = [name.removeprefix("damage_") for name in facts if name.startswith("damage_")]
    faults = [name for name in faults if name != "removed"]
    # Two faults of drawn loggers that no dial made.
    if float(facts["world_unsupported"] or 0.0) > UNSUPPORTED:
        faults.append("rule")
    if facts.get("world_phases") == "averaged" and problem.propensity is not None:
        faults.append("averaged")
    today = float(facts["world_mean_reward"] or 0.0)
    if {"support", "exploration"} & set(faults):
        today = float(problem.reward.mean())  # the logger is another one
    place = {
        "world": number,
        "faults": faults,
        "logger": facts["world_logging"],
        "truth": truth.expected,
        "today": today,
        # What the policies' true probabilities leave, whatever the log happens to show.
        "sample": _plain(float(facts["world_ess_fraction"] or 0.0) * len(problem.reward)),
    }
    found = place | _said(log_of(problem), problem)
    again = number % 2 == 0 and not faults and found["known"]
    if again and isinstance(problem.target_policy, DiscretePolicy):
        found["estimated"] = _said(log_of(problem, estimated=True), problem)
    return found


def _said(log: Log, problem: Problem) -> dict[str, Any]:
    """Return what `advise` says of a log."""
    begun = time.process_time()
    advice = advise(log)
    seconds = time.process_time() - begun
    chosen, weights = advice.recommended, log.weights(advice.target)
    values, counts = np.unique(problem.reward, return_counts=True)
    return {
        "known": log.propensity is not None,
        "seconds": round(seconds, 2),
        "n": log.n,
        # Of two values of the reward the rows that have the rarer one.
        "rarer": int(counts.min()) if len(values) == 2 else None,
        "mean_weight": None if weights is None else _plain(float(weights.mean())),
        "verdict": advice.verdict,
        "better": advice.better,
        "interval": None if chosen is None else chosen.interval,
        **{
            name: None if chosen is None else getattr(chosen, name)
            for name in ("value", "low", "high", "lift", "lift_low", "lift_high")
        },
        "checks": {
            one.check.value: [None if one.value is None else _plain(one.value), one.passed]
            for one in advice.checks
        },
        "decisive": [one.check.value for one in advice.checks if one.decisive],
        "rows": {row.label: [row.value, row.low, row.high] for row in advice.rows},
    }


def _plain(value: float) -> float | None:
    return float(f"{value:.9g}") if math.isfinite(value) else None


def _place(number: int) -> tuple[int, int, int]:
    """Return where a world stands in the order; the last number is 1 for faulty ones."""
    block, at = divmod(number, 2 * BLOCK)
    return block, at % BLOCK, at // BLOCK


def main() -> None:
    """Judge the worlds of a range."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, nargs=2, required=True)
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    first, last = given.worlds
    found = {}
    if given.output.is_file():
        found = {one["world"]: one for one in json.loads(given.output.read_text())}
    # Clean and faulty logs in turn, so that what is done when it is interrupted has both.
    order = sorted(range(first, last + 1), key=lambda one: _place(one - first))
    for number in order:
        if number not in found:
            found[number] = judged(number, faulty=_place(number - first)[2] > 0)
            lines = ",\n".join(json.dumps(found[one]) for one in sorted(found))
            given.output.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
