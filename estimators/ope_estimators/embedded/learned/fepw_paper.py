"""Featurized embedding permutation weighting as the paper codes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ope_estimators.embedded.learned.fepw import FEPW
from ope_estimators.embedded.learned.paper_defaults import PaperDefaults
from ope_estimators.features.composition import Composition

__all__ = ["FEPWPaper"]


class FEPWPaper(PaperDefaults, FEPW):
    """`FEPW` with the tensor composition and one gradient boosting that weighs its own rows.

        V̂ = (1/n) sum_i ŵ(n(G_i ⊗ C_i)) r_i

    What differs from `FEPW`: features G⊗C, which are zero wherever C is and have no density;
    weights of the rows that the classifier was fitted on, hence too extreme; no clip. Of the two
    readings of the printed text, the classifier gets n(G⊗C), not G⊗C.

    Assumptions: as `FEPW`, and a ratio that depends on G⊗C alone.
    Fails when: as `FEPW`; a context of 0 carries mass.

    Parameters
    ----------
    composition, classifier, classifier_params, cross_fit, calibration, clip, ratio : as `EPW`.
    flow, flow_params : as `FEPW`.

    References
    ----------
    Off-Policy Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022), section 3.3
    and appendix B.
    """

    check_params: ClassVar[Mapping[str, Any]] = {
        "classifier_params": {"n_estimators": 20},
        "flow_params": {"epochs": 2},
    }

    expected_failures: ClassVar[Mapping[str, str]] = {
        "check_identical_policies_give_the_logging_average": (
            "in-sample weights without normalization: the classifier tells equal samples apart"
        ),
    }

    composition: Composition = "tensor"
