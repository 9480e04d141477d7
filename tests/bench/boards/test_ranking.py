"""What needs all rows of a board: intervals, scores, ties and ranks.

The fixture's truth is 1 and its logging average .5, hence the naive error -.5.
"""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from ope_bench.boards.board import ReplicateFacts, aggregate
from ope_bench.boards.leaderboard import boards, joint_values, ordered, reordered
from ope_bench.outcomes import Outcomes
from ope_bench.statistics.error_distribution import rmse_intervals
from ope_bench.trials.status import Status


@pytest.fixture
def cells(record):
    """Rows before they are compared, of so many errors each; None is a failure."""

    def make(*rows, **facts):
        records = [
            [
                record(f"method {name}", number, status=Status.ERROR, **facts)
                if error is None
                else record(f"method {name}", number, float(error), **facts)
                for number, error in enumerate(row)
            ]
            for name, row in enumerate(rows)
        ]
        known = ReplicateFacts.of(Outcomes.of(itertools.chain(*records)), "expected")
        return [aggregate(Outcomes.of(row), known) for row in records]

    return make


def draws(stream, size, scale=0.1):
    return scale * np.random.default_rng(stream).normal(size=size)


def test_intervals_are_those_of_each_row_alone(cells):
    errors = [draws(0, 60), draws(1, 50), draws(2, 60)]
    found = joint_values(cells(*errors))
    for one, row in zip(found, errors, strict=True):
        alone = rmse_intervals(row[None])
        assert one.rmse.value == pytest.approx(np.sqrt(np.mean(row**2)))
        assert one.rmse.low == pytest.approx(alone.low[0])
        assert one.rmse.high == pytest.approx(alone.high[0])
        assert not one.heavy_tailed


def test_a_heavy_tailed_row_is_marked_and_keeps_its_interval(cells):
    (one,) = joint_values(cells([0.1] * 30 + [5.0]))
    assert one.heavy_tailed
    assert one.rmse.low is not None
    assert 0 < one.rmse.low < one.rmse.value
    assert one.rmse.high is None
    assert one.rmse.value == pytest.approx(math.sqrt((30 * 0.1**2 + 25) / 31))


def test_the_score_counts_failures_at_the_naive_error(cells):
    (one,) = joint_values(cells([0.1, None, 0.3, None]))
    assert one.score == pytest.approx(math.sqrt((0.1**2 + 0.3**2 + 2 * 0.5**2) / 4))
    assert one.rmse.value == pytest.approx(math.sqrt((0.1**2 + 0.3**2) / 2))


def test_without_a_naive_error_a_row_with_failures_has_no_score(cells):
    whole, failing = joint_values(cells([0.1, 0.2], [0.1, None], logging_average=None))
    assert whole.score is not None
    assert (failing.score, failing.tied) == (None, False)
    assert failing.rmse.value == pytest.approx(0.1)


def test_a_row_that_was_never_tried_has_no_figure(record):
    records = [record("ipw", number, status=Status.UNAVAILABLE) for number in range(3)]
    outcomes = Outcomes.of(records)
    (one,) = joint_values([aggregate(outcomes, ReplicateFacts.of(outcomes, "expected"))])
    assert (one.score, one.rmse.value, one.rmse.low, one.tied) == (None, None, None, False)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_scores_of_tiny_and_huge_errors_neither_vanish_nor_overflow(record, scale):
    facts = {"truth_expected": 0.0}
    records = [
        record("ipw", 0, estimate=3 * scale, **facts),
        record("ipw", 1, estimate=-4 * scale, **facts),
    ]
    outcomes = Outcomes.of(records)
    (one,) = joint_values([aggregate(outcomes, ReplicateFacts.of(outcomes, "expected"))])
    assert one.score == pytest.approx(scale * math.sqrt(12.5))


def test_ties_are_with_the_best_score(cells):
    best = draws(0, 60)
    # The same sizes on the same data; sizes that only chance makes different; ten times as large.
    rows = [10 * draws(1, 60), best, -best, draws(2, 60)]
    tied = [one.tied for one in joint_values(cells(*rows))]
    assert tied == [False, True, True, True]


def test_the_order_of_rows_changes_no_figure(cells):
    rows = [draws(number, 25, scale=0.1 * (number + 1)) for number in range(4)]
    rows[2][3] = np.nan
    given = [[None if math.isnan(error) else error for error in row] for row in rows]
    expected = joint_values(cells(*given))
    for order in ([3, 2, 1, 0], [1, 3, 0, 2]):
        found = joint_values(cells(*(given[index] for index in order)))
        for one, index in zip(found, order, strict=True):
            assert one.score == pytest.approx(expected[index].score)
            assert one.tied == expected[index].tied
            assert one.rmse.low == pytest.approx(expected[index].rmse.low)


@pytest.fixture
def rows(record):
    """A board's rows by their errors, of one replicate each, so that scores are these errors."""

    def make(**errors):
        records = [
            record(name, 0, status=Status.UNAVAILABLE)
            if error is None
            else record(name, 0, error, exclusive=True, fit_seconds=error, estimate_seconds=0.0)
            for name, error in errors.items()
        ]
        (board,) = boards(records)
        return board

    return make


def test_equal_scores_share_a_rank_and_rows_without_one_come_last(rows):
    board = rows(c=0.3, none=None, b=0.2, a=0.1, b2=0.2)
    shown = [(row.estimator, row.rank) for row in board.rows]
    assert shown == [("a", 1), ("b", 2), ("b2", 2), ("c", 4), ("none", None)]


def test_only_boards_of_errors_and_of_positivity_keep_rows_without_their_figure(rows):
    board = rows(a=0.3, none=None, b=0.2)
    assert [row.estimator for row in ordered(board.rows, "time")] == ["b", "a"]
    assert ordered(board.rows, "ratio") == []
    assert len(ordered(board.rows, "rmse")) == len(ordered(board.rows, "positivity")) == 3


def test_another_question_gives_the_same_figures_in_another_order(rows):
    board = rows(a=0.3, b=0.2)
    other = reordered(board, "time")
    assert other.by == "time"
    assert replace(other, by=board.by, rows=()) == replace(board, rows=())
    assert {row.estimator: replace(row, rank=None) for row in other.rows} == {
        row.estimator: replace(row, rank=None) for row in board.rows
    }
