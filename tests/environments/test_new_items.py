"""The world of new items: support, limits and closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from ope_bench import FloatArray, Problem, Truth
from ope_environments.items.new_items import NewItems
from ope_environments.items.own_items import OwnItems
from ope_environments.synthetic.linear_score import ActionScore


def _sample(seed: int = 0, **parameters: object) -> tuple[Problem, Truth]:
    world, logged, target = (np.random.default_rng([seed, k]) for k in range(3))
    return NewItems(**parameters).sample(world_rng=world, logged_rng=logged, target_rng=target)


def _main_effect(seed: int, embedding: FloatArray) -> FloatArray:
    """f_0 of a world with two columns of context and embedding, from the docstring's formula."""
    rng = np.random.default_rng([seed, 0])
    frequency = rng.standard_normal((3, 2))[0]
    phase = rng.uniform(0.0, 2.0 * np.pi, (3, 1))[0]
    return np.sin(embedding @ frequency + phase)


@pytest.mark.parametrize("seed", range(3))
def test_a_uniform_target_has_the_mean_main_effect_of_its_items_as_value(seed: int) -> None:
    problem, truth = _sample(seed, n_items=5, n_samples=400, target_beta=0.0)
    own = problem.embedding_distribution.support()[5:]
    assert truth.expected == pytest.approx(_main_effect(seed, own).mean(), abs=5e-3)


def test_the_logs_show_no_item_of_the_target_policy_unless_some_are_shared() -> None:
    problem, _ = _sample(n_items=8, n_samples=500)
    logging, target = problem.logging_policy, problem.target_policy
    assert not logging.probability(problem.target_context, problem.target_action).any()
    assert not target.probability(problem.context, problem.action).any()
    problem, _ = _sample(n_items=8, n_samples=500, shared_share=0.5)
    assert problem.n_actions == 12
    assert set(problem.action) & set(problem.target_action) == {4, 5, 6, 7}
    problem, _ = _sample(n_items=8, n_samples=500, shared_share=1.0)
    assert problem.n_actions == 8


def test_rewards_do_not_depend_on_the_number_of_items() -> None:
    few, _ = _sample(n_items=3, n_samples=20, reward_std=0.0)
    many, _ = _sample(n_items=30, n_samples=20, reward_std=0.0)
    for problem in (few, many):
        effect = np.abs(problem.reward - _main_effect(0, problem.embedding))
        assert (effect <= 0.5 * np.abs(problem.context).sum(axis=1) + 1e-12).all()


def test_a_policy_of_its_own_items_is_its_table() -> None:
    rng = np.random.default_rng(0)
    policy = OwnItems(ActionScore(rng.normal(size=(3, 7))), first=2, own=4, beta=1.5)
    context, features = rng.normal(size=(6, 2)), rng.normal(size=(7, 3))
    table = policy.table(context)
    np.testing.assert_allclose(table.sum(axis=1), 1.0)
    assert not table[:, [0, 1, 6]].any()
    for action in range(7):
        of_one = policy.probability(context, np.full(6, action))
        np.testing.assert_allclose(of_one, table[:, action], atol=1e-15)
    np.testing.assert_allclose(policy.project(context, features), table @ features)
    value = policy.expect(context, lambda x, a: x[:, 0] + features[a, 0])
    np.testing.assert_allclose(value, context[:, 0] + table @ features[:, 0])
    drawn, probability = policy.draw(context, rng)
    np.testing.assert_allclose(probability, table[np.arange(6), drawn])
    assert ((drawn >= 2) & (drawn < 6)).all()


def test_with_many_items_the_ratio_of_masses_tends_to_a_density_ratio() -> None:
    """E over the target of f equals E over logs of w f, w = exp(q) over its mean, in the limit."""
    problem, truth = _sample(n_items=2000, n_samples=4000, reward_std=0.0, truth_contexts=256)
    logging = problem.logging_policy
    q = ActionScore(_weights(problem))
    weight = np.exp(q.at(problem.context, problem.action))
    normal = np.exp(q(problem.context)[:, :2000]).mean(axis=1)
    estimate = float((weight / normal * problem.reward).mean())
    assert logging.probability(problem.context[:1], problem.action[:1])[0] == 1 / 2000
    assert estimate == pytest.approx(truth.expected, abs=0.1)


def _weights(problem: Problem) -> FloatArray:
    """q of every item, by the docstring's formula."""
    rng = np.random.default_rng([0, 0])
    frequency = rng.standard_normal((3, 2))
    phase = rng.uniform(0.0, 2.0 * np.pi, (3, 1))
    items: FloatArray = problem.embedding_distribution.action_embedding  # type: ignore[union-attr,attr-defined]
    return np.array([[1.0], [0.5], [0.5]]) * np.sin(frequency @ items.T + phase)
