"""The recommended estimator and its interval, by the rule in results/choice-rule.md."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from judging.pages.page import opening, table
from judging.trials.field import TRACKS, settings_of
from judging.trials.rows import rows_of
from ope_bench.contracts.arrays import FloatArray
from ope_bench.logs.recommendation import LEAST_EFFECTIVE, LEAST_LOGS, LEAST_REWARDED, NORMAL_95
from ope_bench.statistics.coverage import wilson
from ope_bench.statistics.ranks import mean_interval

FOLDERS = {"choice": "world", "choice-real": "table", "choice-trials": "trial"}
FRESH = {"choice-fresh": "worlds 101 to 200", "choice-confirm": "worlds 201 to 500"}
"""Worlds that were drawn for the guard, which chose nothing of what is recommended."""

AVERAGE_ERRORS = "average-errors.json"
"""Standard errors of the logged mean, which `results/draws/average_errors.py` writes."""

AVERAGE, REFERENCE = "logging-average", "ipws"
STRATA = ("weak", "middle", "strong")
WEAK, STRONG = 0.05, 0.25
NEAR, MARGIN = 0.01, 0.03
"""Criteria that count as equal, and by how much a combination must be lower."""

SHRUNK, TOWARD = "dr-eb", "dr-eb[toward=tmle]"
SINGLE = ("dm", "dr-os", "sndr", "tmle", SHRUNK, TOWARD)
BEST_OF = ("ipws", "sndr", "dm", "dr-os")
COMBINED: Mapping[str, Callable[[Mapping[str, FloatArray]], FloatArray]] = {
    "mean of dr-eb, dr-os": lambda of: (of[SHRUNK] + of["dr-os"]) / 2,
    "mean of dr-eb[toward=tmle], dr-os": lambda of: (of[TOWARD] + of["dr-os"]) / 2,
    "median of dm, dr-os, sndr": lambda of: np.median([of["dm"], of["dr-os"], of["sndr"]], axis=0),
    "median of all six": lambda of: np.median([of[name] for name in SINGLE], axis=0),
}

GUARDED, GUARDS = "dr-os", {"guard of 1.96": 1.96, "guard of 1": 1.0}
"""Standard errors of `ipws` by which a guarded value may differ from that of `ipws`."""

REWARDED, EFFECTIVE = (0.0, 10.0, 20.0, 50.0, 200.0), (30.0, 100.0, 500.0)
CONSTANTS = np.round(np.arange(0.6, 1.51, 0.1), 1)
LEVEL, HOLDS = 0.96, 0.93
"""Share of the odd worlds' logs that the constant is to hold, and that of a cell that holds."""

SELECTORS = {"dm": "dm[cross_fit=5]"}
"""Selectors of estimators that do not run at their defaults."""

ERRORS = ("sndr", SHRUNK)
"""Estimators whose larger standard error is s; that of `dr-eb` is not below `residual_error`."""

WITHHELD = 0.85
"""Coverage on clean drawn worlds under which an estimator's own interval is withheld."""

SAMPLES_PANEL = ("dm-star", "edm-star", "epws", "riesz")
"""Estimators that `advise` runs beside the recommended one where samples are all there is."""


@dataclass(frozen=True)
class Case:
    """One setting: its logs, and what each estimator said of them.

    Parameters
    ----------
    kind, source, number : world, table or trial; its name, and the world's number.
    signal : median out-of-fold R2 of the default reward model.
    truth : (k,), the values.
    values : by name, (k,).
    floor : least error that counts.
    """

    kind: str
    source: str
    number: int | None
    signal: float | None
    truth: FloatArray
    values: Mapping[str, FloatArray]
    floor: float

    @property
    def stratum(self) -> str | None:
        """Weak, middle or strong signal."""
        if self.signal is None:
            return None
        return STRATA[int(self.signal >= WEAK) + int(self.signal > STRONG)]

    def log_error(self, name: str) -> float:
        """Logarithm of the root mean square error."""
        square = float(np.square(self.values[name] - self.truth).mean())
        return math.log(max(math.sqrt(square), self.floor, 1e-12))

    def ratio(self, name: str) -> float:
        """Logarithm of the error over that of `ipws`."""
        return self.log_error(name) - self.log_error(REFERENCE)


