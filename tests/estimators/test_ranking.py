"""Estimators of ranked lists: a golden log of three lists, enumeration, limits."""

from dataclasses import replace

import numpy as np
import pytest

from ope_bench import UnavailableError
from ope_bench.contracts.plugins import Estimate
from ope_environments.ranking.clicks import ListClickModel
from ope_environments.ranking.environment import Ranking
from ope_estimators.actions.doubly_robust.dr import DR
from ope_estimators.actions.weighting.ipw import IPW
from ope_estimators.actions.weighting.ipws import IPWS
from ope_estimators.ranking.cascade_dr import CascadeDR
from ope_estimators.ranking.iips import IIPS
from ope_estimators.ranking.interpol import Interpol
from ope_estimators.ranking.pbm_ipw import PBMIPW
from ope_estimators.ranking.pi import PI
from ope_estimators.ranking.rips import RIPS
from ope_estimators.ranking.sips import SIPS
from ope_estimators.ranking.sn_ipm import SNIPM
from support import golden_log, tiny_lists

DUMMY = "sklearn.dummy.DummyRegressor"

GOLDEN = {
    "sips": (SIPS(), 35 / 36),
    "rips": (RIPS(), 5 / 6),
    "iips": (IIPS(), 3.5 / 6),
    "sn-ipm": (SNIPM(), 23 / 42),
    "interpol": (Interpol(window=0), 3.5 / 6),
    "interpol-wide": (Interpol(window=1), 3.85 / 6),
    "pbm-ipw": (PBMIPW(), 3.85 / 6),
    "pi": (PI(), 67 / 66),
    "cascade-dr": (CascadeDR(DUMMY, cross_fit=1), 37 / 54),
}
"""Values of the golden log of `golden_lists`, derived there."""


def golden_lists():
    """Lists (0,1), (2,0), (1,2) with rewards (1,0), (0,1), (1,1); rates (2,1,1) and (1,1,2).

    P(a,b) = λ_a/4 * λ_b/(4 - λ_a). Logging policy: (0,1) 1/4, (2,0) 1/6, (1,2) 1/12; target 1/12,
    1/4, 1/6. First slots: 1/2, 1/4, 1/4 against 1/4, 1/2, 1/4; at the second slot every item has
    1/3 under both policies.

    sips: weights 1/3, 3/2, 2, so (1/3 + 3/2 + 2 + 2)/6. rips: 1/2, 2, 1 at the first slot, those
    of sips at the second: (1/2 + 1 + 3/2 + 2)/6. iips: 1/2, 2, 1 and 1, 1, 1: (1/2 + 1 + 1 + 1)/6.
    sn-ipm: 1.5/3.5 at the first slot and 2/3 at the second, halved. pbm-ipw, θ = 1, 1/2: items 0,
    1, 2 are examined 5/12, 5/12, 2/3 by the target and 2/3, 5/12, 5/12 by the logging policy:
    weights 5/8, 1, 8/5, so (5/8 + 5/8 + 1 + 8/5)/6.
    pi: z solves E[1_A 1_A'] z = E_π1[1_A]; with z_2(0) = 0 it is -1, 5/11, 17/11 at the first
    slot and 0, 15/11, 18/11 at the second: weights 4/11, 17/11, 23/11, so (4 + 17 + 46)/11/6.
    cascade-dr with means as models: Q_2 = 2/3, Q_1 = 2/3 + 2/3; lists have
    Q_1 + w_1 (r_1 - Q_1 + Q_2) + w_12 (r_2 - Q_2) = 23/18, 1/2, 7/3, together 37/9.
    """
    lists, reward = np.array([[0, 1], [2, 0], [1, 2]]), np.array([[1.0, 0], [0, 1], [1, 1]])
    logging, target = (tiny_lists.policy(rates, 2) for rates in ([2, 1, 1], [1, 1, 2]))
    return tiny_lists.problem(logging, target, lists, reward)


@pytest.mark.parametrize("name", list(GOLDEN))
def test_the_golden_lists_have_the_value_derived_by_hand(name):
    estimator, value = GOLDEN[name]
    data = golden_lists()
    found = tiny_lists.run(estimator, data)
    assert found.value == pytest.approx(value, abs=1e-6)
    order = np.random.default_rng(1).permutation(6)
    arrays = ("context", "action", "embedding", "reward", "propensity", "unit", "slot")
    further = ("prefix_propensity", "joint_propensity", "position_marginals")
    mixed = replace(data, **{one: getattr(data, one)[order] for one in arrays + further})
    assert tiny_lists.run(estimator, mixed).value == pytest.approx(value, abs=1e-6)


def test_terms_average_to_the_value_and_errors_are_those_of_lists():
    for name, (estimator, _) in GOLDEN.items():
        found = tiny_lists.run(estimator, golden_lists())
        assert found.terms.mean() == pytest.approx(found.value), name
        lists = (found.terms - found.value).reshape(3, 2).sum(axis=1)
        error = np.sqrt(3 / 2 * (lists**2).sum()) / 6
        assert found.standard_error == pytest.approx(error), name


UNBIASED = {
    ("sips", "independent"),
    ("sips", "position-based"),
    ("sips", "cascade"),
    ("sips", "trust-bias"),
    ("rips", "independent"),
    ("rips", "cascade"),
    ("rips", "trust-bias"),
    ("iips", "independent"),
    ("iips", "position-based"),
    ("iips", "trust-bias"),
    ("pi", "independent"),
    ("pi", "trust-bias"),
    ("pbm-ipw", "position-based"),
    ("interpol", "trust-bias"),
    ("interpol-wide", "position-based"),
    ("cascade-dr", "cascade"),
    ("cascade-dr", "position-based"),
}
BIASED = {
    ("iips", "cascade"),
    ("pi", "cascade"),
    ("pbm-ipw", "independent"),
    ("pbm-ipw", "cascade"),
    ("pbm-ipw", "trust-bias"),
}


