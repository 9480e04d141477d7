"""Writes a surrogate in the published files' own format."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from ope_bench import IntArray, stream
from ope_environments.behance.layout import (
    APPRECIATES,
    FEATURES,
    FIRST_SECOND,
    LAST_SECOND,
    OWNERS,
    RECORD,
    SURROGATE_MARK,
    WIDTH,
)
from ope_environments.behance.surrogate import Surrogate

__all__ = ["write_raw"]

ROWS = 1024


def write_raw(surrogate: Surrogate, folder: Path) -> None:
    """Write the three files, and a mark that they are a surrogate.

    Features come in an order of their own, and one appreciated item has none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rng = stream("behance writer", surrogate.label)
    seconds = np.sort(rng.integers(FIRST_SECOND, LAST_SECOND + 1, surrogate.appreciates.lines))
    events = zip(
        surrogate.appreciates.user.tolist(),
        surrogate.appreciates.item.tolist(),
        seconds.tolist(),
        strict=True,
    )
    _write_text(
        folder / APPRECIATES, [b"%d %s %d\n" % (user, item, at) for user, item, at in events]
    )
    owners = zip(surrogate.owners.item.tolist(), surrogate.owners.user.tolist(), strict=True)
    _write_text(folder / OWNERS, [b"%s %d\n" % (item, user) for item, user in owners])
    order = np.setdiff1d(np.arange(len(surrogate.item)), [surrogate.featureless])
    _write_features(folder / FEATURES, surrogate, rng.permutation(order))
    (folder / SURROGATE_MARK).write_text(surrogate.label + "\n", encoding="utf-8")


def _write_text(path: Path, lines: list[bytes]) -> None:
    # No time of writing in the archive: equal content gives equal bytes.
    with path.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as stream_:
        stream_.write(b"".join(lines))


def _write_features(path: Path, surrogate: Surrogate, order: IntArray) -> None:
    with path.open("wb") as stream_:
        for start in range(0, len(order), ROWS):
            chosen = order[start : start + ROWS]
            records = np.zeros(len(chosen), dtype=RECORD)
            records["id"] = surrogate.item[chosen]
            dense = np.zeros((len(chosen), WIDTH), dtype=np.float32)
            dense[:, surrogate.column] = surrogate.features[chosen]
            records["x"] = dense
            stream_.write(records.tobytes())
