"""The classifier of very many actions beside scikit-learn's, and what MIPS tells of it."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from ope_bench.contracts.data import Column
from ope_estimators.embedded.learned.mips import MIPS
from ope_estimators.learning.softmax import SoftmaxClassifier, SoftmaxLoss
from ope_estimators.nuisance.policy import FittedPolicy
from ope_estimators.structure.learned_mips import LearnedMIPS
from support import tiny_worlds as tiny

TIGHT: dict[str, Any] = {"tol": 1e-9, "precision": "double"}


def sample(n: int = 300, d: int = 3, k: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    table = rng.normal(2.0, 3.0, size=(n, d))
    score = table @ rng.normal(size=(d, k)) / 3.0 + rng.gumbel(size=(n, k))
    return table, 10 * score.argmax(axis=1)


@pytest.mark.parametrize("inverse_penalty", [1.0, 0.01])
def test_probabilities_are_those_of_scikit_learns_logistic_regression(inverse_penalty):
    table, label = sample()
    scaled = StandardScaler().fit_transform(table)
    theirs = LogisticRegression(C=inverse_penalty, tol=1e-9, max_iter=1000).fit(scaled, label)
    ours = SoftmaxClassifier(C=inverse_penalty, **TIGHT).fit(table, label)
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    np.testing.assert_allclose(ours.predict_proba(table), theirs.predict_proba(scaled), atol=1e-6)
    single = SoftmaxClassifier(C=inverse_penalty).fit(table, label)
    assert single.predict_proba(table).dtype == np.float32
    np.testing.assert_allclose(single.predict_proba(table), ours.predict_proba(table), atol=2e-3)
    assert single.log_likelihood_ == pytest.approx(ours.log_likelihood_, abs=1e-4)


@pytest.mark.parametrize("n", [7, 40_000])
def test_the_gradient_is_that_of_the_objective_over_one_chunk_and_several(n):
    rng = np.random.default_rng(1)
    table = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    loss = SoftmaxLoss(table, rng.integers(0, 4, n), 4, 0.5)
    at = rng.normal(size=12)
    value, gradient = loss(at)
    score = table @ at.reshape(3, 4)
    logged = np.take_along_axis(score, loss._label[:, None], axis=1)[:, 0]
    exact = np.mean(np.log(np.exp(score).sum(axis=1)) - logged)
    exact += np.square(at.reshape(3, 4)[1:]).sum() / (2 * 0.5 * n)
    assert value == pytest.approx(exact, rel=1e-12)
    steps = 1e-6 * np.eye(12)
    numeric = [(loss(at + step)[0] - loss(at - step)[0]) / 2e-6 for step in steps]
    np.testing.assert_allclose(gradient, numeric, atol=1e-8)


def test_the_likelihood_is_that_of_the_probabilities():
    table, label = sample()
    model = SoftmaxClassifier(**TIGHT).fit(table, label)
    logged = model.predict_proba(table)[np.arange(300), label // 10]
    assert model.log_likelihood_ == pytest.approx(np.log(logged).mean(), rel=1e-9)
    assert model.converged_


def test_a_cap_on_iterations_is_kept_and_told():
    table, label = sample()
    capped = SoftmaxClassifier(max_iter=2).fit(table, label)
    free = SoftmaxClassifier().fit(table, label)
    assert capped.n_iter_ == 2 < free.n_iter_
    assert not capped.converged_
    assert free.converged_
    assert capped.log_likelihood_ < free.log_likelihood_ < 0


def test_a_constant_column_and_large_numbers_change_nothing():
    table, label = sample()
    moved = np.column_stack([np.full(300, 7.0), 1e6 + 1e3 * table])
    plain, other = (SoftmaxClassifier(**TIGHT).fit(one, label) for one in (table, moved))
    np.testing.assert_allclose(other.predict_proba(moved), plain.predict_proba(table), atol=1e-6)


def test_fitting_holds_no_table_of_rows_and_classes():
    rng = np.random.default_rng(2)
    n, k = 4_000, 2_000
    table, label = rng.normal(size=(n, 2)), np.arange(n) % k
    tracemalloc.start()
    SoftmaxClassifier(max_iter=2).fit(table, label)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * n * k / 4


def test_mips_tells_the_likelihood_and_the_iterations_of_its_classifier():
    problem = tiny.small().sample(400, np.random.default_rng(3))
    found = tiny.run(MIPS(), problem)
    scaled = StandardScaler().fit_transform(np.hstack([problem.context, problem.embedding]))
    model = LogisticRegression(max_iter=1000).fit(scaled, problem.action)
    logged = model.predict_proba(scaled)[np.arange(400), problem.action]
    assert found.diagnostics["log_likelihood"] == pytest.approx(np.log(logged).mean(), rel=1e-6)
    assert found.diagnostics["iterations"] == model.n_iter_[0]
    capped = MIPS(classifier="softmax", classifier_params={"max_iter": 1})
    assert tiny.run(capped, problem).diagnostics["iterations"] == 1
    regression = MIPS(weights="regression", regressor="ridge")
    assert "log_likelihood" not in tiny.run(regression, problem).diagnostics


@pytest.mark.parametrize("estimator", [MIPS, LearnedMIPS])
def test_the_classifiers_have_the_same_estimates(estimator):
    problem = tiny.small().sample(400, np.random.default_rng(4))
    one, other = (
        tiny.run(estimator(classifier=name), problem) for name in ("logistic", "softmax")
    )
    assert other.value == pytest.approx(one.value, rel=2e-3)
    likelihood = [run.diagnostics["log_likelihood"] for run in (one, other)]
    assert likelihood[1] == pytest.approx(likelihood[0], abs=1e-4)


def test_a_classifier_that_excludes_what_happened_has_no_finite_likelihood():
    seen, columns = np.array([0, 2]), (Column(),)
    policy = FittedPolicy(None, columns, seen, 3, 2)
    assert policy.quality(np.array([0.5, 0.0])) == {}
    assert policy.quality(np.array([0.5, 0.25])) == {"log_likelihood": np.log(0.125) / 2}
    assert policy.column(np.array([2, 0, 1])).tolist() == [1, 0, 1]
