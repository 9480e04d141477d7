"""Learners hold back whole units where rows form units, and rules count units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from ope_bench.base.errors import ParameterError
from ope_estimators.actions.weighting.ipw import IPW
from ope_estimators.actions.weighting.ix_ipw import IXIPW
from ope_estimators.actions.weighting.ls_ipw import LSIPW
from ope_estimators.actions.weighting.lse_ipw import LSEIPW
from ope_estimators.actions.weighting.sg_ipw import SGIPW
from ope_estimators.actions.weighting.weighted_rows import WeightedRows
from ope_estimators.learning.learners import fitted


def repeated_rows(n_units: int, times: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Features that name their unit, an outcome of the unit's own, and the unit of each row."""
    rng = np.random.default_rng(seed)
    unit = rng.permutation(np.repeat(np.arange(n_units), times))
    features = np.column_stack([rng.normal(size=n_units)[unit], unit])
    return features, rng.normal(size=n_units)[unit], unit


def test_cross_validated_learners_choose_by_units_that_they_have_not_seen() -> None:
    """A tree knows each unit by its number: perfect on copies, worthless on other units."""
    features, outcome, unit = repeated_rows(40, 5)
    grid = {"estimator": DecisionTreeRegressor(random_state=0), "cv": 4}
    grid |= {"param_grid": {"max_depth": [None, 1]}}
    by_row = fitted(GridSearchCV(**grid), features, outcome, None)
    by_unit = fitted(GridSearchCV(**grid), features, outcome, unit)
    assert by_row.best_params_ == {"max_depth": None}
    assert by_unit.best_params_ == {"max_depth": 1}
    assert len(by_unit.cv) == 4
    for train, held in by_unit.cv:
        assert not set(unit[train]) & set(unit[held])


@pytest.mark.parametrize("cv", [None, 3, KFold(4), StratifiedKFold(3)], ids=repr)
def test_a_classifiers_folds_are_of_units_and_hold_every_class(cv: Any) -> None:
    features, outcome, unit = repeated_rows(30, 4)
    learner = GridSearchCV(DecisionTreeClassifier(), {"max_depth": [1, 2]}, cv=cv)
    model = fitted(learner, features, outcome > 0, unit)
    assert len(model.cv) == (5 if cv is None else cv if isinstance(cv, int) else cv.n_splits)
    for train, held in model.cv:
        assert not set(unit[train]) & set(unit[held])
        assert len(set(outcome[train] > 0)) == 2


def test_ridge_chooses_its_penalty_by_units() -> None:
    """Leave-one-out, its default, would leave a copy of every row in."""
    _, outcome, unit = repeated_rows(12, 6)
    # Enough columns to know each unit by.
    columns = np.random.default_rng(1).normal(size=(12, 15))[unit]
    by_row, by_unit = (
        fitted(RidgeCV(alphas=[1e-6, 1e3]), columns, outcome, given) for given in (None, unit)
    )
    assert (by_row.alpha_, by_unit.alpha_) == (1e-6, 1e3)


def test_splits_that_the_user_lists_stay() -> None:
    features, outcome, unit = repeated_rows(10, 2)
    splits = [(np.arange(10), np.arange(10, 20))]
    assert fitted(RidgeCV(cv=splits), features, outcome, unit).cv is splits
    assert fitted(RidgeCV(), features, outcome, np.zeros(20, dtype=int)).cv is None


def test_histogram_boosting_stops_by_whole_units() -> None:
    features, outcome, unit = repeated_rows(60, 8)
    wanted = {"early_stopping": True, "max_iter": 200, "min_samples_leaf": 2, "random_state": 0}
    by_row, by_unit = (
        fitted(HistGradientBoostingRegressor(**wanted), features, outcome, given)
        for given in (None, unit)
    )
    # Copies of the training rows never stop it; units that it has not seen do at once.
    assert by_unit.n_iter_ < 40 < by_row.n_iter_


def test_early_stopping_by_rows_that_cannot_be_told_of_units_is_refused() -> None:
    features, outcome, unit = repeated_rows(10, 3)
    learner = GradientBoostingRegressor(n_iter_no_change=3)
    with pytest.raises(ParameterError, match="turn early stopping off"):
        fitted(learner, features, outcome, unit)
    fitted(GradientBoostingRegressor(n_estimators=2), features, outcome, unit)
    fitted(HistGradientBoostingRegressor(max_iter=2), features, outcome, unit)


BY_FORMULA = [IPW(clip="root-n"), IXIPW(), LSIPW(), LSEIPW(), SGIPW()]


@pytest.mark.parametrize("estimator", BY_FORMULA, ids=repr)
def test_rules_by_formula_count_units(estimator: Any) -> None:
    """More copies of the same rows are no more data."""
    rng = np.random.default_rng(0)
    weight, outcome = rng.gamma(1.0, size=50), rng.normal(size=50)
    once = WeightedRows(weight, np.full(50, 0.5), outcome, np.arange(50))
    many = WeightedRows(*(np.tile(getattr(once, name), 4) for name in (
        "weight", "propensity", "outcome", "unit")))  # fmt: skip
    alone = WeightedRows(many.weight, many.propensity, many.outcome, np.arange(200))
    rule = estimator._by_formula
    assert rule(many) == pytest.approx(rule(once), rel=1e-9)
    assert rule(alone) != pytest.approx(rule(once), rel=0.1)
