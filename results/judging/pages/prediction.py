"""Does the board predict? Registered differences on tables opened later, orders on trials."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from judging.claims.differences import base_of
from judging.claims.differences import settings_of as opened_settings
from judging.pages.leaderboard import BOARD
from judging.pages.page import opening, table
from judging.trials.field import TRACKS, FieldSetting, settings_of
from ope_bench.boards.tracks import Track
from ope_bench.contracts.arrays import FloatArray

AGAIN = "field-trials-again"
"""The same trials, on data sets that chose nothing."""

ANSWERS = 0.95
"""Share of the data sets of randomized trials that an estimator of the comparison answers."""

NORMAL_95 = 1.96

YARDSTICKS = Path("field-trials") / "yardsticks.json"

NAIVE = "mean of opened tables"
"""The naive prediction that the registered ones are compared with."""

PLAIN = frozenset(
    {
        "eipw", "epw", "es-ipw", "fepw", "group-ipw", "ipw", "ipw-re", "ipw-star", "ix-ipw",
        "learned-mips", "ls-ipw", "lse-ipw", "mips", "mr", "pc-ipw", "sg-ipw",
    }
)  # fmt: skip
"""Plain weighted sums: neither self-normalized nor with a reward model."""


@dataclass(frozen=True)
class Prediction:
    """Spearman's correlation of an order with the one on real rewards, with its 95 % interval.

    Parameters
    ----------
    value, low, high : the correlation.
    chosen : error of the order's first over that of the best there; NaN where it has no first.
    """

    value: float
    low: float
    high: float
    chosen: float


def textbook(estimator: str) -> int:
    """Return the level of the textbook rule, 0 the best.

    Self-normalized weights or a model come before the logged average, plain weights last.
    """
    if estimator == "logging-average":
        return 1
    return 2 if estimator in PLAIN else 0


def predicted(
    drawn_worlds: Sequence[FieldSetting], real: Sequence[FieldSetting], estimators: Sequence[str]
) -> Prediction:
    """Compare the order on drawn worlds with that on settings of randomized trials.

    Errors on trials are against the value in the rows that a log leaves, where it is known. The
    interval is by jackknife over worlds and over trials on Fisher's z: percentiles of a bootstrap
    add noise to means that are noisy already. Settings of one trial are averaged, trials count
    alike.
    """
    worlds, trials = drawn_scores(drawn_worlds, estimators), trial_scores(real, estimators)
    chosen = np.exp(trials.mean(axis=0)[worlds.mean(axis=0).argmin()] - trials.mean(axis=0).min())
    return Prediction(*_with_interval(worlds, trials), float(chosen))


def by_textbook(real: Sequence[FieldSetting], estimators: Sequence[str]) -> Prediction:
    """Compare the order of the textbook rule with that on settings of randomized trials."""
    levels = np.array([[float(textbook(name)) for name in estimators]])
    if not np.ptp(levels):
        return Prediction(*[float("nan")] * 4)
    return Prediction(*_with_interval(levels, trial_scores(real, estimators)), float("nan"))


def _with_interval(left: FloatArray, right: FloatArray) -> tuple[float, float, float]:
    """Return Spearman's correlation of mean scores, with its interval by jackknife over rows."""
    variance = 0.0
    for moved, fixed in ((left, right), (right, left)):
        n = len(moved)
        if n > 1:
            others = (moved.sum(axis=0) - moved) / (n - 1)
            each = _fisher(_spearman(others, np.tile(fixed.mean(axis=0), (n, 1))))
            variance += float((n - 1) * each.var())
    value = _spearman(left.mean(axis=0)[None], right.mean(axis=0)[None])
    half = NORMAL_95 * np.sqrt(variance)
    low, high = np.tanh(_fisher(value)[0] + np.array([-half, half])).tolist()
    return float(value[0]), low, high


def _spearman(left: FloatArray, right: FloatArray) -> FloatArray:
    from scipy.stats import rankdata

    # Sums in another order tie what is equal.
    return rank_correlation(*(rankdata(one.round(12), axis=1) for one in (left, right)))


def _fisher(value: FloatArray) -> FloatArray:
    found: FloatArray = np.arctanh(np.clip(value, -0.999999, 0.999999))
    return found


