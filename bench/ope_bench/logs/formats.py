"""Logs of other platforms as tables of this one: the contract of a format, and the import."""

from __future__ import annotations

import csv
import importlib.metadata
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ope_bench.base.errors import UsageError, did_you_mean
from ope_bench.base.files import atomic_write, temporary_folder
from ope_bench.logs.log import Log
from ope_bench.logs.log_data import ESTIMATED, LogSpec
from ope_bench.logs.log_file import DEFAULT_TARGET, write_log_file
from ope_bench.logs.targets import TargetPolicy
from ope_bench.reader import TextForm
from ope_bench.reader.delimited import opened_text
from ope_bench.reader.library import library
from ope_bench.testing.checks import CheckFailed

GROUP = "ope_bench.log_formats"

MISTAKES = (KeyError, TypeError, ValueError, IndexError, AttributeError)
"""What a line of another form may raise."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One decision of a log.

    Parameters
    ----------
    action : its name.
    reward : higher is better; None where it is unknown, and the decision is left out.
    propensity : probability of the action; None where it is unknown.
    probabilities : of all actions by name, where they are known.
    context : what the policy saw, by name: numbers, words, truth values, lists of numbers.
    unit, time : of whom, and when.
    weight : for how many decisions it stands.
    other : further columns, such as a second reward.
    """

    action: str
    reward: float | None
    propensity: float | None = None
    probabilities: Mapping[str, float] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)
    unit: str | None = None
    time: Any = None
    weight: float | None = None
    other: Mapping[str, Any] = field(default_factory=dict)


class LogFormat:
    """A platform's log: one JSON object a line, or rows of CSV whose cells may be JSON.

    A plugin is a subclass under an entry point of the group ``ope_bench.log_formats``.
    """

    lacks: ClassVar[tuple[str, ...]] = ()
    """What the format cannot tell, one sentence each."""

    def decision(self, event: Mapping[str, Any]) -> Decision | None:
        """Return the decision of a line, None for a line that is none.

        KeyError, TypeError, ValueError and IndexError become a message with the line.
        """
        raise NotImplementedError

    def example(self, rng: np.random.Generator) -> Mapping[str, Any]:
        """Return an invented line."""
        raise NotImplementedError


@dataclass(frozen=True)
class ImportedLog:
    """What an import wrote.

    Parameters
    ----------
    log_file, table : the files.
    rows : decisions.
    left_out : lines that are no decision or have no reward.
    lacks : what the format, or this file, does not tell.
    """

    log_file: Path
    table: Path
    rows: int
    left_out: int
    lacks: tuple[str, ...]


def log_format(name: str) -> LogFormat:
    """Return the format of a name.

    Raises
    ------
    UsageError : there is none of that name, two have it, or it cannot be loaded.
    """
    points = importlib.metadata.entry_points(group=GROUP)
    found = [one for one in points if one.name == name]
    if len(found) != 1:
        known = sorted({one.name for one in points})
        what = f"{len(found)} packages have it" if found else f"known: {', '.join(known)}"
        msg = f"no log format '{name}'{did_you_mean(name, known)}; {what}"
        raise UsageError(msg)
    try:
        made = found[0].load()()
    except Exception as exc:
        msg = f"log format '{name}' ({found[0].value}) cannot be loaded: {exc}"
        raise UsageError(msg) from exc
    if not isinstance(made, LogFormat):
        msg = f"log format '{name}' ({found[0].value}) is no LogFormat"
        raise UsageError(msg)
    return made


def write_example_events(of: LogFormat, path: Path, lines: int = 2000, seed: int = 0) -> None:
    """Write an invented file of a format; an existing one is kept, with an error."""
    if path.exists():
        msg = f"{path} is already there; name another file"
        raise UsageError(msg)
    rng = np.random.default_rng(seed)
    text = "".join(json.dumps(dict(of.example(rng))) + "\n" for _ in range(lines))
    with atomic_write(path, UsageError) as partial:
        partial.write_text(text, encoding="utf-8")


def import_log(of: LogFormat, path: Path, folder: Path) -> ImportedLog:
    """Write a file of another platform as a Parquet table and its log file.

    Raises
    ------
    UsageError : the file is missing or wrong, with its line; or the folder has such files.
    """
    if not path.is_file():
        msg = f"{path}: {'is a folder' if path.is_dir() else 'no such file'}"
        raise UsageError(msg)
    table, log_file = folder / "decisions.parquet", folder / "log.yaml"
    for one in (table, log_file):
        if one.exists():
            msg = f"{one} is already there; name another folder"
            raise UsageError(msg)
    decisions: list[Decision] = []
    left_out = 0
    for line, event in events_of(path):
        decision = None
        try:
            decision = of.decision(event)
            problem = "" if decision is None else _problem(decision)
        except MISTAKES as exc:
            lack = f"no {exc}" if isinstance(exc, KeyError) else str(exc)
            problem = f"is no decision of this format: {lack}"
        if problem:
            msg = f"{path}, line {line}: {problem}"
            raise UsageError(msg)
        if decision is None or decision.reward is None:
            left_out += 1
        else:
            decisions.append(decision)
    if len({one.action for one in decisions}) < 2:
        msg = f"{path}: {len(decisions)} decisions with a reward, and not two different actions"
        raise UsageError(msg)
    frame, spec, lacks = _described(decisions, table)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        msg = f"cannot make the folder {folder}: {exc.strerror or exc}"
        raise UsageError(msg) from exc
    with atomic_write(table, UsageError) as partial:
        frame.write_parquet(partial)
    write_log_file(spec, log_file)
    return ImportedLog(log_file, table, len(decisions), left_out, (*of.lacks, *lacks))


