"""The log file: YAML that says which columns a log has; mistakes name file and line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from ope_bench.base.errors import SuiteError, UsageError
from ope_bench.base.files import atomic_write
from ope_bench.logs.log_data import Items, LogSpec
from ope_bench.logs.targets import FORMS, Form, TargetPolicy, named_actions
from ope_bench.reader import TextForm
from ope_bench.suites.yaml_document import Document, Place, load_file

DEFAULT_TARGET = "target"
"""Name of a policy that a log file gives without a name."""

_Policy = dict[Form, str]
_Names = str | list[str]

FORM = ("missing", "encoding", "delimiter", "decimal", "time_format")
"""Keys that say how values are written in the tables."""


@dataclass(frozen=True)
class _LogFileKeys:
    """The keys of a log file, with the types that pydantic checks."""

    # A column may be called 0, as in a table that pandas wrote of an array without names.
    __pydantic_config__: ClassVar[dict[str, Any]] = {
        "extra": "forbid",
        "coerce_numbers_to_str": True,
    }

    schema: Literal[1]
    table: str
    action: str
    reward: _Names
    target: _Policy | dict[str, _Policy]
    context: _Names = ()  # type: ignore[assignment]
    categorical: _Names | None = None
    reward_range: tuple[float, float] | None = None
    propensity: str | None = None
    items: str | dict[Literal["table", "key", "embedding"], _Names] | None = None
    time: str | None = None
    unit: str | None = None
    weight: str | None = None
    predicted_reward: dict[Literal["logged", "table"], str] | None = None
    logging: _Policy | None = None
    drop_missing: bool = False
    decisions: int | None = None
    largest_unit: int | None = None
    actions: _Names | None = None
    missing: _Names | None = None
    encoding: str | None = None
    delimiter: str | None = None
    decimal: Literal[".", ","] = "."
    time_format: str | None = None
    smallest_propensity: float | None = None


_PLAIN = (
    *("action", "reward_range", "propensity", "time", "unit", "weight"),
    *("drop_missing", "decisions", "smallest_propensity", "largest_unit"),
)
"""Keys that a log's description holds as they are written."""


def read_log_file(path: Path) -> LogSpec:
    """Read a log file; its paths are relative to its folder.

    Raises
    ------
    SuiteError : the file is missing or wrong; the message has file, line and cure.
    """
    # Unlike `Path.is_file`, this raises nothing where a text is too long for a path.
    if not os.path.isfile(path):
        reason = "is a folder; expected a log file" if os.path.isdir(path) else "no such file"
        msg = (
            f"{str(path)[:200]}: {reason}; `ope-bench log example FOLDER` writes one to start from"
        )
        raise SuiteError(msg)
    document = load_file(path)
    keys = document.validate(_LogFileKeys, strict=False)
    items = keys.items
    if items is not None:
        described = {"table": items} if isinstance(items, str) else items
        if "table" not in described:
            msg = "`items:` expects {table: FILE, key: COLUMN, embedding: [...]}"
            raise document.error(msg, "items")
    named = isinstance(next(iter(keys.target.values()), ""), dict)
    targets: Any = keys.target if named else {DEFAULT_TARGET: keys.target}
    reward, *others = [keys.reward] if isinstance(keys.reward, str) else keys.reward or [""]
    try:
        return LogSpec(
            reward=reward,
            other_rewards=tuple(others),
            **{name: getattr(keys, name) for name in _PLAIN},
            table=_file(document, keys.table, ("table",)),
            context=_names(keys.context),
            categorical=None if keys.categorical is None else _names(keys.categorical),
            actions=None if keys.actions is None else named_actions(_names(keys.actions)),
            form=TextForm(
                (keys.missing,) if isinstance(keys.missing, str) else tuple(keys.missing or ()),
                **{name: getattr(keys, name) for name in FORM[1:]},
            ),
            items=None
            if items is None
            else Items(
                _file(document, described["table"], ("items", "table")),
                str(described.get("key", keys.action)),
                _names(described.get("embedding")),
            ),
            predicted_reward=_predictions(document, keys.predicted_reward),
            logging=None
            if keys.logging is None
            else _policy(document, keys.logging, ("logging",)),
            targets={
                name: _policy(document, one, ("target", name)) for name, one in targets.items()
            },
        )
    except SuiteError:
        raise
    except UsageError as exc:
        # Messages of `LogSpec` about one key start with it.
        raise document.error(str(exc), str(exc).partition(":")[0]) from exc


