"""Boards over several settings: mean ranks, value lost by choosing policies, and regret.

All three match the rows of their settings by estimator and device (`_matched_rows`) and show one
row for each; they differ in what a row has in one setting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np

from ope_bench.base.canonical import plain
from ope_bench.boards.board import Board, EstimatorRow, ReplicateFacts, Row, aggregate, errors_of
from ope_bench.boards.columns import BoardColumn, count, json_value, number, percent, text
from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.data import TruthKind
from ope_bench.contracts.plugins import CHOSEN_ESTIMATOR
from ope_bench.contracts.random import stream
from ope_bench.outcomes import Outcomes, Sources, codes_over
from ope_bench.plugins.spec import PluginSpec, distinct_labels
from ope_bench.statistics.error_distribution import BOOTSTRAP_SEED
from ope_bench.statistics.ranks import (
    Selection,
    critical_difference,
    interquartile_mean,
    mean_ranks,
    performance_profile,
    selection,
)
from ope_bench.trials.status import Status


@dataclass(frozen=True, kw_only=True)
class RowOverSettings(EstimatorRow):
    """One estimator on one device, over several settings.

    Parameters
    ----------
    codes : how many versions of its code the settings are of, see `codes_over`.
    """

    codes: int = 1

    @property
    def key(self) -> tuple[str, str]:
        """Identity of the row: spec and device."""
        return self.spec.identity_json, self.device

    def as_json(self) -> dict[str, Any]:
        """Return the row's values, its spec as id and parameters."""
        facts = {"estimator": self.estimator, "label": self.label, "params": self.params}
        return facts | {name: value for name, value in vars(self).items() if name != "spec"}


@dataclass(frozen=True, kw_only=True)
class OverSettings:
    """A board over several settings: a row for each estimator and device.

    Parameters
    ----------
    columns : all columns, in the order of CSV.
    layout : keys of the columns that text, Markdown and LaTeX show.
    explained : keys of the columns that these explain in a note.
    """

    rows: Sequence[Any]
    columns: ClassVar[tuple[BoardColumn, ...]]
    layout: ClassVar[tuple[str, ...]]
    explained: ClassVar[tuple[str, ...]] = ()

    @property
    def title(self) -> str:
        """Heading of the board's table."""
        raise NotImplementedError

    def as_json(self) -> dict[str, Any]:
        """Return the board as plain JSON."""
        facts = {name: plain(value) for name, value in vars(self).items() if name != "rows"}
        return facts | {"rows": [plain(row.as_json()) for row in self.rows]}


C = TypeVar("C", bound="Row | _Estimates | _Errors")
_CODES = count("codes", "", "versions of the code and data that the trials are of")
"""A row's part in one setting."""

_Name = tuple[str, str]
"""A row's name in all settings: the identity of its spec, and its device."""


def _matched_rows(
    settings: Sequence[Mapping[_Name, C]],
    environments: Sequence[str],
    names: Iterable[_Name] | None = None,
) -> Iterator[tuple[dict[str, Any], list[C | None]]]:
    """Yield each row's identity, and its cells; None in settings where it did not run.

    Parameters
    ----------
    settings : the cells of each setting by name.
    environments : the environment's id of each setting.
    names : the names in an order; as they first come by default.
    """
    names = list(names or dict.fromkeys(name for setting in settings for name in setting))
    cells = [[setting.get(name) for setting in settings] for name in names]
    specs = [next(one.spec for one in row if one is not None) for row in cells]
    labels = distinct_labels(specs)
    for name, row, spec, label in zip(names, cells, specs, labels, strict=True):
        known = zip(environments, row, strict=True)
        codes = codes_over((where, one.sources) for where, one in known if one is not None)
        yield {"spec": spec, "label": label, "device": name[1], "codes": codes}, row


def _cells(outcomes: Outcomes, make: Callable[[Outcomes], C]) -> dict[_Name, C]:
    """Make the cell of each row of a setting from its outcomes."""
    return {
        (row.estimator[0].identity_json, row.device[0]): make(row)
        for row in outcomes.by_row(threads=False)
    }


_IDENTITY = (
    number("estimator", "", "estimator; in CSV the id alone", format="estimator"),
    text("label", "", "id with the parameters that distinguish rows"),
    json_value("params", "parameters", "all parameters"),
    text("device", "", "device on which it ran"),
    _CODES,
)


# Summary: mean ranks and performance profiles.

