"""Who may be best, a sentence a stratum of signal, and what tables opened later say of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from judging.claims.differences import NAMED, SettingErrors, means_of
from judging.claims.differences import settings_of as opened_settings
from judging.pages.leaderboard import FIRST, board_settings, by_kind, in_strata, ratio_of
from judging.pages.prediction import outcome, verdict_of
from judging.trials.field import TRACKS
from ope_bench.boards.tracks import Line, board_of, stratum_of
from ope_bench.statistics.ranks import mean_interval

SHOWN = 4
"""Estimators that a sentence names."""


def leaders(results: Path, *, short: bool = False) -> str:
    """Say in a line a stratum who may be best where propensities are known.

    The error of one of them is told on drawn worlds and on tables and trials, which can disagree:
    of the first that predictions are about, with its error on the tables that were opened after
    them; where there is none, of the first.
    """
    track = TRACKS[FIRST]
    opened = opened_settings(results / "predictions" / "opened.parquet", "tables")
    told = []
    for stratum, part in in_strata(track, board_settings(results)).items():
        lines = [line for line in board_of(track, part) if line.rank is not None]
        best = [line.estimator for line in lines if line.rank == 1]
        first = next((name for name in best if name in NAMED), best[0])
        worlds, tables = by_kind(track, part, first)
        if short:
            figures = f"`{first}` {ratio_of(worlds)} ({ratio_of(tables)})"
            told.append(f"- **{stratum}**: {figures}; {_how_many(len(best), len(lines))}")
            continue
        later = [one for one in opened if stratum_of(one.r2) == stratum and first in NAMED]
        came = f"; opened later: {_opened(later, first)}" if later else ""
        told.append(
            f"- **{stratum}**: {_may_be_best(best, len(lines))}; "
            f"`{first}` errs {_figure(worlds)} times as much as `{track.reference}` on "
            f"drawn worlds, {_figure(tables)} on tables and trials{came}"
        )
    return "\n".join(told)


def _may_be_best(best: Sequence[str], count: int) -> str:
    """Name the estimators that may be best, unless most of all may be."""
    if len(best) > max(SHOWN, count / 2):
        return _how_many(len(best), count)
    names = ", ".join(f"`{name}`" for name in best[:SHOWN])
    others = f" and {len(best) - SHOWN} others" if len(best) > SHOWN else ""
    return f"{names}{others} may be best"


def _how_many(best: int, count: int) -> str:
    return f"{best} of {count} may be best" if best < count else "no order is shown"


def leaders_block(results: Path, words: str) -> str:
    """Return what other pages show: what became of predictions, and a line a stratum."""
    told, lines = verdict_of(results), leaders(results, short=bool(words))
    return (
        f"Predictions of such figures, written down before {told['sources']} tables were opened, "
        f"[{outcome(told)}](results/predictions/README.md).\n\n{lines}"
    )


def _figure(line: Line | None) -> str:
    return f"{line.ratio:.2f} ({line.low:.2f} to {line.high:.2f})" if line else "–"


def _opened(settings: Sequence[SettingErrors], estimator: str) -> str:
    """Return an estimator's error over the reference's on opened tables."""
    logs = means_of((one.source, one.difference(estimator)) for one in settings)
    value, low, high = np.exp(mean_interval(np.array(list(logs.values()))))
    return f"{value:.2f} ({low:.2f} to {high:.2f}) on {len(logs)} tables"
