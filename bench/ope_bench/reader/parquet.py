"""Sizes that a Parquet file claims: Polars allocates them unasked, or aborts the process."""

from __future__ import annotations

import mmap
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any


def require_sizes(path: Path, columns: Collection[str]) -> None:
    """Refuse a file whose pages of some columns are not within it, or lack the values claimed.

    The numbers are those of the fields in `parquet.thrift`.
    """
    try:
        with (
            open(path, "rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            data.seek(-8 - int.from_bytes(data[-8:-4], "little"), os.SEEK_END)
            for group in _value(data, 12)[4]:
                for chunk in (one[3] for one in group[1] if one[3][3][0].decode() in columns):
                    data.seek(min(chunk[9], chunk.get(11) or chunk[9]))
                    left, fits = chunk[5], 0 <= group[3] <= chunk[5]
                    while fits and left > 0:
                        page = _value(data, 12)
                        count, words = (page.get(k, {1: 0})[1] for k in (8 if 8 in page else 5, 7))
                        fits = min(count, words, page[3], 8 * page[2] - words, left - count) >= 0
                        data.seek(page[3], os.SEEK_CUR)
                        left -= count
                    if left or not fits:
                        raise ValueError
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        msg = "the sizes in its headers do not fit; write it again"
        raise ValueError(msg) from None


def _value(data: mmap.mmap, kind: int) -> Any:
    """Return the next value of Thrift's compact protocol; kind 0 is a size."""
    if kind in (1, 2):
        return kind == 1
    if kind in (3, 7, 8):
        return data.read({3: 1, 7: 8}.get(kind) or _value(data, 0))
    if kind in (9, 10):
        head = data.read(1)[0]
        size = head >> 4 if head < 0xF0 else _value(data, 0)
        return [_value(data, max(head & 15, 3)) for _ in range(min(size, len(data)))]
    number = at = 0
    if kind == 12:
        found = {}
        while head := data.read(1)[0]:
            at = at + (head >> 4) if head >> 4 else _value(data, 4)
            found[at] = _value(data, head & 15)
        return found
    while (byte := data.read(1)[0]) > 127 and at < 63:
        number, at = number | (byte & 127) << at, at + 7
    number |= byte << at
    return number >> 1 ^ -(number & 1) if kind else number
