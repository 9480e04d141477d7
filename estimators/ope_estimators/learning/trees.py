"""Models of decision trees: the columns that they look at, and the layout that they read fast."""

from __future__ import annotations

from typing import Any

import numpy as np

from ope_bench import FloatArray, IntArray

__all__ = ["by_columns", "split_columns"]

LEARNERS = tuple(
    f"{name}{kind}"
    for name in ("GradientBoosting", "RandomForest", "ExtraTrees")
    for kind in ("Classifier", "Regressor")
)
"""Classes of scikit-learn that search splits in one column after another."""

ENSEMBLES = ("GradientBoostingRegressor", "RandomForestRegressor", "ExtraTreesRegressor")
"""Classes of scikit-learn whose predictions depend on nothing but the splits of their trees."""


def by_columns(learner: Any, features: FloatArray) -> FloatArray:
    """Return the features in the layout in which a learner's trees read them: (k, d).

    In single precision, to which scikit-learn converts them, and column by column, which keeps the
    values that a search for splits reads in order side by side: with many columns it then takes
    half the time, and finds the same trees. Features for other learners are returned as they are.

    Parameters
    ----------
    learner : unfitted.
    features : (k, d)
    """
    return features.astype(np.float32, order="F") if _is(learner, LEARNERS) else features


def split_columns(model: Any) -> IntArray | None:
    """Return the columns in which some tree splits, ascending; None for another kind of model.

    A prediction is the same for rows that agree in these columns.
    """
    if not _is(model, ENSEMBLES):
        return None
    if getattr(model, "init", None) not in (None, "zero"):
        # Boosting then starts from a model of its own.
        return None
    split = [tree.tree_.feature for tree in np.ravel(model.estimators_)]
    columns: IntArray = np.unique(np.concatenate(split)).astype(np.int64)
    # Leaves have a negative number.
    return columns[columns >= 0]


def _is(model: Any, names: tuple[str, ...]) -> bool:
    """Return whether a model is of scikit-learn and its class has one of the names."""
    cls = type(model)
    # By name: a test by class would import scikit-learn for models of other packages.
    return cls.__name__ in names and cls.__module__.startswith("sklearn.ensemble.")
