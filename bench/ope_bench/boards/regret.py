"""Boards of regret: errors over those of the best fixed choice, over settings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ope_bench.boards.aggregation import ReplicateFacts, aggregate, errors_of
from ope_bench.boards.columns.emphasis import MOSTLY_FAILED
from ope_bench.boards.columns.makers import attribute
from ope_bench.boards.regret_intervals import Pair, finite_exp, ratio_intervals
from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.data import TruthKind
from ope_bench.contracts.estimate import CHOSEN_ESTIMATOR
from ope_bench.plugins.labels import distinct_label, distinct_labels
from ope_bench.plugins.spec import PluginSpec
from ope_bench.trials.outcomes import Outcomes
from ope_bench.trials.record import TrialRecord

__all__ = [
    "REGRET_COLUMNS",
    "REGRET_LAYOUT",
    "RegretBoard",
    "RegretRow",
    "regret_board",
    "stream_regret_board",
]

CANDIDATE = "value["
"""Beginning of the diagnostics that hold the estimates of its candidates."""


@dataclass(frozen=True, kw_only=True)
class RegretRow:
    """Regret of one estimator over settings; None where undefined.

    Parameters
    ----------
    settings : number of settings in which the row and a fixed choice have a score.
    regret : geometric mean over settings of the row's RMSE over that of the best fixed choice on
        the same data sets; failures count with the logging average's error.
    regret_low, regret_high : its 95 % interval over data sets, the settings and the best fixed
        choices as they are.
    regret_90 : 90 % point over settings.
    worst, worst_setting : the largest regret, and where.
    own_regret : geometric mean of the RMSE over that of the best of the row's own candidates, for
        a row that chooses among estimators.
    own_90 : 90 % point of it over settings.
    """

    estimator: str
    label: str
    params: Mapping[str, Any]
    device: str
    settings: int
    regret: float | None
    regret_low: float | None
    regret_high: float | None
    regret_90: float | None
    worst: float | None
    worst_setting: str | None
    own_regret: float | None
    own_90: float | None


@dataclass(frozen=True, kw_only=True)
class RegretBoard:
    """Regret over the settings of a store; rows ordered by it.

    Parameters
    ----------
    truth : the value against which errors are measured.
    settings : labels of the settings.
    best : label of the best fixed choice in each setting; None where no row is fixed.
    """

    truth: TruthKind
    settings: tuple[str, ...]
    best: tuple[str | None, ...]
    rows: tuple[RegretRow, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the board as plain JSON."""
        rows = [vars(row) | {"params": dict(row.params)} for row in self.rows]
        return vars(self) | {
            "settings": list(self.settings),
            "best": list(self.best),
            "rows": rows,
        }


@dataclass(frozen=True, eq=False)
class _Cell:
    """One row on one setting: errors by data set, and those of its candidates if it chooses."""

    errors: Mapping[str, float]
    fixed: bool
    own: Sequence[Mapping[str, float]] = ()


@dataclass(frozen=True, eq=False)
class _Setting:
    """One setting: specs and cells by row, and the row that is the best fixed choice."""

    specs: Mapping[str, PluginSpec]
    cells: Mapping[str, _Cell]
    best: str | None

    def pair(self, name: str) -> tuple[FloatArray, FloatArray] | None:
        """Return errors of a row and of the best fixed choice on the data sets of both: (n,)."""
        if self.best is None or name not in self.cells:
            return None
        return _paired(self.cells[name].errors, self.cells[self.best].errors)

    def own_pair(self, name: str) -> tuple[FloatArray, FloatArray] | None:
        """Return errors of a row and of the best of its own candidates: (n,)."""
        cell = self.cells.get(name)
        pairs = [_paired(cell.errors, one) for one in cell.own] if cell else []
        known = [pair for pair in pairs if pair is not None]
        return min(known, key=lambda pair: _rms(pair[1])) if known else None


def regret_board(
    records: Iterable[TrialRecord], *, truth: TruthKind = "expected"
) -> RegretBoard | None:
    """Compute the regret of every estimator over all settings; None without a fixed choice.

    A fixed choice is a row whose trials name no `CHOSEN_ESTIMATOR`, and that fails on less than
    half of the data sets. The best one is chosen in hindsight, by RMSE, for each setting, among
    those that ran on the most data sets.

    Parameters
    ----------
    records : the newest of each key.
    truth : the value against which errors are measured.
    """
    return stream_regret_board(Outcomes.by_setting(records), truth=truth)


