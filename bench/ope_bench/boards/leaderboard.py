"""Compute boards from trial records.

There is one board for each setting of an environment, kind of truth and measure (``by``). A row is
one estimator with its parameters on one device. Failures are never dropped silently: every row
shows its number of replicates, of finite estimates and of failures; in ``score`` and rank,
failures count with the logging average's error.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ope_bench.base.canonical import canonical_json
from ope_bench.base.errors import UsageError, did_you_mean
from ope_bench.boards.board import (
    Board,
    By,
    JointValues,
    ReplicateFacts,
    Row,
    RowInterval,
    RowStatistics,
    aggregate,
)
from ope_bench.boards.built_in_columns import COLUMNS, LAYOUTS, as_json
from ope_bench.boards.over_settings import summaries
from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.data import TruthKind
from ope_bench.outcomes import Outcomes, linked
from ope_bench.plugins.spec import PluginSpec, distinct_labels
from ope_bench.statistics.error_distribution import (
    BOOTSTRAP_SEED,
    RESAMPLES,
    resamples_of,
    rmse_intervals,
    root_mean_square,
    scaled_rms,
)
from ope_bench.statistics.paired_tests import compare_rows, detectable_growth, holm
from ope_bench.statistics.ranks import shared_ranks
from ope_bench.trials.record import TrialRecord


def boards_document(found: Iterable[Board]) -> dict[str, Any]:
    """Return the document of ``leaderboard --format json``."""
    kept = list(found)
    fewest = min((resamples_of(row.finite) for board in kept for row in board.rows), default=None)
    return {
        "schema": 1,
        "boards": [as_json(board) for board in kept],
        "bootstrap": {"level": 0.95, "resamples": fewest or RESAMPLES, "seed": BOOTSTRAP_SEED},
        "across": [one.as_json() for one in summaries(kept)],
    }


def boards(
    records: Iterable[TrialRecord], *, by: By = "rmse", truth: TruthKind = "expected"
) -> list[Board]:
    """Compute all boards of the records, settings ordered by id and parameters.

    The order of the records has no effect, so a resumed run gives the same boards as an
    uninterrupted one.

    Parameters
    ----------
    records : the newest of each key; of records with equal keys, the last counts.
    by : the measure that orders the rows. Boards by time, by ratio and by balance contain only
        rows that have it.
    truth : the value against which errors are measured.
    """
    return stream_boards(Outcomes.by_setting(records), by=by, truth=truth)


def stream_boards(
    settings: Iterable[Outcomes],
    *,
    by: By = "rmse",
    truth: TruthKind = "expected",
) -> list[Board]:
    """Compute `boards` of one setting after another, without keeping the outcomes.

    Parameters
    ----------
    settings : the outcomes of each setting of an environment.
    by, truth : as for `boards`.
    """
    found: list[tuple[PluginSpec, Board]] = []
    for group in settings:
        if len(group):
            outcomes = _in_order(group.newest())
            # Finite estimates may be so large that a figure made of them is not.
            with np.errstate(over="ignore", invalid="ignore"):
                board = replace(_board(outcomes, by, truth), left_out=_lost(group, outcomes))
            found.append((outcomes.environment[0], board))
    found.sort(key=lambda one: (_sortable(one[0]), one[0].identity_json))
    labels = distinct_labels([spec for spec, _ in found])
    return [replace(board, label=label) for (_, board), label in zip(found, labels, strict=True)]


def _lost(before: Outcomes, after: Outcomes) -> tuple[str, ...]:
    """Return the estimators that no trial is left of."""
    # Thousands of trials share a spec.
    lost, kept = (
        {one.identity_json: one for one in {id(one): one for one in specs}.values()}
        for specs in (before.estimator.tolist(), after.estimator.tolist())
    )
    return tuple(distinct_labels([spec for name, spec in lost.items() if name not in kept]))


def averaged(settings: Iterable[Outcomes], parameter: str) -> Iterator[Outcomes]:
    """Yield settings that differ in one parameter of the environment alone as one setting.

    Their data sets together are its replicates, so that a mean square is one over all of them.

    Parameters
    ----------
    settings : the outcomes of each setting; without the parameter they are as they were.
    parameter : its name.

    Raises
    ------
    UsageError : no environment has the parameter.
    """
    groups: dict[str, list[Outcomes]] = {}
    known: dict[str, None] = {}
    for one in map(Outcomes.newest, settings):
        spec = one.environment[0]
        known |= dict.fromkeys(spec.params)
        params = {name: value for name, value in spec.params.items() if name != parameter}
        kept = replace(spec, params=params)
        shared = np.full(len(one), kept, np.object_)
        group = groups.setdefault(kept.identity_json, [])
        part = np.full(len(one), len(group), np.int64)
        group.append(replace(one, environment=shared, part=part))
    if groups and parameter not in known:
        msg = f"no environment has the parameter '{parameter}'{did_you_mean(parameter, known)}"
        raise UsageError(msg)
    for group in groups.values():
        rows: dict[tuple[str, str, int], list[Outcomes]] = {}
        for one in group:
            for row in one.by_row():
                name = row.estimator[0].identity_json, row.device[0], int(row.threads[0])
                rows.setdefault(name, []).append(row)
        # Digests of settings with other data differ; those of one state of the code are one.
        parts = []
        for cells in rows.values():
            alike = linked(cell.sources.names for cell in cells)
            states = {name: min(one) for one in alike for name in one}
            for cell in cells:
                code = np.full(len(cell), states[min(cell.sources.names)], np.object_)
                parts.append(replace(cell, code=code if cell.codes == 1 else cell.code))
        yield Outcomes.joined(parts, sum(map(len, parts)))


def _in_order(outcomes: Outcomes) -> Outcomes:
    """Order outcomes by estimator, device, threads and data set; those of one key are one."""
    specs = {id(spec): spec for spec in outcomes.estimator.tolist()}
    places = {name: _sortable(spec) for name, spec in specs.items()}
    ranks = {place: rank for rank, place in enumerate(sorted(set(places.values())))}
    rank = np.array([ranks[places[id(spec)]] for spec in outcomes.estimator.tolist()], np.int64)
    device = {word: number for number, word in enumerate(sorted(set(outcomes.device.tolist())))}
    devices = np.array([device[word] for word in outcomes.device.tolist()], np.int64)
    salt = outcomes.salt.astype(np.str_)
    by = (outcomes.replicate, outcomes.seed, salt, outcomes.threads, devices, rank)
    return outcomes.take(np.lexsort(by))


def _sortable(spec: PluginSpec) -> tuple[Any, ...]:
    """Return a sort key of a spec: numbers numerically, all else as text."""
    params = tuple(
        (name, 0, value, "")
        if isinstance(value, int | float) and not isinstance(value, bool)
        else (name, 1, 0, canonical_json(value))
        for name, value in sorted(spec.params.items())
    )
    return (spec.id, params, spec.worlds, spec.version)


def _board(outcomes: Outcomes, by: By, truth: TruthKind) -> Board:
    facts = ReplicateFacts.of(outcomes, truth)
    groups = list(outcomes.by_row())
    whole = _in_each_part(groups)
    statistics = [aggregate(group, facts) for group in groups]
    specs = []
    for group in groups:
        known: list[PluginSpec] = group.estimator.tolist()
        # That of the last labeled trial; keys contain no labels.
        specs.append(next((spec for spec in reversed(known) if spec.label), known[0]))
    rows = [
        Row(
            spec=spec,
            label=label,
            access=tuple(dict.fromkeys(itertools.chain.from_iterable(group.access.tolist()))),
            device=group.device[-1],
            threads=int(group.threads[-1]),
            origin=", ".join(dict.fromkeys(filter(None, group.origin.tolist()))) or spec.origin,
            codes=group.codes,
            sources=group.sources,
            machines=tuple(dict.fromkeys(group.machine[group.exclusive].tolist())),
            shares_settings=shared,
            **vars(one.values),
            **vars(joint),
        )
        for one, joint, group, spec, label, shared in zip(
            statistics,
            joint_values(statistics, whole),
            groups,
            specs,
            distinct_labels(specs),
            whole,
            strict=True,
        )
    ]
    spec = outcomes.environment[0]
    origins = {origin: None for origin in outcomes.environment_origin.tolist() if origin}
    return Board(
        by=by,
        spec=spec,
        environment_origin=", ".join(origins) or spec.origin,
        truth=truth,
        truth_se=_root_mean_square(outcomes.truth_expected_se),
        truth_rms=_root_mean_square(facts.truth),
        rows=tuple(ordered(rows, by)),
    )


_FULL = 0.9
"""Share of a setting's part in all data sets from which a row of averages counts as run there."""


