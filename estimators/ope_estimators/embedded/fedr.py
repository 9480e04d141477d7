"""The embedded doubly robust estimator with a normalizing flow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ope_estimators.density_ratio.calibration import Calibration
from ope_estimators.density_ratio.composition import Composition
from ope_estimators.density_ratio.settings import Clip, Folds
from ope_estimators.embedded.edr import EDR
from ope_estimators.flows.families import FlowName
from ope_estimators.flows.flow import FlowModel, FlowOptions, flow_model
from ope_estimators.nuisance.learners import ClassifierName, RegressorName

__all__ = ["FEDR"]


class FEDR(EDR):
    """`EDR` with the ratio's features passed through a normalizing flow first.

        V̂ = (1/m) sum_j q̂(C'_j, G'_j) + sum_i ŵ_i (r_i - q̂(C_i, G_i)) / sum_i ŵ_i

    ŵ_i = ŵ(n(G_i, C_i)) as in `FEPW`; the reward model sees the embedding and context themselves.

    Assumptions: as `EDR` and `FEPW`.
    Fails when: as `EDR`.

    Parameters
    ----------
    composition, classifier, classifier_params, cross_fit, calibration, clip : as `EDR`.
    regressor, regressor_params, self_normalized : as `EDR`.
    flow, flow_params : as `FEPW`.

    References
    ----------
    Doubly robust policy evaluation and optimization (Dudik, Erhan, Langford and Li, 2014).
    Featurized Density Ratio Estimation (Choi, Liao and Ermon, 2021).
    """

    check_params: ClassVar[Mapping[str, Any]] = {
        "regressor_params": {"n_estimators": 20},
        "flow_params": {"epochs": 2},
    }

    def __init__(
        self,
        composition: Composition = "concat",
        classifier: ClassifierName = "hist-gbm",
        classifier_params: dict[str, Any] | None = None,
        cross_fit: Folds = 5,
        calibration: Calibration = "temperature",
        clip: Clip = 1e3,
        regressor: RegressorName = "gbm",
        regressor_params: Mapping[str, Any] | None = None,
        self_normalized: bool = True,
        flow: FlowName = "maf",
        flow_params: FlowOptions | None = None,
    ) -> None:
        super().__init__(
            composition,
            classifier,
            classifier_params,
            cross_fit,
            calibration,
            clip,
            regressor,
            regressor_params,
            self_normalized,
        )
        self.flow = flow
        self.flow_params = flow_params

    def flow_model(self) -> FlowModel:
        """The flow that features pass through first."""
        return flow_model(self.flow, self.composition, self.flow_params)
