"""The evaluation problem of a log and one of its policies, its environment, and paired errors."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np
from scipy.special import ndtri, stdtrit

from ope_bench.contracts.arrays import FloatArray, IntArray, weighted_terms
from ope_bench.contracts.data import Column, Problem, Schema, Truth
from ope_bench.contracts.embeddings import DeterministicEmbedding
from ope_bench.contracts.plugins import Diagnostic, Environment, Estimate
from ope_bench.contracts.policies import Policy
from ope_bench.logs.log_data import LogData, open_log
from ope_bench.logs.policies import LoggedContext, LoggedProbability, RowPolicy
from ope_bench.statistics.unit_errors import standard_error, sum_by_unit

_MOST_ONE_HOT = 256
"""Most actions of a log without items that become indicators, one column each."""

_REASONS = {
    "propensity": "the log has no propensities; add `propensity: COLUMN`",
    "logging_policy": "the logging policy is known for logged actions only; "
    "add `logging: {table: FILE}`",
    "predicted_reward": "the log has no predictions; add "
    "`predicted_reward: {logged: COLUMN, table: FILE}`",
    "items": "the log does not say what describes an action; "
    "add `items: {table: FILE, key: COLUMN}`",
}
"""Reasons for missing data of a log, each with the line that would give them."""

_ESTIMATED = (
    "the log's propensities are estimated, which this estimator cannot; add `propensity: COLUMN`"
)
_NO_PROBABILITIES = {
    "action": "the target policy is known by its actions only; give `target: {table: FILE}`, "
    "`{policy: FILE.py:NAME}` or `{probability: COLUMN}`",
    "probability": "the target policy is known for logged actions only; give "
    "`target: {table: FILE}` or `{policy: FILE.py:NAME}`",
}
_LISTS = (
    "a log has one action a row; this estimator is of lists of several, or of several loggers: "
    "`ope-bench show` names the environments that have them"
)
_NO_SAMPLE = (
    "there is no target sample; give `target: {action: COLUMN}`, `{table: FILE}` or "
    "`{policy: FILE.py:NAME}`"
)


def problem_of(log: LogData, name: str, rng: np.random.Generator | None = None) -> Problem:
    """Return the problem of evaluating a policy.

    Parameters
    ----------
    log : the log.
    name : of one of its policies.
    rng : draws the target sample where the policy's probabilities are known; None for none.
    """
    target = log.targets[name]
    parts: tuple[str, ...] = ("prefix_propensity", "joint_propensity", "stratum")
    unavailable = dict.fromkeys((*parts, "position_marginals", "stratum_policies"), _LISTS)
    for part in ("propensity", "logging_policy", "predicted_reward"):
        if getattr(log, part.removesuffix("_policy")) is None:
            unavailable[part] = _REASONS[part]
    if log.estimated_propensity:
        unavailable["propensity"] = _ESTIMATED
    context, target_action = LoggedContext.of(log.context), target.action
    policy: Policy | None = None
    if target.matrix is not None:
        policy = RowPolicy(target.matrix, log.context)
        target_action = None if rng is None else policy.sample(context, rng)
    else:
        unavailable["target_policy"] = _NO_PROBABILITIES[target.form]
        if target.probability is not None:
            reason = _NO_PROBABILITIES["probability"]
            policy = LoggedProbability(
                target.probability, log.context, log.action, len(log.actions), reason
            )
    shared = target_action is not None
    if not shared:
        parts = ("context", "action", "embedding", "unit")
        unavailable |= {f"target_{part}": _NO_SAMPLE for part in parts}
    # What describes each action: its item, or an indicator where there are few actions.
    embedding, columns = log.embedding, log.schema.embedding
    n_actions = len(log.actions)
    if embedding is None and n_actions <= _MOST_ONE_HOT:
        embedding = np.eye(n_actions)
        columns = (Column("categorical", (0.0, 1.0)),) * n_actions
    if embedding is None:
        parts = ("embedding", "target_embedding", "action_embedding", "embedding_distribution")
        unavailable |= dict.fromkeys(parts, _REASONS["items"])
        columns = ()
    described = np.zeros((n_actions, 0)) if embedding is None else embedding
    problem = Problem(
        context=log.context,
        action=log.action,
        embedding=described[log.action],
        reward=log.reward,
        target_context=log.context if shared else None,
        target_action=target_action,
        target_embedding=None if target_action is None else described[target_action],
        n_actions=n_actions,
        schema=Schema(log.schema.context, columns),
        propensity=log.propensity,
        predicted_reward=log.predicted_reward,
        logging_policy=None if log.logging is None else RowPolicy(log.logging, log.context),
        target_policy=policy,
        action_embedding=embedding,
        embedding_distribution=None if embedding is None else DeterministicEmbedding(embedding),
        shared_contexts=shared,
        unit=log.unit,
        row_weight=log.weight,
        reward_range=log.reward_range,
        unavailable=unavailable,
    )
    # Validation makes plain arrays; these know their rows.
    for part in ("context", "target_context"):
        if (array := getattr(problem, part)) is not None:
            object.__setattr__(problem, part, LoggedContext.of(array))
    return problem


def unit_of(log: LogData) -> IntArray:
    """Return the unit of each row; the row itself where the log names none: (n,)."""
    return np.arange(log.n) if log.unit is None else log.unit


# Errors of means and of paired differences, by unit.

_ROUNDING = 1e-12
"""Share of two values below which their difference is a matter of the order of summation."""


def baseline_difference(
    weight: FloatArray,
    other: FloatArray,
    reward: FloatArray,
    unit: IntArray,
    row_weight: FloatArray | None = None,
) -> tuple[float, float | None]:
    """Difference of two policies' values, weighted around the constant of least variance.

        Δ = (1/n) sum_i (w_i - v_i) (r_i - β),   β = sum_i (w_i - v_i)² r_i / sum_i (w_i - v_i)²

    Returned with its standard error. Any fixed β leaves the difference unbiased.

    Parameters
    ----------
    weight, other : (n,), importance weights w and v of the policies; ones for the logging policy.
    reward : (n,)
    unit : (n,)
    row_weight : (n,), for how many rows each stands; None for one each.

    References
    ----------
    Δ-OPE: off-policy estimation with pairs of policies (Jeunen and Ustimenko, 2024), Δβ-IPS.
    """
    apart = weight - other
    square = np.square(apart) if row_weight is None else row_weight * np.square(apart)
    squares = float(square.sum())
    if squares == 0:
        return 0.0, 0.0
    baseline = float(square @ reward) / squares
    terms = weighted_terms(apart * (reward - baseline), row_weight)
    return float(terms.mean()), standard_error(terms, unit)


def effective_size(log: LogData, name: str, estimated: FloatArray | None = None) -> float | None:
    """Return the effective sample size of a policy's weights, in units; None without weights."""
    weights = log.weights(name) if estimated is None else estimated
    if weights is None:
        return None
    sums = sum_by_unit(weights if log.weight is None else weights * log.weight, unit_of(log))
    sums = below_one(sums)
    squares = float(np.square(sums).sum())
    return float(sums.sum()) ** 2 / squares if squares > 0 else 0.0


