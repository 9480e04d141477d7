"""The default reward model: the joint minimum of a linear mixed model, from its parts."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from ope_bench import Column, Problem, Schema, TargetPolicy, estimate
from ope_bench.base.errors import ParameterError, UnavailableError
from ope_bench.contracts.policies import Uniform
from ope_estimators.actions.direct.dm import DM
from ope_estimators.actions.direct.dm_paper import DMPaper
from ope_estimators.actions.direct.dm_star_paper import DMStarPaper
from ope_estimators.actions.doubly_robust.dr import DR
from ope_estimators.actions.doubly_robust.mrdr import MRDR
from ope_estimators.embedded.known.edm import EDM
from ope_estimators.embedded.known.edm_paper import EDMPaper
from ope_estimators.embedded.learned.edr import EDR
from ope_estimators.learning import pooled, pooled_sums
from ope_estimators.learning.learners import fit_weighted, fitted, regressor
from ope_estimators.learning.per_action import PENALTIES
from ope_estimators.learning.pooled import PooledRegressor
from ope_estimators.learning.quadratic import PENALTIES as QUADRATIC
from ope_estimators.learning.quadratic import QuadraticRegressor
from ope_estimators.nuisance.pooled import PooledRewardModel, pooled_parts
from ope_estimators.nuisance.reward import RewardModel
from support import tiny_worlds as tiny
from support.small_logs import log_of_columns

D, E = 2, 3
"""Columns of the context and of the embedding."""


LIMITS = {0: (0, 0), D * E: (0, 100), 15: (100, 0)}
"""Limits of squares and of products, by the number of products that follows."""


def rows_of(n=90, n_actions=5, seed=0):
    """Action number, context and embedding; every action has an intercept and slopes."""
    rng = np.random.default_rng(seed)
    action = rng.choice(n_actions, n, p=np.arange(1, n_actions + 1) / math.comb(n_actions + 1, 2))
    context = rng.normal(size=(n, D)) * [1.0, 4.0] + [0.0, 7.0]
    embedding = rng.normal(size=(n_actions, E))[action]
    own = rng.normal(size=(n_actions, D + 1))
    mean = own[action, 0] + (own[action, 1:] * context).sum(axis=1) / 4 + embedding[:, 0]
    return np.column_stack([action, context, embedding]), mean + 0.5 * rng.normal(size=n)


def limited(number, *, by_action=True, **params):
    squares, products = LIMITS[number]
    limits = {"max_squares": squares, "max_products": products}
    return PooledRegressor(D, by_action=by_action, **limits, **params)


def linear(penalties=QUADRATIC):
    return PooledRegressor(None, max_squares=0, penalties=penalties)


def standardized(table, share):
    mean = share @ table
    return (table - mean) / np.sqrt(share @ np.square(table - mean))


def joint_minimum(table, y, model, weight=None):
    """Minimize (w * (y - c - Z b - Phi d)²).sum() + p |b|² + shrinkage |d|² by one solve."""
    weight = np.ones(len(y)) if weight is None else weight / weight.mean()
    share = weight / weight.sum()
    action, rest = table[:, 0].astype(int), standardized(table[:, 1:], share)
    basis = rest
    d = rest.shape[1]
    products = {
        0: [],
        D * E: [(i, j) for i in range(D) for j in range(D, d)],
        d * (d + 1) // 2: [(i, j) for i in range(d) for j in range(i, d)],
    }
    if model.n_products_:
        first, second = np.transpose(products[model.n_products_])
        basis = standardized(np.hstack([rest, rest[:, first] * rest[:, second]]), share)
    phi = np.column_stack([np.ones(len(y)), rest[:, :D] / math.sqrt(D)])
    own = np.zeros((len(y), action.max() + 1, D + 1))
    own[np.arange(len(y)), action] = phi
    own = own.reshape(len(y), -1)
    design = np.column_stack([np.ones(len(y)), basis, own])
    penalty = np.diag(
        [0.0, *[model.penalty_] * basis.shape[1], *[model.shrinkage_] * own.shape[1]]
    )
    gram = design.T @ (weight[:, None] * design) + penalty
    return design @ np.linalg.solve(gram, design.T @ (weight * y))


@pytest.mark.parametrize("number", LIMITS)
def test_all_parts_are_the_joint_minimum(number):
    table, y = rows_of()
    model = limited(number).fit(table, y)
    assert model.n_products_ == number
    assert model.predict(table) == pytest.approx(joint_minimum(table, y, model), abs=1e-7)


@pytest.mark.parametrize("number", LIMITS)
def test_with_weights_too(number):
    table, y = rows_of()
    weight = np.random.default_rng(1).exponential(size=len(y))
    model = fit_weighted(limited(number), table, y, weight)
    expected = joint_minimum(table, y, model, weight)
    assert model.predict(table) == pytest.approx(expected, abs=1e-7)


def test_rows_of_weight_zero_count_no_more_than_rows_left_out():
    table, y = rows_of()
    weight = np.where(np.arange(len(y)) % 3, 1.0, 0.0)
    kept = weight > 0
    all_rows = fit_weighted(linear(), table[:, 1:], y, weight)
    some = linear().fit(table[kept, 1:], y[kept])
    # The penalty is chosen on errors that weights of zero leave out as well.
    assert all_rows.penalty_ == pytest.approx(some.penalty_ * len(y) / kept.sum(), rel=1.5)
    once = linear([some.penalty_]).fit(table[kept, 1:], y[kept])
    more = linear([some.penalty_ * len(y) / kept.sum()])
    fit_weighted(more, table[:, 1:], y, weight)
    assert more.predict(table[:, 1:]) == pytest.approx(once.predict(table[:, 1:]))


def test_the_shrinkage_has_the_largest_marginal_likelihood():
    """With c and m at 0, rewards are normal with covariance sigma² (I + Phi Phi' / shrinkage)."""
    table, y = rows_of(n_actions=8)
    table[:, 3:] = 0.0
    model = limited(0, penalties=[1e12]).fit(table, y)
    share = np.full(len(y), 1 / len(y))
    rest = standardized(table[:, 1 : 1 + D], share)
    phi = np.column_stack([np.ones(len(y)), rest / math.sqrt(D)])
    same = table[:, 0][:, None] == table[:, 0]

    def likelihood(shrinkage, residual):
        root = np.eye(len(y)) + same * (phi @ phi.T) / shrinkage
        noise = residual @ np.linalg.solve(root, residual) / len(y)
        return multivariate_normal(cov=noise * root).logpdf(residual)

    # c is that of generalized least squares, given the shrinkage.
    covariance = np.eye(len(y)) + same * (phi @ phi.T) / model.shrinkage_
    solved = np.linalg.solve(covariance, np.column_stack([np.ones(len(y)), y]))
    center = solved[:, 1].sum() / solved[:, 0].sum()
    best = max(PENALTIES, key=lambda one: likelihood(one, y - center))
    assert model.shrinkage_ == pytest.approx(best, rel=0.4)
    assert PENALTIES[0] < model.shrinkage_ < PENALTIES[-1]


def test_an_action_that_was_never_logged_has_the_common_part_alone():
    table, y = rows_of()
    model = limited(0).fit(table, y)
    unseen = table.copy()
    unseen[:, 0] = 99
    deviation, model.deviation_ = model.deviation_, np.zeros_like(model.deviation_)
    assert model.predict(unseen) == pytest.approx(model.predict(table))
    model.deviation_ = deviation
    assert abs(model.predict(unseen) - model.predict(table)).max() > 0.1


@pytest.mark.parametrize("number", LIMITS)
def test_all_pairs_by_their_sides_are_the_pairs_one_by_one(number):
    table, y = rows_of()
    seen = table[:, 0] != 3
    model = limited(number).fit(table[seen], y[seen])
    context, points = table[:7, 1 : 1 + D], np.random.default_rng(2).normal(size=(5, E))
    pairs = np.column_stack(
        [np.tile(np.arange(5), 7), np.repeat(context, 5, axis=0), np.tile(points, (7, 1))]
    )
    assert model.everywhere(context, points) == pytest.approx(model.predict(pairs), abs=1e-9)
    plain = limited(number, by_action=False).fit(table[:, 1:], y)
    found = plain.everywhere(context, points)
    assert found == pytest.approx(plain.predict(pairs[:, 1:]), abs=1e-9)


def test_without_actions_it_is_the_quadratic_regression():
    table, y = rows_of()
    peer = QuadraticRegressor().fit(table[:, 1:], y)
    model = fitted(regressor("pooled", seed=0), table[:, 1:], y, None)
    assert model.penalty_ == peer.penalty_
    assert model.predict(table[:, 1:]) == pytest.approx(peer.predict(table[:, 1:]))


def test_units_are_held_out_whole():
    table, y = rows_of(n=120)
    unit = np.arange(120) // 4
    y = y + 3.0 * np.random.default_rng(5).normal(size=30)[unit]
    model = PooledRegressor(None).fit(table[:, 1:], y, unit)
    peer = QuadraticRegressor().fit(table[:, 1:], y, unit)
    assert model.penalty_ == peer.penalty_
    assert model.penalty_ != PooledRegressor(None).fit(table[:, 1:], y).penalty_


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("number", LIMITS)
def test_fits_of_many_rows_by_sums_of_products_are_those_of_rows(number, bounded, monkeypatch):
    table, y = rows_of(n=400)
    table[:, 4] = table[:, 3] > 0  # the same in each action, and so an axis without variance
    table[:, 2] = 1.0
    by_rows = limited(number, bounded=bounded).fit(table, y)
    monkeypatch.setattr(pooled, "MANY_ROWS", 399)
    monkeypatch.setattr(pooled_sums, "BLOCK", 16)
    monkeypatch.setattr(pooled, "_groups", None)
    model = limited(number, bounded=bounded).fit(table, y)
    assert (model.penalty_, model.shrinkage_) == (by_rows.penalty_, by_rows.shrinkage_)
    assert model.predict(table) == pytest.approx(by_rows.predict(table), abs=1e-8)
    assert model.deviation_ == pytest.approx(by_rows.deviation_, abs=1e-8)
    # The penalty of a few rows is another one.
    monkeypatch.setattr(pooled_sums, "JUDGED", 40)
    few = limited(number, bounded=bounded).fit(table, y)
    assert few.predict(table) == pytest.approx(model.predict(table), abs=0.5)
    assert not np.array_equal(few.predict(table), by_rows.predict(table))


def test_a_common_model_of_many_rows_needs_no_actions(monkeypatch):
    table, y = rows_of(n=400)
    by_rows = linear().fit(table[:, 1:], y)
    monkeypatch.setattr(pooled, "MANY_ROWS", 399)
    model = linear().fit(table[:, 1:], y)
    assert model.predict(table[:, 1:]) == pytest.approx(by_rows.predict(table[:, 1:]), abs=1e-9)
    assert not np.array_equal(model.linear_, by_rows.linear_)


def test_wide_tables_are_solved_by_iteration(monkeypatch):
    table, y = rows_of()
    exact = limited(0, penalties=[float(D + E)]).fit(table, y)
    monkeypatch.setattr(pooled, "MAX_SIDE", 3)
    model = limited(0).fit(table, y)
    assert model.penalty_ == D + E
    assert model.predict(table) == pytest.approx(exact.predict(table), abs=1e-6)


def problem_of(embedding, schema=None, n=200, seed=3):
    """Rewards grow with the action's number; the last action is never logged."""
    n_actions = len(embedding)
    rng = np.random.default_rng(seed)
    context = rng.normal(size=(n, D))
    policy = Uniform(n_actions)
    action = rng.integers(0, n_actions - 1, n)
    return Problem(
        context,
        action,
        embedding[action],
        rng.normal(size=n) + 4.0 * action / n_actions,
        context,
        action,
        embedding[action],
        n_actions=n_actions,
        logging_policy=policy,
        target_policy=policy,
        propensity=np.full(n, 1 / n_actions),
        action_embedding=embedding,
        schema=schema,
    )


@pytest.mark.parametrize(("width", "used"), [(4, 4), (5, 0)])
def test_embeddings_that_only_tell_actions_apart_are_left_out(width, used):
    view = tiny.view_of(problem_of(np.eye(6)[:, :width]))
    features, _ = pooled_parts(view, ())
    assert features(view.context, view.action).shape[1] == 1 + D + used


@pytest.mark.parametrize("name", ["dm", "sndr"])
def test_many_actions_of_which_nothing_is_known_have_their_own_parts_alone(name):
    """As if their embeddings were too wide to be used."""
    rng = np.random.default_rng(0)
    columns = {"x": rng.normal(size=900), "a": np.arange(900) % 300, "p": np.full(900, 1 / 300)}
    columns |= {"r": rng.normal(size=900) + columns["a"] / 100, "q": rng.uniform(size=900)}
    target = TargetPolicy(table=rng.dirichlet(np.ones(300), 900))
    wide = {f"e{j}": rng.normal(size=300) for j in range(201)} | {"a": np.arange(300)}
    plain, described = (
        estimate(log_of_columns(columns, target=target, **items), name)[name].value
        for items in ({}, {"items": wide})
    )
    assert plain is not None
    assert plain == described


@pytest.mark.parametrize("cls", [DM, DR, MRDR])
def test_ten_thousand_actions_with_their_numbers_as_categories(cls):
    number = np.arange(10_000.0)[:, None]
    schema = Schema((Column(),) * D, (Column("categorical", tuple(number[:, 0])),))
    view = tiny.view_of(problem_of(number, schema), cls().access)
    tracemalloc.start()
    reward = cls(cross_fit=2).fit(view, rng=np.random.default_rng(0), device="cpu").reward_
    assert tracemalloc.get_traced_memory()[1] < 200 * 10_000 * 8
    tracemalloc.stop()
    never = np.setdiff1d(np.arange(10_000), view.action)[:50]
    values = reward(np.tile(view.context[:1], (50, 1)), never)
    assert np.ptp(values) == 0
    assert view.reward.min() < values[0] < view.reward.max()


@pytest.mark.parametrize("cross_fit", [1, 3])
def test_sums_over_actions_are_those_of_pairs(cross_fit):
    view = tiny.view_of(problem_of(np.random.default_rng(0).normal(size=(9, E))))
    reward = view.fitted(PooledRewardModel((), cross_fit))
    context = view.context[:11]
    pairs = reward(np.repeat(context, 9, axis=0), np.tile(np.arange(9), 11))
    assert reward.everywhere(context, 9) == pytest.approx(pairs)
    assert reward.beside(context, np.arange(9)) == pytest.approx(pairs.reshape(11, 9))
    by_row = reward.pairs(view.context, np.repeat(np.arange(11), 9), np.tile(np.arange(9), 11))
    expected = reward.logged_expected(Uniform(9), view.context)[:11]
    assert expected == pytest.approx(by_row.reshape(11, 9).mean(axis=1))


def test_sums_over_embeddings_are_those_of_pairs():
    view = tiny.view_of(problem_of(np.random.default_rng(0).normal(size=(9, E))))
    reward = view.fitted(RewardModel("pooled", on="embedding", cross_fit=2))
    context, points = view.context[:11], view.action_embedding
    pairs = reward(np.repeat(context, 9, axis=0), np.tile(points, (11, 1)))
    assert reward.beside(context, points) == pytest.approx(pairs.reshape(11, 9))
    boosted = view.fitted(RewardModel("gbm", (("n_estimators", 3),), on="embedding"))
    pairs = boosted(np.repeat(context, 9, axis=0), np.tile(points, (11, 1)))
    assert boosted.beside(context, points).reshape(-1).tolist() == pairs.tolist()


def test_neither_context_nor_embedding_leaves_the_means_of_actions():
    problem = problem_of(np.zeros((5, 1)))
    none = np.zeros((200, 0))
    schema = Schema((), (Column(),))
    problem = replace(problem, context=none, target_context=none, schema=schema)
    view = tiny.view_of(problem)
    reward = view.fitted(PooledRewardModel((), 1))
    values = reward.everywhere(view.context[:1], 5)
    means = [view.reward[view.action == a].mean() for a in range(4)]
    assert values[:4] == pytest.approx(means, abs=0.3)
    assert values[4] == pytest.approx(np.mean(means), abs=0.3)


def test_continuous_actions_have_no_parts_of_their_own():
    problem = problem_of(np.eye(5))
    view = tiny.view_of(replace(problem, n_actions=None, logging_policy=None, target_policy=None))
    with pytest.raises(UnavailableError, match="continuous"):
        view.fitted(PooledRewardModel((), 1))


@pytest.mark.parametrize("cls", [DM, MRDR])
def test_a_choice_of_action_features_is_refused_where_it_would_be_ignored(cls):
    with pytest.raises(ParameterError, match="name a regressor"):
        tiny.run(cls(action_features="embedding"), problem_of(np.eye(5)))


def far_out(n=400, seed=0):
    """Rewards of 0 and 1; one context value in a thousand is ten times any other."""
    rng = np.random.default_rng(seed)
    action, context = rng.integers(0, 3, n), rng.normal(size=(n, D))
    context[7] = [55.0, 0.0]
    slope = 0.25 * context[:, 0] + 0.1 * context[:, 1]
    chance = np.clip(0.4 + slope + 0.25 * (action == 1), 0.0, 1.0)
    table = np.column_stack([action, context, rng.normal(size=(n, E))])
    return table, (rng.random(n) < chance).astype(float)


def explained(model, table, y):
    """R2 of the rows that each fifth of the rows is not fitted to."""
    fold = np.arange(len(y)) % 5
    found = np.empty(len(y))
    for k in range(5):
        found[fold == k] = model.fit(table[fold != k], y[fold != k]).predict(table[fold == k])
    return 1 - np.square(y - found).mean() / y.var()


def test_a_value_far_outside_costs_a_bounded_fit_nothing():
    table, y = far_out()
    rest = np.arange(len(y)) != 7
    plain = explained(PooledRegressor(D, by_action=True), table, y)
    bounded = explained(PooledRegressor(D, by_action=True, bounded=True), table, y)
    without = explained(PooledRegressor(D, by_action=True), table[rest], y[rest])
    assert plain < -0.5
    assert bounded > without - 0.02


def test_bounded_fits_predict_as_at_the_ends_of_what_they_have_seen():
    table, y = far_out()
    model = PooledRegressor(D, by_action=True, bounded=True).fit(table[:200], y[:200])
    low, high = model.columns_
    assert high[0] == 55.0
    far, near = table[200:].copy(), table[200:].copy()
    far[:, 1], near[:, 1] = 1e9, high[0]
    assert model.predict(far).tolist() == model.predict(near).tolist()
    far[:, 2], near[:, 2] = -1e9, low[1]
    assert model.predict(far).tolist() == model.predict(near).tolist()
    assert (low >= table[:200, 1:].min(axis=0)).all()


def test_bounded_fits_predict_within_the_outcomes_that_they_have_seen():
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.integers(0, 2, 200), rng.normal(size=(200, D + E))])
    y = 2.0 * table[:, 1] + 0.1 * rng.normal(size=200)
    kept = np.abs(y) < 1.0
    plain, model = (
        PooledRegressor(D, by_action=True, bounded=bounded).fit(table[kept], y[kept])
        for bounded in (False, True)
    )
    assert np.ptp(plain.predict(table[kept])) > np.ptp(y[kept])
    found = model.predict(table)
    assert (found.min(), found.max()) == (y[kept].min(), y[kept].max())
    inside = np.abs(plain.predict(table[kept])) < 0.9
    assert model.predict(table[kept])[inside] == pytest.approx(plain.predict(table[kept])[inside])