def estimator_of(row: Mapping[str, Any]) -> str:
    """Return the name of a trial's estimator."""
    toward = json.loads(row["params"]).get("toward", "sndr")
    return str(row["estimator"]) + ("" if toward == "sndr" else f"[toward={toward}]")


@cache
def cases(results: Path, folders: Sequence[str] = tuple(FOLDERS)) -> tuple[Case, ...]:
    """Read all settings of the choice, or of other suites of worlds.

    Raises
    ------
    LookupError : trials are missing.
    """
    found = []
    for folder in folders:
        kind = FOLDERS.get(folder, "world")
        others = results / folder / "other-rows.json"
        left = json.loads(others.read_text(encoding="utf-8")) if others.exists() else None
        errors = json.loads((results / folder / AVERAGE_ERRORS).read_text(encoding="utf-8"))
        cells: dict[str, dict[str, dict[int, Any]]] = {}
        for row in rows_of(results / folder):
            by_name = cells.setdefault(row["environment_params"], {})
            by_name.setdefault(estimator_of(row), {})[row["replicate"]] = row
        for text, by_name in sorted(cells.items()):
            case = _case(kind, json.loads(text), by_name, left and left[text], errors[text])
            if case is not None:
                found.append(case)
    return tuple(found)


def _case(
    kind: str,
    params: Mapping[str, Any],
    by_name: Mapping[str, Mapping[int, Any]],
    left: Mapping[str, Any] | None,
    average_errors: Mapping[str, float],
) -> Case | None:
    average = by_name[AVERAGE]
    whole = set.intersection(*(set(rows) for rows in by_name.values()))
    usable = sorted(k for k in whole if average[k]["status"] == "ok")
    usable = [k for k in usable if by_name[REFERENCE][k]["status"] == "ok"]
    if not usable:
        return None
    truth = np.array(
        [average[k]["truth_expected"] if left is None else left[str(k)][0] for k in usable]
    )
    own = np.array([average[k]["estimate"] for k in usable])
    plain = np.array([by_name[REFERENCE][k]["estimate"] for k in usable])
    worse = np.where(np.abs(own - truth) > np.abs(plain - truth), own, plain)
    values = {
        name: np.array(
            [
                rows[k]["estimate"] if rows[k]["status"] == "ok" else worse[i]
                for i, k in enumerate(usable)
            ],
            dtype=np.float64,
        )
        for name, rows in by_name.items()
    }
    errors = [by_name[REFERENCE][k]["standard_error"] for k in usable]
    apart = np.array([math.inf if one is None else one for one in errors])
    for name, reach in GUARDS.items():
        values[name] = np.clip(values[GUARDED], plain - reach * apart, plain + reach * apart)
    if values.keys() >= set(SINGLE):
        values |= {name: made(values) for name, made in COMBINED.items()}
    told = [json.loads(by_name[SHRUNK][k]["diagnostics"] or "{}") for k in usable]
    signals = [one["reward_r2"] for one in told if "reward_r2" in one]
    floors = [average_errors[str(k)] for k in usable]
    name = str(params.get("world", params.get("dataset", params.get("data"))))
    return Case(
        kind,
        f"{kind} {name}",
        params.get("world"),
        float(np.median(signals)) if signals else None,
        truth,
        values,
        0.1 * float(np.mean(floors)),
    )


def choosing(found: Sequence[Case]) -> tuple[list[Case], list[Case]]:
    """Return the half that chooses, and the other: odd worlds, every second real source."""
    names = {
        kind: sorted({one.source for one in found if one.kind == kind})
        for kind in FOLDERS.values()
    }
    odd = [
        one
        for one in found
        if (one.number is not None and one.number % 2 == 1)
        or (one.number is None and names[one.kind].index(one.source) % 2 == 0)
    ]
    return odd, [one for one in found if one not in odd]


def by_source(found: Sequence[Case], name: str) -> FloatArray:
    """Return the mean log ratio to `ipws` of each source: (n_sources,)."""
    ratios: dict[str, list[float]] = {}
    for one in found:
        ratios.setdefault(one.source, []).append(one.ratio(name))
    return np.array([np.mean(its) for its in ratios.values()])


def strata(found: Sequence[Case], name: str) -> dict[str, float]:
    """Return the mean log ratio to `ipws` of each stratum that has a source."""
    told = {}
    for stratum in STRATA:
        some = by_source([one for one in found if one.stratum == stratum], name)
        if len(some):
            told[stratum] = float(some.mean())
    return told


