"""Random streams derived from a hash of the trial's description, and draws from them.

Data streams depend on (environment id, seed, replicate, salt) only, so that all estimators,
devices and parameters use common random numbers, and on no order of runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ope_bench.base.canonical import digest
from ope_bench.contracts.arrays import FloatArray, IntArray

ProblemSampling = Literal["redrawn", "fixed"]


def stream(*words: Any) -> np.random.Generator:
    """Return a generator seeded by the digest of the words.

    >>> stream("a", 1).random() == stream("a", 1).random()
    True
    """
    text = digest(list(words))
    # NumPy takes the number apart into these words, without high zeros, in twice the time.
    parts = np.frombuffer(bytes.fromhex(text)[::-1], "<u4").astype(np.uint32)
    entropy = parts if parts[-1] else int(text, 16)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))


@dataclass(frozen=True)
class DataSeed:
    """The source of the random streams of one replicate: its data and all fits on them.

    Parameters
    ----------
    salt : text that makes all streams others; empty for none.
    """

    environment: str
    seed: int
    replicate: int
    worlds: ProblemSampling = "redrawn"
    salt: str = field(default="", repr=False)

    def _words(self, *words: Any) -> list[Any]:
        return [*words, self.salt] if self.salt else [*words]

    def world(self) -> np.random.Generator:
        """Return the stream of the problem's definition; replicates share it if it is fixed."""
        if self.worlds == "fixed":
            return stream(*self._words("world", self.environment, self.seed))
        return stream(*self._words("world", self.environment, self.seed, self.replicate))

    def logged(self) -> np.random.Generator:
        """Return the stream of the logs."""
        return stream(*self._words("logged", self.environment, self.seed, self.replicate))

    def target(self) -> np.random.Generator:
        """Return the stream of the target sample."""
        return stream(*self._words("target", self.environment, self.seed, self.replicate))

    def estimator(self, estimator: str) -> np.random.Generator:
        """Return the stream of one estimator's fit."""
        words = ["estimator", self.environment, self.seed, self.replicate, estimator]
        return stream(*self._words(*words))

    def global_seed(self, estimator: str) -> int:
        """Return a 32-bit seed of Python's, NumPy's and torch's global generators.

        Plugins that ignore ``rng`` draw from those.
        """
        words = ["global", self.environment, self.seed, self.replicate, estimator]
        return int(digest(self._words(*words))[:8], 16)

    def nuisance(self, spec: str) -> np.random.Generator:
        """Return the stream of a nuisance fit, the same for all estimators that request it."""
        words = ["nuisance", self.environment, self.seed, self.replicate, spec]
        return stream(*self._words(*words))


# --- draws


SPAN = 64
"""Number of actions in a span: `sample_indices` sums spans, then searches within one."""


def sample_indices(weights: FloatArray, uniform: FloatArray) -> IntArray:
    """Draw one index per row in proportion to its weights, by the inverse CDF: (k,).

    Parameters
    ----------
    weights : (k, n), non-negative, not necessarily normalized.
    uniform : (k,), in [0, 1).

    >>> sample_indices(np.array([[1.0, 0.0, 3.0]]), np.array([0.3]))
    array([2])
    """
    n = weights.shape[1]
    if n <= 4 * SPAN:
        cumulative = np.cumsum(weights, axis=1)
        return _first_beyond(cumulative, uniform * cumulative[:, -1])
    # Sums of spans cost a fraction of a cumulative sum over all actions.
    spans = np.cumsum(np.add.reduceat(weights, np.arange(0, n, SPAN), axis=1), axis=1)
    threshold = uniform * spans[:, -1]
    span = _first_beyond(spans, threshold)
    rows = np.arange(len(weights))
    threshold -= np.where(span > 0, spans[rows, span - 1], 0.0)
    columns = span[:, None] * SPAN + np.arange(SPAN)
    inside = weights[rows[:, None], np.minimum(columns, n - 1)]
    inside[columns >= n] = 0.0
    return span * SPAN + _first_beyond(np.cumsum(inside, axis=1), threshold)


def _first_beyond(cumulative: FloatArray, threshold: FloatArray) -> IntArray:
    """Return the first column above the threshold, else (rounding) the last with weight."""
    first = (cumulative <= threshold[:, None]).sum(axis=1)
    last = (cumulative < cumulative[:, -1:]).sum(axis=1)
    index: IntArray = np.minimum(first, last)
    return index