_FACTORS = (1.0, 1.1, 1.5, 2.0, 5.0)


@dataclass(frozen=True, kw_only=True)
class SummaryRow(RowOverSettings):
    """One estimator over all settings; None where a statistic is undefined.

    Parameters
    ----------
    settings : number of settings in which it has a score.
    mean_rank : over the settings in which every row has a score.
    factor_iqm : interquartile mean of its score over the setting's best score.
    within : share of settings in which its score is within each of the factors of the best.
    """

    settings: int
    mean_rank: float | None
    factor_iqm: float | None
    within: tuple[float, ...]


def _within(place: int) -> BoardColumn:
    return percent(
        f"within_{place}",
        f"within x{_FACTORS[place]:g}",
        "share of settings in which the score is within that factor of the best",
        lambda row: row.within[place],
        drop=len(_FACTORS) - place,
    )


@dataclass(frozen=True, kw_only=True)
class Summary(OverSettings):
    """Mean ranks and performance profiles over settings with the same kind of truth.

    Parameters
    ----------
    truth : kind of truth of the boards.
    settings : number of boards.
    complete : boards in which every row has a score; mean ranks are over these.
    critical_difference : of two mean ranks at 5 % (Nemenyi); assumes independent settings.
    factors : the factors of ``within``.
    """

    truth: str
    settings: int
    complete: int
    critical_difference: float | None
    factors: tuple[float, ...] = _FACTORS
    rows: tuple[SummaryRow, ...]

    columns = (
        number("estimator", "", "estimator", format="estimator"),
        number(
            "mean_rank",
            "",
            "mean rank by score, over the settings in which all estimators have one",
        ),
        number("factor_iqm", "x best", "interquartile mean of the score over the setting's best"),
        count("settings", "", "settings with a score"),
        _CODES,
        *map(_within, range(len(_FACTORS))),
    )
    # Only the best row is within the first factor, 1.
    layout = (
        "estimator",
        "mean_rank",
        "factor_iqm",
        *(f"within_{place}" for place in range(1, len(_FACTORS))),
    )

    @property
    def title(self) -> str:
        """Heading of the summary's table."""
        return f"over {self.settings} settings | {self.truth} truth"


def across(boards: Sequence[Board]) -> Summary | None:
    """Summarize boards by score; None for fewer than two boards or rows."""
    settings = [{row.key[:2]: row for row in board.rows} for board in boards]
    matched = list(_matched_rows(settings, [board.environment for board in boards]))
    if len(boards) < 2 or len(matched) < 2:
        return None
    scores = np.array(
        [
            [math.nan if row is None or row.score is None else row.score for row in rows]
            for _, rows in matched
        ]
    )
    complete = int((~np.isnan(scores).any(axis=0)).sum())
    filled = np.where(np.isnan(scores), np.inf, scores).min(axis=0)
    # A best score of 0 is no unit.
    best = np.where(np.isfinite(filled) & (filled > 0), filled, np.nan)
    ranks = mean_ranks(scores)
    profile = performance_profile(scores, np.array(_FACTORS))
    found = []
    for (identity, rows), rank, score, within in zip(matched, ranks, scores, profile, strict=True):
        factor = score / best
        found.append(
            SummaryRow(
                # Labels of the same parameters agree between boards.
                **identity | {"label": max((row.label for row in rows if row), key=len)},
                settings=int((~np.isnan(score)).sum()),
                mean_rank=None if math.isnan(rank) else float(rank),
                factor_iqm=interquartile_mean(factor[~np.isnan(factor)]),
                within=tuple(map(float, within)),
            )
        )
    found.sort(key=lambda row: (row.mean_rank is None, row.mean_rank, row.factor_iqm or math.inf))
    return Summary(
        truth=boards[0].truth,
        settings=len(boards),
        complete=complete,
        critical_difference=critical_difference(len(matched), complete),
        rows=tuple(found),
    )


def summaries(boards: Iterable[Board]) -> list[Summary]:
    """Compute a summary for each kind of truth of boards by RMSE."""
    kinds: dict[str, list[Board]] = {}
    for board in boards:
        if board.by == "rmse":
            kinds.setdefault(board.truth, []).append(board)
    return [one for members in kinds.values() if (one := across(members)) is not None]


# Policy selection: the value lost by choosing among target policies on the same logs.