def test_rows_of_weight_zero_set_no_bounds():
    table, y = far_out()
    y[7] = 100.0
    weight = np.where(np.arange(len(y)) == 7, 0.0, 1.0)
    model = PooledRegressor(D, by_action=True, bounded=True)
    fit_weighted(model, table, y, weight)
    assert model.outcomes_ == (0.0, 1.0)
    assert model.columns_[1][0] < 10.0


def test_squares_of_a_bounded_fit_are_those_of_clipped_columns():
    """What one value far outside adds is linear: its square is that of the fourth deviation."""
    table, y = far_out()
    model = PooledRegressor(D, by_action=True, bounded=True, penalties=[1e-6]).fit(table, y)
    model.outcomes_ = (-np.inf, np.inf)
    line = np.repeat(table[:1], 3, axis=0)
    line[:, 1] = [35.0, 45.0, 55.0]
    first, second, third = model.predict(line)
    assert third - second == pytest.approx(second - first, abs=1e-9)
    model.bounded = False
    first, second, third = model.predict(line)
    assert third - second != pytest.approx(second - first, abs=1e-3)


def test_all_pairs_of_a_bounded_fit_are_the_pairs_one_by_one():
    table, y = far_out()
    model = PooledRegressor(D, by_action=True, bounded=True).fit(table[20:], y[20:])
    context, points = table[:9, 1 : 1 + D], 9 * np.random.default_rng(2).normal(size=(3, E))
    pairs = np.column_stack(
        [np.tile(np.arange(3), 9), np.repeat(context, 3, axis=0), np.tile(points, (9, 1))]
    )
    assert model.everywhere(context, points) == pytest.approx(model.predict(pairs), abs=1e-9)
    assert model.predict(pairs).max() == 1.0


