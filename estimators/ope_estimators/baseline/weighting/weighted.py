"""What the estimators with exact weights share: the mean and the self-normalized mean."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, ClassVar

from annotated_types import Gt

from ope_bench import Estimate, FloatArray, LinearEstimator, LinearScore, PositivityViolation, View
from ope_estimators.baseline.weighting.weighted_mean import clipped

__all__ = ["Weighted"]


class Weighted(LinearEstimator):
    """Base: the mean of weighted rewards; a subclass says what the weights are.

    Parameters
    ----------
    clip : largest weight; larger ones are cut.
    """

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
        if view.n_actions is None and not weights.any():
            # With finitely many actions this is a draw like others, and 0 part of being unbiased.
            msg = (
                f"all {len(weights)} weights are 0: the logs and the target policy share no action"
            )
            raise PositivityViolation(msg, fallback=found.value)
        return Estimate(
            found.value,
            found.standard_error,
            weights,
            diagnostics,
            weight_space=self.weight_space,
            terms=found.centered_terms,
        )
