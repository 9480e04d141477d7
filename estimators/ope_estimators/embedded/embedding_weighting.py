"""Base of the estimators from importance weights of embeddings."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, ClassVar

from annotated_types import Gt

from ope_bench import Estimate, FloatArray, LinearEstimator, LinearScore, View
from ope_estimators.actions.weighting.weighted_mean import clipped, require_overlap

__all__ = ["EmbeddingWeighting"]


class EmbeddingWeighting(LinearEstimator):
    """Base: the mean of weighted rewards; a subclass says what the weights are.

    Parameters
    ----------
    clip : largest weight; larger ones are cut.
    """

    weight_space = "embedding"

    normalized: ClassVar[bool] = False
    """Whether the weights sum to one."""

    clip: Annotated[float, Gt(0)] | None = None

    @abstractmethod
    def _ratio(self, view: View) -> FloatArray:
        """The weight of each logged row before clipping: (n,)."""

    def score(self, view: View) -> LinearScore:
        """Return the weights and the rewards."""
        return self._score(clipped(self._ratio(view), self.clip)[0], view)

    def _score(self, weights: FloatArray, view: View) -> LinearScore:
        return LinearScore(weight=weights, outcome=view.reward, normalized=self.normalized)

    def estimate(self, view: View) -> Estimate:
        """The mean of weighted rewards and its standard error.

        Raises
        ------
        PositivityViolation : actions are continuous and all weights are zero.
        """
        weights, diagnostics = clipped(self._ratio(view), self.clip)
        found = self._score(weights, view).solve(view.unit, view.row_weight)
        require_overlap(view, weights, found.value)
        return Estimate(
            found.value,
            found.standard_error,
            weights,
            diagnostics,
            weight_space=self.weight_space,
            terms=found.centered_terms,
        )