@dataclass(frozen=True, kw_only=True)
class SelectionRow(Selection, RowOverSettings):
    """Selection measures of one estimator; means over replicates, None where undefined.

    A policy whose estimate failed cannot be chosen. The policy in use is the logging policy, at
    its average reward.

    Parameters
    ----------
    replicates : number of replicates with estimates for at least two policies.
    """

    replicates: int


@dataclass(frozen=True, kw_only=True)
class SelectionBoard(OverSettings):
    """Selection among target policies with the same logs; rows ordered by the value lost.

    Parameters
    ----------
    environment : id of the environment.
    policies : labels of the settings, one per target policy.
    """

    environment: str
    policies: tuple[str, ...]
    rows: tuple[SelectionRow, ...]

    columns = (
        text("environment", "", "id of the environment", of_board=True),
        text(
            "policies",
            "",
            "the target policies to choose among",
            lambda board: "; ".join(board.policies),
            of_board=True,
        ),
        *_IDENTITY,
        count("replicates", "n", "replicates with at least two estimates"),
        number("spearman", "Spearman", "rank correlation of estimates and values"),
        number("kendall", "Kendall", "Kendall's rank correlation of estimates and values"),
        number(
            "regret",
            "value lost",
            "value of the best policy minus that of the one with the best estimate",
        ),
        percent("relative_regret", "relative", "value lost over the values' range"),
        percent(
            "type_one",
            "type I",
            "share of policies worse than the logging policy whose estimate beats its average",
        ),
        percent(
            "type_two",
            "type II",
            "share of policies better than the logging policy whose estimate does not",
        ),
    )
    layout = (
        "estimator",
        "regret",
        "relative_regret",
        "spearman",
        "kendall",
        "type_one",
        "type_two",
        "replicates",
    )
    explained = ("regret", "type_one", "type_two")

    @property
    def title(self) -> str:
        """Heading of the board's table."""
        return f"{self.environment} | choosing among {', '.join(self.policies)}"


_Replicate = tuple[int, int]
"""Seed and replicate."""


@dataclass(frozen=True, eq=False)
class _Estimates:
    """A row's estimates of one policy, NaN for failures, with the trials' logging averages."""

    spec: PluginSpec
    of: Mapping[_Replicate, tuple[float, float]]
    sources: Sources


@dataclass(frozen=True, eq=False)
class _Policy:
    """One setting of policy selection: a target policy.

    Parameters
    ----------
    logs : replicates with their logging averages, where the policy's value is known, too.
    values : the policy's value.
    """

    environment: PluginSpec
    logs: tuple[tuple[_Replicate, float], ...]
    values: Mapping[_Replicate, float]
    cells: Mapping[_Name, _Estimates]


def selection_boards(settings: Iterable[Outcomes]) -> list[SelectionBoard]:
    """Compute a board for each group of settings with the same logs.

    Logs are drawn before and independently of the target, so settings that differ in their target
    policy alone have equal logging averages on every replicate, which identifies the groups.

    Parameters
    ----------
    settings : the outcomes of each setting of an environment, of which the estimates are kept.
    """

    def replicates(outcomes: Outcomes) -> list[_Replicate]:
        of_data = (outcomes.salt, outcomes.seed, outcomes.replicate)
        return list(zip(*(column.tolist() for column in of_data), strict=True))

    def estimates(row: Outcomes) -> _Estimates:
        estimate = np.where(row.has(Status.OK), row.estimate, np.nan).tolist()
        pairs = zip(estimate, row.logging_average.tolist(), strict=True)
        found = dict(zip(replicates(row), pairs, strict=True))
        return _Estimates(row.estimator[0], found, row.sources)

    found: list[tuple[str, _Policy]] = []
    for outcomes in settings:
        if not len(outcomes):
            continue
        newest = outcomes.newest()
        of_policy = newest.take(~np.isnan(newest.truth_expected))
        logged = of_policy.take(~np.isnan(of_policy.logging_average))
        logs = zip(replicates(logged), logged.logging_average.tolist(), strict=True)
        values = zip(replicates(of_policy), of_policy.truth_expected.tolist(), strict=True)
        policy = _Policy(
            newest.environment[0],
            tuple(sorted(set(logs))),
            dict(values),
            _cells(newest, estimates),
        )
        found.append((newest.key[0], policy))
    groups: dict[tuple[Any, ...], list[_Policy]] = {}
    # By their smallest keys, whatever order the settings come in.
    for _, policy in sorted(found, key=lambda one: one[0]):
        if policy.logs:
            groups.setdefault((policy.environment.id, policy.logs), []).append(policy)
    chosen = [group for group in groups.values() if len(group) > 1]
    # Among all groups, so that two groups of one environment can be told apart.
    labels = iter(distinct_labels([policy.environment for group in chosen for policy in group]))
    return [
        SelectionBoard(
            environment=group[0].environment.id,
            policies=tuple(next(labels) for _ in group),
            rows=_ordered(
                _selection_row(identity, cells, group)
                for identity, cells in _matched_rows(
                    [policy.cells for policy in group],
                    [policy.environment.id for policy in group],
                )
            ),
        )
        for group in chosen
    ]


