"""Learners that judge themselves on rows held back, told to hold back whole units."""

from __future__ import annotations

import inspect
from typing import Any

from ope_bench import FloatArray, IntArray, ParameterError

__all__ = ["fit_by_units"]

FOLDS = 5
"""Folds of a learner that leaves the number to its library."""

ROWS_FOR_EARLY_STOPPING = 10_000
"""Rows beyond which ``early_stopping="auto"`` holds some back, in histogram boosting."""


def fit_by_units(
    learner: Any, features: FloatArray, outcome: FloatArray | IntArray, unit: IntArray
) -> Any:
    """Fit the learner; what it chooses or stops by is judged on units that it has not seen.

    A learner with ``takes_units`` is given the units. The ``cv`` of scikit-learn's cross-validated
    learners becomes folds of units; early stopping of its histogram boosting gets a validation
    sample of units.

    Parameters
    ----------
    learner : with scikit-learn's ``fit``.
    features : (k, d)
    outcome : (k,)
    unit : (k,), units of the rows.

    Raises
    ------
    ParameterError : the learner holds back rows for early stopping and cannot be told which.
    """
    if getattr(learner, "takes_units", False):
        return learner.fit(features, outcome, unit)
    params = learner.get_params(deep=False) if hasattr(learner, "get_params") else {}
    if "cv" in params:
        folds = _folds(learner, params, features, outcome, unit)
        if folds:
            learner.set_params(cv=folds)
    elif _stops_early(params, len(outcome)):
        return _fit_with_validation(learner, params, features, outcome, unit)
    return learner.fit(features, outcome)


def _folds(
    learner: Any,
    params: dict[str, Any],
    features: FloatArray,
    outcome: FloatArray | IntArray,
    unit: IntArray,
) -> list[tuple[IntArray, IntArray]]:
    """Return rows of each fold's training and validation part; empty where the parameter stays."""
    from sklearn.base import is_classifier
    from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

    cv = params["cv"]
    k = FOLDS if cv is None else getattr(cv, "n_splits", cv)
    n_units = len(set(unit.tolist()))
    # Splits that the user lists, or a single unit.
    if not isinstance(k, int) or n_units < 2:
        return []
    splitter = StratifiedGroupKFold if is_classifier(learner) else GroupKFold
    return list(splitter(min(k, n_units)).split(features, outcome, unit))


def _stops_early(params: dict[str, Any], n: int) -> bool:
    if "early_stopping" in params:
        stop = params["early_stopping"]
        return n > ROWS_FOR_EARLY_STOPPING if stop == "auto" else bool(stop)
    # Gradient boosting holds rows back where this is a number.
    return "validation_fraction" in params and params.get("n_iter_no_change") is not None


def _fit_with_validation(
    learner: Any,
    params: dict[str, Any],
    features: FloatArray,
    outcome: FloatArray | IntArray,
    unit: IntArray,
) -> Any:
    from sklearn.model_selection import GroupShuffleSplit

    told = "X_val" in inspect.signature(learner.fit).parameters
    if len(set(unit.tolist())) < 2 or (not told and params.get("early_stopping") == "auto"):
        # Nothing to judge by; older scikit-learn cannot be told the validation sample.
        learner.set_params(early_stopping=False)
        return learner.fit(features, outcome)
    if not told:
        msg = (
            f"{type(learner).__name__} holds rows back for early stopping, and rows of one unit "
            "depend on each other: turn early stopping off (early_stopping, n_iter_no_change)"
        )
        raise ParameterError(msg)
    share, seed = params["validation_fraction"], params["random_state"]
    split = GroupShuffleSplit(1, test_size=share, random_state=seed)
    train, held = next(split.split(features, outcome, unit))
    # "auto" looks at the rows that are left for training.
    learner.set_params(early_stopping=True)
    return learner.fit(features[train], outcome[train], X_val=features[held], y_val=outcome[held])