def stream_regret_board(
    settings: Iterable[Outcomes], *, truth: TruthKind = "expected"
) -> RegretBoard | None:
    """Compute the `regret_board` of one setting after another, without keeping the outcomes.

    Parameters
    ----------
    settings : the outcomes of each setting of an environment.
    truth : as for `regret_board`.
    """
    found: dict[str, tuple[PluginSpec, _Setting]] = {}
    # Finite estimates may be so large that their squares are not.
    with np.errstate(over="ignore", invalid="ignore"):
        for outcomes in settings:
            if len(outcomes):
                spec = outcomes.environment[0]
                found[spec.identity_json] = spec, _setting(outcomes.newest(), truth)
        return _board([found[name] for name in sorted(found)], truth)


def _board(found: Sequence[tuple[PluginSpec, _Setting]], truth: TruthKind) -> RegretBoard | None:
    settings = [setting for _, setting in found]
    if all(setting.best is None for setting in settings):
        return None
    specs: dict[str, PluginSpec] = {}
    for setting in settings:
        for name, spec in setting.specs.items():
            specs.setdefault(name, spec)
    environments = distinct_labels([spec for spec, _ in found])
    names = sorted(specs)
    known = [_known_pairs(name, settings, environments) for name in names]
    intervals = ratio_intervals([[pair for _, pair in pairs] for pairs in known])
    rows = [
        _row(name, specs, settings, pairs, interval)
        for name, pairs, interval in zip(names, known, intervals, strict=True)
    ]
    rows.sort(key=lambda row: (math.inf if row.regret is None else row.regret, row.label))
    labels = {name: distinct_label(spec, list(specs.values())) for name, spec in specs.items()}
    return RegretBoard(
        truth=truth,
        settings=tuple(environments),
        best=tuple(None if one.best is None else labels[one.best] for one in settings),
        rows=tuple(rows),
    )


def _setting(outcomes: Outcomes, truth: TruthKind) -> _Setting:
    facts = ReplicateFacts.of(outcomes, truth)
    specs: dict[str, PluginSpec] = {}
    cells: dict[str, _Cell] = {}
    scores: dict[str, float] = {}
    most = 0
    for row in outcomes.by_row(threads=False):
        spec = row.estimator[0]
        name = f"{spec.identity_json} {row.device[0]}"
        specs[name] = spec
        statistics = aggregate(row, facts)
        fixed = CHOSEN_ESTIMATOR not in row.diagnostics.names
        cells[name] = _Cell(statistics.imputed, fixed, () if fixed else _candidates(row, facts))
        failed = (statistics.figures.failure.value or 0.0) > MOSTLY_FAILED
        if fixed and statistics.imputed and not failed:
            scores[name] = _rms(np.fromiter(statistics.imputed.values(), np.float64))
            most = max(most, len(statistics.imputed))
    # Rows that ran on fewer data sets may have met the easier ones.
    whole = [name for name in sorted(scores) if len(cells[name].errors) == most]
    best = min(whole, key=lambda name: scores[name]) if whole else None
    return _Setting(specs, cells, best)


def _candidates(row: Outcomes, facts: ReplicateFacts) -> list[dict[str, float]]:
    """Return errors of a row's candidates by data set, from the values that its trials report."""
    errors: dict[str, dict[str, float]] = {}
    truths = np.where(np.isnan(errors_of(row, facts)), np.nan, facts.truth[facts.at(row)])
    trials = zip(row.data_key.tolist(), truths.tolist(), row.diagnostics, strict=True)
    for key, truth, diagnostics in trials:
        for name, value in diagnostics.items() if not math.isnan(truth) else ():
            if name.startswith(CANDIDATE) and isinstance(value, float):
                errors.setdefault(name, {})[key] = value - truth
    most = max(map(len, errors.values()), default=0)
    # A candidate that failed somewhere has no RMSE on the same data sets.
    return [one for one in errors.values() if len(one) == most]


