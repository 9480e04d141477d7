"""Self-normalized featurized embedding permutation weighting as printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ope_estimators.density_ratio.kernels import Kernel
from ope_estimators.embedded.learned.fepws import FEPWS
from ope_estimators.embedded.learned.paper_defaults import PaperDefaults
from ope_estimators.features.composition import Composition

__all__ = ["FEPWSPaper"]


class FEPWSPaper(PaperDefaults, FEPWS):
    """`FEPWS` with the pair kernel, the tensor composition and an in-sample gradient boosting.

        V̂ = sum_i ŵ_i K((G'_i - G_i) / h) r_i / sum_i ŵ_i K((G'_i - G_i) / h)

    ŵ_i = ŵ(n(G_i ⊗ C_i)). What differs from `FEPWS`: the kernel, which makes the limit wrong for
    every finite h, as in `EPWSPaper`, and compares embeddings, not their images; features G⊗C;
    weights of the rows that the classifier was fitted on; no clip.

    Assumptions: as `FEPWS`, both samples sharing their contexts; none of them mends the limit.
    Fails when: always, by a bias that does not go away; more when the kernel is narrow.

    Parameters
    ----------
    composition, classifier, classifier_params, cross_fit, calibration, clip, ratio : as `EPW`.
    kernel, kernel_form, bandwidth, target_draws : as `EPWS`.
    flow, flow_params : as `FEPW`.

    References
    ----------
    Off-Policy Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022), section 3.3,
    the equation of FEPWS, and appendix B.
    """

    check_params: ClassVar[Mapping[str, Any]] = {
        "classifier_params": {"n_estimators": 20},
        "flow_params": {"epochs": 2},
    }

    composition: Composition = "tensor"
    kernel: Kernel | None = "rbf"
