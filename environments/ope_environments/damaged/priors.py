"""How often a log has which fault, and how strong: the priors of drawn damages."""

from __future__ import annotations

from typing import Any

import numpy as np

from ope_bench import stream

__all__ = ["CHANCES", "MOST", "SECOND_CHANCES", "drawn_damages"]

MOST = 3
"""Faults that one log has at most."""

CHANCES = {
    "propensity": 0.25,
    "support": 0.15,
    "drift": 0.15,
    "users": 0.20,
    "duplicates": 0.12,
    "retention": 0.12,
    "confounding": 0.15,
    "delay": 0.12,
}
"""Probability of each fault in version 1 of the priors."""

SECOND_CHANCES = {**CHANCES, "exploration": 0.10, "jitter": 0.10, "late": 0.10}
"""The same of version 2."""

_KNOWN = {"policy": 0.30, "propensity": 0.55, "samples": 0.15}


def drawn_damages(identity: str, salt: str = "", priors: int = 1) -> dict[str, Any]:
    """Return the dials of a drawn damage: one to `MOST` of them.

    Faults are drawn independently, again where none came; of more than `MOST`, chance leaves
    `MOST`. What is known of the logging policy is drawn as `population` draws it; logs that hold
    no propensities hold no wrong ones.

    Parameters
    ----------
    identity : text that names the environment whose logs are damaged; the same text has the same
        damages.
    salt : of the suite; another one has other damages.
    priors : version of the priors; another one draws other damages.
    """
    chances = CHANCES if priors == 1 else SECOND_CHANCES
    rng = stream("damaged", priors, identity, *([salt] if salt else []))
    dials: list[str] = []
    while not dials:
        dials = [name for name, chance in chances.items() if rng.random() < chance]
    kept = set(rng.permutation(dials)[:MOST].tolist())
    # Every dial draws its strength, on or off, so that no dial depends on the others.
    strengths: dict[str, dict[str, Any]] = {
        "propensity": _propensity(rng),
        "support": {"support": rng.uniform(0.02, 0.3)},
        "drift": {"drift": rng.uniform(0.1, 1.0)},
        "users": {"users": int(rng.choice([2, 3, 5, 10])), "named": bool(rng.random() < 0.5)},
        "duplicates": {"duplicates": _log_uniform(0.02, 0.3, rng)},
        "retention": {
            "retention": _log_uniform(0.02, 0.5, rng),
            "weighted": bool(rng.random() < 0.25),
        },
        "confounding": {"confounding": _log_uniform(1.2, 3.0, rng)},
        "delay": {"delay": rng.uniform(0.02, 0.2)},
    }
    if priors == 2:
        strengths |= {
            "exploration": {"exploration": float(rng.choice([0.0, 0.005, 0.02, 0.05]))},
            "jitter": {"jitter": _log_uniform(0.02, 0.3, rng)},
            "late": {"late": _log_uniform(0.01, 0.2, rng)},
        }
    known = str(rng.choice(list(_KNOWN), p=list(_KNOWN.values())))
    found = {name: one for dial in kept for name, one in strengths[dial].items()}
    if known == "samples":
        found |= {"propensity": "missing", "strength": None}
    elif known == "propensity":
        found["known"] = "propensity"
    return found


def _propensity(rng: np.random.Generator) -> dict[str, Any]:
    strengths: dict[str, float | None] = {
        "items": _log_uniform(0.05, 0.5, rng),
        "rounded": float(rng.choice([3, 2])),
        "clipped": _log_uniform(0.01, 0.1, rng),
        "stale": rng.uniform(0.2, 1.0),
        "temperature": _log_uniform(1.25, 3.0, rng),
        "constant": None,
        "monte-carlo": float(rng.choice([4096, 1024, 256])),
        "draws-until": float(rng.choice([30, 10, 3])),
    }
    kind = str(rng.choice(list(strengths)))
    return {"propensity": kind, "strength": strengths[kind]}


def _log_uniform(low: float, high: float, rng: np.random.Generator) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))
