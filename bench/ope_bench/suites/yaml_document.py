"""A small, safe subset of YAML for suites, with the line number of every value.

Scalars follow the core schema of YAML 1.2: ``1e3`` is a number, ``on`` and ``no`` are text.
Anchors, aliases, tags, merge keys, duplicate keys, several documents, deep nesting and large files
are refused, so that no input can expand, recurse or construct objects.

ruamel.yaml also gives line numbers and YAML 1.2, but would accept most of what is refused here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ope_bench.errors import SuiteError

__all__ = ["MAX_BYTES", "Document", "load", "load_file", "load_flow"]

MAX_BYTES = 256 * 1024
MAX_DEPTH = 16
MAX_DIGITS = 400

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

        An empty file has no line.
        """
        while path not in self.lines and path:
            path = path[:-1]
        line = self.lines.get(path)
        return SuiteError(
            f"{self.source}:{line}: {message}" if line else f"{self.source}: {message}"
        )


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
    from yaml import SafeLoader, YAMLError

    builder = _Builder(source)
    text = content if isinstance(content, str) else _decoded(content, source)
    try:
        value = builder.build(_events(text, SafeLoader))
    except YAMLError as exc:
        raise SuiteError(_yaml_message(exc, source)) from exc
    except RecursionError as exc:
        msg = f"{source}: nested too deeply"
        raise SuiteError(msg) from exc
    return Document(value, source, builder.lines)


def _decoded(content: bytes, source: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = content[: exc.start].count(b"\n") + 1
        msg = f"{source}:{line}: not UTF-8 text (byte {exc.start})"
        raise SuiteError(msg) from exc


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


def _events(content: str, loader_class: Any) -> Iterator[Any]:
    loader = loader_class(content)
    try:
        while loader.check_event():
            yield loader.get_event()
    finally:
        loader.dispose()


def _yaml_message(exc: Any, source: str) -> str:
    mark = getattr(exc, "problem_mark", None) or getattr(exc, "context_mark", None)
    if mark is not None:
        where = f"{source}:{mark.line + 1}"
        problem = getattr(exc, "problem", None) or getattr(exc, "context", None)
        return f"{where}: not valid YAML: {problem or 'cannot be parsed'}"
    return f"{source}: not valid YAML: {str(exc).splitlines()[0]}"


class _Builder:
    """Build plain values from a stream of YAML events, with the line of each."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.lines: dict[Place, int] = {}
        self._events: Iterator[Any] = iter(())

    def build(self, events: Iterator[Any]) -> Any:
        from yaml import events as kinds

        self._events = events
        value: Any = None
        documents = 0
        for event in events:
            if isinstance(event, kinds.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self._refuse(event, "a suite is one document; remove the second '---'")
                value = self._value(next(events), ())
        return value

    def _value(self, event: Any, path: Place) -> Any:
        from yaml import events as kinds

        self.lines[path] = event.start_mark.line + 1
        if isinstance(event, kinds.AliasEvent) or event.anchor is not None:
            raise self._refuse(event, "anchors and aliases (& and *) are not allowed")
        if event.tag is not None:
            raise self._refuse(event, f"tags ({event.tag}) are not allowed")
        if len(path) > MAX_DEPTH:
            raise self._refuse(event, "nested too deeply")
        if isinstance(event, kinds.ScalarEvent):
            return self._scalar(event)
        if isinstance(event, kinds.SequenceStartEvent):
            return self._sequence(path)
        return self._mapping(path)

    def _sequence(self, path: Place) -> list[Any]:
        from yaml import events as kinds

        items: list[Any] = []
        while not isinstance(event := next(self._events), kinds.SequenceEndEvent):
            items.append(self._value(event, (*path, len(items))))
        return items

    def _mapping(self, path: Place) -> dict[str, Any]:
        from yaml import events as kinds

        entries: dict[str, Any] = {}
        while not isinstance(event := next(self._events), kinds.MappingEndEvent):
            if not isinstance(event, kinds.ScalarEvent):
                raise self._refuse(event, "a key must be one word")
            key = self._value(event, (*path, "(key)"))
            del self.lines[(*path, "(key)")]
            if not isinstance(key, str):
                raise self._refuse(event, f"the key {event.value!r} is not text; quote it")
            if key == "<<":
                raise self._refuse(event, "merge keys (<<) are not allowed")
            if key in entries:
                raise self._refuse(event, f"the key '{key}' appears twice")
            entries[key] = self._value(next(self._events), (*path, key))
        return entries

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        # implicit[0]: a plain scalar, neither quoted nor a block.
        if not event.implicit[0]:
            return text
        if _NULL.fullmatch(text):
            return None
        if _BOOL.fullmatch(text):
            return text.lower() == "true"
        if len(text) > MAX_DIGITS and _FLOAT.fullmatch(text):
            raise self._refuse(event, "a number with so many digits is not allowed")
        if _INT.fullmatch(text):
            return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
        if _FLOAT.fullmatch(text):
            return float(text)
        if match := _INF.fullmatch(text):
            return float(f"{match[1]}inf")
        return float("nan") if _NAN.fullmatch(text) else text

    def _refuse(self, event: Any, message: str) -> SuiteError:
        return SuiteError(f"{self.source}:{event.start_mark.line + 1}: {message}")
