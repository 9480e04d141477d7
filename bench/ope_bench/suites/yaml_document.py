"""A small, safe subset of YAML for suites and logs, with the line number of every value.

Scalars follow the core schema of YAML 1.2: ``1e3`` is a number, ``on`` and ``no`` are text.
Anchors, aliases, tags, merge keys, duplicate keys, several documents, deep nesting and large files
are refused, so that no input can expand, recurse or construct objects.

ruamel.yaml also gives line numbers and YAML 1.2, but would accept most of what is refused here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

from annotated_types import Ge, Le

from ope_bench.base.errors import SuiteError, did_you_mean

T = TypeVar("T")

MAX_BYTES = 256 * 1024
_MAX_DEPTH = 16
_MAX_DIGITS = 400

SchemaOne = Annotated[int, Ge(1), Le(1)]
"""The schema of a file; a literal 1 would be true as well."""

Place = tuple[str | int, ...]

_NULL = re.compile(r"~|null|Null|NULL|")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INF = re.compile(r"([-+]?)\.(?:inf|Inf|INF)")
_NAN = re.compile(r"\.(?:nan|NaN|NAN)")


@dataclass(frozen=True)
class Document:
    """A parsed file.

    Parameters
    ----------
    value : plain dicts, lists and scalars.
    source : the file's name, for messages.
    lines : line of the value at each path, from 1.
    """

    value: Any
    source: str
    lines: dict[Place, int] = field(default_factory=dict)

    def error(self, message: str, *path: str | int) -> SuiteError:
        """Return an error that names file and line of the value at ``path``.

        Parts of the path that are not in the file are skipped; an empty file has no line.
        """
        line = self.lines.get(self._known_path(path))
        return SuiteError(
            f"{self.source}:{line}: {message}" if line else f"{self.source}: {message}"
        )

    def _known_path(self, path: Sequence[str | int]) -> Place:
        known: Place = ()
        for part in path:
            known = (*known, part) if (*known, part) in self.lines else known
        return known

    def validate(self, cls: type[T], *, strict: bool = True) -> T:
        """Return the file's keys as a dataclass, validated by pydantic with its annotations.

        Parameters
        ----------
        cls : the dataclass.
        strict : whether a value must have its type; else 1e2 is an integer, and true is 1.

        Raises
        ------
        SuiteError : a key is unknown or missing, or a value is wrong.
        """
        from pydantic import ValidationError

        keys = fields(cls)  # type: ignore[arg-type]
        if not isinstance(self.value, dict):
            problem = "is empty" if self.value is None else "is not a mapping of keys"
            needed = [one.name for one in keys if one.default is one.default_factory is MISSING]
            msg = f"{problem}; it needs {', '.join(needed)}"
            raise self.error(msg)
        try:
            # By way of JSON: strict Python would need objects of the classes themselves.
            text = json.dumps(self.value)
            validated: T = _adapter(cast("Any", cls)).validate_json(text, strict=strict)
        except ValidationError as exc:
            # An unknown key is often a required one with a typing slip. Each member of a union
            # that does not match is a problem: the deepest one is what the user meant.
            order = {"unexpected_keyword_argument": 0, "missing": 1, "literal_error": 2}
            problems: Any = exc.errors(include_url=False)
            empty = [one["loc"][-1] for one in problems if one["input"] in ("", [])]
            worst: Any = min(
                problems,
                key=lambda one: (order.get(one["type"], 3), -len(self._known_path(one["loc"]))),
            )
            path = self._known_path(worst["loc"])
            said = _describe(worst, path, [one.name for one in keys])
            if worst["input"] in ("", []) and len(empty) > 1:
                said = f"{', '.join(f'`{one}:`' for one in empty)} have no value; add one to each"
            raise self.error(said, *path) from exc
        return validated


@cache
def _adapter(cls: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(cls)


@dataclass(frozen=True)
class JsonDocument(Document):
    """A parsed JSON text; its values have no lines, so messages name the path of keys."""

    def error(self, message: str, *path: str | int) -> SuiteError:
        """Return an error that names the file and the keys that lead to the value at ``path``."""
        place = "".join(f"{one}: " for one in (self.source, ".".join(map(str, path))) if one)
        return SuiteError(f"{place}{message}")

    def _known_path(self, path: Sequence[str | int]) -> Place:
        known, value = list[str | int](), self.value
        for part in path:
            try:
                value = value[part]
            except (LookupError, TypeError):
                continue
            known.append(part)
        return tuple(known)


def _refuse_constant(word: str) -> float:
    msg = f"{word} is no number of JSON"
    raise ValueError(msg)


def load_json(text: str, source: str) -> JsonDocument:
    """Parse a JSON text; ``source`` names it in messages.

    Raises
    ------
    SuiteError : it is no JSON, or nested too deeply.
    """
    try:
        return JsonDocument(json.loads(text, parse_constant=_refuse_constant), source)
    except (ValueError, RecursionError) as exc:
        reason = "nested too deeply" if isinstance(exc, RecursionError) else str(exc)
        msg = f"{source}: not valid JSON: {reason}; restore the file as it was written"
        raise SuiteError(msg) from exc


def _describe(problem: Any, path: Place, known: Sequence[str]) -> str:
    """Return pydantic's problem in the words of a file with keys."""
    kind, value = problem["type"], problem["input"]
    if kind == "json_invalid":  # half a pair of surrogates, or nested too deeply
        return f"{problem['ctx']['error']}; restore the file as it was written"
    name = str(problem["loc"][-1])
    if name == "schema":
        given = "is missing" if kind == "missing" else f"{value!r} is unknown to this version"
        return f"schema {given}; add `schema: 1`"
    if kind == "missing" and isinstance(problem["loc"][-1], int):
        return f"`{problem['loc'][-2]}:` has {name} values only; add the others"
    if kind == "missing":
        return f"`{name}:` is missing; add it"
    words = list(known)
    if kind != "unexpected_keyword_argument":
        expected = str(problem.get("ctx", {}).get("expected", ""))
        words = [word.strip(" '") for word in expected.replace(" or ", ",").split(",")]
    key = str(next((part for part in reversed(path) if isinstance(part, str)), ""))
    # pydantic calls the key of a mapping [key].
    if kind == "unexpected_keyword_argument" or name == "[key]":
        return f"unknown key '{key}'{did_you_mean(key, words)} (expected: {', '.join(words)})"
    if value is None or value in ("", []):
        return f"`{key}:` has no value; add one"
    hint = did_you_mean(value, words) if isinstance(value, str) else ""
    reason = problem["msg"][0].lower() + problem["msg"][1:]
    reason = reason.replace("input should be", "expected").replace("a valid array", "a list")
    reason = reason.replace("an object", "a mapping, {key: value}")
    return f"'{key}' = {value!r}: {reason}{hint}"


