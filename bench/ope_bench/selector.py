"""What a user writes for one plugin: ``name``, ``name[a=1,grid=[2,3]]``, ``my.py:Class[...]``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ope_bench.errors import UsageError
from ope_bench.yaml_loader import load_flow

__all__ = ["Selector", "format_selector", "parse_selector"]

_SHAPE = re.compile(r"(?P<reference>[^\[\]]+?)\s*(?:\[(?P<body>.*)\])?", re.DOTALL)
_NAME = re.compile(r"[^\W\d]\w*")
_CLOSING = {"]": "[", "}": "{"}


@dataclass(frozen=True)
class Selector:
    """A reference and what it sets.

    Parameters
    ----------
    reference : an id, ``distribution:id`` or ``path.py:Class``.
    params : by name; a list is a grid.
    label : from ``as=``, empty without.
    """

    reference: str
    params: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""


def parse_selector(text: str) -> Selector:
    """Read a selector; values are YAML in flow style.

    Raises
    ------
    UsageError : it cannot be read.

    >>> parse_selector("epws[classifier=[gbm,xgboost],clip=1e3]").params
    {'classifier': ['gbm', 'xgboost'], 'clip': 1000.0}
    """
    match = _SHAPE.fullmatch(text.strip())
    if match is None:
        msg = f"cannot read {text!r}; write name or name[parameter=value,grid=[a,b]]"
        raise UsageError(msg)
    params: dict[str, Any] = {}
    for part in _parts(match["body"] or "", text):
        name, equals, value = part.partition("=")
        name = name.strip()
        if not (equals and value.strip() and _NAME.fullmatch(name)):
            msg = f"in {text!r}: {part.strip()!r} is not parameter=value"
            raise UsageError(msg)
        if name in params:
            msg = f"in {text!r}: parameter '{name}' is there twice"
            raise UsageError(msg)
        params[name] = load_flow(value.strip(), f"in {text!r}")
    label = params.pop("as", "")
    if not isinstance(label, str):
        msg = f"in {text!r}: as={label!r} is not text"
        raise UsageError(msg)
    return Selector(match["reference"], params, label)


def format_selector(reference: str, params: Mapping[str, Any]) -> str:
    """The selector that names exactly one setting; `parse_selector` reads it back.

    >>> format_selector("epw", {"classifier": "gbm", "hidden": [64, 64], "clip": None})
    'epw[classifier=gbm,hidden=[[64,64]],clip=null]'
    """
    parts = []
    for name, value in params.items():
        text = _flow(value)
        parts.append(f"{name}=[{text}]" if isinstance(value, list | tuple) else f"{name}={text}")
    return f"{reference}[{','.join(parts)}]" if parts else reference


_BARE = re.compile(r"[A-Za-z_/][\w./+-]*", re.ASCII)
_RESERVED = re.compile(r"null|true|false", re.IGNORECASE)


def _flow(value: Any) -> str:
    """A value as YAML in flow style, words without quotes where they stay text."""
    if isinstance(value, str) and _BARE.fullmatch(value) and not _RESERVED.fullmatch(value):
        return value
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json.dumps(k)}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_flow, value)) + "]"
    return json.dumps(value)


def _parts(body: str, text: str) -> Iterator[str]:
    """The pieces between commas that stand outside brackets and quotes."""
    if not body.strip():
        return
    depth: list[str] = []
    quote, escaped = "", False
    start = 0
    for position, letter in enumerate(body):
        if escaped:
            escaped = False
        elif quote:
            # Only double quotes know the backslash; a doubled single quote closes and opens.
            escaped = quote == '"' and letter == "\\"
            quote = "" if letter == quote else quote
        elif letter in "\"'" and body[:position].rstrip()[-1:] in ("", *"=,[{:'"):
            quote = letter
        elif letter in "[{":
            depth.append(letter)
        elif letter in "]}":
            if not depth or depth.pop() != _CLOSING[letter]:
                msg = f"in {text!r}: brackets do not match"
                raise UsageError(msg)
        elif letter == "," and not depth:
            yield body[start:position]
            start = position + 1
    if quote or depth:
        msg = f"in {text!r}: {'a quote' if quote else 'a bracket'} is not closed"
        raise UsageError(msg)
    yield body[start:]