def criterion(found: Sequence[Case], name: str) -> tuple[float, float]:
    """Return the mean of the strata, and the worst."""
    told = list(strata(found, name).values())
    return float(np.mean(told)), max(told)


def chosen(found: Sequence[Case]) -> str:
    """Return the estimator, or combination, that the rule takes on a half."""

    def best(names: Sequence[str]) -> str:
        least = min(criterion(found, name)[0] for name in names)
        near = [name for name in names if criterion(found, name)[0] <= least + NEAR]
        return min(near, key=lambda name: (criterion(found, name)[1], name))

    single, combined = best(SINGLE), best(tuple(COMBINED))
    less = criterion(found, single)[0] - criterion(found, combined)[0]
    return combined if less > MARGIN else single


# The interval.


@dataclass(frozen=True)
class Logs:
    """Logs of drawn worlds, with what an interval around the chosen estimator says.

    Parameters
    ----------
    odd : (n,), whether the world chooses.
    world : (n,)
    rewarded, effective : (n,)
    truth, center : (n,)
    error, apart : (n,), s, the largest standard error of `ERRORS`, and D.
    likelihood : (2, n), ends by empirical likelihood.
    ipws, normal : (n,), value and half width of the normal interval of `ipws`.
    """

    odd: Any
    world: Any
    rewarded: FloatArray
    effective: FloatArray
    truth: FloatArray
    center: FloatArray
    error: FloatArray
    apart: FloatArray
    likelihood: FloatArray
    ipws: FloatArray
    normal: FloatArray

    @property
    def enough(self) -> Any:
        """Whether a normal interval may be stated: (n,)."""
        return (self.rewarded >= LEAST_REWARDED) & (self.effective >= LEAST_EFFECTIVE)

    def half(self, constant: float) -> FloatArray:
        """Half width of the interval of disagreement: (n,)."""
        found: FloatArray = np.hypot(NORMAL_95 * self.error, constant * self.apart)
        return found

    def held(self, constant: float) -> Any:
        """Whether the interval held, of empirical likelihood where rows are few: (n,)."""
        low, high = self.likelihood
        inside = (low <= self.truth) & (self.truth <= high)
        return np.where(
            self.enough, np.abs(self.center - self.truth) <= self.half(constant), inside
        )

    def width(self, constant: float) -> FloatArray:
        """Width of that interval: (n,)."""
        low, high = self.likelihood
        return np.where(self.enough, 2 * self.half(constant), high - low)


@cache
def logs_of(results: Path, center: str, file: str = "logs.parquet") -> Logs:
    """Read the logs that `results/draws/coverage.py` drew; those with all estimates count."""
    rows = pq.read_table(results / "coverage" / file).to_pylist()
    name = center.replace("[toward=tmle]", " toward=tmle")
    errors = [f"{one} error" for one in ERRORS]
    needed = ("effective", "ipws error", *errors, *BEST_OF, name)
    rows = [row for row in rows if all(row.get(one) is not None for one in needed)]
    rows = [row for row in rows if row["effective"] >= EFFECTIVE[0]]

    def column(key: str) -> FloatArray:
        return np.array([row.get(key) for row in rows], dtype=np.float64)

    panel = np.array([column(one) for one in BEST_OF])
    return Logs(
        # Those with estimated propensities chose nothing.
        odd=(column("world") % 2 == 1) & (file == "logs.parquet"),
        world=column("world"),
        rewarded=column("rewarded"),
        effective=column("effective"),
        truth=column("truth"),
        center=column(name),
        error=np.max([column(one) for one in errors], axis=0),
        apart=np.ptp(panel, axis=0),
        likelihood=np.array([column("likelihood low"), column("likelihood high")]),
        ipws=column("ipws"),
        normal=NORMAL_95 * column("ipws error"),
    )


def constant_of(logs: Logs) -> float:
    """Return k: the least with which the interval holds on odd worlds as often as it should."""
    some = logs.odd & logs.enough
    for constant in CONSTANTS:
        if logs.held(float(constant))[some].mean() >= LEVEL:
            return float(constant)
    return float(CONSTANTS[-1])


