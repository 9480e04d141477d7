"""The common parts of estimators that fit a classifier of actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ope_bench import Estimator
from ope_estimators.learning import learners

__all__ = ["ClassifierBased"]


class ClassifierBased(Estimator):
    """Base of estimators with the parameters ``classifier`` and ``classifier_params``."""

    classifier: learners.ActionClassifierName = "logistic"
    classifier_params: Mapping[str, Any] | None = None

    @property
    def requires(self) -> tuple[str, ...]:
        """Modules of the classifier."""
        return learners.requires(self.classifier)

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of the classifier."""
        return learners.devices(self.classifier)
