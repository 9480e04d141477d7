"""Random streams derived from a hash of the trial's description, independent of run order.

Data streams depend on (environment id, seed, replicate) only, so that all estimators, devices
and parameters use common random numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ope_bench.canonical import digest

__all__ = ["DataSeed", "ProblemSampling", "stream"]

ProblemSampling = Literal["redrawn", "fixed"]


def stream(*words: Any) -> np.random.Generator:
    """Return a generator seeded by the digest of the words.

    >>> stream("a", 1).random() == stream("a", 1).random()
    True
    """
    entropy = int(digest(list(words)), 16)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))


@dataclass(frozen=True)
class DataSeed:
    """The source of the random streams of one replicate: its data and all fits on them."""

    environment: str
    seed: int
    replicate: int
    worlds: ProblemSampling = "redrawn"

    def world(self) -> np.random.Generator:
        """Return the stream of the problem's definition; replicates share it if it is fixed."""
        if self.worlds == "fixed":
            return stream("world", self.environment, self.seed)
        return stream("world", self.environment, self.seed, self.replicate)

    def logged(self) -> np.random.Generator:
        """Return the stream of the logs."""
        return stream("logged", self.environment, self.seed, self.replicate)

    def target(self) -> np.random.Generator:
        """Return the stream of the target sample."""
        return stream("target", self.environment, self.seed, self.replicate)

    def estimator(self, estimator: str) -> np.random.Generator:
        """Return the stream of one estimator's fit."""
        return stream("estimator", self.environment, self.seed, self.replicate, estimator)

    def global_seed(self, estimator: str) -> int:
        """Return a 32-bit seed of Python's, NumPy's and torch's global generators.

        Plugins that ignore ``rng`` draw from those.
        """
        words = ["global", self.environment, self.seed, self.replicate, estimator]
        return int(digest(words)[:8], 16)

    def nuisance(self, spec: str) -> np.random.Generator:
        """Return the stream of a nuisance fit, the same for all estimators that request it."""
        return stream("nuisance", self.environment, self.seed, self.replicate, spec)
