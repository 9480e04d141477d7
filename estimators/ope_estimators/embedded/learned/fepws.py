"""Self-normalized featurized embedding permutation weighting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ope_estimators.embedded.learned.epws import EPWS
from ope_estimators.flows.families import FlowName
from ope_estimators.flows.flow import FlowModel, FlowOptions, flow_model

__all__ = ["FEPWS"]


class FEPWS(EPWS):
    """`EPWS` with its features passed through a normalizing flow first.

        V̂ = sum_i ŵ_i r_i / sum_i ŵ_i,   ŵ_i = ŵ(n(G_i, C_i)) as in `FEPW`

    A kernel, where one is asked for, compares the embeddings themselves, not their images.

    Assumptions: as `FEPW`.
    Fails when: as `FEPW`; with a kernel, as `EPWS`.

    Parameters
    ----------
    composition, classifier, classifier_params, cross_fit, calibration, clip, ratio : as `EPW`.
    kernel, kernel_form, bandwidth, target_draws : as `EPWS`.
    flow, flow_params : as `FEPW`.

    References
    ----------
    Off-Policy Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022), section 3.3.
    """

    check_params: ClassVar[Mapping[str, Any]] = {"flow_params": {"epochs": 2}}

    flow: FlowName = "maf"
    flow_params: FlowOptions | None = None

    def flow_model(self) -> FlowModel:
        """Return the flow that features pass through first."""
        return flow_model(self.flow, self.composition, self.flow_params)
