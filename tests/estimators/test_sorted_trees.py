"""Boosting on many rows: the divisions of scikit-learn's trees, from columns sorted once."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

from ope_estimators.learning import sorted_trees
from ope_estimators.learning.learners import fitted
from ope_estimators.learning.sorted_trees import SortedColumns, is_covered

FEW = {"n_estimators": 25, "random_state": 0}
REGRESSOR, CLASSIFIER = GradientBoostingRegressor(**FEW), GradientBoostingClassifier(**FEW)


@pytest.fixture(autouse=True)
def _few_rows_are_many(monkeypatch):
    monkeypatch.setattr(sorted_trees, "MANY_ROWS", 100)
    monkeypatch.setattr(sorted_trees, "MANY_COLUMNS", 3)


def rows(kind: str, n: int = 600) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(n, 3))
    if kind == "repeated":
        table[:, :2] = table[:, :2].round(1)
        table[:, 2] = (table[:, 2] > 0) + 2.0
    if kind == "indicators":
        table = np.hstack([table, np.eye(20)[rng.integers(0, 20, n)]])
    if kind == "indicators only":
        table = np.eye(20)[rng.integers(0, 20, n)]
    outcome = table @ rng.normal(size=table.shape[1]) + rng.normal(size=n)
    return table.astype(np.float32, order="F"), outcome


def refuse(*_: object, **__: object) -> None:
    raise AssertionError("grown by scikit-learn")


@pytest.mark.parametrize("kind", ["continuous", "repeated", "indicators", "indicators only"])
@pytest.mark.parametrize("model", [REGRESSOR, CLASSIFIER], ids=["regressor", "classifier"])
def test_rows_are_divided_as_by_scikit_learn(model, kind, monkeypatch):
    table, outcome = rows(kind)
    if model is CLASSIFIER:
        outcome = (outcome > 0).astype(np.int64)
    wanted = clone(model).fit(table, outcome)
    monkeypatch.setattr("sklearn.tree.DecisionTreeRegressor.fit", refuse)
    ours = fitted(clone(model), table, outcome, None)
    if model is CLASSIFIER:
        np.testing.assert_array_equal(
            ours.decision_function(table), wanted.decision_function(table)
        )
    np.testing.assert_allclose(ours.predict(table), wanted.predict(table), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.train_score_, wanted.train_score_, rtol=1e-9)
    # Ties are rare: nearly all nodes have the column and threshold of scikit-learn.
    alike = [
        np.array_equal(one.tree_.feature, other.tree_.feature)
        and np.allclose(one.tree_.threshold, other.tree_.threshold)
        and np.array_equal(one.tree_.n_node_samples, other.tree_.n_node_samples)
        for one, other in zip(ours.estimators_[:, 0], wanted.estimators_[:, 0], strict=True)
    ]
    assert np.mean(alike) > (0.9 if kind == "indicators only" else 0.3)
    assert "_fit_stage" not in vars(ours)


def test_models_of_few_columns_keep_the_bits_of_scikit_learn():
    table, outcome = rows("continuous")
    assert not is_covered(REGRESSOR, table[:, :2], outcome)
    assert not is_covered(CLASSIFIER, table[:, :2], (outcome > 0).astype(np.int64))


def test_a_constant_outcome_has_one_leaf():
    tree = SortedColumns(rows("indicators")[0]).tree(np.ones(600), max_depth=3)
    assert (tree.node_count, tree.value.ravel().tolist()) == (1, [1.0])


def test_columns_without_variance_are_not_split():
    tree = SortedColumns(np.ones((200, 2), dtype=np.float32)).tree(np.arange(200.0), max_depth=3)
    assert tree.node_count == 1


@pytest.mark.parametrize(
    ("model", "n", "n_classes"),
    [
        (REGRESSOR, 99, 0),
        (GradientBoostingRegressor(subsample=0.5), 600, 0),
        (GradientBoostingRegressor(min_samples_leaf=5), 600, 0),
        (GradientBoostingRegressor(loss="huber"), 600, 0),
        (GradientBoostingRegressor(max_depth=None), 600, 0),
        (CLASSIFIER, 600, 3),
    ],
    ids=["few rows", "subsample", "leaf", "loss", "depth", "classes"],
)
def test_other_models_are_left_to_scikit_learn(model, n, n_classes):
    table, outcome = rows("continuous", n)
    if n_classes:
        outcome = np.arange(n) % n_classes
    assert not is_covered(model, table, outcome)
    assert is_covered(REGRESSOR, *rows("continuous"))
