"""The sums over batches of rows from which estimators, their errors and intervals follow.

Two passes. The first gives the moments of the weights, the Gram matrices of the ridge regressions
by fold and action, and what hyper-parameters depend on. In the second every row adds a few columns
(its weighted reward, its model's average over the policy, its weighted residual, ...); an
estimator's value is linear in their means, and its standard error, its lift and its difference to
another policy's are quadratic forms in the matrix of their products, summed by unit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, cast

import numpy as np

from ope_bench import (
    STANDARD_ERROR_WITHHELD,
    Diagnostic,
    Estimator,
    FloatArray,
    IntArray,
    Interval,
)
from ope_estimators.baseline.direct.dm import DM
from ope_estimators.baseline.doubly_robust.dr import DR
from ope_estimators.baseline.doubly_robust.dr_os import DROS
from ope_estimators.baseline.doubly_robust.sndr import SNDR
from ope_estimators.baseline.weighting.beta_ipw import BetaIPW
from ope_estimators.baseline.weighting.ipw import IPW
from ope_estimators.baseline.weighting.ipws import IPWS
from ope_estimators.baseline.weighting.sg_ipw import SGIPW
from ope_estimators.baseline.weighting.shrunk_weights import shrinkage_by_theory
from ope_estimators.baseline.weighting.transformed import GRID
from ope_estimators.features.actions import encoded
from ope_estimators.learning.folds import MOST_REPEATS
from ope_estimators.learning.learners import frozen
from ope_estimators.nuisance.reward import RewardModel
from ope_estimators.nuisance.separate import SeparateRewardModel
from ope_estimators.streamed.batches import Batch, Facts
from ope_estimators.streamed.bets import end_of, first_distance, log_wealth, nodes, shares
from ope_estimators.streamed.likelihood import interval_of_sums
from ope_estimators.streamed.ridge import coefficients
from ope_estimators.tuning.estimated_mse import least_mse

__all__ = ["Answer", "StreamedSums", "added", "lacks"]

IN_MEMORY = "guaranteed intervals of units are made in memory, with largest_unit, not in batches"

NODES = 6
"""Values of λ at which the equation of the rule ``theory`` is summed; it is smooth."""

REACH = 0.05
"""First distance of the outer nodes from the λ of the pilot rows, in logarithms."""

RANKS = 0.01
"""First share of the rows around a quantile whose values are kept, so that it is exact."""

ROUNDING = 1e-14
"""Share of a quadratic form's largest term below which it is rounding."""

