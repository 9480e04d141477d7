"""Rows of one unit depend on each other: no fold splits them, standard errors count units."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ope_bench import self_normalized, standard_error
from ope_bench.contracts.data import ROW_ARRAYS, Column, Problem, Schema
from ope_bench.contracts.parameters import signature
from ope_bench.contracts.view import Access
from ope_bench.plugins.registry import registry
from ope_bench.statistics.weight_checks import unit_resamples
from ope_environments.gaussian.gaussian_policy import GaussianPolicy
from ope_estimators.actions.doubly_robust import mrdr
from ope_estimators.actions.doubly_robust.dr import DR
from ope_estimators.actions.weighting.ipw import IPW
from ope_estimators.actions.weighting.ipws import IPWS
from ope_estimators.actions.weighting.weighted_mean import (
    clipped,
    standard_error_of_sum,
    standard_errors,
)
from ope_estimators.density_ratio import scores
from ope_estimators.embedded.known.eipw import EIPW
from ope_estimators.embedded.known.eipws import EIPWS
from ope_estimators.embedded.learned import edr
from ope_estimators.embedded.learned.edr import EDR
from ope_estimators.learning import folds
from ope_estimators.learning.mlp import MLPRegressor, _split
from ope_estimators.nuisance import policy, reward
from support import tiny_worlds as tiny

UNITS = 24
CROSS_FITTED = sorted(
    plugin.id
    for plugin in registry().plugins("estimator")
    if {"cross_fit", "folds"} & set(signature(plugin.cls))
    and not plugin.id.startswith("obp/")
    # It asks its model about unsupported actions alone: see test_reward_extrapolation.py.
    # `mr` asks its model about rewards: see test_structure.py.
    and plugin.id not in ("ipw-re", "mr")
)
TREE = "sklearn.tree.DecisionTreeClassifier"
REGRESSION_TREE = "sklearn.tree.DecisionTreeRegressor"


def with_lists(problem: Problem) -> Problem:
    """Return a problem whose single actions are lists of one item, and those of two loggers."""
    policies: Any = problem.logging_policy, problem.target_policy
    both = np.stack([one.probability(problem.context, problem.action) for one in policies], axis=1)
    return replace(
        problem,
        prefix_propensity=both,
        joint_propensity=both,
        position_marginals=both[:, None],
        stratum=np.arange(len(both)) % 2,
        stratum_policies=(policies[0], policies[0]),
    )


def grouped(seed: int = 0, *, shared: bool = False) -> Problem:
    """Rows of 24 units, each with a context of its own; half of the target rows are of others.

    The second context column is the unit's number, by which a spy knows the rows of a model.
    """
    rng = np.random.default_rng(seed)
    problem = tiny.small().sample(4 * UNITS, rng, shared=shared)
    unit = rng.permutation(np.repeat(np.arange(UNITS), 4)) * 10
    target = unit if shared else rng.permutation(np.repeat(np.arange(12, 12 + UNITS), 4)) * 10
    context, target_context = (
        np.column_stack([old[:, 0], number])
        for old, number in ((problem.context, unit), (problem.target_context, target))
    )
    return replace(
        with_lists(problem),
        context=context,
        target_context=target_context,
        schema=Schema((Column(), Column()), (Column("atoms"),) * 2),
        unit=unit,
        target_unit=target,
    )


def with_continuous_actions(problem: Problem) -> Problem:
    """The same rows, actions being positions on a line."""
    rng = np.random.default_rng(3)
    logging, target = (
        GaussianPolicy(0.0, s * np.eye(problem.context.shape[1])[0], 1.0) for s in (0.3, 0.6)
    )
    action = logging.sample(problem.context, rng)
    return replace(
        problem,
        action=action,
        target_action=target.sample(problem.target_context, rng),
        n_actions=None,
        propensity=logging.probability(problem.context, action),
        logging_policy=logging,
        target_policy=target,
        embedding_distribution=None,
    )


class Spy:
    """A learner that remembers the units it was fitted on, and refuses to be asked about them."""

    def __init__(self, learner: Any, numbers: np.ndarray, asked: list[int]) -> None:
        self.learner, self.numbers, self.asked = learner, numbers, asked

    def units(self, features: np.ndarray) -> set[float]:
        # The only column whose values are all units: multiples of ten.
        columns = [
            set(column)
            for column in np.asarray(features).T
            if set(column) <= set(self.numbers) and (len(set(column)) > 1 or column[0] >= 10)
        ]
        assert len(columns) == 1
        return columns[0]

    def fit(self, features, outcome, sample_weight=None):
        self.seen = self.units(features)
        self.learner.fit(features, outcome)
        return self

    def _ask(self, features):
        asked = self.units(features)
        assert not asked & self.seen, "asked about a unit that it was fitted on"
        self.asked.append(len(asked))
        return features

    def predict(self, features):
        return self.learner.predict(self._ask(features))

    def predict_proba(self, features):
        return self.learner.predict_proba(self._ask(features))

    def decision_function(self, features):
        return self.learner.decision_function(self._ask(features))


def run(estimator, problem, seed: int = 0, *, resampled: bool = False):
    view = tiny.view_of(problem, estimator.access, seed=seed)
    if resampled:
        ((view, _),) = unit_resamples(view, 1)
    estimator.fit(view, rng=np.random.default_rng(seed), device="cpu")
    return estimator.estimate(view), view


def fresh(estimator: Any) -> Any:
    return type(estimator)(**estimator.get_params(deep=False))


def quick(reference: str) -> Any:
    cls: Any = registry().find("estimator", reference).cls
    known = signature(cls)
    wanted = {"cross_fit": 3, "composition": "concat", "calibration": "none"}
    wanted |= {"regressor": "ridge", "classifier": "logistic"}
    if "regressor" not in known or "classifier" in known:
        wanted |= {"classifier_params": {"degree": 1}}
    if "flow_params" in known:
        wanted |= {"flow_params": {"epochs": 1, "transforms": 1, "hidden": [4]}}
    if reference.endswith("star-paper"):
        wanted.pop("classifier_params")
    # Copies lie in any order: a column must tell an estimator of drift their time.
    wanted |= {
        name: cls.check_params[name] for name in ("time", "share") if name in cls.check_params
    }
    return cls(**{name: value for name, value in wanted.items() if name in known})


def test_the_list_of_cross_fitted_estimators_is_not_empty() -> None:
    assert {"dr", "edr", "epws", "dm-star", "edm"} <= set(CROSS_FITTED)


@pytest.mark.parametrize(("shared", "resampled"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("reference", CROSS_FITTED)
def test_no_model_is_asked_about_a_unit_that_it_has_seen(
    monkeypatch: pytest.MonkeyPatch, reference: str, shared: bool, resampled: bool
) -> None:
    problem = grouped(shared=shared)
    if reference.startswith("kernel-"):
        problem = with_continuous_actions(problem)
    numbers = np.union1d(problem.unit, problem.target_unit).astype(float)
    asked: list[int] = []
    for module, name in (
        (reward, "regressor"),
        (mrdr, "regressor"),
        (scores, "classifier"),
    ):
        make = getattr(module, name)
        # A flow's features name no unit; its classifier's folds are looked at below.
        if name == "classifier" and reference.startswith("f"):
            continue
        monkeypatch.setattr(
            module, name, lambda *a, make=make, **k: Spy(make(*a, **k), numbers, asked)
        )
    estimator = quick(reference)
    _, view = run(estimator, problem, resampled=resampled)
    shared_fits = [entry.value for entry in view._fit_cache._entries.values()]
    folded = [fit for fit in shared_fits if isinstance(fit, scores.RatioScores)]
    for fit in folded:
        assert len(np.unique(fit.fold)) == 3
        for number in numbers:
            rows = np.concatenate([view.fold_unit, view.target_fold_unit]) == number
            assert len(set(fit.fold[rows])) <= 1
    assert asked or folded


def test_a_flow_holds_back_whole_units(monkeypatch: pytest.MonkeyPatch) -> None:
    from ope_estimators.flows.flow import FlowModel

    problem = grouped()
    view = tiny.view_of(problem)
    prepared = FlowModel(epochs=1).begin(view, rng=np.random.default_rng(0), device="cpu")
    unit = np.concatenate([view.unit, view.target_unit])
    assert prepared.held.any()
    assert not set(unit[prepared.held]) & set(unit[~prepared.held])


def test_a_perceptron_stops_by_whole_units() -> None:
    unit = grouped().unit
    train, held = _split(unit, 0.25, np.random.default_rng(0))
    assert sorted([*train, *held]) == list(range(len(unit)))
    assert len(held) == len(unit) // 4
    assert not set(unit[train]) & set(unit[held])
    alone = _split(np.arange(40), 0.25, np.random.default_rng(0))
    order = np.random.default_rng(0).permutation(40)
    np.testing.assert_array_equal(alone[0], order[10:])
    np.testing.assert_array_equal(alone[1], order[:10])


def test_a_cross_fitted_perceptron_is_told_of_units(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    fit = MLPRegressor.fit

    def watched(self, features, outcome, unit=None):
        told.append(unit)
        return fit(self, features, outcome, unit)

    monkeypatch.setattr(MLPRegressor, "fit", watched)
    problem = grouped()
    spec = reward.RewardModel("mlp", (("epochs", 1),), "embedding", cross_fit=2)
    tiny.view_of(problem).fitted(spec)
    assert [set(unit) <= set(problem.unit) for unit in told] == [True, True]
    assert sum(map(len, told)) == len(problem.unit)
    tiny.view_of(replace(problem, unit=None, target_unit=None)).fitted(spec)
    assert told[2:] == [None, None]


def test_folds_without_units_are_those_of_rows() -> None:
    problem = tiny.small().sample(23, np.random.default_rng(0))
    logged, target = folds.folds(tiny.view_of(problem), 4, np.random.default_rng(5))
    rng = np.random.default_rng(5)
    np.testing.assert_array_equal(logged, folds.fold_of(23, 4, rng))
    np.testing.assert_array_equal(target, folds.fold_of(23, 4, rng))


def test_one_unit_is_fitted_and_asked_in_sample() -> None:
    problem = tiny.small().sample(20, np.random.default_rng(0))
    given = replace(problem, unit=np.zeros(20, dtype=int), target_unit=np.zeros(20, dtype=int))
    estimate, _ = run(DR("linear", cross_fit=5), given)
    assert np.isfinite(estimate.value)
    assert estimate.standard_error is None


def repeated(problem: Problem, times: int, rng: np.random.Generator) -> Problem:
    """Every row ``times`` over, its copies one unit with it, in any order."""
    n, m = len(problem.reward), len(problem.target_action)
    logged, target = (rng.permutation(np.tile(np.arange(size), times)) for size in (n, m))
    if problem.shared_contexts:
        target = logged
    changes: dict[str, Any] = {
        name: getattr(problem, name)[logged]
        for name in ROW_ARRAYS
        if getattr(problem, name) is not None
    }
    for name in ("target_context", "target_action", "target_embedding"):
        changed = getattr(problem, name)[target]
        changes[name] = changed
    unit = np.arange(n)[logged]
    changes["unit"] = unit
    changes["target_unit"] = unit if problem.shared_contexts else n + np.arange(m)[target]
    return replace(problem, **changes)


DETERMINISTIC = [
    IPW(),
    IPWS(),
    EIPW(),
    EIPWS(),
    DR("linear", cross_fit=3),
    DR(REGRESSION_TREE, cross_fit=3, regressor_params={"max_depth": 2}),
    EDR(
        classifier=TREE,
        classifier_params={"max_depth": 2},
        regressor="linear",
        calibration="none",
        clip=20.0,
        cross_fit=3,
    ),
]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("estimator", DETERMINISTIC, ids=repr)
def test_repeating_every_row_with_its_unit_changes_neither_value_nor_standard_error(
    estimator: Any, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edr, "reason_to_withhold", lambda *_: None)
    problem = tiny.small().sample(60, np.random.default_rng(2), shared=shared)
    once, _ = run(fresh(estimator), problem)
    thrice, _ = run(fresh(estimator), repeated(problem, 3, np.random.default_rng(3)))
    assert thrice.value == pytest.approx(once.value, rel=1e-9)
    # The factor is k / (k - 1) for k units, whatever their rows: no n / (n - 1) is left over.
    assert thrice.standard_error == pytest.approx(once.standard_error, rel=1e-9)


def test_repeated_rows_without_units_seem_too_certain() -> None:
    problem = tiny.small().sample(60, np.random.default_rng(2))
    many = repeated(problem, 4, np.random.default_rng(3))
    blind = replace(many, unit=None, target_unit=None)
    ratio = run(IPW(), blind)[0].standard_error / run(IPW(), many)[0].standard_error
    assert ratio == pytest.approx(0.5, rel=0.02)


def test_the_standard_error_is_the_sum_of_scores_by_unit() -> None:
    rng = np.random.default_rng(0)
    terms, unit = rng.normal(size=12), np.array([4, 4, 1, 9, 9, 9, 2, 2, 4, 1, 5, 5])
    units = np.unique(unit)
    k = len(units)

    def by_hand(scores: np.ndarray) -> float:
        return float(np.sqrt(k / (k - 1) * sum(scores[unit == u].sum() ** 2 for u in units)))

    assert standard_error(terms, unit) == pytest.approx(by_hand((terms - terms.mean()) / 12))
    weights = rng.uniform(0.5, 2.0, 12)
    value, error = self_normalized(weights, terms, unit)
    assert value == pytest.approx(np.average(terms, weights=weights))
    assert error == pytest.approx(by_hand(weights * (terms - value) / weights.sum()))


def test_the_sum_of_two_means_knows_which_units_both_samples_share() -> None:
    rng = np.random.default_rng(1)
    given = grouped()
    logged, target = (rng.normal(size=4 * UNITS) for _ in range(2))
    apart = tiny.view_of(replace(given, target_unit=given.target_unit + 1000))
    parts = standard_error(logged, given.unit), standard_error(target, given.target_unit)
    assert standard_error_of_sum(logged, target, apart) == pytest.approx(np.hypot(*parts))
    same = tiny.view_of(replace(given, target_unit=given.unit))
    assert standard_error_of_sum(logged, target, same) == pytest.approx(
        standard_error(logged + target, given.unit)
    )
    # Terms that cancel within each unit have no spread at all.
    assert standard_error_of_sum(logged, -logged, same) == pytest.approx(0.0, abs=1e-12)


def test_intervals_by_unit_cover_where_those_by_row_do_not() -> None:
    """Rows share a unit's random effect; the mean over new units is to be covered."""
    world, rng = tiny.small(), np.random.default_rng(4)
    value = world.value
    inside = np.zeros(2)
    trials = 400
    for _ in range(trials):
        problem = world.sample(400, rng)
        unit = np.repeat(np.arange(80), 5)
        effect = 2.0 * rng.normal(size=80)[unit]
        given = replace(problem, reward=problem.reward + effect, unit=unit)
        for which, one in enumerate((given, replace(given, unit=None))):
            estimate, _ = run(IPWS(), one)
            inside[which] += abs(estimate.value - value) <= 1.96 * estimate.standard_error
    by_unit, by_row = inside / trials
    # Three binomial standard errors of 400 trials are .033.
    assert 0.91 < by_unit < 0.985
    assert by_row < 0.85


