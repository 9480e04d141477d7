"""The integral over contexts: unbiased, with a standard error that tells the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ope_environments.synthetic.context_integral import normal_expectation


@pytest.mark.parametrize("d_context", [1, 2, 3, 10])
def test_known_expectations_lie_within_their_standard_errors(d_context: int) -> None:
    known = {
        0.0: lambda x: x.sum(axis=1),
        d_context / math.sqrt(math.pi) * math.sqrt(2.0): lambda x: np.abs(x).sum(axis=1),
        3.0 * d_context: lambda x: (x**4).sum(axis=1),
        math.exp(0.125): lambda x: np.exp(0.5 * x[:, -1]),
    }
    for exact, f in known.items():
        mean, error = normal_expectation(f, d_context, 4096, np.random.default_rng(3))
        assert abs(mean - exact) < 5.0 * error
        assert error < 0.05 * (1.0 + abs(exact))


def test_the_standard_error_is_the_spread_of_repeated_integrals() -> None:
    answers = [
        normal_expectation(lambda x: x.max(axis=1), 3, 512, np.random.default_rng(seed))
        for seed in range(200)
    ]
    means, errors = np.array(answers).T
    exact = 1.5 / math.sqrt(math.pi)
    assert abs(means.mean() - exact) < 4.0 * means.std() / math.sqrt(200)
    assert 0.8 < np.sqrt(np.square(errors).mean()) / means.std() < 1.25


def test_it_beats_plain_monte_carlo() -> None:
    _, error = normal_expectation(lambda x: x.max(axis=1), 2, 8192, np.random.default_rng(0))
    plain = np.random.default_rng(0).normal(size=(8192, 2)).max(axis=1).std() / math.sqrt(8192)
    assert error < plain / 10.0
