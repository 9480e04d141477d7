"""Standardized linear models: the bits of scikit-learn's pipelines, without their checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Lasso, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ope_bench import Column
from ope_bench.contracts.view import Access, View
from ope_bench.testing.problems import problem as shipped_problem
from ope_estimators.features.actions import design, encoded
from ope_estimators.learning.learners import fitted, regressor
from ope_estimators.learning.pipelines import fit_steps, linear_prediction, softmax_scores
from ope_estimators.nuisance.policy import FittedPolicy
from ope_estimators.nuisance.reward import RewardModel
from support import tiny_worlds as tiny


def rows(n: int = 301, d: int = 7, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    table = 3.0 * rng.normal(size=(n, d)) + rng.normal(size=d)
    table[:, -1] = rng.integers(0, 2, n)
    return table, table.sum(axis=1) + rng.normal(size=n)


@pytest.mark.parametrize("d", [1, 2, 11, 64])
@pytest.mark.parametrize("name", ["linear", "ridge"])
@pytest.mark.parametrize("seed", range(3))
def test_predictions_have_the_bits_of_scikit_learn(name, d, seed):
    table, outcome = rows(d=d, seed=seed)
    model = regressor(name, seed=0)
    by_pipeline = clone(model).fit(table, outcome)
    linear = linear_prediction(fitted(model, table, outcome, None))
    assert linear is not None
    for n in (1, 3, 300, 4001):
        other = rows(n, d, seed + 10)[0]
        np.testing.assert_array_equal(linear(other), by_pipeline.predict(other))


@pytest.mark.parametrize(
    "pipeline",
    [
        regressor("ridge", seed=0, params={"degree": 2}),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ],
    ids=["regressor", "classifier"],
)
def test_steps_fitted_one_by_one_are_the_fitted_pipeline(pipeline):
    table, outcome = rows()
    if hasattr(pipeline, "predict_proba"):
        outcome = np.digitize(outcome, [-1.0, 1.0])
    together = clone(pipeline).fit(table, outcome)
    apart = fit_steps(pipeline, table, outcome)
    assert apart is pipeline
    np.testing.assert_array_equal(apart.predict(table), together.predict(table))
    np.testing.assert_array_equal(apart[-1].coef_, together[-1].coef_)


@pytest.mark.parametrize("n", [1, 2, 301])
def test_a_scaler_has_the_bits_of_scikit_learn(n, monkeypatch):
    table, outcome = rows(n)
    # Columns without variance, one of them up to rounding, and one far from zero.
    table[:, 0], table[:, 1] = 3.0, 0.1 + 1e-17 * np.arange(n)
    table[:, 2] += 1e9
    table[:, 3] = 1e8 + 1e-8 * np.arange(n)
    wanted = StandardScaler().fit(table)
    monkeypatch.setattr(StandardScaler, "fit", None)
    scaler = fit_steps(make_pipeline(StandardScaler(), Ridge()), table, outcome)[0]
    for name in ("mean_", "var_", "scale_", "n_samples_seen_", "n_features_in_"):
        np.testing.assert_array_equal(getattr(scaler, name), getattr(wanted, name))


@pytest.mark.parametrize(
    "model",
    [
        Ridge(),
        make_pipeline(Ridge()),
        make_pipeline(StandardScaler(), Lasso()),
        regressor("ridge", seed=0, params={"degree": 2}),
        regressor("gbm", seed=0, params={"n_estimators": 2}),
    ],
    ids=repr,
)
def test_other_models_predict_by_themselves(model):
    assert linear_prediction(model.fit(*rows())) is None


def classes(n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    table, outcome = rows()
    return table, np.digitize(outcome, np.quantile(outcome, np.arange(1, n_classes) / n_classes))


@pytest.mark.parametrize("n_classes", [3, 40])
def test_probabilities_of_actions_have_the_bits_of_scikit_learn(n_classes, monkeypatch):
    table, label = classes(n_classes)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(table, label)
    columns = (Column(),) * table.shape[1]
    fit = FittedPolicy(model, columns, np.arange(n_classes), n_classes, len(label))
    wanted, given = model.predict_proba(table), table.copy()
    monkeypatch.setattr(type(model), "predict_proba", None)
    ((_, probability),) = fit.blocks(given)
    np.testing.assert_array_equal(probability, wanted)
    np.testing.assert_array_equal(given, table)


@pytest.mark.parametrize(
    ("n_classes", "params"), [(2, {}), (3, {"solver": "newton-cholesky"})], ids=["two", "solver"]
)
def test_other_classifiers_give_their_probabilities_themselves(n_classes, params):
    model = make_pipeline(StandardScaler(), LogisticRegression(**params))
    assert softmax_scores(model.fit(*classes(n_classes))) is None


def test_a_pipeline_of_many_outcomes_predicts_by_itself():
    table, outcome = rows()
    model = make_pipeline(StandardScaler(), Ridge())
    assert linear_prediction(model.fit(table, np.column_stack([outcome, outcome]))) is None


def by_pipelines(model: Any, view: View, table: np.ndarray) -> np.ndarray:
    """The folds' models averaged as scikit-learn predicts."""
    return np.sum([one.predict(table) for one in model._models], axis=0) / len(model._models)