def _in_each_part(rows: Sequence[Outcomes]) -> list[bool]:
    """Return of each row whether its data sets are spread over the settings as all rows' are."""
    parts = [row.part[row.tried] for row in rows]
    size = 1 + max((int(one.max()) for one in parts if len(one)), default=0)
    counts = np.array([np.bincount(one, minlength=size) for one in parts], np.float64)
    most = counts.max(axis=0) / max(counts.max(axis=0).sum(), 1.0)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    if size == 1:
        return [True] * len(rows)
    return [bool(one) for one in (shares >= _FULL * most).all(axis=1)]


def _root_mean_square(values: FloatArray) -> float | None:
    known = values[~np.isnan(values)]
    return root_mean_square(known) if len(known) else None


# Statistics that need all rows of a board: intervals, scores, ties and ranks.

_TIED_LEVEL = 0.05

_RESOLVED = 0.5
"""Largest growth of the score that a comparison may miss if rows are to count as tied."""


def joint_values(
    cells: Sequence[RowStatistics], compared: Sequence[bool] | None = None
) -> list[JointValues]:
    """Compute the joint statistics of a board's rows, in their order.

    Parameters
    ----------
    cells : the rows.
    compared : which of them are compared with the best of them; all by default.
    """
    rmse, low, high = (np.full(len(cells), np.nan) for _ in range(3))
    heavy = np.zeros(len(cells), dtype=np.bool_)
    by_size: dict[int, list[int]] = {}
    for index, cell in enumerate(cells):
        by_size.setdefault(len(cell.errors), []).append(index)
    # Rows with equally many errors share one set of resamples.
    for members in by_size.values():
        intervals = rmse_intervals(np.stack([cells[index].errors for index in members]))
        rmse[members], heavy[members] = intervals.rmse, intervals.heavy_tailed
        low[members], high[members] = intervals.low, intervals.high
    score = np.full(len(cells), np.nan)
    for index, cell in enumerate(cells):
        # No score without trials, nor where imputation is impossible.
        if 0 < cell.tried <= len(cell.imputed):
            score[index] = scaled_rms(np.fromiter(cell.imputed.values(), np.float64))
    # A row on other data sets is no reference for these.
    ties = _ties(cells, score if compared is None else np.where(compared, score, np.nan))
    return [
        JointValues(
            rmse=RowInterval(
                value=_finite_or_none(rmse[i]),
                low=_finite_or_none(low[i]),
                high=_finite_or_none(high[i]),
            ),
            heavy_tailed=bool(heavy[i]),
            score=_finite_or_none(score[i]),
            tied=tied,
            detectable=detectable,
        )
        for i, (tied, detectable) in enumerate(ties)
    ]


