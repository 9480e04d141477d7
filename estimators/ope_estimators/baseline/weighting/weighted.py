"""What the estimators with exact weights share: the mean and the self-normalized mean."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, ClassVar, Literal

from annotated_types import Gt

from ope_bench import Estimate, Estimator, FloatArray, PositivityViolation, View, weighted_terms
from ope_estimators.baseline.weighting.weighted_mean import (
    clipped,
    never_logged,
    self_normalized,
    standard_error,
)

__all__ = ["SelfNormalized", "Weighted"]


class Weighted(Estimator):
    """Base: the mean of weighted rewards; a subclass says what the weights are.

    Parameters
    ----------
    clip : largest weight; larger ones are cut.
    """

    weight_space: ClassVar[Literal["action", "embedding"]] = "action"

    clip: Annotated[float, Gt(0)] | None = None

    @abstractmethod
    def _ratio(self, view: View) -> FloatArray:
        """The weight of each logged row before clipping: (n,)."""

    def estimate(self, view: View) -> Estimate:
        """The mean of weighted rewards and its standard error.

        Raises
        ------
        PositivityViolation : actions are continuous and all weights are zero.
        """
        weights, diagnostics = clipped(self._ratio(view), self.clip)
        value, error = self._mean(weights, view)
        terms = self._terms(weights, view)
        if view.n_actions is None and not weights.any():
            # With finitely many actions this is a draw like others, and 0 part of being unbiased.
            msg = (
                f"all {len(weights)} weights are 0: the logs and the target policy share no action"
            )
            raise PositivityViolation(msg, fallback=value)
        return Estimate(
            value, error, weights, diagnostics, weight_space=self.weight_space, terms=terms
        )

    def _mean(self, weights: FloatArray, view: View) -> tuple[float, float | None]:
        terms = self._terms(weights, view)
        return float(terms.mean()), standard_error(terms, view.unit)

    def _terms(self, weights: FloatArray, view: View) -> FloatArray:
        """Terms whose mean is the estimate: (n,)."""
        return weighted_terms(weights * view.reward, view.row_weight)


def _counted(weights: FloatArray, view: View) -> FloatArray:
    """Weights times the rows that each row stands for, of mean one: (n,)."""
    counts = view.row_weight
    return weights if counts is None else weights * (counts / counts.mean())


class SelfNormalized(Weighted):
    """Mixed in before a `Weighted` class: its weights sum to one."""

    def _mean(self, weights: FloatArray, view: View) -> tuple[float, float | None]:
        weights = _counted(weights, view)
        # Actions that were never logged say nothing of the support of embeddings.
        if self.weight_space == "embedding":
            return self_normalized(weights, view.reward, view.unit)
        return self_normalized(
            weights, view.reward, view.unit, unsupported_mass=lambda: never_logged(view)
        )

    def _terms(self, weights: FloatArray, view: View) -> FloatArray:
        weights = _counted(weights, view)
        ratio = float(weights @ view.reward) / float(weights.sum())
        terms: FloatArray = ratio + weights / weights.mean() * (view.reward - ratio)
        return terms
