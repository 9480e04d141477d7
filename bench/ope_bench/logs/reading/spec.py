"""The description of a log: its columns, its items and its policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ope_bench.errors import UsageError
from ope_bench.logs.reading.target_policy import TargetPolicy

__all__ = ["Items", "LogSpec"]


@dataclass(frozen=True)
class Items:
    """The table that describes actions.

    Parameters
    ----------
    table : path, data frame or mapping of columns.
    key : column of the action.
    embedding : columns that describe it; all others than the key if empty.
    """

    table: Any
    key: str
    embedding: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LogSpec:
    """The columns of a log and the policies that go with it; see bench/docs/own-logs.md.

    Parameters
    ----------
    table : path, data frame or mapping of columns; one row is one decision.
    context : columns that the policies may depend on.
    action, reward : columns.
    categorical : columns of context and items that hold words or codes; None to find them.
    reward_range : smallest and largest reward.
    propensity : column of the logging policy's probability of the logged action.
    items : what describes the actions.
    time : column that orders the rows.
    unit : column; rows of one unit depend on each other.
    logging : the logging policy's whole distribution.
    targets : the policies to evaluate, by name.
    """

    table: Any
    context: tuple[str, ...]
    action: str
    reward: str
    categorical: tuple[str, ...] | None = None
    reward_range: tuple[float, float] | None = None
    propensity: str | None = None
    items: Items | None = None
    time: str | None = None
    unit: str | None = None
    logging: TargetPolicy | None = None
    targets: Mapping[str, TargetPolicy] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.context:
            msg = "name at least one context column"
            raise UsageError(msg)
        roles = dict.fromkeys(self.context, "context")
        for role in ("action", "reward", "propensity"):
            name = getattr(self, role)
            if name is not None and name in roles:
                msg = f"column '{name}' is both {roles[name]} and {role}; they must differ"
                raise UsageError(msg)
            roles[name] = role
        if len(set(self.context)) < len(self.context):
            twice = next(name for name in self.context if self.context.count(name) > 1)
            msg = f"context names column '{twice}' twice"
            raise UsageError(msg)
        if self.reward_range is not None and not self.reward_range[0] < self.reward_range[1]:
            low, high = self.reward_range
            msg = f"reward_range: {low:g} is not below {high:g}; write [smallest, largest]"
            raise UsageError(msg)
        if self.logging is not None and self.logging.form in ("action", "probability"):
            msg = (
                f"logging: `{self.logging.form}` is not the whole distribution; give `table` or "
                "`policy` (the probability of the logged action is `propensity`)"
            )
            raise UsageError(msg)

    def columns(self) -> dict[str, str]:
        """Return the columns of the log's table beside the context, with the role of each."""
        found = {self.action: "action", self.reward: "reward"}
        for role in ("propensity", "unit", "time"):
            if (name := getattr(self, role)) is not None:
                found.setdefault(name, role)
        return found

    def files(self) -> tuple[str, ...]:
        """Return the files that the description names."""
        policies = [*self.targets.values(), *([self.logging] if self.logging else [])]
        found = [self.table, None if self.items is None else self.items.table]
        found += [one.value for one in policies if one.form == "table"]
        paths = [str(one) for one in found if isinstance(one, str | Path)]
        code = [str(one.value) for one in policies if one.form == "policy"]
        return (*paths, *(one.rpartition(":")[0] for one in code if ".py:" in one))