def _selection_row(
    identity: Mapping[str, Any], cells: Sequence[_Estimates | None], group: Sequence[_Policy]
) -> SelectionRow:
    estimates = [cell.of if cell else {} for cell in cells]
    unknown = (math.nan, math.nan)
    selections = []
    for at in sorted(set().union(*estimates)):
        value = np.array([policy.values.get(at, math.nan) for policy in group])
        estimate = np.array([of.get(at, unknown)[0] for of in estimates])
        if np.isfinite(estimate).sum() < 2 or np.isnan(value).any():
            continue
        _, average = next(of[at] for of in estimates if at in of)
        reference = None if math.isnan(average) else average
        selections.append(selection(estimate, value, reference=reference))
    means: dict[str, Any] = {}
    for measure in fields(Selection):
        known = [one for item in selections if (one := getattr(item, measure.name)) is not None]
        means[measure.name] = sum(known) / len(known) if known else None
    return SelectionRow(**identity, replicates=len(selections), **means)


R = TypeVar("R", bound="SelectionRow | RegretRow")


def _ordered(rows: Iterable[R], apart: Callable[[R], bool] = lambda row: False) -> tuple[R, ...]:
    """Order rows by regret, those without one and those that stand apart last."""
    return tuple(
        sorted(
            rows,
            key=lambda row: (
                *(row.regret is None, apart(row)),
                *(math.inf if row.regret is None else row.regret, row.label),
            ),
        )
    )


# Regret: errors over those of the best fixed choice.


@dataclass(frozen=True, kw_only=True)
class RegretRow(RowOverSettings):
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

    settings: int
    regret: float | None
    regret_low: float | None
    regret_high: float | None
    regret_90: float | None
    worst: float | None
    worst_setting: str | None
    own_regret: float | None
    own_90: float | None

    @property
    def regret_interval(self) -> tuple[float, float] | None:
        """Both ends of the interval."""
        low, high = self.regret_low, self.regret_high
        return None if low is None or high is None else (low, high)


@dataclass(frozen=True, kw_only=True)
class RegretBoard(OverSettings):
    """Regret over the settings of a store; rows ordered by it, those that lack settings last.

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

    columns = (
        *_IDENTITY,
        count("settings", "n", "settings in which row and best fixed choice ran"),
        number(
            "regret",
            "",
            "RMSE over that of the best fixed choice on the same data, geometric mean over "
            "settings",
            hide_empty=True,
        ),
        number("regret_low", "regret low", "lower end of its 95 % interval over data sets"),
        number("regret_high", "regret high", "upper end of its 95 % interval over data sets"),
        number(
            "regret_interval", "95 %", "interval of the regret over data sets", hide_empty=True
        ),
        number("regret_90", "90 %", "90 % point of the regret over settings", hide_empty=True),
        number("worst", "", "largest regret over settings", drop=4, hide_empty=True),
        text("worst_setting", "worst in", "setting of the largest regret", drop=6),
        number(
            "own_regret",
            "own",
            "RMSE over that of the best of the row's own candidates, geometric mean over settings",
            hide_empty=True,
        ),
        number("own_90", "own 90 %", "90 % point of that over settings", drop=5, hide_empty=True),
    )
    layout = (
        "estimator",
        "regret",
        "regret_interval",
        "regret_90",
        "own_regret",
        "own_90",
        "worst",
        "settings",
    )
    explained = ("regret", "regret_interval", "regret_90", "own_regret")

    @property
    def title(self) -> str:
        """Heading of the board's table."""
        return f"regret over {len(self.settings)} settings | {self.truth} truth"


_CANDIDATE = "value["
"""Beginning of the diagnostics that hold the estimates of a row's candidates."""

Pair = tuple[FloatArray, FloatArray]
"""Errors of two rows on the same data sets."""


