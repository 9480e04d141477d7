"""Trial records -> boards.

One board a setting of an environment, a kind of truth and a question (``by``). A row is one
estimator with its parameters on one device. Nothing is averaged over survivors in silence: every
row says how many replicates it has, how many gave a finite estimate, and what failed; ``score``
and rank count failures with the logging average's error in their place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np

from ope_bench.arrays import FloatArray
from ope_bench.records import PluginSpec, TrialRecord
from ope_bench.seeding import canonical_json
from ope_bench.statistics.bootstrap import BOOTSTRAP_SEED, RESAMPLES, rmse_intervals
from ope_bench.statistics.paired import compare_rows, holm
from ope_bench.statistics.ranks import shared_ranks
from ope_bench.tally import Cell, Facts, tally

__all__ = [
    "Board",
    "By",
    "Row",
    "TruthKind",
    "boards",
    "document",
    "reordered",
    "setting_label",
]

By = Literal["rmse", "positivity", "time", "ratio"]
TruthKind = Literal["empirical", "expected"]

TIED_LEVEL = 0.05

RATIO_MEASURES = ("target_log_ratio_rmse", "log_ratio_rmse", "kl_error")
"""Diagnostics by which estimated density ratios are ranked, the first that exists.

At target rows first: far out among the logs a true log-ratio of -70 and an estimate of -20 both
mean no weight at all, and would drown every error that matters.
"""


@dataclass(frozen=True)
class Row:
    """One estimator on one setting; None where a figure does not exist.

    Parameters
    ----------
    rank : by score (rmse), failure rate (positivity), seconds (time) or ratio error (ratio);
        equal values share a rank.
    replicates, finite : trials, and those among them with a finite estimate.
    rmse, rmse_low, rmse_high : over finite trials, with a 95 % interval; no interval for rows
        that are ``heavy_tailed`` or have too few replicates.
    relative_rmse : ``rmse`` over the root mean square of the truth.
    score : RMSE with each of the ``imputed`` failures counted at the logging average's error.
    tied : cannot be told from the best score (paired swap test, Holm, 5 %).
    quantiles : of the absolute error, at .05, .25, .5, .75, .95.
    cvar : mean of the worst tenth of squared errors.
    error_cdf_area : area under the distribution function of squared error, up to the logging
        average's mean square and over it; 1 is perfect.
    coverage, interval_width : of 95 % intervals, against the expected truth.
    failure_rate : every status but ok and unavailable, of all but unavailable.
    warned, warning_precision, warning_recall : of PositivityViolation, judged on its fallback
        against the logging average's error on the same replicate.
    unsupported_mass ... max_weight_share : means over replicates.
    fit_seconds, estimate_seconds, seconds : medians over trials that ran alone.
    ratio_error, ratio_measure : of the estimated density ratio, where the truth is known.
    diagnostics : medians of the estimator's own numbers.
    """

    rank: int | None
    estimator: str
    label: str
    params: Mapping[str, Any]
    access: tuple[str, ...]
    device: str
    threads: int
    origin: str
    replicates: int
    finite: int
    rmse: float | None
    rmse_low: float | None
    rmse_high: float | None
    heavy_tailed: bool
    log10_rmse: float | None
    relative_rmse: float | None
    score: float | None
    imputed: int
    bias: float | None
    sd: float | None
    median_absolute_error: float | None
    quantiles: tuple[float, ...]
    worst: float | None
    cvar: float | None
    error_cdf_area: float | None
    tied: bool
    status: Mapping[str, int]
    positivity_rate: float | None
    failure_rate: float | None
    failure_low: float | None
    failure_high: float | None
    warned: int
    warnings_judged: int
    warning_precision: float | None
    warning_recall: float | None
    coverage: float | None
    coverage_low: float | None
    coverage_high: float | None
    interval_width: float | None
    unsupported_mass: float | None
    observed_unsupported_mass: float | None
    n_logged_actions: float | None
    n_target_actions: float | None
    ess_fraction: float | None
    max_weight_share: float | None
    fit_seconds: float | None
    estimate_seconds: float | None
    seconds: float | None
    peak_rss_bytes: float | None
    ratio_error: float | None
    ratio_measure: str | None
    diagnostics: Mapping[str, float]

    def as_json(self) -> dict[str, Any]:
        """The row as plain JSON."""
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        for name in ("params", "status", "diagnostics"):
            plain[name] = dict(plain[name])
        return plain | {"access": list(self.access), "quantiles": list(self.quantiles)}


@dataclass(frozen=True)
class Board:
    """One setting of one environment, one question, one kind of truth."""

    by: By
    environment: str
    environment_params: Mapping[str, Any]
    environment_origin: str
    environment_version: int
    worlds: str
    truth: TruthKind
    truth_se: float | None
    truth_rms: float | None
    label: str
    rows: tuple[Row, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """The board as plain JSON."""
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        plain["environment_params"] = dict(self.environment_params)
        return plain | {"rows": [row.as_json() for row in self.rows]}


def document(found: Iterable[Board]) -> dict[str, Any]:
    """What ``leaderboard --format json`` prints."""
    from ope_bench.across import summaries

    kept = list(found)
    return {
        "schema": 1,
        "boards": [board.as_json() for board in kept],
        "bootstrap": {"level": 0.95, "resamples": RESAMPLES, "seed": BOOTSTRAP_SEED},
        "across": [one.as_json() for one in summaries(kept)],
    }


def boards(
    records: Iterable[TrialRecord], *, by: By = "rmse", truth: TruthKind = "empirical"
) -> list[Board]:
    """All boards that the records give, settings ordered by id and parameters.

    The order of the records plays no part, so a resumed run gives the boards of an uninterrupted
    one.

    Parameters
    ----------
    records : the newest of each key; where a key is there twice, the later one counts.
    by : the question that orders the rows. Boards by time and by ratio hold only rows that have
        such a figure.
    truth : what errors are measured against.
    """
    newest = {record.key: record for record in records}
    settings: dict[str, list[TrialRecord]] = {}
    for record in sorted(newest.values(), key=_place()):
        identity = record.trial.environment.identity_json
        settings.setdefault(identity, []).append(record)
    specs = [group[0].trial.environment for group in settings.values()]
    return [
        _board(group, by, truth, setting_label(spec, specs))
        for spec, group in zip(specs, settings.values(), strict=True)
    ]


def reordered(board: Board, by: By) -> Board:
    """The same figures under another question, without computing any of them again."""
    return replace(board, by=by, rows=tuple(_ordered(board.rows, by)))


def setting_label(spec: PluginSpec, among: Sequence[PluginSpec]) -> str:
    """What tells a setting from its namesakes: its label, or its id with what varies.

    >>> ten, fifty = (PluginSpec("environment", "toy", "toy", {"n": n}) for n in (10, 50))
    >>> setting_label(ten, [ten, fifty])
    'toy n=10'
    """
    if spec.label:
        return spec.label
    namesakes = [other for other in among if other.id == spec.id and not other.label]
    shown = [
        f"{name}={_word(value)}"
        for name, value in spec.params.items()
        if any(other.params.get(name, _ABSENT) != value for other in namesakes)
    ]
    if any(other.worlds != spec.worlds for other in namesakes):
        shown.append(f"worlds={spec.worlds}")
    if any(other.version != spec.version for other in namesakes):
        shown.append(f"version={spec.version}")
    return " ".join([spec.id, *shown])


def _place() -> Callable[[TrialRecord], tuple[Any, ...]]:
    """The order of records; the thousands that share a spec share its place."""
    known: dict[int, tuple[Any, ...]] = {}

    def place(spec: PluginSpec) -> tuple[Any, ...]:
        if id(spec) not in known:
            known[id(spec)] = _sortable(spec)
        return known[id(spec)]

    def of(record: TrialRecord) -> tuple[Any, ...]:
        trial = record.trial
        specs = place(trial.environment), place(trial.estimator)
        return *specs, trial.device, trial.threads, trial.seed, trial.replicate, trial.key

    return of


def _sortable(spec: PluginSpec) -> tuple[Any, ...]:
    """Numbers in their own order, everything else as text."""
    params = tuple(
        (name, 0, value, "")
        if isinstance(value, int | float) and not isinstance(value, bool)
        else (name, 1, 0, canonical_json(value))
        for name, value in sorted(spec.params.items())
    )
    return (spec.id, params, spec.worlds, spec.version)


_ABSENT = object()


def _word(value: object) -> str:
    return value if isinstance(value, str) else canonical_json(value)


def _board(records: Sequence[TrialRecord], by: By, truth: TruthKind, label: str) -> Board:
    facts = Facts.of(records, truth)
    rows: dict[str, list[TrialRecord]] = {}
    for record in records:
        trial = record.trial
        what = f"{trial.estimator.identity_json} {trial.device} {trial.threads}"
        rows.setdefault(what, []).append(record)
    cells = [tally(group, facts) for group in rows.values()]
    specs = [_labelled(group) for group in rows.values()]
    figures = _compared(cells)
    found = [
        _row(cell, spec, group, figure, setting_label(spec, specs))
        for cell, spec, group, figure in zip(cells, specs, rows.values(), figures, strict=True)
    ]
    spec = records[0].trial.environment
    truths = np.array([value for value in facts.truth.values() if value is not None])
    errors = [record.truth_expected_se for record in records]
    se = [value for value in errors if value is not None]
    origins = {record.environment_origin: None for record in records if record.environment_origin}
    return Board(
        by,
        spec.id,
        spec.params,
        ", ".join(origins) or spec.origin,
        spec.version,
        spec.worlds,
        truth,
        float(np.sqrt(np.mean(np.square(se)))) if se else None,
        float(np.sqrt(np.mean(np.square(truths)))) if len(truths) else None,
        label,
        tuple(_ordered(found, by)),
    )


def _labelled(group: Sequence[TrialRecord]) -> PluginSpec:
    """The row's spec, with a label if any of its records has one: labels are no part of keys."""
    named = [record.trial.estimator for record in group if record.trial.estimator.label]
    return (named or [group[0].trial.estimator])[-1]


