"""The sums over batches of rows from which estimators, their errors and intervals follow.

Two passes. The first gives the Gram matrices of the ridge regressions by fold and action, and what
parameters depend on. In the second every row adds the columns of each estimator's `LinearScore`;
a value is a smooth function of their means, and its standard error, its lift and its difference to
another policy's are quadratic forms in the matrix of their products, summed by unit.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

import numpy as np

from ope_bench import (
    ESTIMATE_WARNING,
    STANDARD_ERROR_WITHHELD,
    Diagnostic,
    Estimator,
    FloatArray,
    Interval,
    LinearEstimator,
    LinearScore,
    LogFacts,
    ParameterError,
    UnavailableError,
)
from ope_estimators.actions.doubly_robust.dr_eb import ONE_UNIT, ShrunkScore, share_of
from ope_estimators.learning.folds import MOST_REPEATS
from ope_estimators.streamed.batches import Batch, BatchView
from ope_estimators.streamed.bets import end_of, first_distance, log_wealth, nodes, shares
from ope_estimators.streamed.known import KnownWeights, merged
from ope_estimators.streamed.likelihood import interval_of_sums
from ope_estimators.streamed.models import ModelSums

__all__ = ["StreamedSums"]

IN_MEMORY = "guaranteed intervals of units are made in memory, with largest_unit, not in batches"

ROUNDING = 1e-14
"""Share of a quadratic form's largest term below which it is rounding."""

Sums = dict[str, Any]

Combination = dict[int, float]
"""Factors of some columns' means, by their numbers."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SummedAnswer:
    """An estimate, and its combination of columns for differences.

    Parameters
    ----------
    value, standard_error : the estimate.
    lift, lift_error : over the mean logged reward.
    used : sum, sum of squares and maximum of the weights; None without weights.
    combination : factor of each column in the row's term.
    diagnostics, interval : as of an `Estimate`.
    """

    value: float
    standard_error: float | None
    lift: float
    lift_error: float | None
    used: tuple[float, float, float] | None
    combination: Combination
    diagnostics: dict[str, Diagnostic] = field(default_factory=dict)
    interval: Interval | None = None

    def fields(self, n: int) -> dict[str, Any]:
        """Return the fields of a trial's record, for a log of ``n`` rows."""
        total, square, largest = self.used or (0.0, 0.0, 0.0)
        facts: dict[str, Any] = {"lift": self.lift, "lift_standard_error": self.lift_error}
        interval = {
            f"interval_{name}": getattr(self.interval, name, None)
            for name in ("low", "high", "level", "kind")
        }
        return {
            "estimate": self.value,
            "standard_error": self.standard_error,
            "ess_fraction": float(total**2 / (n * square)) if square > 0 else None,
            "max_weight_share": float(largest / total) if total > 0 else None,
            "diagnostics": {**self.diagnostics, **facts},
            **interval,
        }


@dataclass(frozen=True)
class ShrinkageNumbers:
    """The numbers of columns that tell the share of `ShrunkScore`: y, y², u², u² y, (u y)², t²."""

    outcome: int | None
    square: int | None
    weight_square: int | None
    mixed: int | None
    gain_square: int | None
    contrast: int | None


@dataclass(frozen=True)
class ColumnNumbers:
    """The numbers of a score's columns: b, u, u y, c and c y; None for those that it lacks."""

    baseline: int | None = None
    weight: int | None = None
    gain: int | None = None
    control: int | None = None
    controlled: int | None = None
    shrinkage: ShrinkageNumbers | None = None


