"""A loaded log in a private folder, from which worker processes map it into memory."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ope_bench.contracts.schema import Column, Schema
from ope_bench.files import temporary_folder
from ope_bench.logs.reading.log_data import LogData
from ope_bench.logs.reading.targets import Target

__all__ = ["is_stored", "open_log", "stored_log"]

_ARRAYS = ("context", "action", "reward", "propensity", "embedding", "unit", "time")
_PARTS = ("data", "indices", "indptr")
_FACTS = "log.json"


@contextlib.contextmanager
def stored_log(log: LogData) -> Iterator[Path]:
    """Write a log into a folder that only this user can read, removed at the end."""
    with temporary_folder("ope-bench-log") as folder:
        for array in _ARRAYS:
            if (values := getattr(log, array)) is not None:
                np.save(folder / f"{array}.npy", np.asarray(values))
        targets = []
        for number, target in enumerate(log.targets.values()):
            targets.append({"name": target.name, "form": target.form, "number": number})
            for part in ("action", "probability"):
                if (values := getattr(target, part)) is not None:
                    np.save(folder / f"{number}-{part}.npy", values)
            _save_matrix(folder, str(number), target.matrix)
        _save_matrix(folder, "logging", log.logging)
        facts = {
            "actions": log.actions,
            "context_names": log.context_names,
            "context": [asdict(column) for column in log.schema.context],
            "items": [asdict(column) for column in log.schema.embedding],
            "reward_range": log.reward_range,
            "targets": targets,
        }
        (folder / _FACTS).write_text(json.dumps(facts))
        yield folder


def _save_matrix(folder: Path, name: str, matrix: sparse.csr_array | None) -> None:
    if matrix is not None:
        for part in _PARTS:
            np.save(folder / f"{name}-{part}.npy", getattr(matrix, part))


def is_stored(path: str | Path) -> bool:
    """Return whether a path is the folder of a stored log."""
    return (Path(path) / _FACTS).is_file()


@lru_cache(maxsize=1)
def open_log(folder: str) -> LogData:
    """Open a stored log; its arrays are read when used."""
    at = Path(folder)
    facts = json.loads((at / _FACTS).read_text())
    shape = len(np.load(at / "reward.npy", mmap_mode="r")), len(facts["actions"])
    targets = {
        one["name"]: Target(
            one["name"],
            one["form"],
            _array(at, f"{one['number']}-action"),
            _array(at, f"{one['number']}-probability"),
            _matrix(at, str(one["number"]), shape),
        )
        for one in facts["targets"]
    }
    arrays: dict[str, Any] = {name: _array(at, name) for name in _ARRAYS}
    return LogData(
        **arrays,
        schema=Schema(_columns(facts["context"]), _columns(facts["items"])),
        context_names=tuple(facts["context_names"]),
        actions=tuple(facts["actions"]),
        logging=_matrix(at, "logging", shape),
        targets=targets,
        reward_range=tuple(facts["reward_range"]) if facts["reward_range"] else None,
    )


def _array(folder: Path, name: str) -> Any:
    file = folder / f"{name}.npy"
    return np.load(file, mmap_mode="r").view(np.ndarray) if file.exists() else None


def _matrix(folder: Path, name: str, shape: tuple[int, int]) -> sparse.csr_array | None:
    parts = tuple(_array(folder, f"{name}-{part}") for part in _PARTS)
    return None if parts[0] is None else sparse.csr_array(parts, shape=shape)


def _columns(facts: list[dict[str, Any]]) -> tuple[Column, ...]:
    return tuple(Column(one["kind"], tuple(one["categories"])) for one in facts)
