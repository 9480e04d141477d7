"""Embedding permutation weighting as the paper prints it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ope_estimators.embedded.learned.epw import EPW
from ope_estimators.embedded.learned.paper_defaults import PaperDefaults

__all__ = ["EPWPaper"]


class EPWPaper(PaperDefaults, EPW):
    """`EPW` with one gradient boosting that weighs its own rows.

        V̂ = (1/n) sum_i ŵ(G_i, C_i) r_i

    What differs from `EPW`: weights of the rows that the classifier was fitted on, hence too
    extreme; no calibration; no clip. The factor n_0 / n_1 of `EPW`, which is 1 for samples of one
    size, is not printed.

    Assumptions: as `EPW`.
    Fails when: as `EPW`; the classifier tells its own rows apart where the samples are alike.

    Parameters
    ----------
    composition, classifier, classifier_params, cross_fit, calibration, clip, ratio : as `EPW`.

    References
    ----------
    Off-Policy Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022), section 3.2
    and appendix B.
    """

    check_params: ClassVar[Mapping[str, Any]] = {"classifier_params": {"n_estimators": 20}}

    expected_failures: ClassVar[Mapping[str, str]] = {
        "check_identical_policies_give_the_logging_average": (
            "in-sample weights without normalization: the classifier tells equal samples apart"
        ),
    }
