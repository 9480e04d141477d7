"""A log of decisions: its description, its arrays, and their copy for worker processes."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ope_bench.base.errors import UsageError, did_you_mean
from ope_bench.base.files import temporary_folder
from ope_bench.contracts.arrays import FloatArray, IntArray, weighted_terms
from ope_bench.contracts.data import Column, Schema
from ope_bench.logs.targets import Target, TargetPolicy
from ope_bench.reader import TextForm

ESTIMATED = "estimated"
"""What a description names in place of the column of propensities where there is none."""


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
    action, reward, other_rewards : columns; of several rewards each has a result of its own.
    categorical : columns of context and items that hold words or codes; None to find them.
    reward_range : smallest and largest reward.
    smallest_propensity : least probability that the logging policy gives to any action.
    propensity : column of the logging policy's probability of the logged action; `ESTIMATED` where
        estimators estimate it.
    items : what describes the actions.
    time : column that orders the rows.
    predicted_reward : predictions made elsewhere: ``table``, a file or frame of the columns row,
        action and prediction, and ``logged``, the column of those of the logged actions; or an
        array (n, n_actions).
    weight : column; for how many rows each row stands, where the log keeps a part of them.
    unit : column; rows of one unit depend on each other.
    largest_unit : the most rows that a unit can have, which intervals by bets need.
    logging : the logging policy's whole distribution.
    targets : the policies to evaluate, by name.
    actions : the actions to which columns of arrays belong; in sorted order where None.
    drop_missing : whether rows without action, reward or propensity are left out; else such a row
        is a mistake. Rows of other tables still count them.
    decisions : number of decisions that were taken, which the rows are compared with.
    form : how values are written in the tables.
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
    actions: tuple[str, ...] | None = None
    weight: str | None = None
    predicted_reward: Any = None
    drop_missing: bool = False
    decisions: int | None = None
    largest_unit: int | None = None
    form: TextForm = field(default_factory=TextForm)
    smallest_propensity: float | None = None
    other_rewards: tuple[str, ...] = ()

    @property
    def rewards(self) -> tuple[str, ...]:
        """All columns of rewards."""
        return (self.reward, *self.other_rewards)

    @property
    def roles(self) -> frozenset[str]:
        """All columns that have another role than context, which patterns leave out."""
        policies = [*self.targets.values(), *([self.logging] if self.logging else [])]
        named = [one.value for one in policies if one.form in ("action", "probability", "list")]
        named += [self.action, *self.rewards, self.propensity, self.weight, self.unit, self.time]
        if isinstance(self.predicted_reward, Mapping):
            named.append(self.predicted_reward.get("logged"))
        return frozenset(one for one in named if isinstance(one, str))

    def __post_init__(self) -> None:
        roles = dict.fromkeys(self.context, "context")
        if not self.reward:
            msg = "reward: names no column; write one, or a list of several"
            raise UsageError(msg)
        if self.other_rewards and (self.reward_range or self.predicted_reward is not None):
            key = "reward_range" if self.reward_range else "predicted_reward"
            msg = f"{key}: is of one reward, and there are {len(self.rewards)}; leave it out"
            raise UsageError(msg)
        names = [
            (role, getattr(self, role)) for role in ("action", "reward", "propensity", "weight")
        ]
        for role, name in [*names, *(("reward", one) for one in self.other_rewards)]:
            if name is not None and name in roles:
                msg = f"column '{name}' is both {roles[name]} and {role}; they must differ"
                raise UsageError(msg)
            roles[name] = role
        for key, listed in {"context": self.context, "actions": self.actions or ()}.items():
            if len(set(listed)) < len(listed):
                twice = next(name for name in listed if listed.count(name) > 1)
                msg = f"{key}: names '{twice}' twice; remove one"
                raise UsageError(msg)
        limits = tuple(self.reward_range or (0.0, 1.0))
        numbers = (self.decisions, self.largest_unit, self.smallest_propensity, *limits)
        if len(limits) != 2 or any(not isinstance(one, Real | None) for one in numbers):
            msg = "reward_range is no pair of numbers, or decisions, largest_unit or "
            raise UsageError(msg + "smallest_propensity no number; write numbers")
        low, high = self.reward_range or (0.0, 1.0)
        if not -math.inf < low < high < math.inf:
            msg = f"reward_range: {low:g} is not below {high:g}; write [smallest, largest]"
            raise UsageError(msg)
        if self.decisions is not None and self.decisions < 1:
            msg = f"decisions: {self.decisions} is not the number of decisions that were taken"
            raise UsageError(msg)
        if not 0 < (self.smallest_propensity or 1.0) <= 1 or self.smallest_propensity == 0:
            msg = f"smallest_propensity: {self.smallest_propensity:g} is not in (0, 1]"
            raise UsageError(msg)
        if self.largest_unit is not None and self.unit is None:
            msg = "largest_unit: is of units; name their column with `unit`"
            raise UsageError(msg)
        predicted = self.predicted_reward
        known = {"logged", "table"}
        if isinstance(predicted, Mapping) and not {"table"} <= set(predicted) <= known:
            msg = (
                f"predicted_reward: has {', '.join(predicted) or 'nothing'}; expected "
                "{logged: COLUMN, table: FILE}"
            )
            raise UsageError(msg)
        if self.logging is not None and self.logging.form in ("action", "probability"):
            msg = (
                f"logging: `{self.logging.form}` is not the whole distribution; give `table`, "
                "`list` or `policy` (the probability of the logged action is `propensity`)"
            )
            raise UsageError(msg)

    def files(self) -> tuple[str, ...]:
        """Return the files that the description names."""
        policies = [*self.targets.values(), *([self.logging] if self.logging else [])]
        found = [self.table, None if self.items is None else self.items.table]
        found += [one.value for one in policies if one.form == "table"]
        if isinstance(self.predicted_reward, Mapping):
            found.append(self.predicted_reward["table"])
        paths = [str(one) for one in found if isinstance(one, str | Path)]
        code = [one.value for one in policies if isinstance(one.policy, str)]
        return (*paths, *(one.rpartition(":")[0] for one in code if ".py:" in one))


@dataclass(frozen=True, kw_only=True)
class ColumnFact:
    """What was understood of a column.

    Parameters
    ----------
    name, role : of the column; a column of several roles has a fact for each.
    type : ``integer``, ``float``, ``boolean``, ``text``, ``time`` or ``list``, followed by what it
        is used as where that differs: ``integer, category``.
    levels : number of different values, None of numbers, vectors and times.
    low, high : least and greatest number; first and last time as written; else None.
    missing : number of missing values.
    example : the first value, as written.
    identifier : whether a category has more than `most_levels`: an identifier, free text or times.
        Models see its `LEVELS_SEEN` most frequent levels and one for all others.
    """

    name: str
    role: str
    type: str
    levels: int | None = None
    low: float | str | None = None
    high: float | str | None = None
    missing: int = 0
    example: str = ""
    identifier: bool = False


LEVELS_SEEN = 50
"""Levels of an identifier that models see."""


def most_levels(rows: int) -> float:
    """Return the most levels of a category in so many rows that is no identifier."""
    return max(LEVELS_SEEN, rows / 50)


@dataclass(frozen=True, eq=False, kw_only=True)
class LogData:
    """Logged decisions as arrays, and the policies to evaluate on them.

    Parameters
    ----------
    context : (n, d_context)
    action : (n,), codes
    reward : (n,)
    schema : kinds of the columns of context and embedding.
    context_names : (d_context,), the table's column of each.
    actions : names of the actions, by code; numbers sort as numbers.
    propensity : (n,) or None
    estimated_propensity : whether estimators estimate the propensities.
    predicted_reward : (n, n_actions), predictions made elsewhere, or None
    embedding : (n_actions, d_embedding), what describes each action; None without items.
    unit : (n,) or None
    weight : (n,), positive: for how many rows each row stands; None for one each.
    time : (n,), rank of each row's time, or None
    logging : (n, n_actions), the logging policy's probabilities, or None
    targets : the policies to evaluate, by name.
    notes : what was done about missing values, rows left out first.
    reward_range : smallest and largest reward, or None
    spec : what the user named; None in a worker.
    time_span : first and last time, as written; None without one, and in a worker.
    columns : what was understood of each column; empty in a worker.
    smallest_propensity : least probability that the logging policy gives to any action, if known.
    levels : names of the levels of categories of the context, by code; empty in a worker.
    other_rewards : rewards beside the first, by column: (n,) each.
    """

    context: FloatArray
    action: IntArray
    reward: FloatArray
    schema: Schema
    context_names: tuple[str, ...]
    actions: tuple[str, ...]
    propensity: FloatArray | None = None
    embedding: FloatArray | None = None
    unit: IntArray | None = None
    time: IntArray | None = None
    logging: sparse.csr_array | None = None
    targets: Mapping[str, Target] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reward_range: tuple[float, float] | None = None
    spec: LogSpec | None = None
    weight: FloatArray | None = None
    predicted_reward: FloatArray | None = None
    estimated_propensity: bool = False
    time_span: tuple[str, str] | None = None
    smallest_propensity: float | None = None
    columns: tuple[ColumnFact, ...] = ()
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    other_rewards: Mapping[str, FloatArray] = field(default_factory=dict)

    def by_reward(self) -> dict[str, LogData]:
        """Return the log with each of its rewards alone."""
        spec = self.spec
        if spec is None or not self.other_rewards:
            return {"reward" if spec is None else spec.reward: self}
        values = {spec.reward: self.reward, **self.other_rewards}
        return {
            name: replace(
                self,
                reward=reward,
                other_rewards={},
                spec=replace(spec, reward=name, other_rewards=()),
                columns=tuple(
                    one for one in self.columns if one.role != "reward" or one.name == name
                ),
            )
            for name, reward in values.items()
        }

    def refuse_several_rewards(self) -> None:
        """Raise UsageError where the log has several rewards."""
        if self.other_rewards and self.spec is not None:
            names = ", ".join(self.spec.rewards)
            msg = f"the log has {len(self.spec.rewards)} rewards ({names}); name one here"
            raise UsageError(msg)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.reward)

    @cached_property
    def n_units(self) -> int:
        """Number of units; rows where the log names none."""
        if self.unit is None:
            return self.n
        # Twenty times as fast as np.unique, which hashes.
        ordered = np.sort(self.unit)
        return int((ordered[1:] != ordered[:-1]).sum()) + bool(self.n)

    @property
    def reward_terms(self) -> FloatArray:
        """The rewards, weighted such that their plain mean is the logging average: (n,)."""
        return weighted_terms(self.reward, self.weight)

    def condition(self, column: str, level: float, *, inside: bool = True) -> str:
        """Return in words that a category of the context has a level, or that it has not."""
        if column not in self.levels and any(one.name == column for one in self.columns):
            return f"{column} is {'missing' if inside == (level == 1) else 'given'}"
        words = self.levels.get(column)
        word = f"{level:g}" if words is None else words[int(level)]
        return f"{column} is {'' if inside else 'not '}{word}"

    def policy_name(self, name: str | None) -> str:
        """Return the name of a policy to evaluate, of the only one where None is given.

        Raises
        ------
        UsageError : there is no such policy, or there are several to choose from.
        """
        known = list(self.targets)
        if name is None and len(known) == 1:
            return known[0]
        if name is None:
            names = ", ".join(known)
            msg = f"the log has {len(known)} policies ({names}); name one: `--target {known[0]}`"
            raise UsageError(msg)
        if name not in known:
            hint = did_you_mean(name, known)
            msg = f"the log has no policy '{name}'{hint}; it has: {', '.join(known)}"
            raise UsageError(msg)
        return name

    def weights(self, name: str) -> FloatArray | None:
        """Return the importance weights of a policy, None where they are unknown: (n,)."""
        wanted = self.targets[name].of_logged(self.action)
        return None if wanted is None or self.propensity is None else wanted / self.propensity

    def agreement(self, name: str) -> FloatArray | None:
        """Return 1/p where a policy's known action is the logged one, else 0; None if unknown."""
        action = self.targets[name].action
        if action is None or self.propensity is None:
            return None
        agreed: FloatArray = (action == self.action) / self.propensity
        return agreed

    def part(self, rows: IntArray) -> LogData:
        """Return the log of some rows."""
        names = [name for name in _ARRAYS if name != "embedding"]
        arrays: dict[str, Any] = {name: getattr(self, name) for name in names}
        arrays = {name: None if one is None else one[rows] for name, one in arrays.items()}
        return replace(
            self,
            **arrays,
            logging=None if self.logging is None else sparse.csr_array(self.logging[rows]),
            other_rewards={name: one[rows] for name, one in self.other_rewards.items()},
            targets={name: target.part(rows) for name, target in self.targets.items()},
        )

    def facts(self) -> dict[str, Any]:
        """Return the facts of the log that every output names."""
        forms = dict.fromkeys(target.form for target in self.targets.values())
        return {
            "rows": self.n,
            "units": self.n_units,
            "actions": len(self.actions),
            "propensity": ESTIMATED if self.estimated_propensity else self.propensity is not None,
            "target_form": ", ".join(forms),
        }

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value!r}" for name, value in self.facts().items())
        return f"Log({facts})"


