"""`saito-mips`: enumerated rewards and weights, hidden dimensions, deficient support."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import kstest

from ope_bench.base.errors import ParameterError
from ope_bench.contracts.data import Problem, Truth
from ope_bench.contracts.embeddings import FactoredEmbedding
from ope_environments.saito.deficient_softmax import DeficientSoftmax
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


def policies(problem: Problem) -> tuple[DeficientSoftmax, DeficientSoftmax]:
    return problem.logging_policy, problem.target_policy  # type: ignore[return-value]


def weights(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    logging, target = policies(problem)
    embedding = problem.embedding_distribution
    assert embedding is not None
    x, g = problem.context, problem.embedding
    by_embedding = embedding.marginal(target, x, g) / embedding.marginal(logging, x, g)
    return target.probability(x, problem.action) / problem.propensity, by_embedding


def test_each_dimensions_reward_is_standardized_over_contexts_and_categories() -> None:
    world = small(eta="equal", d_context=4).world(np.random.default_rng(0))
    context = np.random.default_rng(1).normal(size=(200_000, 4))
    for reward in world.rewards:
        q = 3.0 * ActionScore(reward)(context)
        assert abs(q.mean()) < 0.02
        assert abs(q.std() - 1.0) < 0.02


def test_the_score_is_the_expected_reward_over_the_joint_embedding(draw: Draw) -> None:
    environment = small()
    problem, _ = draw(environment)
    world = environment.world(np.random.default_rng([0, 0]))
    embedding = problem.embedding_distribution
    assert isinstance(embedding, FactoredEmbedding)
    atoms = embedding.support()
    assert atoms is not None
    x = problem.context[:20]
    reward = np.zeros((20, len(atoms)))
    for d, affine in enumerate(world.rewards):
        reward += ActionScore(affine)(x)[:, atoms[:, d].astype(int)]
    for action in range(12):
        mass = embedding.probability(atoms, np.full(len(atoms), action))
        q = policies(problem)[0]._score(x)[:, action]
        np.testing.assert_allclose(reward @ mass, q, atol=1e-12)


@pytest.mark.parametrize("eta", ["dirichlet-uniform", "dirichlet", "equal"])
def test_weighted_logs_agree_with_the_truth(draw: Draw, eta: str) -> None:
    problem, truth = draw(small(n_samples=40_000, beta=0.5, epsilon=0.3, eta=eta))
    for weight in weights(problem):
        assert abs(weight.mean() - 1.0) < 4.0 * weight.std() / 200.0
        error = math.hypot((weight * problem.reward).std() / 200.0, truth.expected_se)
        assert abs((weight * problem.reward).mean() - truth.expected) < 4.0 * error


@pytest.mark.parametrize("optimal", [True, False])
def test_the_mean_target_reward_scatters_around_the_truth(draw: Draw, optimal: bool) -> None:
    drawn = [draw(small(optimal=optimal, beta=0.0), 3, i, i) for i in range(20)]
    error = np.array([truth.empirical - truth.expected for _, truth in drawn])
    assert abs(error.mean()) < 4.0 * error.std(ddof=1) / math.sqrt(20)
    logged = np.mean([problem.reward.mean() for problem, _ in drawn])
    assert bool(drawn[0][1].expected > logged) is optimal


def test_replicates_of_one_world_are_independent(draw: Draw) -> None:
    environment = small(n_samples=3000)
    first, _ = draw(environment, 0, 1, 2)
    second, _ = draw(environment, 0, 3, 4)
    np.testing.assert_array_equal(
        policies(first)[0].table(first.context[:5]), policies(second)[0].table(first.context[:5])
    )
    # Uniforms that are seeded anew for each batch would show as actions that move together.
    for name in ("action", "reward", "context"):
        one, two = (np.ravel(getattr(p, name))[:3000] for p in (first, second))
        assert abs(np.corrcoef(one, two)[0, 1]) < 4.0 / math.sqrt(3000)
    assert abs(np.corrcoef(first.embedding[:, 0], first.embedding[:, 1])[0, 1]) < 0.5


def test_noise_is_normal_around_the_reward_of_the_embedding(draw: Draw) -> None:
    environment = small(reward_std=2.5)
    problem, _ = draw(environment)
    world = environment.world(np.random.default_rng([0, 0]))
    mean = sum(
        ActionScore(affine).at(problem.context, problem.embedding[:, d].astype(int))
        for d, affine in enumerate(world.rewards)
    )
    assert kstest((problem.reward - mean) / 2.5, "norm").pvalue > 1e-4


def test_unobserved_dimensions_are_hidden_and_bias_the_exact_weights(draw: Draw) -> None:
    seen, truth = draw(small(n_samples=40_000, n_cat_dim=4, eta="equal"))
    hidden, same = draw(small(n_samples=40_000, n_cat_dim=4, n_unobserved=3, eta="equal"))
    assert same == truth
    assert hidden.embedding.shape == (40_000, 1)
    np.testing.assert_array_equal(hidden.embedding, seen.embedding[:, 3:])
    np.testing.assert_array_equal(hidden.reward, seen.reward)
    assert len(hidden.schema.embedding) == 1  # type: ignore[union-attr]
    _, full = weights(seen)
    _, partial = weights(hidden)
    assert abs(partial.mean() - 1.0) < 4.0 * partial.std() / 200.0
    assert partial.var() < full.var()
    error = (partial * seen.reward).std() / 200.0
    assert abs((partial * seen.reward).mean() - truth.expected) > 10.0 * error


def test_hiding_every_dimension_is_refused(draw: Draw) -> None:
    with pytest.raises(ParameterError, match="n_unobserved = 3"):
        draw(small(n_unobserved=3))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_deficient_support_gives_importance_weighting_its_exact_bias(
    draw: Draw, share: float
) -> None:
    problem, truth = draw(small(n_samples=40_000, deficient_share=share, epsilon=0.4))
    logging, target = policies(problem)
    table = logging.table(problem.context)
    missing = table == 0.0
    np.testing.assert_array_equal(missing.sum(axis=1), int(share * 12))
    assert (problem.propensity > 0).all()
    supported = logging.supported(problem.context, problem.action)
    assert supported.all()
    # bias = -E sum over unsupported a of pi1(a|x) q(x, a); w.mean() = supported target mass.
    wanted = target.table(problem.context) * missing
    bias = -(wanted * logging._score(problem.context)).sum(axis=1)
    weight, _ = weights(problem)
    shortfall = weight - (1.0 - wanted.sum(axis=1))
    assert abs(shortfall.mean()) < 4.0 * shortfall.std() / 200.0
    off = weight * problem.reward - truth.expected - bias
    assert abs(off.mean()) < 4.0 * math.hypot(off.std() / 200.0, truth.expected_se)
    assert not logging.full_support


def test_every_action_is_left_out_equally_often() -> None:
    policy = DeficientSoftmax(ActionScore(np.zeros((3, 10))), n_deficient=4)
    context = np.random.default_rng(0).normal(size=(20_000, 2))
    share = (policy.table(context) == 0).mean(axis=0)
    assert (np.abs(share - 0.4) < 4.0 * math.sqrt(0.24 / 20_000)).all()
    action = np.arange(20_000) % 10
    np.testing.assert_array_equal(
        policy.supported(context, action), policy.probability(context, action) > 0
    )


def test_settings_of_the_target_leave_the_logs_alone(draw: Draw) -> None:
    first, _ = draw(small())
    second, _ = draw(small(epsilon=0.9, optimal=False, truth_contexts=64, shared_contexts=True))
    for name in ("context", "action", "embedding", "reward", "propensity"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    np.testing.assert_array_equal(second.target_context, second.context)


def test_memory_is_bounded_by_chunks_and_not_by_rows_times_actions(draw: Draw) -> None:
    environment = small(n_actions=2000, n_samples=10_000, n_cat_per_dim=5)
    table_bytes = 8 * 2000 * 10_000
    tracemalloc.start()
    problem, _ = draw(environment)
    _, by_embedding = weights(problem)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < table_bytes / 6, peak
    assert abs(by_embedding.mean() - 1.0) < 0.1