def below_one(values: FloatArray) -> FloatArray:
    """Divide by a power of two, which rounds nothing, so that squares and sums do not overflow."""
    return np.asarray(np.ldexp(values, -np.frexp(np.abs(values).max(initial=0.0))[1]))


def effective_rewarded_rows(
    log: LogData, name: str, estimated: FloatArray | None = None
) -> float | None:
    """Return how many equal rewards a policy's weighted rewards are worth, by unit.

    (sum w|r - m|)² / sum (w|r - m|)², m the median reward; None without weights.
    """
    weights = log.weights(name) if estimated is None else estimated
    if weights is None:
        return None
    reward, weights = below_one(log.reward), below_one(weights)
    order = np.argsort(reward, kind="stable")
    mass = np.cumsum(np.ones(log.n) if log.weight is None else log.weight[order])
    apart = weights * np.abs(reward - reward[order[np.searchsorted(mass, mass[-1] / 2)]])
    sums = sum_by_unit(apart if log.weight is None else apart * log.weight, unit_of(log))
    squares = float(np.square(sums).sum())
    return float(sums.sum()) ** 2 / squares if squares > 0 else 0.0


def normal_interval(
    value: float | None, error: float | None, level: float, units: float | None = None
) -> tuple[float | None, float | None]:
    """Return the ends of the normal interval, None without a standard error.

    Parameters
    ----------
    value, error : the estimate and its standard error.
    level : of the interval.
    units : number of units whose spread gave the standard error: Student's distribution with one
        degree of freedom less; None for the normal one.

    >>> low, high = normal_interval(1.0, 0.5, 0.95)
    >>> round(low, 3), round(high, 3)
    (0.02, 1.98)
    >>> low, high = normal_interval(1.0, 0.5, 0.95, units=5)
    >>> round(low, 3), round(high, 3)
    (-0.388, 2.388)
    """
    if value is None or error is None or units == 1:
        return None, None
    share = 0.5 + level / 2
    quantile = float(ndtri(share) if units is None else stdtrit(units - 1, share))
    return value - quantile * error, value + quantile * error