@dataclass(frozen=True)
class _Figures:
    """What takes all rows of a board together to compute."""

    rmse: float | None
    low: float | None
    high: float | None
    heavy: bool
    score: float | None
    tied: bool


def _compared(cells: Sequence[Cell]) -> list[_Figures]:
    rmse, low, high = (np.full(len(cells), np.nan) for _ in range(3))
    heavy = np.zeros(len(cells), dtype=np.bool_)
    by_size: dict[int, list[int]] = {}
    for index, cell in enumerate(cells):
        by_size.setdefault(len(cell.errors), []).append(index)
    # Rows with equally many errors share their resamples.
    for members in by_size.values():
        found = rmse_intervals(np.stack([cells[index].errors for index in members]))
        rmse[members], heavy[members] = found.rmse, found.heavy_tailed
        low[members], high[members] = found.low, found.high
    score = np.array([_score(cell) for cell in cells])
    tied = _tied(cells, score)
    return [
        _Figures(
            _known(rmse[i]),
            _known(low[i]),
            _known(high[i]),
            bool(heavy[i]),
            _known(score[i]),
            tied[i],
        )
        for i in range(len(cells))
    ]


def _score(cell: Cell) -> float:
    """RMSE with imputed failures; NaN where a failure cannot be imputed or nothing was tried."""
    if cell.tried == 0 or len(cell.imputed) < cell.tried:
        return math.nan
    sizes = np.abs(np.fromiter(cell.imputed.values(), np.float64))
    unit = float(sizes.max()) or 1.0
    return unit * float(np.sqrt(np.square(sizes / unit).mean()))


