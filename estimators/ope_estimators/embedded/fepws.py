"""Self-normalised featurized embedding permutation weighting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge

from ope_estimators.density_ratio.calibration import Calibration
from ope_estimators.density_ratio.composition import Composition
from ope_estimators.density_ratio.kernels import Bandwidth, Kernel
from ope_estimators.density_ratio.settings import Clip, Folds
from ope_estimators.embedded.epws import EPWS
from ope_estimators.flows.families import FlowName
from ope_estimators.flows.flow import FlowModel, FlowOptions, flow_model
from ope_estimators.nuisance.learners import ClassifierName

__all__ = ["FEPWS"]


class FEPWS(EPWS):
    """`EPWS` with its features passed through a normalizing flow first.

        V̂ = sum_i ŵ_i r_i / sum_i ŵ_i,   ŵ_i = ŵ(n(G_i, C_i)) as in `FEPW`

    A kernel, where one is asked for, compares the embeddings themselves, not their images.

    Assumptions: as `FEPW`.
    Fails when: as `FEPW`; with a kernel, as `EPWS`.

    Parameters
    ----------
    composition, classifier, classifier_params, cross_fit, calibration, clip : as `EPW`.
    kernel, kernel_form, bandwidth, target_draws : as `EPWS`.
    flow, flow_params : as `FEPW`.

    References
    ----------
    Off-Policy Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022), section 4.3.
    """

    check_params: ClassVar[Mapping[str, Any]] = {"flow_params": {"epochs": 2}}

    def __init__(
        self,
        composition: Composition = "concat",
        classifier: ClassifierName = "hist-gbm",
        classifier_params: dict[str, Any] | None = None,
        cross_fit: Folds = 5,
        calibration: Calibration = "temperature",
        clip: Clip = 1e3,
        kernel: Kernel | None = None,
        kernel_form: Literal["printed", "ek-is"] = "printed",
        bandwidth: Bandwidth = "median",
        target_draws: Annotated[int, Ge(1)] = 1,
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
            kernel,
            kernel_form,
            bandwidth,
            target_draws,
        )
        self.flow = flow
        self.flow_params = flow_params

    def flow_model(self) -> FlowModel:
        """The flow that features pass through first."""
        return flow_model(self.flow, self.composition, self.flow_params)
