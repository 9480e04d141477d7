"""Records and boards of what is committed under results/."""

from __future__ import annotations

import json
import pickle
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import ope_bench
from judging.trials.rows import rows_of
from ope_bench.base.canonical import digest, sha256
from ope_bench.boards.board import Board, By
from ope_bench.boards.leaderboard import stream_boards
from ope_bench.outcomes import OF_STORE, Outcomes
from ope_bench.plugins.spec import PluginSpec, distinct_labels
from ope_bench.store import Store
from ope_bench.trials.record import TrialRecord

BOARDS = Path(__file__).resolve().parents[3] / "build" / "boards"
_HARNESS = Path(ope_bench.__file__).parent
_CODE = sorted(
    path
    for part in ("outcomes.py", "boards/*.py", "statistics/*.py", "trials/*.py", "plugins/*.py")
    for path in _HARNESS.glob(part)
)
ORDERS: dict[str, By] = {
    "density-ratio": "ratio",
    "intervals": "coverage",
    "intervals-models": "coverage",
}
"""Folders whose boards answer another question than RMSE."""


def records_of(folder: Path) -> list[TrialRecord]:
    """Return the committed records of a folder, by key."""
    with Store.open(folder / "trials.parquet") as store:
        return [*store.records()]


@cache
def boards_of(folder: Path) -> list[Board]:
    """Return the boards of the committed trials of a folder.

    They are kept in build/boards for as long as trials and the code of boards are the same: pages,
    the site and tests show them, and many tests of ties take minutes.
    """
    kept = BOARDS / f"{digest([*map(sha256, (folder / 'trials.parquet', *_CODE))])[:20]}.pickle"
    if kept.exists():
        found: list[Board] = pickle.loads(kept.read_bytes())  # noqa: S301  our own file
        return found
    with Store.open(folder / "trials.parquet") as store:
        # By column, in half the time of records.
        columns = map(_without_runs, store.outcomes())
        found = stream_boards(columns, by=ORDERS.get(folder.name, "rmse"))
    BOARDS.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=BOARDS, delete=False) as stream:
        pickle.dump(found, stream)
    Path(stream.name).replace(kept)
    return found


def _without_runs(outcomes: Outcomes) -> Outcomes:
    """Return outcomes that tell nothing of runs and machines, of which pages say nothing."""
    unknown: dict[str, Any] = dict.fromkeys(OF_STORE, np.full(len(outcomes), "", np.object_))
    return replace(outcomes, **unknown)


def folders_with_boards(results: Path) -> list[Path]:
    """Return the folders whose trials have boards; those of the field have one page together."""
    found = [path.parent for path in results.rglob("leaderboard.md")]
    return sorted(one for one in found if (one / "trials.parquet").exists())


def labels_of(folder: Path) -> dict[tuple[str, str], str]:
    """Return the names of rows on a folder's boards, by estimator and its parameters as text."""
    settings: dict[str, dict[tuple[str, str], PluginSpec]] = {}
    for row in rows_of(folder):
        of_setting = settings.setdefault(row["environment_params"], {})
        name = row["estimator"], row["params"]
        if name not in of_setting:
            params, label = json.loads(row["params"]), row["label"] or ""
            of_setting[name] = PluginSpec("estimator", "", row["estimator"], params, label=label)
    return {
        name: label
        for specs in settings.values()
        for name, label in zip(specs, distinct_labels([*specs.values()]), strict=True)
    }
