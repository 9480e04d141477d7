"""The doubly robust family: limits, enumeration, MRDR's weights, tuned thresholds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ope_bench import ESTIMATE_WARNING, STANDARD_ERROR_WITHHELD
from ope_bench.base.errors import ParameterError
from ope_estimators.actions.direct.dm import DM
from ope_estimators.actions.doubly_robust.cab import CAB
from ope_estimators.actions.doubly_robust.dr import DR
from ope_estimators.actions.doubly_robust.dr_os import DROS
from ope_estimators.actions.doubly_robust.dr_ps import DRPS
from ope_estimators.actions.doubly_robust.mrdr import MRDR, variance_weights
from ope_estimators.actions.doubly_robust.sg_dr import SGDR
from ope_estimators.actions.doubly_robust.sndr import SNDR
from ope_estimators.actions.doubly_robust.switch import Switch
from ope_estimators.actions.doubly_robust.switch_dr import SwitchDR
from ope_estimators.actions.doubly_robust.tmle import TMLE, solve_shift
from ope_estimators.actions.weighting.ipw import IPW
from ope_estimators.learning.learners import fit_weighted, regressor
from support import tiny_worlds as tiny
from support.doubly_robust_family import CONSTANT, MODEL, sample

# --- limits


@pytest.mark.parametrize(
    "estimator",
    [
        Switch(threshold=0.0, **MODEL),
        SwitchDR(threshold=0.0, **MODEL),
        DROS(lambda_=0.0, **MODEL),
        DRPS(clip=0.0, **MODEL),
        CAB(threshold=0.0, **MODEL),
    ],
    ids=repr,
)
def test_the_lower_end_is_the_direct_method(estimator):
    assert tiny.run(estimator, sample()).value == pytest.approx(
        tiny.run(DM(**MODEL), sample()).value, rel=1e-12
    )


@pytest.mark.parametrize(
    ("estimator", "end"),
    [
        (Switch(threshold=1e9, **MODEL), IPW()),
        (CAB(threshold=1e9, **MODEL), IPW()),
        (SwitchDR(threshold=1e9, **MODEL), DR(**MODEL)),
        (DROS(lambda_=1e13, **MODEL), DR(**MODEL)),
        (DRPS(clip=1e9, **MODEL), DR(**MODEL)),
        (SGDR(lambda_=0.0, **MODEL), DR(**MODEL)),
    ],
    ids=repr,
)
def test_the_upper_end_weighs_everything(estimator, end):
    found, known = tiny.run(estimator, sample()), tiny.run(end, sample())
    assert found.value == pytest.approx(known.value, rel=1e-10)
    assert found.standard_error == pytest.approx(known.standard_error, rel=1e-10)
    np.testing.assert_allclose(found.weights, known.weights, rtol=1e-10)


def test_equal_weights_make_sndr_the_direct_method_plus_the_mean_residual():
    world = tiny.small()
    problem = world.but(pi1=world.pi0).sample(50, np.random.default_rng(1))
    for estimator in (SNDR(**MODEL), TMLE(link="linear", **MODEL)):
        view = tiny.view_of(problem, estimator.access)
        estimator.fit(view, rng=np.random.default_rng(0), device="cpu")
        fit = estimator.reward_
        direct = fit.logged_expected(view.target_policy, view.context)
        residual = view.reward - fit.logged(view.context, view.action)
        expected = direct.mean() + residual.mean()
        assert estimator.estimate(view).value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("seed", "above"), [(0, True), (3, False)])
def test_a_linear_link_and_weights_are_sndr_and_its_error(seed, above):
    known, made = (
        tiny.run(SNDR(**MODEL), sample(seed=seed)),
        tiny.run(TMLE(link="linear", **MODEL), sample(seed=seed)),
    )
    assert (made.diagnostics["mean_weight"] > 1) is above
    assert made.value == pytest.approx(known.value, rel=1e-12)
    assert made.standard_error == pytest.approx(known.standard_error, rel=1e-12)


@pytest.mark.parametrize("form", ["weighted", "covariate"])
@pytest.mark.parametrize("link", ["logistic", "linear"])
def test_the_weighted_residuals_of_the_shifted_model_sum_to_zero(form, link):
    """Then the estimate is the mean of its own doubly robust terms, too."""
    problem = sample(80, seed=2)
    problem = replace(problem, reward=(problem.reward > 1.0).astype(float))
    estimator = TMLE(form=form, link=link, **MODEL)
    view = tiny.view_of(problem, estimator.access)
    estimator.fit(view, rng=np.random.default_rng(0), device="cpu")
    epsilon = estimator.estimate(view).diagnostics["epsilon"]
    weight = view.target_policy.probability(view.context, view.action) / view.propensity
    h = weight if form == "covariate" else 1.0
    model = estimator.reward_.logged(view.context, view.action)
    if link == "linear":
        shifted = model + epsilon * h
    else:
        clipped = np.clip(model, 0.005, 0.995)
        shifted = 1 / (1 + np.exp(-np.log(clipped / (1 - clipped)) - epsilon * h))
    assert epsilon != 0
    assert weight @ (view.reward - shifted) == pytest.approx(0.0, abs=1e-9)


def test_the_shift_ends_where_no_finite_one_solves_its_equation():
    ones, logit = np.ones(4), np.zeros(4)
    weight = np.array([0.0, 1.0, 2.0, 3.0])
    assert solve_shift(weight, ones, logit, np.array([0.0, 1.0, 1.0, 1.0])) == (30, False)
    assert solve_shift(weight, ones, logit, np.array([1.0, 0.0, 0.0, 0.0])) == (-30, False)
    assert solve_shift(0 * weight, ones, logit, ones) == (0, True)
    assert solve_shift(weight, weight, logit, np.array([0.0, 1.0, 1.0, 1.0])) == (30, False)
    half, solved = solve_shift(weight, ones, logit, np.array([1.0, 0.0, 0.0, 1.0]))
    assert half == pytest.approx(0.0, abs=1e-12)
    assert solved


def test_a_large_shift_is_told():
    problem = sample(80, seed=3)
    problem = replace(problem, reward=(problem.reward > 1.0).astype(float))
    assert tiny.run(TMLE(**MODEL), problem).diagnostics["large_shift"] is False
    # A constant model, and rewards that the weights tell apart.
    weight = tiny.run(IPW(), problem).weights
    ends = replace(problem, reward=np.where(weight < 0.3, 0.0, 1.0))
    told = tiny.run(TMLE(form="covariate", **CONSTANT), ends).diagnostics
    assert abs(told["epsilon"]) < 3.0 < abs(told["epsilon"]) * weight.max()
    assert told["large_shift"] is True
    assert "made by the shift" in str(told[ESTIMATE_WARNING])


@pytest.mark.parametrize("form", ["weighted", "covariate"])
def test_without_a_finite_shift_the_standard_error_is_withheld(form):
    world = tiny.small().but(pi1=np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]))
    problem = world.sample(80, np.random.default_rng(3))
    weight = tiny.run(IPW(), problem).weights
    ends = replace(problem, reward=np.where(weight > 0, 1.0, 0.0))
    found = tiny.run(TMLE(form=form, **MODEL), ends)
    assert found.standard_error is None
    assert "no finite shift" in str(found.diagnostics[STANDARD_ERROR_WITHHELD])
    assert found.diagnostics["large_shift"] is True
    # One row with weight and the other reward is enough.
    mixed = ends.reward.copy()
    mixed[np.argmax(weight > 0)] = 0.0
    found = tiny.run(TMLE(form=form, **MODEL), replace(problem, reward=mixed))
    assert found.standard_error is not None
    assert STANDARD_ERROR_WITHHELD not in found.diagnostics


def test_rewards_that_are_all_the_same_are_the_estimate():
    problem = replace(sample(), reward=np.full(60, 2.5))
    for form in ("weighted", "covariate"):
        assert tiny.run(TMLE(form=form, **MODEL), problem).value == pytest.approx(2.5)


def test_tmle_stays_in_the_range_of_the_rewards():
    for seed in range(20):
        problem = sample(15, seed)
        for form in ("weighted", "covariate"):
            value = tiny.run(TMLE(form=form, **CONSTANT), problem).value
            assert problem.reward.min() <= value <= problem.reward.max()


# --- against formulas written out


def written_out(estimator: Any, mean: float) -> np.ndarray:
    """The term of a row with reward r and a constant reward model, at (x, a): (X, A), (X,).

    Terms are b(x) + u(x, a) (r - c), c the model in residual forms and 0 in blends.
    """
    world = tiny.small()
    w = world.weights
    if isinstance(estimator, Switch):
        u, share = np.where(w <= 1.5, w, 0.0), np.where(w > 1.5, 1.0, 0.0)
    elif isinstance(estimator, CAB):
        u, share = np.minimum(w, 1.5), np.maximum(0.0, 1 - 1.5 / w)
    else:
        share = np.ones_like(w)
        by_class: dict[Any, np.ndarray] = {
            SwitchDR: np.where(w <= 1.5, w, 0.0),
            DROS: 2.0 * w / (w**2 + 2.0),
            DRPS: np.minimum(w, 1.5),
            SGDR: w / (1 - 0.3 + 0.3 * w),
        }
        u = by_class[type(estimator)]
    base = (world.pi1 * share).sum(axis=1) * mean
    residual = 0.0 if isinstance(estimator, Switch | CAB) else mean
    return base[:, None, None] + u[:, :, None] * (world.q - residual)


FIXED = [
    Switch(threshold=1.5, **CONSTANT),
    CAB(threshold=1.5, **CONSTANT),
    SwitchDR(threshold=1.5, **CONSTANT),
    DROS(lambda_=2.0, **CONSTANT),
    DRPS(clip=1.5, **CONSTANT),
    SGDR(lambda_=0.3, **CONSTANT),
]


@pytest.mark.parametrize("estimator", FIXED, ids=repr)
def test_the_estimate_on_the_population_is_the_expectation_of_the_terms(estimator):
    world = tiny.small()
    problem = world.population()
    exact = world.expectation(world.pi0, written_out(estimator, problem.reward.mean()))
    assert tiny.run(estimator, problem).value == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("estimator", FIXED, ids=repr)
def test_the_standard_error_is_that_of_the_terms(estimator):
    problem = sample(80, seed=4)
    mean = problem.reward.mean()
    table = written_out(estimator, mean)
    x = problem.context[:, 0].astype(int)
    weight = np.array(tiny.run(estimator, problem).weights)
    base = table[x, problem.action, 0] - weight * (
        tiny.small().q[x, problem.action, 0]
        - (0.0 if isinstance(estimator, Switch | CAB) else mean)
    )
    residual = problem.reward - (0.0 if isinstance(estimator, Switch | CAB) else mean)
    terms = base + weight * residual
    estimate = tiny.run(estimator, problem)
    assert estimate.value == pytest.approx(terms.mean(), rel=1e-12)
    assert estimate.standard_error == pytest.approx(terms.std(ddof=1) / 80**0.5, rel=1e-10)


def test_a_right_model_leaves_nothing_to_the_weights():
    """Rewards without noise and a model that knows them: all forms give the same value."""
    world = tiny.small().but(noise=0.0, q=np.repeat(tiny.small().q[:, :, :1], 2, axis=2))
    problem = replace(
        world.sample(200, np.random.default_rng(5)),
    )
    tree: dict[str, Any] = {
        "regressor": "sklearn.tree.DecisionTreeRegressor",
        "action_features": "one-hot",
        "cross_fit": 2,
    }
    exact = np.einsum("xa,xa->x", world.pi1, world.q[:, :, 0])
    known = exact[problem.context[:, 0].astype(int)].mean()
    for cls in (DR, SNDR, SwitchDR, DROS, DRPS, SGDR, MRDR):
        assert tiny.run(cls(**tree), problem).value == pytest.approx(known, rel=1e-9)


# --- MRDR


def test_mrdr_weighs_squares_of_residuals_by_what_they_add_to_the_variance():
    """With a constant model the weighted regression is a weighted mean of rewards."""
    problem = sample(50, seed=6)
    x, a = problem.context[:, 0].astype(int), problem.action
    world = tiny.small()
    weight, propensity = world.weights[x, a], world.pi0[x, a]
    u = weight**2 * (1 - propensity)
    constant = (u * problem.reward).sum() / u.sum()
    expected = constant + (weight * (problem.reward - constant)).mean()
    estimate = tiny.run(MRDR(**CONSTANT), problem)
    assert estimate.value == pytest.approx(expected, rel=1e-12)
    assert estimate.value != pytest.approx(tiny.run(DR(**CONSTANT), problem).value, rel=1e-3)


def test_the_weights_of_a_deterministic_target_are_those_of_the_paper():
    world = tiny.small().but(pi1=np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]))
    problem = world.sample(40, np.random.default_rng(7))
    view = tiny.view_of(problem, MRDR().access)
    found = variance_weights(view, view.propensity)
    x = problem.context[:, 0].astype(int)
    propensity, acts = problem.propensity, world.pi1[x, problem.action]
    np.testing.assert_allclose(found, acts * (1 - propensity) / propensity**2, rtol=1e-12)


def test_the_weights_are_the_part_of_the_variance_that_squares_make():
    """Errors with mean zero, independent from action to action: the whole of the variance."""
    world, rng = tiny.small(), np.random.default_rng(8)
    logging, w = world.pi0[0], world.weights[0]
    error = rng.normal(size=(200_000, 3))
    exact = (
        (logging * w**2 * error**2).sum(axis=1) - ((logging * w * error).sum(axis=1)) ** 2
    ).mean()
    squares = (logging * w**2 * (1 - logging)).sum()
    assert exact == pytest.approx(squares, rel=0.02)


@pytest.mark.parametrize("name", ["linear", "gbm", "sklearn.tree.DecisionTreeRegressor"])
def test_weights_of_rows_count_as_repetitions(name):
    rng = np.random.default_rng(9)
    table, outcome = rng.normal(size=(30, 2)), rng.normal(size=30)
    weight = np.where(np.arange(30) % 3 == 0, 2.0, 1.0)
    repeated = np.repeat(np.arange(30), weight.astype(int))
    params = {} if name == "linear" else {"max_depth": 1}
    made = fit_weighted(regressor(name, seed=0, params=params), table, outcome, weight)
    twice = regressor(name, seed=0, params=params).fit(table[repeated], outcome[repeated])
    np.testing.assert_allclose(made.predict(table), twice.predict(table), rtol=1e-9, atol=1e-9)
    nothing = fit_weighted(regressor(name, seed=0, params=params), table, outcome, 0 * weight)
    plain = regressor(name, seed=0, params=params).fit(table, outcome)
    np.testing.assert_allclose(nothing.predict(table), plain.predict(table), rtol=1e-9, atol=1e-9)


def test_a_regressor_that_takes_no_weights_is_refused():
    with pytest.raises(ParameterError, match="takes no weights of rows"):
        tiny.run(MRDR("sklearn.neighbors.KNeighborsRegressor"), sample())


# --- thresholds by rule


@pytest.mark.parametrize("cls", [Switch, SwitchDR])
def test_the_mse_rule_bounds_the_bias_by_the_target_policy_s_mass(cls):
    """Mass of large weights under π1, not under π0, times the range of the rewards."""
    world = tiny.small().but(
        pi0=np.array([[0.90, 0.06, 0.04], [0.05, 0.10, 0.85]]),
        pi1=np.array([[0.3, 0.2, 0.5], [0.5, 0.3, 0.2]]),
    )
    problem = world.sample(400, np.random.default_rng(11))
    if cls is Switch:
        # Far from 0, so that weights have a price, and close together, so that the bound is low.
        problem = replace(problem, reward=10.0 + 0.1 * problem.reward)
    x, a = problem.context[:, 0].astype(int), problem.action
    logged = world.weights[x, a]
    low, high = np.quantile(logged, [0.05, 0.95])
    ladder = np.geomspace(high, low, 30)
    risk = []
    for threshold in ladder:
        above = world.weights > threshold * (1 + 1e-9)
        mass = (world.pi1 * above).sum(axis=1)[x].mean()
        if cls is SwitchDR:
            mass = (logged * (logged > threshold * (1 + 1e-9))).mean()
        error = tiny.run(cls(threshold=threshold, **CONSTANT), problem).standard_error
        risk.append(error**2 + (np.ptp(problem.reward) * mass) ** 2)
    chosen = tiny.run(cls(**CONSTANT), problem).diagnostics
    assert chosen["threshold"] == pytest.approx(ladder[int(np.argmin(risk))], rel=1e-12)
    assert 0 < int(np.argmin(risk)) < 29 or cls is SwitchDR
    if cls is Switch:
        above = world.weights > chosen["threshold"] * (1 + 1e-9)
        mass = (world.pi1 * above).sum(axis=1)[x].mean()
        assert chosen["modelled_mass"] == pytest.approx(mass, rel=1e-12)


@pytest.mark.parametrize(("cls", "name"), [(CAB, "threshold"), (DROS, "lambda_")])
def test_the_mse_rule_estimates_the_bias_from_residuals(cls, name):
    problem = sample(150, seed=12)
    mean = problem.reward.mean()
    weight = np.array(tiny.run(IPW(), problem).weights)
    if cls is CAB:
        low, high = np.quantile(weight, [0.05, 0.95])
        ladder = np.geomspace(high, low, 30)
        used = np.minimum(weight, ladder[:, None])
    else:
        low, high = np.quantile(weight**2, [0.05, 0.95])
        ladder = np.geomspace(100 * high, 0.01 * low, 30)
        used = ladder[:, None] * weight / (weight**2 + ladder[:, None])
    bias = ((used - weight) * (problem.reward - mean)).mean(axis=1)
    errors = [
        tiny.run(cls(**{name: value}, **CONSTANT), problem).standard_error for value in ladder
    ]
    best = int(np.argmin(np.square(errors) + bias**2))
    chosen = tiny.run(cls(**CONSTANT), problem).diagnostics[name.rstrip("_")]
    assert chosen == pytest.approx(ladder[best], rel=1e-9)
