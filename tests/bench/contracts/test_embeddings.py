"""Embedding distributions against enumeration, the joint marginal above all."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import chisquare

from ope_bench.base.errors import DataError
from ope_bench.contracts import arrays, embeddings
from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.embeddings import (
    DeterministicEmbedding,
    EmbeddingDistribution,
    FactoredEmbedding,
    FiniteEmbedding,
    RowIndex,
)
from ope_bench.contracts.policies import (
    DiscretePolicy,
    EpsilonGreedy,
    Softmax,
    Tabular,
    Uniform,
)

N_ACTIONS = 6
SIZES = (2, 3, 2)
SCORES = np.random.default_rng(3).normal(size=(2, N_ACTIONS))


def score(context: FloatArray) -> FloatArray:
    return context @ SCORES


POLICIES: list[DiscretePolicy] = [
    Uniform(N_ACTIONS),
    Softmax(score, N_ACTIONS, -1.0),
    EpsilonGreedy(score, N_ACTIONS, 0.2),
]


def factored() -> FactoredEmbedding:
    rng = np.random.default_rng(4)
    return FactoredEmbedding([rng.dirichlet(np.ones(size), N_ACTIONS) for size in SIZES])


def finite() -> FiniteEmbedding:
    rng = np.random.default_rng(4)
    return FiniteEmbedding(rng.normal(size=(4, 2)), rng.dirichlet(np.ones(4), N_ACTIONS))


def deterministic() -> DeterministicEmbedding:
    rows = np.random.default_rng(4).normal(size=(N_ACTIONS, 2))
    rows[4] = rows[1]
    return DeterministicEmbedding(rows)


@pytest.fixture(params=[factored, finite, deterministic], ids=lambda make: make.__name__)
def embedding(request: pytest.FixtureRequest) -> EmbeddingDistribution:
    made: EmbeddingDistribution = request.param()
    return made


@pytest.fixture
def context() -> FloatArray:
    return np.random.default_rng(7).normal(size=(9, 2))


def full_table(embedding: EmbeddingDistribution) -> tuple[FloatArray, FloatArray]:
    atoms = embedding.support()
    assert atoms is not None
    rows = [embedding.probability(atoms, np.full(len(atoms), a)) for a in range(N_ACTIONS)]
    return atoms, np.array(rows)


def test_probabilities_of_the_support_sum_to_one(embedding: EmbeddingDistribution) -> None:
    atoms, table = full_table(embedding)
    assert len(np.unique(atoms, axis=0)) == len(atoms)
    np.testing.assert_allclose(table.sum(axis=1), 1.0)


def test_samples_follow_the_probabilities(embedding: EmbeddingDistribution) -> None:
    atoms, table = full_table(embedding)
    index = RowIndex(atoms)
    for action in (0, 4):
        drawn = embedding.sample(np.full(8_000, action), np.random.default_rng(action))
        counts = np.bincount(index(drawn), minlength=len(atoms))
        possible = table[action] > 0
        assert counts[~possible].sum() == 0
        if possible.sum() > 1:
            assert chisquare(counts[possible], table[action][possible] * 8_000).pvalue > 1e-4


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_the_marginal_sums_over_actions(
    embedding: EmbeddingDistribution, policy: DiscretePolicy, context: FloatArray
) -> None:
    atoms, table = full_table(embedding)
    expected = policy.table(context) @ table
    for k, atom in enumerate(atoms):
        rows = np.tile(atom, (len(context), 1))
        np.testing.assert_allclose(embedding.marginal(policy, context, rows), expected[:, k])
    if hasattr(embedding, "masses"):
        np.testing.assert_allclose(embedding.masses(policy, context), expected)


def test_chunks_change_no_marginal(
    embedding: EmbeddingDistribution, context: FloatArray, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = embedding.sample(np.arange(9) % N_ACTIONS, np.random.default_rng(0))
    whole = embedding.marginal(POLICIES[1], context, drawn)
    monkeypatch.setattr(arrays, "CHUNK_ENTRIES", 2 * N_ACTIONS)
    np.testing.assert_allclose(embedding.marginal(POLICIES[1], context, drawn), whole)


def test_an_embedding_that_does_not_exist_is_named(embedding: EmbeddingDistribution) -> None:
    atoms, _ = full_table(embedding)
    wrong = np.vstack([atoms[:1], np.full_like(atoms[:1], 0.123)])
    with pytest.raises(DataError, match=r"embedding\[1"):
        embedding.probability(wrong, np.zeros(2, dtype=np.int64))


def test_the_product_of_marginals_is_not_the_marginal_of_the_product(context: FloatArray) -> None:
    embedding = factored()
    logging, target = POLICIES[1], POLICIES[2]
    atoms = embedding.support()
    assert atoms is not None
    np.testing.assert_array_equal(atoms, list(itertools.product(*map(range, SIZES))))
    mass = embedding.masses(logging, context)
    joint = embedding.masses(target, context) / mass
    product = np.ones_like(joint)
    for d, table in enumerate(embedding.tables):
        ratio = target.project(context, table) / logging.project(context, table)
        product *= ratio[:, atoms[:, d].astype(np.int64)]
    # E0[w] = 1 in every context for the joint ratio, and for the other in none.
    np.testing.assert_allclose((mass * joint).sum(axis=1), 1.0)
    assert (np.abs((mass * product).sum(axis=1) - 1.0) > 1e-3).all()


def test_many_combinations_are_not_written_out() -> None:
    embedding = FactoredEmbedding([np.full((3, 2), 0.5)] * 13)
    assert embedding.support() is None
    codes = embedding.sample(np.array([0, 1, 2]), np.random.default_rng(0))
    np.testing.assert_allclose(embedding.marginal(Uniform(3), np.zeros((3, 1)), codes), 0.5**13)


@pytest.mark.parametrize("n", [1, 5, 300])
@pytest.mark.parametrize("sizes", [(4,), (2, 3), (5, 4, 3)])
def test_the_marginal_of_a_greedy_policy_has_the_bits_of_its_table(
    n: int, sizes: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(9)
    embedding = FactoredEmbedding([rng.dirichlet(np.ones(size), N_ACTIONS) for size in sizes])
    context, action = rng.normal(size=(n, 2)), rng.integers(N_ACTIONS, size=n)
    rows = embedding.sample(action, rng)
    every = [embedding.probability(rows, np.full(n, one)) for one in range(N_ACTIONS)]
    table = np.column_stack(every)
    policy = EpsilonGreedy(score, N_ACTIONS, 0.2)
    by_table = policy.contract(context, lambda part: table[part])
    assert (embedding.marginal(policy, context, rows) == by_table).all()


def test_up_to_4096_combinations_are_written_out() -> None:
    coins = [np.full((3, 2), 0.5)] * 12
    atoms = FactoredEmbedding(coins).support()
    assert atoms is not None
    assert len(np.unique(atoms, axis=0)) == len(atoms) == 4096
    assert FactoredEmbedding([*coins[1:], np.full((3, 3), 1 / 3)]).support() is None


@pytest.mark.parametrize("wrong", [-1.0, 3.0, 0.5])
def test_a_category_that_does_not_exist_is_named_with_its_place(wrong: float) -> None:
    embedding = FactoredEmbedding([np.full((2, 2), 0.5), np.full((2, 3), 1 / 3)])
    rows = np.array([[1.0, 2.0], [0.0, 0.0], [1.0, wrong], [0.0, wrong]])
    said = rf"embedding\[2, 1\] = {wrong} is not a category; expected 0 to 2$"
    with pytest.raises(DataError, match=said):
        embedding.probability(rows, np.zeros(4, dtype=np.int64))


@pytest.mark.parametrize("wrong", [-2.0, 0.0, 0.5, 1.5, 3.0, 1e300, -1e300, np.inf])
def test_an_unknown_row_is_named_wherever_it_would_stand(wrong: float) -> None:
    index = RowIndex(np.array([[2.0], [1.0], [-1.0]]))
    assert index(np.array([[1.0], [-1.0], [2.0]])).tolist() == [1, 2, 0]
    with pytest.raises(DataError, match=r"embedding\[1\] = \[.*\] is not one of the possible"):
        index(np.array([[1.0], [wrong], [wrong]]))


def test_equal_rows_have_the_index_of_the_first_and_nearly_equal_ones_their_own() -> None:
    near = np.nextafter(1e-20, 1.0)
    index = RowIndex(np.array([[5.0], [1e-20], [5.0], [near], [1e-20]]))
    assert index(np.array([[5.0], [1e-20], [near]])).tolist() == [0, 1, 3]


def test_actions_with_one_embedding_share_its_mass() -> None:
    embedding = DeterministicEmbedding(np.array([[1.0], [2.0], [1.0], [3.0]]))
    table = np.array([[0.1, 0.2, 0.3, 0.4]])
    policy = Tabular(table, lambda x: np.zeros(len(x), dtype=np.int64))
    rows = np.array([[1.0], [2.0], [3.0]])
    assert np.unique(embedding.support()).tolist() == [1.0, 2.0, 3.0]
    assert len(embedding.support()) == 3
    mass = embedding.marginal(policy, np.zeros((3, 1)), rows)
    np.testing.assert_allclose(mass, [0.4, 0.2, 0.4])
    action = np.array([2, 2, 2])
    assert embedding.probability(rows, action).tolist() == [1.0, 0.0, 0.0]


def test_negative_zero_is_zero_in_a_row_index() -> None:
    index = RowIndex(np.array([[0.0, 1.0], [2.0, 3.0]]))
    np.testing.assert_array_equal(index(np.array([[-0.0, 1.0], [2.0, 3.0]])), [0, 1])


def test_one_dimension_of_many_rows_is_summed_category_by_category(monkeypatch):
    rng = np.random.default_rng(4)
    embedding = FactoredEmbedding([rng.dirichlet(np.ones(3), N_ACTIONS)])
    context = rng.normal(size=(300, 2))
    policy = Softmax(lambda rows: rows @ np.ones((2, N_ACTIONS)) + np.arange(N_ACTIONS), N_ACTIONS)
    at = rng.integers(0, 2, 300)[:, None].astype(float)  # one category is at no row
    wanted = embedding.marginal(policy, context, at)
    asked = []
    monkeypatch.setattr(embeddings, "_MANY_ROWS", 300)
    monkeypatch.setattr(embeddings, "_ROWS_OF_CATEGORY", 1)
    monkeypatch.setattr(embeddings, "_MANY_ACTIONS", N_ACTIONS)
    monkeypatch.setattr(policy, "contract", lambda *_: asked.append(1))
    np.testing.assert_allclose(embedding.marginal(policy, context, at), wanted, rtol=1e-12)
    assert not asked
    monkeypatch.setattr(embeddings, "_MANY_ACTIONS", N_ACTIONS + 1)
    embedding.marginal(policy, context, at)
    assert asked
