"""Policies that environments mix out of others, by their tables worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ope_bench import Uniform
from ope_environments.behance.policies import creator_code, epsilon_top, popularity
from ope_environments.populations.blend import Blend
from ope_environments.randomized.policies import MixedRule, TiltedShares
from ope_environments.saito.deficient_softmax import DeficientSoftmax
from ope_environments.synthetic.linear_score import ActionScore

SHARE = np.array([[0.5, 0.3, 0.2], [0.1, 0.0, 0.9]])
STRATA = np.array([[0.0], [1.0], [1.0]])


def stratum(context):
    return context[:, 0].astype(np.int64)


def powers(context):
    """Scores whose exponentials are 1, 2 and 4 in each context."""
    return np.tile(np.log([1.0, 2.0, 4.0]), (len(context), 1))


@pytest.mark.parametrize(
    ("skew", "expected"),
    [
        (0.0, [[0.5, 0.3, 0.2], [0.1, 0.0, 0.9], [0.1, 0.0, 0.9]]),
        (1.0, [[0.5 / 1.9, 0.6 / 1.9, 0.8 / 1.9], *[[0.1 / 3.7, 0.0, 3.6 / 3.7]] * 2]),
        (-1.0, [[0.5 / 0.7, 0.15 / 0.7, 0.05 / 0.7], *[[0.1 / 0.325, 0.0, 0.225 / 0.325]] * 2]),
    ],
)
def test_shares_are_tilted_by_the_exponential_of_the_score(skew, expected):
    policy = TiltedShares(SHARE, stratum, powers, skew)
    np.testing.assert_allclose(policy.table(STRATA), expected, rtol=1e-12)
    assert policy.n_actions == 3


@pytest.mark.parametrize(
    ("share", "full"), [(SHARE, False), (SHARE[:1], True), ([[0.5, 0.5, 0.0]], False)]
)
def test_shares_have_full_support_where_every_arm_is_drawn_in_every_stratum(share, full):
    assert TiltedShares(np.asarray(share), stratum, powers, 1.0).full_support is full


def test_a_rule_has_the_weight_that_the_shares_leave():
    policy = MixedRule(SHARE, stratum, lambda context, share: share.argmax(axis=1), 0.2)
    expected = [[0.9, 0.06, 0.04], [0.02, 0.0, 0.98], [0.02, 0.0, 0.98]]
    np.testing.assert_allclose(policy.table(STRATA), expected, rtol=1e-12)
    assert policy.n_actions == 3


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (0.0, [0.5, 0.5, 0.0]),
        (0.25, [(0.375 + 1 / 12) / (11 / 12), (0.375 + 1 / 12) / (11 / 12), 0.0]),
        (0.5, [0.5, 0.5, 0.0]),
    ],
)
def test_a_blend_is_a_mixture_where_its_first_policy_plays(share, expected):
    first = TiltedShares(np.array([[0.5, 0.5, 0.0]]), stratum, powers, 0.0)
    table = Blend(first, Uniform(3), share).table(STRATA[:1])
    np.testing.assert_allclose(table, [expected], rtol=1e-12)


def test_a_blend_of_overlapping_policies_is_their_mixture():
    first = TiltedShares(SHARE, stratum, powers, 0.0)
    second = TiltedShares(SHARE, stratum, powers, 1.0)
    blend = Blend(first, second, 0.25)
    expected = 0.75 * first.table(STRATA) + 0.25 * second.table(STRATA)
    np.testing.assert_allclose(blend.table(STRATA), expected, rtol=1e-12)
    assert blend.n_actions == 3


def test_the_best_of_tied_counts_is_the_earlier():
    counts = np.array([[2, 7, 7, 7, 1], [5, 4, 3, 2, 1]])
    table = epsilon_top(counts, 2, 0.5)
    np.testing.assert_allclose(table, [[0.1, 0.35, 0.35, 0.1, 0.1], [0.35, 0.35, 0.1, 0.1, 0.1]])


def test_popularity_is_a_power_of_one_more_than_the_count():
    counts = np.array([[0, 1, 3], [9, 9, 0]])
    expected = [[1 / 21, 4 / 21, 16 / 21], [100 / 201, 100 / 201, 1 / 201]]
    np.testing.assert_allclose(popularity(counts, 2.0), expected)
    np.testing.assert_allclose(popularity(10**6 * counts, 0.0), np.full((2, 3), 1 / 3))
    assert popularity(np.array([[0, 10**9]]), 100.0).tolist() == [[0.0, 1.0]]


def test_creators_are_coded_by_the_first_column():
    code = creator_code(np.array([[1.0, 7.0], [0.0, 8.0]]))
    assert code.tolist() == [1, 0]
    assert code.dtype == np.int64


@pytest.mark.parametrize(
    ("angle", "missing"),
    [(0.0, [0, 1]), (0.24, [0, 1]), (0.26, [1, 2]), (0.74, [2, 3]), (0.76, [3, 0])],
)
def test_the_arc_without_support_starts_at_the_angle_of_the_context(angle, missing):
    """Four actions in a circle, of which two are left out; angles in turns."""
    turn = 2 * np.pi * angle
    context = np.array([[np.cos(turn), np.sin(turn), 5.0]]) * 3.0
    policy = DeficientSoftmax(ActionScore(np.zeros((4, 4))), n_deficient=2)
    expected = np.full(4, 0.5)
    expected[missing] = 0.0
    np.testing.assert_allclose(policy.table(context), [expected])
    rows = np.repeat(context, 4, axis=0)
    assert policy.supported(rows, np.arange(4)).tolist() == (expected > 0).tolist()
    assert policy.first_deficient(context).tolist() == missing[:1]


def test_support_is_full_only_without_an_arc():
    score = ActionScore(np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]))
    full = DeficientSoftmax(score, n_deficient=0, beta=2.0)
    assert full.full_support
    assert not DeficientSoftmax(score, n_deficient=1).full_support
    context = np.array([[0.3, -0.2]])
    scores = score(context)[0]
    weights = np.exp(2.0 * scores)
    np.testing.assert_allclose(full.table(context), [weights / weights.sum()])
    plain = DeficientSoftmax(score, n_deficient=0).table(context)
    np.testing.assert_allclose(plain, [np.exp(scores) / np.exp(scores).sum()])
    assert full.supported(np.repeat(context, 3, axis=0), np.arange(3)).all()


@pytest.mark.parametrize("scale", [1.0, 1e3], ids=["finite exponentials", "by the largest score"])
@pytest.mark.parametrize("n_deficient", [0, 2])
def test_the_mean_of_one_feature_is_that_of_the_table(scale, n_deficient):
    rng = np.random.default_rng(5)
    score = ActionScore(scale * rng.normal(size=(3, 6)))
    policy = DeficientSoftmax(score, n_deficient=n_deficient)
    context, feature = rng.normal(size=(40, 2)), rng.normal(size=(6, 1))
    found = policy.project(context, feature)
    np.testing.assert_allclose(found, policy.table(context) @ feature, rtol=1e-9, atol=1e-12)
