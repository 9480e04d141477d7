"""Reward models of actions: what the direct methods and the doubly robust one tend to."""

from __future__ import annotations

from importlib.metadata import version

import numpy as np
import pytest
from packaging.version import Version

from ope_bench.base.errors import UnavailableError
from ope_bench.contracts.data import Problem
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import Access, FitCache, View
from ope_estimators.actions.direct.dm import DM
from ope_estimators.actions.direct.dm_paper import DMPaper
from ope_estimators.actions.direct.dm_star import DMStar
from ope_estimators.actions.direct.dm_star_paper import DMStarPaper
from ope_estimators.actions.doubly_robust.dr import DR
from ope_estimators.actions.weighting.ipw import IPW
from ope_estimators.features.actions import MAX_ONE_HOT
from support import tiny_worlds as tiny

SATURATED = {"regressor": "linear", "regressor_params": {"degree": 2}}
"""Exact on one-hot contexts and actions: a coefficient for every pair."""

WRONG = {"regressor": "sklearn.linear_model.LinearRegression", "action_features": "ordinal"}
"""Cannot be right in these worlds."""

ZERO = {
    "regressor": "sklearn.dummy.DummyRegressor",
    "regressor_params": {"strategy": "constant", "constant": 0.0},
}

exact_least_squares = pytest.mark.skipif(
    Version(version("scikit-learn")) < Version("1.6"),
    reason="LinearRegression of scikit-learn before 1.6 is inexact on one-hot columns, which are "
    "collinear with the intercept",
)

ALL = [DM, DMStar, DMPaper, DMStarPaper, DR]


@pytest.fixture
def world():
    return tiny.small().but(categorical=True)


@exact_least_squares
@pytest.mark.parametrize("cls", [DM, DMStar, DR])
def test_a_right_model_tends_to_the_value(world, cls):
    estimate = tiny.run(cls(**SATURATED, cross_fit=1), world.population())
    assert estimate.value == pytest.approx(world.value, abs=1e-9)


@exact_least_squares
def test_the_printed_direct_method_tends_to_the_sum_of_both_policies_products(world):
    limit = world.expectation(world.pi0 * world.pi1)
    assert tiny.run(DMPaper(**SATURATED), world.population()).value == pytest.approx(limit)
    # A classifier with hardly any penalty on one-hot contexts finds the target policy's shares.
    loose = {"classifier_params": {"C": 1e6}}
    estimate = tiny.run(DMStarPaper(**SATURATED, **loose), world.population())
    assert estimate.value == pytest.approx(limit, rel=1e-3)
    assert abs(limit) < 0.5 * abs(world.value)


def test_dr_is_unbiased_over_all_samples_whatever_its_model(world):
    dr = DR(**WRONG, cross_fit=2)
    # Which row lies in which fold is independent of the data, so one seed stands for all.
    mean = sum(p * tiny.run(dr, sample).value for p, sample in world.every_sample(2))
    assert mean == pytest.approx(world.value, abs=1e-12)


def test_dr_tends_to_the_value_though_its_model_is_wrong(world):
    population = world.population()
    off = abs(tiny.run(DM(**WRONG), population).value - world.value)
    assert off > 0.01
    assert tiny.run(DR(**WRONG, cross_fit=1), population).value == pytest.approx(world.value)


def test_dr_with_a_zero_model_is_ipw(world):
    problem = world.sample(60, np.random.default_rng(0))
    dr, ipw = tiny.run(DR(**ZERO), problem), tiny.run(IPW(), problem)
    assert dr.value == pytest.approx(ipw.value, rel=1e-14)
    assert dr.standard_error == pytest.approx(ipw.standard_error, rel=1e-12)
    assert dr.weights == pytest.approx(ipw.weights)
    assert tiny.run(DM(**ZERO), problem).value == 0.0


