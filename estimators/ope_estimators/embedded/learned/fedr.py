"""The embedded doubly robust estimator with a normalizing flow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ope_estimators.embedded.learned.edr import EDR
from ope_estimators.flows.families import FlowName
from ope_estimators.flows.flow import FlowModel, FlowOptions, flow_model

__all__ = ["FEDR"]


class FEDR(EDR):
    """`EDR` with the ratio's features passed through a normalizing flow first.

        V̂ = (1/m) sum_j q̂(C'_j, G'_j) + sum_i ŵ_i (r_i - q̂(C_i, G_i)) / sum_i ŵ_i

    ŵ_i = ŵ(n(G_i, C_i)) as in `FEPW`; the reward model sees the embedding and context themselves.

    Assumptions: as `EDR` and `FEPW`.
    Fails when: as `EDR`.

    Parameters
    ----------
    composition, classifier, classifier_params, cross_fit, calibration, clip, ratio : as `EDR`.
    regressor, regressor_params, self_normalized : as `EDR`.
    flow, flow_params : as `FEPW`.
    interval : ``bootstrap``, an interval beside the standard error, with all models fitted anew on
        each resample of units; ``asymptotic``, none.
    level : of the bootstrap interval.
    resamples : number of bootstrap samples.

    References
    ----------
    Doubly robust policy evaluation and optimization (Dudik, Erhan, Langford and Li, 2014).
    Featurized Density Ratio Estimation (Choi, Liao and Ermon, 2021).
    """

    check_params: ClassVar[Mapping[str, Any]] = {"flow_params": {"epochs": 2}}

    flow: FlowName = "maf"
    flow_params: FlowOptions | None = None

    def flow_model(self) -> FlowModel:
        """Return the flow that features pass through first."""
        return flow_model(self.flow, self.composition, self.flow_params)
