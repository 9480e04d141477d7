"""Looking up a run or a trial by the beginning of its name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ope_bench.errors import StoreError

__all__ = ["only_name"]


def only_name(kind: str, prefix: str, names: Iterable[str], path: Path) -> str:
    """Return the one name that begins with ``prefix``, whatever its case.

    Parameters
    ----------
    kind : of the named things, for the message.
    prefix : the beginning, not empty.
    names : all names.
    path : of the store, for the message.

    Raises
    ------
    StoreError : no name begins so, or several do.
    """
    matches = [name for name in names if name.startswith(prefix.lower())]
    if len(matches) != 1 or not prefix:
        count = f"{len(matches)} {kind}s begin" if matches else f"no {kind} begins"
        msg = f"{count} with '{prefix}' in store {path}"
        raise StoreError(msg)
    return matches[0]