@dataclass(frozen=True, eq=False)
class _Errors:
    """A row's errors by data set in one setting, and those of its candidates if it chooses."""

    spec: PluginSpec
    sources: Sources
    errors: Mapping[str, float]
    failed: bool
    fixed: bool
    candidates: Sequence[Mapping[str, float]]


def regret_board(
    settings: Iterable[Outcomes], *, truth: TruthKind = "expected"
) -> RegretBoard | None:
    """Compute the regret of every estimator over all settings; None without a fixed choice.

    A fixed choice is a row whose trials name no `CHOSEN_ESTIMATOR`, and that fails on less than
    half of the data sets. The best one is chosen in hindsight, by RMSE, for each setting, among
    those that ran on the most data sets.

    Parameters
    ----------
    settings : the outcomes of each setting of an environment, of which the errors are kept.
    truth : the value against which errors are measured.
    """
    found: dict[str, tuple[PluginSpec, dict[_Name, _Errors]]] = {}
    # Finite estimates may be so large that their squares are not.
    with np.errstate(over="ignore", invalid="ignore"):
        for outcomes in settings:
            if len(outcomes):
                newest = outcomes.newest()
                facts = ReplicateFacts.of(newest, truth)
                spec = newest.environment[0]
                found[spec.identity_json] = spec, _cells(newest, partial(_errors, facts=facts))
        ordered = [found[name] for name in sorted(found)]
        cells = [rows for _, rows in ordered]
        best = [_best_fixed(rows) for rows in cells]
        if not any(best):
            return None
        labels = distinct_labels([spec for spec, _ in ordered])
        names = sorted(set().union(*cells))
        matched = list(_matched_rows(cells, [spec.id for spec, _ in ordered], names))
        known = []
        for _, row in matched:
            pairs = [
                (label, _paired(one.errors, rows[name].errors))
                for label, one, rows, name in zip(labels, row, cells, best, strict=True)
                if one and name
            ]
            # A choice without error is no unit.
            known.append([(label, pair) for label, pair in pairs if pair and _rms(pair[1]) > 0])
        intervals = ratio_intervals([[pair for _, pair in pairs] for pairs in known])
        rows = [
            _regret_row(identity, row, pairs, interval)
            for (identity, row), pairs, interval in zip(matched, known, intervals, strict=True)
        ]
    label_of = {row.key: row.label for row in rows}
    most = max(row.settings for row in rows)
    return RegretBoard(
        truth=truth,
        settings=tuple(labels),
        best=tuple(None if name is None else label_of[name] for name in best),
        rows=_ordered(rows, lambda row: row.settings < most),
    )


def _errors(row: Outcomes, facts: ReplicateFacts) -> _Errors:
    """Return a row's errors, and those of the candidates whose values its trials report."""
    statistics = aggregate(row, facts)
    fixed = CHOSEN_ESTIMATOR not in row.diagnostics.names
    errors: dict[str, dict[str, float]] = {}
    if not fixed:
        truths = np.where(np.isnan(errors_of(row, facts)), np.nan, facts.truth[facts.at(row)])
        for key, truth, diagnostics in zip(
            row.data_key.tolist(), truths.tolist(), row.diagnostics, strict=True
        ):
            for name, value in diagnostics.items() if not math.isnan(truth) else ():
                if name.startswith(_CANDIDATE) and isinstance(value, float):
                    errors.setdefault(name, {})[key] = value - truth
    most = max(map(len, errors.values()), default=0)
    return _Errors(
        row.estimator[0],
        row.sources,
        statistics.imputed,
        failed=statistics.values.mostly_failed,
        fixed=fixed,
        # A candidate that failed somewhere has no RMSE on the same data sets.
        candidates=[one for one in errors.values() if len(one) == most],
    )


def _best_fixed(cells: Mapping[_Name, _Errors]) -> _Name | None:
    """Return the best fixed choice of a setting."""
    fixed = {
        name: one.errors
        for name, one in cells.items()
        if one.fixed and one.errors and not one.failed
    }
    # Rows that ran on fewer data sets may have met the easier ones.
    most = max(map(len, fixed.values()), default=0)
    whole = sorted(name for name, errors in fixed.items() if len(errors) == most)
    return min(
        whole, key=lambda name: _rms(np.fromiter(fixed[name].values(), np.float64)), default=None
    )


