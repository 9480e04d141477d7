"""What all estimators share that learn a ratio of densities from samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from ope_bench.estimator import Estimator
from ope_bench.view import BatchedNuisance, View
from ope_estimators.density_ratio.calibration import Calibration
from ope_estimators.density_ratio.composition import Composition
from ope_estimators.density_ratio.ratio import Ratio, RatioModel
from ope_estimators.density_ratio.settings import ratio_model
from ope_estimators.flows.flow import FlowModel
from ope_estimators.nuisance.learners import devices, requires

__all__ = ["RatioBased"]


class RatioBased(Estimator):
    """An estimator with the parameters of a `RatioModel`; it needs samples only."""

    composition: Composition
    classifier: str
    classifier_params: Mapping[str, Any] | None
    cross_fit: int
    calibration: Calibration
    clip: float | None

    ratio_: Ratio

    @property
    def devices(self) -> tuple[str, ...]:
        """CUDA where something is trained there."""
        return ("cpu", "cuda") if self.flow_model() is not None else devices(self.classifier)

    @property
    def batched(self) -> tuple[BatchedNuisance[Any], ...]:
        """The flow, and then a classifier that is a network."""
        flow = self.flow_model()
        flows = () if flow is None else (flow,)
        return (*flows, self.ratio_model().scores) if self.classifier == "mlp" else flows

    @property
    def requires(self) -> tuple[str, ...]:
        """The classifier's modules, and the flow's."""
        flow = ("torch", "zuko") if self.flow_model() is not None else ()
        return (*requires(self.classifier), *flow)

    def flow_model(self) -> FlowModel | None:
        """The flow applied to the features first; none here."""
        return None

    def ratio_model(self) -> RatioModel:
        """The ratio to be fitted; equal settings share one fit."""
        return ratio_model(
            composition=self.composition,
            classifier=self.classifier,
            classifier_params=self.classifier_params,
            cross_fit=self.cross_fit,
            calibration=self.calibration,
            clip=self.clip,
            flow=self.flow_model(),
        )

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Learn the ratio, or find it learnt."""
        self.ratio_ = view.fitted(self.ratio_model())
        return self
