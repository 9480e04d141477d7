"""The page of the suite ``propensities``: what faults of logs cost, and who survives them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from judging.pages.page import opening, table
from judging.trials.committed import labels_of
from judging.trials.rows import NORMAL_95, ends_of, rows_of
from ope_bench.contracts.arrays import FloatArray
from ope_environments.damaged.faults import DAMAGES

RESAMPLES = 2000
CLEAN = ("clean", "")
NAMES = tuple(name for name in DAMAGES if name != "propensity")
WEAKER_ABOVE = (
    "propensity: rounded",
    "propensity: monte-carlo",
    "propensity: draws-until",
    "retention",
)
"""Faults whose larger numbers are the milder ones."""

REFERENCE = "ipws"
SURVIVES = 1.25
"""Factor over its own error on clean logs up to which an estimator survives a fault."""

Fault = tuple[str, str]
"""Name and strength."""

Cells = Mapping[str, Mapping[Fault, Mapping[str, list[dict[str, Any]]]]]
"""Rows by world, fault and estimator, in the order of replicates."""


def fault_of(params: Mapping[str, Any], clean: Mapping[str, Any]) -> Fault:
    """Return what is wrong with a setting's logs: the only fault that differs from clean logs."""
    if params["propensity"] is not None:
        strength = "" if params["strength"] is None else f"{params['strength']:g}"
        return f"propensity: {params['propensity']}", strength
    for name in NAMES:
        # Trials of before a fault joined do not tell it.
        if params.get(name) != clean.get(name):
            beside = ", named" if params["named"] else ", weighted" if params["weighted"] else ""
            return f"{name}{beside}", f"{params[name]:g}"
    return CLEAN


def cells_of(folder: Path) -> tuple[Cells, list[str]]:
    """Read the trials; return them with the estimators in the order of the suite.

    Raises
    ------
    LookupError : there are none.
    """
    labels = labels_of(folder)
    rows, loads = rows_of(folder), cache(json.loads)
    clean = loads(rows[0]["environment_params"])
    cells: dict[str, dict[Fault, dict[str, list[dict[str, Any]]]]] = {}
    for row in sorted(rows, key=lambda one: one["replicate"]):
        params = loads(row["environment_params"])
        at = cells.setdefault(params["environment"], {})
        of_fault = at.setdefault(fault_of(params, clean), {})
        of_fault.setdefault(labels[row["estimator"], row["params"]], []).append(row)
    return cells, list(dict.fromkeys(labels.values()))


def _squares(rows: Sequence[Mapping[str, Any]]) -> FloatArray | None:
    """Squared errors, in the order of replicates; None where one failed."""
    if not rows or any(row["status"] != "ok" for row in rows):
        return None
    return np.square([row["estimate"] - row["truth_expected"] for row in rows])