def _ties(
    cells: Sequence[RowStatistics], score: FloatArray
) -> list[tuple[bool | None, float | None]]:
    """Compare every row with the best score: whether they are tied, and the detectable growth."""
    scored: list[int] = np.flatnonzero(~np.isnan(score)).tolist()
    ties: list[tuple[bool | None, float | None]] = [(False, None)] * len(cells)
    columns = {key: i for i, key in enumerate({key: None for c in cells for key in c.imputed})}
    errors = np.full((len(scored), len(columns)), np.nan)
    for row, index in enumerate(scored):
        imputed = cells[index].imputed
        errors[row, [columns[key] for key in imputed]] = list(imputed.values())
    # Rows that mostly failed are not ranked, so they cannot be the best.
    ranked = [i for i, index in enumerate(scored) if not cells[index].values.mostly_failed]
    if not ranked:
        return ties
    best = min(ranked, key=lambda i: score[scored[i]])
    others = np.arange(len(scored)) != best
    compared = compare_rows(errors, best)
    adjusted = holm(compared.p[others])
    # Of Holm's first step, the smallest; growth is one side of a two-sided test.
    level = _TIED_LEVEL / 2 / max(1, int(others.sum()))
    for row, p in zip(np.flatnonzero(others).tolist(), adjusted, strict=True):
        error, n = float(compared.standard_error[row]), int(compared.n[row])
        growth = None
        # The smallest possible p-value is one over the number of swaps.
        if n >= 2 and math.isfinite(error) and 0.5**n <= level:
            square = detectable_growth(error, n, level)
            growth = None if square is None else math.sqrt(1 + square) - 1
        resolved = growth is not None and growth <= _RESOLVED
        ties[scored[row]] = (None if not resolved else True) if p > _TIED_LEVEL else False, growth
    ties[scored[best]] = True, None
    return ties


def _finite_or_none(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def reordered(board: Board, by: By) -> Board:
    """Order a board's rows by another measure, without recomputing statistics."""
    return replace(board, by=by, rows=tuple(ordered(board.rows, by)))


def ordered(rows: Sequence[Row], by: By) -> list[Row]:
    """Return rows with their ranks, best first; those without a rank last, in given order.

    By RMSE a row without a score has no rank, nor has one that failed on more than half of its
    data sets: its score would be mostly that of the logging average. By coverage a row that
    withheld every standard error stays, without a rank; one that offers none is left out. By time
    ranks are among the rows of one machine, and rows of several machines have none. Over averaged
    settings rows that lack some have none.
    """
    measure = COLUMNS[LAYOUTS[by].measure].value
    values = np.array([measure(row) for row in rows], dtype=np.float64)
    shown = ~np.isnan(values)
    if by == "rmse":
        values[[row.mostly_failed for row in rows]] = np.nan
    values[[not row.shares_settings for row in rows]] = np.nan
    places = [0] * len(rows)
    if by == "time":
        # In the order of their first rows, by time.
        order = np.argsort(values, kind="stable").tolist()
        machines = list(dict.fromkeys(rows[place].machine for place in order))
        places = [machines.index(row.machine) for row in rows]
        values[[len(row.processors) > 1 for row in rows]] = np.nan
    ranks: list[int | None] = [None] * len(rows)
    for place in set(places):
        among = np.array([one == place for one in places], np.bool_)
        found = iter(shared_ranks(values[among]))
        ranks = [next(found) if one else rank for one, rank in zip(among, ranks, strict=True)]
    ranked = [
        (rank is None, place, rank or 0, replace(row, rank=rank))
        for row, rank, place, has in zip(rows, ranks, places, shown, strict=True)
        if has or by in ("rmse", "positivity") or (by == "coverage" and row.withheld.count)
    ]
    return [row for *_, row in sorted(ranked, key=lambda one: one[:3])]
