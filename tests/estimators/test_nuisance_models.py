"""Folds, features, reward models and policy models."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ope_bench.base.errors import UnavailableError
from ope_bench.contracts.data import Column, Problem, Schema
from ope_bench.contracts.policies import Uniform
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import Access, FitCache, View
from ope_estimators.features.actions import ActionFeatures, encoded
from ope_estimators.learning.folds import fold_of, folds
from ope_estimators.nuisance.policy import PolicyModel
from ope_estimators.nuisance.reward import RewardModel, expectation

NEAREST = "sklearn.neighbors.KNeighborsRegressor"
"""With one neighbor it remembers what it saw: it betrays a row that it should not know."""


def problem_of(n=12, *, shared=False, n_actions=4, schema=None, seed=0, **changes) -> Problem:
    rng = np.random.default_rng(seed)
    context = rng.normal(size=(n, 2))
    arrays = {
        "context": context,
        "action": rng.integers(0, 3, n),
        "embedding": rng.normal(size=(n, 2)),
        "reward": rng.normal(size=n),
        "target_context": context if shared else rng.normal(size=(n + 3, 2)),
        "target_action": rng.integers(0, 3, n if shared else n + 3),
        "target_embedding": rng.normal(size=(n if shared else n + 3, 2)),
    }
    settings = {"n_actions": n_actions, "schema": schema, "shared_contexts": shared}
    return Problem(**(arrays | settings | changes))


def view_of(problem: Problem) -> View:
    return View(problem, Access.SAMPLES, seed=DataSeed("t", 0, 0), fit_cache=FitCache())


@pytest.mark.parametrize(("n", "k"), [(10, 5), (11, 3), (2, 5)])
def test_folds_are_as_equal_as_they_can_be(n, k):
    counts = np.bincount(fold_of(n, k, np.random.default_rng(0)), minlength=k)
    assert counts.max() - counts.min() <= 1
    assert counts.sum() == n


def test_rows_that_share_a_context_share_a_fold():
    logged, target = folds(view_of(problem_of(shared=True)), 3, np.random.default_rng(0))
    assert target.tolist() == logged.tolist()


def test_samples_without_shared_contexts_have_folds_of_equal_sizes_each():
    view = view_of(problem_of(shared=False))
    logged, target = folds(view, 3, np.random.default_rng(0))
    assert np.bincount(logged).tolist() == [view.n / 3] * 3
    assert np.bincount(target).tolist() == [view.m / 3] * 3


def test_a_cross_fitted_model_has_not_seen_the_row_it_predicts():
    problem = problem_of(30)
    view = view_of(problem)
    memory = {"learner": NEAREST, "params": (("n_neighbors", 1),), "on": "embedding"}
    in_sample = view.fitted(RewardModel(**memory))
    assert in_sample.logged(view.context, view.embedding) == pytest.approx(view.reward)
    crossed = view.fitted(RewardModel(**memory, cross_fit=3))
    assert not np.isclose(crossed.logged(view.context, view.embedding), view.reward).any()


def test_out_of_fold_predictions_are_those_of_models_fitted_by_hand():
    view = view_of(problem_of(20))
    spec = RewardModel("linear", on="embedding", cross_fit=2)
    fitted = spec.fit(view, rng=np.random.default_rng(5), device="cpu")
    fold = fold_of(20, 2, np.random.default_rng(5))
    table = np.column_stack([np.ones(20), view.context, view.embedding])
    expected = np.empty(20)
    both = []
    for k in range(2):
        solution = np.linalg.lstsq(table[fold != k], view.reward[fold != k], rcond=None)[0]
        expected[fold == k] = table[fold == k] @ solution
        both.append(solution)
    assert fitted.logged(view.context, view.embedding) == pytest.approx(expected)
    elsewhere = np.column_stack([np.ones(view.m), view.target_context, view.target_embedding])
    assert fitted(view.target_context, view.target_embedding) == pytest.approx(
        elsewhere @ np.mean(both, axis=0)
    )


def test_expected_rewards_sum_over_actions_with_each_rows_own_model():
    view = view_of(problem_of(18))
    fitted = view.fitted(RewardModel("ridge", cross_fit=3))
    uniform = Uniform(4)
    by_hand = np.mean([fitted.logged(view.context, np.full(18, a)) for a in range(4)], axis=0)
    assert fitted.logged_expected(uniform, view.context) == pytest.approx(by_hand)
    anywhere = np.mean([fitted(view.context, np.full(18, a)) for a in range(4)], axis=0)
    assert fitted.expected(uniform, view.context) == pytest.approx(anywhere)


def test_chunks_do_not_change_predictions(monkeypatch):
    view = view_of(problem_of(30))
    whole = view.fitted(RewardModel("ridge")).expected(Uniform(4), view.context)
    monkeypatch.setattr("ope_bench.contracts.arrays.CHUNK_ENTRIES", 16)
    parts = view_of(problem_of(30)).fitted(RewardModel("ridge")).expected(Uniform(4), view.context)
    assert parts == pytest.approx(whole, rel=1e-12)


def test_repeated_contexts_are_evaluated_once():
    asked = []

    def f(x, a):
        asked.append(len(x))
        return x[:, 0] + a

    context = np.repeat(np.array([[0.0], [5.0]]), 50, axis=0)
    values = expectation(Uniform(3), context, f)
    assert sum(asked) == 2 * 3
    assert values == pytest.approx(context[:, 0] + 1.0)


def test_a_policy_gets_the_contexts_themselves_where_few_repeat():
    """It may have cached what belongs to this very array."""

    class Asked(Uniform):
        def expect(self, context, f):
            self.asked = context
            return super().expect(context, f)

    policy, rows = Asked(3), np.array([[0.0, 1.0], [0.0, 2.0], [4.0, 2.0], [0.0, 1.0]])
    values = expectation(policy, rows, lambda x, a: x.sum(axis=1) * a)
    assert policy.asked is rows
    assert values == pytest.approx(rows.sum(axis=1))
    expectation(policy, np.repeat(rows[:2], 2, axis=0), lambda x, a: x[:, 0] * a)
    assert len(policy.asked) == 2


def test_categories_become_indicators_for_contexts_and_embeddings():
    columns = Column("categorical", (0.0, 1.0, 2.0)), Column()
    schema = Schema(columns, columns)
    codes = np.random.default_rng(1).integers(0, 3, 12).astype(float)
    mixed = np.column_stack([codes, np.arange(12.0)])
    view = view_of(problem_of(12, schema=schema, context=mixed, embedding=mixed))
    table = encoded(view.schema.context, view.context)
    assert table.shape == (12, 3)
    assert (table[:, 0] == (codes == 1)).all()
    assert (table[:, 1] == (codes == 2)).all()
    # Categories have no order: an in-between code is worth what its own rows say.
    reward = np.where(codes == 1, 10.0, 0.0)
    fitted = view_of(
        problem_of(12, schema=schema, context=mixed, embedding=mixed, reward=reward)
    ).fitted(RewardModel("linear", on="embedding"))
    assert fitted(mixed, mixed) == pytest.approx(reward)


def test_one_hot_knows_logged_actions_only():
    view = view_of(problem_of(action=np.array([0, 2] * 6)))
    features = ActionFeatures(view, "one-hot")
    assert features(np.array([0, 1, 2, 3])).tolist() == [[1, 0], [0, 0], [0, 1], [0, 0]]


def test_embedding_features_are_the_mean_over_both_samples():
    problem = problem_of()
    features = ActionFeatures(view_of(problem), "embedding")
    action = np.concatenate([problem.action, problem.target_action])
    embedding = np.vstack([problem.embedding, problem.target_embedding])
    for a in range(3):
        assert features(np.array([a]))[0] == pytest.approx(embedding[action == a].mean(axis=0))
    # Action 3 is in neither sample.
    assert features(np.array([3]))[0] == pytest.approx(embedding.mean(axis=0))


@pytest.mark.parametrize("name", ["one-hot", "ordinal", "embedding"])
def test_continuous_actions_are_their_own_feature(name):
    rng = np.random.default_rng(0)
    view = view_of(
        problem_of(n_actions=None, action=rng.normal(size=12), target_action=rng.normal(size=15))
    )
    assert ActionFeatures(view, name)(view.action) == pytest.approx(view.action[:, None])


def test_a_policy_model_gives_shares_and_zero_for_what_it_never_saw():
    codes = Schema((Column("categorical", (0.0, 1.0)), Column()), (Column(),) * 2)
    context = np.column_stack([np.repeat([0.0, 1.0], 20), np.zeros(40)])
    action = np.concatenate([np.repeat([1, 3], [5, 15]), np.repeat([1, 3], [10, 10])])
    problem = problem_of(40, schema=codes, context=context, action=action, n_actions=5)
    fitted = view_of(problem).fitted(PolicyModel("logged", params=(("C", 1e6),)))
    x = context[[0, 0, 0, 39, 39]]
    assert fitted.probability(x, np.array([1, 3, 0, 1, 4])) == pytest.approx(
        [0.25, 0.75, 0.0, 0.5, 0.0], abs=1e-3
    )
    smooth = fitted.probability(x, np.array([1, 3, 0, 1, 4]), laplace=2.0)
    assert smooth == pytest.approx([12 / 50, 32 / 50, 2 / 50, 22 / 50, 2 / 50], abs=1e-3)


def test_smoothed_probabilities_sum_to_one():
    view = view_of(problem_of(30, n_actions=6))
    fitted = view.fitted(PolicyModel("target"))
    x = np.repeat(view.context, 6, axis=0)
    table = fitted.probability(x, np.tile(np.arange(6), 30), laplace=0.5).reshape(30, 6)
    assert table.sum(axis=1) == pytest.approx(np.ones(30))


def test_order_of_parameters_does_not_make_another_fit():
    one = RewardModel(params=(("a", 1), ("b", 2)))
    assert repr(one) == repr(RewardModel(params=(("a", 1), ("b", 2))))
    assert repr(one) != repr(RewardModel(params=(("a", 1), ("b", 3))))


@pytest.mark.parametrize("cross_fit", [1, 3])
def test_a_pair_is_predicted_by_the_model_fitted_without_its_row(cross_fit):
    view = view_of(problem_of(18))
    fitted = view.fitted(RewardModel("ridge", cross_fit=cross_fit))
    row, action = np.array([17, 3, 3, 0, 9, 17]), np.array([0, 1, 2, 0, 3, 0])
    every = np.array([fitted.logged(view.context, np.full(18, a)) for a in range(4)])
    assert fitted.pairs(view.context, row, action) == pytest.approx(every[action, row])


@pytest.mark.parametrize("learner", [NEAREST, "ridge", "gbm"])
@pytest.mark.parametrize("features", ["one-hot", "embedding"])
@pytest.mark.parametrize(("block", "dense"), [(2048, 256), (4, 0)])
def test_values_at_every_action_are_those_of_the_pairs(
    learner, features, block, dense, monkeypatch
):
    """Whether the models are linear, trees or neither, and wherever a chunk or a block ends."""
    view = view_of(problem_of(18))
    monkeypatch.setattr("ope_estimators.nuisance.reward.DENSE", dense)
    monkeypatch.setattr("ope_estimators.nuisance.reward.BLOCK", block)
    fitted = view.fitted(RewardModel(learner, action_features=features, cross_fit=3))
    monkeypatch.setattr("ope_bench.contracts.arrays.CHUNK_ENTRIES", 33)
    row, action = (part.ravel() for part in np.indices((view.m, 4)))
    every = []
    model: Any
    for model, _ in fitted.parts():
        every.append(model(view.target_context[row], action))
        assert model.everywhere(view.target_context, 4) == pytest.approx(every[-1])
    assert len(every) == 3
    whole = fitted.everywhere(view.target_context, 4)
    assert whole == pytest.approx(np.mean(every, axis=0))
    assert fitted(view.target_context[row], action) == pytest.approx(whole)


@pytest.mark.parametrize("logged", [4096, 4097])
def test_up_to_4096_logged_actions_have_indicators(logged):
    action = np.arange(logged)
    given = {"action": action, "n_actions": 5000, "context": np.zeros((logged, 1))}
    given |= {"reward": np.zeros(logged), "embedding": np.zeros((logged, 1))}
    view = SimpleNamespace(**given)
    if logged == 4096:
        assert ActionFeatures(view, "one-hot").width == 4096
    else:
        with pytest.raises(UnavailableError, match="of 4097 logged actions"):
            ActionFeatures(view, "one-hot")


@pytest.mark.parametrize(("different", "asked"), [(5, 5), (6, 10)])
def test_contexts_are_summed_once_if_half_of_them_are_repeated(different, asked):
    rows = np.repeat(np.arange(5.0), 2)[:, None]
    rows[: different - 5] = 9.0
    seen = []

    def f(x, a):
        seen.append(len(x))
        return x[:, 0] * a

    assert expectation(Uniform(3), rows, f) == pytest.approx(rows[:, 0])
    assert sum(seen) == 3 * asked
    # No column has many values, and yet most pairs of them are different.
    grid = np.array([[a, b] for a in (0.0, 1.0) for b in (0.0, 1.0)])
    policy = Uniform(3)
    seen.clear()
    expectation(policy, grid, f)
    assert sum(seen) == 3 * 4
    seen.clear()
    expectation(policy, np.repeat(grid, 2, axis=0), f)
    assert sum(seen) == 3 * 4


def test_a_target_row_is_predicted_without_its_unit_and_a_new_one_by_all_models():
    problem = problem_of(12, unit=np.arange(12), target_unit=np.arange(6, 21))
    view = view_of(problem)
    fitted = view.fitted(RewardModel("ridge", cross_fit=3))
    every = [model(view.target_context, view.target_action) for model, _ in fitted.parts()]
    fold = np.array([np.flatnonzero([rows[unit] for _, rows in fitted.parts()])[0]
                     for unit in range(6, 12)])  # fmt: skip
    found = fitted.at_target(view.target_context, view.target_action)
    assert found[:6] == pytest.approx(np.array(every)[fold, np.arange(6)])
    assert found[6:] == pytest.approx(np.mean(every, axis=0)[6:])
    assert len(set(fold)) > 1


def test_there_are_no_more_folds_than_units():
    fitted = view_of(problem_of(2)).fitted(RewardModel("ridge", cross_fit=5))
    assert [rows.tolist() for _, rows in fitted.parts()] in (
        [[True, False], [False, True]],
        [[False, True], [True, False]],
    )


@pytest.mark.parametrize("cross_fit", [1, 3])
def test_models_are_seeded_by_31_bits(cross_fit):
    asked = []

    class Counting:
        def __init__(self):
            self.rng = np.random.default_rng(0)

        def __getattr__(self, name):
            return getattr(self.rng, name)

        def integers(self, high):
            asked.append(high)
            return self.rng.integers(high)

    RewardModel("ridge", cross_fit=cross_fit).fit(
        view_of(problem_of()), rng=Counting(), device="cpu"
    )
    assert asked == [2**31] * cross_fit


def test_columns_of_one_kind_are_all_indicators_or_all_themselves():
    code, size = Column("categorical", (1.0, 2.0, 5.0)), Column()
    values = np.array([[2.0, 1.0], [1.0, 5.0]])
    assert encoded((code, code), values).tolist() == [[1, 0, 0, 0], [0, 0, 0, 1]]
    assert encoded((code,), values[:, :1]).tolist() == [[1, 0], [0, 0]]
    assert encoded((size, size), values) is values
