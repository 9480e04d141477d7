"""Decision trees of scikit-learn: boosting fitted faster, and the columns that trees split.

Every number has the bits that scikit-learn gives.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ope_bench import FloatArray, IntArray

__all__ = ["fit_boosting", "is_boosting", "split_columns"]

BOOSTING = ("GradientBoostingRegressor", "GradientBoostingClassifier")
"""Classes of scikit-learn that add up trees."""

ENSEMBLES = ("GradientBoostingRegressor", "RandomForestRegressor", "ExtraTreesRegressor")
"""Classes of scikit-learn whose predictions depend on nothing but the splits of their trees."""


def is_boosting(model: Any) -> bool:
    """Return whether a model is gradient boosting of scikit-learn without early stopping.

    With early stopping, predictions while it is fitted need a table in the order of rows.
    """
    return _is_of(BOOSTING, model) and model.n_iter_no_change is None


def fit_boosting(model: Any, features: FloatArray, outcome: FloatArray | IntArray) -> Any:
    """Fit gradient boosting; return the model.

    The table is in single precision, as trees convert it, and in the order of columns, which trees
    read one by one. The parameters of all trees are those of the first, so that they are checked
    once instead of at every stage.

    Parameters
    ----------
    model : see `is_boosting`.
    features : (k, d)
    outcome : (k,)
    """
    import sklearn

    def check_no_more(*_: object) -> None:
        sklearn.set_config(skip_parameter_validation=True)

    with sklearn.config_context():
        table = np.asarray(features, dtype=np.float32, order="F")
        return model.fit(table, outcome, monitor=check_no_more)


def split_columns(model: Any) -> IntArray | None:
    """Return the columns in which some tree splits, ascending; None for another kind of model.

    A prediction is the same for rows that agree in these columns.
    """
    if not _is_of(ENSEMBLES, model):
        return None
    if getattr(model, "init", None) not in (None, "zero"):
        # Boosting then starts from a model of its own.
        return None
    split = [tree.tree_.feature for tree in np.ravel(model.estimators_)]
    columns: IntArray = np.unique(np.concatenate(split)).astype(np.int64)
    # Leaves have a negative number.
    return columns[columns >= 0]


def _is_of(names: tuple[str, ...], model: Any) -> bool:
    # By name: a test by class would import scikit-learn for models of other packages.
    cls = type(model)
    return cls.__name__ in names and cls.__module__.startswith("sklearn.ensemble.")
