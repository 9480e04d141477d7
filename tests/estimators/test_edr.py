"""EDR: right where the ratio or the reward model is, and honest about its spread."""

from __future__ import annotations

import numpy as np
import pytest

from ope_estimators.embedded.edm_star import EDMStar
from ope_estimators.embedded.edr import EDR
from ope_estimators.embedded.epw import EPW
from ope_estimators.embedded.epws import EPWS

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
def test_it_is_exact_where_either_model_is(tiny, classifier, regressor, self_normalized):
    world = tiny.through_embedding()
    estimator = EDR(
        classifier=classifier,
        regressor=regressor,
        self_normalized=self_normalized,
        **IN_SAMPLE,
    )
    estimate = tiny.run(estimator, world.population())
    assert estimate.value == pytest.approx(world.value, abs=1e-12)


def test_it_is_wrong_where_both_models_are(tiny):
    world = tiny.through_embedding()
    estimator = EDR(classifier=KNOWS_NOTHING, regressor=CONSTANT, **IN_SAMPLE)
    given = world.population()
    estimate = tiny.run(estimator, given)
    assert estimate.value == pytest.approx(float(given.reward.mean()))
    assert abs(estimate.value - world.value) > 0.05


def test_a_reward_model_of_zero_leaves_the_weighted_mean(tiny):
    given = tiny.through_embedding().sample(60, np.random.default_rng(0))
    zero = {"regressor": CONSTANT, "regressor_params": {"strategy": "constant", "constant": 0.0}}
    ratio = {"classifier": "logistic"}
    pairs = ((True, EPWS), (False, EPW))
    for self_normalized, plain in pairs:
        have = tiny.run(EDR(self_normalized=self_normalized, **zero, **ratio), given).value
        assert have == pytest.approx(tiny.run(plain(**ratio), given).value)


def test_residuals_of_zero_leave_the_direct_method(tiny):
    world = tiny.through_embedding().but(noise=0.0)
    given = world.sample(200, np.random.default_rng(0))
    trees = {"regressor": REGRESSION_TREE}
    have = tiny.run(EDR(**trees), given)
    assert have.diagnostics["correction"] == pytest.approx(0.0, abs=1e-12)
    assert have.value == pytest.approx(tiny.run(EDMStar(**trees), given).value)


def test_it_shares_the_ratio_with_epws(tiny):
    view = tiny.view_of(tiny.through_embedding().sample(60, np.random.default_rng(0)))
    rng = np.random.default_rng(0)
    one = EDR(classifier="logistic", regressor="ridge").fit(view, rng=rng, device="cpu")
    two = EPWS(classifier="logistic").fit(view, rng=rng, device="cpu")
    assert one.ratio_ is two.ratio_


@pytest.mark.parametrize("shared", [True, False])
def test_its_intervals_cover_the_value_and_are_as_wide_as_its_errors(tiny, shared):
    world = tiny.through_embedding().but(categorical=True)
    estimator = EDR(classifier=TREE, classifier_params={"max_depth": 3}, regressor=REGRESSION_TREE)
    errors, widths = [], []
    for seed in range(150):
        given = world.sample(250, np.random.default_rng(seed), shared=shared)
        estimate = tiny.run(estimator, given)
        errors.append(estimate.value - world.value)
        widths.append(estimate.standard_error)
    covered = np.mean(np.abs(errors) <= 1.96 * np.array(widths))
    assert 0.90 <= covered <= 0.99
    assert np.mean(widths) == pytest.approx(np.std(errors), rel=0.2)


@pytest.mark.parametrize("rows", [2, 20])
def test_few_rows_give_a_finite_estimate(tiny, rows):
    given = tiny.through_embedding().sample(rows, np.random.default_rng(0))
    assert np.isfinite(tiny.run(EDR(), given).value)


def test_one_row_has_no_standard_error(tiny):
    given = tiny.through_embedding().sample(1, np.random.default_rng(0))
    estimate = tiny.run(EDR(cross_fit=0, calibration="none", regressor="ridge"), given)
    assert estimate.standard_error is None
