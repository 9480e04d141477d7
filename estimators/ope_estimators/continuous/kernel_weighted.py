"""Base of the estimators that smooth over continuous actions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from annotated_types import Gt

from ope_bench import (
    STANDARD_ERROR_WITHHELD,
    Diagnostic,
    Estimate,
    FloatArray,
    IntArray,
    PositivityViolation,
    UnavailableError,
    View,
)
from ope_estimators.actions.weighting.ipw import TransformedWeights
from ope_estimators.actions.weighting.weighted_mean import effective_units
from ope_estimators.actions.weighting.weighted_rows import WeightedRows
from ope_estimators.density_ratio.kernels import Kernel, profile, silverman
from ope_estimators.tuning.slope import NORMAL_QUANTILE, slope

__all__ = ["DRAWS", "KernelRows", "KernelWeighted"]

DRAWS = 16
"""Target actions drawn in each logged context where the target policy is random."""

EXPONENTS = range(1, 8)
"""Of the bandwidths 2^-1, ..., 2^-7 among which ``slope`` chooses."""

INTEGRAL: dict[Kernel, float] = {
    "rbf": math.sqrt(2.0 * math.pi),
    "epanechnikov": 4.0 / 3.0,
    "triangular": 1.0,
    "cosine": 4.0 / math.pi,
}


@dataclass(frozen=True, eq=False, kw_only=True)
class KernelRows(WeightedRows):
    """Logged rows whose weight is 1 / π0, to be multiplied by a kernel.

    Parameters
    ----------
    action : (n,), the logged actions.
    gap : (draws, n), target actions minus logged ones.
    """

    action: FloatArray
    gap: FloatArray

    def take(self, index: IntArray) -> KernelRows:
        """Return some of the rows."""
        part = super().take(index)
        assert isinstance(part, KernelRows)  # noqa: S101  `replace` keeps the class
        return replace(part, action=self.action[index], gap=self.gap[:, index])


class KernelWeighted(TransformedWeights):
    """Base: a kernel around the target policy's action over the logged action's density.

        u_i = E_{τ ~ π1(.|x_i)} K((τ - a_i) / h) / (h π0(a_i|x_i))

    The expectation is one term for a deterministic target policy, else a mean over `DRAWS` draws.

    Parameters
    ----------
    kernel : K, of integral one.
    bandwidth : h in the unit of the actions, or a rule.
    """

    tuned: ClassVar[str] = "bandwidth"

    kernel: Kernel = "rbf"
    bandwidth: Annotated[float, Gt(0)] | Literal["silverman", "slope"] = "slope"

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Draw the target policy's actions in the logged contexts."""
        if view.n_actions is not None:
            msg = "it smooths over continuous actions; this environment's are discrete"
            raise UnavailableError(msg)
        super().fit(view, rng=rng, device=device)
        policy = view.target_policy
        draws = [policy.sample(view.context, rng) for _ in range(2)]
        if np.array_equal(draws[0], draws[1]):
            draws = draws[:1]
        else:
            draws += [policy.sample(view.context, rng) for _ in range(DRAWS - 2)]
        self.target_draws_ = np.stack(draws).astype(np.float64)
        return self

    def estimate(self, view: View) -> Estimate:
        """Return the estimate, its standard error and the kernel weights.

        Raises
        ------
        PositivityViolation : all kernel weights are zero and no reward model stands in.
        """
        rows = self._rows(view)
        answer = self._answer(rows)
        error = answer.standard_error
        diagnostics: dict[str, Diagnostic] = {
            "mean_weight": float(answer.used.mean()),
            **answer.diagnostics,
        }
        if not answer.used.any():
            width = answer.diagnostics["bandwidth"]
            msg = f"no logged action is within reach of a kernel of bandwidth {width:.3g}"
            if rows.baseline is None:
                raise PositivityViolation(msg, fallback=answer.value)
            # The spread of the model's averages says nothing of the model's error.
            diagnostics[STANDARD_ERROR_WITHHELD] = msg
            error = None
        return Estimate(
            answer.value,
            error,
            answer.used,
            diagnostics,
            terms=answer.centered_terms,
        )

    def _rows(self, view: View) -> WeightedRows:
        action = np.asarray(view.action, dtype=np.float64)
        propensity = self._propensity(view)
        return KernelRows(
            1.0 / propensity,
            propensity,
            view.reward,
            view.unit,
            action=action,
            gap=self.target_draws_ - action,
        )

    def _transform(self, rows: WeightedRows, parameter: float | FloatArray) -> FloatArray:
        assert isinstance(rows, KernelRows)  # noqa: S101  made by `_rows`
        shape = np.broadcast_shapes(np.shape(parameter), (rows.n,))
        total = np.zeros(shape)
        for gap in rows.gap:
            total += profile(self.kernel, np.square(gap / parameter))
        used: FloatArray = (
            rows.weight * total / (len(rows.gap) * INTEGRAL[self.kernel] * parameter)
        )
        return used

    def _candidates(self, rows: WeightedRows) -> FloatArray:
        assert isinstance(rows, KernelRows)  # noqa: S101  made by `_rows`
        # Narrow kernels first: they have the least bias.
        powers = np.array([2.0**-k for k in reversed(EXPONENTS)])
        return powers * (float(rows.action.std()) or 1.0)

    def _choice(self, rule: str, rows: WeightedRows, candidates: FloatArray) -> int:
        units = effective_units(self._transform(rows, candidates[:, None]), rows.unit)
        if (units < 2).all():
            return int(np.argmax(units > 0))
        estimate, error = self._evaluate(rows, candidates)
        # A kernel that reaches no row or one has a spread of 0, but not a narrow interval.
        width = np.where(units < 2, np.inf, NORMAL_QUANTILE * error)
        return slope(estimate, width, in_order=self.ladder is not None)

    def _by_formula(self, rows: WeightedRows) -> float:
        assert isinstance(rows, KernelRows)  # noqa: S101  made by `_rows`
        return silverman(rows.action[:, None])
