"""Logs of other platforms as tables of this one: the contract of a format, and the import."""

from __future__ import annotations

import importlib.metadata
import json
import math
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ope_bench.base.errors import UsageError, did_you_mean
from ope_bench.base.files import atomic_write, temporary_folder
from ope_bench.logs.log import Log
from ope_bench.logs.log_data import ESTIMATED, LogSpec
from ope_bench.logs.log_file import DEFAULT_TARGET, write_log_file
from ope_bench.logs.targets import TargetPolicy, named_actions
from ope_bench.plugins.registry import file_module
from ope_bench.reader import TextForm
from ope_bench.reader.delimited import full_rows, opened_text, text_rows
from ope_bench.reader.files import json_object
from ope_bench.reader.library import library
from ope_bench.reader.mistakes import wanted_columns
from ope_bench.reader.text import half_character
from ope_bench.testing.checks import CheckFailed, Checks, require

GROUP = "ope_bench.log_formats"

MISTAKES = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""What a line of another form may raise."""

TABLE = "decisions.parquet"

ROUNDING = 1e-3
"""What rounding may change of a sum of probabilities, and of a propensity."""

MOST_LISTED = 1000
"""Actions up to which each row has a list of all probabilities."""


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
    """Return the format of a name, or of a class in a file, ``./my.py:Shop``.

    Raises
    ------
    UsageError : there is none of that name, two have it, or it cannot be loaded.
    """
    file, _, cls = name.rpartition(":")
    points = importlib.metadata.entry_points(group=GROUP)
    found = [one for one in points if one.name == name]
    if len(found) != 1 and not file.endswith(".py"):
        known = sorted({one.name for one in points})
        what = f"{len(found)} packages have it" if found else f"known: {', '.join(known)}"
        msg = f"no log format '{name}'{did_you_mean(name, known)}; {what}, or FILE.py:CLASS"
        raise UsageError(msg)
    try:
        made = found[0].load()() if found else getattr(file_module(file), cls)()
    except Exception as exc:
        msg = f"log format '{name}' cannot be loaded: {exc}"
        raise UsageError(msg) from exc
    if not isinstance(made, LogFormat):
        msg = f"'{name}' is no LogFormat; write `class {cls or name}(LogFormat):`"
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
    table, log_file = folder / TABLE, folder / "log.yaml"
    for one in (table, log_file):
        if one.exists():
            msg = f"{one} is already there; name another folder"
            raise UsageError(msg)
    decisions: list[Decision] = []
    lines: list[int] = []
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
            lines.append(line)
    if len({one.action for one in decisions}) < 2:
        msg = f"{path}: {len(decisions)} decisions with a reward, and not two different actions"
        raise UsageError(msg)
    with temporary_folder("import") as draft:
        frame, spec, lacks = _described(decisions, draft / TABLE)
        frame.write_parquet(draft / TABLE)
        try:
            Log.of(spec)
        except UsageError as exc:
            # What is wrong in the table is wrong in a line of the file.
            at = re.escape(str(draft / TABLE))
            said = re.sub(
                rf"{at}, row (\d+)", lambda row: f"{path}, line {lines[int(row[1]) - 1]}", str(exc)
            )
            raise UsageError(said.replace(str(draft / TABLE), str(path))) from exc
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            msg = f"cannot make the folder {folder}: {exc.strerror or exc}"
            raise UsageError(msg) from exc
        with atomic_write(table, UsageError) as partial:
            shutil.copyfile(draft / TABLE, partial)
    write_log_file(replace(spec, table=table), log_file)
    return ImportedLog(log_file, table, len(decisions), left_out, (*of.lacks, *lacks))


def events_of(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the lines of a file with their numbers: JSON objects, or rows of CSV."""
    with opened_text(path, TextForm()) as text:
        numbered = ((number, line) for number, line in enumerate(text, 1) if line.strip())
        start, first = next(numbered, (1, ""))
        if not first.lstrip().startswith(("{", "[")):
            rows = text_rows(path, TextForm())
            names = wanted_columns(path, next(rows)[1], None)
            for number, row in full_rows(path, len(names), rows):
                yield number, dict(zip(names, map(_cell, row), strict=True))
            return
        for number, line in ((start, first), *numbered):
            yield number, json_object(path, line, f"line {number:,}", strict=True)


