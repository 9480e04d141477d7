"""Doubly robust terms for bets: unbiased, bounded, and made of earlier rows alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ope_bench import (
    STANDARD_ERROR_WITHHELD,
    Access,
    UnavailableError,
    betting_interval_of_terms,
    evaluate,
    largest_shortfall,
)
from ope_estimators.actions.doubly_robust import bounded_terms as module
from ope_estimators.actions.doubly_robust.bounded_terms import bounded_terms
from ope_estimators.actions.doubly_robust.dr import DR
from ope_estimators.actions.doubly_robust.mrdr import MRDR
from ope_estimators.nuisance.reward import RewardModel
from support import tiny_worlds as tiny

WORLD = tiny.small()
RANGE = (-1.0, 4.0)
KNOWN = Access.PROPENSITY | Access.TARGET_POLICY | Access.LOGGING_POLICY
MODEL = np.array([[0.5, 1.0, 2.0], [1.0, -0.5, 3.0]])


def _view(problem):
    return tiny.view_of(problem, KNOWN)


def _table(context, action):
    return MODEL[context[:, 0].astype(int), action.astype(int)]


def _cells(world):
    """Each pair of context and action once, with its mean reward, after rows without a model."""
    x, a = (index.ravel() for index in np.indices(world.pi0.shape))
    x, a = x[world.pi0[x, a] > 0], a[world.pi0[x, a] > 0]
    q = np.einsum("xag,ag->xa", world.q, world.table)
    first = np.zeros(module.FIRST, dtype=int)
    x, a = np.concatenate([first, x]), np.concatenate([first, a])
    none = np.zeros(1, dtype=int)
    chance = world.p[x] * world.pi0[x, a]
    return world.problem(x, a, none.repeat(len(x)), q[x, a], (none, none, none)), chance


@pytest.mark.parametrize("shortfall", [0.0, 0.3, 2.0, 100.0])
def test_the_terms_average_to_the_value_whatever_the_model_and_the_shortfall(shortfall):
    problem, chance = _cells(WORLD)
    lower, upper = bounded_terms(_view(problem), lambda part: _table, RANGE, shortfall)
    after = slice(module.FIRST, None)
    scaled = (WORLD.value - RANGE[0]) / (RANGE[1] - RANGE[0])
    assert chance[after] @ lower[after] == pytest.approx(scaled)
    assert chance[after] @ upper[after] == pytest.approx(1 - scaled)
    assert min(lower.min(), upper.min()) >= -shortfall - 1e-12


def test_without_support_neither_side_averages_to_more_than_the_value():
    world = replace(WORLD, pi0=np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]))
    problem, chance = _cells(world)
    lower, upper = bounded_terms(_view(problem), lambda part: _table, RANGE, 1.0)
    after = slice(module.FIRST, None)
    scaled = (world.value - RANGE[0]) / (RANGE[1] - RANGE[0])
    assert chance[after] @ lower[after] < scaled
    assert chance[after] @ upper[after] < 1 - scaled


def _naive(problem, shortfall, model_of):
    """The formula row by row; ``model_of`` gives the model before a row, None without one."""
    pi0, pi1 = WORLD.pi0, WORLD.pi1
    found = []
    for row in range(len(problem.reward)):
        x, a = int(problem.context[row, 0]), int(problem.action[row])
        model = model_of(row)
        scaled = (problem.reward[row] - RANGE[0]) / (RANGE[1] - RANGE[0])
        both = []
        for reward, mirrored in ((scaled, False), (1 - scaled, True)):
            term = pi1[x, a] / pi0[x, a] * reward
            for action in range(3):
                if model is None:
                    continue
                q = np.clip((model(x, action) - RANGE[0]) / (RANGE[1] - RANGE[0]), 0, 1)
                part = min(1 - q if mirrored else q, shortfall * pi0[x, action] / pi1[x, action])
                term += pi1[x, action] * part
                term -= pi1[x, a] / pi0[x, a] * part if action == a else 0.0
            both.append(term)
        found.append(both)
    return np.array(found).T


def test_models_are_fitted_to_the_units_before_and_anew_when_those_have_doubled(monkeypatch):
    monkeypatch.setattr(module, "FIRST", 4)
    unit = np.array([3, 3, 1, 0, 0, 7, 5, 5, 5, 2, 9, 8, 6, 6, 4, 10, 11, 12, 13, 14, 15, 16])
    n = len(unit)
    problem = replace(WORLD.sample(n, np.random.default_rng(0)), unit=unit)
    sizes = []

    def fit(part):
        mean = float(part.reward.mean())
        sizes.append((part.n, len(np.unique(part.unit))))
        return lambda context, action: mean + 0.1 * action

    found = bounded_terms(_view(problem), fit, RANGE, 0.8)
    order = list(dict.fromkeys(unit.tolist()))
    before = np.array([order.index(one) for one in unit.tolist()])
    starts = [0, 4, 8, 16]

    def model_of(row):
        start = max(one for one in starts if one <= before[row])
        if start == 0:
            return None
        mean = problem.reward[before < start].mean()
        return lambda x, action: mean + 0.1 * action

    assert np.allclose(found, _naive(problem, 0.8, model_of))
    assert sizes == [(int((before < start).sum()), start) for start in starts[1:]]


def test_rewards_of_later_rows_and_of_the_row_itself_do_not_reach_its_model():
    problem = WORLD.sample(200, np.random.default_rng(1))
    changed = np.where(np.arange(200) < 64, problem.reward, RANGE[1])
    fit = lambda part: part.fitted(RewardModel(learner="ridge"))  # noqa: E731
    views = [_view(problem), _view(replace(problem, reward=changed))]
    terms = [np.stack(bounded_terms(view, fit, RANGE, 1.0)) for view in views]
    assert np.array_equal(terms[0][:, :64], terms[1][:, :64])
    same = (np.arange(200) >= 64) & (np.arange(200) < 128)
    weight = WORLD.weights[problem.context[:, 0].astype(int), problem.action]
    added = (changed - problem.reward) / (RANGE[1] - RANGE[0])
    assert np.allclose((terms[1] - terms[0])[0, same], (weight * added)[same])
    assert not np.allclose((terms[1] - terms[0])[0, 128:], (weight * added)[128:])


@pytest.mark.parametrize("estimator", [DR("ridge"), MRDR("ridge")])
def test_the_estimator_bets_on_these_terms(estimator):
    unit = np.repeat(np.arange(60), 2)
    problem = replace(WORLD.sample(120, np.random.default_rng(2)), unit=unit, reward_range=RANGE)
    plain = tiny.run(estimator, problem)
    estimator.set_params(interval="guaranteed", level=0.9)
    found = tiny.run(estimator, problem)
    assert (found.value, found.interval, found.standard_error) == (plain.value, None, None)
    assert "largest_unit" in found.diagnostics[STANDARD_ERROR_WITHHELD]
    estimator.set_params(largest_unit=3)
    found = tiny.run(estimator, problem)
    assert found.value == plain.value
    view = _view(problem)
    shortfall = largest_shortfall(60)
    lower, upper = bounded_terms(view, estimator._fitted_to_all, RANGE, shortfall)
    assert found.interval == betting_interval_of_terms(
        lower, upper, shortfall, reward_range=RANGE, unit=unit, level=0.9, largest_unit=3
    )
    assert Access.LOGGING_POLICY in estimator.access
    assert Access.LOGGING_POLICY not in type(estimator)().access


def test_a_guarantee_needs_a_range_finitely_many_actions_and_the_logging_policy():
    problem = WORLD.sample(80, np.random.default_rng(3))
    with pytest.raises(UnavailableError, match="reward_range"):
        tiny.run(DR("ridge", interval="guaranteed"), problem)
    with pytest.raises(UnavailableError, match="logging_policy"):
        tiny.run(
            DR("ridge", interval="guaranteed", reward_range=RANGE),
            replace(problem, logging_policy=None),
        )
    continuous = evaluate(
        DR("ridge", interval="guaranteed", reward_range=(-99, 99)),
        "gaussian[n_samples=60]",
        replicates=1,
    )[0]
    assert (continuous.status.value, "finitely many" in continuous.error_message) == (
        "unavailable",
        True,
    )


def test_a_good_model_makes_the_interval_narrower_than_bets_on_weights():
    interval = "interval=guaranteed,reward_range=[[-4,4]]"
    records = evaluate(
        [f"ipw[{interval}]", f"dr[regressor=ridge,action_features=separate,{interval}]"],
        "linear-bandit[n_samples=1500,reward_std=0,slope_std=0.3,intercept_std=0.5]",
        replicates=2,
    )
    widths = {one.trial.estimator.id: one.interval.width for one in records}
    assert widths["dr"] < 0.8 * widths["ipw"]
    for one in records:
        assert one.interval.holds(one.truth_expected)
