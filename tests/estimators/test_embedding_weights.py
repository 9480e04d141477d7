"""Weights of embeddings by regression, and the choice of the embedding's dimensions in MIPS."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ope_bench.base.errors import ParameterError
from ope_estimators.actions.weighting.ipw import IPW
from ope_estimators.embedded.known.eipw import EIPW
from ope_estimators.embedded.learned.mips import MIPS
from ope_estimators.nuisance.embedding_weights import regressed_weights
from support import tiny_worlds as tiny

TREE = "sklearn.tree.DecisionTreeRegressor"
REGRESSION: dict[str, Any] = {"weights": "regression"}


@pytest.fixture
def world():
    return tiny.small()


def test_a_saturated_regression_finds_the_marginal_weights(world):
    """Each distinct row occurs often, so that the other folds have its frequencies."""
    problem = world.but(categorical=True).sample(6_000, np.random.default_rng(0))
    exact = tiny.run(EIPW(), problem)
    found = tiny.run(MIPS(regressor=TREE, **REGRESSION), problem)
    assert found.weights == pytest.approx(exact.weights, rel=0.2)
    assert found.value == pytest.approx(exact.value, rel=0.05)
    assert found.weight_space == "embedding"
    assert found.standard_error is None


class Nearest:
    """The outcome of the row with the nearest context."""

    def fit(self, table, outcome, **_):
        self.table, self.outcome = table[:, 0], outcome
        return self

    def predict(self, table):
        nearest = np.abs(table[:, :1] - self.table).argmin(axis=1)
        return self.outcome[nearest]


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        pytest.param([0, 0, 0, 0], [1.0, 2.0, 3.0, 4.0], id="nothing else to learn from"),
        pytest.param([0, 0, 5, 5], [3.0, 3.0, 2.0, 2.0], id="each from the other"),
    ],
)
def test_few_units_are_a_fold_each(world, unit, expected):
    problem = replace(world.sample(4, np.random.default_rng(1)), context=np.arange(4.0)[:, None])
    rows = np.array(unit)
    view = tiny.view_of(replace(problem, unit=rows, target_unit=10 + np.arange(4)))
    marked = np.array([1.0, 2.0, 3.0, 4.0])
    found = regressed_weights(view, marked, (0,), lambda _: Nearest(), np.random.default_rng(0))
    assert found.tolist() == expected


def test_weights_come_from_other_folds_and_are_not_negative(world):
    """A tree with a leaf for each row gives back the row's own number if it has seen it."""
    problem = world.sample(60, np.random.default_rng(1))
    problem = replace(problem, context=np.arange(60.0)[:, None])
    view = tiny.view_of(problem)
    marked = 1.0 + np.arange(60.0)
    found = regressed_weights(view, marked, (0,), lambda _: Nearest(), np.random.default_rng(0))
    assert not np.isclose(found, marked).any()
    assert np.abs(found - marked).max() < 6
    signed = regressed_weights(view, -marked, (0,), lambda _: Nearest(), np.random.default_rng(0))
    assert not signed.any()


def test_seeds_of_the_regressors_fit_into_what_every_library_takes(world):
    """Signed integers of 32 bits, and all of their positive half."""
    view, seeds = tiny.view_of(world.sample(10, np.random.default_rng(0))), []

    def make(seed):
        seeds.append(seed)
        return Nearest()

    for k in range(20):
        regressed_weights(view, np.ones(10), (0,), make, np.random.default_rng(k))
    assert len(set(seeds)) == len(seeds) == 5 * 20
    assert 2**30 < max(seeds) < 2**31


def test_equal_policies_give_the_mean_reward(world):
    problem = world.but(pi1=world.pi0).sample(50, np.random.default_rng(0))
    for estimator in (MIPS(regressor="ridge", **REGRESSION), MIPS(dimensions="slope")):
        assert tiny.run(estimator, problem).value == pytest.approx(problem.reward.mean())


def test_embeddings_that_name_the_action_give_ipw():
    named = tiny.small().but(table=np.eye(3), atoms=np.eye(3)[:, :2], q=np.ones((2, 3, 3)),
                             deterministic=True)  # fmt: skip
    problem = named.sample(60, np.random.default_rng(1))
    known = tiny.run(IPW(), problem).value
    assert tiny.run(MIPS(**REGRESSION), problem).value == pytest.approx(known)


