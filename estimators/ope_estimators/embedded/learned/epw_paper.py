"""Embedding permutation weighting as the paper codes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ope_bench import params
from ope_estimators.embedded.learned.epw import EPW
from ope_estimators.embedded.learned.paper_defaults import PaperDefaults

__all__ = ["EPWPaper"]


@params
class EPWPaper(PaperDefaults, EPW):
    """`EPW` with the tensor composition and one gradient boosting that weighs its own rows.

        V̂ = (1/n) sum_i ŵ(G_i ⊗ C_i) r_i

    What differs from `EPW`: features G⊗C, which are zero wherever C is; weights of the rows that
    the classifier was fitted on, hence too extreme; no clip.

    Assumptions: as `EPW`, and a ratio that depends on G⊗C alone.
    Fails when: as `EPW`; a context of 0 carries mass.

    Parameters
    ----------
    composition, classifier, classifier_params, cross_fit, calibration, clip, ratio : as `EPW`.

    References
    ----------
    Off-Policy Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022), sections 4.2
    and 4.3, and appendix B.
    """

    check_params: ClassVar[Mapping[str, Any]] = {"classifier_params": {"n_estimators": 20}}

    expected_failures: ClassVar[Mapping[str, str]] = {
        "check_identical_policies_give_the_logging_average": (
            "in-sample weights without normalization: the classifier tells equal samples apart"
        ),
    }