def _coverage(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """Share of the 95 % intervals that hold the value; None without intervals."""
    ends = np.array([ends_of(row, NORMAL_95) for row in rows])
    if not rows or np.isnan(ends).any():
        return None
    truth = np.array([row["truth_expected"] for row in rows])
    return float(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean())


def propensities_page(results: Path) -> str:
    """Return the page of the folder results/propensities.

    Parameters
    ----------
    results : the folder results/.
    """
    cells, labels = cells_of(results / "propensities")
    faults = sorted({fault for world in cells.values() for fault in world}, key=_severity)
    shown = list(dict(faults).items())
    clean = {label: _over_reference(cells, CLEAN, label) for label in labels}
    labels = sorted(labels, key=lambda label: clean[label] or np.inf)
    parts = [
        opening("propensities", reference=REFERENCE, found=_found(cells, labels, shown)),
        _errors(cells, labels, shown),
        opening("propensities coverage"),
        _covered(cells, labels, shown),
        opening("propensities recipe", recipe=_recipe()),
        opening("propensities details"),
        *(_details(world, cells[world], labels, faults) for world in cells),
    ]
    return "\n\n".join(parts) + "\n"


def _severity(fault: Fault) -> tuple[int, str, float]:
    """Sort clean logs first, then propensities, then other faults; the mildest first."""
    name, strength = fault
    kind = name.partition(",")[0]
    place = 0 if fault == CLEAN else 1 if name.startswith("propensity") else 2 + NAMES.index(kind)
    number = float(strength or 0)
    return place, name, -number if kind in WEAKER_ABOVE else number


def _over(cells: Cells, fault: Fault, label: str, other: str) -> list[float]:
    """RMSE over that of another estimator on clean logs, in each world where both answered."""
    found = []
    for world in cells.values():
        square = _squares(world.get(fault, {}).get(label, []))
        clean = _squares(world[CLEAN].get(other, []))
        if square is not None and clean is not None:
            found.append(float(np.sqrt(square.mean() / clean.mean())))
    return found


def _over_reference(cells: Cells, fault: Fault, label: str) -> float | None:
    """RMSE over that of the reference on clean logs, geometric mean over worlds."""
    ratios = _over(cells, fault, label, REFERENCE)
    return float(np.exp(np.mean(np.log(ratios)))) if len(ratios) == len(cells) else None


def _found(cells: Cells, labels: Sequence[str], strongest: Sequence[Fault]) -> str:
    """Return in words who survives wrong propensities, and what nobody survives."""

    def survives(label: str, fault: Fault) -> bool:
        ratios = _over(cells, fault, label, label)
        return len(ratios) == len(cells) and max(ratios) <= SURVIVES

    wrong = [fault for fault in strongest if fault[0].startswith("propensity")]
    unhurt = [label for label in labels if all(survives(label, fault) for fault in wrong)]
    deadly = [
        " ".join(fault)
        for fault in strongest
        if fault != CLEAN and not any(survives(label, fault) for label in labels)
    ]
    return (
        f"At most {SURVIVES} times the error on clean logs, in both worlds and for every kind of "
        f"wrong or missing propensity: {_listed(unhurt)}. Nobody survives "
        f"{', '.join(deadly) or 'nothing alone'}."
    )


def _listed(labels: Sequence[str]) -> str:
    return ", ".join(f"`{label}`" for label in labels) or "nobody"


def _errors(cells: Cells, labels: Sequence[str], faults: Iterable[Fault]) -> str:
    """RMSE over that of the reference on clean logs, geometric mean over worlds; least in bold."""
    rows = []
    for fault in faults:
        found = {label: _over_reference(cells, fault, label) for label in labels}
        least = min(value for value in found.values() if value is not None)
        told = [
            "–" if value is None else f"**{value:.2f}**" if value == least else f"{value:.2f}"
            for value in found.values()
        ]
        rows.append([" ".join(fault).strip(), *told])
    return table(["logs", *(f"`{label}`" for label in labels)], rows, "lr", tight=True)


def _covered(cells: Cells, labels: Sequence[str], faults: Iterable[Fault]) -> str:
    """Coverage of 95 % intervals, mean over worlds; estimators without intervals are left out."""
    table_of: dict[Fault, dict[str, float]] = {}
    for fault in faults:
        for label in labels:
            shares = (_coverage(world.get(fault, {}).get(label, [])) for world in cells.values())
            known = [share for share in shares if share is not None]
            if len(known) == len(cells):
                table_of.setdefault(fault, {})[label] = float(np.mean(known))
    offered = [label for label in labels if label in table_of[CLEAN]]
    rows = [
        [
            " ".join(fault).strip(),
            *(f"{100 * of[label]:.0f}" if label in of else "–" for label in offered),
        ]
        for fault, of in table_of.items()
    ]
    return table(["logs", *(f"`{label}`" for label in offered)], rows, "lr", tight=True)


def _details(
    name: str,
    world: Mapping[Fault, Mapping[str, list[dict[str, Any]]]],
    labels: Sequence[str],
    faults: Iterable[Fault],
) -> str:
    """RMSE over that of the same estimator on clean logs, with a star where they differ."""
    rng = np.random.default_rng(0)
    n = len(world[CLEAN][labels[0]])
    drawn = rng.integers(n, size=(RESAMPLES, n))
    rows = []
    for fault in faults:
        if fault == CLEAN or fault not in world:
            continue
        told = []
        for label in labels:
            square = _squares(world[fault].get(label, []))
            clean = _squares(world[CLEAN].get(label, []))
            if square is None or clean is None:
                told.append("–")
                continue
            ratio = np.sqrt(square[drawn].mean(axis=1) / clean[drawn].mean(axis=1))
            low, high = np.quantile(ratio, [0.025, 0.975])
            star = "" if low <= 1 <= high else "*"
            told.append(f"{np.sqrt(square.mean() / clean.mean()):.2f}{star}")
        rows.append([" ".join(fault).strip(), *told])
    body = table(["logs", *(f"`{label}`" for label in labels)], rows, "lr", tight=True)
    return f"<details><summary>{name}</summary>\n\n{body}\n\n</details>"


def _recipe() -> str:
    """Exact bias of a weight whose propensity is counted, by propensity and way of counting."""
    from scipy.stats import binom

    draws = 1024
    hits = np.arange(draws + 1)
    rows = []
    for p in (0.1, 0.03, 0.01, 0.003):
        floored = float(binom.pmf(hits, draws, p) @ (p * draws / np.maximum(hits, 1)))
        rows.append([f"{p:g}", f"{100 * (floored - 1):+.1f} %", "0", f"{10 / p:,.0f}"])
    head = [
        "propensity",
        "K = 1,024 draws, at least one hit",
        "T draws until the 10th hit",
        "draws T, on average",
    ]
    return table(head, rows, "r", tight=True)
