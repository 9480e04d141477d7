"""Makers of built-in columns: one for each format, and one by the name of an attribute."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

from ope_bench.boards.columns.column import BoardColumn

__all__ = ["attribute", "count", "flag", "json_value", "number", "percent", "seconds", "text"]


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


def attribute(key: str, title: str, explanation: str, **facts: Any) -> BoardColumn:
    """Make a column of the attribute of a row that has the key's name; of numbers by default."""
    shown = {"value": attrgetter(key), "drop": None} | facts
    return BoardColumn(key=key, title=title, explanation=explanation, **shown)
