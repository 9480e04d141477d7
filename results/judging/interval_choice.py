"""Which interval to use when: the choice for each class of settings, mechanically."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from judging.interval_trials import Cell, IntervalTrials, Method, Setting
from ope_bench.canonical import canonical_json
from ope_bench.statistics.value_intervals.weights import SMALLEST_EFFECTIVE

__all__ = ["HOLDS", "Choice", "Found", "choices", "document", "least_of"]

HOLDS = 0.93
"""Coverage in every setting of a class from which an interval is said to hold the value."""

ESTIMATED = "ipws-star"
"""The estimator that is told no policy."""

Places = Sequence[tuple[Setting, Cell]]


@dataclass(frozen=True)
class Found:
    """What one method does in a class of settings.

    Parameters
    ----------
    method : estimator and kind.
    coverage : the lowest of all settings, and ``where``.
    where : that setting.
    width : geometric mean of median widths over those of the yardstick, in the same settings.
    whole : whether it was run in all settings of the class.
    """

    method: Method
    coverage: float
    where: Setting
    width: float
    whole: bool

    @property
    def holds(self) -> bool:
        """Whether it holds the value in all settings of the class."""
        return self.coverage >= HOLDS and self.whole


@dataclass(frozen=True)
class Choice:
    """A class of settings and what was found there, the narrowest that hold first.

    Parameters
    ----------
    rewards : ``bounded``, in a known range, or ``unbounded``.
    policies : ``known`` or ``estimated``.
    weights : ``moderate``, none above a fifth of the rows by the policies, or ``large``.
    settings : of the class.
    yardstick : whose widths are 1.
    found : each method.
    """

    rewards: str
    policies: str
    weights: str
    settings: tuple[Setting, ...]
    yardstick: Method
    found: tuple[Found, ...]

    @property
    def best(self) -> Found | None:
        """The narrowest that holds the value; None where none does."""
        return next((one for one in self.found if one.holds), None)


def least_of(trials: IntervalTrials, setting: Setting) -> float:
    """Median of the rows over the largest weight that the policies allow, in a setting."""
    cell = trials.cells[Method("normal", "ipw"), setting]
    return float(np.median(cell.least))


def choices(trials: IntervalTrials) -> list[Choice]:
    """All classes."""
    found = []
    for rewards in ("bounded", "unbounded"):
        for weights in ("moderate", "large"):
            settings = tuple(
                one
                for one in trials.settings
                if one.rewards == rewards
                and (least_of(trials, one) >= SMALLEST_EFFECTIVE) == (weights == "moderate")
            )
            found += [
                _choice(trials, (rewards, policies, weights), settings)
                for policies in ("known", "estimated")
            ]
    return found


def _choice(
    trials: IntervalTrials, words: tuple[str, str, str], settings: tuple[Setting, ...]
) -> Choice:
    rewards, policies, _ = words
    yardstick = Method("guaranteed" if rewards == "bounded" else "empirical-likelihood", "ipw")
    methods = [
        method
        for method in trials.methods()
        if (method.estimator == ESTIMATED) == (policies == "estimated")
    ]
    found = [
        _found(trials, method, yardstick, settings)
        for method in methods
        if trials.of(method, settings)
    ]
    found.sort(key=lambda one: (not one.holds, one.width))
    return Choice(*words, settings, yardstick, tuple(found))


def _found(
    trials: IntervalTrials, method: Method, yardstick: Method, settings: Sequence[Setting]
) -> Found:
    cells = trials.of(method, settings)
    coverage, where = min((cell.coverage.value or 0.0, setting) for setting, cell in cells)
    ratios = [math.log(cell.width / trials.cells[yardstick, one].width) for one, cell in cells]
    width = math.exp(sum(ratios) / len(ratios))
    return Found(method, coverage, where, width, len(cells) == len(settings))


def document(found: Sequence[Choice]) -> str:
    """The choices as the JSON document that `ope-bench estimate` quotes."""
    told = {
        "schema": 1,
        "made_by": "python results/write.py",
        "holds": HOLDS,
        "rows": list(_rows(found)),
    }
    return f"{canonical_json(told)}\n"


def _rows(found: Sequence[Choice]) -> Iterator[dict[str, Any]]:
    for choice in found:
        best = choice.best
        told = None
        if best is not None:
            told = asdict(best.method) | {
                "coverage": round(best.coverage, 3),
                "width": round(best.width, 2),
            }
        words = {name: getattr(choice, name) for name in ("rewards", "policies", "weights")}
        yield words | {"settings": len(choice.settings), "use": told}
