"""Populations: which rows are drawn, and what is one unit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from ope_bench import DeterministicEmbedding, Schema, Tabular
from ope_bench.contracts.data import Problem, Truth
from ope_bench.testing.problems import OneRow
from ope_environments.behance.environment import Behance
from ope_environments.multiclass.environment import Multiclass
from ope_environments.populations.population import Population, bernoulli

Draw = Callable[..., tuple[Problem, Truth]]

ROWS = 20


def population(**changes: object) -> Population:
    """The context of row k is k; the reward of action 1 is 1."""
    made = Population(
        context=np.arange(float(ROWS))[:, None],
        schema=Schema.continuous(1, 1),
        logging=Tabular(np.array([[0.5, 0.5]]), OneRow()),
        target=Tabular(np.array([[0.2, 0.8]]), OneRow()),
        embedding=DeterministicEmbedding(np.array([[0.0], [1.0]])),
        reward_at=lambda row, action: action.astype(float),
        noise=bernoulli,
        expected=0.8,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def sample(n: int | None, *, shared: bool = False, seed: int = 0, **changes: object) -> Problem:
    return population(**changes).sample(
        n,
        logged_rng=np.random.default_rng([1, seed]),
        target_rng=np.random.default_rng([2, seed]),
        shared_contexts=shared,
    )[0]


@pytest.mark.parametrize("n", [1, 7, 10, 13, 20, 60])
@pytest.mark.parametrize("shared", [False, True])
def test_the_unit_of_a_row_is_its_number_in_the_population(n: int, shared: bool) -> None:
    problem = sample(n, shared=shared)
    assert problem.unit is not None
    assert problem.target_unit is not None
    np.testing.assert_array_equal(problem.unit, problem.context[:, 0])
    np.testing.assert_array_equal(problem.target_unit, problem.target_context[:, 0])


def test_no_row_is_drawn_twice_where_there_are_enough() -> None:
    for n in (10, 13, 20):
        problem = sample(n)
        assert len(set(problem.context[:, 0])) == n
        assert len(set(problem.target_context[:, 0])) == n
    problem = sample(60)
    assert len(set(problem.context[:, 0])) <= ROWS


def test_the_target_sample_takes_what_the_logs_left() -> None:
    problem = sample(10)
    assert not set(problem.context[:, 0]) & set(problem.target_context[:, 0])
    # Eleven of twenty: nine are left, so that the target sample takes from all.
    assert set(sample(11).context[:, 0]) & set(sample(11).target_context[:, 0])


def test_all_rows_may_be_asked_for() -> None:
    problem = sample(None)
    assert sorted(problem.context[:, 0]) == list(range(ROWS))
    assert sorted(problem.target_context[:, 0]) == list(range(ROWS))


@pytest.mark.parametrize("n", [6, 15])
def test_every_row_is_as_likely_as_another_in_both_samples(n: int) -> None:
    counts = np.zeros((2, ROWS))
    draws = 600
    for seed in range(draws):
        problem = sample(n, seed=seed)
        for which, units in enumerate((problem.unit, problem.target_unit)):
            counts[which] += np.bincount(units, minlength=ROWS)  # type: ignore[arg-type]
    share = n / ROWS
    spread = np.sqrt(draws * share * (1 - share))
    assert np.abs(counts - draws * share).max() < 4 * spread


def test_kinds_of_contexts_are_drawn_with_replacement_and_are_no_units() -> None:
    share = np.full(ROWS, 1.0 / ROWS)
    problem = sample(10, share=share)
    assert problem.unit is None
    assert problem.target_unit is None
    assert len(set(sample(200, share=share).context[:, 0])) <= ROWS


def test_two_contexts_of_a_whole_site_are_no_units(draw: Draw) -> None:
    problem, _ = draw(Behance(n_samples=50, items=200, users=100, appreciates=2000))
    assert problem.unit is None


def test_logs_do_not_depend_on_the_target_stream() -> None:
    made = population()
    first, second = (
        made.sample(
            8,
            logged_rng=np.random.default_rng(0),
            target_rng=np.random.default_rng(seed),
            shared_contexts=False,
        )[0]
        for seed in (1, 2)
    )
    np.testing.assert_array_equal(first.unit, second.unit)
    assert set(first.target_unit) != set(second.target_unit)  # type: ignore[arg-type]


def test_folds_of_real_data_keep_the_copies_of_a_row_together(draw: Draw) -> None:
    from ope_estimators.learning.folds import folds
    from support import tiny_worlds as tiny

    problem, _ = draw(Multiclass(n_samples=500, dataset="iris"))
    view = tiny.view_of(problem)
    logged, target = folds(view, 5, np.random.default_rng(0))
    rows = np.concatenate([problem.context, problem.target_context])
    fold = np.concatenate([logged, target])
    unit = np.concatenate([view.unit, view.target_unit])
    assert len(set(unit)) == 75
    for number in set(unit):
        assert len(set(fold[unit == number])) == 1
        assert len(np.unique(rows[unit == number], axis=0)) == 1