def load_file(path: Path) -> Document:
    """Parse a file.

    Raises
    ------
    SuiteError : the file cannot be read, or is not YAML of the accepted subset.
    """
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            # To open a pipe would wait for a writer.
            msg = f"cannot read suite {path}: a device or a pipe; expected a file"
            raise SuiteError(msg)
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as exc:
        msg = f"cannot read suite {path}: {exc.strerror or exc}"
        raise SuiteError(msg) from exc
    return load(content, str(path))


def load(content: bytes | str, source: str) -> Document:
    """Parse a text; ``source`` names it in messages.

    Raises
    ------
    SuiteError : not UTF-8, too large, or not YAML of the accepted subset.
    """
    if len(content) > MAX_BYTES:
        msg = f"{source}: larger than {MAX_BYTES // 1024} KiB, the limit for a suite"
        raise SuiteError(msg)
    text = content
    if isinstance(content, bytes):
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as exc:
            line = content[: exc.start].count(b"\n") + 1
            msg = f"{source}:{line}: not UTF-8 text (byte {exc.start})"
            raise SuiteError(msg) from exc
    from yaml import YAMLError

    lines: dict[Place, int] = {}
    try:
        loader = _loader_class()(text)
        loader.name = source
        value = _value(loader.get_node(), (), lines) if loader.check_node() else None
        if loader.check_node():
            second = loader.peek_event()
            raise _refusal(second, "a suite is one document; remove the second '---'")
    except YAMLError as exc:
        mark = getattr(exc, "problem_mark", None) or getattr(exc, "context_mark", None)
        problem = getattr(exc, "problem", None) or getattr(exc, "context", None)
        where = source if mark is None else f"{source}:{mark.line + 1}"
        msg = f"{where}: not valid YAML: {problem or str(exc).splitlines()[0]}"
        raise SuiteError(msg) from exc
    return Document(value, source, lines)


