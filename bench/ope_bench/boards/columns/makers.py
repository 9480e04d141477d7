"""Makers of built-in columns, one for each format."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ope_bench.boards.columns.column import BoardColumn

__all__ = ["count", "flag", "json_value", "number", "percent", "seconds", "text"]


def number(
    key: str, title: str, explanation: str, value: Callable[[Any], Any], **facts: Any
) -> BoardColumn:
    """Make a column that its boards show also where it is empty; of numbers by default."""
    shown = {"hide_empty": False, "drop": None} | facts
    return BoardColumn(key=key, title=title, explanation=explanation, value=value, **shown)


percent = partial(number, format="percent")
seconds = partial(number, format="seconds")
count = partial(number, format="count")
text = partial(number, format="text")
flag = partial(number, format="flag")
json_value = partial(number, format="json")