class _Table:
    """Columns of a batch; the same array is one column.

    Parameters
    ----------
    reward : the first one.
    """

    def __init__(self, reward: FloatArray) -> None:
        self.columns = [reward]
        self._number = {id(reward): 0}

    def put(self, column: FloatArray | None) -> int | None:
        """Return the number of a column, new unless it is there already."""
        if column is None:
            return None
        number = self._number.setdefault(id(column), len(self.columns))
        if number == len(self.columns):
            # Held, so that its identity stays its own.
            self.columns.append(column)
        return number

    def put_score(self, score: LinearScore) -> ColumnNumbers:
        """Return the numbers of a score's columns."""
        baseline, weight, outcome = self.put(score.baseline), score.weight, score.outcome
        if weight is None or outcome is None:
            return ColumnNumbers(baseline)
        gain, control = self.put(weight * outcome), score.control
        if control is not None:
            around = self.put(control), self.put(control * outcome)
            return ColumnNumbers(baseline, self.put(weight), gain, *around)
        if isinstance(score, ShrunkScore):
            squares = np.square(weight)
            further = (squares, squares * outcome, squares * outcome**2, score.contrast**2)
            numbers = ShrinkageNumbers(*map(self.put, (outcome, outcome**2, *further)))
            return ColumnNumbers(baseline, self.put(weight), gain, shrinkage=numbers)
        return ColumnNumbers(baseline, self.put(weight) if score.normalized else None, gain)


