"""Every discrete policy against the enumeration of its own table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from ope_bench.base.errors import DataError
from ope_bench.contracts import arrays
from ope_bench.contracts.arrays import (
    LONG_ROW,
    SHORT_ROW,
    FloatArray,
    IntArray,
    apply_by_row,
    row_maxima,
)
from ope_bench.contracts.data import Problem
from ope_bench.contracts.policies import (
    DiscretePolicy,
    EpsilonGreedy,
    Policy,
    Softmax,
    Tabular,
    Uniform,
)
from ope_bench.contracts.random import SPAN, sample_indices

N_ACTIONS = 7
SCORES = np.random.default_rng(5).normal(size=(3, N_ACTIONS))


def score(context: FloatArray) -> FloatArray:
    scores: FloatArray = context @ SCORES
    return scores


def code(context: FloatArray) -> IntArray:
    return (context[:, 0] > 0).astype(np.int64)


class Listed(DiscretePolicy):
    """A table and nothing else, so that all sums are those of the base class."""

    def __init__(self, probabilities: FloatArray) -> None:
        super().__init__(probabilities.shape[1])
        self.probabilities = probabilities

    def table(self, context: FloatArray) -> FloatArray:
        return self.probabilities[code(context)]


def every_policy() -> list[DiscretePolicy]:
    table = np.random.default_rng(6).dirichlet(np.ones(N_ACTIONS), size=2)
    table[0, 3] = 0.0
    table /= table.sum(axis=1, keepdims=True)
    return [
        Uniform(N_ACTIONS),
        Softmax(score, N_ACTIONS, -1.5),
        Softmax(score, N_ACTIONS, 0.0),
        EpsilonGreedy(score, N_ACTIONS, 0.0),
        EpsilonGreedy(score, N_ACTIONS, 0.3),
        EpsilonGreedy(score, N_ACTIONS, 1.0),
        Tabular(table, code),
        Tabular(table[1:].repeat(2, axis=0), code),
        Listed(table),
    ]


@pytest.fixture(params=every_policy(), ids=lambda policy: type(policy).__name__)
def policy(request: pytest.FixtureRequest) -> DiscretePolicy:
    chosen: DiscretePolicy = request.param
    return chosen


@pytest.fixture
def context() -> FloatArray:
    return np.random.default_rng(7).normal(size=(40, 3))


def test_rows_of_the_table_sum_to_one(policy: DiscretePolicy, context: FloatArray) -> None:
    table = policy.table(context)
    assert isinstance(policy, Policy)
    assert (table >= 0).all()
    np.testing.assert_allclose(table.sum(axis=1), 1.0, rtol=1e-14)


def test_probability_is_the_table_at_the_action(
    policy: DiscretePolicy, context: FloatArray
) -> None:
    action = np.arange(len(context)) % N_ACTIONS
    expected = policy.table(context)[np.arange(len(context)), action]
    np.testing.assert_array_equal(policy.probability(context, action), expected)


def test_expect_contract_and_project_are_sums_over_the_table(
    policy: DiscretePolicy, context: FloatArray
) -> None:
    features = np.random.default_rng(8).normal(size=(N_ACTIONS, 4))
    table = policy.table(context)

    def f(x: FloatArray, a: IntArray) -> FloatArray:
        return np.cos(x[:, 0]) * features[a, 1] + a

    values = np.cos(context[:, :1]) * features[:, 1] + np.arange(N_ACTIONS)
    np.testing.assert_allclose(policy.expect(context, f), (table * values).sum(axis=1))
    contracted = policy.contract(context, lambda rows: values[rows])
    np.testing.assert_allclose(contracted, (table * values).sum(axis=1))
    np.testing.assert_allclose(policy.project(context, features), table @ features, atol=1e-14)


def test_epsilon_greedy_asks_for_no_table_where_values_know_their_means() -> None:
    context, values = np.random.default_rng(7).normal(size=(40, 3)), score

    class Known:
        def __call__(self, rows: slice) -> FloatArray:
            raise AssertionError(rows)

        def at(self, action: IntArray) -> FloatArray:
            return values(context)[np.arange(40), action]

        def means(self) -> FloatArray:
            return values(context).mean(axis=1)

    policy = EpsilonGreedy(lambda rows: -score(rows), N_ACTIONS, 0.3)
    by_table = policy.contract(context, lambda rows: values(context[rows]))
    assert (policy.contract(context, Known()) == by_table).all()


@pytest.mark.parametrize("n_actions", [1, SHORT_ROW, SHORT_ROW + 1])
def test_weights_of_a_softmax_have_a_largest_of_one(n_actions: int) -> None:
    scores = np.random.default_rng(8).normal(size=(30, n_actions))
    weights = Softmax(lambda _: scores.copy(), n_actions)._weights(scores)
    assert (weights == np.exp(scores - scores.max(axis=1, keepdims=True))).all()


def test_draws_follow_the_table(policy: DiscretePolicy) -> None:
    context = np.repeat(np.array([[0.4, -0.2, 1.0]]), 20_000, axis=0)
    action, probability = policy.draw(context, np.random.default_rng(9))
    table = policy.table(context[:1])[0]
    np.testing.assert_array_equal(probability, policy.probability(context, action))
    counts = np.bincount(action, minlength=N_ACTIONS)
    possible = table > 0
    assert counts[~possible].sum() == 0
    if possible.sum() > 1:
        assert chisquare(counts[possible], table[possible] * len(context)).pvalue > 1e-4


def test_chunks_change_nothing_but_the_last_bits(
    policy: DiscretePolicy, context: FloatArray, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = np.random.default_rng(8).normal(size=(N_ACTIONS, 2))
    action, probability = policy.draw(context, np.random.default_rng(1))
    projected = policy.project(context, features)
    monkeypatch.setattr(arrays, "CHUNK_ENTRIES", 3 * N_ACTIONS)
    again, chunked = policy.draw(context, np.random.default_rng(1))
    np.testing.assert_array_equal(again, action)
    np.testing.assert_allclose(chunked, probability, rtol=1e-13)
    np.testing.assert_allclose(policy.project(context, features), projected, atol=1e-13)


def test_no_chunk_exceeds_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def spying(context: FloatArray) -> FloatArray:
        seen.append(len(context) * N_ACTIONS)
        return score(context)

    monkeypatch.setattr(arrays, "CHUNK_ENTRIES", 4 * N_ACTIONS)
    context = np.random.default_rng(0).normal(size=(30, 3))
    for scored in (Softmax(spying, N_ACTIONS), EpsilonGreedy(spying, N_ACTIONS, 0.1)):
        action, _ = scored.draw(context, np.random.default_rng(0))
        scored.probability(context, action)
        scored.expect(context, lambda x, a: a.astype(np.float64))
        scored.project(context, np.ones((N_ACTIONS, 1)))
    assert max(seen) == 4 * N_ACTIONS


def test_extreme_temperatures_stay_finite() -> None:
    context = np.random.default_rng(0).normal(size=(5, 3))
    for beta in (-1e8, 1e8):
        table = Softmax(score, N_ACTIONS, beta).table(context)
        np.testing.assert_allclose(table.sum(axis=1), 1.0)
        np.testing.assert_array_equal(table.argmax(axis=1), (beta * score(context)).argmax(axis=1))


def test_the_first_of_tied_actions_is_greedy() -> None:
    policy = EpsilonGreedy(lambda x: np.zeros((len(x), 4)), 4, 0.2)
    np.testing.assert_allclose(policy.table(np.zeros((1, 1))), [[0.85, 0.05, 0.05, 0.05]])


def test_a_single_action_is_certain() -> None:
    context = np.zeros((3, 1))
    for policy in (
        Uniform(1),
        Softmax(lambda x: np.ones((len(x), 1)), 1),
        EpsilonGreedy(lambda x: np.ones((len(x), 1)), 1, 0.3),
    ):
        action, probability = policy.draw(context, np.random.default_rng(0))
        np.testing.assert_array_equal(action, 0)
        np.testing.assert_allclose(probability, 1.0)


def test_greedy_actions_are_remembered_only_for_arrays_that_cannot_change() -> None:
    policy = EpsilonGreedy(score, N_ACTIONS, 0.0)
    context = np.random.default_rng(0).normal(size=(5, 3))
    before = policy.greedy(context).copy()
    context *= -1.0
    np.testing.assert_array_equal(policy.greedy(context), score(context).argmax(axis=1))
    assert (before != policy.greedy(context)).any()


def test_weights_of_a_softmax_are_remembered_only_for_arrays_that_cannot_change() -> None:
    calls: list[int] = []

    def counted(context: FloatArray) -> FloatArray:
        calls.append(len(context))
        return score(context)

    policy, fresh = Softmax(counted, N_ACTIONS), Softmax(score, N_ACTIONS)
    rng = np.random.default_rng(0)
    context, action = rng.normal(size=(5, 3)), rng.integers(N_ACTIONS, size=5)
    policy.table(context)
    context *= -1.0
    np.testing.assert_array_equal(policy.table(context), fresh.table(context.copy()))
    fixed = context.copy()
    fixed.flags.writeable = False
    calls.clear()
    for _ in range(2):
        # A table is the caller's, who may change it.
        policy.table(fixed)[:] = 0.0
        np.testing.assert_array_equal(policy.table(fixed), fresh.table(context))
        np.testing.assert_array_equal(
            policy.probability(fixed, action), fresh.probability(context, action)
        )
    assert calls == [5]
    with_others = Problem(
        context=fixed, action=action, embedding=np.zeros((5, 1)), reward=np.zeros(5),
        target_context=fixed, target_action=action, target_embedding=np.zeros((5, 1)),
        n_actions=N_ACTIONS, logging_policy=policy, target_policy=Uniform(N_ACTIONS),
        shared_contexts=True,
    )  # fmt: skip
    calls.clear()
    low, high = with_others.weight_range()
    policy.probability(with_others.target_sample[0], action)
    assert not calls
    ratio = (1 / N_ACTIONS) / fresh.table(context)
    assert (low, high) == (ratio.min(), ratio.max())


@settings(deadline=None)
@given(
    n=st.integers(1, 6 * SPAN),
    seed=st.integers(0, 2**32 - 1),
    uniform=st.floats(0.0, 1.0, exclude_max=True),
    share=st.floats(0.0, 0.99),
)
def test_choosing_by_spans_is_the_inverse_of_the_cumulative_sum(
    n: int, seed: int, uniform: float, share: float
) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.random((1, n)) * (rng.random((1, n)) >= share)
    weights[0, rng.integers(n)] = 1.0
    chosen = int(sample_indices(weights, np.array([uniform]))[0])
    assert weights[0, chosen] > 0
    # The exact interval of the chosen index, up to rounding of the sums.
    cumulative = np.cumsum(weights[0]) / weights.sum()
    assert cumulative[chosen] - weights[0, chosen] / weights.sum() <= uniform + 1e-9
    assert uniform <= cumulative[chosen] + 1e-9


def test_the_largest_uniform_number_still_finds_a_possible_action() -> None:
    weights = np.ones((1, 5 * SPAN))
    weights[0, 200:] = 0.0
    last = np.nextafter(1.0, 0.0)
    assert sample_indices(weights, np.array([last]))[0] == 199
    assert sample_indices(weights[:, :210], np.array([last]))[0] == 199


def test_full_support_is_claimed_where_the_table_has_no_zero(
    policy: DiscretePolicy, context: FloatArray
) -> None:
    assert policy.full_support == bool((policy.table(context) > 0).all())
    assert policy.n_actions == N_ACTIONS


def test_tables_by_hand() -> None:
    def given(context: FloatArray) -> FloatArray:
        return np.tile(np.log([1.0, 2.0, 5.0]), (len(context), 1))

    rows = np.zeros((2, 1))
    np.testing.assert_allclose(Softmax(given, 3).table(rows), [[0.125, 0.25, 0.625]] * 2)
    np.testing.assert_allclose(Softmax(given, 3, 2.0).table(rows), [[1 / 30, 4 / 30, 25 / 30]] * 2)
    np.testing.assert_allclose(EpsilonGreedy(given, 3, 0.6).table(rows), [[0.2, 0.2, 0.6]] * 2)
    np.testing.assert_allclose(Uniform(4).table(rows), np.full((2, 4), 0.25))


def test_rows_and_actions_of_different_number_are_refused(
    policy: DiscretePolicy, context: FloatArray
) -> None:
    with pytest.raises(DataError, match="action"):
        policy.probability(context, np.zeros(len(context) - 1, dtype=np.int64))
    if not isinstance(policy, Tabular):
        with pytest.raises(DataError, match="the result of f"):
            policy.expect(context, lambda x, _: np.zeros(len(x) + 1))


def test_a_context_in_two_rows_of_one_code_keeps_its_own_values() -> None:
    """The code is the sign of the first column; f depends on the second as well."""
    policy = Tabular(np.array([[0.25, 0.75], [0.5, 0.5]]), code)
    rows = np.array([[1.0, 3.0], [1.0, 4.0], [-1.0, 5.0]])
    values = policy.expect(rows, lambda x, a: x[:, 1] * (1 + a))
    np.testing.assert_allclose(values, [4.5, 6.0, 5 * 1.75])


def test_contexts_of_one_code_are_summed_once() -> None:
    policy, asked = Tabular(np.array([[0.25, 0.75], [0.5, 0.5]]), code), []

    def f(x: FloatArray, a: IntArray) -> FloatArray:
        asked.append(len(x))
        return x[:, 0] + a

    rows = np.repeat(np.array([[1.0], [-1.0]]), 50, axis=0)
    np.testing.assert_allclose(policy.expect(rows, f), np.repeat([1.5, -0.25], 50))
    assert sum(asked) == 2 * 2


def test_the_greedy_action_of_a_read_only_array_is_computed_once() -> None:
    calls = []

    def spying(context: FloatArray) -> FloatArray:
        calls.append(len(context))
        return score(context)

    policy = EpsilonGreedy(spying, N_ACTIONS, 0.2)
    rows = np.random.default_rng(0).normal(size=(5, 3))
    rows.flags.writeable = False
    first, again = policy.greedy(rows), policy.greedy(rows)
    assert again is first
    assert calls == [5]
    other = rows.copy()
    other.flags.writeable = False
    np.testing.assert_array_equal(policy.greedy(other), first)
    assert calls == [5, 5]


@pytest.mark.parametrize("operation", [np.subtract, np.divide])
@pytest.mark.parametrize("width", [1, LONG_ROW - 1, LONG_ROW, 4 * LONG_ROW])
def test_an_operation_by_row_has_the_bits_of_the_operation(
    operation: np.ufunc, width: int
) -> None:
    table = np.random.default_rng(0).normal(size=(9, width))
    column = row_maxima(table)
    expected, size = operation(table, column), np.getbufsize()
    apply_by_row(operation, table, column)
    np.testing.assert_array_equal(table, expected)
    assert np.getbufsize() == size


def test_an_operation_on_long_rows_has_a_buffer_that_holds_no_row() -> None:
    table, size, seen = np.ones((2, LONG_ROW)), np.getbufsize(), []

    def failing(*_: object, out: FloatArray) -> None:
        seen.append(np.getbufsize())
        raise FloatingPointError

    with pytest.raises(FloatingPointError):
        apply_by_row(failing, table, table[:, :1])  # type: ignore[arg-type]
    assert seen == [16]
    assert np.getbufsize() == size


def test_a_greedy_policy_that_never_explores_asks_for_no_other_action() -> None:
    asked: list[int] = []

    def f(x: FloatArray, a: IntArray) -> FloatArray:
        asked.append(len(x))
        return a.astype(np.float64)

    rows = np.random.default_rng(0).normal(size=(5, 3))
    EpsilonGreedy(score, N_ACTIONS, 0.0).expect(rows, f)
    assert asked == [5]


def test_no_policy_claims_full_support_unless_it_says_so() -> None:
    assert Listed(np.full((2, 2), 0.5)).full_support is False


@pytest.mark.parametrize("n", [3, 5 * SPAN])
def test_a_threshold_that_rounding_lifts_to_the_sum_draws_the_last_action_with_weight(n):
    weights = np.zeros((2, n))
    weights[0, :2], weights[1, 0] = (0.1, 0.7), 0.3
    assert sample_indices(weights, np.ones(2)).tolist() == [1, 0]
