"""Log-odds of a fitted classifier, by the methods that it has."""

from __future__ import annotations

from typing import Any

import numpy as np

from ope_bench import FloatArray

__all__ = ["log_odds"]


def log_odds(model: Any, features: FloatArray) -> FloatArray:
    """Return log P(1|x) / P(0|x), from the model's margin if it has one: (k,).

    eta / (1 - eta) loses digits to rounding where eta is near one; a margin does not. Models with
    probabilities only (forests whose trees all agree) give infinities, which a clip must bound.
    """
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(features), dtype=np.float64)
    if hasattr(model, "get_booster"):
        margin = model.predict(features, output_margin=True)
        return np.asarray(margin, dtype=np.float64)
    probability = np.asarray(model.predict_proba(features), dtype=np.float64)
    with np.errstate(divide="ignore"):
        odds: FloatArray = np.log(probability[:, 1]) - np.log(probability[:, 0])
    return odds
