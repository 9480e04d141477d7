"""Candidates of a selection: their answers, and the failures of those that have none."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from ope_bench import (
    Diagnostic,
    Estimate,
    FloatArray,
    NestedEstimator,
    PositivityViolation,
    UnavailableError,
    View,
)

__all__ = ["Candidate", "Failure", "CandidateOutcomes", "run_candidates"]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A candidate with an estimate.

    Parameters
    ----------
    nested : the estimator.
    estimate : its finite estimate.
    """

    nested: NestedEstimator
    estimate: Estimate

    @property
    def name(self) -> str:
        """The shortest selector."""
        return self.nested.text

    def value_on(self, view: View, device: str) -> float:
        """Return the estimate on other rows, computed anew; NaN where there is none."""
        again = run_candidates([self.nested], view, device).working
        return again[0].estimate.value if again else math.nan


@dataclass(frozen=True)
class Failure:
    """Why a candidate has no estimate.

    Parameters
    ----------
    name : the candidate.
    status : ``error``, ``nonfinite``, ``positivity`` or ``unavailable``, as of a trial.
    cause : the exception; None where the estimate is not finite.
    """

    name: str
    status: str
    cause: Exception | None = None

    def __str__(self) -> str:
        reason = f"{type(self.cause).__name__}: {self.cause}" if self.cause else "not finite"
        return f"{self.status}: {reason}"


@dataclass(frozen=True, eq=False)
class CandidateOutcomes:
    """Candidates that have an estimate, in their order, and the failures of the others."""

    working: list[Candidate] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    @property
    def values(self) -> FloatArray:
        """The estimates: (k,)."""
        return np.array([one.estimate.value for one in self.working])

    def facts(self) -> dict[str, Diagnostic]:
        """Return the value of each candidate, or why it has none."""
        facts: dict[str, Diagnostic] = {
            f"value[{one.name}]": one.estimate.value for one in self.working
        }
        return facts | self.failed_facts()

    def failed_facts(self) -> dict[str, Diagnostic]:
        """Return why candidates have no estimate."""
        return {f"failure[{one.name}]": str(one) for one in self.failures}

    def failed(self) -> Estimate:
        """Fail as the candidates did, which all failed.

        The status is the gravest of theirs: an error before a value that is not finite, before
        missing support, before missing data.
        """
        message = "no candidate has an estimate: " + "; ".join(
            f"{one.name}: {one}" for one in self.failures
        )
        order = ("error", "nonfinite", "positivity", "unavailable")
        worst = min(self.failures, key=lambda one: order.index(one.status))
        if worst.status == "nonfinite":
            return Estimate(math.nan, diagnostics=self.facts())
        cause = worst.cause
        if isinstance(cause, PositivityViolation):
            raise PositivityViolation(
                message, unsupported_mass=cause.unsupported_mass, fallback=cause.fallback
            ) from cause
        if isinstance(cause, UnavailableError):
            raise UnavailableError(message) from cause
        raise RuntimeError(message) from cause


def run_candidates(
    nested: Iterable[NestedEstimator], view: View, device: str, *, most: int | None = None
) -> CandidateOutcomes:
    """Run estimators one by one; a failure costs its candidate alone.

    Parameters
    ----------
    nested : the estimators.
    view : what the selection was granted; each estimator sees what it declares of it.
    device : device of the trial.
    most : stop after so many that work; None runs all.
    """
    outcomes = CandidateOutcomes()
    for one in nested:
        if most is not None and len(outcomes.working) >= most:
            break
        try:
            estimate = one.run(view, device=device)
        except MemoryError:
            # What is left of the memory is too little for the others, too.
            raise
        # A candidate may raise any exception.
        except Exception as exc:
            outcomes.failures.append(Failure(one.text, _status(exc), exc))
            continue
        if math.isfinite(estimate.value):
            outcomes.working.append(Candidate(one, estimate))
        else:
            outcomes.failures.append(Failure(one.text, "nonfinite"))
    return outcomes


def _status(exc: Exception) -> str:
    if isinstance(exc, PositivityViolation):
        return "positivity"
    return "unavailable" if isinstance(exc, UnavailableError) else "error"