def without_rounding(
    difference: float, error: float | None, size: float
) -> tuple[float, float | None]:
    """Return a difference and its standard error, zeros where rounding alone made both.

    Equal policies then differ by 0, and not by 1e-16 with an interval that leaves 0 out.

    Parameters
    ----------
    difference, error : of two values.
    size : of the larger value.

    >>> without_rounding(-1e-16, 2e-17, 0.5), without_rounding(-1e-16, 0.1, 0.5)
    ((0.0, 0.0), (-1e-16, 0.1))
    """
    limit = _ROUNDING * abs(size)
    if abs(difference) > limit or (error or 0.0) > limit:
        return difference, error
    return 0.0, None if error is None else 0.0


def two_sided(z: float) -> float:
    """Return the probability of a standard normal at least as far from 0.

    >>> round(two_sided(1.959964), 4)
    0.05
    """
    return math.erfc(abs(z) / math.sqrt(2))


# The log as an environment.

BASELINE = "baseline"
"""Name of the diagnostic with the constant around which an estimate weighs rewards, if it does.

Differences of such estimates have a constant of their own: see `baseline_difference`.
"""

LIFT = "lift"
"""Name of the diagnostic with the lift, where it is not value minus mean logged reward."""

LIFT_ERROR = "lift_standard_error"
"""Name of the diagnostic with the standard error of value minus mean logged reward."""

REWARDED, EFFECTIVE = "effective_rewarded_rows", "effective_sample_size"
"""Names of the diagnostics of weights whose propensities the estimator estimated."""

TERMS = "terms_file"
"""Name of the diagnostic with the file of an estimate's terms, for differences."""


class OwnLog(Environment):
    """A user's log and one of the policies to evaluate on it.

    There is one data set: every replicate has the same rows, and only the target sample, where it
    is drawn from known probabilities, differs. The true value is unknown.

    Parameters
    ----------
    folder : of a stored log; empty where `log` is set.
    target : name of the policy.
    """

    folder: str = ""
    target: str = ""

    log = cast("LogData | None", None)
    """The log itself, for trials in this process."""

    def opened(self) -> LogData:
        """Return the log."""
        return self.log if self.log is not None else open_log(self.folder)

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """Return the problem of evaluating the policy."""
        return problem_of(self.opened(), self.target, target_rng), Truth.unknown()

    def examine(self, problem: Problem, estimate: Estimate) -> Mapping[str, Diagnostic]:
        """Return the standard error of the lift, and keep the terms for differences."""
        terms, target = estimate.terms, estimate.target_terms
        if terms is None or len(terms) != len(problem.reward) or estimate.standard_error is None:
            return {}
        if target is not None:
            # Row i of both samples has the same context, and belongs to the same unit.
            if not problem.shared_contexts or len(target) != len(terms):
                return {}
            terms = terms + target
        log = self.opened()
        unit = unit_of(log)
        facts: dict[str, Diagnostic] = {LIFT_ERROR: standard_error(terms - log.reward_terms, unit)}
        if BASELINE in estimate.diagnostics and estimate.weights is not None:
            ones = np.ones(len(terms))
            lift, error = baseline_difference(
                estimate.weights, ones, problem.reward, unit, log.weight
            )
            facts |= {LIFT: lift, LIFT_ERROR: error}
        if estimate.weights is not None and (estimate.weights == 1.0).all():
            # The policy is the logging policy, whatever a model says of actions not logged.
            facts |= {LIFT: 0.0, LIFT_ERROR: 0.0}
        if log.estimated_propensity and estimate.weights is not None:
            for name, measured in (
                (REWARDED, effective_rewarded_rows),
                (EFFECTIVE, effective_size),
            ):
                facts[name] = measured(log, self.target, estimate.weights)
        if self.folder:
            name = f"terms-{uuid.uuid4().hex}.npy"
            np.save(Path(self.folder) / name, terms)
            facts[TERMS] = name
        return facts
