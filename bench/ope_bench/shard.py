"""A part of a plan, for machines that share nothing.

Whole replicates are dealt out: all estimators on the same data are in the same shard. Each shard
samples its data and shares its nuisance fits as the whole run would; its boards are fair and
paired on their own; and every shard has, up to one, as many replicates of every setting as any
other, so that all take about as long. Which shard a trial is in depends on what it asks and
on nothing else: neither on the rest of the plan, nor on its order, nor on what is stored already.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache

from ope_bench.devices import BLOCK
from ope_bench.errors import UsageError
from ope_bench.records import Trial

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
        """Whether the trial is in this shard; each is in exactly one.

        Replicates that are trained together stay together.
        """
        unit = trial.replicate // BLOCK.get(trial.device, 1)
        # Settings begin with different shards: the last, incomplete round falls to all alike.
        first = _number(f"[{trial.environment.identity_json},{trial.seed}]")
        return (first + unit) % self.count == self.number - 1


@cache
def _number(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16)


def parse_shard(text: str) -> Shard:
    """The shard that ``2/8`` names.

    Raises
    ------
    UsageError : it names none.
    """
    found = re.fullmatch(r"\s*(\d+)\s*/\s*(\d+)\s*", text)
    number, count = map(int, found.groups()) if found else (0, 0)
    if not 1 <= number <= count:
        msg = f"{text!r} is not a shard; the second of eight is written 2/8"
        raise UsageError(msg)
    return Shard(number, count)
