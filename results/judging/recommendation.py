"""The recommended estimator and its interval: chosen on odd worlds, confirmed on even ones."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from judging.field import TRACKS, Setting, Track, settings_of
from judging.leaderboard import FAULTS, log_ratios, mean_interval
from judging.page import opening, table
from ope_bench.contracts.arrays import FloatArray
from ope_bench.statistics.coverage import wilson

LEVEL = 0.95
CONSTANTS = np.round(np.arange(0.0, 12.01, 0.1), 1)
EFFECTIVE = (0.0, 10.0, 50.0, 200.0)
OVER_WEIGHT = (0.0, 5.0, 20.0, 100.0)
NORMAL_95 = 1.96


@dataclass(frozen=True)
class Kind:
    """One kind of log: what is known, and what may be chosen.

    Parameters
    ----------
    name : key of the file.
    title : in words.
    track : on whose settings it is judged.
    centers : estimators that may be recommended.
    panels : panels that may be chosen.
    error : the estimator whose standard error is s; None for none.
    """

    name: str
    title: str
    track: Track
    centers: tuple[str, ...]
    panels: tuple[tuple[str, ...], ...]
    error: str | None


def _panels(members: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """All of the members, and all but one of them."""
    without = itertools.combinations(members, len(members) - 1)
    return (tuple(members), *without)


KINDS = (
    Kind(
        "known",
        "Propensities and the policy's probabilities known",
        TRACKS[1],
        ("ipws", "sg-ipw", "dm", "dr", "dr-os", "dr-ps", "sg-dr", "switch-dr", "sndr", "tmle"),
        _panels(("ipws", "sndr", "dr-os", "dm")),
        "sndr",
    ),
    Kind(
        "samples",
        "Samples of both policies only",
        TRACKS[0],
        ("dm-star", "edm-star", "epws", "riesz", "rulsif", "entropy-balancing"),
        _panels(("logging-average", "dm-star", "edm-star", "epws", "riesz")),
        None,
    ),
)


@dataclass(frozen=True)
class Rule:
    """A recommendation with what was measured of it.

    Parameters
    ----------
    center, panel, constant : what was chosen.
    odd, even : worlds that chose, and that confirm.
    """

    center: str
    panel: tuple[str, ...]
    constant: float
    odd: tuple[Setting, ...]
    even: tuple[Setting, ...]


@cache
def spread(setting: Setting, panel: tuple[str, ...]) -> FloatArray:
    """Return the range of a panel's values: (n_replicates,); many constants are tried with it."""
    values: FloatArray = np.array([setting.answers[name].value for name in panel])
    found: FloatArray = values.max(axis=0) - values.min(axis=0)
    return found


def half_width(
    setting: Setting, panel: tuple[str, ...], constant: float, error: str | None
) -> FloatArray:
    """Return half of the interval of disagreement: (n_replicates,); NaN where s is unknown."""
    own = np.zeros(len(setting.truth))
    if error is not None:
        own = NORMAL_95 * setting.answers[error].standard_error
    return np.hypot(own, constant * spread(setting, panel))


def held(
    settings: Sequence[Setting],
    kind: Kind,
    center: str,
    panel: tuple[str, ...],
    constant: float,
) -> list[FloatArray]:
    """Return for each setting whether the interval held the value, where there is one."""
    found = []
    for one in settings:
        half = half_width(one, panel, constant, kind.error)
        inside = np.abs(one.errors(center)) <= half
        found.append(inside[np.isfinite(half)].astype(float))
    return found


def _coverage(parts: Sequence[FloatArray]) -> float:
    """Mean over settings of the share that held."""
    shares = [one.mean() for one in parts if len(one)]
    return float(np.mean(shares)) if shares else float("nan")


