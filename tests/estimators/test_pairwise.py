"""Reward models fitted to differences within clusters first: what drops out, what is left."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ope_bench.base.errors import ParameterError
from ope_estimators.actions.direct.dm import DM
from ope_estimators.learning.learners import regressor
from ope_estimators.learning.pairwise import PairwiseRegressor, mean_differences
from ope_estimators.structure.offcem import OffCEM
from support import tiny_worlds as tiny

PAIRWISE: dict[str, Any] = {"reward": "pairwise", "regressor": "linear", "cross_fit": 3}


def table(n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cluster, context of two values, and an action of four, two in each cluster."""
    rng = np.random.default_rng(seed)
    action, x = rng.integers(0, 4, n), rng.integers(0, 2, n)
    features = np.column_stack([action // 2, x, x, np.eye(4)[action][:, 1:]]).astype(float)
    return features, action, x


def test_differences_written_out():
    context = np.array([[0.0], [0.0], [9.0], [9.0], [0.0]])
    cluster = np.array([0.0, 0, 0, 1, 1])
    outcome = np.array([1.0, 4.0, 7.0, 5.0, 3.0])
    difference, paired = mean_differences(context, cluster, outcome)
    # Rows 0 and 1 are neighbors; row 2 has no near row and takes the mean of both; as do 3 and 4.
    np.testing.assert_allclose(difference[[2, 3, 4]], [4.5, 2.0, -2.0])
    scaled = 9.0 / context.std() / (4.0 / (3 * 5)) ** (1 / 5)
    far = np.exp(-0.5 * scaled**2)
    np.testing.assert_allclose(difference[0], 1.0 - (4.0 + 7.0 * far) / (1 + far))
    np.testing.assert_allclose(difference[1], 4.0 - (1.0 + 7.0 * far) / (1 + far))
    assert paired.all()


def test_a_row_alone_in_its_cluster_has_no_difference():
    difference, paired = mean_differences(
        np.zeros((3, 1)), np.array([0.0, 0, 1]), np.array([1.0, 2, 9])
    )
    assert paired.tolist() == [True, True, False]
    np.testing.assert_allclose(difference, [-1.0, 1.0, 0.0])


def test_functions_of_context_and_cluster_drop_out_of_the_differences():
    """h orders the actions of a cluster although no linear model has the rest of the reward."""
    features, action, x = table()
    within = np.array([0.0, 2.0, 0.0, -3.0])[action]
    wild = 100.0 * ((action // 2) != x)
    model = PairwiseRegressor(lambda: regressor("linear", seed=0), 1).fit(features, within + wild)
    plain = regressor("linear", seed=0).fit(features[:, 1:], within + wild)
    each = np.column_stack([[0, 0, 1, 1], np.zeros(4), np.zeros(4), np.eye(4)[:, 1:]])
    predicted, known = model.predict(each), plain.predict(each[:, 1:])
    gaps = np.array([predicted[1] - predicted[0], predicted[3] - predicted[2]])
    off = np.array([known[1] - known[0], known[3] - known[2]]) - [2.0, -3.0]
    np.testing.assert_allclose(gaps, [2.0, -3.0], atol=0.25)
    assert np.abs(gaps - [2.0, -3.0]).max() < 0.5 * np.abs(off).max()


def test_an_additive_reward_is_found_exactly_by_both_steps():
    features, action, x = table()
    reward = np.array([0.0, 2.0, 5.0, 2.0])[action] + 3.0 * x
    model = PairwiseRegressor(lambda: regressor("linear", seed=0), 1).fit(features, reward)
    np.testing.assert_allclose(model.predict(features), reward, atol=0.5)
    # Without pairs all is left to the second step.
    features[:, 0] = np.arange(len(features))
    alone = PairwiseRegressor(lambda: regressor("linear", seed=0), 1).fit(features, reward)
    assert alone.within_ is None


def test_offcem_adds_weighted_residuals_of_the_pairwise_model():
    problem = tiny.small().sample(90, np.random.default_rng(0))
    one = OffCEM(clusters=[0, 0, 0], **PAIRWISE)
    view = tiny.view_of(problem, one.access)
    one.fit(view, rng=np.random.default_rng(0), device="cpu")
    model = one.reward_
    direct = model.logged_expected(view.target_policy, view.context)
    residual = problem.reward - model.logged(view.context, view.action)
    assert one.estimate(view).value == pytest.approx((direct + residual).mean())
    # Another model than one regression, shared among equal settings.
    assert tiny.run(DM("linear", cross_fit=3), problem).value != pytest.approx(direct.mean())
    again = OffCEM(clusters=[0, 0, 0], **PAIRWISE)
    assert again.fit(view, rng=np.random.default_rng(0), device="cpu").reward_ is model


def test_scale_and_order_of_rows():
    problem = tiny.small().sample(60, np.random.default_rng(0))
    from dataclasses import replace

    settings: dict[str, Any] = {**PAIRWISE, "cross_fit": 1, "clusters": 2}
    value = tiny.run(OffCEM(**settings), problem).value
    scaled = replace(problem, reward=3.0 * problem.reward)
    assert tiny.run(OffCEM(**settings), scaled).value == pytest.approx(3.0 * value)
    order = np.random.default_rng(1).permutation(60)
    logged = ("context", "action", "embedding", "reward", "propensity")
    moved = replace(problem, **{name: getattr(problem, name)[order] for name in logged})
    assert tiny.run(OffCEM(**settings), moved).value == pytest.approx(value)


def test_separate_models_have_no_pairwise_form():
    with pytest.raises(ParameterError, match="no form with action_features"):
        tiny.run(
            OffCEM(action_features="separate", **PAIRWISE),
            tiny.small().sample(30, np.random.default_rng(0)),
        )