# A stored log: arrays in a folder that only this user can read, mapped into memory by workers.

_ARRAYS = (
    *("context", "action", "reward", "propensity", "embedding", "unit", "time", "weight"),
    "predicted_reward",
)
_PARTS = ("data", "indices", "indptr")
_FACTS = "log.json"


@contextlib.contextmanager
def stored_log(log: LogData) -> Iterator[Path]:
    """Write a log into a folder that only this user can read, removed at the end."""
    arrays = {name: getattr(log, name) for name in _ARRAYS}
    matrices = {"logging": log.logging}
    for number, target in enumerate(log.targets.values()):
        arrays |= {f"{number}-action": target.action, f"{number}-probability": target.probability}
        matrices[str(number)] = target.matrix
    for name, matrix in matrices.items():
        arrays |= {f"{name}-{part}": getattr(matrix, part, None) for part in _PARTS}
    names = ("actions", "context_names", "reward_range", "estimated_propensity")
    facts = {name: getattr(log, name) for name in names} | {
        "context": [asdict(column) for column in log.schema.context],
        "items": [asdict(column) for column in log.schema.embedding],
        "targets": {target.name: target.form for target in log.targets.values()},
    }
    with temporary_folder("ope-bench-log") as folder:
        for name, values in arrays.items():
            if values is not None:
                np.save(folder / f"{name}.npy", np.asarray(values))
        (folder / _FACTS).write_text(json.dumps(facts))
        yield folder


