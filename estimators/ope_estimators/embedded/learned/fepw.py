"""Featurized embedding permutation weighting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ope_estimators.embedded.learned.epw import EPW
from ope_estimators.flows.families import FlowName
from ope_estimators.flows.flow import FlowModel, FlowOptions, flow_model

__all__ = ["FEPW"]


class FEPW(EPW):
    """`EPW` with its features passed through a normalizing flow first.

        V̂ = (1/n) sum_i ŵ(n(G_i, C_i)) r_i

    The flow n is fitted to logged and target features together and makes them standard normal,
    which brings samples that lie apart closer to each other; an invertible map leaves the true
    ratio as it is (lemma 1 of the second reference). What the classifier makes of it depends on
    the classifier: trees are indifferent to maps of single columns, and the first column of a
    masked autoregressive flow is one.

    Assumptions: as `EPW`; the flow is invertible on the data, which repeated values strain.
    Fails when: as `EPW`; with too few rows for the flow it bends the features at random.

    Parameters
    ----------
    composition, classifier, classifier_params, cross_fit, calibration, clip, ratio : as `EPW`.
    flow : ``maf``, ``nsf``, ``realnvp``, ``nice``, ``naf``, ``sospf``, ``bpf``, ``gf`` or
        ``maf-norm``.
    flow_params : options of `FlowModel` by name: ``epochs``, ``hidden``, ``dequantise``,
        ``conditional`` and so on.

    Raises
    ------
    ParameterError : calibration without folds; a conditional flow of a tensor composition.
    UnavailableError : a flow that couples columns, on a single column.

    References
    ----------
    Off-Policy Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022), section 3.3.
    Featurized Density Ratio Estimation (Choi, Liao and Ermon, 2021).
    """

    check_params: ClassVar[Mapping[str, Any]] = {"flow_params": {"epochs": 2}}

    flow: FlowName = "maf"
    flow_params: FlowOptions | None = None

    def flow_model(self) -> FlowModel:
        """Return the flow that features pass through first."""
        return flow_model(self.flow, self.composition, self.flow_params)
