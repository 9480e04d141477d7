"""The log from which worlds are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ope_bench import (
    FloatArray,
    IntArray,
    Problem,
    Softmax,
    UnavailableError,
    UnitSampler,
)
from ope_environments.logs.decisions import LoggedDecisions
from ope_environments.logs.logging_model import fit_logging
from ope_environments.populations.design import Design

__all__ = ["Source"]


@dataclass(frozen=True, eq=False)
class Source:
    """A log and the policy to evaluate, as the problem that estimators get.

    Parameters
    ----------
    problem : all rows, and what is known of both policies.
    """

    problem: Problem

    def __post_init__(self) -> None:
        if self.problem.row_weight is not None:
            msg = "worlds are not made from logs whose rows have weights"
            raise UnavailableError(msg)

    @property
    def n(self) -> int:
        """Number of logged rows."""
        return len(self.problem.reward)

    @property
    def n_actions(self) -> int:
        """Number of actions.

        Raises
        ------
        UnavailableError : they are continuous.
        """
        if self.problem.n_actions is None:
            msg = "worlds are made from logs of discrete actions"
            raise UnavailableError(msg)
        return self.problem.n_actions

    @cached_property
    def decisions(self) -> LoggedDecisions:
        """The rows as models are fitted to them."""
        problem, schema = self.problem, self.problem.schema
        assert schema is not None  # noqa: S101  a Problem always has one
        embedding, columns = problem.action_embedding, schema.embedding
        if embedding is None:
            embedding, columns = np.zeros((self.n_actions, 0)), ()
        return LoggedDecisions(
            np.asarray(problem.context),
            schema.context,
            np.asarray(problem.action, dtype=np.int64),
            tuple(map(str, range(self.n_actions))),
            problem.reward,
            problem.propensity,
            embedding,
            columns,
        )

    @cached_property
    def design(self) -> Design:
        """The contexts as a design matrix."""
        return Design(self.decisions.columns, self.decisions.context)

    @cached_property
    def logging_by_context(self) -> Softmax:
        """The fitted logging policy."""
        return fit_logging(self.decisions, self.design, by_context=True)

    @cached_property
    def logging_by_share(self) -> Softmax:
        """The logged shares of the actions, made as sharp as the logged propensities."""
        return fit_logging(self.decisions, self.design, by_context=False)

    @cached_property
    def units(self) -> UnitSampler:
        """Draws rows of both samples, unit by unit."""
        problem = self.problem
        unit = np.arange(self.n) if problem.unit is None else problem.unit
        if not problem.has_target_sample or problem.shared_contexts:
            return UnitSampler(unit, unit)
        target = problem.target_unit
        if target is None:
            target = int(unit.max()) + 1 + np.arange(len(problem.target_sample[1]))
        return UnitSampler(unit, target)

    def draw(self, n: int | None, rng: np.random.Generator) -> tuple[IntArray, IntArray | None]:
        """Draw rows of the log and of the target sample, by units with replacement.

        Parameters
        ----------
        n : about so many rows; None for as many units as there are.
        """
        drawn = self.units.draw(rng, 1.0 if n is None else n / self.n)
        return drawn.logged, drawn.target if self.problem.has_target_sample else None

    def target_sample(
        self, rows: IntArray | None, rng: np.random.Generator
    ) -> dict[str, FloatArray | IntArray]:
        """Draw the policy's actions anew at some target rows; nothing where they stay as they are.

        They stay where its probabilities, or what describes an action, are unknown.
        """
        problem = self.problem
        embedding = problem.action_embedding
        if embedding is None and not problem.embedding.shape[1]:
            embedding = np.zeros((self.n_actions, 0))
        if rows is None or not self.knows_target or embedding is None:
            return {}
        assert problem.target_policy is not None  # noqa: S101  knows_target
        action = problem.target_policy.sample(problem.target_sample[0][rows], rng)
        action = np.asarray(action, dtype=np.int64)
        return {"target_action": action, "target_embedding": embedding[action]}

    @property
    def knows_target(self) -> bool:
        """Return whether all probabilities of the policy are known."""
        problem = self.problem
        return problem.target_policy is not None and "target_policy" not in problem.unavailable

    def value(self, reward: Callable[[FloatArray, IntArray], FloatArray]) -> float:
        """Return the policy's value where mean rewards are a known function.

        The mean over the rows of sum_a pi1(a|x) q(x, a), or of q at the policy's actions where its
        probabilities are unknown.

        Raises
        ------
        UnavailableError : only the probabilities of logged actions are known.
        """
        problem = self.problem
        if self.knows_target and problem.target_policy is not None:
            return float(problem.target_policy.expect(problem.context, reward).mean())
        context, action, _ = problem.target_sample
        return float(reward(np.asarray(context), np.asarray(action, dtype=np.int64)).mean())
