"""Weighting with both policies estimated: what it tends to, and what never-logged actions do."""

from __future__ import annotations

import numpy as np
import pytest

from ope_bench.base.errors import PositivityViolation, UnavailableError
from ope_estimators.actions.weighting.ipw import IPW
from ope_estimators.actions.weighting.ipw_star import IPWStar
from ope_estimators.actions.weighting.ipws_star import IPWSStar
from support import tiny_worlds as tiny

BOTH = pytest.mark.parametrize("cls", [IPWStar, IPWSStar])
LOOSE = {"classifier_params": {"C": 1e6}}
"""Hardly any penalty: on one-hot contexts the fit is the observed shares."""


@pytest.fixture
def world():
    return tiny.small().but(categorical=True)


@pytest.fixture
def deficient(world):
    return world.but(pi0=np.array([[0.5, 0.5, 0.0], [0.4, 0.6, 0.0]]))


@BOTH
def test_they_tend_to_the_value(world, cls):
    estimate = tiny.run(cls(**LOOSE), world.population())
    assert estimate.value == pytest.approx(world.value, rel=1e-3)
    assert estimate.weights == pytest.approx(tiny.run(IPW(), world.population()).weights, rel=0.01)
    assert estimate.standard_error is None


@BOTH
def test_equal_policies_give_the_mean_reward(world, cls):
    same = world.but(pi1=world.pi0).population()
    assert tiny.run(cls(**LOOSE), same).value == pytest.approx(same.reward.mean(), rel=1e-6)


@BOTH
def test_a_never_logged_action_is_a_violation_with_its_share_and_a_fallback(deficient, cls):
    problem = deficient.sample(300, np.random.default_rng(0))
    with pytest.raises(PositivityViolation, match="actions that were never logged") as caught:
        tiny.run(cls(), problem)
    assert caught.value.unsupported_mass == (problem.target_action == 2).mean()
    zero = tiny.run(cls(on_missing="zero"), problem)
    assert caught.value.fallback == zero.value
    assert zero.diagnostics["unsupported_mass"] == caught.value.unsupported_mass


def test_zeroing_loses_exactly_the_unsupported_value(world, deficient):
    population = deficient.population()
    estimate = tiny.run(IPWStar(on_missing="zero", **LOOSE), population)
    lost = world.expectation(np.where(deficient.pi0 == 0, world.pi1, 0.0))
    assert estimate.value == pytest.approx(world.value - lost, rel=2e-3)


@BOTH
def test_laplace_adds_a_pseudo_count_to_every_action(deficient, cls):
    population = deficient.population()
    n, m, k = len(population.reward), len(population.target_action), 3
    estimate = tiny.run(cls(on_missing="laplace", laplace=5.0, **LOOSE), population)
    x, a = population.context[:, 0].astype(int), population.action
    smooth1 = (m * deficient.pi1[x, a] + 5) / (m + 5 * k)
    smooth0 = (n * deficient.pi0[x, a] + 5) / (n + 5 * k)
    assert estimate.weights == pytest.approx(smooth1 / smooth0, rel=0.01)


@BOTH
def test_a_logged_action_that_the_target_never_takes_has_weight_zero(world, cls):
    absent = world.but(pi1=np.array([[0.4, 0.6, 0.0], [0.8, 0.2, 0.0]]))
    population = absent.population()
    estimate = tiny.run(cls(**LOOSE), population)
    assert (estimate.weights[population.action == 2] == 0).all()
    assert estimate.value == pytest.approx(absent.value, rel=2e-3)


def test_disjoint_samples_are_zero_for_ipw_star_and_a_violation_for_ipws_star(world):
    apart = world.but(
        pi0=np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]),
        pi1=np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]),
    ).sample(30, np.random.default_rng(1))
    assert tiny.run(IPWStar(on_missing="zero"), apart).value == 0.0
    with pytest.raises(PositivityViolation, match="all 30 weights are 0") as caught:
        tiny.run(IPWSStar(on_missing="zero"), apart)
    assert caught.value.unsupported_mass == 1.0


@BOTH
def test_a_sample_of_one_action_needs_no_classifier(world, cls):
    only = world.but(pi0=np.array([[1.0, 0, 0]] * 2), pi1=np.array([[1.0, 0, 0]] * 2))
    problem = only.sample(20, np.random.default_rng(2))
    assert tiny.run(cls(), problem).value == pytest.approx(problem.reward.mean())


@pytest.mark.parametrize("name", ["gbm", "hist-gbm", "random-forest", "xgboost"])
def test_other_classifiers_of_actions_give_sensible_weights(world, name):
    # 500 rows over two contexts: every one of these learners finds the shares.
    problem = world.sample(500, np.random.default_rng(3))
    params = {"n_estimators": 20} if name != "hist-gbm" else {"max_iter": 20}
    estimate = tiny.run(IPWStar(classifier=name, classifier_params=params), problem)
    assert estimate.weights.mean() == pytest.approx(1.0, abs=0.15)
    assert np.corrcoef(estimate.weights, tiny.run(IPW(), problem).weights)[0, 1] > 0.9


@BOTH
def test_rare_actions_do_not_break_the_fit(world, cls):
    rare = world.but(
        pi0=np.array([[0.99, 0.005, 0.005]] * 2), pi1=np.array([[0.98, 0.01, 0.01]] * 2)
    ).sample(2000, np.random.default_rng(4))
    assert tiny.run(cls(), rare).value == pytest.approx(tiny.run(IPW(), rare).value, abs=0.1)


def test_too_many_actions_for_a_classifier_are_a_violation_without_fallback(monkeypatch):
    monkeypatch.setattr("ope_estimators.nuisance.policy.MAX_TABLE", 10)
    deficient = tiny.small().but(pi0=np.array([[0.5, 0.5, 0.0], [0.4, 0.6, 0.0]]))
    problem = deficient.sample(50, np.random.default_rng(5))
    with pytest.raises(PositivityViolation) as caught:
        tiny.run(IPWStar(), problem)
    assert caught.value.fallback is None
    assert caught.value.unsupported_mass > 0
    with pytest.raises(UnavailableError, match="too many actions"):
        tiny.run(IPWStar(on_missing="zero"), problem)
