"""A user's own log as the environment of trials, whose truth nobody knows."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np

from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.data import Problem, Truth
from ope_bench.contracts.environment import Environment
from ope_bench.contracts.estimate import Diagnostic, Estimate
from ope_bench.contracts.parameters.declaration import params
from ope_bench.logs.paired import baseline_difference, standard_error
from ope_bench.logs.problem import problem_of, unit_of
from ope_bench.logs.reading.log_data import LogData
from ope_bench.logs.storage import open_log

__all__ = ["BASELINE", "LIFT", "LIFT_ERROR", "TERMS", "OwnLog", "terms_of"]

BASELINE = "baseline"
"""Name of the diagnostic with the constant around which an estimate weighs rewards, if it does.

Differences of such estimates have a constant of their own: see `baseline_difference`.
"""

LIFT = "lift"
"""Name of the diagnostic with the lift, where it is not value minus mean logged reward."""

LIFT_ERROR = "lift_standard_error"
"""Name of the diagnostic with the standard error of value minus mean logged reward."""

TERMS = "terms_file"
"""Name of the diagnostic with the file of an estimate's terms, for differences."""


@params
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
        terms = _terms(problem, estimate)
        if terms is None or estimate.standard_error is None:
            return {}
        log = self.opened()
        unit = unit_of(log)
        facts: dict[str, Diagnostic] = {LIFT_ERROR: standard_error(terms - problem.reward, unit)}
        if BASELINE in estimate.diagnostics and estimate.weights is not None:
            ones = np.ones(len(terms))
            lift, error = baseline_difference(estimate.weights, ones, problem.reward, unit)
            facts |= {LIFT: lift, LIFT_ERROR: error}
        if self.folder and len(log.targets) > 1:
            name = f"terms-{uuid.uuid4().hex}.npy"
            np.save(Path(self.folder) / name, terms)
            facts[TERMS] = name
        return facts


def _terms(problem: Problem, estimate: Estimate) -> FloatArray | None:
    """Return what each logged row adds to the value, its target row included; None if unknown."""
    terms, target = estimate.terms, estimate.target_terms
    if terms is None or len(terms) != len(problem.reward):
        return None
    if target is None:
        return terms
    # Row i of both samples has the same context, and belongs to the same unit.
    paired = problem.shared_contexts and len(target) == len(terms)
    return terms + target if paired else None


def terms_of(folder: Path, diagnostics: Mapping[str, Diagnostic]) -> FloatArray | None:
    """Return the terms that a trial kept, None where it kept none: (n,)."""
    name = diagnostics.get(TERMS)
    if not name:
        return None
    terms: FloatArray = np.load(folder / str(name))
    return terms
