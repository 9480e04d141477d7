"""The prepared data: counts and compressed features of every item, in one file."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from ope_bench import DataFileError, FloatArray, IntArray, UnavailableError
from ope_environments.behance.layout import WHERE_TO_GET
from ope_environments.behance.raw import Ids, Pairs

__all__ = ["Prepared", "count_appreciates", "load", "save"]

FORMAT = 1


@dataclass(frozen=True, eq=False)
class Prepared:
    """The prepared data; items are in the order of their ids.

    Parameters
    ----------
    item : (n_items,), ids
    counts : (2, n_items), appreciates by users who are no creators, and by creators
    embedding : (n_items, n_components), principal components of the features
    explained : (n_components,), share of the features' variance
    creator_share : share of the appreciates that come from creators
    label : source of the data, shown with every number
    """

    item: Ids
    counts: IntArray
    embedding: FloatArray
    explained: FloatArray
    creator_share: float
    label: str

    @property
    def fingerprint(self) -> str:
        """SHA-256 over all data, in hexadecimal."""
        state = hashlib.sha256(f"{FORMAT} {self.label} {self.creator_share!r}".encode())
        for array in (self.item, self.counts, self.embedding, self.explained):
            state.update(f"{array.dtype.str} {array.shape}".encode())
            state.update(np.ascontiguousarray(array).tobytes())
        return state.hexdigest()

    @property
    def tied(self) -> tuple[int, int]:
        """Number of items with the largest count, by context."""
        best = (self.counts == self.counts.max(axis=1, keepdims=True)).sum(axis=1)
        return int(best[0]), int(best[1])


def count_appreciates(item: Ids, appreciates: Pairs, owners: Pairs) -> tuple[IntArray, float]:
    """Count the appreciates of every item by context, and the creators' share of all.

    Parameters
    ----------
    item : (n_items,), sorted ids; appreciates of other items are left out.
    appreciates : pairs of user and item.
    owners : pairs of creator and item; a user with any creation is a creator.
    """
    creator = np.isin(appreciates.user, np.unique(owners.user))
    at = np.minimum(np.searchsorted(item, appreciates.item), len(item) - 1)
    known = item[at] == appreciates.item
    counts = np.stack(
        [np.bincount(at[known & chosen], minlength=len(item)) for chosen in (~creator, creator)]
    )
    return counts.astype(np.int64), float(creator.mean())


def save(prepared: Prepared, path: Path) -> None:
    """Write the file atomically.

    Raises
    ------
    DataFileError : the file cannot be written.
    """
    about = {
        "format": FORMAT,
        "label": prepared.label,
        "creator_share": prepared.creator_share,
        "fingerprint": prepared.fingerprint,
    }
    temporary = ""
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=".behance-", dir=path.parent)
        with os.fdopen(descriptor, "wb") as stream:
            np.savez_compressed(
                stream,
                about=np.array(json.dumps(about)),
                item=prepared.item,
                counts=prepared.counts,
                embedding=prepared.embedding,
                explained=prepared.explained,
            )
            stream.flush()
            os.fsync(stream.fileno())
        # Files of mkstemp are readable by their owner only.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except OSError as exc:
        raise DataFileError(path, f"cannot be written: {exc.strerror or exc}") from exc
    finally:
        if temporary:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)


def load(path: str) -> Prepared:
    """Read a prepared file, once per process as long as the file does not change.

    Raises
    ------
    UnavailableError : there is no such file.
    DataFileError : it is not a prepared file, or damaged.
    """
    try:
        facts = os.stat(path)
    except OSError as exc:
        msg = f"{path}: no prepared Behance file ({exc.strerror}); {WHERE_TO_GET}"
        raise UnavailableError(msg) from exc
    return _load(path, facts.st_mtime_ns, facts.st_size)


@lru_cache(maxsize=2)
def _load(path: str, _mtime: int, _size: int) -> Prepared:
    try:
        # numpy does not close a file that it opened and cannot read.
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
            about = json.loads(str(archive["about"]))
            if about["format"] != FORMAT:
                what = (
                    f"has format {about['format']}; this version reads {FORMAT}; prepare it again"
                )
                raise DataFileError(path, what)
            prepared = Prepared(
                archive["item"],
                archive["counts"],
                archive["embedding"],
                archive["explained"],
                float(about["creator_share"]),
                str(about["label"]),
            )
            fingerprint = about["fingerprint"]
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        AttributeError,
        EOFError,
        zipfile.BadZipFile,
        zlib.error,
    ) as exc:
        what = (
            f"is not a prepared Behance file, or damaged ({type(exc).__name__}: {exc});"
            " make it with `ope-bench data behance --from FOLDER`"
        )
        raise DataFileError(path, what) from exc
    if prepared.fingerprint != fingerprint:
        raise DataFileError(path, "its content does not match its fingerprint; prepare it again")
    return prepared
