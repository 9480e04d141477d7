"""The faults that logs can have: how often, how strong, and what each does to a log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ope_bench import Problem, stream
from ope_environments.damaged import logged_rows
from ope_environments.damaged.logged_propensities import written_propensities

__all__ = ["DAMAGES", "MOST", "Damage", "chances", "drawn_faults"]

MOST = 3
"""Faults that one log has at most."""

Params = Mapping[str, Any]
"""Parameters of `Damaged`; ``rows``, of the log; ``value``, the truth; ``whole``, of support."""

Rng = np.random.Generator


@dataclass(frozen=True, kw_only=True)
class Damage:
    """One fault: a parameter of `Damaged`, by its name in `DAMAGES`.

    Parameters
    ----------
    chance : probability in the priors.
    strength : draws the parameters of a log that has it.
    place : among the faults of one log, which are put in one after the other.
    since : first version of the priors with it; one that joins has a new version.
    keeps : makes from parameters and the world's generator what decides which rows the log keeps.
    changes : returns the log with the fault, from parameters, the world's generator and the log's.
    written : it changes what is written of the rows, not which rows there are.
    """

    chance: float
    strength: Callable[[Rng], dict[str, Any]]
    place: int
    since: int = 1
    keeps: Callable[[Params, Rng], logged_rows.Accept] | None = None
    changes: Callable[[Problem, Params, Rng, Rng], Problem] | None = None
    written: bool = False


def _log_uniform(low: float, high: float, rng: Rng) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _propensity(rng: Rng) -> dict[str, Any]:
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


DAMAGES: dict[str, Damage] = {
    "propensity": Damage(
        chance=0.25,
        strength=_propensity,
        place=11,
        changes=lambda log, given, world, rng: written_propensities(
            log, given["propensity"], given["strength"], world_rng=world, logged_rng=rng
        ),
        written=True,
    ),
    "support": Damage(
        chance=0.15,
        strength=lambda rng: {"support": rng.uniform(0.02, 0.3)},
        place=3,
        keeps=lambda given, world: logged_rows.Unsupported(
            given["support"], world, whole=given["whole"]
        ),
    ),
    "exploration": Damage(
        chance=0.10,
        strength=lambda rng: {"exploration": float(rng.choice([0.0, 0.005, 0.02, 0.05]))},
        place=2,
        since=2,
        keeps=lambda given, world: logged_rows.ruled(given["exploration"], world),
    ),
    "drift": Damage(
        chance=0.15,
        strength=lambda rng: {"drift": rng.uniform(0.1, 1.0)},
        place=6,
        changes=lambda log, given, world, rng: logged_rows.drifted(log, given["drift"], rng),
    ),
    "users": Damage(
        chance=0.20,
        strength=lambda rng: {
            "users": int(rng.choice([2, 3, 5, 10])),
            "named": bool(rng.random() < 0.5),
        },
        place=5,
        changes=lambda log, given, world, rng: logged_rows.grouped(
            log, given["rows"], given["users"], given["named"], rng
        ),
    ),
    "duplicates": Damage(
        chance=0.12,
        strength=lambda rng: {"duplicates": _log_uniform(0.02, 0.3, rng)},
        place=9,
        changes=lambda log, given, world, rng: logged_rows.copied(log, given["duplicates"], rng),
    ),
    "jitter": Damage(
        chance=0.10,
        strength=lambda rng: {"jitter": _log_uniform(0.02, 0.3, rng)},
        place=10,
        since=2,
        changes=lambda log, given, world, rng: logged_rows.nearly_copied(
            log, given["jitter"], world, rng
        ),
        written=True,
    ),
    "retention": Damage(
        chance=0.12,
        strength=lambda rng: {
            "retention": _log_uniform(0.02, 0.5, rng),
            "weighted": bool(rng.random() < 0.25),
        },
        place=4,
        keeps=lambda given, world: logged_rows.retained(given["retention"], given["weighted"]),
    ),
    "confounding": Damage(
        chance=0.15,
        strength=lambda rng: {"confounding": _log_uniform(1.2, 3.0, rng)},
        place=1,
        keeps=lambda given, world: logged_rows.confounded(
            given["confounding"], given["value"], world
        ),
    ),
    "delay": Damage(
        chance=0.12,
        strength=lambda rng: {"delay": rng.uniform(0.02, 0.2)},
        place=7,
        changes=lambda log, given, world, rng: logged_rows.delayed(log, given["delay"]),
    ),
    "late": Damage(
        chance=0.10,
        strength=lambda rng: {"late": _log_uniform(0.01, 0.2, rng)},
        place=8,
        since=2,
        changes=lambda log, given, world, rng: logged_rows.arriving(log, given["late"], rng),
    ),
}
"""Every fault by its parameter. Within a version of the priors draws follow this order."""

_KNOWN = {"policy": 0.30, "propensity": 0.55, "samples": 0.15}


def chances(priors: int) -> dict[str, float]:
    """Return the probability of each fault that a version of the priors has."""
    known = sorted(DAMAGES, key=lambda name: DAMAGES[name].since)
    return {name: DAMAGES[name].chance for name in known if DAMAGES[name].since <= priors}


def drawn_faults(identity: str, salt: str = "", priors: int = 1) -> dict[str, Any]:
    """Return the parameters of drawn faults: one to `MOST` of them.

    Faults are drawn independently, again where none came; of more than `MOST`, chance leaves
    `MOST`. What is known of the logging policy is drawn as `population` draws it; logs that hold
    no propensities hold no wrong ones.

    Parameters
    ----------
    identity : text that names the environment whose logs are damaged; the same text has the same
        faults.
    salt : of the suite; another one has other faults.
    priors : version of the priors; another one draws other faults.
    """
    drawable = chances(priors)
    rng = stream("damaged", priors, identity, *([salt] if salt else []))
    faults: list[str] = []
    while not faults:
        faults = [name for name, chance in drawable.items() if rng.random() < chance]
    kept = set(rng.permutation(faults)[:MOST].tolist())
    # Every fault draws its strength, on or off, so that none depends on the others.
    strengths = {name: DAMAGES[name].strength(rng) for name in drawable}
    known = str(rng.choice(list(_KNOWN), p=list(_KNOWN.values())))
    found = {name: one for fault in kept for name, one in strengths[fault].items()}
    if known == "samples":
        found |= {"propensity": "missing", "strength": None}
    elif known == "propensity":
        found["known"] = "propensity"
    return found