Sums = dict[str, Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class Answer:
    """An estimate, and its column combination for differences.

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
    combination: Mapping[Any, float]
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


def lacks(estimator: Estimator, whole: bool) -> str:
    """Return why an estimator cannot be computed from batches; empty where it can.

    Parameters
    ----------
    whole : whether the policy's probabilities of all actions are known.
    """
    kind, params = type(estimator), estimator.get_params(deep=False)
    defaults = kind().get_params(deep=False)
    free = {"regressor", "regressor_params", "action_features", "cross_fit", "lambda_", "delta"}
    free |= {"normalize", "interval", "level", "reward_range", "largest_unit"}
    # Batches have no distribution of the logging policy, so that upper ends are mirrored.
    free |= {"upper_end"}
    if kind not in (IPW, IPWS, BetaIPW, SGIPW, DM, DR, SNDR, DROS):
        return "it is not computed from batches of rows; sample rows into a log that fits"
    for name, value in params.items():
        if name not in free and value != defaults[name]:
            return f"{name} is not offered over batches of rows; leave it out"
    rule = params.get("lambda_", 0.0)
    if isinstance(rule, str) and rule != {SGIPW: "theory", DROS: "mse"}[kind]:
        return f"lambda_={rule} is not offered over batches of rows; leave it out"
    if params.get("normalize") and kind is IPW:
        return "normalize is that of ipws: name it"
    interval = params.get("interval", "asymptotic")
    if interval == "bootstrap" or (interval == "guaranteed" and kind is DR):
        return f"interval={interval} is not offered over batches of rows"
    if "regressor" not in params:
        return ""
    if params["regressor"] != "ridge" or params["action_features"] in ("ordinal", "own"):
        return "over batches of rows models are regressor=ridge; write regressor=ridge"
    if set(params["regressor_params"] or {}) - {"alpha", "shrinkage"}:
        return "regressor_params over batches of rows are alpha and shrinkage"
    return "" if whole else "a reward model needs the policy's probabilities of all actions"


def added(first: Sums, second: Sums) -> Sums:
    """Add the sums of two sets of batches; ``max...`` are maxima, ``values...`` are counted."""
    found = dict(first)
    for name, value in second.items():
        if name not in found:
            found[name] = value
        elif name.startswith("max"):
            found[name] = np.maximum(found[name], value)
        elif name.startswith("values"):
            found[name] = _merged(found[name], value)
        else:
            found[name] = found[name] + value
    return found


def _merged(*parts: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Return distinct values, in order, and their counts."""
    values, counts = (np.concatenate(one) for one in zip(*parts, strict=True))
    distinct, place = np.unique(values, return_inverse=True)
    return distinct, np.bincount(place.reshape(-1), counts, len(distinct)).astype(np.float64)


@lru_cache(maxsize=4)
def _folds_of_units(streams: Any, model: _Model, n_units: int, k: int) -> Any:
    """Return the fold of each unit as `fold_of` does, in a byte each: (n_units,)."""
    return streams(model.spec).permutation(np.resize(np.arange(k, dtype=np.uint8), n_units))


@dataclass(frozen=True)
class _Model:
    """A reward model: its features of actions, parameters and number of folds."""

    features: str
    params: tuple[tuple[str, Any], ...]
    cross_fit: int

    @property
    def spec(self) -> Any:
        """The shared fit in memory, from which the random stream of its folds derives."""
        if self.features == "separate":
            return SeparateRewardModel("ridge", self.params, self.cross_fit)
        features: Any = self.features
        return RewardModel("ridge", self.params, "action", features, self.cross_fit)


class StreamedSums:
    """Estimates of a log's policies from sums over its batches.

    `sums` of every batch are `added` up and given to `advance`, until all is `done`.

    Parameters
    ----------
    estimators : those that cannot be computed from batches have no answer, but the reason.
    facts : of the log.

    Attributes
    ----------
    done : whether nothing more is to be summed.
    """

    def __init__(self, estimators: Sequence[Estimator], facts: Facts) -> None:
        self.estimators, self.facts = tuple(estimators), facts
        whole = all(one.matrix is not None for one in facts.pilot.targets.values())
        self._reasons = [lacks(one, whole) for one in estimators]
        able: list[Any] = [one for one, reason in self._asked if not reason]
        self.done = not able
        self._models = dict.fromkeys(_model_of(one) for one in able if hasattr(one, "regressor"))
        self._shrunk = dict.fromkeys(
            (one.lambda_, one.delta) for one in able if isinstance(one, SGIPW)
        )
        self._optimistic = dict.fromkeys(
            (_model_of(one), one.lambda_) for one in able if isinstance(one, DROS)
        )
        self._pilot = Batch(facts.pilot)
        self.n_policies = len(facts.pilot.targets)
        context = encoded(facts.context, facts.pilot.context)
        self._x = context.shape[1]
        self._shift = np.append(context.mean(axis=0), facts.pilot.reward.mean())
        self._reach, self._ranks = REACH, RANKS
        self._lambda: dict[Any, float] = {}
        for p, (rule, delta) in self._shrunk_of():
            value = rule
            if isinstance(rule, str):
                weights = self._pilot.weights[p]
                value = shrinkage_by_theory(weights, delta, facts.n_units, facts.pilot.weight)
            self._lambda[p, rule, delta] = float(value)
        self._brackets = [self._bracket(one) for one in self._pilot.weights]
        bets = any(getattr(one, "interval", "") == "guaranteed" for one in able)
        levels = {one.level for one in able if getattr(one, "interval", "") == "guaranteed"}
        self._threshold = math.log(2 / (1 - min(levels, default=0.95)))
        self._distance: dict[tuple[int, int], float] = {}
        if bets and facts.units is None:
            for p, side in itertools.product(range(self.n_policies), range(2)):
                products = self._products(self._pilot, p)[side]
                distance = first_distance(products, facts.n_units, self._threshold)
                self._distance[p, side] = distance
        self._first = True
        self._coefficients: dict[_Model, FloatArray] = {}
        self._candidates: list[FloatArray] = []
        self._column_shift: FloatArray | None = None
        self._total: Sums = {}
        self._names: list[Any] = []
        self._answers: list[list[Answer | None]] = []

    def __getstate__(self) -> dict[str, Any]:
        """Return what a worker needs: no rows."""
        first = self.facts.pilot.part(np.arange(1))
        facts = replace(self.facts, pilot=first, problem=None)
        return self.__dict__ | {"facts": facts, "_pilot": None, "_total": {}}

    def sums(self, log: Any, first: int, part: Any, weight_before: float) -> Sums:
        """Return the sums over a batch of the present pass; parameters as of `Batch`."""
        batch = Batch(log, first, part, weight_before)
        return self._first_sums(batch) if self._first else self._second_sums(batch)

    def advance(self, total: Sums) -> None:
        """Take the sums over all batches, and decide what is to be summed next."""
        if not self._first:
            self._total |= total
            inside = [self._bet(p, side, total) for p, side in self._distance]
            self.done = all(inside)
            if not self.done:
                return
            self._answers = [
                [None if reason else self._answer(one, p) for one, reason in self._asked]
                for p in range(self.n_policies)
            ]
            return
        self._total = total
        if not self._again(total):
            self._fit(total)
            self._sums_of_gain = [
                (float(total[f"moments{p}"][0]), float(total[f"gain{p}"]))
                for p in range(self.n_policies)
            ]
            self._first = False
            columns, self._names, _ = self._columns(self._pilot)
            self._column_shift = columns.mean(axis=0)

    @property
    def _asked(self) -> Iterator[tuple[Estimator, str]]:
        return zip(self.estimators, self._reasons, strict=True)

    # The first pass.

    def _shrunk_of(self) -> Iterator[tuple[int, tuple[Any, float]]]:
        return ((p, one) for p in range(self.n_policies) for one in self._shrunk)

    def _nodes(self, key: Any) -> FloatArray:
        at = np.cos((2 * np.arange(NODES) + 1) * math.pi / (2 * NODES))
        return np.minimum(self._lambda[key] * np.exp(self._reach * at), 1.0)

    def _first_sums(self, batch: Batch) -> Sums:
        omega, counts = self._counted(batch)
        reward = batch.reward
        found: Sums = {"weight": omega.sum(), "reward": omega @ reward}
        seen = np.bincount(batch.action, minlength=self.facts.n_actions)
        found["seen"] = seen.astype(np.float64)
        weights = batch.weights
        for p, w in enumerate(weights):
            square = w * w
            excess = square - w
            found[f"moments{p}"] = np.array(
                [omega @ w, w.sum(), square.sum(), omega @ excess, (omega * excess) @ reward]
            )
            found[f"gain{p}"] = (omega * w) @ reward
            found[f"max{p}"] = w.max()
            for q, other in enumerate([*weights[:p], np.ones(len(w))]):
                apart = omega * np.square(w - other)
                name = f"apart{p}-{q if q < p else -1}"
                found[name] = np.array([apart.sum(), apart @ reward])
            if self._optimistic:
                found |= self._near_quantiles(p, square, counts)
            table = batch.tables[p]
            if table is not None:
                found[f"mass{p}"] = omega @ table
        for p, (rule, delta) in self._shrunk_of():
            if isinstance(rule, str):
                found[f"theory{p}-{delta}"] = self._theory(
                    weights[p], omega, self._nodes((p, rule, delta))
                )
        if self._models:
            found |= self._grams(batch, omega if counts is None else counts)
        return found

    def _counted(self, batch: Batch) -> tuple[FloatArray, FloatArray | None]:
        """Return row weights, and how often each row counts in fits, as `multiplicity` says."""
        weight = batch.log.weight
        if weight is None:
            return np.ones(len(batch.reward)), None
        scale = min(1.0, MOST_REPEATS * self.facts.n / (self.facts.weight or 1.0))
        sums = batch.weight_before * scale + np.cumsum(weight * scale)
        last = np.floor(np.append(batch.weight_before * scale, sums) + 0.5)
        return weight, np.diff(last)

    def _theory(self, weight: FloatArray, omega: FloatArray, nodes: FloatArray) -> FloatArray:
        """Return sum ω [λ + (1 - λ) w^m]^(2/m) for some λ, m = n^(1/4)."""
        power = self.facts.n_units**0.25
        with np.errstate(divide="ignore"):
            logs = power * np.log(weight)
            rest = np.log1p(-np.minimum(nodes, 1.0))
        found = [
            omega @ np.exp(2.0 / power * np.logaddexp(math.log(node), one + logs))
            for node, one in zip(nodes, rest, strict=True)
        ]
        return np.array(found)

    def _bracket(self, weight: FloatArray) -> FloatArray:
        """Return the ends of the squares of weights kept around both quantiles: (2, 2)."""
        positive = np.square(weight[weight > 0])
        if not len(positive) or self._ranks >= 1.0:
            return np.array([[0.0, np.inf], [0.0, np.inf]])
        margin = max(self._ranks, 2.0 / len(positive))
        ends = [
            [
                float(np.quantile(positive, rank - margin)) if rank > margin else 0.0,
                float(np.quantile(positive, rank + margin)) if rank + margin < 1 else np.inf,
            ]
            for rank in (0.05, 0.95)
        ]
        return np.array(ends)

    def _near_quantiles(self, p: int, square: FloatArray, counts: FloatArray | None) -> Sums:
        positive = square > 0
        some = square[positive]
        often = np.ones(len(some)) if counts is None else counts[positive]
        found: Sums = {f"positive{p}": often.sum()}
        for side, (low, high) in enumerate(self._brackets[p]):
            inside = (some >= low) & (some <= high)
            found[f"below{p}-{side}"] = often[some < low].sum()
            found[f"values{p}-{side}"] = _merged((some[inside], often[inside]))
        return found

    def _grams(self, batch: Batch, counts: FloatArray) -> Sums:
        """Return sum z zᵀ of each fold and action, z = (1, x, y) less its shift."""
        table = np.empty((len(batch.reward), self._x + 2))
        table[:, 0] = 1.0
        table[:, 1:-1] = encoded(self.facts.context, batch.log.context)
        table[:, -1] = batch.reward
        table[:, 1:] -= self._shift
        a = self.facts.n_actions
        found = {}
        for model in self._gram_models:
            fold = self._fold(model, batch)
            code: Any = batch.action if fold is None else fold * a + batch.action
            folds = 1 if fold is None else self._n_folds(model)
            code = code.astype(np.int16 if folds * a < 1 << 15 else np.int64)
            order = np.argsort(code, kind="stable")
            ends = np.searchsorted(code, np.arange(folds * a + 1), sorter=order)
            rows = table[order]
            weighted = rows if batch.log.weight is None else rows * counts[order, None]
            gram = np.zeros((folds * a, *2 * (table.shape[1],)))
            for g in np.flatnonzero(np.diff(ends)):
                part = slice(ends[g], ends[g + 1])
                gram[g] = rows[part].T @ weighted[part]
            found[f"gram{model}"] = gram.reshape(folds, a, *gram.shape[1:])
        return found

    @property
    def _gram_models(self) -> list[_Model]:
        """The models with sums of their own; one without folds takes those of another."""
        crossed = [model for model in self._models if model.cross_fit > 1]
        return crossed or list(self._models)[:1]

    def _n_folds(self, model: _Model) -> int:
        return min(model.cross_fit, self.facts.n_units)

    def _fold(self, model: _Model, batch: Batch) -> IntArray | None:
        """Return the fold of each row, None for one fold: (k,)."""
        if model.cross_fit == 1:
            return None
        if batch is self._pilot:
            # The columns of pilot rows are only subtracted and added again: any fold will do.
            return np.zeros(len(batch.reward), dtype=np.int64)
        n_units = self.facts.n_units
        folds = _folds_of_units(self.facts.streams, model, n_units, self._n_folds(model))
        units = slice(*batch.units)
        rank = None if self.facts.units is None else self.facts.units.rank
        chosen = folds[units] if rank is None else folds[rank[units]]
        if batch.starts is not None:
            chosen = np.repeat(chosen, np.diff(np.append(batch.starts, len(batch.reward))))
        return np.asarray(chosen, dtype=np.int64)

    # Between the passes.

    def _again(self, total: Sums) -> bool:
        """Return whether the pilot rows misled, so that the first pass is needed again."""
        again = False
        for p, (rule, delta) in self._shrunk_of():
            if isinstance(rule, str):
                key = (p, rule, delta)
                found, inside = self._root(key, total[f"theory{p}-{delta}"], total["weight"])
                self._lambda[key] = found
                again |= not inside
        self._reach = min(2 * self._reach, 1.0) if again else self._reach
        if self._optimistic:
            found_all = [self._quantiles(p, total) for p in range(self.n_policies)]
            if any(one is None for one in found_all):
                self._ranks = 1.0 if self._ranks > RANKS else 0.1
                self._brackets = [self._bracket(one) for one in self._pilot.weights]
                again = True
            self._candidates = [
                np.array([1.0])
                if one is None
                else np.geomspace(100.0 * one[1], 0.01 * one[0], GRID)
                for one in found_all
            ]
        return again

    def _root(self, key: Any, sums: FloatArray, weight: float) -> tuple[float, bool]:
        """Return the λ of the rule ``theory``, and whether it is within the nodes.

        The logarithm of the equation's left side is a smooth function of that of λ, and here the
        polynomial through the nodes.
        """
        target = math.log(2.0 * math.log(1.0 / key[2]) / (3.0 * self.facts.n_units))
        if target >= 0:
            return 1.0, True
        nodes = np.log(self._nodes(key))
        scaled = (nodes - math.log(self._lambda[key])) / self._reach
        excess = 2.0 * nodes + np.log(sums / weight) - target
        smooth = np.polynomial.Polynomial.fit(scaled, excess, NODES - 1, domain=[-1, 1])
        slope, at = smooth.deriv(), 0.0
        for _ in range(50):
            at = float(np.clip(at - smooth(at) / slope(at), -3.0, 3.0))
        found = min(self._lambda[key] * math.exp(self._reach * at), 1.0)
        return found, abs(at) <= 1.0

    def _quantiles(self, p: int, total: Sums) -> tuple[float, float] | None:
        """Return the 5 % and 95 % quantiles of the squares of positive weights, exactly."""
        count = float(total[f"positive{p}"])
        if count == 0:
            return 0.0, 0.01
        found = []
        for side, share in enumerate((0.05, 0.95)):
            values, often = total[f"values{p}-{side}"]
            last = np.cumsum(often) + total[f"below{p}-{side}"]
            position = share * (count - 1)
            ranks = math.floor(position), min(math.floor(position) + 1, count - 1)
            if total[f"below{p}-{side}"] > ranks[0] or not len(last) or last[-1] <= ranks[1]:
                return None
            low, high = values[np.searchsorted(last, ranks, side="right")]
            # As numpy interpolates.
            part = position - ranks[0]
            step = high - low
            found.append(high - step * (1 - part) if part >= 0.5 else low + step * part)
        return float(found[0]), float(found[1])

    def _fit(self, total: Sums) -> None:
        facts, shift = self.facts, self._shift
        for model in self._models:
            own = model if model in self._gram_models else self._gram_models[0]
            gram = total[f"gram{own}"]
            features = self._action_features(model, gram.sum(axis=0)[:, 0, 0])
            params = dict(model.params)
            options: dict[str, Any] = {
                "alpha": float(params.get("alpha", 1.0)),
                "separate": model.features == "separate",
                "shrinkage": params.get("shrinkage"),
            }
            whole = gram.sum(axis=0)
            parts = [whole - one for one in gram] if model.cross_fit > 1 else [whole]
            if facts.n_units == 1:
                parts = [whole]
            self._coefficients[model] = np.stack(
                [coefficients(one, features, shift, **options) for one in parts]
            )

    def _action_features(self, model: _Model, rows: FloatArray) -> FloatArray:
        if model.features == "one-hot":
            return np.eye(self.facts.n_actions)[:, rows > 0]
        problem = self.facts.problem
        if problem is None or problem.action_embedding is None or problem.schema is None:
            return np.zeros((self.facts.n_actions, 0))
        return encoded(problem.schema.embedding, problem.action_embedding)

    # The second pass.

    def _columns(self, batch: Batch) -> tuple[FloatArray, list[Any], Sums]:
        """Return the columns that rows add, their names, and sums of weights that are used."""
        names: list[Any] = ["r"]
        parts: list[FloatArray] = [batch.reward]
        used: Sums = {}
        x = np.empty((len(batch.reward), 1 + self._x))
        x[:, 0] = 1.0
        x[:, 1:] = encoded(self.facts.context, batch.log.context)
        for p, w in enumerate(batch.weights):
            names += [("w", p), ("wr", p)]
            parts += [w, w * batch.reward]
            for rule, delta in self._shrunk:
                key = self._lambda[p, rule, delta]
                scale = 1.0 - key + key * w
                u = np.divide(w, scale, out=np.zeros(len(w)), where=scale > 0)
                names += [("u", p, rule, delta), ("ur", p, rule, delta)]
                parts += [u, u * batch.reward]
                used |= _of_weights(("u", p, rule, delta), u)
            table = batch.tables[p]
            if table is None:
                continue
            for model in self._models:
                average, predicted = self._predictions(model, batch, x, table)
                residual = batch.reward - predicted
                names += [("b", p, model), ("we", p, model)]
                parts += [average, w * residual]
                for owner, rule in self._optimistic:
                    if owner != model:
                        continue
                    values = self._lambdas(p, rule)
                    square = np.square(w)[:, None] + values
                    many = np.divide(
                        w[:, None] * values, square, out=np.zeros(square.shape), where=square > 0
                    )
                    used |= _of_weights(("os", p, model, rule), many)
                    names += [("os", p, model, rule, k) for k in range(len(values))]
                    parts.append(many * residual[:, None])
        return np.column_stack(parts), names, used

    def _lambdas(self, p: int, rule: Any) -> FloatArray:
        return self._candidates[p] if isinstance(rule, str) else np.array([float(rule)])

    def _predictions(
        self, model: _Model, batch: Batch, x: FloatArray, table: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return a model's average over a policy and its value at the logged action: (k,) both."""
        found = self._coefficients[model]
        fold = self._fold(model, batch) if len(found) > 1 else None
        if fold is None:
            average = np.einsum("kd,kd->k", x, table @ found[0])
            return average, np.einsum("kd,kd->k", x, found[0][batch.action])
        average = np.empty(len(x))
        for k, one in enumerate(found):
            rows = np.flatnonzero(fold == k)
            average[rows] = np.einsum("kd,kd->k", x[rows], table[rows] @ one)
        return average, np.einsum("kd,kd->k", x, found[fold, batch.action])

    def _second_sums(self, batch: Batch) -> Sums:
        columns, _, used = self._columns(batch)
        columns -= cast(FloatArray, self._column_shift)
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
        for (estimator, reason), answer in zip(self._asked, answers, strict=True):
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

    def said(self, p: int) -> str:
        """Return what the weights of all rows are, in one sentence; "" where nobody used them."""
        if ("w", p) not in self._names:
            return ""
        mean, error = self._mean(("w", p)), self.error({("w", p): 1.0}) or 0.0
        return (
            f"the weights of all rows average {mean:.5g} (1 is right; standard error {error:.2g})"
            f"; their effective sample size is {self.effective_units(p):,.0f} rows or units"
        )

    def _mean(self, name: Any) -> float:
        at = self._names.index(name)
        total = self._total["columns"]
        return float(total[1 + at] / total[0] + cast(FloatArray, self._column_shift)[at])

    @property
    def average(self) -> float | None:
        """The mean logged reward; None before all is summed."""
        return self._mean("r") if self._answers else None

    def effective_units(self, p: int) -> float:
        """Return the number of units of equal weight that a policy's weights are worth."""
        at = [0, 1 + self._names.index(("w", p))]
        shift = np.array([cast(FloatArray, self._column_shift)[at[1] - 1], 1.0])
        square = float(shift @ self._total["products"][np.ix_(at, at)] @ shift)
        total = self._mean(("w", p)) * float(self._total["columns"][0])
        return total**2 / square if square > 0 else 0.0

    def error(self, combination: Mapping[Any, float]) -> float | None:
        """Return the standard error of a combination of the columns' means, by unit."""
        k = self.facts.n_units
        if k < 2:
            return None
        factor = np.zeros(1 + len(self._names))
        for name, value in combination.items():
            factor[1 + self._names.index(name)] += value
        total, products = self._total["columns"], self._total["products"]
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
        self, one: Answer, other: Answer, p: int, q: int
    ) -> tuple[float, float | None]:
        if "baseline" in one.diagnostics and "baseline" in other.diagnostics:
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
        combination: dict[Any, float] = {("wr", p): 1.0, ("w", p): -baseline}
        combination |= {"r": -1.0} if q < 0 else {("wr", q): -1.0, ("w", q): baseline}
        value = sum(factor * self._mean(name) for name, factor in combination.items())
        return float(value + (baseline if q < 0 else 0.0)), self.error(combination)

    def _answer(self, estimator: Any, p: int) -> Answer | None:
        weighted, plain, second, excess, excess_reward = self._total[f"moments{p}"]
        weight = self._mean(("w", p))
        used: tuple[float, float, float] | None = plain, second, float(self._total[f"max{p}"])
        diagnostics: dict[str, Diagnostic] = {"mean_weight": weight}
        combination: dict[Any, float]
        constant = 0.0

        def ratio(gain: Any, total: Any) -> tuple[float, dict[Any, float]]:
            center = self._mean(total)
            value = self._mean(gain) / center
            return value, {gain: 1.0 / center, total: -value / center}

        zero = weighted == 0
        if zero and isinstance(estimator, IPWS | SNDR | BetaIPW):
            return None
        if isinstance(estimator, BetaIPW) and excess > 0:
            baseline = excess_reward / excess
            diagnostics["baseline"] = baseline
            combination = {("wr", p): 1.0, ("w", p): -baseline}
            constant = baseline
        elif isinstance(estimator, IPWS | BetaIPW):
            constant, combination = ratio(("wr", p), ("w", p))
            if isinstance(estimator, BetaIPW):
                diagnostics["fallback"] = "ipws"
        elif isinstance(estimator, IPW):
            combination = {("wr", p): 1.0}
        elif isinstance(estimator, SGIPW):
            key = p, estimator.lambda_, estimator.delta
            used = self._used("u", *key)
            diagnostics["lambda"] = self._lambda[key]
            combination = {("ur", *key): 1.0}
            if estimator.normalize:
                if zero:
                    return None
                constant, combination = ratio(("ur", *key), ("u", *key))
        else:
            model = _model_of(estimator)
            combination = {("b", p, model): 1.0}
            if isinstance(estimator, SNDR):
                constant, residual = ratio(("we", p, model), ("w", p))
                combination |= residual
            elif isinstance(estimator, DROS):
                k = self._choice(p, model, estimator.lambda_)
                diagnostics["lambda"] = float(self._lambdas(p, estimator.lambda_)[k])
                name = "os", p, model, estimator.lambda_
                used = tuple(float(one[k]) for one in self._used(*name))  # type: ignore[assignment]
                combination[*name, k] = 1.0
            elif isinstance(estimator, DR):
                combination["we", p, model] = 1.0
            else:
                used = None
                diagnostics = {}
        value = constant + sum(f * self._mean(name) for name, f in combination.items())
        error = None if used is None else self.error(combination)
        average = self._mean("r")
        lift, lift_error = value - average, None
        if error is not None:
            lift_error = self.error({**combination, "r": combination.get("r", 0.0) - 1.0})
        if "baseline" in diagnostics:
            lift, lift_error = self._around_baseline(p, -1)
        if self.facts.units is not None and getattr(estimator, "interval", "") == "guaranteed":
            error, diagnostics[STANDARD_ERROR_WITHHELD] = None, IN_MEMORY
        return Answer(
            value=float(value),
            standard_error=error,
            lift=float(lift),
            lift_error=lift_error,
            used=used,
            combination=combination,
            diagnostics=diagnostics,
            interval=self._interval(estimator, p),
        )

    def _used(self, *name: Any) -> Any:
        return tuple(self._total[f"{kind}{name}"] for kind in ("sum", "square", "max"))

    def _choice(self, p: int, model: _Model, rule: Any) -> int:
        """Return the number of the λ with the least estimated mean squared error."""
        values = self._lambdas(p, rule)
        if len(values) < 2 or self.facts.n_units < 2:
            return 0
        base, name = ("b", p, model), ("os", p, model, rule)
        errors = [self.error({base: 1.0, (*name, k): 1.0}) or 0.0 for k in range(len(values))]
        means = np.array([self._mean((*name, k)) for k in range(len(values))])
        return least_mse(np.array(errors), means - self._mean(("we", p, model)))

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
        at = [0, *(1 + self._names.index(name) for name in (("w", p), ("wr", p)))]
        shift = np.array([cast(FloatArray, self._column_shift)[k - 1] for k in at[1:]])
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


def _model_of(estimator: Any) -> _Model:
    params = frozen(estimator.regressor_params)
    return _Model(estimator.action_features, params, estimator.cross_fit)


def _of_weights(name: Any, used: FloatArray) -> Sums:
    """Return sum, sum of squares and maximum of weights, by column where there are several."""
    return {
        f"sum{name}": used.sum(axis=0),
        f"square{name}": np.square(used).sum(axis=0),
        f"max{name}": used.max(axis=0),
    }
