"""Reward models evaluated at many actions: nothing is computed twice, and no bit changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression

from ope_bench.contracts import arrays
from ope_bench.contracts.data import Problem
from ope_bench.contracts.plugins import Estimator
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import Access, FitCache, View, nuisance_key
from ope_bench.testing.problems import problem as shipped_problem
from ope_estimators.actions.direct.dm import DM
from ope_estimators.actions.doubly_robust.cab import CAB
from ope_estimators.actions.doubly_robust.dr import DR
from ope_estimators.actions.doubly_robust.dr_os import DROS
from ope_estimators.actions.doubly_robust.mrdr import MRDR
from ope_estimators.actions.doubly_robust.sndr import SNDR
from ope_estimators.actions.doubly_robust.switch import Switch
from ope_estimators.actions.doubly_robust.tmle import TMLE
from ope_estimators.features.actions import ActionFeatures
from ope_estimators.learning.pooled import PooledRegressor
from ope_estimators.learning.trees import split_columns
from ope_estimators.nuisance import partial_expectation, reward
from ope_estimators.nuisance.expected_reward import ExpectedReward
from ope_estimators.nuisance.reward import FittedReward, RewardModel, distinct_pairs
from ope_estimators.structure.group_ipw import GroupIPW
from ope_estimators.structure.mdr import MDR
from ope_estimators.structure.offcem import OffCEM
from support import tiny_worlds as tiny

FEW = {"n_estimators": 3, "max_depth": 2, "random_state": 0}
ENSEMBLES = [
    GradientBoostingRegressor(**FEW),
    GradientBoostingRegressor(init="zero", **FEW),
    RandomForestRegressor(**FEW),
    ExtraTreesRegressor(**FEW),
]


def table(n: int = 200, d: int = 8) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, d))
    return rows, rows[:, 0] - 1.2 * rows[:, 6] + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("model", ENSEMBLES, ids=repr)
def test_a_prediction_depends_on_the_split_columns_alone(model):
    rows, outcome = table()
    model.fit(rows, outcome)
    columns = split_columns(model)
    assert {0, 6} <= set(columns) < set(range(8))
    assert (np.diff(columns) > 0).all()
    moved = np.random.default_rng(1).normal(size=rows.shape)
    moved[:, columns] = rows[:, columns]
    np.testing.assert_array_equal(model.predict(moved), model.predict(rows))
    for column in columns:
        one = rows.copy()
        one[:, column] = -one[:, column] + 5
        assert (model.predict(one) != model.predict(rows)).any()


@pytest.mark.parametrize(
    "model",
    [
        LinearRegression(),
        GradientBoostingRegressor(init=LinearRegression(), **FEW),
        BaggingRegressor(n_estimators=2, max_features=3, random_state=0),
    ],
    ids=repr,
)
def test_other_models_are_not_taken_for_trees(model):
    assert split_columns(model.fit(*table())) is None


def test_a_constant_reward_needs_no_column():
    model = GradientBoostingRegressor(**FEW).fit(table()[0], np.ones(200))
    assert split_columns(model).tolist() == []


def test_distinct_pairs_are_those_of_runs_and_groups():
    rng = np.random.default_rng(2)
    context = np.repeat(rng.normal(size=(5, 2)), 4, axis=0)
    group = rng.integers(0, 3, 20)
    first, pair = distinct_pairs(context, group)
    np.testing.assert_array_equal(context[first][pair], context)
    np.testing.assert_array_equal(group[first][pair], group)
    assert len(first) == len({(i // 4, g) for i, g in enumerate(group)})
    assert distinct_pairs(context[:0], group[:0])[0].tolist() == []


def many(n: int = 60) -> Problem:
    return shipped_problem("random embeddings", n=n)


@pytest.mark.parametrize("name", ["one-hot", "embedding", "ordinal"])
def test_actions_are_alike_where_the_columns_of_their_features_are(name):
    view = tiny.view_of(many())
    features = ActionFeatures(view, name)
    everyone = np.arange(view.n_actions)
    values = features(everyone)
    for columns in ([], [0], list(range(values.shape[1]))):
        group = features.alike(np.array(columns, dtype=int))
        if name == "ordinal":
            assert group is None
            continue
        for a in everyone:
            for b in everyone:
                same = (values[a, columns] == values[b, columns]).all()
                assert (group[a] == group[b]) == same


@pytest.mark.parametrize("learner", ["gbm", "random-forest", "ridge"])
@pytest.mark.parametrize("features", ["one-hot", "embedding", "ordinal"])
@pytest.mark.parametrize("cross_fit", [1, 3])
def test_values_at_all_pairs_have_the_bits_of_one_prediction_each(
    learner, features, cross_fit, monkeypatch
):
    params: Any = (("n_estimators", 4),) if learner != "ridge" else ()
    problem = many()
    view = tiny.view_of(problem, Access.TARGET_POLICY)
    spec = RewardModel(learner, params, "action", features, cross_fit)
    reward = view.fitted(spec)
    row, action = (part.ravel() for part in np.indices((view.n, view.n_actions)))
    found = reward.pairs(view.context, row, action)
    together = reward(view.context[row], action)
    monkeypatch.setattr(FittedReward, "_alike", lambda *_: None)
    np.testing.assert_array_equal(reward.pairs(view.context, row, action), found)
    np.testing.assert_array_equal(reward(view.context[row], action), together)


@pytest.mark.parametrize(
    "estimator",
    [CAB(), CAB(threshold=0.7), Switch(), Switch(threshold="slope"), TMLE(), GroupIPW()],
    ids=repr,
)
def test_with_many_rows_models_are_asked_about_all_pairs_at_once(estimator, monkeypatch):
    problem = many()
    asked: list[int] = []
    pairs = PooledRegressor.predict

    def counted(self: PooledRegressor, features: np.ndarray) -> np.ndarray:
        asked.append(len(features))
        return pairs(self, features)

    monkeypatch.setattr(PooledRegressor, "predict", counted)
    values, calls = [], []
    for many_rows in (10**9, 1):
        monkeypatch.setattr(reward, "MANY_ROWS", many_rows)
        monkeypatch.setattr(partial_expectation, "MANY_ROWS", many_rows)
        asked.clear()
        values.append(run_on(FitCache(), estimator, problem))
        calls.append(sum(asked))
    assert values[1] == pytest.approx(values[0], rel=1e-9)
    assert calls[1] <= len(problem.action) < calls[0]


@pytest.mark.parametrize("learner", ["gbm", "random-forest"])
def test_trees_predict_without_the_zeros_of_indicators(learner, monkeypatch):
    """Chunks count the entries that are not 0; every bit is that of the whole table."""
    monkeypatch.setattr("ope_estimators.nuisance.reward.DENSE", 0)
    problem = many()
    # One action is never logged, and has no indicator.
    problem = replace(problem, action=np.where(problem.action == 1, 0, problem.action))
    view = tiny.view_of(problem, Access.TARGET_POLICY)
    reward = view.fitted(RewardModel(learner, (("n_estimators", 4),), "action", "one-hot", 1))
    (model,) = reward._models
    row, action = (part.ravel() for part in np.indices((view.n, view.n_actions)))
    context = view.context[row]
    assert len(np.unique(view.action)) < view.n_actions
    whole = model.predict(reward._features(context, action))
    sizes: list[int] = []
    predict = model.predict

    def sized(rows):
        sizes.append(rows.nnz)
        return predict(rows)

    model.predict = sized
    monkeypatch.setattr(arrays, "CHUNK_ENTRIES", 400)
    monkeypatch.setattr(FittedReward, "_alike", lambda *_: None)
    np.testing.assert_array_equal(reward(context, action), whole)
    filled = view.context.shape[1] + 1
    assert len(sizes) == -(-len(row) // (400 // filled))
    assert max(sizes) <= 400


def counted_rows(model) -> list[int]:
    """The number of rows of each later prediction."""
    sizes: list[int] = []
    predict = model.predict

    def counted(rows):
        sizes.append(rows.shape[0])
        return predict(rows)

    model.predict = counted
    return sizes


def test_a_model_of_few_splits_is_asked_few_times():
    """One stump on one action's indicator leaves two kinds of actions."""
    rng = np.random.default_rng(3)
    problem = many(80)
    view = tiny.view_of(problem, Access.TARGET_POLICY)
    stump = (("max_depth", 1), ("n_estimators", 1))
    reward = view.fitted(RewardModel("gbm", stump, "action", "one-hot", 1))
    assert view.n_actions is not None
    (model,) = reward._models
    calls = counted_rows(model)
    row, action = (part.ravel() for part in np.indices((view.n, view.n_actions)))
    reward.pairs(view.context, row, action)
    assert sum(calls) <= 2 * view.n < len(row)
    calls.clear()
    # Where contexts do not repeat there is nothing to gain.
    reward.logged(view.context, rng.permutation(view.action))
    assert sum(calls) == view.n


