"""Policies given by rows: a sparse table answers as a dense one, and rows keep their own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from ope_bench import Tabular, UnavailableError
from ope_bench.logs.policies import LoggedContext, LoggedProbability, RowPolicy

RNG = np.random.default_rng(0)
N, K = 50, 7
CONTEXT = np.column_stack([np.arange(N) % 5, np.zeros(N)]).astype(float)


def shares(density: float) -> np.ndarray:
    table = RNG.random((N, K)) * (RNG.random((N, K)) < density)
    table[:, 2] += 0.1
    return table / table.sum(axis=1, keepdims=True)


TABLES = {"sparse": shares(0.3), "dense": shares(2.0)}


@pytest.fixture(params=TABLES)
def table(request):
    return TABLES[request.param]


def by_row(table):
    """The same probabilities as a policy of a context that is the row."""
    return Tabular(table, lambda context: context[:, 0].astype(np.int64))


ROWS = np.arange(N)[:, None].astype(float)


def test_a_table_of_rows_answers_as_a_table_of_contexts(table):
    mine = RowPolicy(sparse.csr_array(table), CONTEXT)
    context = LoggedContext.of(CONTEXT)
    pick = RNG.permutation(N)[:30]
    action = RNG.integers(K, size=30)
    features = RNG.normal(size=(K, 3))
    values = RNG.normal(size=(N, K))
    theirs = by_row(table)
    assert np.array_equal(mine.table(context[pick]), table[pick])
    assert np.array_equal(mine.probability(context[pick], action), table[pick, action])

    def f(context, action):
        return np.sin(action)

    for got, wanted in (
        (mine.expect(context[pick], f), theirs.expect(ROWS[pick], f)),
        (mine.project(context[pick], features), theirs.project(ROWS[pick], features)),
        (
            mine.contract(context, lambda rows: values[rows]),
            theirs.contract(ROWS, lambda rows: values[rows]),
        ),
    ):
        assert got == pytest.approx(wanted, abs=1e-12)


def test_a_dense_table_gives_the_bits_of_any_policy_with_these_probabilities():
    table = TABLES["dense"]
    mine = RowPolicy(sparse.csr_array(table), CONTEXT)

    def f(context, action):
        return np.cos(action * 1.7)

    wanted = np.einsum("ka,ka->k", table, np.tile(np.cos(np.arange(K) * 1.7), (N, 1)))
    assert np.array_equal(mine.expect(LoggedContext.of(CONTEXT), f), wanted)


def test_an_array_that_forgot_its_rows_gets_the_mean_over_rows_of_its_context(table):
    mine = RowPolicy(sparse.csr_array(table), CONTEXT)
    for group in range(5):
        context = np.array([[group, 0.0]])
        mean = table[CONTEXT[:, 0] == group].mean(axis=0)
        assert mine.table(context)[0] == pytest.approx(mean)


def test_draws_follow_the_probabilities_and_stay_in_the_support(table):
    mine = RowPolicy(sparse.csr_array(table), CONTEXT)
    context = LoggedContext.of(CONTEXT)
    many = context[np.repeat(np.arange(N), 2000)]
    action, probability = mine.draw(many, np.random.default_rng(1))
    rows = np.repeat(np.arange(N), 2000)
    assert np.array_equal(probability, table[rows, action])
    counts = np.zeros((N, K))
    np.add.at(counts, (rows, action), 1)
    assert np.abs(counts / 2000 - table).max() < 0.06
    assert (counts[table == 0] == 0).all()


def test_only_logged_pairs_have_a_probability():
    action = np.arange(N) % 3
    given = RNG.random(N)
    policy = LoggedProbability(given, CONTEXT, action, K, "give a table")
    context = LoggedContext.of(CONTEXT)
    assert np.array_equal(policy.probability(context[5:9], action[5:9]), given[5:9])
    same = (CONTEXT[:, 0] == CONTEXT[0, 0]) & (action == action[0])
    forgotten = policy.probability(CONTEXT[:1], action[:1])
    assert forgotten == pytest.approx([given[same].mean()])
    with pytest.raises(UnavailableError):
        policy.probability(CONTEXT[:1], np.array([6]))
    for ask in (
        lambda: policy.expect(context, lambda x, a: np.ones(len(a))),
        lambda: policy.sample(context, RNG),
        lambda: policy.table(context),
        lambda: policy.greedy,
    ):
        with pytest.raises(UnavailableError, match="give a table"):
            ask()
