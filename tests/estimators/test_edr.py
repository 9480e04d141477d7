"""EDR: right where the ratio or the reward model is, and honest about its spread."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ope_bench import STANDARD_ERROR_WITHHELD, Column, Interval, Schema
from ope_estimators.embedded.learned import edr, second_models
from ope_estimators.embedded.learned.edm_star import EDMStar
from ope_estimators.embedded.learned.edr import EDR
from ope_estimators.embedded.learned.epw import EPW
from ope_estimators.embedded.learned.epws import EPWS
from ope_estimators.embedded.learned.fedr import FEDR
from ope_estimators.embedded.learned.second_models import (
    DISAGREE,
    FURTHEST,
    LEAST_EXPLAINED,
    UNEXPLAINED,
    answer,
    reason_to_withhold,
    second_ratio,
    second_reward,
)
from ope_estimators.nuisance.reward import RewardModel
from support import tiny_worlds as tiny

TREE = "sklearn.tree.DecisionTreeClassifier"
REGRESSION_TREE = "sklearn.tree.DecisionTreeRegressor"
KNOWS_NOTHING = "sklearn.dummy.DummyClassifier"
CONSTANT = "sklearn.dummy.DummyRegressor"
IN_SAMPLE = {"cross_fit": 0, "clip": None, "calibration": "none"}


@pytest.mark.parametrize("self_normalized", [True, False])
@pytest.mark.parametrize(
    ("classifier", "regressor"),
    [(TREE, REGRESSION_TREE), (TREE, CONSTANT), (KNOWS_NOTHING, REGRESSION_TREE)],
)
def test_it_is_exact_where_either_model_is(classifier, regressor, self_normalized):
    world = tiny.through_embedding()
    estimator = EDR(
        classifier=classifier,
        regressor=regressor,
        self_normalized=self_normalized,
        **IN_SAMPLE,
    )
    estimate = tiny.run(estimator, world.population())
    assert estimate.value == pytest.approx(world.value, abs=1e-12)


def test_it_is_wrong_where_both_models_are():
    world = tiny.through_embedding()
    estimator = EDR(classifier=KNOWS_NOTHING, regressor=CONSTANT, **IN_SAMPLE)
    given = world.population()
    estimate = tiny.run(estimator, given)
    assert estimate.value == pytest.approx(float(given.reward.mean()))
    assert abs(estimate.value - world.value) > 0.05


def test_a_reward_model_of_zero_leaves_the_weighted_mean():
    given = tiny.through_embedding().sample(60, np.random.default_rng(0))
    zero = {"regressor": CONSTANT, "regressor_params": {"strategy": "constant", "constant": 0.0}}
    ratio = {"classifier": "logistic"}
    pairs = ((True, EPWS), (False, EPW))
    for self_normalized, plain in pairs:
        have = tiny.run(EDR(self_normalized=self_normalized, **zero, **ratio), given).value
        assert have == pytest.approx(tiny.run(plain(**ratio), given).value)


def test_residuals_of_zero_leave_the_direct_method():
    world = tiny.through_embedding().but(noise=0.0)
    given = world.sample(200, np.random.default_rng(0))
    trees = {"regressor": REGRESSION_TREE}
    have = tiny.run(EDR(**trees), given)
    assert have.diagnostics["correction"] == pytest.approx(0.0, abs=1e-12)
    assert have.value == pytest.approx(tiny.run(EDMStar(**trees), given).value)


def test_it_shares_the_ratio_with_epws():
    view = tiny.view_of(tiny.through_embedding().sample(60, np.random.default_rng(0)))
    rng = np.random.default_rng(0)
    one = EDR(classifier="logistic", regressor="ridge").fit(view, rng=rng, device="cpu")
    two = EPWS(classifier="logistic").fit(view, rng=rng, device="cpu")
    assert one.ratio_ is two.ratio_


@pytest.mark.parametrize("shared", [True, False])
def test_its_intervals_cover_the_value_and_are_as_wide_as_its_errors(shared):
    world = tiny.through_embedding().but(categorical=True)
    estimator = EDR(
        classifier=TREE,
        classifier_params={"max_depth": 3},
        regressor=REGRESSION_TREE,
        cross_fit=2,
    )
    errors, widths = [], []
    for seed in range(60):
        given = world.sample(250, np.random.default_rng(seed), shared=shared)
        estimate = tiny.run(estimator, given)
        errors.append(estimate.value - world.value)
        widths.append(estimate.standard_error)
    covered = np.mean(np.abs(errors) <= 1.96 * np.array(widths))
    # 60 draws know coverage to .06 and a deviation to a fifth, both at two standard errors.
    assert covered >= 0.87
    assert np.mean(widths) == pytest.approx(np.std(errors), rel=0.25)


@pytest.mark.parametrize("rows", [2, 20])
def test_few_rows_give_a_finite_estimate(rows):
    given = tiny.through_embedding().sample(rows, np.random.default_rng(0))
    assert np.isfinite(tiny.run(EDR(), given).value)


def test_one_row_has_no_standard_error():
    given = tiny.through_embedding().sample(1, np.random.default_rng(0))
    estimate = tiny.run(EDR(cross_fit=0, calibration="none", regressor="ridge"), given)
    assert estimate.standard_error is None


TREES = {
    "classifier": TREE,
    "classifier_params": {"max_depth": 3},
    "regressor": REGRESSION_TREE,
    "regressor_params": {"max_depth": 4},
}
SHARED = pytest.mark.parametrize("shared", [True, False])


@pytest.fixture
def believed(monkeypatch):
    """No standard error is withheld."""
    monkeypatch.setattr(edr, "reason_to_withhold", lambda *_: None)


def fitted(estimator, given):
    view = tiny.view_of(given)
    estimator.fit(view, rng=np.random.default_rng(0), device="cpu")
    return view, estimator.estimate(view)


@pytest.mark.usefixtures("believed")
@SHARED
@pytest.mark.parametrize("self_normalized", [True, False])
def test_estimate_and_standard_error_are_those_of_its_terms(shared, self_normalized):
    given = tiny.through_embedding().sample(80, np.random.default_rng(1), shared=shared)
    estimator = EDR(self_normalized=self_normalized, **TREES)
    view, estimate = fitted(estimator, given)
    w, n, m = estimator.ratio_.weights, view.n, view.m
    residual = view.reward - estimator.reward_.logged(view.context, view.embedding)
    target = estimator.reward_.at_target(view.target_context, view.target_embedding)
    if self_normalized:
        correction = (w * residual).sum() / w.sum()
        terms = n * w * (residual - correction) / w.sum()
    else:
        correction = (w * residual).mean()
        terms = w * residual
    assert estimate.value == pytest.approx(target.mean() + correction, rel=1e-12)
    if shared:
        error = (target + terms).std(ddof=1) / np.sqrt(n)
    else:
        error = np.hypot(target.std(ddof=1) / np.sqrt(m), terms.std(ddof=1) / np.sqrt(n))
    assert estimate.standard_error == pytest.approx(error, rel=1e-12)
    # Other resamples and intervals start from these: their means are the value's two parts.
    assert estimate.terms == pytest.approx(correction + terms - terms.mean())
    assert estimate.target_terms == pytest.approx(target)
    assert abs(w.mean() - 1) > 1e-6  # otherwise both normalizations are one


@SHARED
def test_no_target_row_is_predicted_by_a_model_that_has_seen_its_context(shared):
    given = tiny.through_embedding().sample(80, np.random.default_rng(2), shared=shared)
    estimator = EDR(**TREES)
    view, estimate = fitted(estimator, given)
    held = np.empty(view.m)
    for model, rows in estimator.reward_.parts():
        held[rows] = model(view.target_context[rows], view.target_embedding[rows])
    everybody = estimator.reward_(view.target_context, view.target_embedding)
    assert not np.allclose(held.mean(), everybody.mean())
    expected = held if shared else everybody
    assert estimate.diagnostics["direct"] == pytest.approx(expected.mean(), rel=1e-12)


@pytest.mark.parametrize("cls", [EDR, FEDR])
def test_the_second_pair_moves_no_estimate(monkeypatch, cls):
    given = tiny.through_embedding().but(noise=0.1).sample(80, np.random.default_rng(3))
    params = {**TREES, **({"flow_params": {"epochs": 2}} if cls is FEDR else {})}
    _, before = fitted(cls(**params), given)
    absurd = RewardModel(CONSTANT, (("constant", 1e6), ("strategy", "constant")), "embedding")
    monkeypatch.setattr(edr, "second_reward", lambda view, own: absurd)
    _, after = fitted(cls(**params), given)
    assert after.value == before.value
    assert (after.weights == before.weights).all()
    assert after.diagnostics["second_value"] != before.diagnostics["second_value"]


def test_its_standard_error_is_shown_where_another_pair_agrees():
    given = tiny.through_embedding().but(noise=0.1).sample(300, np.random.default_rng(4))
    _, estimate = fitted(EDR(**TREES), given)
    facts = estimate.diagnostics
    assert STANDARD_ERROR_WITHHELD not in facts
    apart = abs(facts["second_value"] - estimate.value)
    assert facts["second_distance"] == pytest.approx(apart / estimate.standard_error)
    assert facts["second_distance"] < FURTHEST


def test_its_standard_error_is_withheld_where_another_pair_disagrees():
    world = tiny.through_embedding().but(noise=0.1)
    # A constant reward model and equal weights: the mean of the logs, far from the value.
    estimator = EDR(classifier=KNOWS_NOTHING, regressor=CONSTANT)
    _, estimate = fitted(estimator, world.sample(2_000, np.random.default_rng(5)))
    assert estimate.standard_error is None
    assert estimate.diagnostics["second_distance"] > FURTHEST
    assert estimate.diagnostics[STANDARD_ERROR_WITHHELD] == DISAGREE
    assert abs(estimate.diagnostics["second_value"] - world.value) < abs(
        estimate.value - world.value
    )


def test_its_standard_error_is_withheld_where_rewards_are_unexplained():
    given = tiny.through_embedding().but(noise=30.0).sample(300, np.random.default_rng(6))
    flat = {"regressor": CONSTANT, "classifier": "logistic"}
    _, estimate = fitted(EDR(**flat), given)
    assert estimate.standard_error is None
    assert estimate.diagnostics["explained"] < LEAST_EXPLAINED
    assert estimate.diagnostics[STANDARD_ERROR_WITHHELD] == UNEXPLAINED


def test_rewards_that_are_all_the_same_are_explained():
    world = tiny.through_embedding().but(noise=0.0)
    given = world.but(q=np.full_like(world.q, 2.0)).sample(50, np.random.default_rng(7))
    _, estimate = fitted(EDR(**TREES), given)
    assert estimate.value == pytest.approx(2.0)
    assert estimate.standard_error == pytest.approx(0.0, abs=1e-12)


def test_both_limits_are_inclusive():
    assert reason_to_withhold(FURTHEST, LEAST_EXPLAINED) is None
    assert reason_to_withhold(np.nextafter(FURTHEST, 2), 1.0) == DISAGREE
    assert reason_to_withhold(0.0, np.nextafter(LEAST_EXPLAINED, 0)) == UNEXPLAINED
    assert reason_to_withhold(np.nan, 1.0) == DISAGREE


@pytest.mark.parametrize(
    ("params", "many", "regressor", "classifier"),
    [
        ({}, False, "hist-gbm", "logistic"),
        ({}, True, "hist-gbm", "logistic"),
        ({"regressor": "gbm"}, False, "quadratic", "logistic"),
        ({"regressor": "gbm"}, True, "ridge", "logistic"),
        ({"regressor": "quadratic", "classifier": "logistic"}, False, "gbm", "hist-gbm"),
        ({"regressor": "ridge"}, True, "gbm", "logistic"),
    ],
)
def test_the_second_pair_is_of_another_kind(monkeypatch, params, many, regressor, classifier):
    view = tiny.view_of(tiny.through_embedding().sample(30, np.random.default_rng(8)))
    if many:
        monkeypatch.setattr(second_models, "MOST_PRODUCTS", 1)
    for cls in (EDR, FEDR):
        estimator = cls(**params, cross_fit=3)
        assert second_reward(view, estimator.reward_model()).learner == regressor
        own = estimator.ratio_model()
        second = second_ratio(view, own)
        assert second.scores.classifier == (classifier if cls is EDR else "logistic")
        linear = many and second.scores.classifier == "logistic"
        assert second.scores.classifier_params == ((("degree", 1),) if linear else ())
        assert second.scores.flow is None
        assert (second.scores.cross_fit, second.clip) == (3, own.clip)
        assert second.scores != own.scores


@pytest.mark.parametrize(
    ("columns", "regressor"),
    [
        # 33 features, 33 squares and 33 * 32 / 2 products are 594.
        pytest.param(31, "quadratic", id="594 of at most 600"),
        pytest.param(32, "ridge", id="629 of at most 600"),
    ],
)
def test_the_second_pair_has_products_up_to_six_hundred_features(columns, regressor):
    given = tiny.through_embedding().sample(20, np.random.default_rng(8))
    wide = np.random.default_rng(0).normal(size=(2, 20, columns + 2 - given.embedding.shape[1]))
    schema = Schema((Column(),) * wide.shape[2], given.schema.embedding)
    changes = {"context": wide[0], "target_context": wide[1], "schema": schema}
    view = tiny.view_of(replace(given, **changes))
    assert second_reward(view, EDR(regressor="gbm").reward_model()).learner == regressor


@pytest.mark.parametrize(("ratio", "second"), [("rulsif", "logistic"), ("classifier", "hist-gbm")])
def test_logistic_regression_is_the_second_ratio_unless_it_is_the_first(ratio, second):
    """An estimator whose ratio is of another method classifies nothing, whatever it names."""
    view = tiny.view_of(tiny.through_embedding().sample(60, np.random.default_rng(8)))
    estimator = EDR(classifier="logistic", ratio=ratio, regressor="ridge")
    estimator.fit(view, rng=np.random.default_rng(0), device="cpu")
    own = estimator.ratio_model()
    expected = replace(own, scores=replace(own.scores, classifier=second, classifier_params=()))
    assert estimator.second_ratio_ is view.fitted(expected)


def test_estimators_share_the_second_pair():
    view = tiny.view_of(tiny.through_embedding().sample(60, np.random.default_rng(0)))
    one = EDR(regressor="ridge").fit(view, rng=np.random.default_rng(0), device="cpu")
    two = EDR(regressor="linear").fit(view, rng=np.random.default_rng(0), device="cpu")
    assert one.second_reward_ is two.second_reward_
    assert one.second_ratio_ is two.second_ratio_


@pytest.mark.parametrize("interval", ["bootstrap", "asymptotic"])
def test_resamples_are_drawn_only_where_its_standard_error_is_shown(monkeypatch, interval):
    resampled = Interval(0.0, 1.0, 0.95, "bootstrap")
    monkeypatch.setattr(EDR, "_bootstrap", lambda self, view: resampled)
    world, rng = tiny.through_embedding(), np.random.default_rng(4)
    _, shown = fitted(EDR(interval=interval, **TREES), world.but(noise=0.1).sample(300, rng))
    assert shown.standard_error is not None
    assert shown.interval == (resampled if interval == "bootstrap" else None)
    flat = {"regressor": CONSTANT, "classifier": "logistic", "interval": interval}
    _, withheld = fitted(EDR(**flat), world.but(noise=30.0).sample(300, rng))
    assert (withheld.standard_error, withheld.interval) == (None, None)


def test_it_trains_on_cuda_what_can_be_trained_there():
    assert EDR().devices == ("cpu",)
    for network in ({"classifier": "mlp"}, {"regressor": "mlp"}):
        assert EDR(**network).devices == ("cpu", "cuda")


def test_the_parts_of_an_answer_by_hand():
    reward, at_logged = np.array([1.0, 3.0, 2.0, 6.0]), np.array([0.5, 2.5, 2.0, 4.0])
    weights, at_target = np.array([2.0, 0.0, 1.0, 3.0]), np.array([1.0, 4.0])
    plain, normal = (
        answer(reward, at_logged, at_target, weights, self_normalized=one) for one in (False, True)
    )
    # Residuals .5, .5, 0 and 2; their weighted sum is 7, that of the weights 6.
    assert (plain.direct, plain.correction, plain.value) == (2.5, 1.75, 4.25)
    assert plain.logged.tolist() == [1.0, 0.0, 0.0, 6.0]
    assert normal.correction == pytest.approx(7 / 6)
    residuals = np.array([0.5, 0.5, 0.0, 2.0])
    assert normal.logged == pytest.approx(weights * (residuals - 7 / 6) / 1.5)
    assert plain.explained == normal.explained == pytest.approx(1 - (4.5 / 4) / 3.5)
    same = answer(np.ones(4), at_logged, at_target, weights, self_normalized=True)
    assert same.explained == 1.0


def test_one_standard_error_and_half_of_the_variance_are_the_limits():
    assert (FURTHEST, LEAST_EXPLAINED) == (1.0, 0.5)
