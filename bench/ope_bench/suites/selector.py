"""Selectors of plugins: ``name``, ``name[a=1,grid=[2,3]]``, ``my.py:Class[...]``."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ope_bench.canonical import canonical_json
from ope_bench.contracts.parameters.declaration import signature
from ope_bench.errors import UsageError
from ope_bench.plugins.registry import registry
from ope_bench.plugins.spec import PluginSpec
from ope_bench.suites.yaml_document import load_flow

__all__ = [
    "Selector",
    "differing_params",
    "format_selector",
    "parse_selector",
    "selector_of",
]

_SHAPE = re.compile(r"(?P<reference>[^\[\]]+?)\s*(?:\[(?P<body>.*)\])?", re.DOTALL)
_NAME = re.compile(r"[^\W\d]\w*")
_CLOSING = {"]": "[", "}": "{"}


@dataclass(frozen=True)
class Selector:
    """A plugin's reference with the parameters that a user sets.

    Parameters
    ----------
    reference : an id, ``distribution:id`` or ``path.py:Class``.
    params : values by name; a list is a grid.
    label : value of ``as=``, empty by default.
    """

    reference: str
    params: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""


def parse_selector(text: str) -> Selector:
    """Read a selector; values are YAML in flow style.

    Raises
    ------
    UsageError : the text is no selector.

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
            msg = f"in {text!r}: parameter '{name}' is set twice"
            raise UsageError(msg)
        params[name] = load_flow(value.strip(), f"in {text!r}")
    label = params.pop("as", "")
    if not isinstance(label, str):
        msg = f"in {text!r}: as={label!r} is not text"
        raise UsageError(msg)
    return Selector(match["reference"], params, label)


def format_selector(reference: str, params: Mapping[str, Any]) -> str:
    """Format the selector of exactly one setting; `parse_selector` is its inverse.

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
    """Format a value as YAML in flow style; strings without quotes where they stay strings."""
    if isinstance(value, str) and _BARE.fullmatch(value) and not _RESERVED.fullmatch(value):
        return value
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json.dumps(k)}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_flow, value)) + "]"
    return json.dumps(value)


def _parts(body: str, text: str) -> Iterator[str]:
    """Split at commas outside brackets and quotes."""
    if not body.strip():
        return
    depth: list[str] = []
    quote, escaped = "", False
    start = 0
    for position, letter in enumerate(body):
        if escaped:
            escaped = False
        elif quote:
            # Backslash escapes work in double quotes only; two single quotes close and reopen.
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


def selector_of(spec: PluginSpec) -> str:
    """Return the shortest selector of a setting: its id with non-default parameters."""
    differing = differing_params(spec, registry().find(spec.kind, spec.reference).cls)
    if spec.worlds != "redrawn":
        differing["worlds"] = spec.worlds
    in_file = spec.reference.rpartition(":")[0].endswith(".py")
    return format_selector(spec.id if not in_file else spec.reference, differing)


def differing_params(spec: PluginSpec, cls: type) -> dict[str, Any]:
    """Return the parameters of a spec that differ from the defaults of its class."""
    defaults = {name: one.default for name, one in signature(cls).items()}
    return {
        name: value
        for name, value in spec.params.items()
        if not _is_default(value, defaults.get(name, inspect.Parameter.empty))
    }


def _is_default(value: object, default: object) -> bool:
    if default is inspect.Parameter.empty:
        return False
    try:
        return canonical_json(value) == canonical_json(default) or value == default
    except (TypeError, ValueError):
        return False
