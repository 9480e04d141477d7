"""How often `shortlist` drops the best policy, and how often the winner's interval holds.

    python tests/benchmarks/shortlist_errors.py --logs 12 --policies 5 \\
        --worlds 603 604 611 612 614 616 618 622 --output results/advice/shortlist.json

On logs of drawn worlds of no suite with 2,000 rows and known policies. The policies are the
logging policy's probabilities times exp(normal) of each action, mixed with a tenth of it; their
values are exact. Writes a line of JSON for each world and number of policies: counts of logs, and
the median number of policies that are left. Interrupted, it goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from ope_bench import Log, TargetPolicy, shortlist, stream
from ope_bench.contracts.arrays import FloatArray
from ope_environments.drawn_worlds.environment import DrawnWorlds

ROWS = 2000


def policies_of(logging: FloatArray, count: int, rng: np.random.Generator) -> list[FloatArray]:
    """Return tables of policies near the logging policy: each (n_contexts, n_actions)."""
    found = []
    for _ in range(count):
        tilted = logging * np.exp(rng.standard_normal(logging.shape[1]))
        tilted /= tilted.sum(axis=1, keepdims=True)
        found.append(0.9 * tilted + 0.1 * logging)
    return found


def judged(number: int, count: int, logs: int) -> dict[str, Any]:
    """Return the shares of one world."""
    world = DrawnWorlds(world=number, n_samples=ROWS, known="policy", target_form="probabilities")
    population = world._drawn().population
    rows = np.arange(len(population.context))
    n_actions = population.logging.n_actions
    logging = population.logging.table(population.context)
    reward = np.stack(
        [population.reward_at(rows, np.full(len(rows), a)) for a in range(n_actions)], axis=1
    )
    tables = policies_of(logging, count, stream("policies", number))
    values = np.array([float((table * reward).sum(axis=1).mean()) for table in tables])
    earned = float((logging * reward).sum(axis=1).mean())
    best, kept, seconds = int(values.argmax()), [], []
    dropped = held = wrong = 0
    index = {row.tobytes(): k for k, row in enumerate(population.context)}
    for replicate in range(logs):
        rngs = {f"{n}_rng": stream(n, number, replicate) for n in ("world", "logged", "target")}
        problem, _ = world.sample(**rngs)
        at = np.array([index[row.tobytes()] for row in problem.context])
        frame = {f"x{j}": problem.context[:, j] for j in range(problem.context.shape[1])}
        names = list(frame)
        kinds = zip(names, problem.schema.context, strict=True)
        coded = [name for name, column in kinds if column.kind == "categorical"]
        frame |= {"action": problem.action, "reward": problem.reward, "p": problem.propensity}
        targets = {f"p{k}": TargetPolicy(table=_sparse(tables[k][at])) for k in range(count)}
        log = Log.from_frame(
            frame,
            context=names,
            action="action",
            reward="reward",
            propensity="p",
            categorical=coded,
            target=targets,
        )
        begun = time.perf_counter()
        found = shortlist(log)
        seconds.append(time.perf_counter() - begun)
        status = {row.name: row.status for row in found.policies}
        dropped += status[f"p{best}"] == "dominated"
        kept.append(sum(one != "dominated" for one in status.values()))
        winner = found.winner or {}
        truth = values[int(winner["name"][1:])]
        held += winner["low"] <= truth <= winner["high"]
        wrong += any(
            one == "certified" and values[int(name[1:])] <= earned for name, one in status.items()
        )
    return {
        "world": number,
        "actions": n_actions,
        "policies": count,
        "logs": logs,
        "best_dropped": int(dropped),
        "winner_held": int(held),
        "wrongly_certified": int(wrong),
        "median_kept": float(np.median(kept)),
        "median_seconds": round(float(np.median(seconds)), 1),
    }


def _sparse(table: FloatArray) -> dict[str, Any]:
    at = np.nonzero(table > 0)
    return {"row": at[0], "action": at[1], "probability": table[at]}


def main() -> None:
    """Judge the worlds of the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=12)
    parser.add_argument("--policies", type=int, default=5)
    parser.add_argument("--worlds", type=int, nargs="+", required=True)
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    found = json.loads(given.output.read_text()) if given.output.is_file() else []
    done = {(one["world"], one["policies"]) for one in found}
    for number in given.worlds:
        if (number, given.policies) not in done:
            found.append(judged(number, given.policies, given.logs))
            lines = ",\n".join(map(json.dumps, found))
            given.output.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
