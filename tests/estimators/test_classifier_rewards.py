"""A classifier as the reward model answers with probabilities, on rewards of 0 and 1 alone."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from ope_bench import ParameterError, evaluate
from ope_environments.linear_bandit.environment import LinearBandit
from ope_estimators.actions.direct.dm import DM
from ope_estimators.actions.doubly_robust.mrdr import MRDR
from ope_estimators.learning.learners import fit_weighted, fitted, regressor

PATH = "sklearn.linear_model.LogisticRegression"


def rows(n=60):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(n, 2))
    return features, (rng.random(n) < 1 / (1 + np.exp(-features[:, 0]))).astype(float)


def test_predictions_are_the_classifiers_probabilities():
    features, outcome = rows()
    model = fitted(regressor(PATH, seed=0), features, outcome, None)
    expected = LogisticRegression(random_state=0).fit(features, outcome).predict_proba(features)
    np.testing.assert_array_equal(model.predict(features), expected[:, 1])


def test_weights_and_units_reach_the_classifier():
    features, outcome = rows()
    weight = np.arange(60.0)
    model = fit_weighted(regressor(PATH, seed=0), features, outcome, weight)
    expected = LogisticRegression(random_state=0).fit(
        features, outcome, sample_weight=weight / weight.mean()
    )
    np.testing.assert_allclose(
        model.predict(features), expected.predict_proba(features)[:, 1], rtol=1e-12
    )
    unit = np.arange(60) // 6
    chosen = fitted(
        regressor("sklearn.calibration.CalibratedClassifierCV", seed=0),
        features,
        outcome,
        unit,
    )
    held = [set(unit[test]) for _, test in chosen.classifier.cv]
    assert sum(map(len, held)) == 10
    assert set().union(*held) == set(range(10))


def test_outcomes_of_one_value_are_predicted_as_they_are():
    model = fitted(regressor(PATH, seed=0), np.zeros((3, 1)), np.ones(3), None)
    assert model.predict(np.zeros((2, 1))).tolist() == [1.0, 1.0]


def test_other_outcomes_and_classifiers_without_probabilities_are_refused():
    with pytest.raises(ParameterError, match=r"LogisticRegression .* 0.5: choose a regressor"):
        fitted(regressor(PATH, seed=0), np.zeros((2, 1)), np.array([1.0, 0.5]), None)
    with pytest.raises(ParameterError, match=r"no regressor.* no predict_proba"):
        regressor("sklearn.svm.LinearSVC", seed=0)


def test_the_direct_method_by_a_classifier_is_that_of_probabilities():
    """The mean of its labels would be .13 above in these worlds."""
    world = LinearBandit(n_samples=2000, reward="logistic")
    errors = [
        np.mean([row.estimate - row.truth_expected for row in evaluate(dm, world, replicates=5)])
        for dm in (DM(regressor=PATH), DM(regressor="linear"))
    ]
    assert abs(errors[0] - errors[1]) < 0.02


def test_terms_of_weighted_regressions_by_a_classifier_are_finite():
    world = LinearBandit(n_samples=300, reward="logistic")
    [row] = evaluate(MRDR(regressor=PATH), world, replicates=1)
    assert row.status == "ok"
