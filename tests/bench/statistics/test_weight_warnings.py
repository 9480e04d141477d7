"""Limits of importance weights: what is at a limit is still believed."""

from __future__ import annotations

import math

import pytest

from ope_bench.statistics.weight_checks import (
    DOUBTFUL_WEIGHTS,
    RARE_WEIGHTS,
    doubtful_weights,
    weight_warnings,
)


@pytest.mark.parametrize(
    ("share", "mean", "doubtful"),
    [
        (0.1, 0.8, False),
        (math.nextafter(0.1, 1), 0.8, True),
        (0.1, math.nextafter(0.8, 0), True),
        (None, None, False),
        (None, 0.5, True),
        (0.5, None, True),
        (None, 3.0, False),
    ],
)
def test_a_tenth_of_the_weight_and_a_mean_of_four_fifths_are_the_limits(share, mean, doubtful):
    assert doubtful_weights(share, mean) is doubtful
    expected = (DOUBTFUL_WEIGHTS,) if doubtful else ()
    assert weight_warnings(share, mean, None) == expected


@pytest.mark.parametrize(("least", "rare"), [(5.0, False), (math.nextafter(5, 0), True)])
def test_a_weight_of_a_fifth_of_the_rows_is_the_limit(least, rare):
    assert weight_warnings(0.01, 1.0, least) == ((RARE_WEIGHTS,) if rare else ())


@pytest.mark.parametrize(
    ("kinds", "warned"),
    [
        ([], True),
        (["normal"], True),
        (["guaranteed", "bootstrap"], True),
        (["guaranteed"], False),
        (["empirical-likelihood", "guaranteed"], False),
    ],
)
def test_intervals_that_count_on_rows_beyond_the_logs_are_not_warned_of(kinds, warned):
    expected = (DOUBTFUL_WEIGHTS, RARE_WEIGHTS) if warned else ()
    assert weight_warnings(0.5, 0.1, 1.0, iter(kinds)) == expected
