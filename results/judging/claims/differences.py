"""Predicted differences of errors, by overlap and R2, and their verdict on sources opened later.

The difference of an estimator in a setting is the logarithm of its RMSE over that of `ipws`, over
the setting's data sets; the mean over the settings of a source is the source's. Predictions are
written by `results/draws/predictions.py` from committed trials, and the verdict from trials of
others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from judging.trials.rows import rows_of
from ope_bench.contracts.arrays import FloatArray

REFERENCE, AVERAGE = "ipws", "logging-average"
NAMED = ("dr-eb", "dm", "dr-os", "sndr")
"""Estimators whose difference to `ipws` is predicted."""

ORDERED = (*NAMED, AVERAGE)
"""Those of the order: the logged average, too."""

ADVISED = "dr-os"
"""What `ope-bench advise` recommends where propensities are known."""

SOURCES = {"choice": "worlds", "choice-real": "tables"}
"""Folders of the trials that predictions are made from. Randomized trials, whose value nobody has,
are left out: the error of their yardstick draws ratios to one."""

GOAL = (0.5, 1.5)
"""Calibration slopes that count as right."""

RIDGE = 1.0
"""Penalty of slopes in standard deviations of the facts, in sources."""


@dataclass(frozen=True)
class SettingErrors:
    """One setting: what its logs are like, and the log error of each estimator.

    Parameters
    ----------
    kind, source : worlds or tables; what is drawn as a whole.
    ess : median effective sample size of the logs.
    r2 : median out-of-fold R2 of the default reward model.
    errors : by estimator, logarithm of the RMSE.
    """

    kind: str
    source: str
    ess: float
    r2: float
    errors: Mapping[str, float]

    def difference(self, name: str) -> float:
        """Logarithm of the RMSE over that of the reference."""
        return self.errors[name] - self.errors[REFERENCE]


def base_of(dataset: str) -> str:
    """Return the base data set of a table: what is recoded from one set is one source.

    >>> base_of("keel:ecoli-0-1_vs_5"), base_of("keel:glass4"), base_of("keel:page-blocks0")
    ('ecoli', 'glass', 'page-blocks')
    """
    name = dataset.removeprefix("keel:")
    for base in BASES:
        if name.startswith(base):
            # Statlog's heart is a part of the Cleveland set.
            return "heart" if base == "cleveland" else base
    return name


BASES = (
    "abalone", "car", "cleveland", "dermatology", "ecoli", "flare", "glass", "kddcup", "kr-vs-k",
    "led7digit", "lymphography", "new-thyroid", "page-blocks", "poker", "segment", "shuttle",
    "vehicle", "vowel", "winequality", "yeast", "zoo",
)  # fmt: skip
"""Base sets of which the package has several recodings, or one with a suffix."""


def settings_of(path: Path, kind: str, worlds: int | None = None) -> list[SettingErrors]:
    """Read the settings of an export whose truth is exact, of the first drawn worlds if given.

    A failure counts with the larger of the errors of the logged average and `ipws`; data sets on
    which one of these two failed are left out, and so is a setting without others. An error counts
    as at least a tenth of the standard error of the logged average.
    """
    columns = [
        "environment_params", "estimator", "params", "replicate", "status", "estimate",
        "standard_error", "truth_expected", "diagnostics",
    ]  # fmt: skip
    cells: dict[str, dict[str, dict[int, dict[str, Any]]]] = {}
    for row in rows_of(path, *columns):
        if json.loads(row["params"]).get("toward", "sndr") == "sndr":
            its = cells.setdefault(row["environment_params"], {})
            its.setdefault(row["estimator"], {})[row["replicate"]] = row
    loaded = ((json.loads(text), its) for text, its in sorted(cells.items()))
    found = (
        _setting(kind, params, its)
        for params, its in loaded
        if worlds is None or params.get("world", 0) <= worlds
    )
    return [one for one in found if one is not None]


def _setting(
    kind: str, params: Mapping[str, Any], cells: Mapping[str, Mapping[int, Mapping[str, Any]]]
) -> SettingErrors | None:
    average, plain = cells[AVERAGE], cells[REFERENCE]
    usable = [k for k in sorted(average) if average[k]["status"] == plain[k]["status"] == "ok"]
    if not usable:
        return None
    truth = np.array([average[k]["truth_expected"] for k in usable])
    worst = np.maximum(
        *(np.abs([own[k]["estimate"] for k in usable] - truth) for own in (average, plain))
    )
    floor = 0.1 * np.mean([average[k]["standard_error"] or 0.0 for k in usable])
    errors = {}
    for name in (REFERENCE, *ORDERED):
        told = [cells[name][k] for k in usable]
        ok = np.array([one["status"] == "ok" for one in told])
        value = np.array([one["estimate"] for one in told], dtype=np.float64)
        each = np.where(ok, np.abs(value - truth), worst)
        root = float(np.sqrt(np.square(each).mean()))
        errors[name] = float(np.log(max(root, floor, 1e-12)))
    ess = [json.loads(plain[k]["diagnostics"])["effective_sample_size"] for k in usable]
    fits = [json.loads(cells["dr-eb"][k]["diagnostics"] or "{}") for k in usable]
    r2 = [one["reward_r2"] for one in fits if "reward_r2" in one]
    if not r2:
        return None
    world = params.get("world")
    source = base_of(params["dataset"]) if world is None else f"world {world}"
    return SettingErrors(kind, source, float(np.median(ess)), float(np.median(r2)), errors)


# Predictions: linear in two facts of the log, for each estimator.

Facts = Callable[[SettingErrors], list[float]]


def plain_facts(one: SettingErrors) -> list[float]:
    """Return overlap and signal: log10 of the effective sample size, and R2 cut to [0, 1]."""
    return [float(np.log10(max(one.ess, 1.0))), min(max(one.r2, 0.0), 1.0)]


def crossed_facts(one: SettingErrors) -> list[float]:
    """Return overlap, signal and their product."""
    overlap, signal = plain_facts(one)
    return [overlap, signal, overlap * signal]


def no_facts(one: SettingErrors) -> list[float]:
    """Return nothing: the prediction is a mean."""
    return []


FACTS: Mapping[str, Facts] = {"none": no_facts, "plain": plain_facts, "crossed": crossed_facts}


@dataclass(frozen=True)
class Model:
    """A prediction of differences.

    Parameters
    ----------
    facts : key of `FACTS`.
    weights : by estimator, the constant and a slope for each fact.
    """

    facts: str
    weights: Mapping[str, Sequence[float]]

    def difference(self, one: SettingErrors, name: str) -> float:
        """Predict an estimator's difference in a setting from its facts."""
        return float(np.dot(self.weights[name], [1.0, *FACTS[self.facts](one)]))

    def by_source(self, settings: Iterable[SettingErrors], name: str) -> dict[str, float]:
        """Predict the differences of sources."""
        return means_of((one.source, self.difference(one, name)) for one in settings)


