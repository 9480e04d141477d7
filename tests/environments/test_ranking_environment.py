"""`ranking`: rank marginals and click models against enumeration, truth against Monte Carlo."""

import itertools
from typing import Any

import numpy as np
import pytest

from ope_bench import ParameterError
from ope_environments.ranking.clicks import ListClickModel
from ope_environments.ranking.environment import Ranking
from support import tiny_lists

CLICKS = ("independent", "position-based", "cascade", "trust-bias")


def streams(seed=0):
    """Random streams of one replicate in one world."""
    names = ("logged_rng", "target_rng")
    return {"world_rng": np.random.default_rng(7)} | {
        name: np.random.default_rng([seed, k]) for k, name in enumerate(names)
    }


@pytest.mark.parametrize("spread", [0.5, 3.0, 9.0])
@pytest.mark.parametrize("length", [1, 3, 5])
def test_marginals_and_clicks_of_races_are_sums_over_all_lists(spread, length):
    rng = np.random.default_rng(length)
    rates = np.exp(spread * rng.standard_normal(6))
    policy = tiny_lists.policy(list(rates), length)
    lists = np.array(list(itertools.permutations(range(6), length)))
    chance = tiny_lists.chances(policy, lists)[:, -1]
    assert chance.sum() == pytest.approx(1.0)
    table = policy.marginals(np.zeros((1, 1)))[0]
    for k in range(length):
        expected = np.bincount(lists[:, k], chance, 6)
        np.testing.assert_allclose(table[k], expected, atol=1e-5)
    relevance = rng.random(6)
    for name in CLICKS:
        model = ListClickModel(name, length, 0.7, 0.3)
        found = model.expected(policy, np.zeros((1, 1)), relevance[None])[0]
        np.testing.assert_allclose(found, model.enumerated(lists, chance, relevance), atol=1e-5)


@pytest.mark.parametrize("kind", ["plackett-luce", "independent-slots"])
@pytest.mark.parametrize("clicks", CLICKS)
def test_the_truth_is_the_mean_of_many_target_clicks_at_every_slot(clicks, kind):
    made = Ranking(n_samples=60_000, clicks=clicks, logging=kind, target=kind, gamma=0.3)
    problem, truth = made.sample(**streams())
    # 20,000 lists of three clicks.
    assert truth.empirical == pytest.approx(truth.expected, abs=4 * 0.5 / np.sqrt(60_000))
    weight = problem.joint_propensity[:, 1] / problem.joint_propensity[:, 0]
    terms = (weight * problem.reward).reshape(-1, 3).mean(axis=1)
    error = terms.std() / np.sqrt(len(terms))
    assert terms.mean() == pytest.approx(truth.expected, abs=4 * error)


def test_propensities_are_shares_of_items_at_slots_and_lists_have_no_item_twice():
    made = Ranking(n_samples=90_000, n_users=1, n_actions=5)
    problem, _ = made.sample(**streams())
    logging: Any = problem.logging_policy
    table = logging.marginals(problem.context[:1, :-1])[0]
    for k in range(3):
        rows = problem.slot == k
        shares = np.bincount(problem.action[rows], minlength=5) / rows.sum()
        np.testing.assert_allclose(shares, table[k], atol=4 * 0.5 / np.sqrt(30_000))
        np.testing.assert_allclose(problem.propensity[rows], table[k][problem.action[rows]])
        np.testing.assert_array_equal(
            problem.position_marginals[rows, k, 0], problem.propensity[rows]
        )
    items = np.sort(problem.action.reshape(-1, 3), axis=1)
    assert (np.diff(items, axis=1) > 0).all()
    np.testing.assert_array_equal(problem.unit, np.repeat(np.arange(30_000), 3))


def test_unavailable_items_are_never_shown_and_full_masks_change_nothing():
    problem, _ = Ranking(n_samples=3000, available=0.4).sample(**streams())
    problem.check_policies()
    mask = problem.action_mask
    assert 0.3 < mask.mean() < 0.6
    assert (mask.sum(axis=1) >= 3).all()
    assert mask[np.arange(3000), problem.action].all()
    policies: Any = (problem.logging_policy, problem.target_policy)
    for policy in policies:
        table = policy.table(problem.context)
        assert (table[~mask] == 0).all()
        np.testing.assert_allclose(table.sum(axis=1), 1.0)
    plain, _ = Ranking(n_samples=300).sample(**streams())
    assert plain.action_mask is None


def test_a_cut_list_has_the_probability_of_what_it_shows():
    problem, truth = Ranking(n_samples=8, length=3, clicks="cascade").sample(**streams())
    np.testing.assert_array_equal(problem.slot, [0, 1, 2, 0, 1, 2, 0, 1])
    np.testing.assert_array_equal(problem.joint_propensity[7], problem.prefix_propensity[7])
    assert 0 < truth.expected < 1


def test_a_smaller_world_has_the_first_items_of_a_larger_one():
    small, large = (Ranking(n_samples=30, n_actions=k).sample(**streams())[0] for k in (5, 9))
    np.testing.assert_array_equal(small.action_embedding, large.action_embedding[:5])


def test_more_slots_than_items_are_refused():
    with pytest.raises(ParameterError, match="slots"):
        Ranking(length=5, n_actions=4).sample(**streams())