def _cell(text: str) -> Any:
    """Return a cell of CSV, parsed where it is JSON; empty is None.

    A number with a whole exponent stays text: identifiers of hexadecimal digits look like it.
    """
    if not text:
        return None
    try:
        if re.fullmatch(r"-?\d+[eE]\+?\d+", text):
            return text
        return json.loads(text)
    except ValueError:
        return text


def _problem(one: Decision) -> str:
    """Return what is wrong with a decision, "" where nothing is."""
    chances = one.probabilities
    if half_character(one.action):
        return f"the action {half_character(one.action)}"
    if not isinstance(one.action, str) or not one.action:
        return f"the action {one.action!r} is no name"
    if one.reward is not None and not math.isfinite(one.reward):
        return f"the reward {one.reward} is no finite number"
    if one.propensity is not None and not 0 < one.propensity <= 1:
        return f"the propensity {one.propensity} is not in (0, 1]"
    if chances and not all(0 <= p <= 1 for p in chances.values()):
        return "a probability is not in [0, 1]"
    if chances and abs(sum(chances.values()) - 1) > ROUNDING:
        return f"the probabilities sum to {sum(chances.values()):.4g}, not 1"
    if chances and one.action not in chances:
        return f"the action '{one.action}' has none of the probabilities"
    if chances and abs((one.propensity or 0.0) - chances[one.action]) > ROUNDING:
        return f"the propensity {one.propensity} is not the probability of '{one.action}'"
    if one.weight is not None and not 0 < one.weight < math.inf:
        return f"the weight {one.weight} is not positive"
    if one.unit == "" or isinstance(one.time, Mapping | list | bool) or one.time == "":
        return "the unit or the time is empty, or no word or number"
    for name, value in (*one.context.items(), *one.other.items()):
        parts = value if isinstance(value, list) else [value]
        if not all(isinstance(part, str | bool | int | float | None) for part in parts):
            return f"'{name}' is no number, word, truth value or list of numbers"
        if any(isinstance(part, float) and not math.isfinite(part) for part in parts):
            return f"'{name}' is not finite"
        if said := next(filter(None, map(half_character, parts)), ""):
            return f"'{name}': {said}"
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
        if known == len(values) and not (role == "weight" and set(values) == {1.0}):
            columns[role], roles[role] = values, role
        elif 0 < known < len(values):
            lost = "; rows of one unit then count as independent" if role == "unit" else ""
            said = f"{role}: {len(values) - known:,} decisions lack it, so it is left out{lost}"
            lacks.append(said)
    if "propensity" not in roles:
        roles["propensity"] = ESTIMATED
        lacks.append("propensities: they are estimated, which cannot be checked")
    actions = list(dict.fromkeys(name for one in decisions for name in one.probabilities))
    if all(one.probabilities for one in decisions) and len(actions) <= MOST_LISTED:
        chances = np.array([[one.probabilities.get(k, 0.0) for k in actions] for one in decisions])
        likeliest = np.eye(len(actions))[chances.argmax(axis=1)]
        columns |= {"probabilities": chances.tolist(), "new_policy": likeliest.tolist()}
        roles |= {"logging": TargetPolicy(list="probabilities"), "actions": named_actions(actions)}
        target = TargetPolicy(list="new_policy")
        said = "new_policy is what the logger thought best, without exploration"
    else:
        rewards: dict[str, list[float]] = {}
        for one in decisions:
            rewards.setdefault(one.action, []).append(float(one.reward or 0.0))
        best = max(rewards, key=lambda name: float(np.mean(rewards[name])))
        columns["new_action"] = [best] * len(decisions)
        target = TargetPolicy(action="new_action")
        said = (
            "new_action is always the action with the best mean reward in this log, which makes "
            "its value look too good"
        )
    lacks.append(f"the new policy: {said}; write your own under `target`")
    named: dict[str, list[str]] = {"context": [], "other": []}
    for part, names in named.items():
        for name in dict.fromkeys(name for one in decisions for name in getattr(one, part)):
            values = _one_type([getattr(one, part).get(name) for one in decisions])
            if any(value is not None for value in values):
                while name in columns:
                    name = f"{part}_{name}"
                names.append(name)
                columns[name] = values
    spec = LogSpec(
        table=table,
        context=tuple(named["context"]),
        categorical=tuple(
            name for name in named["context"] if any(isinstance(v, str) for v in columns[name])
        ),
        action="action",
        reward="reward",
        targets={DEFAULT_TARGET: target},
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


@dataclass(frozen=True)
class FormatUnderTest:
    """A format under test, for `Checks`."""

    made: LogFormat
    expected_failures: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The name of its class."""
        return type(self.made).__name__


def check_examples_follow_their_generator(subject: FormatUnderTest) -> None:
    """The same generator invents the same line."""
    first, again = (subject.made.example(np.random.default_rng(5)) for _ in range(2))
    same = json.dumps(first) == json.dumps(again)
    require(same, "`example` depends on more than its generator; draw all from `rng`")


def check_a_line_becomes_a_decision_and_stays_as_it_is(subject: FormatUnderTest) -> None:
    """An invented line is a decision, and is not changed."""
    line = subject.made.example(np.random.default_rng(5))
    before = json.dumps(line)
    decision = subject.made.decision(line)
    require(isinstance(decision, Decision), "an invented line is no Decision; return one")
    require(json.dumps(line) == before, "`decision` changes the line; leave it as it is")


def check_a_wrong_line_raises_what_is_answered(subject: FormatUnderTest) -> None:
    """A value that is missing or wrong raises an exception that becomes a message."""
    line = subject.made.example(np.random.default_rng(5))
    for key in line:
        values: tuple[Any, ...] = ("words", None, -1, [], {})
        lines = [{**line, key: value} for value in values]
        lines.append({name: value for name, value in line.items() if name != key})
        for wrong in lines:
            try:
                subject.made.decision(wrong)
            except MISTAKES:
                continue
            except Exception as exc:
                msg = f"a line with a wrong '{key}' raises {type(exc).__name__}; raise ValueError"
                raise CheckFailed(msg) from exc


def check_invented_lines_become_a_log(subject: FormatUnderTest) -> None:
    """An invented file is imported and read, each line a row, with propensities."""
    with temporary_folder("format") as folder:
        write_example_events(subject.made, folder / "example.jsonl", lines=200)
        try:
            found = import_log(subject.made, folder / "example.jsonl", folder / "log")
            log = Log.read(found.log_file)
        except UsageError as exc:
            msg = f"invented lines are no log: {exc}"
            raise CheckFailed(msg) from exc
        require(found.rows == log.n == 200, "not every invented line is a row")
        require(log.propensity is not None, "invented lines have no propensity; give them one")


def log_format_checks(made: LogFormat) -> Checks[Any]:
    """Return the conformance checks of a format."""
    return Checks(
        [FormatUnderTest(made)],
        [
            check_examples_follow_their_generator,
            check_a_line_becomes_a_decision_and_stays_as_it_is,
            check_a_wrong_line_raises_what_is_answered,
            check_invented_lines_become_a_log,
        ],
    )


def check_log_format(made: LogFormat) -> None:
    """Check that a format's invented lines become a log, and that a line's faults are answered.

    Raises
    ------
    CheckFailed : the first thing that does not hold.
    """
    for _, run in log_format_checks(made):
        run()
