"""The density ratio as the paper codes it."""

from __future__ import annotations

from ope_bench import params
from ope_estimators.density_ratio.calibration import Calibration
from ope_estimators.density_ratio.settings import Clip, Folds
from ope_estimators.embedded.learned.ratio_based import RatioBased
from ope_estimators.features.composition import Composition
from ope_estimators.learning.learners import ClassifierName

__all__ = ["PaperDefaults"]


@params
class PaperDefaults(RatioBased):
    """Base of the paper's forms, before the estimator: its defaults of the ratio's parameters."""

    composition: Composition = "tensor"
    classifier: ClassifierName = "gbm"
    cross_fit: Folds = 0
    calibration: Calibration = "none"
    clip: Clip = None
