"""The best linear unbiased combination of several estimates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import reduce
from operator import or_
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from annotated_types import MinLen

from ope_bench import (
    STANDARD_ERROR_WITHHELD,
    Access,
    Diagnostic,
    Estimate,
    Estimator,
    EstimatorSpec,
    FloatArray,
    NestedEstimator,
    UnavailableError,
    View,
    standard_error,
)
from ope_estimators.selection.candidates import run_candidates

__all__ = ["Blue", "blue_weights"]

ESTIMATED = "weights of the candidates are estimated from the same rows"


class Blue(Estimator):
    """The combination of unbiased estimates with the least variance.

        V̂ = sum_k α_k V̂_k,   α = S⁺1 / (1'S⁺1),   S_kl = covariance of the terms of k and l

    Terms are what rows add to an estimate, summed over units; S⁺ is the pseudo-inverse, so that a
    candidate given twice changes nothing. Weights may be negative: of two estimates with one kind
    of noise the better one is corrected by the other. There is no standard error where several are
    combined: α is estimated from the same rows. To first order that changes no error, as all
    candidates have one mean, but α follows rare terms, which biases V̂: in small logs the error of
    the combined terms, a diagnostic, and errors that fit α anew held the value far too rarely
    (``results/performance/standard-errors.md``).

    Assumptions: those of all candidates.
    Fails when: a candidate is biased: the least variance is often its own. With few rows the
    estimate of S follows the noise.

    Parameters
    ----------
    candidates : selectors or estimators, with terms.

    References
    ----------
    The combination of forecasts (Bates and Granger, 1969), generalized to correlated errors.

    Examples
    --------
    >>> blue_weights(np.array([[1.0, 0.6], [0.6, 2.0]])).round(6).tolist()
    [0.777778, 0.222222]
    """

    check_params: ClassVar[Mapping[str, Any]] = {"candidates": ["ipw", "dr[regressor=ridge]"]}

    candidates: Annotated[list[EstimatorSpec], MinLen(1)] = field(
        default_factory=lambda: ["ipw", "dr"]
    )

    @property
    def nested(self) -> tuple[Estimator, ...]:
        """The candidates."""
        return tuple(NestedEstimator.of(one).estimator for one in self.candidates)

    @property
    def access(self) -> Access:
        """The candidates' together."""
        return reduce(or_, (one.access for one in self.nested))

    @property
    def optional_access(self) -> Access:
        """All of it: a candidate that lacks something is left out."""
        return self.access

    @property
    def action_masks(self) -> bool:
        """A candidate that does not hold under masks is left out."""
        return True

    @property
    def requires(self) -> tuple[str, ...]:
        """The modules of the candidates."""
        return tuple(dict.fromkeys(name for one in self.nested for name in one.requires))

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Run the candidates and combine them.

        Raises
        ------
        PositivityViolation : all candidates fail, none graver than by missing support.
        UnavailableError : all candidates lack something, or none has terms.
        """
        outcomes = run_candidates(map(NestedEstimator.of, self.candidates), view, device)
        if not outcomes.working:
            self.estimate_ = outcomes.failed()
            return self
        terms = [one.estimate.terms for one in outcomes.working]
        with_terms = [
            (one, term)
            for one, term in zip(outcomes.working, terms, strict=True)
            if term is not None and one.estimate.target_terms is None
        ]
        if not with_terms:
            msg = "no candidate has terms of the logged rows alone, whose covariance blue needs"
            raise UnavailableError(msg)
        table = np.stack([term for _, term in with_terms])
        weight = blue_weights(_covariance(table, view))
        combined = weight @ table
        value = float(weight @ np.array([one.estimate.value for one, _ in with_terms]))
        facts: dict[str, Diagnostic] = {
            f"weight[{one.name}]": float(part)
            for (one, _), part in zip(with_terms, weight, strict=True)
        }
        diagnostics = facts | outcomes.facts()
        error = standard_error(combined, view.unit)
        if len(with_terms) > 1:
            diagnostics |= {"error_given_weights": error, STANDARD_ERROR_WITHHELD: ESTIMATED}
            error = None
        elif with_terms[0][0].estimate.standard_error is None:
            error, diagnostics[STANDARD_ERROR_WITHHELD] = None, f"{with_terms[0][0].name} has none"
        self.estimate_ = Estimate(value, error, diagnostics=diagnostics, terms=combined)
        return self

    def estimate(self, view: View) -> Estimate:
        """Return the combination."""
        return self.estimate_


def blue_weights(covariance: FloatArray) -> FloatArray:
    """Return the weights, which sum to one, of the least variance: (k,)."""
    inverse = np.linalg.pinv(covariance, rcond=1e-10, hermitian=True)
    raw = inverse.sum(axis=1)
    total = float(raw.sum())
    # Without any variance all estimates are equal, or constants.
    equal = np.full(len(raw), 1.0 / len(raw))
    return raw / total if total > 0 else equal


def _covariance(table: FloatArray, view: View) -> FloatArray:
    """Return the covariance of rows of terms, summed over units, but for a factor: (k, k)."""
    scores = table - table.mean(axis=1, keepdims=True)
    _, unit = np.unique(view.unit, return_inverse=True)
    sums = np.stack([np.bincount(unit.reshape(-1), row) for row in scores])
    covariance: FloatArray = sums @ sums.T / len(table[0])
    return covariance
