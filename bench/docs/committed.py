"""What the site shows of committed results: the field's settings, boards of suites, defects."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from ope_bench.boards.board import Board as SettingBoard
from ope_bench.boards.tracks import Line, Track, log_ratios
from ope_bench.statistics.ranks import mean_interval

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"
FIGURES = ROOT / "build" / "figures"
"""Where `figures.py` draws those of committed suites."""
if str(RESULTS) not in sys.path:
    sys.path.append(str(RESULTS))

from judging.pages.leaderboard import BOARD, FIRST, board_settings, whole_lines  # noqa: E402
from judging.trials.committed import boards_of, folders_with_boards  # noqa: E402  of results/
from judging.trials.field import TRACKS, FieldSetting  # noqa: E402
from judging.trials.rows import rows_of  # noqa: E402

__all__ = [
    "BOARD", "FIGURES", "FIRST", "RESULTS", "ROOT", "TRACKS", "Board", "Line", "FieldSetting",
    "Track", "boards", "boards_of", "defects_of", "field", "folders_with_boards", "lines_of",
    "log_ratios", "mean_interval", "overlap",
    "rows_of",
]  # fmt: skip


@cache
def field() -> list[FieldSetting]:
    """Return the settings of the leaderboard, read once."""
    return board_settings(RESULTS)


@cache
def lines_of(track: Track) -> list[Line]:
    """Return the leaderboard of a track over strata of equal weights, best first."""
    return whole_lines(track, field())


def overlap(setting: FieldSetting) -> float | None:
    """Return the rows of the log over its largest weight; None where no policy is known."""
    value = setting.facts.get("world_rows_over_weight")
    return None if value is None or not np.isfinite(value) or value <= 0 else float(value)


@dataclass(frozen=True)
class Board:
    """A committed suite's rows on one environment.

    Parameters
    ----------
    suite : folder in results/, as ``paper/actions``.
    environment : its id.
    labels : of the settings.
    scores : by estimator's label, the score at each setting, NaN where it is not there.
    access, ids : by label, what it needs beyond samples, and the estimator's id.
    """

    suite: str
    environment: str
    labels: tuple[str, ...]
    scores: Mapping[str, np.ndarray]
    access: Mapping[str, frozenset[str]]
    ids: Mapping[str, str]

    def order(self, granted: frozenset[str] | None = None) -> list[tuple[str, float]]:
        """Return estimators, best first, with their error over the best's of each setting.

        Parameters
        ----------
        granted : what they may need beyond samples; None for anything. Estimators without an
            error at some setting are left out.
        """
        names = [one for one in self.scores if granted is None or self.access[one] <= granted]
        table = {one: self.scores[one] for one in names if np.isfinite(self.scores[one]).all()}
        if not table:
            return []
        errors = np.log(np.maximum(np.array(list(table.values())), 1e-12))
        means = (errors - errors.min(axis=0)).mean(axis=1)
        order = sorted(zip(table, means.tolist(), strict=True), key=lambda one: (one[1], one[0]))
        return [(name, float(np.exp(mean))) for name, mean in order]


SAMPLES = {"samples", "target_sample"}


@cache
def boards() -> tuple[Board, ...]:
    """Return the boards of all committed trials, by suite and environment."""
    found: list[Board] = []
    for folder in folders_with_boards(RESULTS):
        found += _boards_of(folder.relative_to(RESULTS).as_posix(), boards_of(folder))
    return tuple(found)


def _boards_of(suite: str, listed: Sequence[SettingBoard]) -> Iterator[Board]:
    by_environment: dict[str, list[SettingBoard]] = {}
    for board in listed:
        by_environment.setdefault(board.environment, []).append(board)
    for environment, its in by_environment.items():
        scores: dict[str, np.ndarray] = {}
        access: dict[str, frozenset[str]] = {}
        ids: dict[str, str] = {}
        for place, board in enumerate(its):
            for row in board.rows:
                if row.device != "cpu":
                    continue
                label = row.label
                values = scores.setdefault(label, np.full(len(its), np.nan))
                values[place] = np.nan if row.score is None else row.score
                access[label] = frozenset(row.access) - SAMPLES
                ids[label] = row.estimator
        labels = tuple(board.label for board in its)
        yield Board(suite, environment, labels, scores, access, ids)


def defects_of(names: set[str]) -> list[Mapping[str, str]]:
    """Return the rows of results/defects.md whose formula, or whose proof, names one of these."""
    lines = (RESULTS / "defects.md").read_text(encoding="utf-8").splitlines()
    rows = [line.strip("| \n").split(" | ") for line in lines if line.startswith("| ")]
    if not rows:
        return []
    head = rows[0]
    found: list[Mapping[str, str]] = []
    for row in rows[2:]:
        told = dict(zip(head, row, strict=False))
        words = set(re.findall(r"[\w-]+", f"{told['formula']} {told.get('shown by', '')}"))
        if words & names:
            found.append(told)
    return found
