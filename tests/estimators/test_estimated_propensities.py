"""Estimated propensities, where the target policy is known and the logging policy is not."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from ope_bench import Access, ParameterError, UnavailableError
from ope_bench.plugins.registry import registry
from ope_estimators.nuisance.propensity import IsotonicPropensity, PropensityModel
from support import golden_log as golden
from support import tiny_worlds as tiny

FAMILY = (
    *("ipw", "ipws", "sg-ipw", "ls-ipw", "el-ipw", "ix-ipw", "es-ipw", "lse-ipw", "beta-ipw"),
    *("dr", "mrdr", "sndr", "dr-os", "dr-ps", "sg-dr", "switch-dr", "tmle"),
)


def made(reference, **params):
    cls = registry().find("estimator", f"ope-bench:{reference}").cls
    if "regressor" in cls().get_params():
        params = {"regressor": "ridge", **params}
    return cls(propensity="estimated", **params)


def log(n=400, *, seed=0):
    """Rows of the golden log's policies; the propensities are withheld."""
    rng = np.random.default_rng(seed)
    context = rng.integers(2, size=n)
    action = np.array([rng.choice(3, p=golden.LOGGING[x]) for x in context])
    reward = (rng.random(n) < golden.REWARD_MODEL[context, action]).astype(float)
    known = golden.problem(context, action, reward)
    return replace(known, propensity=None, logging_policy=None), known.propensity


def test_in_sample_at_constant_contexts_they_are_frequencies():
    given, _ = log()
    constant = replace(given, context=np.zeros((400, 1)), schema=None)
    view = tiny.view_of(constant)
    found = view.fitted(PropensityModel("logistic", 1))
    share = np.bincount(given.action) / 400
    np.testing.assert_allclose(found, share[given.action], rtol=1e-4)


def test_they_are_near_the_logging_policy_out_of_fold():
    given, known = log(4000)
    found = tiny.view_of(given).fitted(PropensityModel("logistic", 5))
    assert np.abs(found - known).max() < 0.06
    assert not found.flags.writeable


def test_units_are_not_split_by_folds():
    """Rows of a unit that repeat an action: a classifier that saw the unit would know it."""
    rng = np.random.default_rng(0)
    unit = np.repeat(np.arange(60), 5)
    context, action = rng.normal(size=(60, 1))[unit], rng.integers(3, size=60)[unit]
    given = golden.problem(np.zeros(300, int), action, np.zeros(300))
    given = replace(given, context=context, schema=None, unit=unit, logging_policy=None)
    path = "sklearn.neighbors.KNeighborsClassifier"
    found = tiny.view_of(given).fitted(PropensityModel(path, 5))
    assert np.log(found).mean() < -0.9
    alone = tiny.view_of(replace(given, unit=None)).fitted(PropensityModel(path, 5))
    assert np.log(alone).mean() > -0.5


def test_an_action_that_other_folds_lack_has_a_small_probability():
    given, _ = log(50)
    action = np.where(np.arange(50) == 7, 2, given.action % 2)
    found = tiny.view_of(replace(given, action=action)).fitted(PropensityModel("logistic", 5))
    assert 0 < found[7] < 0.1


def test_a_logger_that_explores_is_a_mixture():
    """A sure classifier that is wrong in a tenth of the rows: of 2 actions, one in ten explores.

    No power of its probabilities gives that: 1e-200 to the power of the least exponent is 1e-20.
    """
    label = np.arange(1000) % 2
    sure = np.where(np.arange(1000) % 10 < 9, label, 1 - label)
    score = np.full((1000, 2), -200 * np.log(10))
    score[np.arange(1000), sure] = 0
    found = PropensityModel("logistic", 5)._calibrated(score, label, None)
    np.testing.assert_allclose(found, np.where(sure == label, 0.9, 0.1), rtol=1e-4)


def test_shares_of_exploration_are_uniform_or_the_frequencies():
    """Rows alike, so that all probabilities are the frequencies; and no better by any share."""
    rng = np.random.default_rng(0)
    label = rng.choice(4, p=[0.6, 0.2, 0.15, 0.05], size=2000)
    counts = rng.integers(1, 4, size=2000).astype(float)
    share = np.bincount(label, weights=counts) / counts.sum()
    found = PropensityModel("logistic", 5)._calibrated(np.zeros((2000, 4)), label, counts)
    np.testing.assert_allclose(found, share[label], rtol=1e-3)


