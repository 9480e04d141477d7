"""Policies made of classifiers: temper their probabilities, mix with exploration."""

from __future__ import annotations

from typing import Any

import numpy as np

from ope_bench.arrays import FloatArray
from ope_bench.policies import DiscretePolicy

__all__ = ["ClassifierPolicy"]

ROUNDING = 1e-12
"""Added to a classifier's probabilities before they are tempered: trees say exactly 0."""


class ClassifierPolicy(DiscretePolicy):
    """(1 - epsilon) p(a|x)**(1/temperature) / Z(x) + epsilon / n_actions.

    Parameters
    ----------
    model : a fitted classifier with ``predict_proba`` and ``classes_``.
    n_actions : number of labels; the classifier may have met fewer.
    temperature : 1 keeps the classifier's probabilities, 0 takes its best label.
    epsilon : share of uniform exploration.
    """

    def __init__(self, model: Any, n_actions: int, temperature: float, epsilon: float) -> None:
        super().__init__(n_actions)
        self.model = model
        self.temperature = temperature
        self.epsilon = epsilon
        self.full_support = epsilon > 0

    def table(self, context: FloatArray) -> FloatArray:
        """(k, n_actions); of labels with equal probability the first wins at temperature 0."""
        known = np.zeros((len(context), self.n_actions))
        known[:, self.model.classes_] = self.model.predict_proba(context)
        if self.temperature == 0:
            chosen = np.zeros_like(known)
            chosen[np.arange(len(known)), known.argmax(axis=1)] = 1.0
        else:
            logits = np.log(known + ROUNDING) / self.temperature
            chosen = np.exp(logits - logits.max(axis=1, keepdims=True))
            chosen /= chosen.sum(axis=1, keepdims=True)
        table: FloatArray = (1.0 - self.epsilon) * chosen + self.epsilon / self.n_actions
        return table