def drawn_scores(drawn_worlds: Sequence[FieldSetting], estimators: Sequence[str]) -> FloatArray:
    """Return centered log RMSE by world: (n_worlds, n_estimators)."""
    worlds = np.array([[one.log_rmse(name) for name in estimators] for one in drawn_worlds])
    centered: FloatArray = worlds - worlds.mean(axis=1, keepdims=True)
    return centered


def trial_scores(real: Sequence[FieldSetting], estimators: Sequence[str]) -> FloatArray:
    """Return centered log RMSE by trial, mean over its settings: (n_trials, n_estimators)."""
    by_trial: dict[str, list[FloatArray]] = {}
    for one in real:
        squares = np.array([np.square(one.errors_against_others(name)) for name in estimators])
        score = 0.5 * np.log(np.maximum(squares.mean(axis=1), 1e-24))
        by_trial.setdefault(one.source, []).append(score - score.mean())
    return np.array([np.mean(scores, axis=0) for scores in by_trial.values()])


def rank_correlation(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the correlations of rows of ranks: (n,)."""
    first, second = (rank - rank.mean(axis=1, keepdims=True) for rank in (left, right))
    root = np.sqrt(np.square(first).sum(axis=1) * np.square(second).sum(axis=1))
    found: FloatArray = (first * second).sum(axis=1) / root
    return found


def _comparable(
    track: Track, settings: Sequence[FieldSetting]
) -> tuple[list[FieldSetting], list[FieldSetting], list[str]]:
    """Return drawn worlds of a track, settings of randomized trials, and estimators of both."""
    inside = [one for one in settings if track.holds(one)]
    worlds = [one for one in inside if not one.real]
    real = [one for one in inside if one.trial and one.others is not None]
    estimators = [
        name
        for name in track.estimators(inside)
        if all(name in one.answers for one in [*worlds, *real])
        and np.concatenate([one.answers[name].failed for one in real]).mean() <= 1 - ANSWERS
    ]
    return worlds, real, estimators


def yardsticks_of(path: Path) -> dict[str, float]:
    """Return for each yardstick of made trials how its order agrees with that by the exact value.

    Parameters
    ----------
    path : what results/draws/yardsticks.py wrote.
    """
    told = json.loads(path.read_text(encoding="utf-8"))
    means = np.array(list(told["trials"].values())).mean(axis=0)  # (n_yardsticks, n_estimators)
    return {
        name: float(_spearman(means[:1], means[[k]])[0])
        for k, name in enumerate(told["yardsticks"][1:], 1)
    }


# The section of the page.


def verdict_of(results: Path) -> Mapping[str, Any]:
    """Return the verdict on the registered predictions."""
    path = results / "predictions" / "verdict.json"
    told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return told


def outcome(told: Mapping[str, Any]) -> str:
    """Return in words what became of the predictions: all pairs in the goal, less error or not."""
    reached = all(one["reached"] for one in (told["slope"], *told["slopes"].values()))
    return "came true" if reached and _beats_the_naive(told) else "failed"


def _beats_the_naive(told: Mapping[str, Any]) -> bool:
    return bool(told["errors"]["registered"] < told["errors"][NAIVE])


def prediction_sentence(results: Path) -> str:
    """Say in one sentence what was predicted, and what came."""
    told = verdict_of(results)
    slope, better = told["slope"], _beats_the_naive(told)
    within = sum(one["reached"] for one in told["slopes"].values())
    return (
        f"Predictions {outcome(told)}: of the differences to `ipws` by overlap "
        f"and R2, written down before {told['sources']} tables were opened, {within} of "
        f"{len(told['slopes'])} pairs have a slope of found on predicted within .5 to 1.5; over "
        f"all pairs it is {slope['value']:.2f} ({slope['low']:.2f} to {slope['high']:.2f}), and "
        f"they err {'less than' if better else 'no less than'} each pair's mean on tables opened "
        "before"
    )


def prediction_section(results: Path) -> str:
    """Return the section of the leaderboard's page."""
    told, settings = verdict_of(results), settings_of(results, BOARD)
    registered = json.loads(
        (results / "predictions" / "registered.json").read_text(encoding="utf-8")
    )
    rows = []
    for track in TRACKS:
        worlds, real, estimators = _comparable(track, settings)
        rows.append(_order_row(track.name, worlds, real, estimators))
    worlds, real, estimators = _comparable(TRACKS[1], settings)
    further = settings_of(results, (AGAIN,))
    quick = [name for name in estimators if all(name in one.answers for one in further)]
    rows.append(_order_row("the second track, further data sets", worlds, further, quick))
    sensible = [name for name in estimators if textbook(name) == 0]
    rows.append(_order_row("the second track, level 0 alone", worlds, real, sensible))
    head = ["estimators", "number", "Spearman", "textbook rule", "leader's error over the best's"]
    order, made = told["order"], [*yardsticks_of(results / YARDSTICKS).values()]
    regret = told["regret"][f"always {registered['advised']}"]
    facts = {
        "date": registered["date"],
        "trials": len({one.source for one in real}),
        "advised": registered["advised"],
        "median": f"{regret['median']:.2f}",
        "worst": f"{regret['worst']:.2f}",
        "where": regret["where"],
        "order": f"{order['registered']:.2f}",
        "order_textbook": f"{order['textbook']:.2f}",
        "left": f"{made[0]:.2f}",
        "inside": f"{made[1]:.2f}",
        "pairs": _pairs(told),
        "orders": table(head, rows, "lr", tight=True),
    }
    return opening("leaderboard predicts", **facts)


def predictions_page(results: Path) -> str:
    """Return the page of the registered predictions."""
    folder, told = results / "predictions", verdict_of(results)
    registered = json.loads((folder / "registered.json").read_text(encoding="utf-8"))
    suite = yaml.safe_load((folder / "unopened.yaml").read_text(encoding="utf-8"))
    names = suite["environments"][0]["multiclass"]["dataset"]
    missing = [name for name in names if base_of(name) not in told["by_source"]]
    sizes = [one.ess for one in opened_settings(folder / "opened.parquet", "tables")]
    rows = [[f"{name}", f"{error:.2f}"] for name, error in told["errors"].items()]
    facts = {
        "sentence": prediction_sentence(results),
        "date": registered["date"],
        "sources": told["sources"],
        "sets": told["data_sets"],
        "registered": len(names),
        "missing": ", ".join(f"`{name.removeprefix('keel:')}`" for name in missing),
        "least": f"{min(sizes):.0f}",
        "most": f"{max(sizes):.0f}",
        "errors": table(["prediction", "error"], rows, "lr", tight=True),
        "regrets": _regrets(told),
        "every": _sources(told),
    }
    return opening("predictions", **facts)


def _order_row(
    name: str,
    worlds: Sequence[FieldSetting],
    real: Sequence[FieldSetting],
    estimators: Sequence[str],
) -> list[str]:
    found, rule = predicted(worlds, real, estimators), by_textbook(real, estimators)
    level = "–" if np.isnan(rule.value) else f"{rule.value:.2f}"
    told = f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})"
    return [name, str(len(estimators)), told, level, f"{found.chosen:.2f}"]