@pytest.mark.parametrize("exponent", [0.3, 1.0, 4.0])
def test_the_calibration_finds_the_mixture_that_made_the_rows(exponent):
    """Of 100,000 rows: a power of the scores for 80 %, uniform for 15 %, frequencies for 5 %."""
    rng = np.random.default_rng(1)
    n = 100_000
    score = rng.normal(size=(n, 3)) + np.array([1.0, 0.0, -1.0])
    power = np.exp(exponent * score)
    table = 0.8 * power / power.sum(axis=1, keepdims=True) + 0.15 / 3
    table += 0.05 * table.mean(axis=0) / 0.95  # of which 5 % are the frequencies of all
    label = (table.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    found = PropensityModel("logistic", 5)._calibrated(score, label, None)
    right = table[np.arange(n), label]
    assert np.abs(found / right - 1).mean() < 0.02


@pytest.mark.parametrize("reference", FAMILY)
def test_the_value_is_that_of_the_same_propensities_given(reference):
    given, _ = log()
    found = tiny.run(made(reference), given)
    estimated = tiny.view_of(given).fitted(PropensityModel("logistic", 5))
    expected = tiny.run(
        made(reference).set_params(propensity="given"), replace(given, propensity=estimated)
    )
    assert found.value == pytest.approx(expected.value, rel=1e-12)
    assert made(reference).access == Access.TARGET_POLICY


def test_the_classifier_and_its_folds_are_parameters():
    given, _ = log()
    values = {
        tiny.run(made("ipw", **params), given).value
        for params in ({}, {"propensity_folds": 2}, {"propensity_classifier": "gbm"})
    }
    assert len(values) == 3


def test_intervals_refit_or_refuse():
    given, _ = log(100)
    for reference in ("ipw", "dr"):
        bets = made(reference, interval="guaranteed", reward_range=(0.0, 1.0))
        with pytest.raises((ParameterError, UnavailableError)):
            tiny.run(bets, given)
    once = tiny.run(made("ipw", interval="bootstrap", resamples=30), given).interval
    fixed = replace(given, propensity=tiny.view_of(given).fitted(PropensityModel("logistic", 5)))
    plain = made("ipw", interval="bootstrap", resamples=30).set_params(propensity="given")
    assert once.width != tiny.run(plain, fixed).interval.width
    likely = tiny.run(made("ipw", interval="empirical-likelihood"), given)
    assert likely.interval.low < likely.value < likely.interval.high


def test_continuous_actions_have_no_classifier():
    given, _ = log(20)
    floats = replace(given, n_actions=None, action=given.action + 0.5, action_embedding=None)
    with pytest.raises(UnavailableError, match="propensity=estimated"):
        tiny.view_of(floats).fitted(PropensityModel("logistic", 5))


@pytest.mark.parametrize(("given", "value"), [("constant", 0.75), ("true", 0.825)])
def test_isotonic_inverse_weights_have_the_values_of_the_golden_log(given, value):
    """Constant estimates: n / n_a of each action; the true propensities: those of their blocks."""
    table = golden.LOGGING[golden.CONTEXT] if given == "true" else np.full((6, 3), 1 / 3)
    found = IsotonicPropensity("logistic", 1)._calibrated(np.log(table), golden.ACTION, None)
    target = golden.TARGET[golden.CONTEXT, golden.ACTION]
    assert (target / found * golden.REWARD).mean() == pytest.approx(value, abs=1e-12)


def test_isotonic_inverse_weights_minimize_their_loss():
    """Beside all other decreasing functions of the estimates on a grid, for one action."""
    estimate, label = np.array([0.1, 0.2, 0.4, 0.5, 0.9]), np.array([0, 1, 0, 1, 0])
    table = np.log(np.column_stack([estimate, 1 - estimate]))
    found = IsotonicPropensity("logistic", 1)._calibrated(table, label, None)
    own = label == 0

    def loss(inverse):
        return (own * inverse**2 - 2 * inverse).sum()

    grid = np.linspace(6, 0.5, 12)
    decreasing = map(np.array, itertools.combinations_with_replacement(grid, 5))
    best = min(decreasing, key=loss)
    assert best.tolist() == [2, 2, 2, 2, 1]
    np.testing.assert_allclose(1 / found[own], best[own])


def test_isotonic_calibration_is_a_parameter_and_uses_row_weights():
    given, known = log()
    found = tiny.run(made("ipw", propensity_calibration="isotonic"), given)
    plain = tiny.run(made("ipw"), given)
    truth = tiny.run(registry().find("estimator", "ipw").cls(), replace(given, propensity=known))
    assert found.value != plain.value
    assert abs(found.value - truth.value) < 3 * truth.standard_error
    twice = np.where(np.arange(6) == 2, 2.0, 1.0)
    table = np.log(golden.LOGGING[golden.CONTEXT])
    calibrate = IsotonicPropensity("logistic", 1)._calibrated
    rows = np.array([0, 1, 2, 2, 3, 4, 5])
    written = calibrate(table[rows], golden.ACTION[rows], None)
    np.testing.assert_allclose(calibrate(table, golden.ACTION, twice)[rows], written)
