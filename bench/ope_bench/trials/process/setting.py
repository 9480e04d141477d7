"""One setting of the whole process: how it is read, and how it is put back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Setting", "difference_of"]


@dataclass(frozen=True)
class Setting:
    """A setting of the whole process.

    Parameters
    ----------
    name : what it is called in a note.
    read : returns its value, to be compared by ``==``.
    restore : sets it to a value that was read; None where nothing does.
    """

    name: str
    read: Callable[[], Any]
    restore: Callable[[Any], object] | None = None


def difference_of(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> set[Any]:
    """Return the keys that only one of two mappings has, or that they map differently."""
    return {
        key
        for key in one.keys() | other.keys()
        if key not in one or key not in other or one[key] != other[key]
    }