@pytest.mark.parametrize(("different", "asked"), [(5, 5), (6, 10)])
def test_pairs_are_evaluated_once_if_half_of_them_are_repeated(different, asked):
    problem = many(80)
    problem = replace(problem, reward=1.0 * (problem.action == problem.action[0]))
    view = tiny.view_of(problem, Access.TARGET_POLICY)
    stump = (("max_depth", 1), ("n_estimators", 1))
    reward = view.fitted(RewardModel("gbm", stump, "action", "one-hot", 1))
    (model,) = reward._models
    alike = reward._alike(reward._models)
    first = [int(np.argmax(alike == group)) for group in np.unique(alike)]
    assert len(first) == 2
    calls = counted_rows(model)
    action = np.full(10, first[0])
    action[: different - 5] = first[1]
    reward(np.repeat(view.context[:5], 2, axis=0), action)
    assert sum(calls) == asked


# --- the shared sum


SHARING: list[Estimator] = [
    DR("ridge"),
    SNDR(regressor="ridge"),
    DROS(regressor="ridge"),
    OffCEM("ridge"),
    MDR(regressor="ridge", reward="action"),
    DM("ridge", cross_fit=5),
]
ALL = Access.LOGGING_POLICY | Access.TARGET_POLICY | Access.EMBEDDING_DISTRIBUTION