def test_units_are_open_to_every_estimator() -> None:
    view = tiny.view_of(grouped(), Access.SAMPLES)
    assert view.has_units
    assert not view.violations


def test_a_classifier_of_actions_is_told_of_units(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    def spy(model: Any, features: Any, label: Any, unit: Any) -> Any:
        told.append(unit)
        return model.fit(features, label)

    monkeypatch.setattr(policy, "fitted", spy)
    problem = grouped()
    for one in (problem, replace(problem, unit=None, target_unit=None)):
        run(quick("ipw-star"), one)
    np.testing.assert_array_equal(told[0], problem.unit)
    np.testing.assert_array_equal(told[1], problem.target_unit)
    assert told[2] is None


WITH_ERRORS = sorted(
    plugin.id
    for plugin in registry().plugins("estimator")
    if plugin.origin.startswith("ope-bench ") and not plugin.id.startswith("obp/")
)


@pytest.mark.parametrize("reference", WITH_ERRORS)
def test_copies_of_rows_make_no_estimator_more_certain(reference: str) -> None:
    """Four copies of each row in its unit: by rows a standard error would halve."""
    problem = with_lists(tiny.small().sample(120, np.random.default_rng(5)))
    if reference.startswith("kernel-"):
        problem = with_continuous_actions(problem)
    once, _ = run(quick(reference), problem)
    many, _ = run(quick(reference), repeated(problem, 4, np.random.default_rng(6)))
    if once.standard_error is None or many.standard_error is None:
        pytest.skip("no standard error")
    assert many.standard_error > 0.75 * once.standard_error


@pytest.mark.parametrize(
    ("units", "error"), [((2, 2), math.sqrt(2)), ((1, 2), None), ((2, 1), None)]
)
def test_two_units_of_each_sample_are_the_fewest_with_a_standard_error(
    units: tuple[int, int], error: float | None
) -> None:
    """Two sums of a half, of opposite sign: each mean has the standard error 1."""
    terms = np.array([1.0, 3.0, 1.0, 3.0])
    unit, target_unit = (np.arange(4) % count for count in units)
    view: Any = SimpleNamespace(has_units=True, unit=unit, target_unit=10 + target_unit)
    found = standard_error_of_sum(terms, terms, view)
    assert found == (None if error is None else pytest.approx(error))
    alone = None if units[0] == 1 else pytest.approx(1.0)
    assert standard_error(terms, unit) == alone
    value, spread = self_normalized(np.ones(4), terms, unit)
    assert value == 2.0
    assert spread == alone


UNIT_ORDERS = {
    "rows": np.arange(12),
    "shuffled rows": np.random.default_rng(3).permutation(12),
    "sorted": np.repeat(np.arange(4), 3),
    "mixed": np.array([4, 4, 1, 9, 9, 9, 2, 2, 4, 1, 5, 5]),
}


@pytest.mark.parametrize("order", UNIT_ORDERS)
def test_standard_errors_of_several_rows_are_those_of_each(order: str) -> None:
    terms, unit = np.random.default_rng(2).normal(size=(3, 12)), UNIT_ORDERS[order]
    every = [standard_error(row, unit) for row in terms]
    assert standard_errors(terms, unit) == pytest.approx(every)
    sums = [[row[unit == one].sum() for one in np.unique(unit)] for row in terms - terms.mean(
        axis=1, keepdims=True)]  # fmt: skip
    k = len(sums[0])
    by_hand = np.sqrt(k / (k - 1) * np.square(sums).sum(axis=1)) / 12
    assert every == pytest.approx(by_hand)


def test_units_of_one_row_have_the_bits_of_rows_in_any_order() -> None:
    terms = np.random.default_rng(4).normal(size=200)
    weights, unit = np.exp(terms[::-1]), np.random.default_rng(5).permutation(200)
    assert standard_error(terms, unit) == standard_error(terms, np.arange(200))
    assert self_normalized(weights, terms, unit) == self_normalized(weights, terms, np.arange(200))


def test_a_weight_at_the_limit_is_not_cut() -> None:
    weights, facts = clipped(np.array([0.5, 2.0, 3.0, 0.5]), 2.0)
    assert weights.tolist() == [0.5, 2.0, 2.0, 0.5]
    assert facts == {"mean_weight": 1.5, "clip": 2.0, "clipped_share": 0.25}
