"""Continuous actions: densities take the place of probabilities, or the estimator declines."""

from __future__ import annotations

import numpy as np
import pytest

from ope_bench.base.errors import UnavailableError
from ope_bench.contracts.data import Problem
from ope_estimators.actions.direct.dm import DM
from ope_estimators.actions.direct.dm_paper import DMPaper
from ope_estimators.actions.direct.dm_star import DMStar
from ope_estimators.actions.direct.dm_star_paper import DMStarPaper
from ope_estimators.actions.doubly_robust.dr import DR
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

SPREAD = 0.5
"""Standard deviation of the embedding around its action."""


def density(x, mean, sd):
    return np.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))


class Normal:
    """a ~ N(mean, sd²), whatever the context."""

    def __init__(self, mean, sd):
        self.mean, self.sd = mean, sd

    def probability(self, context, action):
        return density(action, self.mean, self.sd)

    def sample(self, context, rng):
        return rng.normal(self.mean, self.sd, len(context))

    def expect(self, context, f):
        nodes, weights = np.polynomial.hermite_e.hermegauss(12)
        total = np.zeros(len(context))
        for node, weight in zip(nodes, weights / weights.sum(), strict=True):
            total += weight * f(context, np.full(len(context), self.mean + self.sd * node))
        return total


class Around:
    """g ~ N(a, SPREAD²)."""

    def probability(self, embedding, action):
        return density(embedding[:, 0], action, SPREAD)

    def sample(self, action, rng):
        return rng.normal(action, SPREAD)[:, None]

    def support(self):
        return None

    def marginal(self, policy, context, embedding):
        return density(embedding[:, 0], policy.mean, np.hypot(policy.sd, SPREAD))


@pytest.fixture(scope="module")
def problem() -> Problem:
    rng, n = np.random.default_rng(0), 4000
    logging, target, around = Normal(0.0, 1.0), Normal(0.6, 0.8), Around()
    x, y = rng.normal(size=(n, 1)), rng.normal(size=(n, 1))
    a, b = logging.sample(x, rng), target.sample(y, rng)
    g, h = around.sample(a, rng), around.sample(b, rng)
    reward = g[:, 0] ** 2 + 0.3 * rng.normal(size=n)
    return Problem(
        x,
        a,
        g,
        reward,
        y,
        b,
        h,
        None,
        propensity=logging.probability(x, a),
        logging_policy=logging,
        target_policy=target,
        embedding_distribution=around,
    )


VALUE = 0.6**2 + 0.8**2 + SPREAD**2

QUADRATIC = {"regressor": "linear", "regressor_params": {"degree": 2}}


@pytest.mark.parametrize("estimator", [IPW(), IPWS(), EIPW(), EIPWS(), DR(**QUADRATIC)])
def test_intervals_from_densities_hold_the_value(problem, estimator):
    estimate = tiny.run(estimator, problem)
    assert abs(estimate.value - VALUE) < 4 * estimate.standard_error
    assert estimate.standard_error < 0.12


@pytest.mark.parametrize(
    "estimator", [DM(**QUADRATIC), DMStar(**QUADRATIC), EDM(**QUADRATIC), EDMStar(**QUADRATIC)]
)
def test_right_reward_models_find_the_value(problem, estimator):
    assert tiny.run(estimator, problem).value == pytest.approx(VALUE, abs=0.1)


def test_printed_forms_multiply_by_a_density(problem):
    # E0[π1(g) g²] of the two marginals, a Gaussian integral.
    v0, v1 = 1.0 + SPREAD**2, 0.8**2 + SPREAD**2
    v, m = 1 / (1 / v0 + 1 / v1), 0.6 / v1 / (1 / v0 + 1 / v1)
    limit = density(0.6, 0.0, np.sqrt(v0 + v1)) * (m**2 + v)
    assert tiny.run(EDMPaper(**QUADRATIC), problem).value == pytest.approx(limit, rel=0.08)
    assert np.isfinite(tiny.run(DMPaper(**QUADRATIC), problem).value)


@pytest.mark.parametrize("cls", [IPWStar, IPWSStar, MIPS, DMStarPaper])
def test_what_classifies_actions_is_unavailable(problem, cls):
    with pytest.raises(UnavailableError, match="continuous"):
        tiny.run(cls(), problem)
