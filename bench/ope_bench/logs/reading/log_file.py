"""The log file: YAML that says which columns a log has; mistakes name file and line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ope_bench.errors import SuiteError, UsageError, did_you_mean
from ope_bench.files import atomic_write
from ope_bench.logs.reading.spec import Items, LogSpec
from ope_bench.logs.reading.target_policy import FORMS, Form, TargetPolicy
from ope_bench.suites.yaml_document import Document, load_file

__all__ = ["DEFAULT_TARGET", "read_log_file", "write_log_file"]

DEFAULT_TARGET = "target"
"""Name of a policy that a log file gives without a name."""

_KEYS = (
    "schema",
    "table",
    "context",
    "categorical",
    "action",
    "reward",
    "reward_range",
    "propensity",
    "items",
    "time",
    "unit",
    "logging",
    "target",
)
_REQUIRED = ("schema", "table", "context", "action", "reward", "target")
_COLUMNS = ("action", "reward", "propensity", "time", "unit")


def read_log_file(path: Path) -> LogSpec:
    """Read a log file; its paths are relative to its folder.

    Raises
    ------
    SuiteError : the file is missing or wrong; the message has file, line and cure.
    """
    if not path.is_file():
        reason = "is a folder; expected a log file" if path.is_dir() else "no such file"
        msg = f"{path}: {reason}; `ope-bench log example FOLDER` writes one to start from"
        raise SuiteError(msg)
    document = load_file(path)
    return _Reader(document, path.parent).spec()


class _Reader:
    """Reads the keys of one document."""

    def __init__(self, document: Document, folder: Path) -> None:
        self.document = document
        self.folder = folder

    def error(self, message: str, *place: str | int) -> SuiteError:
        return self.document.error(message, *place)

    def spec(self) -> LogSpec:
        given = self.document.value
        if not isinstance(given, dict):
            empty = "is empty; " if given is None else ""
            msg = f"{empty}expected keys such as `table:`; see `ope-bench log example FOLDER`"
            raise self.error(msg)
        self._known(given, _KEYS)
        for key in _REQUIRED:
            if given.get(key) is None:
                msg = f"`{key}:` is missing; add it"
                raise self.error(msg)
        if given["schema"] != 1 or isinstance(given["schema"], bool):
            msg = f"schema {given['schema']!r}; this version reads `schema: 1`"
            raise self.error(msg, "schema")
        columns = {
            key: self._word(given[key], key) for key in _COLUMNS if given.get(key) is not None
        }
        categorical = (
            self._words(given["categorical"], "categorical") if "categorical" in given else ()
        )
        try:
            return LogSpec(
                table=self._path(given["table"], "table"),
                context=self._words(given["context"], "context"),
                categorical=categorical,
                reward_range=self._range(given.get("reward_range")),
                items=self._items(given.get("items"), columns["action"]),
                logging=self._logging(given.get("logging")),
                targets=self._targets(given["target"]),
                **columns,
            )
        except UsageError as exc:
            if isinstance(exc, SuiteError):
                raise
            raise self.error(str(exc)) from exc

    def _known(self, given: Mapping[str, Any], known: tuple[str, ...], *place: str) -> None:
        for key in given:
            if key not in known:
                told = f"unknown key '{key}'{did_you_mean(key, known)}; known: {', '.join(known)}"
                raise self.error(told, *place, key)

    def _word(self, value: Any, *place: str) -> str:
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            msg = f"`{place[-1]}:` expects one column name"
            raise self.error(msg, *place)
        return str(value)

    def _words(self, value: Any, *place: str) -> tuple[str, ...]:
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if value is None:
            return ()
        if not isinstance(value, list):
            msg = f"`{place[-1]}:` expects a list of column names"
            raise self.error(msg, *place)
        return tuple(self._word(one, *place) for one in value)

    def _path(self, value: Any, *place: str) -> Path:
        if not isinstance(value, str) or not value:
            msg = f"`{place[-1]}:` expects the path of a file"
            raise self.error(msg, *place)
        path = self.folder / os.path.expanduser(value)
        if not path.exists():
            msg = f"{path}: no such file; paths are relative to the log file's folder"
            raise self.error(msg, *place)
        return path

    def _range(self, value: Any) -> tuple[float, float] | None:
        if value is None:
            return None
        numbers = isinstance(value, list) and len(value) == 2
        if not numbers or not all(
            isinstance(one, int | float) and not isinstance(one, bool) for one in value
        ):
            msg = "`reward_range:` expects two numbers, [smallest, largest]"
            raise self.error(msg, "reward_range")
        if not value[0] < value[1]:
            msg = f"`reward_range:` {value[0]} is not below {value[1]}; write [smallest, largest]"
            raise self.error(msg, "reward_range")
        return float(value[0]), float(value[1])

    def _items(self, value: Any, action: str) -> Items | None:
        if value is None:
            return None
        if isinstance(value, str):
            return Items(self._path(value, "items"), action)
        if not isinstance(value, dict) or "table" not in value:
            msg = "`items:` expects {table: FILE, key: COLUMN, embedding: [...]}"
            raise self.error(msg, "items")
        self._known(value, ("table", "key", "embedding"), "items")
        return Items(
            self._path(value["table"], "items", "table"),
            self._word(value.get("key", action), "items", "key"),
            self._words(value.get("embedding"), "items", "embedding"),
        )

    def _logging(self, value: Any) -> TargetPolicy | None:
        return None if value is None else self._policy(value, "logging")

    def _targets(self, value: Any) -> dict[str, TargetPolicy]:
        if not isinstance(value, dict) or not value:
            msg = f"`target:` expects one of {', '.join(FORMS)}"
            raise self.error(msg, "target")
        if any(key in FORMS for key in value):
            return {DEFAULT_TARGET: self._policy(value, "target")}
        if not all(isinstance(one, dict) for one in value.values()):
            key = next(key for key, one in value.items() if not isinstance(one, dict))
            told = f"unknown key '{key}'{did_you_mean(key, FORMS)}; known: {', '.join(FORMS)}"
            raise self.error(told, "target", key)
        return {name: self._policy(one, "target", name) for name, one in value.items()}

    def _policy(self, value: Any, *place: str) -> TargetPolicy:
        if not isinstance(value, dict):
            msg = f"`{place[-1]}:` expects one of {', '.join(FORMS)}"
            raise self.error(msg, *place)
        self._known(value, FORMS, *place)
        if len(value) != 1:
            told = (
                f"{len(value)} forms ({', '.join(value)}); give exactly one of {', '.join(FORMS)}"
            )
            raise self.error(told, *place)
        (form, given), *_ = value.items()
        if form == "table":
            return TargetPolicy(table=self._path(given, *place, form))
        if form == "policy":
            return TargetPolicy(predict=self._reference(given, *place, form))
        return TargetPolicy.of(cast(Form, form), self._word(given, *place, form))

    def _reference(self, value: Any, *place: str) -> str:
        path, _, name = str(value).rpartition(":")
        if not path.endswith(".py") or not name:
            msg = f"{value!r} is not FILE.py:NAME"
            raise self.error(msg, *place)
        return f"{self._path(path, *place)}:{name}"


def write_log_file(spec: LogSpec, path: Path) -> None:
    """Write a log file that `read_log_file` reads as the same log.

    Raises
    ------
    UsageError : the file cannot be written, or a part of the log is in memory, not in a file.
    """
    import yaml

    folder = path.parent

    def relative(value: Any) -> str:
        if not isinstance(value, str | Path):
            msg = f"{path}: a log file names files; {type(value).__name__} is in memory"
            raise UsageError(msg)
        return os.path.relpath(value, folder)

    def policy(one: TargetPolicy) -> dict[str, str]:
        value = one.value
        if one.form == "table":
            value = relative(value)
        if one.form == "policy":
            file, _, name = str(value).rpartition(":")
            value = f"{relative(file)}:{name}"
        return {one.form: str(value)}

    document: dict[str, Any] = {
        "schema": 1,
        "table": relative(spec.table),
        "context": list(spec.context),
        "categorical": list(spec.categorical or ()) or None,
        "action": spec.action,
        "reward": spec.reward,
        "reward_range": list(spec.reward_range) if spec.reward_range else None,
        "propensity": spec.propensity,
        "time": spec.time,
        "unit": spec.unit,
    }
    if spec.items is not None:
        items = {"table": relative(spec.items.table), "key": spec.items.key}
        document["items"] = items | (
            {"embedding": list(spec.items.embedding)} if spec.items.embedding else {}
        )
    if spec.logging is not None:
        document["logging"] = policy(spec.logging)
    targets = {name: policy(one) for name, one in spec.targets.items()}
    document["target"] = (
        targets.get(DEFAULT_TARGET) if list(targets) == [DEFAULT_TARGET] else targets
    )
    kept = {key: value for key, value in document.items() if value is not None}
    text = yaml.safe_dump(kept, sort_keys=False, allow_unicode=True, default_flow_style=None)
    with atomic_write(path, UsageError) as partial:
        partial.write_text(text, encoding="utf-8")