def run_on(fit_cache: FitCache, estimator: Estimator, problem: Problem) -> float:
    view = View(problem, estimator.access, seed=DataSeed("sum", 0, 0), fit_cache=fit_cache)
    estimator.fit(view, rng=np.random.default_rng(0), device="cpu")
    value = estimator.estimate(view).value
    assert not view.violations
    return value


def test_estimators_with_one_model_share_its_sum(monkeypatch):
    problem, sums = tiny.small().sample(50, np.random.default_rng(4)), []
    plain = FittedReward.logged_expected

    def counted(*given):
        sums.append(1)
        return plain(*given)

    monkeypatch.setattr(FittedReward, "logged_expected", counted)
    apart = [run_on(FitCache(), one, problem) for one in SHARING]
    assert len(sums) == len(SHARING)
    sums.clear()
    fit_cache = FitCache()
    assert [run_on(fit_cache, one, problem) for one in SHARING] == apart
    assert len(sums) == 1
    # A model with weights of its own has a sum of its own.
    run_on(fit_cache, MRDR("ridge"), problem)
    assert len(sums) == 2


def test_the_shared_sum_is_the_one_over_the_target_policy():
    world = tiny.small()
    problem = world.sample(40, np.random.default_rng(5))
    view = tiny.view_of(problem, Access.TARGET_POLICY)
    spec = RewardModel("gbm", (("n_estimators", 5),), "action", "one-hot", 2)
    found = view.fitted(ExpectedReward(spec))
    reward = view.fitted(spec)
    x = problem.context[:, 0].astype(int)
    exact = sum(world.pi1[x, a] * reward.logged(view.context, np.full(40, a)) for a in range(3))
    np.testing.assert_allclose(found, exact, rtol=1e-12)
    assert not found.flags.writeable
    assert nuisance_key(ExpectedReward(spec), "cpu") in view.fitted_keys()
