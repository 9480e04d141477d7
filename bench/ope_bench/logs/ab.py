"""An A/B test of two randomized policies with known propensities: `ab`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ope_bench.base.errors import UsageError, short_errors
from ope_bench.contracts.arrays import FloatArray
from ope_bench.logs.loading import context_names, encode
from ope_bench.logs.problem import normal_interval, without_rounding
from ope_bench.logs.result import LogResult, as_wide
from ope_bench.logs.source import load_table, probabilities_of
from ope_bench.reader import Table, TextForm
from ope_bench.reader.library import library
from ope_bench.report.tables import MISSING, Cell, TableColumn, TextTable, cells, figure
from ope_bench.statistics.policy_difference import TwoLogs


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison(LogResult):
    """The difference of two policies; shown, it is a sentence and two tables.

    Parameters
    ----------
    arms : name, rows and mean reward of A and of B.
    difference : A minus B: value, low, high, and those of the difference of means.
    sequence : low and high of the interval that holds at every time, None where there is none.
    rows_needed : rows of both logs that are missing for the wanted width.
    checks : name, value (in standard errors), limit, and whether it passed.
    width : the wanted one.
    notes : what the reader must know.
    """

    arms: tuple[dict[str, Any], ...]
    difference: dict[str, Any]
    sequence: dict[str, float | None]
    rows_needed: int | None
    checks: tuple[dict[str, Any], ...]
    width: float
    notes: tuple[str, ...]

    def contents(self) -> dict[str, Any]:
        """Return arms, differences, rows and checks."""
        document = asdict(self)
        return {key: document[key] for key in document if key not in ("width", "notes")}

    @property
    def better(self) -> str | None:
        """The name of the policy that is surely better.

        None where none is, a check fails, or there are too few rows for any.
        """
        low, high = self.difference["low"], self.difference["high"]
        sound = bool(self.checks) and all(one["passed"] for one in self.checks)
        if not sound or low is None or low <= 0 <= high:
            return None
        return str(self.arms[0 if low > 0 else 1]["name"])

    def opening(self, *, several: bool = False) -> str:
        """Return the answer in a sentence."""
        names = [one["name"] for one in self.arms]
        failed = [one["name"] for one in self.checks if not one["passed"]]
        if failed:
            return (
                f"Cannot tell: the logs contradict their probabilities ({', '.join(failed)}). "
                "Find out which column is wrong, or whether A and B had other decisions."
            )
        low, high = self.difference["low"], self.difference["high"]
        if low is None:
            return "Cannot tell: no reward tells the policies apart."
        value, low, high = as_wide((self.difference["value"], low, high), high - low, signed=True)
        found = f"{names[0]} minus {names[1]} is {value} ({low} to {high})"
        if not self.checks:
            return f"Cannot tell: too few rows to check the probabilities; {found}."
        if self.better is None:
            return f"Cannot tell which is better: {found}."
        return f"{self.better} is better: {found}."

    def tables(self) -> list[TextTable]:
        """Return the differences and the checks."""
        means = self.difference["difference_of_means"]
        rows = [("by probabilities", self.difference), ("difference of means", means)]
        rows.append(("holds at every time", {"value": None, **self.sequence}))
        a, b = self.arms
        differences = TextTable(
            title=f"{a['name']}: {a['rows']:,} rows, mean {figure(a['mean'])}; "
            f"{b['name']}: {b['rows']:,} rows, mean {figure(b['mean'])}",
            columns=(
                TableColumn(key="how", title=f"{a['name']} - {b['name']}", right=False),
                *(TableColumn(key=key, title=key) for key in ("value", "low", "high")),
            ),
            rows=tuple(
                cells(name, *(MISSING if one[key] is None else figure(one[key]) for key in KEYS))
                for name, one in rows
            ),
            notes=self.notes,
        )
        marks = Cell("ok", style="good"), Cell("LOOK", style="bad")
        checks = TextTable(
            title="checks of the probabilities",
            columns=(
                TableColumn(key="passed", title="", right=False),
                TableColumn(key="name", title="check", right=False, overflow="fold"),
                TableColumn(key="value", title="errors"),
                TableColumn(key="limit", title="limit"),
            ),
            rows=tuple(
                cells(
                    marks[not one["passed"]],
                    *(one["name"], figure(one["value"]), figure(one["limit"])),
                )
                for one in self.checks
            ),
        )
        return [differences, checks]


KEYS = ("value", "low", "high")


@short_errors
def ab(
    a: Any,
    b: Any = None,
    *,
    probability_a: str,
    probability_b: str,
    reward: str,
    arm: str | None = None,
    action: str | None = None,
    unit: str | None = None,
    weight: str | None = None,
    context: Sequence[str] = (),
    categorical: Sequence[str] | None = None,
    reward_range: tuple[float, float] | None = None,
    width: float | None = None,
    level: float = 0.95,
    form: TextForm | None = None,
) -> Comparison:
    """Compare two randomized policies by a log of each.

    Parameters
    ----------
    a, b : the logs, paths or frames as for `Log.from_frame`; ``b`` is left out where ``arm`` is
        given.
    probability_a, probability_b : columns of both logs: what each policy's probability of the
        logged action was, or would have been.
    reward : column.
    arm : column of one log that says which policy chose; the first of its two names is A.
    action : column, for more checks.
    unit : column; rows of one unit depend on each other.
    weight : column; for how many rows each row stands.
    context : columns; a model of the reward by them narrows the interval.
    categorical : context columns of codes; columns of words are found.
    reward_range : smallest and largest reward, known before, for the sequence; 0 and 1 where all
        rewards are.
    width : of the interval that is wanted; half of the one found by default.
    level : of the intervals.
    form : how values are written in text files.

    Raises
    ------
    UsageError : a mistake in the data or their description; the message has place and cure.

    Examples
    --------
    >>> log = {"arm": list("ab" * 4), "r": [1, 0, 0, 1, 1, 0, 0, 0]}
    >>> log |= {"p": [0.5] * 8, "q": [0.5] * 8}
    >>> same = ab(log, arm="arm", reward="r", probability_a="p", probability_b="q")
    >>> same.difference["value"], same.difference["high"]
    (0.0, 0.0)
    """
    if not 0 < level < 1:
        msg = f"level: {level:g} is not between 0 and 1"
        raise UsageError(msg)
    if width is not None and not 0 < width < math.inf:
        msg = f"width: {width:g} is not positive; write the width of the interval that you want"
        raise UsageError(msg)
    if (b is None) == (arm is None):
        msg = "give two logs, or one log and the column that names the arm (`arm`, --arm)"
        raise UsageError(msg)
    form = form or TextForm()
    named = [name for name in (arm, action, unit, weight) if name is not None]
    named += [reward, probability_a, probability_b]
    spelled = [name for name in (arm, action, unit, *(categorical or ())) if name is not None]
    known_after = {reward, probability_a, probability_b, arm, action}

    def chosen(names: list[str]) -> list[str]:
        described = context_names(context, names)
        for name in filter(known_after.__contains__, described):
            msg = f"context: '{name}' is arm, action, reward or a probability; leave it out"
            raise UsageError(msg)
        return [*dict.fromkeys([*named, *described])]

    sources = [a] if b is None else [a, b]
    logs = [load_table(one, chosen, spelled=spelled, form=form) for one in sources]
    if arm is None:
        names = _names_of(sources)
        in_a = np.repeat([True, False], [one.n for one in logs])
    else:
        code, names = logs[0].codes(arm)
        if len(names) != 2:
            shown = ", ".join(names[:4])
            msg = f"{logs[0].path}: column '{arm}' has {len(names)} values ({shown}); expected 2"
            raise UsageError(msg)
        in_a = code == 0

    def numbers(name: str, read: Any = Table.numbers, **how: Any) -> FloatArray:
        return np.concatenate([read(one, name, **how) for one in logs])

    both = [numbers(name, probabilities_of) for name in (probability_a, probability_b)]
    for own, arm_rows, name in zip(
        both, (in_a, ~in_a), (probability_a, probability_b), strict=True
    ):
        zero = arm_rows & (own <= 0)
        if zero.any():
            at, one = _place(logs, int(np.argmax(zero)))
            what = "is 0, but this policy chose the action; are the two columns swapped?"
            one.column(name).error(at, what)
    row_weight = np.ones(len(in_a)) if weight is None else numbers(weight)
    if (row_weight <= 0).any():
        at, one = _place(logs, int(np.argmax(row_weight <= 0)))
        one.column(str(weight)).error(at, "is not positive; write for how many rows it stands")
    rewards = numbers(reward, yes_no=True)
    if np.abs(rewards).max() > LARGEST_REWARD:
        msg = f"reward: '{reward}' has values over {LARGEST_REWARD:g}; divide it, squares overflow"
        raise UsageError(msg)
    stacked = logs[0] if b is None else _stack(logs)
    units = np.arange(len(in_a)) if unit is None else stacked.codes(unit)[0]
    for rows, name in zip((in_a, ~in_a), names, strict=True):
        if len(np.unique(units[rows])) < 2:
            one_of = "row" if unit is None else "unit"
            msg = (
                f"{stacked.path}: '{name}' has one {one_of}; two are the least that tell an error"
            )
            raise UsageError(msg)
    two = TwoLogs(
        in_a=in_a,
        a=both[0],
        b=both[1],
        reward=rewards,
        row_weight=row_weight,
        unit=units,
    )
    labels = None if action is None else stacked.codes(action)[0]
    features = _features(stacked, context, categorical) if context else None
    notes = []
    predicted = 0.0 if features is None else two.predict(features)
    value, error, carry = two.difference(predicted)
    low, high = normal_interval(value, error, level, carry)
    centered = two.difference(float(np.average(two.reward, weights=two.row_weight)))[1]
    if features is None and error and (centered or 0.0) < 0.8 * error:
        notes.append("rewards are far from 0: with --context, of any column, it is narrower")
    means, error_of_means, carry = two.difference_of_means()
    plain, known = without_rounding(means, error_of_means, float(abs(two.reward).max()))
    ends = normal_interval(plain, known, level, carry)
    if reward_range is None and np.isin(two.reward, (0.0, 1.0)).all():
        reward_range = 0.0, 1.0
    if not two.g.any():
        sequence: dict[str, float | None] = {"low": 0.0, "high": 0.0}
        notes.append("the policies are equal in every row")
    else:
        found = None
        if reward_range is None:
            notes.append("no sequence: give the smallest and largest reward (--reward-range)")
        else:
            outside = (two.reward < reward_range[0]) | (two.reward > reward_range[1])
            if reward_range[0] < reward_range[1] and outside.any():
                first = float(two.reward[int(np.argmax(outside))])
                msg = f"reward_range: the reward {first:g} is outside of it; correct either"
                raise UsageError(msg)
            found = two.sequence(reward_range, level=level)
            if found is None:
                notes.append("no sequence: none is known for units and weights")
        sequence = dict.fromkeys(("low", "high"))
        if found is not None:
            sequence = {"low": found.low, "high": found.high}
    needed: int | None = None
    if low is not None and high is not None:
        width = (high - low) / 2 if width is None else width
        n = len(in_a)
        times = (high - low) / width if width else 0.0
        more = n * times * times - n
        if math.isinf(more):
            msg = f"width: {width:g} needs more rows than can be counted; write a larger width"
            raise UsageError(msg)
        needed = max(0, math.ceil(more))
        shorter = ((ends[1] or 0.0) - (ends[0] or 0.0)) / (high - low) if high > low else 1.0
        if shorter > 1:
            notes.append(f"the difference of means needs {shorter**2:.1f} times the rows")
        notes.append(f"a width of {figure(width)} needs {needed:,} rows more")
    found_checks, limit = two.checks(labels, features, predicted)
    if "actions" not in found_checks:
        lacks = "no action is frequent enough for a check of its own"
        notes.append(lacks if action else "with --action more mistakes in probabilities are found")
    of = dict(zip("AB", names, strict=True))
    return Comparison(
        arms=tuple(
            {
                "name": name,
                "rows": int(arm.sum()),
                "mean": float(np.average(two.reward[arm], weights=two.row_weight[arm])),
            }
            for name, arm in zip(names, (in_a, ~in_a), strict=True)
        ),
        difference={
            **dict(zip(KEYS, (value, low, high), strict=True)),
            "difference_of_means": dict(zip(KEYS, (plain, *ends), strict=True)),
        },
        sequence=sequence,
        rows_needed=needed,
        checks=tuple(
            {
                "name": f"{name[:-1]}{of[name[-1]]}" if name.endswith((" A", " B")) else name,
                "value": min(one, FARTHEST),
                "limit": limit,
                "passed": one <= limit,
            }
            for name, one in found_checks.items()
        ),
        width=width or 0.0,
        notes=tuple(notes),
    )


LARGEST_REWARD = 1e100

FARTHEST = 1e6
"""Statistic that stands for an infinite one, which no JSON has."""


def _names_of(sources: Sequence[Any]) -> list[str]:
    names = [Path(one).stem if isinstance(one, str | Path) else "" for one in sources]
    return names if all(names) and names[0] != names[1] else ["A", "B"]


def _place(logs: Sequence[Table], row: int) -> tuple[int, Table]:
    return (row, logs[0]) if row < logs[0].n else (row - logs[0].n, logs[1])


def _stack(logs: Sequence[Table]) -> Table:
    """Return the rows of two tables as one, with the file in the name of a row."""
    pl = library()
    first, second = (one.frame for one in logs)
    apart = [one for one in first.columns if first[one].dtype != second[one].dtype]
    words = {one for one in apart if pl.String in (first[one].dtype, second[one].dtype)}
    cast = [pl.col(one).cast(pl.String) for one in words]
    frame = pl.concat(
        [first.with_columns(cast), second.with_columns(cast).select(first.columns)],
        how="vertical_relaxed",
    )

    def place(row: int) -> str:
        at, one = _place(logs, row)
        return f"{one.path.name}, {one.place(at)}"

    return Table(Path("both logs"), place, frame, logs[0].form)


def _features(
    table: Table, context: Sequence[str], categorical: Sequence[str] | None
) -> FloatArray:
    """Return contexts as numbers, an indicator for each name: (n, d)."""
    encoded = encode(table, context_names(context, table.names), categorical)
    columns = []
    for values, kind in zip(encoded.values.T, encoded.columns, strict=True):
        if kind.kind == "categorical":
            columns += [(values == one).astype(np.float64) for one in kind.categories]
        else:
            columns.append(values)
    return np.stack(columns, axis=1)
