"""How well rows of two tables can be told apart, where the answer is known."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ope_bench import View
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import FitCache
from ope_bench.logs.advice_worlds import (
    MOST_ROWS,
    UNITS,
    Likeness,
    _area,
    _columns,
    _drawn,
)
from ope_bench.logs.log_data import stored_log
from support.small_logs import discrete, log_of


def rows_of(n, shift, *, copies=1):
    """A context that is always 1, one that is not, and a reward that is shifted in made rows."""
    rng = np.random.default_rng(0)
    context = np.repeat(rng.normal(size=n // copies), copies)
    rows = np.column_stack([np.ones(n), context, rng.normal(size=n)])
    made = np.tile([0, 1], n // 2)
    rows[:, 2] += shift * made
    return rows, made


@pytest.mark.parametrize(("shift", "low", "high"), [(20.0, 0.99, 1.0), (0.0, 0.4, 0.6)])
def test_rows_are_told_apart_by_what_differs_alone(shift, low, high):
    rows, made = rows_of(600, shift)
    assert low <= _area(rows, made, np.random.default_rng(1)) <= high


def test_rows_of_one_context_and_action_are_held_out_together():
    """The reward names the table within each context, which no other context has in common."""
    rng = np.random.default_rng(0)
    first = rng.permutation(np.repeat([0.0, 1.0], 100))
    context = np.repeat(np.arange(200.0), 2)
    made = np.tile([0, 1], 200)
    reward = np.where(made == 1, np.repeat(first, 2), 1 - np.repeat(first, 2))
    rows = np.column_stack([np.ones(400), context, reward])
    assert 0.35 < _area(rows, made, np.random.default_rng(1)) < 0.65


def test_two_contexts_may_leave_a_fold_without_rows():
    """In one fold together nothing is left to learn from; else the reward tells all rows apart."""
    rows, made = rows_of(400, 20.0)
    rows[:, 1] = np.repeat([0.0, 1.0], 200)
    areas = {_area(rows, made, np.random.default_rng(seed)) for seed in range(8)}
    assert areas == {0.5, 1.0}


def test_one_context_leaves_nothing_to_learn_from():
    rows, made = rows_of(40, 20.0)
    rows[:, 1] = 0.0
    assert _area(rows, made, np.random.default_rng(1)) == 0.5


@pytest.mark.parametrize(("n", "drawn"), [(MOST_ROWS, MOST_ROWS), (MOST_ROWS + 1, MOST_ROWS)])
def test_rows_beyond_the_most_are_drawn_once_each(n, drawn):
    found = _drawn(n, np.random.default_rng(0))
    assert len(found) == len(np.unique(found)) == drawn
    assert (found.tolist() == list(range(n))) is (n == MOST_ROWS)


def test_each_of_three_folds_is_judged_by_fifty_rounds_on_the_others(monkeypatch):
    asked, held_out = [], []

    class Spy:
        def __init__(self, **params):
            asked.append(params)

        def fit(self, rows, made):
            self.seen = len(rows)
            return self

        def predict_proba(self, rows):
            held_out.append((len(rows), self.seen))
            # The second column is the probability of a made row, shifted by 20.
            likely = 1.0 * (rows[:, -1] > 10)
            return np.column_stack([1 - likely, likely])

    monkeypatch.setattr("sklearn.ensemble.HistGradientBoostingClassifier", Spy)
    rows, made = rows_of(300, 20.0)
    assert _area(rows, made, np.random.default_rng(1)) == 1.0
    assert asked == [{"max_iter": 50, "early_stopping": False, "random_state": 0}] * 3
    assert [sum(sizes) for sizes in held_out] == [300] * 3
    assert sum(sizes[0] for sizes in held_out) == 300


def test_four_thousand_rows_are_the_most():
    assert MOST_ROWS == 4_000


def test_rows_are_context_action_what_describes_it_and_reward_last():
    data: Any = SimpleNamespace(
        context=np.array([[1.0], [2.0], [3.0]]),
        action=np.array([1, 0, 1]),
        reward=np.array([0.5, 0.25, 0.125]),
    )
    rows, described = np.array([2, 1]), np.array([[7.0, 8.0], [5.0, 6.0]])
    assert _columns(data, rows, None).tolist() == [[3, 1, 0.125], [2, 0, 0.25]]
    assert _columns(data, rows, described).tolist() == [[3, 1, 5, 6, 0.125], [2, 0, 7, 8, 0.25]]


@pytest.mark.parametrize(("unit", "units"), [(None, 12), (np.repeat([0, 3, 9], 4), 3)])
def test_the_units_of_the_world_are_counted(unit, units):
    given = discrete(12)
    with stored_log(log_of(given)) as folder:
        view = View(
            replace(given, unit=unit),
            Likeness.access,
            seed=DataSeed("t", 0, 0),
            fit_cache=FitCache(),
        )
        fitted = Likeness(str(folder), "target").fit(
            view, rng=np.random.default_rng(0), device="cpu"
        )
    assert fitted.estimate(view).diagnostics[UNITS] == units