@pytest.mark.parametrize("kind", ["plackett-luce", "independent-slots"])
@pytest.mark.parametrize(("name", "clicks"), sorted(UNBIASED | BIASED))
def test_expectations_over_all_lists_are_the_value_where_promised(name, clicks, kind):
    logging, target = (
        tiny_lists.policy(rates, 2, kind) for rates in ([2, 1, 1.5, 0.7], [0.5, 3, 1, 2])
    )
    lists = tiny_lists.every_list(4, 2, kind)
    model, relevance = ListClickModel(clicks, 2, 1.0, 0.2), np.array([0.2, 0.7, 0.9, 0.4])
    reward = model.probability(relevance[lists])
    chance, wanted = (tiny_lists.chances(one, lists)[:, -1] for one in (logging, target))
    value = float(wanted @ reward.mean(axis=1))
    exact = model.expected(target, np.zeros((1, 1)), relevance[None])[0]
    assert exact.mean() == pytest.approx(value, abs=1e-8)
    np.testing.assert_allclose(model.enumerated(lists, wanted, relevance), exact, atol=1e-8)
    found = tiny_lists.run(GOLDEN[name][0], tiny_lists.problem(logging, target, lists, reward))
    # Terms of cascade-dr depend on a model that is constant here, of others on weights alone.
    expected = float(chance @ found.terms.reshape(-1, 2).mean(axis=1))
    # Where the slots are alike, so are the position-based model's weights and those of items.
    alike = kind == "independent-slots" and name == "pbm-ipw" and clicks != "cascade"
    if (name, clicks) in UNBIASED or alike:
        assert expected == pytest.approx(value, abs=1e-7)
    else:
        assert abs(expected - value) > 1e-4


def test_second_moments_of_both_kinds_are_sums_over_lists():
    for kind in tiny_lists.KINDS:
        made = tiny_lists.policy([2, 1, 0.4], 2, kind)
        lists = tiny_lists.every_list(3, 2, kind)
        shown = np.zeros((len(lists), 2, 3))
        np.put_along_axis(shown, lists[:, :, None], 1.0, axis=2)
        flat = shown.reshape(len(lists), -1)
        chance = tiny_lists.chances(made, lists)[:, -1]
        expected = flat.T @ (chance[:, None] * flat)
        found = made.second_moments(np.zeros((1, 2)))[0]
        np.testing.assert_allclose(found, expected, atol=1e-12)
        table = made.marginals(np.zeros((1, 1)))[0].reshape(-1)
        np.testing.assert_allclose(np.diag(expected), table, atol=1e-8)


def test_independent_slots_give_pi_the_sum_of_their_ratios():
    logging, target = (
        tiny_lists.policy(rates, 2, "independent-slots") for rates in ([2, 1, 1.5], [0.5, 3, 1.0])
    )
    lists = tiny_lists.every_list(3, 2, "independent-slots")
    data = tiny_lists.problem(logging, target, lists, np.ones(lists.shape))
    ratios = tiny_lists.run(IIPS(), data).weights.reshape(-1, 2)
    found = tiny_lists.run(PI(), data).weights.reshape(-1, 2)
    np.testing.assert_allclose(found, np.repeat(ratios.sum(axis=1)[:, None] - 1, 2, axis=1))
    # The variance of the whole list's weight is that of the product.
    product = tiny_lists.run(SIPS(), data).weights.reshape(-1, 2)
    np.testing.assert_allclose(product[:, 0], ratios.prod(axis=1))


def streams():
    """Random streams of one replicate."""
    names = ("world_rng", "logged_rng", "target_rng")
    return {name: np.random.default_rng(k) for k, name in enumerate(names)}


@pytest.fixture(scope="module")
def single():
    """A log of lists of one item."""
    return Ranking(n_samples=400, length=1, n_users=20).sample(**streams())[0]


TODAY = {"sn-ipm": IPWS(), "cascade-dr": DR(DUMMY, cross_fit=1)}


@pytest.mark.parametrize("name", list(GOLDEN))
def test_lists_of_one_item_give_the_numbers_of_single_actions(name, single):
    found = tiny_lists.run(GOLDEN[name][0], single)
    today: Estimate = tiny_lists.run(TODAY.get(name, IPW()), single)
    assert found.value == today.value
    assert found.standard_error == today.standard_error
    np.testing.assert_array_equal(found.weights, today.weights)


def test_windows_go_from_single_slots_to_the_whole_list():
    data, _ = Ranking(n_samples=600, n_users=20, length=4).sample(**streams())

    def weights(estimator):
        return tiny_lists.run(estimator, data).weights

    np.testing.assert_allclose(weights(Interpol(window=0)), weights(IIPS()), rtol=1e-12)
    np.testing.assert_array_equal(weights(Interpol(window=3)), weights(PBMIPW()))
    numbers = [1.0, 1 / 2, 1 / 3, 1 / 4]
    np.testing.assert_allclose(weights(PBMIPW(examination=numbers)), weights(PBMIPW()), rtol=1e-12)


def test_logs_without_lists_are_unavailable_to_those_that_need_them():
    for estimator in (SIPS(), RIPS(), PBMIPW(), CascadeDR()):
        with pytest.raises(UnavailableError):
            tiny_lists.run(estimator, golden_log.problem())