def cells_of(
    logs: Logs,
    constant: float,
    from_rewarded: Sequence[float] = REWARDED,
    from_effective: Sequence[float] = EFFECTIVE,
) -> list[dict[str, Any]]:
    """Return each cell of the even worlds' logs: how many, how often held, whether it states."""
    held, found = logs.held(constant), []
    of_ipws = np.abs(logs.ipws - logs.truth) <= logs.normal
    width, low_high = logs.width(constant), np.ptp(logs.likelihood, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        to_normal, to_likelihood = width / (2 * logs.normal), width / low_high
    for i, rewarded in enumerate(from_rewarded):
        for j, effective in enumerate(from_effective):
            inside = ~logs.odd & (logs.rewarded >= rewarded) & (logs.effective >= effective)
            if i + 1 < len(from_rewarded):
                inside &= logs.rewarded < from_rewarded[i + 1]
            if j + 1 < len(from_effective):
                inside &= logs.effective < from_effective[j + 1]
            n = int(inside.sum())
            share = wilson(int(held[inside].sum()), n) if n else None
            ends = None if share is None else [share.low or 0.0, share.high or 0.0]
            found.append(
                {
                    "rewarded": rewarded,
                    "effective": effective,
                    "logs": n,
                    "held": round(float(held[inside].mean()), 3) if n else 0.0,
                    "states": bool(ends is not None and ends[1] >= HOLDS),
                    "worlds": len(np.unique(logs.world[inside])),
                    "range": ends and [round(end, 3) for end in ends],
                    "to_normal": _median(to_normal[inside]),
                    "to_likelihood": _median(to_likelihood[inside]),
                    "ipws": round(float(of_ipws[inside].mean()), 3) if n else 0.0,
                }
            )
    return found


MANY_REWARDED = 50.0
"""Effective rewarded rows from which the interval's width is compared with that of `ipws`."""

ESTIMATED = {"from_rewarded": (20.0, 100.0), "from_effective": (LEAST_EFFECTIVE,)}
"""Cells of logs with estimated propensities, which are fewer."""


def _median(ratio: FloatArray) -> float | None:
    finite = ratio[np.isfinite(ratio)]
    return round(float(np.median(finite)), 2) if len(finite) else None


# File and page.

SHIPPED = ("rewarded", "effective", "logs", "held", "states")


def withheld(results: Path) -> dict[str, float]:
    """Return estimators whose own interval held too seldom on clean worlds, with the share.

    Worlds of `field` with an effective sample size of 30 or more; too seldom is where the upper
    end of Wilson's 95 % interval of the share is below `WITHHELD`.
    """
    clean = [
        one
        for one in settings_of(results)
        if TRACKS[1].holds(one)
        and not one.real
        and not one.facts.get("damages")
        and one.facts["world_ess_fraction"] * one.facts["world_rows"] >= LEAST_EFFECTIVE
    ]
    shares = {}
    for name in sorted({name for one in clean for name in one.answers}):
        held = np.concatenate([one.answers[name].held for one in clean if name in one.answers])
        known = held[np.isfinite(held)]
        if len(known) and (wilson(int(known.sum()), len(known)).high or 0.0) < WITHHELD:
            shares[name] = round(float(known.mean()), 3)
    return shares


def document(results: Path) -> str:
    """Return the file that `estimate` and `advise` quote."""
    odd, even = choosing(cases(results))
    center = chosen(odd)
    logs = logs_of(results, center)
    constant = constant_of(logs)
    unknown = logs_of(results, center, "estimated.parquet")
    cells, estimated = (
        [{name: cell[name] for name in SHIPPED} for cell in found]
        for found in (cells_of(logs, constant), cells_of(unknown, constant, **ESTIMATED))
    )
    known = {
        "center": SELECTORS.get(center, center),
        "panel": [SELECTORS.get(name, name) for name in BEST_OF],
        "errors": list(ERRORS),
        "constant": constant,
        "worlds": len(even),
        "cells": cells,
    }
    model, worlds = samples_choice(results)
    samples = known | {"center": model, "panel": list(SAMPLES_PANEL), "worlds": len(worlds)}
    samples |= {"errors": [], "constant": 0.0, "cells": []}
    whole = {"schema": 2, "withheld": withheld(results), "known": known}
    whole["estimated"] = known | {"cells": estimated}
    whole["samples"] = samples
    return json.dumps(whole, indent=1) + "\n"


def recommendation_page(results: Path) -> str:
    """Return the page: what was chosen, and how it did on what chose nothing."""
    found = cases(results)
    odd, even = choosing(found)
    center = chosen(odd)
    logs = logs_of(results, center)
    # Worlds whose logs give no estimator a weight have no error to compare.
    worlds = {one.number for one in found if one.kind == "world"}
    parts = [
        opening("recommendation", center=center, worlds=len(worlds)),
        _choice(odd, even, center),
        _confirmed(even, center),
        _guard(results, odd, even),
        _kinds(even, center),
        _interval(logs, center),
        _estimated(logs_of(results, center, "estimated.parquet"), constant_of(logs)),
        _samples(results),
        _withheld(results),
        opening("recommendation end"),
    ]
    return "\n\n".join(parts) + "\n"


def _told(value: float) -> str:
    return f"{math.exp(value):.2f}"


def _choice(odd: Sequence[Case], even: Sequence[Case], center: str) -> str:
    names = [REFERENCE, *SINGLE, *COMBINED]
    names.sort(key=lambda name: criterion(odd, name)[0])
    rows = []
    for name in names:
        cells = [f"**`{name}`**" if name == center else f"`{name}`"]
        for half in (odd, even):
            told = strata(half, name)
            cells += [_told(told[one]) if one in told else "–" for one in STRATA]
            cells.append(_told(criterion(half, name)[0]))
        rows.append(cells)
    heads = [
        f"{stratum}, {half}" for half in ("chose", "confirm") for stratum in (*STRATA, "mean")
    ]
    counts = "; ".join(
        f"{stratum} {sum(one.stratum == stratum for one in odd)} and "
        f"{sum(one.stratum == stratum for one in even)}"
        for stratum in STRATA
    )
    body = table(["estimator", *heads], rows, "lr", tight=True)
    return (
        f"## Known policies\n\n{body}\n\nRoot mean square error over that of `ipws`, geometric "
        f"mean over sources. Settings that chose and that confirm: {counts}."
    )


def _confirmed(even: Sequence[Case], center: str) -> str:
    mean, (worst, most_over) = _over_best(even, center)
    ratios = np.array([one.ratio(center) for one in even])
    twice, five = (ratios > math.log(limit) for limit in (2.0, 5.0))
    most = f"{_told(float(ratios.max()))} ({even[int(ratios.argmax())].source})"
    words = f"over twice the error of `ipws` in {twice.mean():.1%} of {len(ratios)} settings (3 %)"
    verdicts = [
        (mean <= math.log(1.10), f"{_told(mean)} on average (1.10)"),
        (most_over <= math.log(1.20), f"{_told(most_over)} where it is worst, {worst} (1.20)"),
        (twice.mean() <= 0.03, words),
        (not five.any(), f"over five times in {five.sum()} (none), at most {most}"),
    ]
    lines = [f"- {'holds' if good else '**fails**'}: {words}" for good, words in verdicts]
    return (
        f"`{center}` over the best of {', '.join(f'`{one}`' for one in BEST_OF)} of each "
        "stratum, on the half that confirms (limit):\n\n" + "\n".join(lines)
    )


def _guard(results: Path, odd: Sequence[Case], even: Sequence[Case]) -> str:
    """Say how the recommended estimator, and a guard of it, did on worlds that chose neither."""
    groups = {"chose": odd, "confirm": even}
    groups |= {title: cases(results, (name,)) for name, title in FRESH.items()}
    rows = []
    for title, group in groups.items():
        for name in (GUARDED, *GUARDS):
            ratios = np.array([one.ratio(name) for one in group])
            over, worst = _over_best(group, name)
            cells = [title, f"`{name}`" if name == GUARDED else name, _told(over)]
            cells += [_told(worst[1]), f"{(ratios > math.log(2)).sum()} of {len(ratios)}"]
            cells += [str((ratios > math.log(5)).sum()), _told(float(ratios.max()))]
            rows.append(cells)
    heads = ["settings", "estimator", "over the best (1.10)", "where it is worst (1.20)"]
    heads += ["over twice `ipws` (3 %)", "over five times (none)", "at most"]
    return f"{opening('recommendation guard')}\n\n{table(heads, rows, 'llr', tight=True)}"


def _over_best(found: Sequence[Case], name: str) -> tuple[float, tuple[str, float]]:
    """Return the log error over the best single one: mean of strata, and the worst stratum's."""
    over = {}
    for stratum in STRATA:
        some = [one for one in found if one.stratum == stratum]
        if some:
            means = {one: float(by_source(some, one).mean()) for one in (*BEST_OF, name)}
            over[stratum] = means[name] - min(means[one] for one in BEST_OF)
    return float(np.mean(list(over.values()))), max(over.items(), key=lambda one: one[1])


def _kinds(even: Sequence[Case], center: str) -> str:
    names = dict.fromkeys((center, SHRUNK, TOWARD, "dm", "sndr"))
    rows = []
    for kind, title in (("world", "drawn worlds"), ("table", "tables"), ("trial", "trials")):
        some = [one for one in even if one.kind == kind]
        if some:
            cells = [title, str(len({one.source for one in some}))]
            for name in names:
                told = [math.exp(end) for end in mean_interval(by_source(some, name))]
                cells.append(f"{told[0]:.2f} ({told[1]:.2f} to {told[2]:.2f})")
            rows.append(cells)
    body = table(["confirm", "sources", *(f"`{name}`" for name in names)], rows, "lr")
    return f"<details><summary>By kind of source</summary>\n\n{body}\n\n</details>"


def _interval(logs: Logs, center: str) -> str:
    constant = constant_of(logs)
    some = logs.odd & logs.enough
    facts = {
        "center": center,
        "constant": constant,
        "odd": int(some.sum()),
        "share": float(logs.held(constant)[some].mean()) if some.any() else float("nan"),
        "all": len(logs.truth),
    }
    cells = cells_of(logs, constant)
    text = opening("recommendation interval", **facts)
    return f"{text}\n\n{_cells(cells)}\n\nOf the cells (limit):\n\n{_kept(cells, logs, constant)}"


def _estimated(logs: Logs, constant: float) -> str:
    worlds = {"first": int(logs.world.min()), "last": int(logs.world.max())}
    share = float(logs.held(constant).mean())
    text = opening("recommendation estimated", share=share, all=len(logs.truth), **worlds)
    return f"{text}\n\n{_cells(cells_of(logs, constant, **ESTIMATED))}"


def _cells(cells: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for cell in cells:
        share = "–" if not cell["logs"] else f"{cell['held']:.3f}"
        ends = "–" if cell["range"] is None else " to ".join(f"{one:.3f}" for one in cell["range"])
        widths = [
            "–" if one is None else f"{one:.2f}"
            for one in (cell["to_normal"], cell["to_likelihood"])
        ]
        taken = _taken(cells, cell)
        state = "no" if taken is None or not taken["states"] else "yes"
        if taken is not None and taken is not cell:
            state += f", as {taken['rewarded']:g}, {taken['effective']:g}"
        limits = [f"{cell[name]:g}" for name in ("rewarded", "effective")]
        counts = [str(cell[name]) for name in ("logs", "worlds")]
        yardstick = f"{cell['ipws']:.3f}" if cell["logs"] else "–"
        rows.append([*limits, *counts, share, ends, yardstick, *widths, state])
    heads = ["effective rewarded rows from", "effective sample from", "logs", "worlds", "held"]
    heads += ["Wilson's 95 %", "`ipws` held", "width over `ipws`", "over likelihood", "stated"]
    body = table(heads, rows, "r", tight=True)
    return f"<details><summary>Cell by cell</summary>\n\n{body}\n\n</details>"


def _taken(
    cells: Sequence[Mapping[str, Any]], cell: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """Return the cell that speaks for one: itself, or one of fewer rewards with enough logs."""
    inside = [
        one
        for one in cells
        if one["logs"] >= LEAST_LOGS
        and all(one[name] <= cell[name] for name in ("rewarded", "effective"))
    ]
    return max(inside, key=lambda one: (one["rewarded"], one["effective"]), default=None)


def _kept(cells: Sequence[Mapping[str, Any]], logs: Logs, constant: float) -> str:
    """Return what was asked of the cells, and what holds."""
    some = [one for one in cells if one["logs"] >= LEAST_LOGS]
    failed = sum(not one["states"] for one in some)
    whole = sum(one["logs"] >= 400 for one in cells)
    upper = [one for one in cells if one["rewarded"] >= LEAST_REWARDED]
    taken = [_taken(cells, one) for one in upper]
    stating = sum(one is not None and one["states"] for one in taken)
    many, ipws = ~logs.odd & (logs.rewarded >= MANY_REWARDED), 2 * logs.normal
    width, low_high = logs.width(constant), np.ptp(logs.likelihood, axis=0)
    normal = float(np.median(width[many] / ipws[many]))
    likelihood = float(np.median((width / low_high)[~logs.odd & ~many]))
    widest = max(
        (one for one in some if one["rewarded"] >= MANY_REWARDED), key=lambda one: one["to_normal"]
    )
    widest_cell = (
        f"; in the widest cell {widest['to_normal']:.2f}, where that of `ipws` held in "
        f"{widest['ipws']:.3f}"
    )
    below = sum(one["held"] < HOLDS for one in some)
    told = [
        (whole >= 10, f"{whole} have 400 logs (10)"),
        (
            not failed,
            f"{failed} of the {len(some)} with {LEAST_LOGS} logs fail (0), {below} held under .93",
        ),
        (
            stating >= 8,
            f"from 20 effective rewarded rows on {stating} of {len(upper)} state one (8)",
        ),
        (
            normal <= 1.25,
            f"median width over `ipws` from 50 on: {normal:.2f} (1.25){widest_cell}",
        ),
        (
            likelihood <= 2,
            f"median width over empirical likelihood below: {likelihood:.2f} (2)",
        ),
    ]
    return "\n".join(f"- {'holds' if good else '**fails**'}: {words}" for good, words in told)


def samples_choice(results: Path) -> tuple[str, list[tuple[int, dict[str, float]]]]:
    """Return what is recommended for samples alone, and the log errors in each world."""
    by_world: dict[int, dict[str, Any]] = {}
    folder = results / "choice-samples"
    average_errors = json.loads((folder / AVERAGE_ERRORS).read_text(encoding="utf-8"))
    for row in rows_of(folder):
        world = json.loads(row["environment_params"])["world"]
        by_world.setdefault(world, {})[row["estimator"]] = row
    found = []
    for world, rows in sorted(by_world.items()):
        if any(rows[name]["status"] != "ok" for name in (AVERAGE, "dm-star", "edr")):
            continue
        model, ratio = rows["dm-star"]["estimate"], rows["edr"]["estimate"]
        apart, error = ratio - model, rows["edr"]["standard_error"]
        share = max(0.0, 1 - error**2 / apart**2) if error and apart else 0.0
        values = {
            "dm-star": model,
            "edr": ratio,
            "mean": (model + ratio) / 2,
            "shrunk": model + share * apart,
        }
        row = rows[AVERAGE]
        floor = 0.1 * average_errors[row["environment_params"]][str(row["replicate"])]
        truth = rows[AVERAGE]["truth_expected"]
        errors = {k: math.log(max(abs(value - truth), floor)) for k, value in values.items()}
        found.append((world, errors))
    halves = [[e for world, e in found if world % 2 == odd] for odd in (1, 0)]
    means = [
        {k: np.mean([e[k] for e in half]) for k in ("dm-star", "edr", "mean", "shrunk")}
        for half in halves
        if half
    ]
    best = min(means[0], key=lambda name: means[0][name]) if means else "dm-star"
    # A combination needs a name; another than `dm-star` must err less on both halves.
    better = best == "edr" and all(one["edr"] < one["dm-star"] for one in means)
    return ("edr" if better else "dm-star"), found


def _samples(results: Path) -> str:
    center, found = samples_choice(results)
    rows = []
    for name in ("dm-star", "edr", "mean", "shrunk"):
        cells = [f"`{name}`"]
        for odd in (1, 0):
            some = [e[name] - e["dm-star"] for world, e in found if world % 2 == odd]
            cells.append(_told(float(np.mean(some))) if some else "–")
        rows.append(cells)
    text = opening("recommendation samples", center=center, worlds=len(found))
    return f"{text}\n\n{table(['estimator', 'chose', 'confirm'], rows, 'lr')}"


def _withheld(results: Path) -> str:
    told = ", ".join(f"`{name}` ({share:.0%})" for name, share in withheld(results).items())
    return opening("recommendation withheld", told=told, least=WITHHELD)