class StreamedSums:
    """Estimates of a log's policies from sums over its batches; see the protocol of this name.

    Parameters
    ----------
    estimators : those that cannot be computed from batches have no answer, but the reason.
    facts : of the log.

    Attributes
    ----------
    done : whether nothing more is to be summed.
    """

    default_estimators: ClassVar[tuple[str, ...]] = (
        "ipw",
        "ipws",
        "sg-ipw[normalize=true]",
        "beta-ipw",
        "dm[regressor=ridge,action_features=separate]",
        "dr[regressor=ridge,action_features=separate]",
        "sndr[regressor=ridge,action_features=separate]",
        "dr-os[regressor=ridge,action_features=separate]",
    )

    def __init__(self, estimators: Sequence[Estimator], facts: LogFacts) -> None:
        self.estimators, self.facts = tuple(estimators), facts
        self._pilot = self._batch(facts.pilot)
        self.n_policies = len(facts.pilot.targets)
        self._models = ModelSums(facts)
        self._known = [
            KnownWeights(one, facts.pilot.weight, facts.n_units) for one in self._pilot.weights
        ]
        # What is asked for here is summed in the first pass.
        self._reasons = [self._reason(one) for one in estimators]
        self._able = [k for k, reason in enumerate(self._reasons) if not reason]
        self.done = not self._able
        able: list[Any] = [self.estimators[k] for k in self._able]
        levels = {one.level for one in able if getattr(one, "interval", "") == "guaranteed"}
        self._threshold = math.log(2 / (1 - min(levels, default=0.95)))
        self._distance: dict[tuple[int, int], float] = {}
        if levels and facts.units is None:
            for p, side in itertools.product(range(self.n_policies), range(2)):
                products = self._products(self._pilot, p)[side]
                distance = first_distance(products, facts.n_units, self._threshold)
                self._distance[p, side] = distance
        self._first = True
        self._parameters: list[list[FloatArray]] = []
        self._column_shift = np.zeros(0)
        self._total: Sums = {}
        self._sums_of_gain: list[tuple[float, float]] = []
        self._weighed: list[tuple[int, int]] = []
        self._columns: list[list[list[ColumnNumbers]]] = []
        self._answers: list[list[SummedAnswer | None]] = []

    def _batch(self, log: Any, *place: Any) -> Batch:
        return Batch(log, self.facts.problem_of, *place)

    def _reason(self, estimator: Estimator) -> str:
        """Return why an estimator cannot be computed from batches; empty where it can."""
        if not (isinstance(estimator, LinearEstimator) and estimator.in_batches):
            return "it is not computed from batches of rows; sample rows into a log that fits"
        interval = getattr(estimator, "interval", "asymptotic")
        offered = ("asymptotic", "empirical-likelihood", "guaranteed")
        if interval not in (offered if estimator.weight_intervals else offered[:1]):
            return f"interval={interval} is not offered over batches of rows"
        if self.facts.weight is not None and not estimator.row_weights:
            return "the logs have row weights, which this estimator does not use"
        try:
            for p in range(self.n_policies):
                self._scores(estimator, self._pilot, p)
        except (UnavailableError, ParameterError) as exc:
            return str(exc)
        except Exception as exc:  # of a plugin; the others still run
            return f"it fails on some rows of the log: {type(exc).__name__}: {exc}"
        return ""

    def _scores(
        self, estimator: LinearEstimator, batch: Batch, p: int, parameters: Any = None
    ) -> list[LinearScore]:
        # A copy: other threads fit the same estimator to their batches.
        own = copy.copy(estimator)
        view = BatchView(batch.problems[p], own, self._models.fits(batch, p))
        own.fit(view, rng=np.random.default_rng(0), device="cpu")
        if parameters is None:
            parameters = np.asarray(own.parameters(self._known[p]))
        return own.scores(view, parameters)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a worker needs: no rows."""
        first = self.facts.pilot.part(np.arange(1))
        facts = replace(self.facts, pilot=first)
        return self.__dict__ | {"facts": facts, "_pilot": None, "_total": {}}

    def sums(self, log: Any, first: int, part: Any, weight_before: float) -> Sums:
        """Return the sums over a batch of the present pass; parameters as of `Batch`."""
        batch = self._batch(log, first, part, weight_before)
        return self._first_sums(batch) if self._first else self._second_sums(batch)

    def add(self, first: Sums, second: Sums) -> Sums:
        """Add two sets of sums; ``max...`` are maxima, ``values...`` are counted."""
        found = dict(first)
        for name, value in second.items():
            if name not in found:
                found[name] = value
            elif isinstance(value, dict):
                found[name] = self.add(found[name], value)
            elif name.startswith("max"):
                found[name] = np.maximum(found[name], value)
            elif name.startswith("values"):
                found[name] = merged(found[name], value)
            else:
                found[name] = found[name] + value
        return found

    def advance(self, total: Sums) -> None:
        """Take the sums over all batches, and decide what is to be summed next."""
        if not self._first:
            self._total |= total
            inside = [self._bet(p, side, total) for p, side in self._distance]
            self.done = all(inside)
            if self.done:
                self._answers = [
                    [None if reason else self._answer(k, p) for k, reason in self._asked]
                    for p in range(self.n_policies)
                ]
            return
        self._total = total
        settled = [
            known.settle(total[f"known{p}"], float(total["weight"]))
            for p, known in enumerate(self._known)
        ]
        if all(settled):
            self._models.fit(total)
            self._sums_of_gain = [
                (float(total[f"weight{p}"]), float(total[f"gain{p}"]))
                for p in range(self.n_policies)
            ]
            self._parameters = [
                [np.asarray(self._estimator(k).parameters(known)) for k in self._able]
                for known in self._known
            ]
            self._first = False
            self._pilot = self._batch(self.facts.pilot)
            table, self._weighed, self._columns, _ = self._table(self._pilot)
            self._column_shift = np.array([one.mean() for one in table.columns])

    def _estimator(self, k: int) -> LinearEstimator:
        return cast(LinearEstimator, self.estimators[k])

    @property
    def _asked(self) -> Iterator[tuple[int, str]]:
        return enumerate(self._reasons)

    # The first pass.

    def _first_sums(self, batch: Batch) -> Sums:
        omega, counts = self._counted(batch)
        reward = batch.reward
        found: Sums = {"weight": omega.sum(), "reward": omega @ reward}
        seen = np.bincount(batch.action, minlength=len(batch.log.actions))
        found["seen"] = seen.astype(np.float64)
        weights = batch.weights
        for p, w in enumerate(weights):
            found[f"weight{p}"] = omega @ w
            found[f"gain{p}"] = (omega * w) @ reward
            found[f"known{p}"] = self._known[p].sums(w, omega, counts)
            for q, other in enumerate([*weights[:p], np.ones(len(w))]):
                apart = omega * np.square(w - other)
                name = f"apart{p}-{q if q < p else -1}"
                found[name] = np.array([apart.sum(), apart @ reward])
            table = batch.tables[p]
            if table is not None:
                found[f"mass{p}"] = omega @ table
        return found | self._models.sums(batch, counts)

    def _counted(self, batch: Batch) -> tuple[FloatArray, FloatArray | None]:
        """Return row weights, and how often each row counts in fits, as `multiplicity` says."""
        weight = batch.log.weight
        if weight is None:
            return np.ones(len(batch.reward)), None
        scale = min(1.0, MOST_REPEATS * self.facts.n / (self.facts.weight or 1.0))
        sums = batch.weight_before * scale + np.cumsum(weight * scale)
        last = np.floor(np.append(batch.weight_before * scale, sums) + 0.5)
        return weight, np.diff(last)

    # The second pass.

    def _table(
        self, batch: Batch
    ) -> tuple[_Table, list[tuple[int, int]], list[list[list[ColumnNumbers]]], Sums]:
        """Return the columns that rows add, where the weights and scores of each policy are.

        The last value are sums of the weights that are used.
        """
        table, used = _Table(batch.reward), Sums()
        weighed, columns = [], []
        for p, w in enumerate(batch.weights):
            weighed.append(cast("tuple[int, int]", (table.put(w), table.put(w * batch.reward))))
            of_policy = []
            for k, parameters in zip(self._able, self._parameters[p], strict=True):
                scores = self._scores(self._estimator(k), batch, p, parameters)
                of_policy.append([table.put_score(one) for one in scores])
                weights = [one.weight for one in scores if one.weight is not None]
                if any(isinstance(one, ShrunkScore) for one in scores):
                    used[f"units{p}"] = self._units_with_weight(batch, p)
                if weights:
                    used[f"max{p}-{k}"] = np.array([one.max() for one in weights])
                    sums = [(one.sum(), one @ one) for one in weights]
                    used[f"used{p}-{k}"] = np.array(sums)
            columns.append(of_policy)
        return table, weighed, columns, used

    def _units_with_weight(self, batch: Batch, p: int) -> FloatArray:
        """Return how many units have weight, and for how many rows their rows stand."""
        weight, rows = batch.weights[p], batch.log.weight
        told = weight > 0 if rows is None else np.where(weight > 0, rows, 0.0)
        return np.array([np.count_nonzero(batch.by_unit(weight)), told.sum()])

    def _second_sums(self, batch: Batch) -> Sums:
        table, _, _, used = self._table(batch)
        columns = np.column_stack(table.columns)
        columns -= self._column_shift
        columns = np.column_stack([np.ones(len(columns)), columns])
        if batch.log.weight is not None:
            columns *= batch.log.weight[:, None]
        columns = batch.by_unit(columns)
        for p, side in self._distance:
            products = self._products(batch, p)[side]
            share = shares(self.facts.n_units)
            means = nodes(max(self._averages(p)[side], 1e-300), self._distance[p, side])
            used[f"bets{p}-{side}"] = np.array([log_wealth(products, m, share) for m in means])
        return {"columns": columns.sum(axis=0), "products": columns.T @ columns, **used}

    # Bets, on the products of weights and scaled rewards and of one minus them.

    def _products(self, batch: Batch, p: int) -> tuple[FloatArray, FloatArray]:
        low, high = self.facts.reward_limits
        scaled, weight = (batch.reward - low) / (high - low), batch.weights[p]
        scale = self.facts.n_units / self.facts.n
        first, second = batch.by_unit(weight * scaled), batch.by_unit(weight * (1.0 - scaled))
        return scale * first, scale * second

    def _averages(self, p: int) -> tuple[float, float]:
        low, high = self.facts.reward_limits
        weight, gain = self._sums_of_gain[p]
        scaled = (gain - low * weight) / (high - low)
        return scaled / self.facts.n, (weight - scaled) / self.facts.n

    def _bet(self, p: int, side: int, total: Sums) -> bool:
        """Move the end of one side to where the wealth says; return whether it is certain."""
        if self._averages(p)[side] <= 0:
            return True
        found, inside = end_of(total[f"bets{p}-{side}"], self._distance[p, side], self._threshold)
        self._distance[p, side] = found
        return inside

    def _guaranteed(self, p: int, level: float) -> Interval:
        low, high = self.facts.reward_limits
        ends = []
        for side, average in enumerate(self._averages(p)):
            end = average * math.exp(-self._distance[p, side]) if average > 0 else 0.0
            ends.append(min(1.0, max(0.0, end)))
        first, last = low + (high - low) * ends[0], low + (high - low) * (1.0 - ends[1])
        return Interval(min(first, last), max(first, last), level, "guaranteed")

    # The answers.

    def records(self, p: int) -> list[dict[str, Any]]:
        """Return the fields of a trial's record for each estimator of a policy."""
        answers = self._answers[p] if self._answers else [None] * len(self.estimators)
        found: list[dict[str, Any]] = []
        for estimator, reason, answer in zip(self.estimators, self._reasons, answers, strict=True):
            fields: dict[str, Any] = {"status": "ok"}
            if answer is not None:
                fields |= answer.fields(self.facts.n)
            else:
                fields["status"] = "unavailable" if reason else "positivity"
                what = "all weights are 0: nothing that the policy does was logged"
                fields["error_message"] = reason or what
            found.append({"access": tuple(estimator.access.words()), **fields})
        return found

    def differences(self, p: int, q: int) -> list[tuple[float, float | None, float] | None]:
        """Return for each estimator the difference of two policies, its error and a value's size.

        Parameters
        ----------
        p, q : numbers of the policies; p is the larger.
        """
        found: list[tuple[float, float | None, float] | None] = []
        for one, other in zip(self._answers[p], self._answers[q], strict=True):
            if one is None or other is None:
                found.append(None)
            else:
                size = max(abs(one.value), abs(other.value))
                found.append((*self._difference(one, other, p, q), size))
        return found

    def weights_note(self, p: int) -> str:
        """Return what the weights of all rows are, in one sentence; "" where nobody used them."""
        if not self._weighed:
            return ""
        at = self._weighed[p][0]
        mean, error = self._mean(at), self.error({at: 1.0}) or 0.0
        return (
            f"the weights of all rows average {mean:.5g} (1 is right; standard error {error:.2g})"
            f"; their effective sample size is {self.effective_units(p):,.0f} rows or units"
        )

    def _mean(self, column: int) -> float:
        total = self._total["columns"]
        return float(total[1 + column] / total[0] + self._column_shift[column])

    @property
    def average(self) -> float | None:
        """The mean logged reward; None before all is summed."""
        return self._mean(0) if self._answers else None

    def effective_units(self, p: int) -> float:
        """Return the number of units of equal weight that a policy's weights are worth."""
        column = self._weighed[p][0]
        at = [0, 1 + column]
        shift = np.array([self._column_shift[column], 1.0])
        square = float(shift @ self._total["products"][np.ix_(at, at)] @ shift)
        total = self._mean(column) * float(self._total["columns"][0])
        return total**2 / square if square > 0 else 0.0

    def error(self, combination: Mapping[int, float]) -> float | None:
        """Return the standard error of a combination of the columns' means, by unit."""
        k = self.facts.n_units
        if k < 2:
            return None
        total, products = self._total["columns"], self._total["products"]
        factor = np.zeros(len(total))
        for column, value in combination.items():
            factor[1 + column] += value
        factor[0] = -float(total[1:] @ factor[1:]) / total[0]
        form = factor @ products @ factor
        size = float(np.square(factor) @ np.diag(products))
        if form <= ROUNDING * size:
            return 0.0
        return math.sqrt(k / (k - 1) * float(form)) / float(total[0])

    def unsupported_mass(self, p: int) -> float | None:
        """Return the share of a policy on actions that no row logged."""
        mass = self._total.get(f"mass{p}")
        if mass is None:
            return None
        return float(mass[self._total["seen"] == 0].sum() / mass.sum())

    def _difference(
        self, one: SummedAnswer, other: SummedAnswer, p: int, q: int
    ) -> tuple[float, float | None]:
        if None not in (one.diagnostics.get("baseline"), other.diagnostics.get("baseline")):
            return self._around_baseline(p, q)
        combination = dict(one.combination)
        for name, value in other.combination.items():
            combination[name] = combination.get(name, 0.0) - value
        error = None
        if one.standard_error is not None and other.standard_error is not None:
            error = self.error(combination)
        return one.value - other.value, error

    def _around_baseline(self, p: int, q: int) -> tuple[float, float | None]:
        """Return Δβ-IPS of two policies, q = -1 for what was logged."""
        # Squares of differences, summed for each pair once.
        squares, with_reward = self._total[f"apart{max(p, q)}-{min(p, q)}"]
        if squares == 0:
            return 0.0, 0.0
        baseline = with_reward / squares
        weight, gain = self._weighed[p]
        combination: Combination = {gain: 1.0, weight: -baseline}
        if q < 0:
            combination[0] = -1.0
        else:
            weight, gain = self._weighed[q]
            combination |= {gain: -1.0, weight: baseline}
        value = sum(factor * self._mean(column) for column, factor in combination.items())
        return float(value + (baseline if q < 0 else 0.0)), self.error(combination)

    def _solve(
        self, of: ColumnNumbers, normalized: bool
    ) -> tuple[float, Combination, dict[str, Diagnostic]] | None:
        """Return the value of a score, as `LinearScore.solve` does, and its derivative.

        None where normalized weights are all zero.
        """
        facts: dict[str, Diagnostic] = {}
        combination: Combination = {} if of.baseline is None else {of.baseline: 1.0}
        value = 0.0 if of.baseline is None else self._mean(of.baseline)
        if of.gain is None:
            return value, combination, facts
        gain, constant = self._mean(of.gain), 0.0
        if of.control is not None and of.controlled is not None:
            total = self._mean(of.control)
            normalized = total <= 0
            facts = {"baseline": None, "fallback": "ipws"}
            if not normalized:
                constant = self._mean(of.controlled) / total
                facts = {"baseline": constant, "fallback": None}
        if of.weight is None:
            return value + gain, combination | {of.gain: 1.0}, facts
        center = self._mean(of.weight)
        if not normalized:
            value += constant + gain - constant * center
            return value, combination | {of.gain: 1.0, of.weight: -constant}, facts
        if center == 0:
            return None
        ratio = gain / center
        combination |= {of.gain: 1.0 / center, of.weight: -ratio / center}
        return value + ratio, combination, facts

    def _shrunk(
        self, of: ColumnNumbers, p: int
    ) -> tuple[tuple[float, Combination, dict[str, Diagnostic]], float]:
        """Return what `_solve` does for a share of the correction, and the correction's error.

        As `correction` of `dr_eb`; the error is infinite where nothing tells the share.
        """
        numbers: Any = of.shrinkage
        baseline, weight, gain = cast("tuple[int, int, int]", (of.baseline, of.weight, of.gain))
        k, rows, expected = self.facts.n_units, float(self._total["columns"][0]), {baseline: 1.0}
        units, told = self._total[f"units{p}"].tolist()
        alone = k == self.facts.n
        center, value = self._mean(weight), self._mean(baseline)
        if (max(units, int(told)) if alone else units) < 2:
            why: dict[str, Diagnostic] = dict.fromkeys(
                (ESTIMATE_WARNING, STANDARD_ERROR_WITHHELD), ONE_UNIT
            )
            return (value, expected, {"share": 0.0, **why}), math.inf
        found = self._mean(gain) / center
        spread = self._mean(numbers.square) - self._mean(numbers.outcome) ** 2
        if alone:
            variance, design = self._mean(numbers.gain_square) / rows, 1.0
            variance += found * (found * self._mean(numbers.weight_square)) / rows
            variance -= 2 * found * self._mean(numbers.mixed) / rows
        else:
            # Without the factor for few units.
            scale = (k - 1) / k
            variance = scale * (self.error({gain: 1.0, weight: -found}) or 0.0) ** 2
            together = scale * (self.error({numbers.outcome: 1.0}) or 0.0) ** 2 * rows
            design = max(1.0, together / spread) if spread > 0 else 1.0
        least = design * self._mean(numbers.weight_square) * spread / rows
        variance = max(variance, least) / center**2
        share = share_of(found, variance, self._mean(numbers.contrast))
        combination = {**expected, gain: share / center, weight: -share * found / center}
        error = math.sqrt(variance)
        facts: dict[str, Diagnostic] = {"share": share, "correction": found}
        facts["residual_error"] = error
        return (value + share * found, combination, facts), error

    def _answer(self, k: int, p: int) -> SummedAnswer | None:
        estimator: Any = self.estimators[k]
        at = self._able.index(k)
        columns, parameters = self._columns[p][at], self._parameters[p][at]
        zero = self._sums_of_gain[p][0] == 0
        solved = [self._solve(one, one.weight is not None) for one in columns]
        number = self._choice(estimator, p, parameters, solved)
        found, least = solved[number], 0.0
        # Of a share, the error is that of the whole.
        whole = None if found is None else found[1]
        if columns[number].shrinkage is not None:
            found, least = self._shrunk(columns[number], p)
        elif zero and any(one.weight is not None for one in columns):
            return None
        if found is None:
            return None
        value, combination, diagnostics = found
        used = None
        if f"used{p}-{k}" in self._total:
            used = (
                *self._total[f"used{p}-{k}"][number].tolist(),
                float(self._total[f"max{p}-{k}"][number]),
            )
            diagnostics["mean_weight"] = self._mean(self._weighed[p][0])
        if len(parameters) and math.isfinite(parameters[number]):
            name = getattr(estimator, "tuned", "parameter").rstrip("_")
            diagnostics[name] = float(parameters[number])
        error = None if used is None or whole is None else self.error(whole)
        if error is not None:
            error = max(error, least) if math.isfinite(least) else None
        lift, lift_error = value - self._mean(0), None
        if error is not None:
            lift_error = self.error({**combination, 0: combination.get(0, 0.0) - 1.0})
        if diagnostics.get("baseline") is not None:
            lift, lift_error = self._around_baseline(p, -1)
        if self.facts.units is not None and getattr(estimator, "interval", "") == "guaranteed":
            error, diagnostics[STANDARD_ERROR_WITHHELD] = None, IN_MEMORY
        return SummedAnswer(
            value=value,
            standard_error=error,
            lift=lift,
            lift_error=lift_error,
            used=used,
            combination=combination,
            diagnostics=diagnostics,
            interval=self._interval(estimator, p),
        )

    def _choice(
        self, estimator: Any, p: int, parameters: FloatArray, solved: Sequence[Any]
    ) -> int:
        """Return the number of the parameter that the estimator's rule chooses."""
        if len(parameters) < 2 or self.facts.n_units < 2:
            return 0
        *each, plain = solved
        known = self._known[p]
        known.plain = 0.0 if plain is None else plain[0]
        values = np.array([0.0 if one is None else one[0] for one in each])
        errors = [0.0 if one is None else self.error(one[1]) or 0.0 for one in each]
        return int(estimator.choose(known, parameters, values, np.array(errors)))

    def _interval(self, estimator: Any, p: int) -> Interval | None:
        if getattr(estimator, "interval", "asymptotic") == "asymptotic" or self.facts.n_units < 2:
            return None
        if estimator.interval == "guaranteed":
            # Sizes may tell of rewards.
            if self.facts.units is not None:
                return None
            return self._guaranteed(p, estimator.level)
        low, high = self.facts.reward_limits
        if low == high or self.facts.weight is not None:
            return None
        at = [0, *(1 + column for column in self._weighed[p])]
        shift = self._column_shift[list(self._weighed[p])]
        # Sums over units of (rows, w, w r) and of their products, without the columns' shifts.
        move = np.eye(3)
        move[1:, 0] = shift
        sums = move @ self._total["columns"][at]
        products = move @ self._total["products"][np.ix_(at, at)] @ move.T
        scale = self.facts.n_units / self.facts.n
        return interval_of_sums(
            self.facts.n_units,
            scale * sums[1:],
            scale**2 * products[1:, 1:],
            (low, high),
            estimator.level,
        )
