"""How wide an interval is on a log of the proposed logging policy, beside what `advise` predicted.

    python results/performance/scripts/next_log.py --worlds 601 630 \\
        --output results/advice/next_log.json

On drawn worlds of no suite whose policies are known. Each log is given to `next_log` with the
recommended estimator, as `advise` does; then logs of as many rows are drawn
under the proposed policy, and `ipw` is run on them. Interrupted, it goes on where it was.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from advice_verdicts import log_of

from ope_bench import UnavailableError, estimate, stream
from ope_bench.logs.estimation import resolve_one
from ope_bench.logs.next_log import next_log
from ope_bench.logs.recommendation import recommendation_for
from ope_environments.drawn_worlds.environment import DrawnWorlds

LOGS = 40


def judged(number: int) -> dict[str, Any]:
    """Return the predicted width and the mean width of logs that were drawn."""
    world = DrawnWorlds(world=number, known="policy", target_form="probabilities")
    rngs = {f"{n}_rng": stream("next", number, n) for n in ("world", "logged", "target")}
    try:
        problem, _ = world.sample(**rngs)
    except UnavailableError as exc:
        return {"world": number, "skipped": str(exc)}
    log = log_of(problem)
    center = recommendation_for(log, "target").center
    value = estimate(log, center).targets[0].rows[0].value
    found = None if value is None else next_log(log, "target", resolve_one(center), value)
    if found is None:
        return {"world": number, "skipped": "no proposal"}
    population, rng = world._drawn().population, stream("next logs", number)
    target = population.target.table(population.context)
    # The log does not hold the logging policy; the proposal mixes with its shares of actions.
    share = np.bincount(problem.action, minlength=target.shape[1]) / log.n
    factor = np.zeros(target.shape[1])
    for action, one in found.factors.items():
        factor[int(float(action))] = one
    new = target * factor
    new /= new.sum(axis=1, keepdims=True)
    mixed = (1 - found.share) * new + found.share * share
    widths = []
    for _ in range(LOGS):
        row = rng.integers(len(target), size=log.n)
        total = mixed[row].cumsum(axis=1)
        action = (rng.random((log.n, 1)) * total[:, -1:] > total).sum(axis=1)
        reward = population.noise(population.reward_at(row, action), rng)
        terms = target[row, action] / mixed[row, action] * reward
        widths.append(2 * 1.96 * terms.std(ddof=1) / np.sqrt(log.n))
    width = float(np.mean(widths))
    return {
        "world": number,
        "rows": log.n,
        "actions": target.shape[1],
        "predicted": found.width,
        "width": width,
        "ratio": found.width / width,
    }


def main() -> None:
    """Judge the worlds of a range."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, nargs=2, required=True)
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    found = {}
    if given.output.is_file():
        found = {one["world"]: one for one in json.loads(given.output.read_text())}
    for number in range(given.worlds[0], given.worlds[1] + 1):
        if number not in found:
            found[number] = judged(number)
            lines = ",\n".join(json.dumps(found[one]) for one in sorted(found))
            given.output.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
