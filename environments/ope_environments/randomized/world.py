"""Observational logs out of a randomized trial: a skewed logger, a target, and its truth."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from ope_bench import (
    DeterministicEmbedding,
    DiscretePolicy,
    FloatArray,
    IntArray,
    ParameterError,
    Problem,
    Schema,
    Truth,
    UnavailableError,
    did_you_mean,
)
from ope_environments.populations.blend import Blend
from ope_environments.populations.design import Design
from ope_environments.populations.linear_reward import LinearReward, fit_ridge
from ope_environments.populations.population import draw_rows
from ope_environments.populations.rejection import ROUNDING, Accepted, accept
from ope_environments.randomized.policies import MixedRule, TiltedShares
from ope_environments.randomized.stratified_value import stratified_value
from ope_environments.randomized.trial import RandomizedTrial

__all__ = ["TargetRule", "TargetName", "TrialWorld", "make_world"]

TargetName = Literal["arm", "rule"]

LEAST_ROWS = 20
"""Rows that the skewed logger must be expected to leave."""

RIDGE = 10.0
"""Penalty of the models of the outcome."""

LEAST_SHARE = 0.05
"""Share below which a learnt rule does not choose an arm: too few rows would tell its value."""

FARTHEST = 2.0
"""Standard deviations at which the predicted outcome is cut off in the skew."""


@dataclass(frozen=True)
class TargetRule:
    """The policy to evaluate.

    Parameters
    ----------
    name : one arm for all, or a rule that is learnt on a held-out half of the units.
    arm : of the first; the one with the most rows where None.
    epsilon : weight of the trial's own shares in the mixture with them.
    """

    name: TargetName
    arm: str | None
    epsilon: float


@dataclass(frozen=True, eq=False)
class TrialWorld:
    """Some rows of a trial, and both policies.

    Parameters
    ----------
    trial : the trial.
    rows : (n,), the rows that logs are made of and that give the truth.
    logging, target : the policies.
    """

    trial: RandomizedTrial
    rows: IntArray
    logging: DiscretePolicy
    target: DiscretePolicy

    @cached_property
    def context(self) -> FloatArray:
        """The context of the rows: (n, d_context)."""
        return self.trial.context[self.rows]

    @cached_property
    def truth(self) -> Truth:
        """The target's value, estimated from all of the rows; there is no sample of its own."""
        arm, stratum = self.trial.arm[self.rows], self.trial.stratum[self.rows]
        weight = self.target.probability(self.context, arm) / self.trial.share[stratum, arm]
        outcome = self.trial.outcome[self.rows]
        value, error = stratified_value(weight, outcome, stratum, self.trial.unit[self.rows])
        return Truth(value, error, value)

    @cached_property
    def bound(self) -> float:
        """The largest probability ratio of the logger and the trial, over contexts and arms.

        Raises
        ------
        UnavailableError : it leaves too few rows.
        """
        share = self.trial.share[self.trial.stratum[self.rows]]
        largest = 0.0
        for rows, block in self.logging.blocks(self.context):
            played = share[rows] > 0
            largest = max(largest, float((block[played] / share[rows][played]).max()))
        left = len(self.rows) / largest
        if left < LEAST_ROWS:
            msg = (
                f"randomized: the logging policy would leave {left:.0f} of {len(self.rows):,} "
                f"rows, fewer than {LEAST_ROWS}; lower skew or toward"
            )
            raise UnavailableError(msg)
        return largest

    def sample(
        self,
        n: int | None,
        *,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
        shared_contexts: bool,
    ) -> tuple[Problem, Truth]:
        """Accept rows as if the logging policy had logged them, ``n`` at most, with the truth."""
        trial = self.trial
        arm, unit = trial.arm[self.rows], trial.unit[self.rows]
        accepted = self._accepted(logged_rng)
        rows, propensity = accepted.rows, accepted.propensity
        if n is not None and n < len(rows):
            kept = np.sort(logged_rng.choice(len(rows), n, replace=False))
            rows, propensity = rows[kept], propensity[kept]
        if not len(rows):
            msg = "randomized: no row was accepted; lower skew or toward"
            raise UnavailableError(msg)
        target_rows = rows if shared_contexts else self._others(rows, target_rng)
        target_arm = self.target.sample(self.context[target_rows], target_rng)
        embedding, embedding_columns = trial.arm_embedding()
        outcome = trial.outcome[self.rows][rows]
        problem = Problem(
            context=self.context[rows],
            action=arm[rows],
            embedding=embedding[arm[rows]],
            reward=outcome,
            target_context=self.context[target_rows],
            target_action=target_arm,
            target_embedding=embedding[target_arm],
            n_actions=len(trial.arms),
            schema=Schema(trial.columns, embedding_columns),
            propensity=propensity,
            logging_policy=self.logging,
            target_policy=self.target,
            action_embedding=embedding,
            embedding_distribution=DeterministicEmbedding(embedding),
            shared_contexts=shared_contexts,
            unit=unit[rows],
            target_unit=unit[target_rows],
            reward_range=(0.0, 1.0) if np.isin(trial.outcome, (0.0, 1.0)).all() else None,
        )
        return problem, self.truth

    def _accepted(self, rng: np.random.Generator) -> Accepted:
        arm, stratum = self.trial.arm[self.rows], self.trial.stratum[self.rows]
        return accept(
            self.trial.share[stratum, arm],
            self.logging.probability(self.context, arm),
            rng,
            bound=self.bound,
            unit=self.trial.unit[self.rows] if self.trial.together else None,
        )

    def value_of_others(self, logged_rng: np.random.Generator) -> tuple[float, float]:
        """Estimate the target's value from the rows that the log of this stream does not accept.

        Given its context, such a row has arm a with probability proportional to share(a|x) -
        logging(a|x) / bound; contexts keep their distribution. The error is independent of the
        log's, as that of `truth` is not: it is with its standard error a yardstick that favors no
        estimator.
        """
        rest = np.setdiff1d(np.arange(len(self.rows)), self._accepted(logged_rng).rows)
        trial, context = self.trial, self.context[rest]
        arm, stratum = trial.arm[self.rows][rest], trial.stratum[self.rows][rest]
        kept = 1.0 - 1.0 / self.bound
        left = trial.share[stratum, arm] - self.logging.probability(context, arm) / self.bound
        weight = self.target.probability(context, arm) * kept / np.maximum(left, ROUNDING)
        outcome, unit = trial.outcome[self.rows][rest], trial.unit[self.rows][rest]
        try:
            return stratified_value(weight, outcome, stratum, unit)
        except UnavailableError:  # a stratum without a row of weight
            return stratified_value(weight, outcome, np.zeros_like(stratum), unit)

    def _others(self, rows: IntArray, rng: np.random.Generator) -> IntArray:
        """Draw as many rows, others where enough are left; all have the same contexts' law."""
        left = np.setdiff1d(np.arange(len(self.rows)), rows)
        return draw_rows(
            left if len(left) >= len(rows) else np.arange(len(self.rows)), len(rows), rng
        )


