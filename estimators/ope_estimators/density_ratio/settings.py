"""Build the ratio model from the parameters of an estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from annotated_types import Ge, Gt

from ope_estimators.density_ratio.calibration import Calibration
from ope_estimators.density_ratio.ratio import RatioModel
from ope_estimators.density_ratio.scores import ScoreModel
from ope_estimators.features.composition import Composition
from ope_estimators.flows.flow import FlowModel
from ope_estimators.learning.learners import frozen

__all__ = ["Clip", "Folds", "ratio_model"]

Folds = Annotated[int, Ge(0)]
"""Number of folds by unit; up to 1, in-sample."""

Clip = Annotated[float, Gt(1)] | None
"""The ratio is clipped to [1 / clip, clip]."""


def ratio_model(
    *,
    composition: Composition,
    classifier: str,
    classifier_params: Mapping[str, Any] | None,
    cross_fit: int,
    calibration: Calibration,
    clip: float | None,
    flow: FlowModel | None = None,
) -> RatioModel:
    """Return the shared fit; estimators with equal settings share it.

    >>> a, b = (
    ...     ratio_model(composition="concat", classifier="logistic", classifier_params=None,
    ...                 cross_fit=in_sample, calibration="none", clip=None)
    ...     for in_sample in (0, 1)
    ... )
    >>> a == b
    True
    """
    scores = ScoreModel(
        composition=composition,
        classifier=classifier,
        classifier_params=frozen(classifier_params),
        # 0 and 1 both mean in-sample: one fit, not two.
        cross_fit=max(1, cross_fit),
        flow=flow,
    )
    return RatioModel(scores, calibration, clip)