def _paired(left: Mapping[str, float], right: Mapping[str, float]) -> Pair | None:
    """Return the errors on the data sets of both: (n,)."""
    keys = [key for key in left if key in right]
    if not keys:
        return None
    return np.array([left[key] for key in keys]), np.array([right[key] for key in keys])


def _rms(errors: FloatArray) -> float:
    return float(np.sqrt(np.square(errors).mean()))


def _regret_row(
    identity: Mapping[str, Any],
    cells: Sequence[_Errors | None],
    known: Sequence[tuple[str, Pair]],
    interval: tuple[float | None, float | None],
) -> RegretRow:
    own = []
    for cell in cells:
        pairs = [_paired(cell.errors, one) for one in cell.candidates] if cell else []
        if ran := [pair for pair in pairs if pair]:
            own.append(min(ran, key=lambda pair: _rms(pair[1])))

    def log_ratios(pairs: Iterable[Pair]) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.array(
                [float(np.log(_rms(left)) - np.log(_rms(right))) for left, right in pairs]
            )

    def geometric_mean(logs: FloatArray) -> float | None:
        return _finite_exp(float(logs.mean())) if len(logs) else None

    def point_90(logs: FloatArray) -> float | None:
        return _finite_exp(float(np.quantile(logs, 0.9))) if len(logs) else None

    logs = log_ratios(pair for _, pair in known)
    # A best candidate without error is no unit.
    own_logs = log_ratios(pair for pair in own if _rms(pair[1]) > 0)
    worst = int(np.argmax(logs)) if len(logs) else None
    return RegretRow(
        **identity,
        settings=len(known),
        regret=geometric_mean(logs),
        regret_low=interval[0],
        regret_high=interval[1],
        regret_90=point_90(logs),
        worst=None if worst is None else _finite_exp(float(logs[worst])),
        worst_setting=None if worst is None else known[worst][0],
        own_regret=geometric_mean(own_logs),
        own_90=point_90(own_logs),
    )


# Intervals of regrets: data sets resampled, settings as they are.

RESAMPLES = 2_000

MOST_COUNTS, MULTIPLE = 1 << 21, 16
"""Counts that are in memory at once, 32 MB; resamples at once are a multiple of 16.

Of a row at the end of a matrix, a product of matrices may add in another order.
"""


def _finite_exp(log: float) -> float | None:
    """Return exp, None where it is no finite number."""
    # math.exp raises beyond 709.8.
    value = math.exp(log) if log < 700 else math.inf
    return value if math.isfinite(value) else None


def ratio_intervals(
    rows: Sequence[Sequence[Pair]],
) -> list[tuple[float | None, float | None]]:
    """Return the 95 % interval of each row's geometric mean of ratios of RMSEs over settings.

    A percentile interval; the data sets of each setting are resampled, the settings stay.

    Parameters
    ----------
    rows : errors of two rows on the same data sets, for each setting.
    """
    usable = [bool(pairs) and min(len(left) for left, _ in pairs) >= 2 for pairs in rows]
    totals = np.zeros((len(rows), RESAMPLES))
    for index in range(max(map(len, rows), default=0)):
        by_size: dict[int, list[int]] = {}
        for row, pairs in enumerate(rows):
            if usable[row] and index < len(pairs):
                by_size.setdefault(len(pairs[index][0]), []).append(row)
        for n, members in by_size.items():
            # By place and size alone, so that rows on the same data sets share resamples.
            rng = stream("regret", BOOTSTRAP_SEED, index, n)
            step = max(MULTIPLE, MOST_COUNTS // n // MULTIPLE * MULTIPLE)
            for start in range(0, RESAMPLES, step):
                size = min(step, RESAMPLES - start)
                counts = rng.multinomial(n, np.full(n, 1 / n), size=size).astype(np.float64)
                for row in members:
                    left, right = (counts @ np.square(errors) for errors in rows[row][index])
                    with np.errstate(divide="ignore", invalid="ignore"):
                        ratios = 0.5 * np.log(left) - 0.5 * np.log(right)
                    totals[row, start : start + size] += ratios
    intervals: list[tuple[float | None, float | None]] = []
    for total, pairs, wanted in zip(totals, rows, usable, strict=True):
        logs = total / len(pairs) if wanted else total[:0]
        logs = logs[np.isfinite(logs)]
        ends = np.quantile(logs, [0.025, 0.975]) if len(logs) else ()
        low, high = map(_finite_exp, map(float, ends)) if len(logs) else (None, None)
        intervals.append((low, high))
    return intervals
