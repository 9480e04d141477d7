"""The page of published tables: their numbers beside ours, with the errors of both."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from judging.page import opening, table
from judging.trials import rows_of
from ope_bench.contracts.arrays import FloatArray

LIMIT = 2.6
"""Standard errors of a difference up to which a cell counts as reproduced: one in a hundred."""

MEASURES = {
    "mse": ("mean square error", np.square, 1.0),
    "relative-ee": ("mean of |error| / |V|", np.abs, None),
}


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
    word, size, unit = MEASURES[told["measure"]]
    scale = told.get("scale", 1.0)
    found = _cells(folder)
    rows, same = [], 0
    for line in told["rows"]:
        for label, (value, error) in line["cells"].items():
            errors, truths = found[_setting(line["where"], found), label]
            each = scale * size(errors) / (1.0 if unit else np.abs(truths))
            ours, own = float(each.mean()), float(each.std(ddof=1) / math.sqrt(len(each)))
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
    return f"{title}.\n\n{table(head, rows, 'llrrrl')}", len(rows), same


def _setting(where: Mapping[str, Any], found: Mapping[tuple[str, str], Any]) -> str:
    """Return the setting whose parameters have these values.

    Raises
    ------
    LookupError : there is none, or more than one.
    """
    settings = {setting for setting, _ in found}
    fitting = [
        one for one in settings if all(json.loads(one)[name] == v for name, v in where.items())
    ]
    if len(fitting) != 1:
        msg = f"published.yaml: {len(fitting)} settings have {dict(where)}"
        raise LookupError(msg)
    return fitting[0]


def _cells(folder: Path) -> dict[tuple[str, str], tuple[FloatArray, FloatArray]]:
    """Return errors and truths of each setting and row name."""
    boards = json.loads((folder / "leaderboard.json").read_text(encoding="utf-8"))["boards"]
    labels = {
        (row["estimator"], json.dumps(row["params"], sort_keys=True)): row["label"]
        for board in boards
        for row in board["rows"]
    }
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in rows_of(folder):
        name = labels[row["estimator"], json.dumps(json.loads(row["params"]), sort_keys=True)]
        pair = row["estimate"] - row["truth_expected"], row["truth_expected"]
        found.setdefault((row["environment_params"], name), []).append(pair)
    arrays = {key: np.array(pairs) for key, pairs in found.items()}
    return {key: (pairs[:, 0], pairs[:, 1]) for key, pairs in arrays.items()}
