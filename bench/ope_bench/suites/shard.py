"""Shards: parts of a plan, for machines that share no storage.

Shards hold whole replicates: all estimators on the same data are in the same shard. Each shard
samples its data and shares its nuisance fits as the whole run would; its boards are fair and
paired; and the numbers of replicates of a setting differ by at most one between shards, so that
all take about as long. A trial's shard depends on the trial alone: neither on the rest of the
plan, nor on its order, nor on stored results.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache

from ope_bench.errors import UsageError
from ope_bench.trials.record import Trial

__all__ = ["Shard", "parse_shard"]


@dataclass(frozen=True)
class Shard:
    """Shard ``number`` of ``count``, counted from one.

    >>> str(Shard(2, 8))
    '2/8'
    """

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def holds(self, trial: Trial) -> bool:
        """Return whether the trial is in this shard; each trial is in exactly one.

        Replicates that are trained together are in the same shard.
        """
        unit = trial.replicate // trial.device.block_size
        # Each setting starts at another shard, so that incomplete last rounds are spread evenly.
        first = _number(f"[{trial.environment.identity_json},{trial.seed}]")
        return (first + unit) % self.count == self.number - 1


@cache
def _number(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16)


def parse_shard(text: str) -> Shard:
    """Parse a shard such as ``2/8``.

    Raises
    ------
    UsageError : the text is no shard.
    """
    match = re.fullmatch(r"\s*(\d+)\s*/\s*(\d+)\s*", text)
    number, count = map(int, match.groups()) if match else (0, 0)
    if not 1 <= number <= count:
        msg = f"{text!r} is not a shard; the second of eight is written 2/8"
        raise UsageError(msg)
    return Shard(number, count)
