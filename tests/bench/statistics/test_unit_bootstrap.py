"""The percentile interval over units: its limits, its resamples, and what a failure counts as."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from ope_bench import Access, Estimate, Estimator, PositivityViolation, bootstrap_interval
from ope_bench.statistics.weight_checks import percentile_interval, resampled_rows
from support import tiny_worlds as tiny

WORLD = tiny.small()


class SecondRow(Estimator):
    """The reward of the second row; no support where it is row 0."""

    def estimate(self, view):
        if view.reward[1] == 0.0:
            msg = "no support"
            raise PositivityViolation(msg)
        return Estimate(float(view.reward[1]))


def numbered(n):
    problem = WORLD.sample(n, np.random.default_rng(0))
    return tiny.view_of(replace(problem, reward=np.arange(float(n))))


@pytest.mark.parametrize("missing", [math.nan, math.inf, -math.inf])
def test_up_to_a_tenth_of_the_resamples_may_have_no_estimate(missing):
    known = list(map(float, range(1, 19)))
    found = percentile_interval([*known, missing, missing], level=0.5)
    assert found is not None
    assert (found.low, found.high) == (5.25, 13.75)
    assert percentile_interval([*known[:-1], missing, missing]) is None


def test_both_tails_are_equal_and_the_level_is_95_percent_by_default():
    found = percentile_interval(map(float, range(1001)))
    assert found is not None
    assert (found.low, found.high) == pytest.approx((25.0, 975.0))
    assert (found.level, found.kind) == (0.95, "bootstrap")


def test_no_support_is_no_estimate():
    view = numbered(30)
    second = [int(drawn.logged[1]) for drawn, _ in resampled_rows(view, 60)]
    assert 0 < second.count(0) <= 6
    found = bootstrap_interval(SecondRow(), view, level=0.8, resamples=60)
    expected = np.quantile([row for row in second if row != 0], [0.1, 0.9])
    assert found is not None
    assert (found.low, found.high) == pytest.approx(tuple(expected))


def test_two_hundred_resamples_at_95_percent_by_default():
    view = numbered(50)
    second = [int(drawn.logged[1]) for drawn, _ in resampled_rows(view, 200)]
    found = bootstrap_interval(SecondRow(), view)
    expected = np.quantile([row for row in second if row != 0], [0.025, 0.975])
    assert found is not None
    assert (found.low, found.high) == pytest.approx(tuple(expected))


def test_without_a_target_sample_no_row_of_it_is_drawn():
    problem = WORLD.sample(6, np.random.default_rng(0))
    given = dict.fromkeys(("target_context", "target_action", "target_embedding"))
    view = tiny.view_of(replace(problem, **given), Access.PROPENSITY)
    drawn = [rows for rows, _ in resampled_rows(view, 3)]
    assert [len(rows.logged) for rows in drawn] == [6, 6, 6]
    assert [rows.target.tolist() for rows in drawn] == [[], [], []]


def test_each_resample_has_a_stream_of_its_own():
    rows, streams = [], []
    for drawn, rng in resampled_rows(numbered(30), 5):
        rows.append(tuple(drawn.logged))
        streams.append(rng.random())
    assert len(set(rows)) == len(set(streams)) == 5