def _names(value: str | list[str] | None) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else value or ()
    return tuple(word.strip() for word in words if word.strip())


def _file(document: Document, value: Any, place: Place) -> Path:
    path = Path(document.source).parent / os.path.expanduser(str(value))
    if not value or not path.exists():
        msg = f"{path}: no such file; paths are relative to the log file's folder"
        raise document.error(msg, *place)
    return path


def _predictions(document: Document, given: Any) -> dict[str, Any] | None:
    if given is None:
        return None
    place = ("predicted_reward", "table")
    if "table" not in given:
        msg = "`predicted_reward:` expects {logged: COLUMN, table: FILE}"
        raise document.error(msg, *place[:1])
    return {**given, "table": _file(document, given["table"], place)}


def _policy(document: Document, given: _Policy, place: Place) -> TargetPolicy:
    if len(given) != 1:
        shown = f" ({', '.join(given)})" if given else ""
        msg = f"{len(given)} forms{shown}; give exactly one of {', '.join(FORMS)}"
        raise document.error(msg, *place)
    ((form, value),) = given.items()
    place = (*place, form)
    if form == "table":
        return TargetPolicy(table=_file(document, value, place))
    if form == "policy":
        path, _, name = value.rpartition(":")
        if not path.endswith(".py") or not name:
            msg = f"{value!r} is not FILE.py:NAME"
            raise document.error(msg, *place)
        return TargetPolicy(policy=f"{_file(document, path, place)}:{name}")
    return TargetPolicy.of(form, value)


def write_log_file(spec: LogSpec, path: Path) -> None:
    """Write a log file that `read_log_file` reads as the same log.

    Raises
    ------
    UsageError : the file cannot be written, or a part of the log is in memory, not in a file.
    """
    import yaml

    def relative(value: Any) -> str:
        if not isinstance(value, str | Path):
            msg = f"{path}: a log file names files; {type(value).__name__} is in memory"
            raise UsageError(msg)
        return os.path.relpath(value, path.parent)

    def policy(one: TargetPolicy) -> dict[str, str]:
        value = one.value
        if one.form == "table" or not isinstance(value, str):
            value = relative(value)
        if one.form == "policy":
            file, _, name = str(value).rpartition(":")
            value = f"{relative(file)}:{name}"
        return {one.form: str(value)}

    items, predicted = spec.items, spec.predicted_reward
    if predicted is not None:
        files = predicted if isinstance(predicted, Mapping) else {"table": predicted}
        predicted = {**files, "table": relative(files["table"])}
    targets = {name: policy(one) for name, one in spec.targets.items()}
    document: dict[str, Any] = {
        "schema": 1,
        "table": relative(spec.table),
        "context": list(spec.context),
        "categorical": None if spec.categorical is None else list(spec.categorical),
        "actions": list(spec.actions or ()),
        **{name: getattr(spec.form, name) for name in FORM},
        "missing": list(spec.form.missing),
        **{name: getattr(spec, name) for name in _PLAIN},
        "reward": list(spec.rewards) if spec.other_rewards else spec.reward,
        "reward_range": list(spec.reward_range or ()),
        "items": items and {"table": relative(items.table), "key": items.key},
        "predicted_reward": predicted,
        "logging": spec.logging and policy(spec.logging),
        "target": targets.get(DEFAULT_TARGET) if list(targets) == [DEFAULT_TARGET] else targets,
    }
    if items and items.embedding:
        document["items"]["embedding"] = list(items.embedding)
    given = {key: value for key, value in document.items() if value or key == "categorical"}
    kept = {key: value for key, value in given.items() if value not in (None, ".")}
    text = yaml.safe_dump(kept, sort_keys=False, allow_unicode=True, default_flow_style=None)
    with atomic_write(path, UsageError) as partial:
        partial.write_text(text, encoding="utf-8")
