"""A reward model for each action, between separate least squares and one common model."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from sklearn import linear_model
from sklearn.linear_model import LinearRegression

from ope_bench import Problem
from ope_bench.base.errors import ParameterError, UnavailableError
from ope_bench.contracts.policies import Softmax, Tabular
from ope_bench.contracts.view import Access, View
from ope_bench.testing.problems import GaussianPolicy
from ope_estimators.actions.direct.dm import DM
from ope_estimators.actions.direct.dm_star import DMStar
from ope_estimators.actions.doubly_robust.dr import DR
from ope_estimators.learning.learners import regressor
from ope_estimators.learning.per_action import PENALTIES, OwnRegressor, PerActionRegressor
from ope_estimators.nuisance.separate import SeparateRewardModel
from support import tiny_worlds as tiny

D = 2
HUGE = 1e15


def rows_of(n=120, n_actions=4, seed=0, own=1.0, noise=0.5):
    """Action, context and outcome; every action has its own intercept and slopes."""
    rng = np.random.default_rng(seed)
    action, context = rng.integers(0, n_actions, n), rng.normal(size=(n, D))
    context[:, 1] = 3.0 * context[:, 1] + 10.0
    slopes = rng.normal(size=(n_actions, D + 1)) * own
    mean = slopes[action, 0] + (context * slopes[action, 1:]).sum(axis=1) + context[:, 0]
    return action, context, mean + noise * rng.normal(size=n)


def fitted(action, context, y, shrinkage=None):
    table = np.column_stack([action, context, context])
    return PerActionRegressor(LinearRegression(), D, shrinkage).fit(table, y)


def predicted(model, action, context):
    return model.predict(np.column_stack([action, context, context]))


def test_without_shrinkage_it_is_least_squares_on_each_action_alone():
    action, context, y = rows_of()
    found = predicted(fitted(action, context, y, 0.0), action, context)
    for a in range(4):
        rows = action == a
        alone = LinearRegression().fit(context[rows], y[rows]).predict(context[rows])
        assert found[rows] == pytest.approx(alone, abs=1e-9)


def test_with_endless_shrinkage_it_is_the_common_model():
    action, context, y = rows_of()
    common = LinearRegression().fit(context, y).predict(context)
    assert predicted(fitted(action, context, y, HUGE), action, context) == pytest.approx(common)


def test_deviations_solve_the_ridge_normal_equations():
    action, context, y = rows_of()
    penalty = 7.0
    found = predicted(fitted(action, context, y, penalty), action, context)
    common = LinearRegression().fit(context, y).predict(context)
    scaled = (context - context.mean(axis=0)) / context.std(axis=0) / np.sqrt(D)
    phi = np.column_stack([np.ones(len(y)), scaled])
    for a in range(4):
        mine = phi[action == a]
        gram = mine.T @ mine + penalty * np.eye(D + 1)
        b = np.linalg.solve(gram, mine.T @ (y - common)[action == a])
        assert found[action == a] == pytest.approx(common[action == a] + mine @ b)


def test_as_many_rows_as_the_shrinkage_bring_an_intercept_half_way():
    action = np.repeat([0, 1], 10)
    context = np.zeros((20, D))
    y = np.repeat([1.0, 3.0], 10)
    found = predicted(fitted(action, context, y, 10.0), action, context)
    assert found == pytest.approx(np.repeat([1.5, 2.5], 10))


def test_an_action_without_rows_has_the_common_model():
    action, context, y = rows_of(n_actions=5)
    kept = action != 2
    model = fitted(action[kept], context[kept], y[kept], 0.0)
    common = LinearRegression().fit(context[kept], y[kept])
    for unseen in (2, 17):
        at = np.full(3, unseen)
        assert predicted(model, at, context[:3]) == pytest.approx(common.predict(context[:3]))


def test_the_shrinkage_chosen_has_the_largest_marginal_likelihood():
    action, context, y = rows_of(n=60, n_actions=6, own=0.4)
    model = fitted(action, context, y)
    residual = y - LinearRegression().fit(context, y).predict(context)
    scaled = (context - context.mean(axis=0)) / context.std(axis=0) / np.sqrt(D)
    phi = np.column_stack([np.ones(len(y)), scaled])
    same = action[:, None] == action

    def minus_twice_log(penalty):
        shape = np.eye(len(y)) + np.where(same, phi @ phi.T, 0.0) / penalty
        noise = residual @ np.linalg.solve(shape, residual) / len(y)
        return len(y) * np.log(noise) + np.linalg.slogdet(shape)[1]

    values = [minus_twice_log(penalty) for penalty in PENALTIES]
    assert model.shrinkage_ == PENALTIES[int(np.argmin(values))]


def test_actions_alike_are_pooled_and_actions_unlike_are_not():
    alike = fitted(*rows_of(n=400, n_actions=20, own=0.0)).shrinkage_
    unlike = fitted(*rows_of(n=400, n_actions=20, own=3.0)).shrinkage_
    assert alike > 50
    assert unlike < 1


def test_rewards_without_noise_are_finite_and_exact():
    action, context, y = rows_of(noise=0.0)
    assert predicted(fitted(action, context, y), action, context) == pytest.approx(y, abs=1e-4)
    constant = fitted(action, context, np.full(len(y), 2.5))
    assert predicted(constant, action, context) == pytest.approx(np.full(len(y), 2.5))


@pytest.mark.parametrize("cls", [DM, DMStar, DR])
def test_separate_models_without_shrinkage_tend_to_the_value(cls):
    world = tiny.small().but(categorical=True)
    separate = {"action_features": "separate", "regressor_params": {"shrinkage": 0.0}}
    estimate = tiny.run(cls(regressor="linear", **separate, cross_fit=1), world.population())
    assert estimate.value == pytest.approx(world.value, abs=1e-9)
    common = {"action_features": "separate", "regressor_params": {"shrinkage": HUGE}}
    if cls is not DR:
        off = tiny.run(cls(regressor="linear", **common), world.population()).value - world.value
        assert abs(off) > 0.02


@pytest.mark.parametrize("cross_fit", [1, 3])
def test_endless_shrinkage_is_the_model_on_embeddings(cross_fit):
    problem = tiny.small().sample(60, np.random.default_rng(0))
    linear = {"regressor": "linear", "cross_fit": cross_fit}
    pooled = {**linear, "action_features": "embedding"}
    shrunk = {**linear, "action_features": "separate", "regressor_params": {"shrinkage": HUGE}}
    one, other = (tiny.run(DM(**params), problem) for params in (shrunk, pooled))
    # Which rows share a fold is drawn for each model, so only one model of all rows is the same.
    if cross_fit == 1:
        assert one.value == pytest.approx(other.value)
    assert np.isfinite(one.value)


def test_a_row_is_never_predicted_by_a_model_that_has_seen_it():
    problem = tiny.small().but(noise=0.0, categorical=True).sample(60, np.random.default_rng(1))
    view = tiny.view_of(problem)
    spec = SeparateRewardModel("ridge", (), 3)
    before = view.fitted(spec).logged(view.context, view.action)
    changed = problem.reward.copy()
    changed[7] += 100.0
    other = tiny.view_of(replace(problem, reward=changed))
    after = other.fitted(spec).logged(view.context, view.action)
    assert after[7] == before[7]
    assert (after != before).any()


def test_other_configurations_keep_their_identity():
    spec = SeparateRewardModel("ridge", (("shrinkage", 2.0),), 1)
    assert repr(spec) == (
        "SeparateRewardModel(learner='ridge', params=(('shrinkage', 2.0),), cross_fit=1)"
    )


@pytest.mark.parametrize("wrong", [-1.0, "much", True])
def test_a_wrong_shrinkage_is_one_clear_error(wrong):
    problem = tiny.small().sample(10, np.random.default_rng(0))
    params = {"shrinkage": wrong}
    with pytest.raises(ParameterError, match="expected a number >= 0"):
        tiny.run(DM("ridge", action_features="separate", regressor_params=params), problem)


def continuous():
    rng = np.random.default_rng(0)
    x, a = rng.normal(size=(20, 1)), rng.normal(size=20)
    policy = GaussianPolicy(1.0, 0.0, 1.0)
    return Problem(x, a, a[:, None], a, x, a, a[:, None], n_actions=None, target_policy=policy)


def test_continuous_actions_have_no_separate_models():
    problem = continuous()
    with pytest.raises(UnavailableError, match="'separate' is for finitely many actions"):
        tiny.run(DM("ridge", action_features="separate"), problem)


def test_a_thousand_actions_need_no_table_of_rows_and_actions():
    n, n_actions = 3_000, 1_000
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 3))
    a = rng.integers(0, n_actions, n)
    score = rng.normal(size=(3, n_actions))
    problem = Problem(
        x,
        a,
        x[:, :1],
        rng.normal(size=n),
        x,
        a,
        x[:, :1],
        n_actions=n_actions,
        target_policy=Softmax(lambda context: context @ score, n_actions),
    )
    tracemalloc.start()
    tiny.run(DM(action_features="separate", regressor="ridge"), problem)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * n_actions * 8


def test_estimators_with_the_same_separate_models_share_them():
    view = tiny.view_of(tiny.small().sample(30, np.random.default_rng(0)), Access.TARGET_POLICY)
    assert isinstance(view, View)
    fits = [
        cls(regressor="ridge", action_features="separate")
        .fit(view, rng=np.random.default_rng(k), device="cpu")
        .reward_
        for k, cls in enumerate((DM, DMStar))
    ]
    assert fits[0] is fits[1]


def test_own_models_are_those_of_each_action_alone():
    """Least squares on the rows of an action; the third was never logged and has the mean."""
    rng = np.random.default_rng(0)
    context, action = rng.normal(size=(60, 2)), rng.integers(2, size=60)
    reward = rng.normal(size=60)
    features = np.column_stack([action, context])
    model = OwnRegressor(lambda: regressor("linear", seed=0)).fit(features, reward)
    design = np.column_stack([np.ones(60), context])
    for a in (0, 1):
        rows = action == a
        own = np.linalg.lstsq(design[rows], reward[rows], rcond=None)[0]
        found = model.predict(np.column_stack([np.full(60, a), context]))
        np.testing.assert_allclose(found, design @ own)
    never = model.predict(np.column_stack([np.full(60, 2), context]))
    np.testing.assert_allclose(never, reward.mean())
    single = OwnRegressor(lambda: regressor("linear", seed=0)).fit(features[:1], reward[:1])
    np.testing.assert_allclose(single.predict(features), reward[0])


@pytest.mark.parametrize("reference", ["LinearRegression", "LogisticRegression"])
def test_dm_of_own_models_is_that_of_released_code_with_a_model_for_each_action(reference):
    """Written again: action by action, probabilities of a classifier, no model where none can be.

    The third action always earns 1, the fourth was never logged.
    """
    rng = np.random.default_rng(2)
    x, a = rng.normal(size=(90, 2)), rng.choice(3, 90, p=[0.5, 0.3, 0.2])
    chance = np.where(a == 2, 1.0, 1 / (1 + np.exp(-x[:, 0] * (a + 1) - 0.3)))
    y = (rng.random(90) < chance).astype(float)
    wanted = np.array([0.1, 0.2, 0.3, 0.4])
    problem = Problem(
        x, a, np.eye(4)[a], y, None, None, None, 4, propensity=np.full(90, 0.25),
        target_policy=Tabular(wanted[None], lambda c: np.zeros(len(c), dtype=int)),
    )  # fmt: skip
    table = np.full((90, 4), y.mean())
    for k in (0, 1, 2):
        rows = a == k
        if len(set(y[rows])) == 1:
            table[:, k] = y[rows][0]
            continue
        model = getattr(linear_model, reference)().fit(x[rows], y[rows])
        probability = getattr(model, "predict_proba", None)
        table[:, k] = model.predict(x) if probability is None else probability(x)[:, 1]
    learner = f"sklearn.linear_model.{reference}"
    found = tiny.run(DM(learner, action_features="own", cross_fit=1), problem)
    assert found.value == pytest.approx(float((table @ wanted).mean()), abs=1e-12)
    logged = table[np.arange(90), a]
    doubly = float((table @ wanted + wanted[a] / 0.25 * (y - logged)).mean())
    found = tiny.run(DR(learner, action_features="own", cross_fit=1), problem)
    assert found.value == pytest.approx(doubly, abs=1e-12)


def test_own_models_need_finitely_many_actions_and_a_regressor():
    with pytest.raises(UnavailableError, match="'own' is for finitely many actions"):
        tiny.run(DM("ridge", action_features="own"), continuous())
    with pytest.raises(ParameterError, match="'own' is for other regressors"):
        tiny.run(DM(action_features="own"), tiny.small().sample(50, np.random.default_rng(0)))