def chosen(kind: Kind, settings: Sequence[Setting]) -> Rule:
    """Choose on the odd worlds: the center that errs least, then panel and constant.

    Of each panel the least constant that reaches the level on clean logs; of these the panel with
    the least geometric mean of widths.
    """
    inside = [one for one in settings if kind.track.holds(one) and not one.real]
    odd = tuple(one for one in inside if one.odd)
    even = tuple(one for one in inside if not one.odd)
    errors = {name: float(np.mean([one.log_rmse(name) for one in odd])) for name in kind.centers}
    center = min(errors, key=lambda name: (errors[name], name))
    # No interval holds where a fault biases all estimators alike: the constant is for clean logs.
    clean = [one for one in odd if not one.facts.get("damages")]
    best: tuple[float, tuple[str, ...], float] | None = None
    for panel in kind.panels:
        for constant in CONSTANTS:
            if _coverage(held(clean, kind, center, panel, float(constant))) >= LEVEL:
                width = _log_width(clean, kind, panel, float(constant))
                if best is None or width < best[0]:
                    best = width, panel, float(constant)
                break
    if best is None:
        msg = f"{kind.name}: no constant up to {CONSTANTS[-1]} reaches {LEVEL:.0%}"
        raise LookupError(msg)
    return Rule(center, best[1], best[2], odd, even)


def _log_width(
    settings: Sequence[Setting], kind: Kind, panel: tuple[str, ...], constant: float
) -> float:
    halves = [half_width(one, panel, constant, kind.error) for one in settings]
    known = [half[np.isfinite(half)] for half in halves]
    return float(np.mean([np.log(np.maximum(half, 1e-12)).mean() for half in known if len(half)]))


def effective_rows(setting: Setting) -> float:
    """Return the effective sample size of the world's weights in its logs."""
    return float(setting.facts["world_ess_fraction"] * setting.facts["world_rows"])


def _from(limits: Sequence[float], value: float) -> float:
    return max(limit for limit in limits if value >= limit)


def withheld(settings: Sequence[Setting]) -> dict[str, float]:
    """Return estimators whose own interval held too seldom on clean worlds, with the share.

    Worlds with an effective sample size of 30 or more; too seldom is where the upper end of
    Wilson's 95 % interval of the share is below .85.
    """
    clean = [
        one
        for one in settings
        if TRACKS[1].holds(one)
        and not one.real
        and not one.facts.get("damages")
        and effective_rows(one) >= 30
    ]
    shares = {}
    for name in sorted({name for one in clean for name in one.answers}):
        held = np.concatenate([one.answers[name].held for one in clean if name in one.answers])
        known = held[np.isfinite(held)]
        if len(known) and wilson(int(known.sum()), len(known)).high < 0.85:
            shares[name] = round(float(known.mean()), 3)
    return shares


def document(results: Path) -> str:
    """Return the file that `estimate` and `advise` quote."""
    settings = settings_of(results)
    found: dict[str, Any] = {"schema": 2, "withheld": withheld(settings)}
    for kind in KINDS:
        rule = chosen(kind, settings)
        clean = [one for one in rule.even if not one.facts.get("damages")]
        whole = held(clean, kind, rule.center, rule.panel, rule.constant)
        cells = []
        for limit in EFFECTIVE[2:]:
            here = [
                part
                for one, part in zip(clean, whole, strict=True)
                if _from(EFFECTIVE, effective_rows(one)) == limit
            ]
            if kind.error is not None and here:
                share = _coverage(here)
                logs = sum(map(len, here))
                cells.append(
                    {
                        "rewarded": 20.0,
                        "effective": limit,
                        "logs": logs,
                        "held": round(share, 3),
                        "states": share >= 0.93,
                    }
                )
        found[kind.name] = {
            "center": rule.center,
            "panel": list(rule.panel),
            "errors": [kind.error] if kind.error else [],
            "constant": rule.constant,
            "worlds": len(rule.even),
            "cells": cells,
        }
    return json.dumps(found, indent=1) + "\n"


def recommendation_page(results: Path) -> str:
    """Return the page: what was chosen, and how it did on worlds that chose nothing."""
    settings = settings_of(results)
    sections = [_section(kind, chosen(kind, settings), settings) for kind in KINDS]
    return (
        "\n\n".join([opening("recommendation"), *sections, opening("recommendation end")]) + "\n"
    )


