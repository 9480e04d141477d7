"""Decision trees of scikit-learn: fitted faster, and the columns that they split.

Every number has the bits that scikit-learn gives, but for boosting on large tables (`fit_sorted`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ope_bench import FloatArray, IntArray
from ope_estimators.learning.sorted_trees import fit_sorted, is_covered

__all__ = ["by_columns", "fit_boosting", "is_boosting", "split_columns"]

BOOSTING = ("GradientBoostingRegressor", "GradientBoostingClassifier")
"""Classes of scikit-learn that add up trees."""

LEARNERS = (
    *BOOSTING,
    "RandomForestRegressor",
    "RandomForestClassifier",
    "ExtraTreesRegressor",
    "ExtraTreesClassifier",
)
"""Classes of scikit-learn that search splits in one column after another."""

ENSEMBLES = ("GradientBoostingRegressor", "RandomForestRegressor", "ExtraTreesRegressor")
"""Classes of scikit-learn whose predictions depend on nothing but the splits of their trees."""


def by_columns(learner: Any, features: FloatArray) -> FloatArray:
    """Return the features in the layout in which a learner's trees read them: (k, d).

    In single precision, to which scikit-learn converts them, and column by column, which keeps the
    values that a search for splits reads in order side by side: with many columns it then takes
    half the time, and finds the same trees. Features for other learners are returned as they are,
    and those for boosting that stops early, which predicts rows while it is fitted.

    Parameters
    ----------
    learner : unfitted.
    features : (k, d)
    """
    if not _is_of(LEARNERS, learner) or getattr(learner, "n_iter_no_change", None) is not None:
        return features
    return features.astype(np.float32, order="F")


def is_boosting(model: Any) -> bool:
    """Return whether a model is gradient boosting of scikit-learn without early stopping."""
    return _is_of(BOOSTING, model) and model.n_iter_no_change is None


def fit_boosting(
    model: Any,
    features: FloatArray,
    outcome: FloatArray | IntArray,
    sample_weight: FloatArray | None = None,
) -> Any:
    """Fit gradient boosting; return the model.

    The parameters of all trees are those of the first, so that they are checked once instead of
    at every stage.

    Parameters
    ----------
    model : see `is_boosting`.
    features : (k, d)
    outcome : (k,)
    sample_weight : (k,)
    """
    import sklearn

    def check_no_more(*_: object) -> None:
        sklearn.set_config(skip_parameter_validation=True)

    with sklearn.config_context():
        if sample_weight is None and is_covered(model, features, outcome):
            return fit_sorted(model, features, outcome, check_no_more)
        return model.fit(features, outcome, sample_weight=sample_weight, monitor=check_no_more)


def split_columns(model: Any) -> IntArray | None:
    """Return the columns in which some tree splits, ascending; None for another kind of model.

    A prediction is the same for rows that agree in these columns.
    """
    known: IntArray | None = getattr(model, "split_columns", None)
    if known is not None or not _is_of(ENSEMBLES, model):
        return known
    if getattr(model, "init", None) not in (None, "zero"):
        # Boosting then starts from a model of its own.
        return None
    split = [tree.tree_.feature for tree in np.ravel(model.estimators_)]
    columns: IntArray = np.unique(np.concatenate(split)).astype(np.int64)
    # Leaves have a negative number.
    return columns[columns >= 0]


def _is_of(names: tuple[str, ...], model: Any) -> bool:
    """Return whether a model is of scikit-learn and its class has one of the names."""
    # By name: a test by class would import scikit-learn for models of other packages.
    cls = type(model)
    return cls.__name__ in names and cls.__module__.startswith("sklearn.ensemble.")
