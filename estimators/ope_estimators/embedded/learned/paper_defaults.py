"""The density ratio as the paper codes it."""

from __future__ import annotations

from ope_estimators.density_ratio.calibration import Calibration
from ope_estimators.density_ratio.settings import Clip, Folds
from ope_estimators.embedded.learned.ratio_based import RatioBased
from ope_estimators.learning.learners import ClassifierName

__all__ = ["PaperDefaults"]


class PaperDefaults(RatioBased):
    """Base of the paper's forms, before the estimator: its defaults of the ratio's parameters.

    The composition is that of each form: section 3.2 of the paper fits the classifier on (G, C),
    and the tensor product G⊗C belongs to section 3.3, the forms with a flow.
    """

    classifier: ClassifierName = "gbm"
    cross_fit: Folds = 0
    calibration: Calibration = "none"
    clip: Clip = None
