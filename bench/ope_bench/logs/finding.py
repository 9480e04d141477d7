"""Checks of a log and of advice, what follows where one fails, and their findings."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from ope_bench.report.tables import Entry, TableColumn, TextTable, cells


class Check(enum.StrEnum):
    """What was checked; the value is its name, and the order that of urgency.

    Attributes
    ----------
    first_action : what to do where it failed, ``{of}`` being the subjects; "" where nothing is.
    decisive : where it failed the log cannot answer, whatever the estimator.
    named : the subject is a part of the finding's name.
    """

    first_action: str
    decisive: bool
    named: bool

    ESTIMATE = "an estimate", "Give what an estimator needs: see its message.", True
    SUPPORT = (
        "unsupported mass",
        "Log the actions that the policy takes and the log does not hold.",
    )
    LARGEST_WEIGHT = (
        "rows over the largest weight",
        "Log rarely chosen actions of the policy more often.",
        True,
    )
    PROPENSITIES = "implausible propensities", "Repair the propensities{of} first."
    LOGGING = (
        "propensity against `logging`",
        "Make the propensities those of the logging policy first.",
    )
    MEAN_WEIGHT = (
        "mean weight",
        "Find out why the weights do not average 1: propensities or support.",
    )
    EFFECTIVE_SIZE = (
        "effective sample size",
        "Log more rows, or choose actions more as the policy would.",
    )
    REPEATED = "repeated rows", "Remove the rows that were written twice first."
    REWARD_DRIFT = (
        "drift of reward",
        "Estimate from recent rows alone: the reward has changed.",
    )
    LEAK = "leaks", "Leave out the column that was known only after the reward."
    INTERVAL = "an interval", "Treat the number as one without a known error."
    UNSEEN = ("actions never logged",)
    UNITS = ("rows of one unit",)
    LAST_DRIFT = ("drift of reward of the last tenth",)
    CONTEXT_DRIFT = "drift of context", "", False, True
    ACTION_DRIFT = ("drift of actions",)
    DRIFT = ("drift",)
    REWARD = ("reward",)
    KNOWN_SIZE = ("effective sample size is known",)

    def __new__(
        cls, name: str, first_action: str = "", decisive: bool = False, named: bool = False
    ) -> Self:
        """Make a member; the defaults let type checkers accept the call Check("drift")."""
        check = str.__new__(cls, name)
        check._value_ = name
        check.first_action, check.decisive, check.named = first_action, decisive, named
        return check


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one check.

    Parameters
    ----------
    check : what was checked.
    policy : the policy that it is about; None for the log.
    subjects : the columns or actions that it is about, the worst first.
    value : the figure, None where there is none.
    limit : what it is compared with, None for information.
    passed : whether it is within the limit; None for information.
    message : one sentence.
    far : the figure is so far off that no estimator could answer.
    """

    check: Check
    policy: str | None = None
    subjects: tuple[str, ...] = ()
    value: float | None = None
    limit: float | None = None
    passed: bool | None = None
    message: str
    far: bool = False

    @classmethod
    def at_most(cls, check: Check, value: float, limit: float, message: str, **given: Any) -> Self:
        """Return the check of a figure that must not be above its limit."""
        fine = bool(value <= limit)
        return cls(check=check, value=value, limit=limit, passed=fine, message=message, **given)

    @classmethod
    def at_least(
        cls, check: Check, value: float, limit: float, message: str, **given: Any
    ) -> Self:
        """Return the check of a figure that must not be below its limit."""
        fine = bool(value >= limit)
        return cls(check=check, value=value, limit=limit, passed=fine, message=message, **given)

    @property
    def subject(self) -> str | None:
        """The column or action that it is about, the worst of several."""
        return next(iter(self.subjects), None)

    @property
    def name(self) -> str:
        """The check's name on tables, with the policy and the column that it is about."""
        words = [*([f"{self.policy}:"] if self.policy is not None else []), self.check.value]
        return " ".join([*words, *(self.subjects[:1] if self.check.named else ())])

    @property
    def decisive(self) -> bool:
        """Whether the log cannot answer because of it."""
        return self.passed is False and (self.check.decisive or self.far)

    @property
    def first_action(self) -> str:
        """What to do about it, in one sentence; "" where it did not fail."""
        if self.passed is not False:
            return ""
        of = " and ".join(self.subjects[:2])
        return self.check.first_action.format(of=f" of {of}" if of else "") or (
            f"Look at: {self.name}."
        )


def contents_of(findings: Sequence[Finding]) -> dict[str, list[dict[str, Any]]]:
    """Return findings as the lists ``checks`` and ``findings`` of a JSON document."""
    shown = ("name", "value", "limit", "passed", "message")
    facts = ("check", "policy", "subject", "value", "limit", "passed", "decisive", "first_action")
    return {
        key: [{name: getattr(one, name) for name in names} for one in findings]
        for key, names in (("checks", shown), ("findings", facts))
    }


def findings_table(title: str, findings: Sequence[Finding], notes: Sequence[str]) -> TextTable:
    """Return a table of checks."""
    marks = {True: Entry("ok", style="good"), False: Entry("LOOK", style="bad"), None: Entry("")}
    return TextTable(
        title=title,
        columns=(
            TableColumn(key="passed", title="", right=False),
            TableColumn(key="name", title="check", right=False, overflow="fold"),
            TableColumn(key="message", title="finding", right=False, overflow="fold"),
        ),
        rows=tuple(cells(marks[one.passed], one.name, one.message) for one in findings),
        notes=tuple(notes),
    )