def _section(kind: Kind, rule: Rule, settings: Sequence[Setting]) -> str:
    half = "sqrt((1.96 s)^2 + " if kind.error else "sqrt("
    formula = f"{half}({rule.constant:g} D)^2)"
    head = (
        f"## {kind.title}\n\n`{rule.center}`, with the half width {formula}; D the range of "
        f"{', '.join(f'`{one}`' for one in rule.panel)}"
        + (f", s the standard error of `{kind.error}`. " if kind.error else ". ")
        + f"Chosen on {len(rule.odd)} odd worlds; below, {len(rule.even)} even ones and trials."
    )
    errors = []
    for name in kind.centers:
        ratio = log_ratios(rule.even, name, rule.center)
        told = [float(np.exp(end)) for end in mean_interval(ratio)]
        on_odd = float(np.exp(log_ratios(rule.odd, name, rule.center).mean()))
        cells = [f"`{name}`", f"{on_odd:.2f}", f"{told[0]:.2f} ({told[1]:.2f} to {told[2]:.2f})"]
        errors.append([*cells, _own_coverage(rule.even, name)])
    columns = ["estimator", "error, odd", "error, even", "its own intervals held, even"]
    shown = [head, table(columns, errors, "lr", tight=True), _parts(kind, rule, settings)]
    return "\n\n".join(shown)


def _own_coverage(settings: Sequence[Setting], name: str) -> str:
    held = np.concatenate([one.answers[name].held for one in settings])
    return f"{np.nanmean(held):.0%}" if np.isfinite(held).any() else "–"


def _parts(kind: Kind, rule: Rule, settings: Sequence[Setting]) -> str:
    """Coverage and width of the interval in parts of the even worlds, and on real trials."""
    even = list(rule.even)
    groups: list[tuple[str, list[Setting]]] = [
        ("all even worlds", even),
        ("clean", [one for one in even if not one.facts.get("damages")]),
        ("faulty", [one for one in even if one.facts.get("damages")]),
    ]
    for fault in FAULTS:
        here = [one for one in even if one.facts.get(f"damage_{fault}") is not None]
        groups.append((f"with `{fault}`", here))
    for title, limits, value in (
        ("effective sample size from", EFFECTIVE, effective_rows),
        ("rows over the largest weight from", OVER_WEIGHT, _over_weight),
    ):
        for limit in limits:
            here = [one for one in even if _from(limits, value(one)) == limit]
            groups.append((f"{title} {limit:g}", here))
    trials = dict.fromkeys(one.source for one in settings if one.trial)
    groups += [(trial, [one for one in settings if one.source == trial]) for trial in trials]
    rows = []
    for name, group in groups:
        found = held(group, kind, rule.center, rule.panel, rule.constant)
        together = np.concatenate(found) if found else np.zeros(0)
        if len(together) < 20:
            continue
        share = wilson(int(together.sum()), len(together))
        cells = [name, str(len(group)), f"{_coverage(found):.3f}"]
        rows.append(
            [*cells, f"{share.low:.3f} to {share.high:.3f}", _relative_width(group, kind, rule)]
        )
    columns = ["logs", "settings", "held", "95 % interval, logs", "width over that of `ipws`"]
    return table(columns, rows, "lr", tight=True)


def _over_weight(setting: Setting) -> float:
    return float(setting.facts["world_rows_over_weight"])


def _relative_width(group: Sequence[Setting], kind: Kind, rule: Rule) -> str:
    """Geometric mean of the width over that of the normal interval of `ipws`."""
    logs = []
    for one in group:
        if "ipws" in one.answers:
            half = half_width(one, rule.panel, rule.constant, kind.error)
            normal = NORMAL_95 * one.answers["ipws"].standard_error
            known = np.isfinite(half) & np.isfinite(normal) & (half > 0) & (normal > 0)
            if known.any():
                logs.append(np.log(half[known] / normal[known]).mean())
    return f"{np.exp(np.mean(logs)):.2f}" if logs else "–"