def means_of(figures: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the mean figure of each source."""
    found: dict[str, list[float]] = {}
    for source, figure in figures:
        found.setdefault(source, []).append(figure)
    return {source: float(np.mean(one)) for source, one in sorted(found.items())}


def fitted(settings: Sequence[SettingErrors], facts: str) -> Model:
    """Fit by ridge regression: kinds weigh alike, and so do sources within a kind."""
    kinds = {one.kind: {x.source for x in settings if x.kind == one.kind} for one in settings}
    count = {source: sum(one.source == source for one in settings) for source in _names(settings)}
    weight = np.array([1 / (len(kinds[one.kind]) * count[one.source]) for one in settings])
    weight *= len(count) / weight.sum()
    rows = np.array([FACTS[facts](one) for one in settings]).reshape(len(settings), -1)
    center = weight @ rows / weight.sum()
    scale = np.sqrt(weight @ np.square(rows - center) / weight.sum())
    design = (rows - center) / np.where(scale > 0, scale, 1.0)
    weights = {}
    for name in ORDERED:
        target = np.array([one.difference(name) for one in settings])
        mean = float(weight @ target / weight.sum())
        gram = design.T @ (weight[:, None] * design) + RIDGE * np.eye(design.shape[1])
        slope = np.linalg.solve(gram, design.T @ (weight * (target - mean)))
        slope = slope / np.where(scale > 0, scale, 1.0)
        weights[name] = [mean - float(slope @ center), *slope.tolist()]
    return Model(facts, weights)


def _names(settings: Iterable[SettingErrors]) -> list[str]:
    return sorted({one.source for one in settings})


def left_out_errors(settings: Sequence[SettingErrors], kinds: Sequence[str], facts: str) -> float:
    """Return the root mean square error of predicted differences of tables, each left out in turn.

    Parameters
    ----------
    kinds : of the settings that the model is fitted to.
    facts : key of `FACTS`.
    """
    squares = []
    for source in _names(one for one in settings if one.kind == "tables"):
        its = [one for one in settings if one.source == source]
        others = [one for one in settings if one.source != source and one.kind in kinds]
        model = fitted(others, facts)
        for name in NAMED:
            found = np.mean([one.difference(name) for one in its])
            squares.append((found - model.by_source(its, name)[source]) ** 2)
    return float(np.sqrt(np.mean(squares)))


# The verdict.


@dataclass(frozen=True)
class Slope:
    """Slope of found on predicted differences, its 95 % interval by jackknife over sources."""

    value: float
    low: float
    high: float

    @property
    def reached(self) -> bool:
        """Whether the slope is within the goal."""
        return GOAL[0] <= self.value <= GOAL[1]


def calibration(predicted: FloatArray, found: FloatArray) -> Slope:
    """Return the least squares slope over sources and estimators.

    Parameters
    ----------
    predicted, found : (n_sources, n_estimators); a source is left out as a whole.
    """
    from scipy.stats import t

    def slope(kept: np.ndarray) -> float:
        x, y = predicted[kept].ravel(), found[kept].ravel()
        return float(((x - x.mean()) @ (y - y.mean())) / np.square(x - x.mean()).sum())

    n = len(predicted)
    value = slope(np.arange(n))
    each = np.array([slope(np.delete(np.arange(n), k)) for k in range(n)])
    error = float(np.sqrt((n - 1) / n * np.square(each - each.mean()).sum()))
    half = float(t.ppf(0.975, n - 1)) * error
    return Slope(value, value - half, value + half)


def regrets(
    settings: Sequence[SettingErrors], choice: Callable[[SettingErrors], str]
) -> dict[str, float]:
    """Return, by source, the error of a choice over that of the estimator that is best there.

    The best is that with the least mean log error over the settings of the source.
    """
    found = {}
    for source in _names(settings):
        its = [one for one in settings if one.source == source]
        best = min(np.mean([one.errors[name] for one in its]) for name in (REFERENCE, *ORDERED))
        own = np.mean([one.errors[choice(one)] for one in its])
        found[source] = float(np.exp(own - best))
    return found


def order_correlation(
    settings: Sequence[SettingErrors], scores: Callable[[SettingErrors, str], float]
) -> float:
    """Return the mean over sources of Spearman's correlation of scores with errors found.

    Over `ipws`, the named estimators and the logged average; a constant order has 0.
    """
    from scipy.stats import rankdata

    names = (REFERENCE, *ORDERED)
    told = []
    for source in _names(settings):
        its = [one for one in settings if one.source == source]
        left = rankdata(np.mean([[scores(one, name) for name in names] for one in its], axis=0))
        right = rankdata(np.mean([[one.errors[name] for name in names] for one in its], axis=0))
        told.append(
            float(np.corrcoef(left, right)[0, 1]) if np.ptp(left) and np.ptp(right) else 0.0
        )
    return float(np.mean(told))


TEXTBOOK = {AVERAGE: 1.0}
"""The textbook rule: self-normalized weights or a model before the logged average; ties else."""


def judged(document: Mapping[str, Any], settings: Sequence[SettingErrors]) -> dict[str, Any]:
    """Return the verdict on registered predictions by settings of sources that made none."""
    model = Model(document["facts"], document["weights"])
    naive = {key: Model(one["facts"], one["weights"]) for key, one in document["naive"].items()}
    sources = _names(settings)
    found = np.array([list(_found(settings, name).values()) for name in NAMED]).T
    tables = {
        key: np.array([list(one.by_source(settings, name).values()) for name in NAMED]).T
        for key, one in {"registered": model, **naive}.items()
    }
    tables["no difference"] = np.zeros_like(found)
    own = tables["registered"]

    def score(one: SettingErrors, name: str) -> float:
        return 0.0 if name == REFERENCE else model.difference(one, name)

    choices: dict[str, Callable[[SettingErrors], str]] = {
        f"always {ADVISED}": _always(ADVISED),
        "least predicted": lambda one: min(
            (REFERENCE, *ORDERED), key=lambda name: score(one, name)
        ),
        **{f"always {name}": _always(name) for name in (REFERENCE, *NAMED)},
    }
    pooled = calibration(own, found)
    pairs = {name: calibration(own[:, [k]], found[:, [k]]) for k, name in enumerate(NAMED)}
    costs = {key: regrets(settings, choice) for key, choice in choices.items()}
    return {
        "sources": len(sources),
        "settings": len(settings),
        "slope": {**vars(pooled), "reached": pooled.reached},
        "slopes": {
            f"{name}/{REFERENCE}": {**vars(one), "reached": one.reached}
            for name, one in pairs.items()
        },
        "errors": {
            key: float(np.sqrt(np.square(table - found).mean())) for key, table in tables.items()
        },
        "mean": {
            f"{name}/{REFERENCE}": [float(own[:, k].mean()), float(found[:, k].mean())]
            for k, name in enumerate(NAMED)
        },
        "order": {
            "registered": order_correlation(settings, score),
            "textbook": order_correlation(settings, lambda _, name: TEXTBOOK.get(name, 0.0)),
        },
        "regret": {
            key: {
                "median": float(np.median(list(each.values()))),
                "ninth": float(np.quantile(list(each.values()), 0.9)),
                "worst": max(each.values()),
                "where": max(each, key=lambda source: each[source]),
            }
            for key, each in costs.items()
        },
        "by_source": {
            source: {
                "settings": sum(one.source == source for one in settings),
                "predicted": own[k].tolist(),
                "found": found[k].tolist(),
                "regret": costs[f"always {ADVISED}"][source],
            }
            for k, source in enumerate(sources)
        },
    }


def _always(name: str) -> Callable[[SettingErrors], str]:
    return lambda _: name


def _found(settings: Sequence[SettingErrors], name: str) -> dict[str, float]:
    return means_of((one.source, one.difference(name)) for one in settings)