def test_dr_intervals_cover_and_shrink_with_a_good_model(world):
    rng, n = np.random.default_rng(1), 300
    samples = [world.sample(n, rng) for _ in range(300)]
    good = {"regressor": "sklearn.linear_model.LinearRegression", "cross_fit": 2}
    outcomes = [tiny.run(DR(**good), sample) for sample in samples]
    value = np.array([e.value for e in outcomes])
    error = np.array([e.standard_error for e in outcomes])
    coverage = (abs(value - world.value) <= 1.96 * error).mean()
    # Three binomial standard errors of 300 trials are 0.038.
    assert 0.91 < coverage < 0.989
    assert value.std() == pytest.approx(np.sqrt((error**2).mean()), rel=0.13)
    without = np.mean([tiny.run(IPW(), sample).standard_error for sample in samples])
    assert error.mean() < 0.8 * without


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("features", ["one-hot", "ordinal", "embedding", "separate"])
def test_every_kind_of_action_features_gives_a_finite_value(world, cls, features):
    problem = world.sample(40, np.random.default_rng(2))
    estimate = tiny.run(cls(regressor="ridge", action_features=features), problem)
    assert np.isfinite(estimate.value)
    assert (estimate.standard_error is not None) == (cls is DR)


def test_embedding_features_tell_deterministic_embeddings_apart(world):
    injective = world.but(
        table=np.eye(3),
        atoms=np.array([[0.0], [1.0], [5.0]]),
        q=np.repeat(world.q[:, :, :1], 3, axis=2),
        deterministic=True,
    )
    exact = {"regressor": "sklearn.tree.DecisionTreeRegressor", "action_features": "embedding"}
    estimate = tiny.run(DM(**exact), injective.population())
    assert estimate.value == pytest.approx(injective.value, abs=1e-12)


@pytest.mark.parametrize("cls", ALL)
def test_a_linear_model_shifts_and_scales_with_rewards(world, cls):
    problem = world.sample(50, np.random.default_rng(3))
    estimator = cls(regressor="linear")

    def value(reward):
        return tiny.run(estimator, Problem(**(vars(problem) | {"reward": reward}))).value

    assert value(2.5 * problem.reward) == pytest.approx(2.5 * value(problem.reward))
    if cls not in (DMPaper, DMStarPaper):
        assert value(problem.reward + 4.0) == pytest.approx(value(problem.reward) + 4.0)


@pytest.mark.parametrize("cls", [DM, DMStar, DMPaper])
def test_order_of_rows_does_not_matter_to_an_in_sample_fit(world, cls):
    problem = world.sample(40, np.random.default_rng(4))
    order = np.random.default_rng(5).permutation(40)
    logged = ("context", "action", "embedding", "reward", "propensity")
    moved = Problem(**(vars(problem) | {name: getattr(problem, name)[order] for name in logged}))
    before, after = (tiny.run(cls(regressor="linear"), p).value for p in (problem, moved))
    assert after == pytest.approx(before, rel=1e-10)


def test_dm_star_keeps_performing_and_reports_what_was_never_logged(world):
    deficient = world.but(pi0=np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]))
    problem = deficient.sample(200, np.random.default_rng(6))
    estimate = tiny.run(DMStar(regressor="ridge"), problem)
    assert np.isfinite(estimate.value)
    assert estimate.diagnostics["unsupported_mass"] == (problem.target_action == 2).mean()


def test_one_hot_features_of_too_many_actions_are_unavailable():

    n = MAX_ONE_HOT + 1
    ones = np.ones((n, 1))
    problem = Problem(ones, np.arange(n), ones, np.ones(n), ones, np.arange(n), ones, n_actions=n)
    view = View(problem, Access.SAMPLES, seed=DataSeed("t", 0, 0), fit_cache=FitCache())
    with pytest.raises(UnavailableError, match="set action_features to 'embedding', 'separate'"):
        DMStar("gbm").fit(view, rng=np.random.default_rng(0), device="cpu")


def test_cross_fitting_survives_fewer_rows_than_folds(world):
    problem = world.sample(3, np.random.default_rng(7))
    assert np.isfinite(tiny.run(DR(regressor="ridge", cross_fit=5), problem).value)
    single = world.sample(1, np.random.default_rng(8))
    assert np.isfinite(tiny.run(DR(regressor="ridge"), single).value)


def test_estimators_that_ask_for_the_same_fit_share_it(world):

    problem, fit_cache = world.sample(50, np.random.default_rng(9)), FitCache()
    fits = []
    for cls in (DM, DMStar, DMPaper):
        view = View(problem, cls().access, seed=DataSeed("t", 0, 0), fit_cache=fit_cache)
        fits.append(
            cls("gbm", regressor_params={"n_estimators": 3})
            .fit(view, rng=np.random.default_rng(len(fits)), device="cpu")
            .reward_
        )
    assert fits[0] is fits[1] is fits[2]
    assert view.shared_wall_seconds > 0
