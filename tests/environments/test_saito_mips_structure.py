"""`saito-mips` with rewards that embeddings do not tell, and with groups of actions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ope_bench.contracts.data import Problem, Truth
from ope_environments.saito.mips import SaitoMIPS
from ope_environments.synthetic.linear_score import ActionScore

Draw = Callable[..., tuple[Problem, Truth]]


def small(**changes: object) -> SaitoMIPS:
    settings: dict[str, object] = {
        "n_actions": 12,
        "n_samples": 4000,
        "d_context": 3,
        "n_cat_per_dim": 3,
        "reward_std": 0.5,
        "truth_contexts": 4096,
    }
    return SaitoMIPS(**{**settings, **changes})  # type: ignore[arg-type]


def world_of(**changes: object):  # type: ignore[no-untyped-def]
    return small(**changes).world(np.random.default_rng([0, 0]))


def test_the_own_part_has_its_standard_deviation_over_actions_and_contexts() -> None:
    own = ActionScore(world_of(n_actions=3000, own_std=0.7).own)
    values = own(np.random.default_rng(1).normal(size=(500, 3)))
    assert values.std() == pytest.approx(0.7, rel=0.03)
    assert abs(values.mean()) < 0.03


def test_the_own_part_is_in_the_score_and_in_the_rewards(draw: Draw) -> None:
    environment = small(own_std=1.5, reward_std=0.0)
    problem, _ = draw(environment)
    with_own, without = world_of(own_std=1.5), world_of()
    np.testing.assert_allclose(
        with_own.score.weights - without.score.weights, with_own.own, atol=1e-12
    )
    expected = ActionScore(with_own.own).at(problem.context, problem.action)
    for dimension, affine in enumerate(with_own.rewards):
        code = problem.embedding[:, dimension].astype(int)
        expected += ActionScore(affine).at(problem.context, code)
    np.testing.assert_allclose(problem.reward, expected, atol=1e-12)


def test_the_own_part_biases_weights_of_embeddings_alone(draw: Draw) -> None:
    problem, truth = draw(small(n_samples=40_000, own_std=1.0, beta=0.5, epsilon=0.2))
    logging, target = problem.logging_policy, problem.target_policy
    embedding = problem.embedding_distribution
    assert logging is not None
    assert target is not None
    assert embedding is not None
    x, a, g = problem.context, problem.action, problem.embedding
    exact = target.probability(x, a) / problem.propensity
    pooled = embedding.marginal(target, x, g) / embedding.marginal(logging, x, g)
    errors = []
    for weight in (exact, pooled):
        terms = weight * problem.reward
        errors.append((terms.mean() - truth.expected) / (terms.std() / 200.0))
    assert abs(errors[0]) < 4.0
    assert abs(errors[1]) > 10.0


def test_actions_of_a_group_have_its_embeddings() -> None:
    tables = world_of(n_groups=4, within_std=0.0).tables
    for table in tables:
        np.testing.assert_array_equal(table, table[np.arange(12) % 4])
        assert len(np.unique(table, axis=0)) == 4
    near = world_of(n_groups=4, within_std=0.1).tables[0]
    within = np.abs(near - near[np.arange(12) % 4]).max()
    between = np.abs(near[:4, None] - near[None, :4]).max()
    assert 0 < within < between / 3


def test_without_groups_an_action_has_the_logits_that_it_always_had() -> None:
    """Groups with the logits of none: only an action's own are left, times `within_std`."""
    plain = world_of().tables[0]
    grouped = world_of(n_groups=1, within_std=1.0).tables[0]
    ratio = np.log(plain) - np.log(grouped)
    # One group adds the same to all actions, up to the normalization of each.
    centered = ratio - ratio.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(centered, np.broadcast_to(centered[0], centered.shape), atol=1e-12)


def test_more_actions_leave_the_first_ones_as_they_are() -> None:
    few, many = (world_of(n_actions=n, own_std=1.0, n_groups=3) for n in (12, 20))
    np.testing.assert_array_equal(few.own, many.own[:, :12])
    for one, other in zip(few.tables, many.tables, strict=True):
        np.testing.assert_array_equal(one, other[:12])
    for one, other in zip(few.rewards, world_of().rewards, strict=True):
        np.testing.assert_array_equal(one, other)
