"""Importance weighting with a reward model for the actions that logs never contain."""

from __future__ import annotations

import numpy as np
import pytest

from ope_bench.base.errors import UnavailableError
from ope_bench.contracts.view import Access
from ope_environments.gaussian.gaussian import Gaussian
from ope_estimators.actions.weighting.ipw import IPW
from ope_estimators.actions.weighting.ipw_re import IPWRE
from ope_estimators.nuisance.partial_expectation import probability_table
from support import tiny_worlds as tiny

DEFICIENT = np.array([[0.5, 0.5, 0.0], [0.4, 0.6, 0.0]])


def test_extrapolation_adds_the_models_value_of_unsupported_actions():
    world = tiny.small().but(pi0=DEFICIENT, categorical=True)
    population = world.population()
    estimator = IPWRE("linear", action_features="ordinal")
    estimate, plain = tiny.run(estimator, population), tiny.run(IPW(), population)
    x, action = np.repeat([0, 1], 3), np.tile([0, 1, 2], 2)
    design = lambda x, a: np.column_stack([np.ones(len(x)), x, a])  # noqa: E731
    code = population.context[:, 0]
    line = np.linalg.lstsq(design(code, population.action), population.reward, rcond=None)[0]
    model = (design(x, action) @ line).reshape(2, 3)
    lost = np.where(world.pi0 == 0, world.pi1, 0.0)
    added = (world.p[:, None] * lost * model).sum()
    assert estimate.value == pytest.approx(plain.value + added, abs=1e-10)
    mass = (world.p[:, None] * lost).sum()
    assert estimate.diagnostics["unsupported_mass"] == pytest.approx(mass)
    assert estimate.standard_error is None


@pytest.mark.parametrize("folds", [1, 3])
def test_with_full_support_extrapolation_is_ipw(folds):
    problem = tiny.small().sample(60, np.random.default_rng(19))
    plain, same = tiny.run(IPW(), problem), tiny.run(IPWRE("linear", cross_fit=folds), problem)
    assert (same.value, same.standard_error) == (plain.value, plain.standard_error)
    assert same.diagnostics["unsupported_mass"] == 0.0


def test_each_row_is_extrapolated_by_a_model_that_has_not_seen_it():
    problem = tiny.small().but(pi0=DEFICIENT).sample(40, np.random.default_rng(20))
    estimator = IPWRE("linear", cross_fit=4, action_features="ordinal")
    view = tiny.view_of(problem, estimator.access)
    estimator.fit(view, rng=np.random.default_rng(0), device="cpu")
    found = estimator.estimate(view).value - tiny.run(IPW(), problem).value
    at_two = estimator.reward_.logged(problem.context, np.full(40, 2))
    share = problem.target_policy.probability(problem.context, np.full(40, 2))
    assert found == pytest.approx((share * at_two).mean(), rel=1e-12)
    everywhere = estimator.reward_(problem.context, np.full(40, 2))
    assert abs((share * (at_two - everywhere)).mean()) > 1e-6


def test_a_policy_without_a_table_is_asked_for_pairs():
    class Pairs:
        def probability(self, context, action):
            return 0.1 * context[:, 0] + 0.01 * action

    context = np.array([[1.0], [2.0]])
    np.testing.assert_allclose(
        probability_table(Pairs(), context, 3), [[0.1, 0.11, 0.12], [0.2, 0.21, 0.22]]
    )


def test_continuous_actions_have_no_sum_over_unsupported_ones():
    streams = {
        name: np.random.default_rng(0) for name in ("world_rng", "logged_rng", "target_rng")
    }
    problem, _ = Gaussian(n_samples=10).sample(**streams)
    with pytest.raises(UnavailableError, match="continuous"):
        tiny.run(IPWRE("linear"), problem)


def test_access_is_what_is_read():
    assert IPWRE().access == Access.LOGGING_POLICY | Access.TARGET_POLICY
