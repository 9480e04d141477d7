"""The page of published tables: their numbers beside ours, with the errors of both."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from judging.pages.page import opening, table
from judging.trials.committed import labels_of
from judging.trials.rows import rows_of
from ope_bench.contracts.arrays import FloatArray
from ope_bench.plugins.registry import registry

Cells = dict[tuple[str, str], FloatArray]
"""(3, trials) errors, truths and lower ends, by setting and row name."""

LIMIT = 2.6
"""Standard errors of a difference up to which a cell counts as reproduced: one in a hundred."""

MEASURES: dict[str, tuple[str, Callable[[FloatArray, FloatArray, FloatArray], FloatArray]]] = {
    "mse": ("mean square error", lambda error, truth, low: np.square(error)),
    "ee": ("mean of |error|", lambda error, truth, low: np.abs(error)),
    "relative-ee": ("mean of |error| / |V|", lambda error, truth, low: np.abs(error / truth)),
    "radius": (
        "mean of (V - lower end) / V, 0 where the end is above V",
        lambda error, truth, low: np.maximum(truth - np.maximum(low, 0), 0) / truth,
    ),
}
"""Measure of each trial from its error, its truth and the lower end of its interval."""


def published_page(results: Path) -> str:
    """Return results/published.md.

    Parameters
    ----------
    results : the folder results/, with published.yaml and a folder for each suite it names.
    """
    told = yaml.safe_load((results / "published.yaml").read_text(encoding="utf-8"))
    sections, cells, same = [], 0, 0
    for one in told["tables"]:
        text, total, agree = _section(one, results / one["suite"])
        sections.append(text)
        cells, same = cells + total, same + agree
    missing = table(["published", "why not"], [[*row.values()] for row in told["missing"]])
    head = opening("published", cells=cells, same=same, limit=LIMIT)
    return "\n\n".join([head, *sections, "## Not here", missing]) + "\n"


def _section(told: Mapping[str, Any], folder: Path) -> tuple[str, int, int]:
    """Return a table's section, its number of cells, and how many are reproduced."""
    word, measure = MEASURES[told["measure"]]
    scale = told.get("scale", 1.0)
    found = _cells(folder)
    rows, same = [], 0
    for line in told["rows"]:
        for label, (value, error) in line["cells"].items():
            settings = _settings(line["where"], label, found)
            # Settings share seeds, so the spread is that of replicates' means over the settings.
            each = np.mean([scale * measure(*found[one, label]) for one in settings], axis=0)
            ours, spread = float(each.mean()), float(each.std(ddof=1))
            own = spread / math.sqrt(len(each))
            # A source that gives no error has so many logs a setting, drawn as ours are.
            error = spread / math.sqrt(told.get("logs", 1)) if error is None else error
            gap = (ours - value) / math.hypot(own, error)
            agrees = abs(gap) <= LIMIT
            same += agrees
            verdict = "reproduced" if agrees else line.get("why", {}).get(label, "differs")
            named = ", ".join(f"{name} {one}" for name, one in line["where"].items())
            pair = [f"{value:.3g} ± {error:.2g}", f"{ours:.3g} ± {own:.2g}", f"{gap:+.1f}"]
            rows.append([named, label, *pair, verdict])
    head = ["where", "estimator", "published", "ours", "z", ""]
    title = f"## {told['title']}\n\n{told['source']} Suite `{told['suite']}`, {word}"
    title += f" times {1 / scale:g}" if scale != 1 else ""
    cells = table(head, rows, "llrrrl")
    folded = (
        f"<details><summary>{same} of {len(rows)} reproduced</summary>\n\n{cells}\n\n</details>"
    )
    return f"{title}.\n\n{folded}", len(rows), same


def _settings(where: Mapping[str, Any], label: str, found: Cells) -> list[str]:
    """Return the settings of a row's name whose parameters have these values.

    Raises
    ------
    LookupError : there is none.
    """
    settings = [
        setting
        for setting, name in found
        if name == label and all(json.loads(setting)[key] == v for key, v in where.items())
    ]
    if not settings:
        msg = f"published.yaml: no setting of {label} has {dict(where)}"
        raise LookupError(msg)
    return settings


def _cells(folder: Path) -> Cells:
    """Return errors, truths and lower ends of each setting and row name."""
    labels = labels_of(folder)
    found: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for row in rows_of(folder):
        name = labels[row["estimator"], row["params"]]
        truth, low = row["truth_expected"], row.get("interval_low")
        trial = (row["estimate"] - truth, truth, np.nan if low is None else low)
        # A parameter that came later and has its default is not in a setting's key.
        cls: Any = registry().find("environment", row["environment"]).cls
        setting = json.dumps({**cls.added_parameters, **json.loads(row["environment_params"])})
        found.setdefault((setting, name), []).append(trial)
    return {key: np.array(trials).T for key, trials in found.items()}
