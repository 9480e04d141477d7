"""Log-odds of a fitted classifier, whichever method it offers them by."""

from __future__ import annotations

from typing import Any

import numpy as np

from ope_bench.arrays import FloatArray

__all__ = ["log_odds"]


def log_odds(model: Any, features: FloatArray) -> FloatArray:
    """log P(1|x) / P(0|x), from the model's own margin where it has one: (k,).

    A margin keeps what eta / (1 - eta) loses to rounding once eta is near one. Models with
    probabilities only (forests vote 0 or 1 outright) give infinities, which a clip must bound.
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
