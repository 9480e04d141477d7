"""Rejection sampling: accepted rows follow the stated policy, contexts and units stay."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

from ope_bench.base.errors import DataError
from ope_environments.populations.rejection import accept, tilt

N = 60_000
LOGGING = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
WANTED = np.array([[0.1, 0.1, 0.8], [0.7, 0.2, 0.1]])
BOUND = float((WANTED / LOGGING).max())


def logged(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    context = (rng.random(N) < 0.3).astype(int)
    action = (np.cumsum(LOGGING[context], axis=1) < rng.random(N)[:, None]).sum(axis=1)
    return context, action


def test_accepted_actions_have_the_wanted_probabilities_in_every_context() -> None:
    context, action = logged()
    found = accept(LOGGING[context, action], WANTED[context, action], np.random.default_rng(1))
    for value in (0, 1):
        at = found.rows[context[found.rows] == value]
        count = np.bincount(action[at], minlength=3)
        assert chisquare(count, WANTED[value] * len(at)).pvalue > 0.001
        # The logging policy's probabilities are refused, so the test has power.
        assert chisquare(count, LOGGING[value] * len(at)).pvalue < 1e-6


def test_contexts_keep_their_shares_and_one_row_in_bound_is_accepted() -> None:
    context, action = logged()
    found = accept(
        LOGGING[context, action],
        WANTED[context, action],
        np.random.default_rng(1),
        bound=BOUND,
    )
    share = context[found.rows].mean()
    assert abs(share - context.mean()) < 4 * 0.5 / np.sqrt(len(found.rows))
    assert abs(len(found.rows) / N - 1 / BOUND) < 4 * 0.5 / np.sqrt(N)


def test_the_propensities_handed_on_are_those_of_the_accepted_rows() -> None:
    context, action = logged()
    found = accept(LOGGING[context, action], WANTED[context, action], np.random.default_rng(1))
    assert np.array_equal(found.propensity, WANTED[context, action][found.rows])
    # They weigh back to the logging policy: the mean of 1{a} logging / wanted is its share.
    weight = LOGGING[context, action][found.rows] / found.propensity
    assert weight.mean() == pytest.approx(1.0, abs=0.03)


def test_a_larger_bound_accepts_a_part_of_the_same_rows() -> None:
    context, action = logged()
    arguments = LOGGING[context, action], WANTED[context, action]
    few = accept(*arguments, np.random.default_rng(1), bound=2 * BOUND)
    many = accept(*arguments, np.random.default_rng(1), bound=BOUND)
    assert set(few.rows) < set(many.rows)
    assert len(few.rows) / len(many.rows) == pytest.approx(0.5, abs=0.05)


def test_rows_of_a_unit_with_one_assignment_stay_together() -> None:
    unit = np.repeat(np.arange(5_000), 3)
    arm = np.repeat(np.random.default_rng(0).integers(2, size=5_000), 3)
    share = np.full(len(unit), 0.5)
    wanted = np.where(arm == 1, 0.8, 0.2)
    found = accept(share, wanted, np.random.default_rng(1), unit=unit)
    assert set(np.bincount(unit[found.rows], minlength=5_000)) == {0, 3}
    arms = np.bincount(arm[found.rows][::3], minlength=2)
    assert chisquare(arms, np.array([0.2, 0.8]) * arms.sum()).pvalue > 0.001


@pytest.mark.parametrize(
    ("propensity", "wanted", "bound", "said"),
    [
        ([0.5, 0.0], [0.5, 0.5], None, r"propensity\[1\] is not positive"),
        ([0.5, 0.5], [0.5, -0.1], None, r"wanted\[1\] is negative"),
        ([0.5, 0.1], [0.5, 0.5], 2.0, "is 5 in row 1, above 2"),
        ([0.5, 0.1], [0.5], None, "wanted has shape"),
    ],
)
def test_impossible_probabilities_are_refused(propensity, wanted, bound, said) -> None:
    with pytest.raises(DataError, match=said):
        accept(np.array(propensity), np.array(wanted), np.random.default_rng(0), bound=bound)


def test_a_tilt_is_the_shares_times_exponentials() -> None:
    rng = np.random.default_rng(0)
    score = rng.normal(size=(5, 3))
    share = np.array([0.5, 0.5, 0.0])
    for skew in (0.0, 1.0, -2.0):
        by_hand = share * np.exp(skew * score)
        by_hand /= by_hand.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(tilt(share, score, skew), by_hand, atol=1e-12)
    np.testing.assert_allclose(tilt(share, 1e6 * score, 1.0).sum(axis=1), 1.0)
    with pytest.raises(DataError, match="row 0 has no action"):
        tilt(np.zeros(3), score, 1.0)
