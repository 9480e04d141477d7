"""Checks of a log and of advice, what follows where one fails, and their findings."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from ope_bench.report.tables import Cell, TableColumn, TextTable, cells, figure


def mean_text(mean: float) -> str:
    """Return a mean weight; one of hundreds of digits by its size.

    >>> mean_text(0.98642), mean_text(1.57e289)
    ('0.986', '1.57e289')
    """
    return f"{mean:.3f}" if abs(mean) < _LONGEST else figure(mean)


_LONGEST = 1e6


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
    SUPPORT = "unsupported mass", "Log the policy's choices in the contexts that lack them."
    LARGEST_WEIGHT = "n / max weight", "Log the policy's rare actions more."
    LOGGING = "propensity against `logging`", "Make the propensities those of `logging` first."
    PROPENSITIES = "implausible propensities", "Check how p{of} was logged: it is too small."
    MEAN_WEIGHT = "mean weight", "Find out why weights do not average 1: propensities or support."
    LEAK = ("leaks",)
    WEIGHT_PARTS = "mean weight by part", "Give each decision's own propensity, not an average."
    EXPLORATION = "exploration", "Let the logger explore: a rule shows what it does, nothing else."
    SUPPORT_SIZE = "rows to see support", "Give propensities, or log more rows to see support."
    REPEATED = "repeated rows", "Remove the rows that were written twice first."
    NEAR_COPIES = "near copies", "Remove rows written again with one value changed."
    RETENTION = "rows of all decisions", "Find out which rows are missing, or give `weight`."
    COINCIDING = "coinciding columns", "Name `unit`, the user's column: the same ones come again."
    IDENTIFIER = "identifiers", "Leave out the column{of}, group it, or describe it by numbers."
    EFFECTIVE_SIZE = "effective sample size", "Log more rows, or choose as the policy would."
    REWARDED = "effective rewarded rows", "Log more rows: too few rewards carry the answer."
    REWARD_DRIFT = "drift of reward", "Find out if the reward changed or newest ones still come."
    LAST_DRIFT = "drift of the newest rewards", "Leave out the newest rows."
    CONTRADICTION = "contradiction", "Find out which estimate is wrong before you act."
    INTERVAL = "an interval", "We cannot say how far off this number may be."
    ACTION_DRIFT = "drift of actions", "Give each decision's own propensity: the logger changed."
    CONTEXT_DRIFT = "drift of context", "", False, True
    UNSEEN = ("actions never logged",)
    UNITS = ("rows of one unit",)
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
    withholds : no value may be stated.
    cure : what to do about it, where it is not what the check says.
    """

    check: Check
    policy: str | None = None
    subjects: tuple[str, ...] = ()
    value: float | None = None
    limit: float | None = None
    passed: bool | None = None
    message: str
    far: bool = False
    withholds: bool = False
    cure: str = ""

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
        text = self.cure or self.check.first_action or f"Look at: {self.name}."
        return text.replace("{of}", f" of {of}" if of else "")


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
    marks = {True: Cell("ok", style="good"), False: Cell("LOOK", style="bad"), None: Cell("")}
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