def events_of(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the lines of a file with their numbers: JSON objects, or rows of CSV."""
    with opened_text(path, TextForm()) as text:
        first = text.readline()
        rest = enumerate(text, 2)
        if not first.lstrip().startswith(("{", "[")):
            names = next(csv.reader([first]), [])
            reader = csv.reader(line for _, line in rest)
            for row in reader:
                cells = (_cell(one) for one in row)
                yield reader.line_num + 1, dict(zip(names, cells, strict=False))
            return
        for number, line in ((1, first), *rest):
            if not line.strip():
                continue
            try:
                event = json.loads(line)
            except ValueError as exc:
                msg = f"{path}, line {number}: is no JSON ({exc}); expected one object a line"
                raise UsageError(msg) from exc
            if not isinstance(event, dict):
                msg = f"{path}, line {number}: is no JSON object; expected one a line"
                raise UsageError(msg)
            yield number, event


def _cell(text: str) -> Any:
    """Return a cell of CSV, parsed where it is JSON; empty is None."""
    if not text:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def _problem(one: Decision) -> str:
    """Return what is wrong with a decision, "" where nothing is."""
    if one.reward is not None and not math.isfinite(one.reward):
        return f"the reward {one.reward} is no finite number"
    if one.propensity is not None and not 0 < one.propensity <= 1:
        return f"the propensity {one.propensity} is not in (0, 1]"
    if one.probabilities and abs(sum(one.probabilities.values()) - 1) > 1e-3:
        return f"the probabilities sum to {sum(one.probabilities.values()):.4g}, not 1"
    if one.weight is not None and not 0 < one.weight < math.inf:
        return f"the weight {one.weight} is not positive"
    return ""


def _described(decisions: list[Decision], table: Path) -> tuple[Any, LogSpec, tuple[str, ...]]:
    """Return the table, its description, and what this file does not tell."""
    lacks = []
    columns: dict[str, list[Any]] = {
        "action": [one.action for one in decisions],
        "reward": [one.reward for one in decisions],
    }
    roles: dict[str, Any] = {}
    for role in ("propensity", "unit", "time", "weight"):
        values = [getattr(one, role) for one in decisions]
        known = sum(one is not None for one in values)
        if known == len(values):
            columns[role], roles[role] = values, role
        elif known:
            lacks.append(f"{role}: {len(values) - known:,} decisions lack it, so it is left out")
    if "propensity" not in roles:
        roles["propensity"] = ESTIMATED
        lacks.append("propensities: they are estimated, which cannot be checked")
    if all(one.probabilities for one in decisions):
        likeliest = [max(one.probabilities.items(), key=itemgetter(1))[0] for one in decisions]
        said = "what the logger thought best, without exploration"
    else:
        rewards: dict[str, list[float]] = {}
        for one in decisions:
            rewards.setdefault(one.action, []).append(float(one.reward or 0.0))
        likeliest = [max(rewards, key=lambda name: float(np.mean(rewards[name])))] * len(decisions)
        said = "always the action with the best mean reward"
    columns["new_action"] = likeliest
    lacks.append(f"the new policy: new_action is {said}; write your own under `target`")
    named: dict[str, list[str]] = {"context": [], "other": []}
    for part, names in named.items():
        for name in dict.fromkeys(name for one in decisions for name in getattr(one, part)):
            values = _one_type([getattr(one, part).get(name) for one in decisions])
            if any(value is not None for value in values):
                names.append(f"{part}_{name}" if name in columns else name)
                columns[names[-1]] = values
    spec = LogSpec(
        table=table,
        context=tuple(named["context"]),
        categorical=tuple(
            name for name in named["context"] if any(isinstance(v, str) for v in columns[name])
        ),
        action="action",
        reward="reward",
        targets={DEFAULT_TARGET: TargetPolicy(action="new_action")},
        **roles,
    )
    return library().DataFrame(columns, strict=False), spec, tuple(lacks)


def _one_type(values: list[Any]) -> list[Any]:
    """Return values of one type: as words where they are of several."""
    kinds = {type(one) for one in values if one is not None}
    if kinds <= {int, float}:
        return (
            [None if one is None else float(one) for one in values] if float in kinds else values
        )
    return values if len(kinds) == 1 else [None if one is None else str(one) for one in values]


def check_log_format(made: LogFormat) -> None:
    """Check that a format's invented lines become a log, and that a line's faults are answered.

    Raises
    ------
    CheckFailed : the first thing that does not hold.
    """

    def require(holds: bool, what: str) -> None:
        if not holds:
            raise CheckFailed(what)

    first, again = (made.example(np.random.default_rng(5)) for _ in range(2))
    require(json.dumps(first) == json.dumps(again), "example depends on more than its generator")
    before = json.dumps(first)
    decision = made.decision(first)
    require(isinstance(decision, Decision), "an invented line is no Decision")
    require(json.dumps(first) == before, "decision changes the line")
    for key in first:
        try:
            made.decision({name: value for name, value in first.items() if name != key})
            made.decision({**first, key: "words"})
        except MISTAKES:
            continue
        except Exception as exc:
            msg = f"a line with a wrong {key} raises {type(exc).__name__}"
            raise CheckFailed(msg) from exc
    with temporary_folder("format") as folder:
        write_example_events(made, folder / "example.jsonl", lines=200)
        found = import_log(made, folder / "example.jsonl", folder / "log")
        log = Log.read(found.log_file)
        require(found.rows == log.n == 200, "not every invented line is a row")
        require(log.propensity is not None, "invented lines have no propensity")
