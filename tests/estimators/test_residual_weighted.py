"""Transformed weights of residuals: the doubly robust forms of the transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ope_bench import params
from ope_estimators.actions.doubly_robust.dr import DR
from ope_estimators.actions.doubly_robust.residual_weighted import ResidualWeighted
from ope_estimators.actions.weighting.ipw import ClippedWeights
from ope_estimators.actions.weighting.sg_ipw import ShrunkWeights
from support import tiny_worlds as tiny


@params
class ClippedDR(ResidualWeighted, ClippedWeights):
    """Clipped weights of residuals."""


@params
class ShrunkDR(ResidualWeighted, ShrunkWeights):
    """Shrunk weights of residuals."""

    normalize: bool = False


@pytest.mark.parametrize("clip", [None, 1.2])
def test_clipped_residuals_are_the_doubly_robust_estimator(clip):
    problem = tiny.small().sample(60, np.random.default_rng(23))
    shared = {"regressor": "linear", "cross_fit": 3, "clip": clip}
    known, made = tiny.run(DR(**shared), problem), tiny.run(ClippedDR(**shared), problem)
    assert (made.value, made.standard_error) == (known.value, known.standard_error)
    np.testing.assert_array_equal(made.weights, known.weights)


def test_shrunk_residuals_go_from_dr_to_the_mean_residual():
    problem = tiny.small().sample(60, np.random.default_rng(24))
    shared: dict[str, Any] = {"regressor": "linear", "cross_fit": 3}
    known = tiny.run(DR(**shared), problem)
    assert tiny.run(ShrunkDR(lambda_=0.0, **shared), problem).value == pytest.approx(known.value)
    estimator = ShrunkDR(lambda_=1.0, normalize=True, **shared)
    view = tiny.view_of(problem, estimator.access)
    estimator.fit(view, rng=np.random.default_rng(0), device="cpu")
    direct = estimator.reward_.logged_expected(view.target_policy, view.context)
    residual = view.reward - estimator.reward_.logged(view.context, view.action)
    found = estimator.estimate(view)
    assert found.value == pytest.approx(direct.mean() + residual.mean(), rel=1e-12)
    terms = direct + residual - residual.mean()
    assert found.standard_error == pytest.approx(terms.std(ddof=1) / np.sqrt(60), rel=1e-12)
