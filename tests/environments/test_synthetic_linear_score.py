"""The shortcuts of affine scores agree with the table they avoid."""

from __future__ import annotations

import numpy as np
import pytest

from ope_bench.contracts import arrays
from ope_bench.plugins.registry import registry
from ope_environments.synthetic.linear_score import (
    PRUNE_FROM,
    SINGLE_FROM,
    ActionScore,
    LinearGreedy,
    greedy_value,
)


def weights(kind: str, n_actions: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    axes = {"a line": 1, "a plane": 2, "one point": 0, "space": 3}.get(kind, 7)
    points = rng.normal(size=(4 if axes < 4 else 8, axes)) @ rng.normal(size=(axes, n_actions))
    return points + rng.normal(size=(len(points), 1))


@pytest.mark.parametrize(
    "kind", ["a line", "a plane", "one point", "space", "too many dimensions"]
)
@pytest.mark.parametrize("n_actions", [3, PRUNE_FROM])
def test_the_contenders_hold_the_best_action_of_every_context(kind: str, n_actions: int) -> None:
    score = ActionScore(weights(kind, n_actions))
    context = np.random.default_rng(1).normal(size=(300, len(score.weights) - 1))
    policy = LinearGreedy(score, 0.1)
    best = score.at(context, policy.greedy(context))
    np.testing.assert_allclose(best, score(context).max(axis=1), rtol=1e-12, atol=1e-12)
    if n_actions == PRUNE_FROM and kind != "too many dimensions":
        assert len(score.contenders()) < 200


def test_a_policy_that_prunes_has_the_table_of_one_that_does_not() -> None:
    score = ActionScore(weights("a plane", PRUNE_FROM))
    context = np.random.default_rng(1).normal(size=(20, 3))
    table = LinearGreedy(score, 0.3).table(context)
    np.testing.assert_allclose(table.sum(axis=1), 1.0)
    np.testing.assert_array_equal(table.argmax(axis=1), score(context).argmax(axis=1))


def test_value_and_mean_are_those_of_the_table() -> None:
    score = ActionScore(weights("space", 9))
    context = np.random.default_rng(1).normal(size=(20, 3))
    policy = LinearGreedy(score, 0.3)
    table = score(context)
    np.testing.assert_allclose(score.mean(context), table.mean(axis=1))
    np.testing.assert_allclose(
        greedy_value(score, policy, context), (policy.table(context) * table).sum(axis=1)
    )


@pytest.mark.parametrize("name", ["saito-toy", "saito-mips", "logs", "multiclass", "gaussian"])
def test_a_granted_policy_names_no_reward_and_no_value(name: str) -> None:
    """What an estimator may hold says how actions are chosen, not what they earn."""
    problem, _ = (
        registry()
        .find("environment", name)
        .cls(n_samples=50)
        .sample(
            world_rng=np.random.default_rng(0),
            logged_rng=np.random.default_rng(1),
            target_rng=np.random.default_rng(2),
        )
    )
    for policy in (problem.logging_policy, problem.target_policy):
        public = {word for word in dir(policy) if not word.startswith("_")}
        assert not public & {"score", "value", "reward", "logits", "contenders", "weights"}


def test_the_best_of_very_many_actions_is_found_span_by_span(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    weights = rng.integers(-2, 3, size=(11, 2_600)).astype(float)
    policy = LinearGreedy(ActionScore(weights), 0.1)
    context = rng.integers(-2, 3, size=(150, 10)).astype(float)
    # Whole numbers, so that there are ties and no rounding.
    scores = np.column_stack([np.ones(150), context]) @ weights
    assert (np.sort(scores, axis=1)[:, -1] == np.sort(scores, axis=1)[:, -2]).any()
    np.testing.assert_array_equal(policy.best(context), scores.argmax(axis=1))
    monkeypatch.setattr(arrays, "CHUNK_ENTRIES", 2_048)
    np.testing.assert_array_equal(policy.best(context), scores.argmax(axis=1))


def test_the_best_action_is_that_of_scores_in_double_precision() -> None:
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(11, SINGLE_FROM))
    context = rng.normal(size=(2_000, 10))
    design = np.column_stack([np.ones(len(context)), context])
    policy = LinearGreedy(ActionScore(weights), 0.1)
    assert policy._best_in_single(context)[1].mean() > 0.99
    np.testing.assert_array_equal(policy.best(context), (design @ weights).argmax(axis=1))
    # Scores that single precision cannot tell apart, of every second action and the next one.
    weights[:, 1::2] = weights[:, ::2] * (1.0 + 1e-9 * rng.normal(size=SINGLE_FROM // 2))
    policy = LinearGreedy(ActionScore(weights), 0.1)
    exact = (design @ weights).argmax(axis=1)
    found, certain = policy._best_in_single(context)
    assert (found != exact).any()
    assert not certain.any()
    np.testing.assert_array_equal(policy.best(context), exact)


@pytest.mark.parametrize("scale", [1e-300, 1e-60, 1e-43, 1e38, 1e60])
@pytest.mark.parametrize("of", ["weights", "context"])
def test_the_best_action_is_found_beyond_the_range_of_single_precision(
    scale: float, of: str
) -> None:
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(11, SINGLE_FROM))
    weights[0] = 0.0
    context = rng.normal(size=(300, 10))
    best = (context @ weights[1:]).argmax(axis=1)
    if of == "weights":
        weights *= scale
    else:
        context *= scale
    policy = LinearGreedy(ActionScore(weights), 0.1)
    # Row by row, because one uncertain row has all of its chunk computed again.
    found = np.concatenate([policy.best(row) for row in context[:, None]])
    np.testing.assert_array_equal(found, best)


def test_a_sum_that_overflows_in_single_precision_is_not_the_best() -> None:
    weights = np.zeros((4, SINGLE_FROM))
    weights[1:, 3], weights[1, 5] = (2.0, 2.0, -2.0), 2.1
    policy = LinearGreedy(ActionScore(weights), 0.1)
    np.testing.assert_array_equal(policy.best(np.full((2, 3), 1.5e38)), 5)
