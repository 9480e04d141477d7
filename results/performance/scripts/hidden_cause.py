"""Do the bounds of `estimate --sensitivity` hold the value where the hidden cause is as strong?

    python results/performance/scripts/hidden_cause.py --worlds 631 690 \\
        --output results/advice/hidden_cause.json

Logs of 2,000 rows of drawn worlds of no suite, with known policies and a hidden cause whose odds
reach the factor Λ. For `dm` (sharp bounds) and `ipws`: whether the bounds held the value, whether
they did with the error of a finite log (``low_with_error``, ``high_with_error``), and both widths.
Interrupted, it goes on where it was.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from advice_verdicts import log_of

from ope_bench import UnavailableError, estimate, stream
from ope_environments.damaged.environment import Damaged

STRENGTHS = (1.25, 1.5, 2.0, 3.0)
DIALS = "known=policy,target_form=probabilities,n_samples=2000"


def judged(number: int, strength: float) -> dict[str, Any]:
    """Return whether the bounds of one log held the value."""
    world = Damaged(f"population[world={number},{DIALS}]", confounding=strength)
    rngs = {f"{n}_rng": stream("hidden", number, n) for n in ("world", "logged", "target")}
    place = {"world": number, "lambda": strength}
    try:
        problem, truth = world.sample(**rngs)
    except UnavailableError as exc:
        return place | {"skipped": str(exc)}
    rows = estimate(log_of(problem), ["dm", "ipws"], sensitivity=True)
    if rows["dm"].disagreement_high is None:
        return place | {"skipped": "no interval"}
    found: dict[str, Any] = {}
    for name in ("dm", "ipws"):
        bounds = (rows[name].sensitivity or {})["bounds"]
        bound = next(one for one in bounds if one["lambda"] == strength)
        ends = [(bound[f"low{part}"], bound[f"high{part}"]) for part in ("", "_with_error")]
        held = [low <= truth.expected <= high for low, high in ends]
        found[name] = [*held, *(float(f"{high - low:.6g}") for low, high in ends)]
    return place | found


def main() -> None:
    """Judge the worlds of a range."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, nargs=2, required=True)
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    found = json.loads(given.output.read_text()) if given.output.is_file() else []
    done = {(one["world"], one["lambda"]) for one in found}
    for number in range(given.worlds[0], given.worlds[1] + 1):
        for strength in STRENGTHS:
            if (number, strength) not in done:
                found.append(judged(number, strength))
                lines = ",\n".join(map(json.dumps, found))
                given.output.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
