"""Seeds from content: the same words give the same stream, whatever ran before.

Data streams depend on (environment id, seed, replicate) only, so that all estimators, devices
and parameters see common random numbers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

__all__ = ["DataSeed", "Worlds", "canonical_json", "digest", "stream"]

Worlds = Literal["redrawn", "fixed"]


def canonical_json(value: Any) -> str:
    """JSON with sorted keys, no spaces and floats that round-trip.

    >>> canonical_json({"b": 1, "a": (1.0, None)})
    '{"a":[1.0,null],"b":1}'
    """
    return json.dumps(
        value,
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=True,
        allow_nan=False,
        default=_plain,
    )


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "get_params"):
        return {"class": type(value).__qualname__, "params": value.get_params(deep=False)}
    msg = f"{type(value).__name__} has no canonical form"
    raise TypeError(msg)


def digest(value: Any) -> str:
    """SHA-256 over canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def stream(*words: Any) -> np.random.Generator:
    """A generator seeded by the words' content.

    >>> stream("a", 1).random() == stream("a", 1).random()
    True
    """
    entropy = int(digest(list(words)), 16)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))


@dataclass(frozen=True)
class DataSeed:
    """What the random streams of one replicate's data, and all fits on it, derive from."""

    environment: str
    seed: int
    replicate: int
    worlds: Worlds = "redrawn"

    def world(self) -> np.random.Generator:
        """Stream of the world's parameters; one for all replicates where worlds are fixed."""
        if self.worlds == "fixed":
            return stream("world", self.environment, self.seed)
        return stream("world", self.environment, self.seed, self.replicate)

    def logged(self) -> np.random.Generator:
        """Stream of the logs."""
        return stream("logged", self.environment, self.seed, self.replicate)

    def target(self) -> np.random.Generator:
        """Stream of the target sample."""
        return stream("target", self.environment, self.seed, self.replicate)

    def estimator(self, estimator: str) -> np.random.Generator:
        """Stream of one estimator's fit."""
        return stream("estimator", self.environment, self.seed, self.replicate, estimator)

    def word(self, estimator: str) -> int:
        """32 bits for global random states, which only careless plugins draw from."""
        words = ["global", self.environment, self.seed, self.replicate, estimator]
        return int(digest(words)[:8], 16)

    def nuisance(self, spec: str) -> np.random.Generator:
        """Stream of one nuisance fit, shared by all estimators that ask for it."""
        return stream("nuisance", self.environment, self.seed, self.replicate, spec)
