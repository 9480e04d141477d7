"""Estimators from several loggers, enumerated: unbiased, and balanced weights vary least."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from ope_bench import STANDARD_ERROR_WITHHELD, PositivityViolation, Problem
from ope_bench.contracts.policies import Tabular
from ope_environments.linear_bandit.environment import LinearBandit
from ope_estimators.actions.doubly_robust.dr import DR
from ope_estimators.actions.weighting.ipw import IPW
from ope_estimators.loggers.balanced_ipw import BalancedIPW
from ope_estimators.loggers.multi_dr import MultiDR
from ope_estimators.loggers.stabilized_dr import StabilizedDR
from ope_estimators.loggers.weighted_ipw import WeightedIPW
from ope_estimators.selection.blue import Blue
from support import golden_log, tiny_lists
from support.tiny_worlds import code

OTHER = np.array([[0.2, 0.2, 0.6], [0.6, 0.3, 0.1]])


def two_loggers(first=golden_log.LOGGING, second=OTHER):
    """Golden log, in which the second logger chose every other row."""
    stratum = np.array([0, 1, 0, 1, 0, 1])
    both = np.stack([first, second])
    propensity = both[stratum, golden_log.CONTEXT, golden_log.ACTION]
    return replace(
        golden_log.problem(),
        stratum=stratum,
        stratum_policies=tuple(Tabular(one, code) for one in both),
        propensity=propensity,
        logging_policy=None,
    )


def test_the_golden_log_of_two_loggers_has_values_derived_by_hand():
    """Target π1 = .1, .1, .8, .7, .1, .1 at the six actions, mixtures .35, .25, .4, .4, .35, .35.

    Weights are 2/7, 2/5, 2, 7/4, 2/7, 2/7; rewards 0, 1, 1, 1, 0, 1: (2/5 + 2 + 7/4 + 2/7)/6.
    With q̂ the sums over actions are .54 and .42, residuals -.2, .6, .4, .5, -.1, .9:
    .48 + (-.4/7 + 1.2/5 + .8 + 3.5/4 - .2/7 + 1.8/7)/6.
    """
    found = tiny_lists.run(BalancedIPW(), two_loggers())
    assert found.value == pytest.approx((2 / 5 + 2 + 7 / 4 + 2 / 7) / 6, abs=1e-12)
    doubly = golden_log.run(MultiDR("ridge", cross_fit=1), two_loggers())
    residuals = -0.4 / 7 + 1.2 / 5 + 0.8 + 3.5 / 4 - 0.2 / 7 + 1.8 / 7
    assert doubly.value == pytest.approx(0.48 + residuals / 6, abs=1e-12)


def test_weights_inversely_to_variances_are_those_of_the_loggers_own_estimates():
    log = two_loggers()
    own = tiny_lists.run(IPW(), log)
    parts = [own.terms[log.stratum == k] for k in (0, 1)]
    variances = np.array([part.var(ddof=1) / 3 for part in parts])
    share = (1 / variances) / (1 / variances).sum()
    found = tiny_lists.run(WeightedIPW(), log)
    assert found.value == pytest.approx(share @ [part.mean() for part in parts])
    assert found.standard_error is None
    assert "estimated" in found.diagnostics[STANDARD_ERROR_WITHHELD]
    alone = tiny_lists.run(Blue(["weighted-ipw"]), log)
    assert alone.standard_error is None
    assert "weighted-ipw" in alone.diagnostics[STANDARD_ERROR_WITHHELD]
    assert found.diagnostics["largest_share"] == pytest.approx(share.max())


def test_one_logger_has_a_standard_error_and_a_logger_without_rewards_none():
    one = replace(golden_log.problem(), stratum=np.zeros(6, dtype=int))
    found, plain = tiny_lists.run(WeightedIPW(), one), tiny_lists.run(IPW(), one)
    assert found.standard_error == pytest.approx(plain.standard_error)
    found = tiny_lists.run(WeightedIPW(), replace(two_loggers(), reward=np.eye(6)[0]))
    assert found.standard_error is None
    assert found.diagnostics["largest_share"] == 0.5


def test_equal_loggers_give_ipw_and_dr():
    log = two_loggers(second=golden_log.LOGGING)
    assert tiny_lists.run(BalancedIPW(), log).value == pytest.approx(
        tiny_lists.run(IPW(), golden_log.problem()).value, abs=1e-12
    )
    assert golden_log.run(MultiDR("ridge", cross_fit=1), log).value == pytest.approx(
        golden_log.run(DR("ridge", cross_fit=1), golden_log.problem()).value, abs=1e-12
    )


@pytest.mark.parametrize("seed", range(20))
def test_balanced_weights_are_unbiased_and_never_vary_more_than_own_propensities(seed):
    """Enumerated: one context, every action of three loggers with as many rows each."""
    rng = np.random.default_rng(seed)
    loggers = rng.dirichlet(np.ones(4), size=3)
    target, reward, noise = rng.dirichlet(np.ones(4)), rng.normal(size=4), rng.random(4)
    rows = [(k, a) for k in range(3) for a in range(4)]
    stratum, action = np.array(rows).T
    log = replace(
        golden_log.problem(np.zeros(12, int), action % 3, reward[action]),
        n_actions=4,
        action=action,
        action_embedding=None,
        embedding=np.zeros((12, 1)),
        stratum=stratum,
        stratum_policies=tuple(Tabular(one[None], code) for one in loggers),
        propensity=loggers[stratum, action],
        logging_policy=None,
        target_policy=Tabular(target[None], code),
    )
    second = reward**2 + noise
    chance = loggers / 3
    variances = []
    for estimator in (BalancedIPW(), IPW()):
        weight = tiny_lists.run(estimator, log).weights.reshape(3, 4)
        means = (loggers * weight * reward).sum(axis=1)
        assert means.mean() == pytest.approx(target @ reward)
        variances.append((chance * weight**2 * second).sum() - (means**2).mean())
    balanced, own = variances
    assert balanced <= own + 1e-12


def test_the_environment_draws_each_loggers_rows_by_its_policy():
    made = LinearBandit(n_samples=999, n_actions=4, loggers=[-1.0, 0.0, 2.0])
    names = ("world_rng", "logged_rng", "target_rng")
    draws = {name: np.random.default_rng(k) for k, name in enumerate(names)}
    problem, truth = made.sample(**draws)
    assert np.bincount(problem.stratum).tolist() == [333, 333, 333]
    for k, policy in enumerate(problem.stratum_policies):
        rows = problem.stratum == k
        context, action = problem.context[rows], problem.action[rows]
        np.testing.assert_array_equal(
            problem.propensity[rows], policy.probability(context, action)
        )
    assert problem.logging_policy is None
    for estimator in (BalancedIPW(), StabilizedDR("ridge"), MultiDR("ridge")):
        found = tiny_lists.run(estimator, problem)
        assert abs(found.value - truth.expected) < 5 * found.standard_error


def test_stabilized_dr_of_equal_loggers_is_dr():
    predicted = golden_log.REWARD_MODEL[golden_log.CONTEXT]
    log = replace(two_loggers(second=golden_log.LOGGING), predicted_reward=predicted)
    found = tiny_lists.run(StabilizedDR("given"), log)
    plain = tiny_lists.run(DR("given"), replace(golden_log.problem(), predicted_reward=predicted))
    assert found.value == pytest.approx(1.087222, abs=6e-7)
    assert found.value == pytest.approx(plain.value, abs=1e-12)
    assert found.standard_error == pytest.approx(plain.standard_error, abs=1e-12)


def test_stabilized_dr_weighs_batches_by_one_over_the_root_of_their_variances():
    """h of a batch is [mean over the six contexts of sum_a π1² / π0k]^(-1/2)."""
    predicted = golden_log.REWARD_MODEL[golden_log.CONTEXT]
    log = replace(two_loggers(), predicted_reward=predicted)
    loggers = np.stack([golden_log.LOGGING, OTHER])
    needed = (golden_log.TARGET**2 / loggers).sum(axis=2).mean(axis=1)
    h = (needed**-0.5)[log.stratum]
    weight = golden_log.TARGET[golden_log.CONTEXT, golden_log.ACTION] / log.propensity
    logged = predicted[np.arange(6), golden_log.ACTION]
    expected = (golden_log.TARGET[golden_log.CONTEXT] * predicted).sum(axis=1)
    terms = expected + weight * (golden_log.REWARD - logged)
    found = tiny_lists.run(StabilizedDR("given"), log)
    assert found.value == pytest.approx(h @ terms / h.sum(), abs=1e-12)
    never = np.array([[[0.5, 0, 0.5], [0.2, 0.2, 0.6]], [[0.2, 0.2, 0.6], [0.6, 0, 0.4]]])
    log = replace(log, stratum_policies=tuple(Tabular(one, code) for one in never))
    with pytest.raises(PositivityViolation):
        tiny_lists.run(StabilizedDR("given"), log)


def test_stabilized_dr_of_one_action_weighs_a_row_by_the_root_of_its_batchs_propensity():
    """The second arm always: h = sqrt(p), terms q + 1{a = 1} (r - q) / p, with q given."""
    log, predicted = thompson(3), np.random.default_rng(9).normal(size=(1000, 2))
    found = tiny_lists.run(StabilizedDR("given"), replace(log, predicted_reward=predicted))
    at = np.zeros((1, 1)), np.ones(1, dtype=int)
    p = np.array([one.probability(*at)[0] for one in log.stratum_policies])
    h, p, q = np.sqrt(p)[log.stratum], p[log.stratum], predicted[:, 1]
    phi = q + (log.action == 1) * (log.reward - q) / p
    value = (h * phi).sum() / h.sum()
    assert found.value == pytest.approx(value, abs=1e-12)
    # The published variance, with its degrees of freedom of a mean.
    error = np.sqrt(((h * (phi - value)) ** 2).sum() * 1000 / 999) / h.sum()
    assert found.standard_error == pytest.approx(error, rel=1e-9)


def test_models_of_stabilized_dr_know_earlier_batches_alone():
    log = two_loggers()
    moved = replace(log, reward=np.where(log.stratum == 1, log.reward + 5.0, log.reward))
    first, second = (tiny_lists.run(StabilizedDR("ridge"), one) for one in (log, moved))
    share = (
        first.weights * log.propensity / golden_log.TARGET[golden_log.CONTEXT, golden_log.ACTION]
    )
    of_first, of_second = (one.value + (one.terms - one.value) / share for one in (first, second))
    rows = log.stratum == 0
    np.testing.assert_allclose(of_first[rows], of_second[rows])
    assert not np.allclose(of_first[~rows], of_second[~rows])


def thompson(seed: int, batches: int = 20, size: int = 50) -> Problem:
    """Two arms with rewards N(0, 1); batches play an arm as often as it seems the best."""
    rng, total, count = np.random.default_rng(seed), np.zeros(2), np.ones(2)
    rows, policies = [], []
    for batch in range(batches):
        gap = (total / count) @ [-1, 1] / np.sqrt((1 / count).sum())
        chance = min(max(float(norm.cdf(gap)), 0.02), 0.98)
        action = (rng.random(size) < chance).astype(int)
        reward = rng.standard_normal(size)
        total, count = total + np.bincount(action, reward, 2), count + np.bincount(action, None, 2)
        policies.append(Tabular(np.array([[1 - chance, chance]]), code))
        rows.append((np.full(size, batch), action, reward, np.where(action, chance, 1 - chance)))
    stratum, action, reward, propensity = map(np.concatenate, zip(*rows, strict=True))
    n = len(reward)
    return Problem(
        np.zeros((n, 1)), action, np.zeros((n, 1)), reward, None, None, None, 2,
        propensity=propensity, target_policy=Tabular(np.array([[0.0, 1.0]]), code),
        stratum=stratum, stratum_policies=tuple(policies), predicted_reward=np.zeros((n, 2)),
    )  # fmt: skip


def test_stabilized_dr_holds_its_level_under_a_logger_that_learns():
    """The second arm's value is 0; 200 logs, nominal 95 %, error 1.5 %."""
    found = [tiny_lists.run(StabilizedDR("given"), thompson(seed)) for seed in range(200)]
    value, error = np.array([[one.value, one.standard_error] for one in found]).T
    assert 0.90 <= np.mean(np.abs(value) <= 1.96 * error) <= 0.99
    assert abs(value.mean()) < 4 * value.std() / np.sqrt(200)
