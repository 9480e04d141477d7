"""Pages of ``ranking``, ``loggers``, ``drift``: RMSE of estimators over the best of a setting."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from judging.pages.page import opening, table
from judging.trials.committed import labels_of
from judging.trials.rows import rows_of
from ope_bench.contracts.arrays import FloatArray

RESAMPLES = 1000
SUFFICES = 1.25
"""Factor over the best of a setting up to which an estimator suffices there."""

BIASED = 0.5
"""Share of the squared error that is bias from which an estimator counts as biased."""

ALWAYS = {"ranking": "clicks", "loggers": "loggers", "drift": "trend season"}
"""The parameters that every setting of a suite is named by."""

Z = 1.959964
"""Quantile of the normal interval."""

PER_SLOT = ("iips", "sn-ipm", "dr", "dm", "interpol")
"""Estimators that know of a list no more than each item at its slot."""

Errors = Mapping[str, Mapping[str, FloatArray]]
"""Errors by setting and estimator, in the order of replicates."""


def settings_page(results: Path, suite: str) -> str:
    """Return the page of one suite.

    Parameters
    ----------
    results : the folder results/.
    suite : ``ranking``, ``loggers`` or ``drift``.
    """
    errors = errors_of(results / suite, ALWAYS[suite])
    found = {"ranking": found_ranking, "loggers": found_loggers, "drift": found_drift}[suite]
    facts = {"found": found(errors), "errors": ratios(errors), "bias": biases(errors)}
    if suite == "drift":
        facts["coverage"] = coverage(errors, errors_of(results / suite, ALWAYS[suite], held=True))
    return f"{opening(suite, **facts)}\n"


def errors_of(folder: Path, always: str, *, held: bool = False) -> Errors:
    """Read the trials: errors of the estimators that answered every data set of a setting.

    Parameters
    ----------
    folder : of the suite.
    always : the parameters that every setting is named by.
    held : return errors over their standard errors instead, of those that have one.
    """
    labels = labels_of(folder)
    loads = cache(json.loads)
    rows = sorted(rows_of(folder), key=lambda row: row["replicate"])
    settings = {row["environment_params"]: loads(row["environment_params"]) for row in rows}
    name = {
        text: setting_name(one, list(settings.values()), always) for text, one in settings.items()
    }
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        label = labels[row["estimator"], row["params"]]
        answered = row["status"] == "ok"
        error = row["estimate"] - row["truth_expected"] if answered else np.nan
        if held:
            error = error / row["standard_error"] if row["standard_error"] else np.nan
        found.setdefault(name[row["environment_params"]], {}).setdefault(label, []).append(error)
    return {
        setting: {
            label: np.array(values) for label, values in of.items() if np.isfinite(values).all()
        }
        for setting, of in sorted(found.items())
    }


def setting_name(
    params: Mapping[str, Any], every: Sequence[Mapping[str, Any]], always: str
) -> str:
    """Name a setting by some parameters, and by others that differ from their usual values."""
    first = always.split()
    parts = [_shown(params[one]) if len(first) == 1 else f"{one} {params[one]:g}" for one in first]
    for key in params:
        counts = Counter(json.dumps(one.get(key)) for one in every)
        if (
            key not in (*first, "n_samples")
            and json.dumps(params[key]) != counts.most_common(1)[0][0]
        ):
            parts.append(f"{key} {_shown(params[key])}")
    return ", ".join(parts)


def _shown(value: Any) -> str:
    return " ".join(f"{one:g}" for one in value) if isinstance(value, list) else str(value)


def rmse(errors: FloatArray) -> float:
    """Root mean square."""
    return float(np.sqrt(np.square(errors).mean()))


def in_order(errors: Errors) -> list[str]:
    """Return the estimators by their geometric mean ratio to the best of each setting."""
    mean: dict[str, list[float]] = {}
    for of in errors.values():
        least = min(map(rmse, of.values()))
        for label, values in of.items():
            mean.setdefault(label, []).append(np.log(rmse(values) / least))
    return sorted(mean, key=lambda label: float(np.mean(mean[label])))


def tied(values: FloatArray, best: FloatArray) -> bool:
    """Return whether the 95 % interval of a ratio of RMSE, by resampled data sets, holds 1."""
    drawn = np.random.default_rng(0).integers(len(best), size=(RESAMPLES, len(best)))
    ratio = np.square(values[drawn]).mean(axis=1) / np.square(best[drawn]).mean(axis=1)
    return bool(np.quantile(ratio, 0.025) <= 1)


def ratios(errors: Errors) -> str:
    """RMSE over the least of each setting; in bold those that are not told from it."""
    labels, rows = in_order(errors), []
    for setting, of in errors.items():
        best = min(of.values(), key=rmse)
        told = [
            "–"
            if label not in of
            else ("**{:.2f}**" if tied(of[label], best) else "{:.2f}").format(
                rmse(of[label]) / rmse(best)
            )
            for label in labels
        ]
        rows.append([setting, *told])
    return table(["setting", *(f"`{label}`" for label in labels)], rows, "lr", tight=True)


def biases(errors: Errors) -> str:
    """Percent of the mean squared error that is the square of the mean error."""
    labels, rows = in_order(errors), []
    for setting, of in errors.items():
        told = [f"{100 * bias_share(of[one]):.0f}" if one in of else "–" for one in labels]
        rows.append([setting, *told])
    return table(["setting", *(f"`{label}`" for label in labels)], rows, "lr", tight=True)


def bias_share(errors: FloatArray) -> float:
    """Return the share of the squared error that is bias, less what noise alone gives."""
    n, square = len(errors), float(np.square(errors).mean())
    bias = float(errors.mean()) ** 2 - float(errors.var(ddof=1)) / n
    return max(0.0, bias) / square if square > 0 else 0.0


def best_of(errors: Errors, prefix: str) -> tuple[str, float]:
    """Return the estimator of the least geometric mean ratio over some settings, and that mean."""
    some = {setting: of for setting, of in errors.items() if setting.startswith(prefix)}
    shared = set.intersection(*(set(of) for of in some.values()))
    mean = {
        label: float(
            np.mean(
                [np.log(rmse(of[label]) / min(map(rmse, of.values()))) for of in some.values()]
            )
        )
        for label in sorted(shared)
    }
    least = min(mean, key=lambda label: mean[label])
    return least, float(np.exp(mean[least]))


def found_ranking(errors: Errors) -> str:
    """Say who errs least under each click model, and where single slots suffice."""
    lines = []
    for clicks in dict.fromkeys(setting.split(",")[0] for setting in errors):
        label, mean = best_of(errors, clicks)
        some = {setting: of for setting, of in errors.items() if setting.startswith(clicks)}
        enough, biased = 0, []
        for of in some.values():
            least = min(map(rmse, of.values()))
            enough += any(rmse(of[one]) <= SUFFICES * least for one in PER_SLOT if one in of)
        for one in ("iips", "sn-ipm", "pbm-ipw examination=reciprocal", "interpol", "pi"):
            shares = [bias_share(of[one]) for of in some.values() if one in of]
            if shares and max(shares) >= BIASED:
                biased.append(f"`{one}`")
        lines.append(
            f"- **{clicks}**: `{label}` errs least over all settings ({mean:.2f} times the best "
            f"of each, on average). Estimators of items at their own slots come within "
            f"{SUFFICES} times the best in {enough} of {len(some)} settings. Half or more of the "
            f"squared error is bias somewhere: {', '.join(biased) or 'of none asked'}."
        )
    return "\n".join(lines)


def found_loggers(errors: Errors) -> str:
    """Say what knowing the loggers buys, as ratios of RMSE over all settings."""
    pairs = (
        ("balanced-ipw", "ipw"),
        ("weighted-ipw", "ipw"),
        ("multi-dr", "dr"),
        ("blue", "multi-dr"),
    )
    lines = []
    for one, other in pairs:
        logs = [
            np.log(rmse(of[one]) / rmse(of[other]))
            for of in errors.values()
            if {one, other} <= set(of)
        ]
        if not logs:
            continue
        worse = sum(value > 0 for value in logs)
        lines.append(
            f"- `{one}` errs {np.exp(np.mean(logs)):.2f} times as much as `{other}` (on average; "
            f"{np.exp(min(logs)):.2f} to {np.exp(max(logs)):.2f}; more in {worse} of {len(logs)} "
            "settings)."
        )
    label, mean = best_of(errors, "")
    lines.append(f"- `{label}` errs least over all settings: {mean:.2f} times the best of each.")
    return "\n".join(lines)


def found_drift(errors: Errors) -> str:
    """Say who errs least under each kind of drift, beside `dr` of the whole log and of its end."""
    lines = []
    for setting, of in errors.items():
        best = min(of, key=lambda label: rmse(of[label]))
        others = [
            f"`{one}` {rmse(of[one]) / rmse(of[best]):.1f} times as much"
            for one in sorted(of)
            if one.startswith("dr") and one != best
        ]
        lines.append(
            f"- **{setting}**: `{best}` errs least ({rmse(of[best]):.2f}), {', '.join(others)}."
        )
    return "\n".join(lines)


def coverage(errors: Errors, scores: Errors) -> str:
    """Percent of the data sets whose normal 95 % interval holds the value."""
    labels, rows = in_order(errors), []
    for setting, of in scores.items():
        told = [
            f"{100 * np.mean(np.abs(of[one]) < Z):.0f}" if one in of else "–" for one in labels
        ]
        rows.append([setting, *told])
    return table(["setting", *(f"`{label}`" for label in labels)], rows, "lr", tight=True)