def is_stored(path: str | Path) -> bool:
    """Return whether a path is the folder of a stored log."""
    return os.path.isfile(Path(path) / _FACTS)


# One: a worker runs the trials of one log, and a second log would hold its files open.
@lru_cache(maxsize=1)
def open_log(folder: str) -> LogData:
    """Open a stored log; its arrays are read when used."""
    at = Path(folder)
    facts = json.loads((at / _FACTS).read_text())

    def array(name: str) -> Any:
        file = at / f"{name}.npy"
        return np.load(file, mmap_mode="r").view(np.ndarray) if file.exists() else None

    def matrix(name: str) -> sparse.csr_array | None:
        parts = tuple(array(f"{name}-{part}") for part in _PARTS)
        shape = len(arrays["reward"]), len(facts["actions"])
        return None if parts[0] is None else sparse.csr_array(parts, shape=shape)

    def columns(name: str) -> tuple[Column, ...]:
        return tuple(Column(one["kind"], tuple(one["categories"])) for one in facts[name])

    arrays: dict[str, Any] = {name: array(name) for name in _ARRAYS}
    return LogData(
        **arrays,
        schema=Schema(columns("context"), columns("items")),
        context_names=tuple(facts["context_names"]),
        actions=tuple(facts["actions"]),
        logging=matrix("logging"),
        targets={
            name: Target(
                name,
                form,
                array(f"{number}-action"),
                array(f"{number}-probability"),
                matrix(str(number)),
            )
            for number, (name, form) in enumerate(facts["targets"].items())
        },
        estimated_propensity=facts["estimated_propensity"],
        reward_range=tuple(facts["reward_range"]) if facts["reward_range"] else None,
    )
