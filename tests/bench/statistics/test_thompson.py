"""Probabilities of Thompson sampling against closed forms, simulation, and another quadrature."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from ope_bench import DataError, thompson_propensity


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("sd", [(1.0, 1.0), (1.0, 1e-3), (0.2, 3.0)])
def test_two_arms_have_a_closed_form(sd, scale):
    for apart in (0.0, 0.3, 2.0, 6.0):
        mean = np.array([5.0, 5.0 - apart]) * scale
        found = thompson_propensity(mean, np.array(sd) * scale)
        exact = norm.cdf(np.array([1, -1]) * apart / np.hypot(*sd))
        np.testing.assert_allclose(found, exact, atol=1e-10)


def test_many_arms_are_those_of_an_adaptive_quadrature():
    rng = np.random.default_rng(0)
    for arms in (2, 4):
        mean, sd = rng.standard_normal(arms), rng.choice([0.05, 0.3, 1.0, 4.0], arms)

        def integrand(z, a, mean=mean, sd=sd):
            below = norm.cdf((z - mean) / sd)
            below[a] = 1.0
            return norm.pdf((z - mean[a]) / sd[a]) / sd[a] * below.prod()

        exact = []
        for a in range(arms):
            cuts = sorted(mean[a] + np.arange(-9, 10, 1.5) * sd[a])
            parts = itertools.pairwise(cuts)
            exact.append(sum(quad(integrand, *ends, args=(a,), epsabs=1e-13)[0] for ends in parts))
        np.testing.assert_allclose(thompson_propensity(mean, sd), exact, atol=1e-8)


def test_draws_choose_arms_so_often():
    rng = np.random.default_rng(1)
    mean, sd = np.array([0.0, 0.5, 1.0]), np.array([1.0, 1.0, 0.5])
    chosen = (mean + sd * rng.standard_normal((400_000, 3))).argmax(axis=1)
    share = np.bincount(chosen) / len(chosen)
    found = thompson_propensity(mean, sd)
    assert np.abs(share - found).max() < 4 * np.sqrt(0.25 / len(chosen))
    np.testing.assert_allclose(found, [0.138957, 0.293095, 0.567949], atol=1e-6)


def test_equal_arms_are_equal_and_rows_are_apart():
    np.testing.assert_allclose(thompson_propensity(np.full(100, 7.0), np.ones(100)), 0.01)
    rows = thompson_propensity([[0.0, 1.0], [1.0, 0.0]], [[1.0, 2.0], [2.0, 1.0]])
    np.testing.assert_allclose(rows[0], rows[1][::-1], atol=1e-14)
    assert thompson_propensity([3.0], [1.0]).tolist() == [1.0]


@pytest.mark.parametrize(
    ("mean", "sd", "first"),
    [
        ([1e308, -1e308], [1.0, 1.0], 1.0),
        ([-1e308, 1e308], [1e-308, 1e-308], 0.0),
        ([1e308, -1e308], [1e308, 1e308], norm.cdf(np.sqrt(2))),
        ([1e308, 1e308], [1e-300, 2e-300], 0.5),
        ([0.0, 1.0, 1e200], [1.0, 1e-6, 1e-6], 0.0),
        ([5e-324, 0.0], [1.0, 1.0], 0.5),
    ],
)
def test_no_number_is_too_large_or_too_small(mean, sd, first):
    found = thompson_propensity(mean, sd)
    np.testing.assert_allclose([found[0], found.sum()], [first, 1.0], atol=1e-10)


@pytest.mark.parametrize(
    ("mean", "sd"),
    [
        *(([0.0, 1.0], [1.0]), ([0.0], [0.0]), ([np.nan], [1.0]), ([], []), ([np.inf], [1.0])),
        *(([0.0, 1.0], [1.0, 1e-9]), ([0.0, 1.0], [5e-324, 1e308]), ([0.0, 0.0], [1.0, -1.0])),
    ],
)
def test_what_is_no_posterior_is_refused(mean, sd):
    with pytest.raises(DataError):
        thompson_propensity(mean, sd)