def make_world(
    trial: RandomizedTrial,
    target: TargetRule,
    skew: float,
    toward: float,
    rng: np.random.Generator,
) -> TrialWorld:
    """Draw the held-out half and the direction of the skew, and build the policies.

    The score of the skew is z(x) u_a: z is the outcome as a ridge regression on the context
    predicts it, standardized; u_a are uniform in [-1, 1], one an arm.

    Parameters
    ----------
    trial : the trial.
    target : the policy to evaluate.
    skew : how much the trial's shares are skewed by context.
    toward : share of the target policy in the logging policy.
    """
    direction = rng.uniform(-1.0, 1.0, len(trial.arms))
    rows = np.arange(len(trial.arm))
    if target.name == "rule":
        learnt, rows = _halves(trial.unit, rng)
        rule = _learnt_rule(trial, learnt)
    else:
        arm = _arm(trial, target.arm)
        # Where the arm was never drawn, nothing tells its outcome.
        rows = np.flatnonzero(trial.share[trial.stratum, arm] > 0)
        rule = _constant_rule(arm)
    policy = MixedRule(trial.share, _stratum_of(trial), rule, target.epsilon)
    score = _Score(_outcome_model(trial), trial, direction)
    tilted = TiltedShares(trial.share, _stratum_of(trial), score, skew)
    logging = Blend(tilted, policy, toward) if toward else tilted
    return TrialWorld(trial, rows, logging, policy)


