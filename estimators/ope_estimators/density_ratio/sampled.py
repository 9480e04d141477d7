"""Ratios that are fitted to both samples without a classifier, as a choice of estimators."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from ope_bench import Diagnostic, FloatArray, View
from ope_estimators.density_ratio.basis import standardize
from ope_estimators.density_ratio.entropy import EntropyWeights
from ope_estimators.density_ratio.judgement import ratio_diagnostics
from ope_estimators.density_ratio.kliep import KLIEPRatio
from ope_estimators.density_ratio.matching import EnergyWeights, KernelMeanWeights
from ope_estimators.density_ratio.ratio import LARGEST_LOG_RATIO, Ratio
from ope_estimators.density_ratio.riesz import LeastSquaresRatio
from ope_estimators.density_ratio.sample_weights import SampleWeights
from ope_estimators.features.composition import Composition, compose
from ope_estimators.flows.flow import FlowModel

__all__ = ["RatioName", "SampledRatioModel"]

SampledName = Literal["riesz", "rulsif", "kliep", "kmm", "entropy", "energy"]

RatioName = Literal["classifier", "riesz", "rulsif", "kliep", "kmm", "entropy", "energy"]
"""A classifier, or the weights of the estimator of that name with its default parameters."""


class Weigher(Protocol):
    """A shared fit of weights that can be given other features than embedding and context."""

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> SampleWeights:
        """Fit the weights on the standardized columns of embedding and context."""

    def weigh(
        self, view: View, logged: FloatArray, target: FloatArray, rng: np.random.Generator
    ) -> SampleWeights:
        """Fit the weights on given features, (n, d) and (m, d)."""


RULSIF_BETA = 0.1

WEIGHERS: dict[SampledName, Weigher] = {
    "riesz": LeastSquaresRatio("nystroem", None, 0.0),
    "rulsif": LeastSquaresRatio("nystroem", None, RULSIF_BETA),
    "kliep": KLIEPRatio(None),
    "kmm": KernelMeanWeights(1000.0),
    "entropy": EntropyWeights(1),
    "energy": EnergyWeights(),
}
"""The defaults of the estimators with these ids, which share the fits."""


@dataclass(frozen=True)
class SampledRatioModel:
    """A ratio of densities by one of `WEIGHERS`, on features as a classifier would be given.

    It is fitted on all rows: least squares and likelihoods choose their penalty on held-out rows,
    and weights that match means or distances exist at the logged rows alone. A negative weight,
    which no ratio of densities has, becomes the smallest one that the clip allows, or 0.

    Parameters
    ----------
    method : which weights.
    composition : how embedding and context become features; their columns are standardized.
    clip : the ratio is clipped to [1 / clip, clip]; None for no clip.
    flow : a normalizing flow that transforms the features first.
    """

    method: SampledName
    composition: Composition
    clip: float | None
    flow: FlowModel | None = None

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Ratio:
        """Fit the ratio at both samples' rows, or at the logged rows alone."""
        weigher = WEIGHERS[self.method]
        facts: dict[str, Diagnostic] = {}
        if self.flow is None and self.composition == "concat":
            fit: SampleWeights = view.fitted(weigher)
        else:
            if self.flow is None:
                pooled = compose(view, self.composition).pooled
            else:
                flow = view.fitted(self.flow)
                pooled, facts = flow.pooled, dict(flow.diagnostics)
            fit = weigher.weigh(view, *standardize(pooled, view.n), rng)
        most = 1.0 / RULSIF_BETA if self.method == "rulsif" else math.inf
        facts |= {"negative_share": float((fit.logged < 0).mean()), **fit.diagnostics}
        logged, share = self._log_ratio(fit.logged, most)
        facts["clipped_share"] = share
        if fit.target is None:
            return Ratio(logged, None, facts | {"mean_weight": float(np.exp(logged).mean())})
        target, _ = self._log_ratio(fit.target, most)
        label = np.repeat([0, 1], [len(logged), len(target)])
        judged = ratio_diagnostics(np.concatenate([logged, target]), label)
        return Ratio(logged, target, facts | judged)

    def _log_ratio(self, weights: FloatArray, most: float) -> tuple[FloatArray, float]:
        """Return the clipped logarithm, and the share of weights that the clip changes."""
        with np.errstate(divide="ignore"):
            raw = np.log(np.clip(weights, 0.0, most))
        bound = LARGEST_LOG_RATIO if self.clip is None else math.log(self.clip)
        return np.clip(raw, -bound, bound), float((np.abs(raw) > bound).mean())
