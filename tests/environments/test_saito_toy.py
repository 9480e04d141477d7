"""`saito-toy`: the printed formulas, enumerated on their own, and independent samples."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from ope_bench.base.errors import ParameterError
from ope_bench.contracts import arrays
from ope_bench.contracts.data import Problem, Truth
from ope_bench.contracts.embeddings import FiniteEmbedding
from ope_bench.contracts.parameters import validated
from ope_bench.contracts.policies import DiscretePolicy
from ope_environments.saito.toy import SaitoToy

Draw = Callable[..., tuple[Problem, Truth]]
LOGGED = ("context", "action", "embedding", "reward", "propensity")
TARGET = ("target_context", "target_action", "target_embedding")


def atoms_and_table(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    embedding = problem.embedding_distribution
    assert isinstance(embedding, FiniteEmbedding)
    return embedding.atoms, embedding.table


def test_rewards_are_the_printed_function_of_the_vector_and_the_context(draw: Draw) -> None:
    problem, _ = draw(SaitoToy(n_actions=20, n_samples=400))
    x, g = problem.context, problem.embedding
    # c'Bx_g + b_C.c + b_G.x_g without an intercept: eight coefficients explain all rows exactly.
    interaction = np.einsum("ni,nj->nij", x, g).reshape(len(x), -1)
    design = np.hstack([interaction, x, g])
    coefficients, residual, rank, _ = np.linalg.lstsq(design, problem.reward, rcond=None)
    assert rank == 8
    np.testing.assert_allclose(residual, 0.0, atol=1e-20)
    assert (np.abs(coefficients) < 1.0).all()


def test_policies_are_the_printed_ones_of_the_enumerated_reward(draw: Draw) -> None:
    problem, _ = draw(SaitoToy(n_actions=12, n_samples=300))
    atoms, table = atoms_and_table(problem)
    design = np.hstack(
        [
            np.einsum("ni,nj->nij", problem.context, problem.embedding).reshape(300, -1),
            problem.context,
            problem.embedding,
        ]
    )
    fitted = np.linalg.lstsq(design, problem.reward, rcond=None)[0]
    interaction, on_context, on_atom = fitted[:4].reshape(2, 2), fitted[4:6], fitted[6:]
    x = problem.context[:50]
    reward = x @ interaction @ atoms.T + (x @ on_context)[:, None] + atoms @ on_atom
    q = reward @ table.T
    logging = np.exp(-q) / np.exp(-q).sum(axis=1, keepdims=True)
    target = np.full_like(q, 0.1 / 12)
    target[np.arange(50), q.argmax(axis=1)] += 0.9
    assert isinstance(problem.logging_policy, DiscretePolicy)
    assert isinstance(problem.target_policy, DiscretePolicy)
    np.testing.assert_allclose(problem.logging_policy.table(x), logging, rtol=1e-9)
    np.testing.assert_allclose(problem.target_policy.table(x), target, rtol=1e-12)


@pytest.mark.parametrize("reward", ["paper", "mips"])
@pytest.mark.parametrize("shared", [True, False])
def test_the_mean_target_reward_scatters_around_the_truth(
    draw: Draw, reward: str, shared: bool
) -> None:
    environment = SaitoToy(
        n_actions=8,
        n_samples=2000,
        reward=reward,  # type: ignore[arg-type]
        reward_std=0.5,
        shared_contexts=shared,
    )
    truths = [draw(environment, 3, i, i)[1] for i in range(40)]
    empirical = np.array([truth.empirical for truth in truths])
    expected = np.array([truth.expected for truth in truths])
    error = empirical.std(ddof=1) / math.sqrt(40)
    assert abs(empirical.mean() - expected.mean()) < 4.0 * error
    # The same world has one truth; the replicates' answers differ by their standard errors.
    assert expected.std() < 3.0 * truths[0].expected_se
    assert len(np.unique(empirical)) == 40


def test_the_value_of_a_wave_is_enumerated_and_no_product_of_embedding_and_context_holds_it(
    draw: Draw,
) -> None:
    environment = SaitoToy(n_actions=6, n_samples=2000, wave=1.0, shared_contexts=False)
    truths = [draw(environment, 3, i, i)[1] for i in range(40)]
    empirical = np.array([truth.empirical for truth in truths])
    error = empirical.std(ddof=1) / math.sqrt(40)
    assert abs(empirical.mean() - truths[0].expected) < 4.0 * error
    problem, _ = draw(environment, 3)
    _, flat_truth = draw(SaitoToy(n_actions=6, n_samples=2000, shared_contexts=False), 3)
    assert abs(flat_truth.expected - truths[0].expected) > 10.0 * error
    atoms, _ = atoms_and_table(problem)
    code = (problem.embedding[:, None, :] == atoms[None]).all(axis=2).argmax(axis=1)
    for g in range(len(atoms)):
        x, reward = problem.context[code == g], problem.reward[code == g]
        # Within one embedding the rest is affine: amplitude, direction and phase remain.
        one, two = x[:, :1], x[:, 1:]
        quadratic = np.hstack([np.ones_like(one), x, x**2, one * two])
        left = reward - quadratic @ np.linalg.lstsq(quadratic, reward, rcond=None)[0]
        assert left.std() > 0.2
        assert np.abs(left).max() < 4.0


def test_weighted_logs_agree_with_the_truth_by_actions_and_by_embeddings(draw: Draw) -> None:
    problem, truth = draw(SaitoToy(n_actions=10, n_samples=40_000, beta=-0.5))
    logging, target = problem.logging_policy, problem.target_policy
    embedding = problem.embedding_distribution
    assert logging is not None
    assert target is not None
    assert embedding is not None
    x, action = problem.context, problem.action
    by_action = target.probability(x, action) / problem.propensity
    by_embedding = embedding.marginal(target, x, problem.embedding) / embedding.marginal(
        logging, x, problem.embedding
    )
    for weight in (by_action, by_embedding):
        assert abs(weight.mean() - 1.0) < 4.0 * weight.std() / 200.0
        weighted = weight * problem.reward
        assert abs(weighted.mean() - truth.expected) < 4.0 * weighted.std() / 200.0
    # The embedding's ratio is the action's, averaged: less variance, never more.
    assert by_embedding.var() < by_action.var()


def test_propensities_and_embeddings_are_those_of_the_distributions(draw: Draw) -> None:
    problem, _ = draw(SaitoToy(n_actions=5, n_samples=20_000))
    atoms, table = atoms_and_table(problem)
    assert isinstance(problem.logging_policy, DiscretePolicy)
    np.testing.assert_array_equal(
        problem.propensity, problem.logging_policy.probability(problem.context, problem.action)
    )
    expected = problem.logging_policy.table(problem.context).sum(axis=0)
    assert chisquare(np.bincount(problem.action, minlength=5), expected).pvalue > 1e-4
    code = (problem.embedding[:, None, :] == atoms[None]).all(axis=2).argmax(axis=1)
    for action in range(5):
        counts = np.bincount(code[problem.action == action], minlength=len(atoms))
        assert chisquare(counts, table[action] * counts.sum()).pvalue > 1e-4


def test_one_world_gives_many_independent_samples(draw: Draw) -> None:
    environment = SaitoToy(n_actions=10, n_samples=200)
    problem, _ = draw(environment, 0, 1, 2)
    again, _ = draw(environment, 0, 1, 2)
    fresh, _ = draw(environment, 0, 5, 6)
    for name in (*LOGGED, *TARGET):
        np.testing.assert_array_equal(getattr(problem, name), getattr(again, name))
    for first, second in zip(atoms_and_table(problem), atoms_and_table(fresh), strict=True):
        np.testing.assert_array_equal(first, second)
    assert (problem.action != fresh.action).any()
    assert (problem.target_action != fresh.target_action).any()


@pytest.mark.parametrize(
    "change", [{"epsilon": 0.7}, {"shared_contexts": False}, {"truth_contexts": 64}]
)
def test_several_targets_share_the_same_logs(draw: Draw, change: dict[str, Any]) -> None:
    first, _ = draw(SaitoToy(n_actions=10, n_samples=100))
    second, _ = draw(SaitoToy(n_actions=10, n_samples=100, **change))
    for name in LOGGED:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


def test_the_target_stream_does_not_touch_the_logs(draw: Draw) -> None:
    first, _ = draw(SaitoToy(n_samples=50), target=2)
    second, _ = draw(SaitoToy(n_samples=50), target=3)
    for name in LOGGED:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert (first.target_action != second.target_action).any()


def test_a_larger_world_begins_with_the_actions_of_a_smaller_one(draw: Draw) -> None:
    small, _ = draw(SaitoToy(n_actions=10, n_samples=5))
    large, _ = draw(SaitoToy(n_actions=30, n_samples=5))
    np.testing.assert_array_equal(atoms_and_table(small)[0], atoms_and_table(large)[0])
    np.testing.assert_array_equal(atoms_and_table(small)[1], atoms_and_table(large)[1][:10])


def test_latents_by_dimension_add_up_to_the_vector(draw: Draw) -> None:
    problem, _ = draw(SaitoToy(n_actions=5, n_samples=5, reward="mips"))
    atoms, _ = atoms_and_table(problem)
    # x_g = sum_k eta_k x[k, g_k], so that the two ways to change one category are the same step.
    np.testing.assert_allclose(atoms[0] - atoms[1], atoms[2] - atoms[3])
    printed, _ = draw(SaitoToy(n_actions=5, n_samples=5))
    atoms, _ = atoms_and_table(printed)
    assert np.abs(atoms[0] - atoms[1] - atoms[2] + atoms[3]).max() > 1e-3


def test_how_the_embedding_is_shown_changes_only_how_it_is_shown(draw: Draw) -> None:
    shown = {
        kind: draw(SaitoToy(n_actions=9, n_samples=60, n_categories=3, embedding=kind))[0]  # type: ignore[arg-type]
        for kind in ("vector", "one-hot", "codes")
    }
    codes = shown["codes"].embedding
    assert {column.kind for column in shown["codes"].schema.embedding} == {"categorical"}  # type: ignore[union-attr]
    one_hot = shown["one-hot"].embedding.reshape(60, 2, 3)
    np.testing.assert_array_equal(one_hot.argmax(axis=2), codes)
    np.testing.assert_array_equal(one_hot.sum(axis=2), 1.0)
    for problem in shown.values():
        np.testing.assert_array_equal(problem.reward, shown["vector"].reward)
        embedding = problem.embedding_distribution
        assert embedding is not None
        np.testing.assert_array_equal(
            embedding.probability(problem.embedding, problem.action),
            shown["vector"].embedding_distribution.probability(  # type: ignore[union-attr]
                shown["vector"].embedding, problem.action
            ),
        )


def test_the_default_world_is_the_papers() -> None:
    defaults = SaitoToy().get_params()
    assert {name: defaults[name] for name in ("d_context", "d_embedding", "n_categories")} == {
        "d_context": 2,
        "d_embedding": 2,
        "n_categories": 2,
    }
    assert (defaults["beta"], defaults["epsilon"], defaults["reward_std"]) == (-1.0, 0.1, 0.0)
    assert defaults["shared_contexts"] is True


def test_large_action_spaces_are_walked_in_chunks(
    draw: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = SaitoToy(n_actions=300, n_samples=64, truth_contexts=64)
    whole, truth = draw(environment)
    monkeypatch.setattr(arrays, "CHUNK_ENTRIES", 900)
    chunked, again = draw(environment)
    for field in fields(Problem):
        if field.name in (*LOGGED, *TARGET):
            np.testing.assert_allclose(
                getattr(whole, field.name), getattr(chunked, field.name), rtol=1e-12
            )
    assert again.expected == pytest.approx(truth.expected, rel=1e-12)


def test_too_many_joint_categories_are_refused_by_name(draw: Draw) -> None:
    with pytest.raises(ParameterError, match="n_categories"):
        draw(SaitoToy(n_actions=1000, d_embedding=20))


def test_out_of_range_parameters_are_refused() -> None:
    for wrong in ({"n_actions": 1}, {"epsilon": 1.1}, {"n_samples": 0}, {"reward": "obp"}):
        with pytest.raises(ParameterError):
            validated(SaitoToy, wrong)


def test_a_hundred_thousand_actions_stay_within_chunks(draw: Draw) -> None:
    tracemalloc.start()
    problem, truth = draw(SaitoToy(n_actions=100_000, n_samples=200))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6 < 8 * 100_000 * 200
    assert problem.action.max() > 50_000
    assert truth.expected_se < 0.01
