"""Several rewards of one log: a result for each, and statements about all of them together."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ope_bench.base.canonical import plain
from ope_bench.base.errors import UsageError, did_you_mean
from ope_bench.logs.result import LogResult
from ope_bench.report.tables import TextTable

_Function = TypeVar("_Function", bound=Callable[..., Any])

TODAY = "today"
_CONDITION = re.compile(
    r"""\s*(?P<quote>["']?)(?P<reward>.+?)(?P=quote)\s*(?P<sign>>=|<=)\s*(?P<limit>[^\s,]+)\s*"""
)
_ENDS = re.compile(r"(?<=[<>]=)(\s*[^\s,]+\s*),")
"""The comma after a limit: names of rewards may hold commas too."""


_SIDES = re.compile(r"^(better|worse) for:")


@dataclass(frozen=True, repr=False)
class ByReward(LogResult):
    """A result for each reward of a log, from the same rows, weights and folds.

    Parameters
    ----------
    results : by reward, in the order of the log.
    """

    results: Mapping[str, Any]

    def __getitem__(self, reward: str) -> Any:
        return self.results[reward]

    @property
    def exit_code(self) -> int:
        """0; 3 where nothing has a value for any reward."""
        return min(int(getattr(one, "exit_code", 0)) for one in self.results.values())

    @property
    def notes(self) -> Sequence[str]:
        """The notes of all results, each once."""
        return list(dict.fromkeys(line for one in self.results.values() for line in one.notes))

    def contents(self) -> dict[str, Any]:
        """Return the document of the first reward, with those of all."""
        documents = {name: one.as_json() for name, one in self.results.items()}
        listed = [{"reward": name, **document} for name, document in documents.items()]
        answers = [
            {"reward": one["reward"], **answer}
            for one in listed
            for answer in one.get("answers", [one] if "verdict" in one else [])
        ]
        first = {**next(iter(documents.values())), "exit_code": self.exit_code}
        return {**first, "rewards": listed, **({"answers": answers} if answers else {})}

    def opening(self, *, several: bool = False) -> str:
        """Return the answer for each reward on a line of its own."""
        said = {name: one.opening(several=True) for name, one in self.results.items()}
        return "\n".join(f"{name}: {text}" for name, text in said.items() if text)

    def tables(self) -> list[TextTable]:
        """Return the tables of each reward, which their titles name."""
        # Of several rewards less may be better, as of a cost.
        words = {"better for:": "higher for:", "worse for:": "lower for:"}
        return [
            replace(
                table,
                title=f"{name} | {table.title}",
                notes=tuple(_SIDES.sub(lambda one: words[one[0]], text) for text in table.notes),
            )
            for name, one in self.results.items()
            for table in one.tables()
        ]

    def records(self) -> list[dict[str, Any]]:
        """Return the lines of all estimates, with their reward."""
        return [
            {"reward": name} | line for name, one in self.results.items() for line in one.records()
        ]


def each_reward(function: _Function) -> _Function:
    """Make a function of a log answer for each of its rewards, where it has several."""

    @functools.wraps(function)
    def wrapped(log: Any, *args: Any, **kwargs: Any) -> Any:
        if not getattr(log, "other_rewards", None):
            return function(log, *args, **kwargs)
        parts = log.by_reward().items()
        return ByReward({name: function(one, *args, **kwargs) for name, one in parts})

    return wrapped  # type: ignore[return-value]


# Conditions: what must surely hold of a policy.


@dataclass(frozen=True)
class Condition:
    """``reward >= limit`` or ``reward <= limit``; the limit of None is what was logged.

    Parameters
    ----------
    text : as written.
    reward : its name.
    sign : 1 for at least, -1 for at most.
    limit : a number, or None.
    """

    text: str
    reward: str
    sign: int
    limit: float | None

    def holds(self, advice: Any) -> bool | None:
        """Return whether it surely holds of a policy, surely does not, or None.

        The interval of 95 % decides: of the lift, or of the value where there is a number. Nothing
        is sure where the log cannot answer.
        """
        chosen = advice.recommended
        if chosen is None or advice.doubted:
            return None
        ends = (chosen.lift_low, chosen.lift_high)
        if self.limit is not None:
            ends = (chosen.low, chosen.high)
        if None in ends:
            return None
        low, high = sorted(self.sign * (end - (self.limit or 0.0)) for end in ends)
        return True if low >= 0 else False if high < 0 else None


def conditions_of(text: str, rewards: Sequence[str]) -> list[Condition]:
    """Return the conditions of ``quality >= today, cost <= .2``.

    Raises
    ------
    UsageError : a part is no condition, or of a reward that the log does not have.
    """
    found = []
    for part in _ENDS.sub(r"\1\n", text).split("\n"):
        made = _CONDITION.fullmatch(part)
        limit = made and made["limit"]
        try:
            number = None if limit == TODAY else float(limit or "nan")
        except ValueError:
            number = math.nan
        if made is None or not math.isfinite(number or 0.0):
            msg = (
                f"require: {part.strip()!r} is no condition; write {rewards[0]} >= {TODAY}, or a "
                f"number in place of {TODAY}"
            )
            raise UsageError(msg)
        if (name := made["reward"]) not in rewards:
            hint = did_you_mean(name, rewards)
            msg = f"require: the log has no reward {name!r}{hint}; it has: {', '.join(rewards)}"
            raise UsageError(msg)
        sign = 1 if made["sign"] == ">=" else -1
        found.append(Condition(part.strip(), name, sign, number))
    return found


@dataclass(frozen=True)
class Statement:
    """Whether conditions hold of a policy, each and all together.

    Where each holds by a test of its own at 5 %, that all hold is wrong in at most 5 %: no level
    is divided ("Multiparameter hypothesis testing and acceptance sampling", Berger, 1982).

    Parameters
    ----------
    policy : its name.
    conditions : as written, with whether each surely holds, surely does not, or None.
    """

    policy: str
    conditions: Mapping[str, bool | None]

    @property
    def holds(self) -> bool:
        """Whether all surely hold."""
        return all(self.conditions.values())

    def __str__(self) -> str:
        words = {True: "yes", False: "no", None: "cannot tell"}
        parts = ", ".join(f"{text}: {words[one]}" for text, one in self.conditions.items())
        return f"{self.policy}: {'holds' if self.holds else 'not shown'} ({parts})"

    def as_json(self) -> dict[str, Any]:
        """Return its part of the document."""
        listed = [{"condition": text, "holds": one} for text, one in self.conditions.items()]
        document: dict[str, Any] = plain(
            {"policy": self.policy, "holds": self.holds, "conditions": listed}
        )
        return document


def statements(result: Any, reward: str, conditions: Sequence[Condition]) -> list[Statement]:
    """Return what surely holds of each policy.

    Parameters
    ----------
    result : what `advise` returned.
    reward : of the log, where it has one.
    conditions : of `conditions_of`.
    """
    results = result.results if isinstance(result, ByReward) else {reward: result}
    policies = {
        name: {one.target: one for one in getattr(found, "policies", [found])}
        for name, found in results.items()
    }
    return [
        Statement(
            policy, {one.text: one.holds(policies[one.reward][policy]) for one in conditions}
        )
        for policy in next(iter(policies.values()))
    ]
