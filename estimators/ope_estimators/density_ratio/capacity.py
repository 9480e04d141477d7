"""Default classifier sizes for ratios: held-out odds need less capacity than class labels."""

from __future__ import annotations

from typing import Any

__all__ = ["default_params"]


def default_params(classifier: str, rows: int) -> dict[str, Any]:
    """Return default parameters of a classifier of two samples.

    Boosting grows with the sample: libraries' defaults overfit the odds of a thousand rows (labels
    are predicted as well by weights ten times too large), and any fixed size stops improving with
    more rows. Other learners keep their library's defaults, also the paper's gradient boosting.

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
