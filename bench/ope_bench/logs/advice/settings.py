"""The shipped settings of advice: candidates, rules and worlds, and how the rules did."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ope_bench.suites.yaml_document import load_file

__all__ = ["AdviceSettings", "Benchmark", "Choice", "Regret", "advice_settings"]

FIRST = "first"
"""The rule that takes the first candidate that has a value."""


@dataclass(frozen=True)
class Regret:
    """The regret of a rule or of a fixed choice over held-out worlds.

    Parameters
    ----------
    name : of the rule, or the shortest selector of the estimator.
    regret, low, high : error over that of the best fixed choice of each world, with a 95 %
        interval.
    """

    name: str
    regret: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.regret:.2f} ({self.low:.2f} to {self.high:.2f})"


@dataclass(frozen=True)
class Benchmark:
    """How the best rule and the best fixed choice did in the benchmark of advice.

    Parameters
    ----------
    worlds : their number.
    rule, always : the rule and the fixed choice with the least regret.
    better : whether the rule was shown to err less.
    """

    worlds: int
    rule: Regret
    always: Regret
    better: bool

    @classmethod
    def of(cls, given: dict[str, Any]) -> Benchmark:
        """Read one class of the file benchmark.json, which results/write.py makes."""
        rule, always = Regret(**given["rule"]), Regret(**given["always"])
        return cls(given["worlds"], rule, always, given["better"])

    def words(self) -> str:
        """Say what chooses, with its regret."""
        where = f"on {self.worlds} benchmark worlds"
        if self.better:
            return (
                f"the rule {self.rule.name}, whose regret {where} was {self.rule}; the best fixed "
                f"choice, always {self.always.name}, had {self.always}"
            )
        return (
            f"always {self.always.name}, where it has a value: its regret {where} was "
            f"{self.always}, and no rule was shown to err less ({self.rule.name} had {self.rule})"
        )


@dataclass(frozen=True)
class Choice:
    """Candidates, and what chooses among them.

    Parameters
    ----------
    candidates : selectors.
    benchmark : of rules on these candidates; None where there is none.
    """

    candidates: tuple[str, ...]
    benchmark: Benchmark | None

    @property
    def rule(self) -> str:
        """The rule of ``select``."""
        found = self.benchmark
        return found.rule.name if found is not None and found.better else FIRST

    def ordered(self, texts: list[str]) -> list[str]:
        """Return candidates in the order in which the rule gets them: the best fixed one first."""
        best = None if self.benchmark is None else self.benchmark.always.name
        return sorted(texts, key=lambda text: text != best)

    def words(self) -> str:
        """Say what chooses, with its regret."""
        if self.benchmark is None:
            return "the first candidate that has a value; no rule was benchmarked for such logs"
        return self.benchmark.words()


@dataclass(frozen=True)
class AdviceSettings:
    """The file advice.yaml.

    Parameters
    ----------
    known : where the policies' probabilities are known.
    samples : where there are samples only.
    worlds : makers of worlds.
    replicates : data sets of each world.
    """

    known: Choice
    samples: Choice
    worlds: tuple[str, ...]
    replicates: int


@cache
def advice_settings() -> AdviceSettings:
    """Return the shipped settings."""
    folder = Path(__file__).parent
    given = load_file(folder / "advice.yaml").value
    found = json.loads((folder / "benchmark.json").read_text(encoding="utf-8"))
    known, samples = (
        Choice(
            tuple(given["candidates"][name]),
            Benchmark.of(found[name]) if name in found else None,
        )
        for name in ("known", "samples")
    )
    return AdviceSettings(known, samples, tuple(given["worlds"]), int(given["replicates"]))