def _paired(
    left: Mapping[str, float], right: Mapping[str, float]
) -> tuple[FloatArray, FloatArray] | None:
    keys = [key for key in left if key in right]
    if not keys:
        return None
    return np.array([left[key] for key in keys]), np.array([right[key] for key in keys])


def _rms(errors: FloatArray) -> float:
    return float(np.sqrt(np.square(errors).mean()))


def _known_pairs(
    name: str, settings: Sequence[_Setting], environments: Sequence[str]
) -> list[tuple[str, Pair]]:
    """Return a row's errors and those of the best fixed choice, by setting, where both ran."""
    pairs = [(label, one.pair(name)) for label, one in zip(environments, settings, strict=True)]
    return [(label, pair) for label, pair in pairs if pair is not None and _rms(pair[1]) > 0]


def _row(
    name: str,
    specs: Mapping[str, PluginSpec],
    settings: Sequence[_Setting],
    known: Sequence[tuple[str, Pair]],
    interval: tuple[float | None, float | None],
) -> RegretRow:
    spec = specs[name]
    logs = np.array([_log_ratio(*pair) for _, pair in known])
    own = [pair for one in settings if (pair := one.own_pair(name)) is not None]
    own_logs = np.array([_log_ratio(*pair) for pair in own if _rms(pair[1]) > 0])
    low, high = interval
    worst = int(np.argmax(logs)) if len(logs) else None
    return RegretRow(
        estimator=spec.id,
        label=distinct_label(spec, list(specs.values())),
        params=spec.params,
        device=name.rpartition(" ")[2],
        settings=len(known),
        regret=_geometric_mean(logs),
        regret_low=low,
        regret_high=high,
        regret_90=_point(logs),
        worst=None if worst is None else finite_exp(float(logs[worst])),
        worst_setting=None if worst is None else known[worst][0],
        own_regret=_geometric_mean(own_logs),
        own_90=_point(own_logs),
    )


def _log_ratio(errors: FloatArray, best: FloatArray) -> float:
    with np.errstate(divide="ignore"):
        return float(np.log(_rms(errors)) - np.log(_rms(best)))


def _geometric_mean(logs: FloatArray) -> float | None:
    return finite_exp(float(logs.mean())) if len(logs) else None


def _point(logs: FloatArray) -> float | None:
    return finite_exp(float(np.quantile(logs, 0.9))) if len(logs) else None


def _interval_of(row: RegretRow) -> tuple[float, float] | None:
    low, high = row.regret_low, row.regret_high
    return None if low is None or high is None else (low, high)


REGRET_COLUMNS = (
    attribute("estimator", "", "estimator; in CSV the id alone", format="estimator"),
    attribute("label", "", "id with the parameters that distinguish rows", format="text"),
    attribute("params", "parameters", "all parameters", format="json"),
    attribute("device", "", "device on which it ran", format="text"),
    attribute("settings", "n", "settings in which row and best fixed choice ran", format="count"),
    attribute(
        "regret",
        "",
        "RMSE over that of the best fixed choice on the same data, geometric mean over settings",
    ),
    attribute("regret_low", "regret low", "lower end of its 95 % interval over data sets"),
    attribute("regret_high", "regret high", "upper end of its 95 % interval over data sets"),
    attribute(
        "regret_interval",
        "95 %",
        "interval of the regret over data sets",
        value=_interval_of,
    ),
    attribute("regret_90", "90 %", "90 % point of the regret over settings"),
    attribute("worst", "", "largest regret over settings", drop=4),
    attribute("worst_setting", "worst in", "setting of the largest regret", format="text", drop=6),
    attribute(
        "own_regret",
        "own",
        "RMSE over that of the best of the row's own candidates, geometric mean over settings",
        hide_empty=True,
    ),
    attribute("own_90", "own 90 %", "90 % point of that over settings", drop=5, hide_empty=True),
)
"""The columns of regret boards, in the order of CSV."""

REGRET_LAYOUT = (
    "estimator",
    "regret",
    "regret_interval",
    "regret_90",
    "own_regret",
    "own_90",
    "worst",
    "settings",
)
"""The columns that text, Markdown and LaTeX show."""