def _pairs(told: Mapping[str, Any]) -> str:
    rows = []
    for pair, slope in told["slopes"].items():
        ours, found = told["mean"][pair]
        within = "yes" if slope["reached"] else "no"
        words = f"{slope['value']:.2f} ({slope['low']:.2f} to {slope['high']:.2f})"
        rows.append([f"`{pair}`", f"{np.exp(ours):.2f}", f"{np.exp(found):.2f}", words, within])
    head = ["pair", "ratio predicted", "ratio found", "slope over sources", "within the goal"]
    return table(head, rows, "lr", tight=True)


def _regrets(told: Mapping[str, Any]) -> str:
    rows = [
        [name, f"{one['median']:.2f}", f"{one['ninth']:.2f}", f"{one['worst']:.2f}", one["where"]]
        for name, one in told["regret"].items()
    ]
    return table(["choice", "median", "90 %", "worst", "where"], rows, "lrrrl", tight=True)


def _sources(told: Mapping[str, Any]) -> str:
    rows = []
    for source, one in told["by_source"].items():
        pairs = zip(one["predicted"], one["found"], strict=True)
        cells = [f"{np.exp(left):.2f} / {np.exp(right):.2f}" for left, right in pairs]
        rows.append([source, *cells, f"{one['regret']:.2f}"])
    head = ["table", *(f"`{pair}`" for pair in told["mean"]), "regret"]
    return table(head, rows, "lr", tight=True)
