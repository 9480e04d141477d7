"""Self-normalized embedding permutation weighting as the paper prints it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ope_estimators.density_ratio.kernels import Kernel
from ope_estimators.embedded.learned.epws import EPWS
from ope_estimators.embedded.learned.paper_defaults import PaperDefaults

__all__ = ["EPWSPaper"]


class EPWSPaper(PaperDefaults, EPWS):
    """`EPWS` with the pair kernel and an in-sample gradient boosting.

        V̂ = sum_i ŵ_i K((G'_i - G_i) / h) r_i / sum_i ŵ_i K((G'_i - G_i) / h)

    ŵ_i = ŵ(G_i, C_i). What differs from `EPWS`: the kernel, which makes the limit wrong for every
    finite h; weights of the rows that the classifier was fitted on; no calibration; no clip. The
    bandwidth is the median of the pooled embeddings' distances that are not zero.

    Assumptions: as `EPWS`, both samples sharing their contexts; none of them mends the limit.
    Fails when: always, by a bias that does not go away; more when the kernel is narrow.

    Parameters
    ----------
    composition, classifier, classifier_params, cross_fit, calibration, clip, ratio : as `EPW`.
    kernel, kernel_form, bandwidth, target_draws : as `EPWS`.

    References
    ----------
    Off-Policy Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022), section 3.2,
    the equation of EPWS, and appendix B.

    >>> from ope_bench import evaluate
    >>> record = evaluate(EPWSPaper(classifier="logistic"), "saito-toy", replicates=1)[0]
    >>> 0 < record.diagnostics["mean_kernel"] < 1
    True
    """

    check_params: ClassVar[Mapping[str, Any]] = {"classifier_params": {"n_estimators": 20}}

    kernel: Kernel | None = "rbf"