def test_listed_dimensions_are_those_of_an_embedding_that_has_no_others(world):
    problem = world.sample(300, np.random.default_rng(2))
    alone = replace(
        problem,
        embedding=problem.embedding[:, 1:],
        target_embedding=problem.target_embedding[:, 1:],
        action_embedding=None,
        embedding_distribution=None,
        schema=replace(problem.schema, embedding=problem.schema.embedding[1:]),
    )
    for params in ({}, {**REGRESSION, "regressor": "ridge"}):
        part = tiny.run(MIPS(dimensions=[1, 1], **params), replace(problem, action_embedding=None))
        np.testing.assert_allclose(part.weights, tiny.run(MIPS(**params), alone).weights)
        assert (part.diagnostics["dimensions"], part.diagnostics["used"]) == (1, "[1]")
        assert tiny.run(MIPS(**params), problem).value != pytest.approx(part.value, rel=1e-6)


@pytest.mark.parametrize("dimensions", [[], [0, 2]])
def test_unknown_dimensions_are_refused(world, dimensions):
    with pytest.raises(ParameterError, match=r"expected some of 0 to 1$"):
        tiny.run(MIPS(dimensions=dimensions), world.sample(30, np.random.default_rng(0)))


def chosen(monkeypatch: Any, intervals: dict[tuple[int, ...], tuple[float, float]]) -> Any:
    """Dimensions by the rule, with the interval of each set of dimensions given."""
    monkeypatch.setattr(MIPS, "_fitted", lambda _self, _view, used, *_: used)
    monkeypatch.setattr(MIPS, "_interval", lambda _self, _view, used: intervals[used])
    return MIPS()._chosen(None, (0, 1, 2), np.random.default_rng(0), "cpu")[0]  # type: ignore[arg-type]


SETS = {(0, 1, 2): 1.0, (1, 2): 0.9, (0, 2): 0.5, (0, 1): 0.8, (2,): 0.3, (0,): 0.4}


def test_dimensions_are_dropped_by_width_while_intervals_agree(monkeypatch):
    agreeing = {used: (0.0, width) for used, width in SETS.items()}
    assert chosen(monkeypatch, agreeing) == (2,)
    # |θ_2 - θ_1| must be at most .3 + (√6 - 1) .5 = 1.02 and .3 + (√6 - 1) 1 = 1.75.
    assert chosen(monkeypatch, agreeing | {(2,): (1.0, 0.3)}) == (2,)
    assert chosen(monkeypatch, agreeing | {(2,): (1.1, 0.3)}) == (0, 2)
    # The first step compares with all dimensions: .5 + (√6 - 1) = 1.95.
    assert chosen(monkeypatch, agreeing | {(0, 2): (2.0, 0.5)}) == (0, 1, 2)


def test_widths_of_zero_keep_all_dimensions(monkeypatch):
    values = dict(zip(SETS, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], strict=True))
    assert chosen(monkeypatch, {used: (values[used], 0.0) for used in SETS}) == (0, 1, 2)


def test_a_dimension_of_noise_is_dropped(world):
    """The reward does not depend on it, and it only spreads the weights."""
    rng = np.random.default_rng(4)
    problem = world.sample(400, rng)
    noise = (problem.action[:, None] + 0.1 * rng.normal(size=(400, 1)), rng.normal(size=(400, 1)))
    problem = replace(
        problem,
        embedding=np.hstack([problem.embedding[:, :1], noise[0]]),
        target_embedding=np.hstack([problem.target_embedding[:, :1], noise[1]]),
        reward=problem.embedding[:, 0],
        action_embedding=None,
        embedding_distribution=None,
    )
    params: dict[str, Any] = {"regressor": TREE, "regressor_params": {"min_samples_leaf": 5}}
    found = tiny.run(MIPS(dimensions="slope", **REGRESSION, **params), problem)
    assert found.diagnostics["used"] == "[0]"
    own = tiny.run(MIPS(dimensions=[0], **REGRESSION, **params), problem)
    # Other folds are drawn for each set of dimensions.
    assert found.value == pytest.approx(own.value, abs=0.01)
