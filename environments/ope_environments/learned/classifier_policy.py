"""Policies from classifiers: probabilities with a temperature, mixed with exploration."""

from __future__ import annotations

from typing import Any

import numpy as np

from ope_bench import DiscretePolicy, FloatArray

__all__ = ["ClassifierPolicy"]

ROUNDING = 1e-12
"""Added to a classifier's probabilities before tempering, because trees return exact zeros."""


class ClassifierPolicy(DiscretePolicy):
    """(1 - epsilon) p(a|x)**(1/temperature) / Z(x) + epsilon / n_actions.

    With ``softmax`` = T the first part is exp(T p(a|x)) / Z(x) instead.

    Parameters
    ----------
    model : a fitted classifier with ``predict_proba`` and ``classes_``.
    n_actions : number of labels; the classifier may know fewer.
    temperature : 1 keeps the classifier's probabilities, 0 takes its best label.
    epsilon : share of uniform exploration.
    softmax : multiplies the probabilities in a softmax; None for the tempered form.
    """

    def __init__(
        self,
        model: Any,
        n_actions: int,
        temperature: float,
        epsilon: float,
        softmax: float | None = None,
    ) -> None:
        super().__init__(n_actions)
        self.model = model
        self.temperature = temperature
        self.epsilon = epsilon
        self.softmax = softmax
        # exp(-T) underflows from about 745 on.
        self.full_support = epsilon > 0 or (softmax is not None and abs(softmax) < 700)

    def table(self, context: FloatArray) -> FloatArray:
        """Return (k, n_actions); at temperature 0, ties go to the first label."""
        known = np.zeros((len(context), self.n_actions))
        known[:, self.model.classes_] = self.model.predict_proba(context)
        if self.softmax is not None:
            chosen = _normalized(self.softmax * known)
        elif self.temperature == 0:
            chosen = np.zeros_like(known)
            chosen[np.arange(len(known)), known.argmax(axis=1)] = 1.0
        else:
            chosen = _normalized(np.log(known + ROUNDING) / self.temperature)
        table: FloatArray = (1.0 - self.epsilon) * chosen + self.epsilon / self.n_actions
        return table


def _normalized(logits: FloatArray) -> FloatArray:
    """Normalize exp(logits) in each row."""
    chosen: FloatArray = np.exp(logits - logits.max(axis=1, keepdims=True))
    chosen /= chosen.sum(axis=1, keepdims=True)
    return chosen
