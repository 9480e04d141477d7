"""Classifier sizes that suit ratios: held-out odds need less capacity than class labels do."""

from __future__ import annotations

from typing import Any

__all__ = ["default_params"]


def default_params(classifier: str, rows: int) -> dict[str, Any]:
    """Parameters that a classifier of two samples gets unless told otherwise.

    Boosting grows with the sample: libraries' own defaults overfit the odds of a thousand rows
    (weights ten times too large are as good as right ones to a label), and any fixed size stops
    improving with more rows. Other learners keep their library's defaults, the paper's gradient
    boosting among them.

    Parameters
    ----------
    classifier : name or import path.
    rows : pooled rows, logged and target.

    >>> default_params("hist-gbm", 2_000)
    {'max_iter': 50, 'max_leaf_nodes': 16, 'min_samples_leaf': 40, 'l2_regularization': 5.0}
    """
    rounds = round(50 * max(1.0, rows / 2_000) ** (1 / 3))
    if classifier == "hist-gbm":
        leaves = min(31, max(8, rows // 125))
        return {
            "max_iter": rounds,
            "max_leaf_nodes": leaves,
            "min_samples_leaf": 40,
            "l2_regularization": 5.0,
        }
    if classifier == "xgboost":
        depth = 4 if rows <= 4_000 else 5
        return {
            "n_estimators": rounds,
            "max_depth": depth,
            "learning_rate": 0.1,
            "min_child_weight": 10,
        }
    if classifier == "logistic":
        return {"degree": 2}
    return {}
