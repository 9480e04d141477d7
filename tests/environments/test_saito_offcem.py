"""`saito-offcem`: the value by enumeration, the two effects, users and clusters."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import PolynomialFeatures

from ope_bench import evaluate
from ope_bench.contracts.data import Problem, Truth
from ope_environments.saito.offcem import OffCEMWorld, SaitoOffCEM, _world

Draw = Callable[..., tuple[Problem, Truth]]


def small(**changes: Any) -> SaitoOffCEM:
    settings: dict[str, Any] = {"n_actions": 30, "n_clusters": 4, "n_users": 40}
    return SaitoOffCEM(**{**settings, **changes})


def world(n_users: int = 400, n_actions: int = 60, n_clusters: int = 3) -> OffCEMWorld:
    return _world(1, (n_users, 8, n_actions, n_clusters), (4, 3, 4.0))


def steps(user: np.ndarray) -> np.ndarray:
    """The four steps of a context, as the paper's generator has them: (n, 4)."""
    rows = [
        [
            1 / np.mean(x[[0, 1, 2]]) < 1.5,
            1 / np.mean(x[[2, 3, 4, 5, 6, 7]]) < -0.5,
            np.mean(x[[1, 2]]) > 3.0,
            np.mean(x[5:]) < 1.0,
        ]
        for x in user
    ]
    return np.array(rows, dtype=np.float64)


@pytest.mark.parametrize("settings", [{}, {"embedding": "categories"}, {"beta": 0.5}], ids=str)
def test_samples_agree_with_the_value(
    check: SimpleNamespace, draw: Draw, settings: dict[str, Any]
) -> None:
    environment = small(n_samples=4000, **settings)
    check.scatter_around_the_value([draw(environment, 0, k, k)[1] for k in range(20)])
    check.weigh_to_the_value(*draw(small(n_samples=60_000, **settings)))


def test_the_value_is_the_mean_over_users_of_the_greedy_reward(draw: Draw) -> None:
    environment = small(n_samples=10, epsilon=0.3)
    seed = int(np.random.default_rng([0, 0]).integers(2**63))
    made = _world(seed, (40, 10, 30, 4), (10, 5, 4.0))
    total = 0.0
    for u in range(40):
        q = [made.cluster_effect[u, made.cluster[a]] + made.residual[u, a] for a in range(30)]
        total += 0.7 * max(q) + 0.3 * sum(q) / 30
    assert draw(environment)[1].expected == pytest.approx(total / 40, abs=1e-12)


def test_logging_is_a_softmax_of_the_reward(draw: Draw) -> None:
    population = small(beta=-0.7).population(np.random.default_rng([0, 0]))
    user = np.arange(40)
    q = np.array([[population.reward_at(np.array([u]), np.array([a]))[0] for a in range(30)]
                  for u in user])  # fmt: skip
    weights = np.exp(-0.7 * q)
    expected = weights / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(population.logging.table(population.context), expected)
    target = population.target.table(population.context)
    np.testing.assert_array_equal(target.argmax(axis=1), q.argmax(axis=1))
    np.testing.assert_allclose(np.sort(target, axis=1)[:, -1], 0.8 + 0.2 / 30)


def test_the_effect_of_clusters_is_cubic_plus_steps() -> None:
    """165 products of at most three of eight columns, and four steps, explain it fully."""
    made = world()
    cubic = PolynomialFeatures(3).fit_transform(made.user)
    assert cubic.shape[1] == 165
    jumps = steps(made.user)
    moving = jumps.std(axis=0) > 0
    design = np.column_stack([cubic, jumps[:, moving]])
    coefficient, _, _, _ = np.linalg.lstsq(design, made.cluster_effect, rcond=None)
    np.testing.assert_allclose(design @ coefficient, made.cluster_effect, atol=1e-8)
    heights = coefficient[165:]
    np.testing.assert_allclose(heights, heights[:, :1] * np.ones(3), atol=1e-8)
    assert (np.abs(heights) <= 3).all()
    assert (np.abs(heights[:, 0]) > 0.01).all()
    smooth = made.cluster_effect - jumps[:, moving] @ heights
    assert smooth.std() == pytest.approx(3.0)
    assert smooth.mean() == pytest.approx(0.0, abs=1e-8)
    # Every cluster has coefficients of its own.
    assert np.abs(np.corrcoef(smooth.T)[np.triu_indices(3, 1)]).max() < 0.9
    without_cubes = PolynomialFeatures(2).fit_transform(made.user)
    fit = without_cubes @ np.linalg.lstsq(without_cubes, smooth, rcond=None)[0]
    assert np.square(smooth - fit).mean() > 0.1


def test_the_residual_effect_is_bilinear_and_standardized_within_a_cluster() -> None:
    made = world()
    categories = np.eye(3)[made.category][:, :, 1:].reshape(60, -1)
    x = np.column_stack([np.ones(400), made.user])
    for one in range(3):
        among = made.cluster == one
        assert among.sum() > 8 + 1
        part = made.residual[:, among]
        assert part.mean() == pytest.approx(0.0, abs=1e-12)
        assert part.std() == pytest.approx(1.0)
        slopes = np.linalg.lstsq(x, part, rcond=None)[0]
        np.testing.assert_allclose(x @ slopes, part, atol=1e-8)
        a = np.column_stack([np.ones(among.sum()), categories[among]])
        np.testing.assert_allclose(
            a @ np.linalg.lstsq(a, slopes.T, rcond=None)[0], slopes.T, atol=1e-8
        )
        assert slopes.std(axis=1).min() > 0


def test_categories_follow_their_logits_and_clusters_are_nearly_even() -> None:
    sharp = _world(3, (5, 8, 4000, 5), (1, 4, 8.0)).category[:, 0]
    np.testing.assert_allclose(np.bincount(sharp) / 4000, 0.25, atol=0.03)
    share = np.bincount(_world(3, (5, 8, 4000, 5), (2, 4, 4.0)).cluster) / 4000
    assert (np.abs(share - 0.2) < 0.1).all()


def test_rows_of_a_user_are_one_unit_and_embeddings_are_the_clusters(draw: Draw) -> None:
    problem, _ = draw(small(n_samples=500))
    assert problem.unit is not None
    for unit in np.unique(problem.unit):
        assert len(np.unique(problem.context[problem.unit == unit], axis=0)) == 1
    assert 30 < len(np.unique(problem.unit)) <= 40
    shown, hidden = (draw(small(n_samples=500, embedding=one))[0] for one in
                     ("cluster", "categories"))  # fmt: skip
    np.testing.assert_array_equal(shown.reward, hidden.reward)
    assert shown.action_embedding is not None
    assert shown.action_embedding.shape == (30, 1)
    assert hidden.embedding.shape == (500, 10)


def test_given_clusters_are_found_by_offcem() -> None:
    (record,) = evaluate(
        'offcem[regressor=ridge,clusters=4]', small(n_samples=400), replicates=1
    )  # fmt: skip
    assert record.diagnostics["clusters"] == 4
