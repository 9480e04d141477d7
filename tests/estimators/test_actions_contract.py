"""What every estimator of actions, and every exact one, promises as a plugin."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from ope_bench.base.errors import AccessError, ParameterError
from ope_bench.contracts.data import Problem
from ope_bench.contracts.parameters import describe, validated
from ope_bench.contracts.plugins import Estimate, Estimator
from ope_bench.contracts.policies import Tabular
from ope_bench.contracts.view import Access
from ope_estimators.actions.direct.dm import DM
from ope_estimators.actions.direct.dm_paper import DMPaper
from ope_estimators.actions.direct.dm_star import DMStar
from ope_estimators.actions.direct.dm_star_paper import DMStarPaper
from ope_estimators.actions.doubly_robust.dr import DR
from ope_estimators.actions.logging_average import LoggingAverage
from ope_estimators.actions.weighting.ipw import IPW
from ope_estimators.actions.weighting.ipw_star import IPWStar
from ope_estimators.actions.weighting.ipws import IPWS
from ope_estimators.actions.weighting.ipws_star import IPWSStar
from ope_estimators.embedded.known.edm import EDM
from ope_estimators.embedded.known.edm_paper import EDMPaper
from ope_estimators.embedded.known.eipw import EIPW
from ope_estimators.embedded.known.eipws import EIPWS
from ope_estimators.embedded.learned.edm_star import EDMStar
from ope_estimators.embedded.learned.mips import MIPS
from support import tiny_worlds as tiny

SMALL: dict[type[Estimator], dict[str, Any]] = {
    LoggingAverage: {},
    IPW: {"clip": 20.0},
    IPWS: {"clip": 20.0},
    IPWStar: {"on_missing": "laplace", "laplace": 0.5},
    IPWSStar: {"classifier_params": {"C": 0.5}},
    DM: {"regressor": "gbm", "regressor_params": {"n_estimators": 5}},
    DMStar: {"regressor": "ridge"},
    DMPaper: {"regressor_params": {"n_estimators": 5}},
    DMStarPaper: {"regressor_params": {"n_estimators": 5}},
    DR: {"regressor": "ridge", "cross_fit": 3},
    EIPW: {},
    EIPWS: {"clip": 20.0},
    MIPS: {},
    EDM: {},
    EDMStar: {"regressor": "ridge"},
    EDMPaper: {"regressor_params": {"n_estimators": 5}},
}
"""Every estimator of the two families, with parameters other than its defaults."""

EVERY = pytest.mark.parametrize("cls", list(SMALL), ids=lambda cls: cls.__name__)


@EVERY
def test_parameters_are_stored_as_given_and_read_back(cls):
    estimator = cls(**SMALL[cls])
    names = list(inspect.signature(cls).parameters)
    assert list(estimator.get_params(deep=False)) == names
    assert {k: estimator.get_params()[k] for k in SMALL[cls]} == SMALL[cls]
    assert cls().set_params(**SMALL[cls]).get_params() == estimator.get_params()
    assert all(name in repr(estimator) for name in SMALL[cls])


@EVERY
def test_scikit_learns_clone_copies_parameters_and_no_fit(cls):
    from sklearn.base import clone

    estimator = cls(**SMALL[cls])
    estimator.secret_ = 1
    copy = clone(estimator)
    assert copy.get_params() == estimator.get_params()
    assert not hasattr(copy, "secret_")


@EVERY
def test_validation_accepts_what_is_meant_and_names_what_is_not(cls):
    assert cls(**validated(cls, SMALL[cls])).get_params() == cls(**SMALL[cls]).get_params()
    assert validated(cls, {}) == cls().get_params(deep=False)
    assert [row["name"] for row in describe(cls)] == list(inspect.signature(cls).parameters)
    with pytest.raises(ParameterError, match="has no parameter 'nonsense'"):
        validated(cls, {"nonsense": 1})


@pytest.mark.parametrize(
    ("cls", "wrong"),
    [
        (IPW, {"clip": 0}),
        (EIPW, {"clip": -1}),
        (DM, {"cross_fit": 0}),
        (DM, {"regressor": "logistic"}),
        (DM, {"action_features": "one_hot"}),
        (DR, {"cross_fit": 2.5}),
        (IPWStar, {"on_missing": "nan"}),
        (IPWStar, {"laplace": 0}),
        (MIPS, {"classifier": "ridge"}),
        (EDM, {"draws": 0}),
    ],
)
def test_values_out_of_range_are_refused(cls, wrong):
    with pytest.raises(ParameterError):
        validated(cls, wrong)


@EVERY
def test_docstrings_say_what_is_assumed_and_when_it_fails(cls):
    text = inspect.getdoc(cls)
    assert "V̂ =" in text
    assert "Assumptions:" in text
    assert "Fails when:" in text
    for name in inspect.signature(cls).parameters:
        assert name in text


@EVERY
@pytest.mark.parametrize("kind", ["plain", "categorical", "deterministic", "shared"])
def test_every_kind_of_problem_gets_a_finite_estimate_twice_the_same(cls, kind):
    problem = problem_of(kind)
    first, second = (tiny.run(cls(**SMALL[cls]), problem) for _ in range(2))
    assert isinstance(first, Estimate)
    assert np.isfinite(first.value)
    assert first.value == second.value
    if first.weights is not None:
        assert first.weights.shape == problem.reward.shape
        assert (first.weights >= 0).all()
        assert first.weight_space in ("action", "embedding")


def problem_of(kind: str) -> Problem:
    world = tiny.small()
    if kind == "categorical":
        world = world.but(categorical=True)
    if kind == "deterministic":
        world = world.but(table=np.array([[1.0, 0], [0, 1.0], [0, 1.0]]), deterministic=True)
    return world.sample(60, np.random.default_rng(0), shared=kind == "shared")


@EVERY
def test_a_single_logged_row_gives_a_number(cls):
    world = tiny.small()
    problem = world.but(pi0=np.array([[1.0, 0, 0]] * 2), pi1=np.array([[1.0, 0, 0]] * 2)).sample(
        1, np.random.default_rng(0)
    )
    assert np.isfinite(tiny.run(cls(**SMALL[cls]), problem).value)


@EVERY
def test_contexts_without_columns_are_a_bandit_without_context(cls):
    world = tiny.small()
    same = world.but(
        pi0=np.tile(world.pi0[:1], (2, 1)),
        pi1=np.tile(world.pi1[:1], (2, 1)),
    ).sample(40, np.random.default_rng(0))
    none = {"context": same.context[:, :0], "target_context": same.target_context[:, :0]}
    policies = {
        name: Tabular(table[:1], lambda context: np.zeros(len(context), dtype=np.int64))
        for name, table in (("logging_policy", world.pi0), ("target_policy", world.pi1))
    }
    bare = Problem(**(vars(same) | none | {"schema": None} | policies))
    assert np.isfinite(tiny.run(cls(**SMALL[cls]), bare).value)


@EVERY
def test_access_is_the_least_that_suffices(cls):
    problem = tiny.small().sample(30, np.random.default_rng(0))
    access = cls().access
    less = {access & ~flag for flag in Access if flag in access} - {access}
    for lesser in less:
        poorer = type(cls.__name__, (cls,), {"access": lesser})
        with pytest.raises(AccessError):
            tiny.run(poorer(**SMALL[cls]), problem)
