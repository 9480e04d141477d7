"""Gradient boosting: the bits of scikit-learn, with a table by columns and checked once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils._param_validation import InvalidParameterError

from ope_estimators.learning.learners import classifier, fit_weighted, fitted, regressor
from ope_estimators.learning.trees import by_columns, split_columns

FEW = {"n_estimators": 12}


def rows(n: int = 300, actions: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    context, action = rng.normal(size=(n, 2)), rng.integers(0, actions, n)
    table = np.hstack([context, np.eye(actions)[action]])
    return table, context[:, 0] + rng.normal(size=actions)[action] + rng.normal(size=n)


@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_a_fit_has_the_bits_of_scikit_learn(kind, units):
    table, outcome = rows()
    make = regressor if kind == "regressor" else classifier
    if kind == "classifier":
        outcome = (outcome > 0).astype(np.int64)
    model = make("gbm", seed=3, params=FEW)
    plain = clone(model).fit(table, outcome)
    ours = fitted(model, table, outcome, np.arange(len(table)) if units else None)
    other = rows(77)[0]
    by = "predict" if kind == "regressor" else "predict_proba"
    np.testing.assert_array_equal(getattr(ours, by)(other), getattr(plain, by)(other))
    np.testing.assert_array_equal(ours.train_score_, plain.train_score_)


def test_a_weighted_fit_has_the_bits_of_scikit_learn():
    table, outcome = rows()
    weight = np.random.default_rng(1).exponential(size=len(table))
    weight /= weight.mean()
    model = regressor("gbm", seed=3, params=FEW)
    plain = clone(model).fit(table, outcome, sample_weight=weight)
    ours = fit_weighted(model, table, outcome, weight)
    other = rows(77)[0]
    np.testing.assert_array_equal(ours.predict(other), plain.predict(other))


def test_trees_read_columns_and_are_checked_at_the_first_stage_alone(monkeypatch):
    seen = []
    fit = DecisionTreeRegressor.fit

    def watched(self, features: Any, *args: Any, **kwargs: Any) -> Any:
        unchecked = sklearn.get_config()["skip_parameter_validation"]
        seen.append((features.dtype.name, features.flags.f_contiguous, unchecked))
        return fit(self, features, *args, **kwargs)

    monkeypatch.setattr(DecisionTreeRegressor, "fit", watched)
    before = sklearn.get_config()
    fitted(regressor("gbm", seed=0, params={"n_estimators": 3}), *rows(), None)
    assert seen == [("float32", True, checked) for checked in (False, True, True)]
    assert sklearn.get_config() == before


@pytest.mark.parametrize("params", [{"n_estimators": -1}, {"max_depth": "deep"}])
def test_wrong_parameters_are_refused_as_before(params):
    with pytest.raises(InvalidParameterError):
        fitted(regressor("gbm", seed=0, params=params), *rows(), None)


@pytest.mark.parametrize("cls", [GradientBoostingRegressor, GradientBoostingClassifier])
def test_early_stopping_keeps_a_table_of_rows(cls):
    table, outcome = rows()
    outcome = outcome if cls is GradientBoostingRegressor else (outcome > 0).astype(np.int64)
    model = cls(random_state=0, n_iter_no_change=2, **FEW)
    assert by_columns(model, table) is table
    plain = clone(model).fit(table, outcome)
    ours = fitted(model, table, outcome, None)
    np.testing.assert_array_equal(ours.predict(table), plain.predict(table))


@pytest.mark.parametrize("weighted", [False, True])
def test_exact_trees_predict_what_scikit_learn_predicts(weighted):
    """Columns of random numbers have no ties, and one-hot actions that differ have few."""
    pytest.importorskip("xgboost")
    table, outcome = rows(actions=4)
    weight = np.random.default_rng(1).exponential(size=len(table)) if weighted else None
    few = {"n_estimators": 20}
    model, peer = (regressor(name, seed=3, params=few) for name in ("gbm-exact", "gbm"))
    for one in (model, peer):
        if weight is None:
            fitted(one, table, outcome, None)
        else:
            fit_weighted(one, table, outcome, weight)
    other = rows(77, actions=4)[0]
    assert model.predict(other) == pytest.approx(peer.predict(other), abs=1e-5)
    np.testing.assert_array_equal(model.split_columns, split_columns(peer))


def test_exact_trees_read_sparse_and_dense_rows_alike():
    """An explicit zero and a value up to one half in a column of 0 and 1 count as 0."""
    pytest.importorskip("xgboost")
    table, outcome = rows(actions=4)
    model = fitted(regressor("gbm-exact", seed=0), table, outcome, None)
    sparse = csr_array(table)
    explicit = csr_array((sparse.data.copy(), sparse.indices, sparse.indptr), shape=table.shape)
    explicit.data[explicit.indices >= 2] = 0.0
    none = table * (np.arange(6) < 2)
    np.testing.assert_array_equal(model.predict(sparse), model.predict(table))
    np.testing.assert_array_equal(model.predict(explicit), model.predict(none))
    np.testing.assert_array_equal(
        model.predict(none + 0.4 * (table > 0) * (none == 0)), model.predict(none)
    )


@pytest.mark.parametrize("points", ["one-hot", "ordinal", "embedding"])
def test_exact_trees_predict_all_pairs_by_matrix_products_as_one_by_one(points):
    pytest.importorskip("xgboost")
    rng = np.random.default_rng(5)
    action = rng.integers(6, size=400)
    context = np.column_stack([rng.normal(size=400), rng.integers(2, size=400)])
    shown = {
        "one-hot": np.eye(6),
        "ordinal": np.arange(6.0)[:, None],
        "embedding": rng.normal(size=(6, 2)),
    }[points]
    outcome = context[:, 0] * np.sin(action) + context[:, 1] * (action > 2)
    model = regressor("gbm-exact", seed=0)
    fitted(model, np.hstack([context, shown[action]]), outcome, None)
    other = np.vstack([context[:50], [[0.0, 0.5], [0.0, 0.6]]])
    pairs = np.hstack([np.repeat(other, 6, axis=0), np.tile(shown, (52, 1))])
    expected = model.predict(pairs)
    assert model.everywhere(other, shown) == pytest.approx(expected, abs=1e-5)
    fitted(model, np.hstack([context, shown[action]]), -outcome, None)
    assert model.everywhere(other, shown) == pytest.approx(model.predict(pairs), abs=1e-5)


def test_exact_trees_of_a_constant_split_nothing():
    pytest.importorskip("xgboost")
    model = fitted(regressor("gbm-exact", seed=0), np.zeros((5, 2)), np.full(5, 0.25), None)
    assert model.predict(np.ones((3, 2))).tolist() == [0.25] * 3
    assert model.everywhere(np.ones((3, 1)), np.ones((1, 1))).tolist() == [0.25] * 3
    assert len(model.split_columns) == 0


@pytest.mark.parametrize("values", ["numbers", "indicators"])
def test_of_equally_good_splits_exact_trees_take_a_random_column(values):
    """Always the first one would lean to the context, whose columns come first."""
    pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    column = rng.normal(size=60) if values == "numbers" else rng.integers(2, size=60)
    table = np.repeat(np.asarray(column, np.float64)[:, None], 3, axis=1)
    few = {"n_estimators": 1, "max_depth": 1}
    chosen = [
        fitted(regressor("gbm-exact", seed=seed, params=few), table, column, None).split_columns
        for seed in range(60)
    ]
    counts = np.bincount(np.concatenate(chosen), minlength=3)
    assert counts.sum() == 60
    assert counts.min() > 10
