"""The maker ``resample``: real rows, chosen as if another policy had logged them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ope_bench import (
    DiscretePolicy,
    IntArray,
    Problem,
    Truth,
    UnavailableError,
    problem_rows,
)
from ope_environments.logs.makers.source import Source
from ope_environments.populations.blend import Blend
from ope_environments.populations.rejection import accept

__all__ = ["Resample"]

LEAST_ROWS = 20
"""Rows that a pseudo-logger must be expected to leave."""


class Resample:
    """Rows accepted with probabilities such that a pseudo-logger logged them.

    The pseudo-logger is the mixture (1 - skew) pi0 + skew pi1, restricted to what pi0 plays; its
    propensities are known where those of both policies are. Weights average one, so

        kept = 1 / (1 - skew + skew max w),

    and the fewer rows are kept, the closer is the pseudo-logger to pi1. Contexts, actions and
    rewards are real. The truth is the whole log's self-normalized estimate, with its standard
    error: the sub-sample shares its errors, which favors weighting.

    Parameters
    ----------
    source : the log; with propensities of a randomized logging policy.
    kept : share of the rows to accept, in expectation; more are left where even pi1 itself as
        the pseudo-logger accepts more.
    toward : share of the policy to evaluate in the pseudo-logger, in place of ``kept``.

    Attributes
    ----------
    skew : share of the policy to evaluate in the pseudo-logger.

    Raises
    ------
    UnavailableError : a probability is unknown, or too few rows would be left.
    """

    def __init__(self, source: Source, kept: float, toward: float | None = None) -> None:
        self.source = source
        problem = source.problem
        if problem.propensity is None:
            raise UnavailableError(problem.reason("propensity"))
        if problem.target_policy is None:
            raise UnavailableError(problem.reason("target_policy"))
        self._propensity = problem.propensity
        of_logged = problem.target_policy.probability(problem.context, problem.action)
        self._weight = of_logged / problem.propensity
        largest = float(self._weight.max())
        setting = f"kept={kept:g}" if toward is None else f"toward={toward:g}"
        if toward is None:
            toward = min(1.0, (1 / kept - 1) / (largest - 1)) if largest > 1 else 1.0
        self.skew = skew = toward
        self._wanted = (1 - skew) * problem.propensity + skew * of_logged
        self._blend: Blend | None = None
        logging, target = problem.logging_policy, problem.target_policy
        if isinstance(logging, DiscretePolicy) and isinstance(target, DiscretePolicy):
            self._blend = Blend(logging, target, skew)
            self._wanted = self._blend.probability(problem.context, source.decisions.action)
        ratio = self._wanted / problem.propensity
        left = float(ratio.mean() / ratio.max()) * source.n
        if left < LEAST_ROWS:
            msg = (
                f"maker=resample would leave {left:.0f} of {source.n:,} rows with {setting}, "
                f"fewer than {LEAST_ROWS}; keep more"
            )
            raise UnavailableError(msg)
        self._value, self._error = self._whole()

    def sample(
        self,
        n: int | None,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """Sample what rejection leaves, of it ``n`` rows at most, and the truth."""
        problem = self.source.problem
        found = accept(self._propensity, self._wanted, logged_rng)
        rows, propensity = found.rows, found.propensity
        if n is not None and n < len(rows):
            kept = np.sort(logged_rng.choice(len(rows), n, replace=False))
            rows, propensity = rows[kept], propensity[kept]
        if not len(rows):
            msg = "maker=resample accepted no row; keep more"
            raise UnavailableError(msg)
        target = self._target_rows(rows)
        made = problem_rows(
            problem,
            rows,
            target,
            propensity=propensity,
            logging_policy=self._blend,
            **self.source.target_sample(target, target_rng),
        )
        return made, Truth(self._value, self._error, self._value)

    def _target_rows(self, rows: IntArray) -> IntArray | None:
        problem = self.source.problem
        if not problem.has_target_sample:
            return None
        return rows if problem.shared_contexts else np.arange(len(problem.target_sample[1]))

    def _whole(self) -> tuple[float, float]:
        """Return the whole log's self-normalized estimate and its standard error, by unit."""
        weight, reward = self._weight, self.source.problem.reward
        total = float(weight.sum())
        if total == 0:
            msg = "maker=resample needs a logged row that the policy could have chosen"
            raise UnavailableError(msg)
        value = float(weight @ reward) / total
        terms: Any = weight * (reward - value)
        if (unit := self.source.problem.unit) is not None:
            terms = np.bincount(np.unique(unit, return_inverse=True)[1].reshape(-1), terms)
        return value, math.sqrt(float(np.square(terms).sum())) / total