@pytest.mark.parametrize("name", ["mixed", "pooled", "gbm", "gbm-exact", "ridge"])
@pytest.mark.parametrize("unit", [1e-8, 1e-3, 1e6])
def test_reward_models_do_not_depend_on_the_unit_of_the_rewards(name, unit):
    """Trees split nothing that gains less than a constant."""
    if name == "gbm-exact":
        pytest.importorskip("xgboost")
    table, y = far_out()
    columns = {"a": table[:, 0].astype(int), "p": np.full(len(y), 1 / 3)}
    columns |= {"x": table[:, 1], "z": table[:, 2]}
    one, other = (
        estimate(
            log_of_columns(
                columns | {"r": rewards},
                target=TargetPolicy(table=np.eye(3)[1:2].repeat(len(y), 0)),
            ),
            f"dm[regressor={name}]",
        )["dm"]
        for rewards in (y, unit * y)
    )
    assert other.value == pytest.approx(unit * one.value, rel=1e-3)
    assert other.value != pytest.approx(unit * y.mean(), rel=1e-2)


@pytest.mark.parametrize("cls", [DM, DR, EDM, EDR])
def test_it_is_the_default(cls):
    assert cls().regressor == "mixed"


@pytest.mark.parametrize("cls", [DMPaper, DMStarPaper, EDMPaper])
def test_forms_of_the_paper_keep_gradient_boosting(cls):
    assert cls().regressor == "gbm"
