"""The page of randomized trials: correlations of orders, coverage, the truth's own error."""

from __future__ import annotations

import numpy as np
from judging.pages.randomized import BoardErrors, _complete, _held, correlation

N = 200


def setting(scales, trial=None, name="world", truth_se=0.0, seed=0):
    """Normal errors of known scales, with intervals of the right width."""
    rng = np.random.default_rng(seed)
    errors = np.array(scales)[:, None] * rng.standard_normal((len(scales), N))
    half = 1.959964 * np.array(scales)[:, None]
    reach = np.stack([half - errors, half + errors], axis=2)
    labels = tuple(f"e{k}" for k in range(len(scales)))
    return BoardErrors(name, trial, 1.0, truth_se, labels, errors, reach)


def test_equal_orders_correlate_by_one_and_reversed_ones_by_minus_one():
    up, down = [1.0, 2.0, 4.0, 8.0], [8.0, 4.0, 2.0, 1.0]
    same = correlation([setting(up, "star", seed=1)], [setting(up, seed=2)])
    assert (same.value, same.low, same.high) == (1.0, 1.0, 1.0)
    assert correlation([setting(up, "star")], [setting(down, seed=3)]).value == -1.0


def test_settings_of_one_trial_count_once():
    up, down = [1.0, 2.0, 4.0], [16.0, 8.0, 1.0]
    many = [setting(up, "hiv", seed=k) for k in range(5)]
    one = setting(down, "rand", seed=9)
    assert correlation([*many, one], [setting(down, seed=10)]).value == 1.0


def test_orders_without_a_difference_have_wide_intervals():
    flat = [1.0] * 6
    found = correlation([setting(flat, "star", seed=1)], [setting(flat, seed=2)])
    assert found.high - found.low > 0.5


def test_intervals_are_counted_and_widened_by_the_truths_error():
    plain = setting([1.0, 2.0], "star", truth_se=1.0)
    held = _held([plain], 0, with_truth=False)
    errors = np.abs(plain.errors[0]) <= 1.959964
    assert (held.count, held.total) == (errors.sum(), N)
    wider = _held([plain], 0, with_truth=True)
    assert wider.count == (np.abs(plain.errors[0]) <= 1.959964 * np.sqrt(2)).sum()


def test_estimators_that_fail_anywhere_are_left_out_of_orders():
    first, second = setting([1.0, 2.0, 3.0]), setting([1.0, 2.0, 3.0], "star")
    second.errors[1, 7] = np.nan
    found, left_out = _complete([first, second])
    assert left_out == ["e1"]
    assert found[0].labels == ("e0", "e2")
    assert found[1].errors.shape == (2, N)
