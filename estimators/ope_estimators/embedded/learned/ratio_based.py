"""What all estimators share that learn a ratio of densities from samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from ope_bench import BatchedNuisance, Estimator, Nuisance, View
from ope_estimators.density_ratio.calibration import Calibration
from ope_estimators.density_ratio.ratio import Ratio, RatioModel
from ope_estimators.density_ratio.sampled import RatioName, SampledRatioModel
from ope_estimators.density_ratio.settings import Clip, Folds, ratio_model
from ope_estimators.features.composition import Composition
from ope_estimators.flows.flow import FlowModel
from ope_estimators.learning.learners import ClassifierName, devices, requires

__all__ = ["RatioBased"]


class RatioBased(Estimator):
    """An estimator with the parameters of a `RatioModel`; it needs samples only.

    ``ratio`` other than ``classifier`` is a `SampledRatioModel`, for which classifier, folds and
    calibration say nothing.
    """

    added_parameters: ClassVar[Mapping[str, Any]] = {"ratio": "classifier"}

    composition: Composition = "concat"
    classifier: ClassifierName = "hist-gbm"
    classifier_params: dict[str, Any] | None = None
    cross_fit: Folds = 5
    calibration: Calibration = "temperature"
    clip: Clip = 1e3
    ratio: RatioName = "classifier"

    @property
    def devices(self) -> tuple[str, ...]:
        """CUDA where something is trained there."""
        if self.flow_model() is not None:
            return ("cpu", "cuda")
        return devices(self.classifier) if self.ratio == "classifier" else ("cpu",)

    @property
    def batched(self) -> tuple[BatchedNuisance[Any], ...]:
        """The flow, and then a classifier that is a network."""
        flow = self.flow_model()
        flows = () if flow is None else (flow,)
        network = self.ratio == "classifier" and self.classifier == "mlp"
        return (*flows, self.ratio_model().scores) if network else flows

    @property
    def requires(self) -> tuple[str, ...]:
        """The classifier's modules, the flow's, and that which judges the ratio."""
        flow = ("torch", "zuko") if self.flow_model() is not None else ()
        classifier = requires(self.classifier) if self.ratio == "classifier" else ()
        return (*classifier, *flow, "sklearn.metrics")

    def flow_model(self) -> FlowModel | None:
        """Return the flow applied to the features first; none here."""
        return None

    def ratio_model(self) -> RatioModel:
        """Return the ratio by classification; equal settings share one fit."""
        return ratio_model(
            composition=self.composition,
            classifier=self.classifier,
            classifier_params=self.classifier_params,
            cross_fit=self.cross_fit,
            calibration=self.calibration,
            clip=self.clip,
            flow=self.flow_model(),
        )

    def chosen_ratio(self) -> Nuisance[Ratio]:
        """Return the ratio to be fitted, by the method that ``ratio`` names."""
        if self.ratio == "classifier":
            return self.ratio_model()
        return SampledRatioModel(self.ratio, self.composition, self.clip, self.flow_model())

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Learn the ratio, or find it learned."""
        self.ratio_ = view.fitted(self.chosen_ratio())
        return self