def load_flow(text: str, where: str) -> Any:
    """Parse one flow expression such as ``[10, 500]`` or ``{a: 1}``.

    Parameters
    ----------
    text : the expression, on one line.
    where : its name in messages.
    """
    if "\n" in text or "\r" in text:
        msg = f"{where}: write the value on one line"
        raise SuiteError(msg)
    # In a list, so that `a: b` or `- a` cannot start a block.
    try:
        document = load(f"[{text}]", where)
    except SuiteError as exc:
        reason = re.sub(r"^.*?:\d+: ", "", str(exc))
        msg = f"{where}: cannot read value {text!r}: {reason}"
        raise SuiteError(msg) from exc
    if not isinstance(document.value, list) or len(document.value) != 1:
        msg = f"{where}: {text!r} is not one value"
        raise SuiteError(msg)
    return document.value[0]


def _refusal(at: Any, message: str) -> SuiteError:
    """Return the error for an event or a node; its mark has the name of the source."""
    return SuiteError(f"{at.start_mark.name}:{at.start_mark.line + 1}: {message}")


@cache
def _loader_class() -> Any:
    """Return PyYAML's safe loader, which refuses while it reads what could expand or recurse."""
    from yaml import AliasEvent, SafeLoader

    class Loader(SafeLoader):
        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]
            if isinstance(event, AliasEvent) or event.anchor is not None:
                raise _refusal(event, "anchors and aliases (& and *) are not allowed")
            if event.tag is not None:
                raise _refusal(event, f"tags ({event.tag}) are not allowed")
            if self.depth > _MAX_DEPTH:
                raise _refusal(event, "nested too deeply")
            self.depth += 1
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    return Loader


def _value(node: Any, path: Place, lines: dict[Place, int]) -> Any:
    """Return the plain value of a node; note the line of each value in it."""
    lines[path] = node.start_mark.line + 1
    if node.id == "scalar":
        return _scalar(node)
    if node.id == "sequence":
        return [_value(item, (*path, index), lines) for index, item in enumerate(node.value)]
    entries: dict[str, Any] = {}
    for key_node, value_node in node.value:
        if key_node.id != "scalar":
            raise _refusal(key_node, "a key must be one word")
        key = _scalar(key_node)
        if not isinstance(key, str):
            raise _refusal(key_node, f"the key {key_node.value!r} is not text; quote it")
        if key == "<<":
            raise _refusal(key_node, "merge keys (<<) are not allowed")
        if key in entries:
            raise _refusal(key_node, f"the key '{key}' appears twice")
        entries[key] = _value(value_node, (*path, key), lines)
    return entries


def _scalar(node: Any) -> Any:
    text: str = node.value
    # Only plain scalars have no style; quoted ones and blocks are text.
    if node.style is not None:
        return text
    if _NULL.fullmatch(text):
        return None
    if _BOOL.fullmatch(text):
        return text.lower() == "true"
    # Python takes quadratic time for long integers, and refuses them by an error of its own.
    if len(text) > _MAX_DIGITS and _FLOAT.fullmatch(text):
        raise _refusal(node, "a number with so many digits is not allowed")
    if _INT.fullmatch(text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if match := _INF.fullmatch(text):
        return float(f"{match[1]}inf")
    return float("nan") if _NAN.fullmatch(text) else text