def _tied(cells: Sequence[Cell], score: FloatArray) -> list[bool]:
    ranked = np.flatnonzero(~np.isnan(score))
    tied = [False] * len(cells)
    if not len(ranked):
        return tied
    columns = {key: i for i, key in enumerate({key: None for c in cells for key in c.imputed})}
    errors = np.full((len(ranked), len(columns)), np.nan)
    for row, index in enumerate(ranked.tolist()):
        imputed = cells[index].imputed
        errors[row, [columns[key] for key in imputed]] = list(imputed.values())
    best = int(np.argmin(score[ranked]))
    others = np.arange(len(ranked)) != best
    p = compare_rows(errors, best)
    adjusted = holm(p[others])
    for index, value in zip(ranked[others], adjusted, strict=True):
        tied[index] = bool(value > TIED_LEVEL)
    tied[ranked[best]] = True
    return tied


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _row(
    cell: Cell, spec: PluginSpec, group: Sequence[TrialRecord], figures: _Figures, label: str
) -> Row:
    summary, rmse = cell.summary, figures.rmse
    measure = next((name for name in RATIO_MEASURES if name in cell.diagnostics), None)
    last = group[-1]
    return Row(
        rank=None,
        estimator=spec.id,
        label=label,
        params=spec.params,
        access=tuple(dict.fromkeys(word for record in group for word in record.access)),
        device=last.trial.device,
        threads=last.trial.threads,
        origin=last.origin or spec.origin,
        replicates=len(group),
        finite=len(cell.errors),
        rmse=rmse,
        rmse_low=figures.low,
        rmse_high=figures.high,
        heavy_tailed=figures.heavy,
        log10_rmse=math.log10(rmse) if rmse else None,
        relative_rmse=rmse / cell.truth_rms if rmse is not None and cell.truth_rms else None,
        score=figures.score,
        imputed=cell.imputations,
        bias=summary.bias,
        sd=summary.sd,
        median_absolute_error=summary.median_absolute_error,
        quantiles=summary.quantiles,
        worst=summary.worst,
        cvar=summary.cvar,
        error_cdf_area=cell.area,
        tied=figures.tied,
        status=cell.status,
        positivity_rate=cell.positivity.value,
        failure_rate=cell.failure.value,
        failure_low=cell.failure.low,
        failure_high=cell.failure.high,
        warned=cell.warnings.warned,
        warnings_judged=cell.warnings.judged,
        warning_precision=cell.warnings.precision,
        warning_recall=cell.warnings.recall,
        coverage=cell.coverage.share.value,
        coverage_low=cell.coverage.share.low,
        coverage_high=cell.coverage.share.high,
        interval_width=cell.coverage.width,
        **cell.support,
        **cell.cost,
        ratio_error=cell.diagnostics.get(measure) if measure else None,
        ratio_measure=measure,
        diagnostics=cell.diagnostics,
    )


def _ordered(rows: Sequence[Row], by: By) -> list[Row]:
    """Rows with their ranks, best first; those without the figure last, in their own order."""
    measure = {
        "rmse": "score",
        "positivity": "failure_rate",
        "time": "seconds",
        "ratio": "ratio_error",
    }[by]
    values = [getattr(row, measure) for row in rows]
    ranks = shared_ranks(np.array([math.nan if v is None else v for v in values], dtype=float))
    ranked = [
        replace(row, rank=rank)
        for row, rank in zip(rows, ranks, strict=True)
        if rank is not None or by in ("rmse", "positivity")
    ]
    return sorted(ranked, key=lambda row: math.inf if row.rank is None else row.rank)