@pytest.mark.parametrize("features", ["one-hot", "embedding", "ordinal"])
@pytest.mark.parametrize("cross_fit", [1, 3])
def test_a_reward_model_has_the_bits_of_its_pipelines(features, cross_fit):
    problem = shipped_problem("random embeddings", n=60)
    view = tiny.view_of(problem, Access.TARGET_POLICY)
    model = view.fitted(RewardModel("ridge", (), "action", features, cross_fit))
    row, action = (part.ravel() for part in np.indices((view.n, view.n_actions)))
    context = view.context[row]
    own = model._features._actions(action)
    table = design(encoded(view.schema.context, context), own)
    np.testing.assert_array_equal(model._features(context, action), table)
    np.testing.assert_array_equal(model(context, action), by_pipelines(model, view, table))


@pytest.mark.parametrize("learner", ["ridge", "random-forest", "hist-gbm"])
@pytest.mark.parametrize("cross_fit", [1, 3])
def test_all_pairs_have_the_bits_of_pairs_one_by_one(learner, cross_fit, monkeypatch):
    monkeypatch.setattr("ope_bench.contracts.arrays.CHUNK_ENTRIES", 500)
    monkeypatch.setattr("ope_estimators.nuisance.reward.BLOCK", 7)
    problem = shipped_problem("random embeddings", n=60)
    view = tiny.view_of(problem, Access.TARGET_POLICY)
    model = view.fitted(RewardModel(learner, (), "action", "ordinal", cross_fit))
    row, action = (part.ravel() for part in np.indices((view.n, view.n_actions)))
    for one, _ in model.parts():
        apart = one(view.context[row], action)
        everywhere = getattr(one, "everywhere")(view.context, view.n_actions)  # noqa: B009
        np.testing.assert_array_equal(everywhere, apart)
    expected = view.target_policy.expect(view.context, model)
    apart = view.target_policy.expect(view.context, lambda context, points: model(context, points))
    np.testing.assert_array_equal(expected, apart)


@pytest.mark.parametrize("features", ["one-hot", "embedding", "ordinal"])
def test_all_pairs_of_a_linear_model_standardize_each_part_once(features, monkeypatch):
    problem = shipped_problem("random embeddings", n=60)
    view = tiny.view_of(problem, Access.TARGET_POLICY)
    model = view.fitted(RewardModel("ridge", (), "action", features, 3))
    row, action = (part.ravel() for part in np.indices((view.n, view.n_actions)))
    apart = model(view.context[row], action)
    monkeypatch.setattr("ope_bench.contracts.arrays.CHUNK_ENTRIES", 300)
    monkeypatch.setattr(type(model._features), "__call__", None)
    np.testing.assert_array_equal(model.everywhere(view.context, view.n_actions), apart)


def test_many_features_of_actions_are_composed_chunk_by_chunk(monkeypatch):
    problem = shipped_problem("random embeddings", n=60)
    view = tiny.view_of(problem, Access.TARGET_POLICY)
    model = view.fitted(RewardModel("ridge", (), "action", "one-hot", 1))
    assert model._features.apart(view.context, view.n_actions) is not None
    monkeypatch.setattr("ope_bench.contracts.arrays.CHUNK_ENTRIES", view.n_actions)
    assert model._features.apart(view.context, view.n_actions) is None