class _Score:
    """z(x) u_a, by context: (k, n_arms)."""

    def __init__(self, model: LinearReward, trial: RandomizedTrial, direction: FloatArray) -> None:
        context, _ = trial.features
        self.model, self.direction, self.width = model, direction, context.shape[1]
        predicted = model(context)[:, 0]
        self.mean, self.std = float(predicted.mean()), float(predicted.std()) or 1.0

    def __call__(self, context: FloatArray) -> FloatArray:
        """Return the score of a chunk: (k, n_arms)."""
        predicted = self.model(context[:, : self.width])[:, 0]
        z = np.clip((predicted - self.mean) / self.std, -FARTHEST, FARTHEST)
        score: FloatArray = z[:, None] * self.direction
        return score


def _stratum_of(trial: RandomizedTrial) -> Callable[[FloatArray], IntArray]:
    if trial.n_strata == 1:
        return lambda context: np.zeros(len(context), dtype=np.int64)
    return lambda context: context[:, -1].astype(np.int64)


def _outcome_model(trial: RandomizedTrial) -> LinearReward:
    """Fit the outcome on the context alone, whatever the arm."""
    return _linear(trial, np.arange(len(trial.arm)), np.zeros(len(trial.arm), dtype=np.int64), 1)


def _learnt_rule(
    trial: RandomizedTrial, rows: IntArray
) -> Callable[[FloatArray, FloatArray], IntArray]:
    """Return the arm with the largest predicted outcome, by a regression for each arm.

    Among arms that have a share of `LEAST_SHARE` in the stratum, or where none has, the largest.
    """
    model = _linear(trial, rows, trial.arm[rows], len(trial.arms))
    width = trial.features[0].shape[1]

    def best(context: FloatArray, share: FloatArray) -> IntArray:
        least = np.minimum(LEAST_SHARE, share.max(axis=1, keepdims=True))
        predicted = np.where(share >= least, model(context[:, :width]), -math.inf)
        chosen: IntArray = predicted.argmax(axis=1)
        return chosen

    return best


def _constant_rule(arm: int) -> Callable[[FloatArray, FloatArray], IntArray]:
    return lambda context, share: np.full(len(context), arm)


def _linear(
    trial: RandomizedTrial, rows: IntArray, action: IntArray, n_actions: int
) -> LinearReward:
    context, columns = trial.features
    return fit_ridge(
        context[rows],
        action,
        trial.outcome[rows],
        n_actions=n_actions,
        design=Design(columns, context),
        ridge=RIDGE,
    )


def _halves(unit: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Split the rows by units: rows to learn from, rows to evaluate on."""
    units, place = np.unique(unit, return_inverse=True)
    if len(units) < 4:
        msg = f"randomized: {len(units)} units are too few to learn a rule on half of them"
        raise UnavailableError(msg)
    first = np.zeros(len(units), dtype=bool)
    first[rng.permutation(len(units))[: len(units) // 2]] = True
    learns = first[place.reshape(-1)]
    return np.flatnonzero(learns), np.flatnonzero(~learns)


def _arm(trial: RandomizedTrial, name: str | None) -> int:
    if name is None:
        return int(np.bincount(trial.arm, minlength=len(trial.arms)).argmax())
    if name not in trial.arms:
        msg = (
            f"randomized: no arm '{name}'{did_you_mean(name, trial.arms)} (there are "
            f"{', '.join(trial.arms)})"
        )
        raise ParameterError(msg)
    return trial.arms.index(name)
