"""Self-normalized embedding permutation weighting."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Ge

from ope_bench import BatchedNuisance, Diagnostic, Estimate, PositivityViolation, View
from ope_estimators.actions.weighting.weighted_mean import self_normalized_mean
from ope_estimators.density_ratio.kernels import Bandwidth, Kernel, bandwidth_of
from ope_estimators.density_ratio.pairing import pair_kernel, paired_rows
from ope_estimators.density_ratio.smoothed import smoothed_ratio
from ope_estimators.embedded.learned.ratio_based import RatioBased
from ope_estimators.features.composition import encode

__all__ = ["EPWS"]


class EPWS(RatioBased):
    """Logged rewards averaged with learned weights that sum to one.

        V̂ = sum_i ŵ_i r_i / sum_i ŵ_i,   ŵ_i = ŵ(G_i, C_i) as in `EPW`

    With a ``printed`` kernel every ŵ_i is multiplied by K((G'_i - G_i) / h), G'_i a draw of the
    target policy's embedding for the same context. That re-weights a second time, toward the
    target policy: ŵ has moved the logs there already. The limit, for whatever h, is
    E ∫ π1 (K_h * π1) q dg / E ∫ π1 (K_h * π1) dg instead of E ∫ π1 q dg; it is right only for a
    constant kernel, h → ∞. With an ``ek-is`` kernel, ŵ_i is the ratio of both policies' smoothed
    densities and no classifier is fitted: its bias goes with h.

    Assumptions: as `EPW`. Self-normalization forgives a ratio that is off by a factor.
    Fails when: as `EPW`; with a kernel, when no target embedding is within reach of a logged one
    (PositivityViolation, with the estimate without kernel as its fallback).

    Parameters
    ----------
    composition, classifier, classifier_params, cross_fit, calibration, clip, ratio : as `EPW`.
    kernel : ``rbf``, ``epanechnikov``, ``triangular``, ``cosine``, or None for the ratio alone.
    kernel_form : ``printed`` or ``ek-is``.
    bandwidth : ``median`` of the distances that are not zero, ``silverman``, or a number.
    target_draws : target embeddings averaged over in the printed kernel: 1 pairs row i with row
        i; more take the target rows of the nearest contexts.

    Raises
    ------
    PositivityViolation : all weights times kernels vanish.
    UnavailableError : the printed kernel with one draw on samples of different sizes.

    References
    ----------
    Off-Policy Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022), section 3.2.

    >>> from ope_bench import evaluate
    >>> record = evaluate(EPWS(cross_fit=2), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 0.4
    True
    """

    kernel: Kernel | None = None
    kernel_form: Literal["printed", "ek-is"] = "printed"
    bandwidth: Bandwidth = "median"
    target_draws: Annotated[int, Ge(1)] = 1

    @property
    def batched(self) -> tuple[BatchedNuisance[Any], ...]:
        """Return the same as `RatioBased`; nothing where smoothed densities need no classifier."""
        smoothed = self.kernel is not None and self.kernel_form == "ek-is"
        return () if smoothed else super().batched

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Learn the ratio and, for a printed kernel, choose the rows that are paired."""
        if self.kernel is not None and self.kernel_form == "ek-is":
            self.ratio_ = smoothed_ratio(view, self.kernel, self.bandwidth)
            return self
        if self.kernel is not None:
            self.partners_ = paired_rows(view, self.target_draws, rng)
        return super().fit(view, rng=rng, device=device)

    def estimate(self, view: View) -> Estimate:
        """Return the self-normalized mean."""
        if self.kernel is not None and self.kernel_form == "printed":
            return self._paired(view, self.kernel)
        ratio = self.ratio_
        value = self_normalized_mean(ratio.weights, view.reward)
        return Estimate(
            value,
            weights=ratio.weights,
            diagnostics=ratio.diagnostics,
            target_weights=ratio.target_weights,
            weight_space="embedding",
        )

    def _paired(self, view: View, kernel: Kernel) -> Estimate:
        """Estimate with the printed kernel, whose products estimate no ratio of densities."""
        columns = view.schema.embedding
        logged, target = encode(view.embedding, columns), encode(view.target_embedding, columns)
        width = bandwidth_of(self.bandwidth, np.concatenate([logged, target]))
        closeness = pair_kernel(kernel, width, logged, target, self.partners_)
        ratio = self.ratio_
        weights = ratio.weights * closeness
        if not weights.any():
            fallback = self_normalized_mean(ratio.weights, view.reward)
            msg = (
                f"the kernel is 0 for all {view.n} pairs of logged and target embeddings at "
                f"bandwidth {width:.3g}; widen it, or set kernel to null"
            )
            raise PositivityViolation(msg, fallback=fallback)
        value = self_normalized_mean(weights, view.reward)
        facts: dict[str, Diagnostic] = {"bandwidth": width, "mean_kernel": float(closeness.mean())}
        return Estimate(value, weights=weights, diagnostics=ratio.diagnostics | facts)
