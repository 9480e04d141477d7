"""Logistic regression on three classes or more: the bits of scikit-learn's own fit."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from scipy import optimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ope_estimators.learning import logistic
from ope_estimators.learning.logistic import fit_logistic
from ope_estimators.learning.pipelines import fit_steps

COVERED = tuple(map(int, sklearn.__version__.split(".")[:2])) in logistic.RELEASES


def sample(
    n_classes: int = 4, n: int = 300, d: int = 7, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(n, d))
    score = table @ rng.normal(size=(d, n_classes)) + rng.gumbel(size=(n, n_classes))
    return table, 3 * score.argmax(axis=1) - 2


def refuse(*_: object) -> None:
    raise AssertionError("fitted by scikit-learn")


@pytest.mark.parametrize("n_classes", [3, 40])
@pytest.mark.parametrize(
    "params", [{}, {"C": 0.01}, {"tol": 0.1}, {"tol": 1e-7}, {"random_state": 3}], ids=repr
)
def test_a_fit_has_the_bits_of_scikit_learn(n_classes, params, monkeypatch):
    table, label = sample(n_classes)
    wanted = LogisticRegression(max_iter=500, **params).fit(table, label)
    if COVERED:
        monkeypatch.setattr(LogisticRegression, "fit", refuse)
    model = LogisticRegression(max_iter=500, **params)
    assert fit_logistic(model, table, label) is model
    assert vars(model).keys() == vars(wanted).keys()
    for name in ("classes_", "coef_", "intercept_", "n_iter_"):
        ours, theirs = getattr(model, name), getattr(wanted, name)
        np.testing.assert_array_equal(ours, theirs)
        # Products with coefficients in another order would have other bits.
        assert (ours.dtype, ours.strides) == (theirs.dtype, theirs.strides)
    np.testing.assert_array_equal(model.predict_proba(table), wanted.predict_proba(table))


@pytest.mark.skipif(not COVERED, reason="another release of scikit-learn fits by itself")
def test_a_large_table_is_fitted_in_single_precision_to_the_same_minimum(monkeypatch):
    table, label = sample(5)
    wanted = LogisticRegression(max_iter=500).fit(table, label)
    monkeypatch.setattr(logistic, "LARGE", len(table) * 5 - 1)
    monkeypatch.setattr(LogisticRegression, "fit", refuse)
    model = fit_logistic(LogisticRegression(max_iter=500), table, label)
    assert model.coef_.shape == wanted.coef_.shape
    assert (model.coef_ != wanted.coef_).any()
    chance = model.predict_proba(table)
    np.testing.assert_allclose(chance, wanted.predict_proba(table), atol=2e-3)


def test_a_fit_that_ends_early_has_the_bits_of_scikit_learn_and_warns():
    table, label = sample()
    wanted, model = LogisticRegression(max_iter=3), LogisticRegression(max_iter=3)
    with pytest.warns(ConvergenceWarning):
        wanted.fit(table, label)
    with pytest.warns(ConvergenceWarning, match="lbfgs failed to converge"):
        fit_logistic(model, table, label)
    np.testing.assert_array_equal(model.coef_, wanted.coef_)
    np.testing.assert_array_equal(model.n_iter_, wanted.n_iter_)


def fitted_before() -> LogisticRegression:
    return LogisticRegression().fit(*sample(seed=1))


@pytest.mark.parametrize(
    ("model", "table", "label"),
    [
        (LogisticRegression(), *sample(2)),
        (LogisticRegression(solver="newton-cholesky"), *sample()),
        (LogisticRegression(class_weight="balanced"), *sample()),
        (LogisticRegression(fit_intercept=False), *sample()),
        (LogisticRegression(), np.asfortranarray(sample()[0]), sample()[1]),
        (LogisticRegression(), sample()[0].astype(np.float32), sample()[1]),
        (LogisticRegression(), sample()[0], sample()[1].astype(str)),
        (fitted_before(), *sample()),
    ],
    ids=["two", "solver", "weights", "no-intercept", "columns", "single", "strings", "again"],
)
def test_what_is_not_covered_is_fitted_by_scikit_learn(model, table, label, monkeypatch):
    monkeypatch.setattr(LogisticRegression, "fit", refuse)
    with pytest.raises(AssertionError, match="fitted by scikit-learn"):
        fit_logistic(model, table, label)


def test_another_release_is_fitted_by_scikit_learn(monkeypatch):
    monkeypatch.setattr(logistic, "RELEASES", ())
    monkeypatch.setattr(LogisticRegression, "fit", refuse)
    with pytest.raises(AssertionError, match="fitted by scikit-learn"):
        fit_logistic(LogisticRegression(), *sample())


@pytest.mark.parametrize("params", [{"C": -1.0}, {"max_iter": 2.5}, {"tol": "small"}], ids=repr)
def test_scikit_learn_refuses_wrong_parameters(params):
    with pytest.raises(ValueError, match=next(iter(params))):
        fit_logistic(LogisticRegression(**params), *sample())


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_scikit_learn_refuses_numbers_that_are_not_finite(value):
    table, label = sample()
    table[5, 1] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        fit_logistic(LogisticRegression(), table, label)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        fit_steps(make_pipeline(StandardScaler(), LogisticRegression()), table, label)


@pytest.mark.skipif(not COVERED, reason="another release of scikit-learn fits by itself")
def test_the_optimizer_is_asked_as_scikit_learn_asks_it(monkeypatch):
    """Limits that no fit of these tests reaches count too."""
    asked, minimize = [], optimize.minimize

    def told(*given, options, **named):
        asked.append(options)
        return minimize(*given, options=options, **named)

    monkeypatch.setattr(optimize, "minimize", told)
    table, label = sample()
    LogisticRegression(tol=1e-3).fit(table, label)
    fit_logistic(LogisticRegression(tol=1e-3), table, label)
    theirs, ours = asked
    assert ours == {name: theirs[name] for name in ("maxiter", "maxls", "gtol", "ftol")}
