"""The columns that models of decision trees look at."""

from __future__ import annotations

from typing import Any

import numpy as np

from ope_bench import IntArray

__all__ = ["split_columns"]

ENSEMBLES = ("GradientBoostingRegressor", "RandomForestRegressor", "ExtraTreesRegressor")
"""Classes of scikit-learn whose predictions depend on nothing but the splits of their trees."""


def split_columns(model: Any) -> IntArray | None:
    """Return the columns in which some tree splits, ascending; None for another kind of model.

    A prediction is the same for rows that agree in these columns.
    """
    cls = type(model)
    # By name: a test by class would import scikit-learn for models of other packages.
    if cls.__name__ not in ENSEMBLES or not cls.__module__.startswith("sklearn.ensemble."):
        return None
    if getattr(model, "init", None) not in (None, "zero"):
        # Boosting then starts from a model of its own.
        return None
    split = [tree.tree_.feature for tree in np.ravel(model.estimators_)]
    columns: IntArray = np.unique(np.concatenate(split)).astype(np.int64)
    # Leaves have a negative number.
    return columns[columns >= 0]
