"""The parameter `ratio` of EPW, EPWS and EDR: the weights are those that its name says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ope_bench.base.errors import PositivityViolation
from ope_bench.contracts.data import Problem
from ope_estimators.density_ratio.ratio import LARGEST_LOG_RATIO
from ope_estimators.density_ratio.sampled import WEIGHERS
from ope_estimators.embedded.balancing.energy_balancing import EnergyBalancing
from ope_estimators.embedded.balancing.entropy_balancing import EntropyBalancing
from ope_estimators.embedded.balancing.kliep import KLIEP
from ope_estimators.embedded.balancing.kmm import KMM
from ope_estimators.embedded.balancing.riesz import Riesz
from ope_estimators.embedded.balancing.rulsif import RuLSIF
from ope_estimators.embedded.learned.edr import EDR
from ope_estimators.embedded.learned.epw import EPW
from ope_estimators.embedded.learned.epws import EPWS
from ope_estimators.features.composition import compose
from support import tiny_worlds as tiny

OWN: dict[str, Any] = {
    "riesz": Riesz(),
    "rulsif": RuLSIF(),
    "kliep": KLIEP(),
    "kmm": KMM(),
    "entropy": EntropyBalancing(),
    "energy": EnergyBalancing(),
}
EVERY = pytest.mark.parametrize("name", OWN)


def normals(n: int = 200, shift: float = 0.5, m: int | None = None) -> Problem:
    """Embeddings N(0, 1) in the logs, N(shift, 1) in the target sample."""
    rng, m = np.random.default_rng(0), n if m is None else m
    logged, target = rng.normal(size=(n, 1)), rng.normal(shift, 1.0, size=(m, 1))
    return Problem(
        context=np.zeros((n, 1)),
        action=logged[:, 0],
        embedding=logged,
        reward=np.sin(logged[:, 0]),
        target_context=np.zeros((m, 1)),
        target_action=target[:, 0],
        target_embedding=target,
        n_actions=None,
    )


def fit(estimator: Any, view: Any) -> Any:
    return estimator.fit(view, rng=np.random.default_rng(0), device="cpu")


@EVERY
def test_weights_and_fit_are_those_of_the_estimator_of_that_name(name):
    problem = normals(120, m=100)
    view = tiny.view_of(problem)
    own = fit(OWN[name], view)
    chosen = fit(EPWS(ratio=name, clip=None), view)
    weights = np.maximum(own.weights_.logged, 0.0)
    np.testing.assert_allclose(chosen.ratio_.weights, weights, atol=np.exp(-LARGEST_LOG_RATIO))
    # The fit is shared, not made again.
    assert view.fitted(WEIGHERS[name]) is view.fitted(own.weights_model())
    estimate = chosen.estimate(view)
    assert estimate.value == pytest.approx(np.average(problem.reward, weights=weights))
    plain = fit(EPW(ratio=name, clip=None), view).estimate(view)
    assert plain.value == pytest.approx((weights * problem.reward).mean())
    if own.weights_.target is None:
        assert estimate.target_weights is None
        assert "auc" not in estimate.diagnostics
    else:
        expected = np.maximum(own.weights_.target, 0.0)
        np.testing.assert_allclose(estimate.target_weights, expected, atol=1e-12)
        assert estimate.diagnostics["auc"] > 0.5


def test_the_relative_ratio_keeps_its_bound_and_negative_weights_become_none():
    view = tiny.view_of(normals(shift=3.0))
    assert fit(EPWS(ratio="rulsif", clip=None), view).ratio_.weights.max() <= 10.0
    negative = fit(EPWS(ratio="riesz", clip=None), view).ratio_
    assert negative.diagnostics["negative_share"] > 0
    assert negative.diagnostics["clipped_share"] == negative.diagnostics["negative_share"]
    assert negative.weights.min() == pytest.approx(0.0, abs=1e-100)


@EVERY
def test_the_clip_holds_them(name):
    ratio = fit(EPWS(ratio=name, clip=1.3), tiny.view_of(normals(shift=1.0))).ratio_
    assert ratio.weights.min() == pytest.approx(1 / 1.3)
    assert ratio.weights.max() == pytest.approx(1.3)
    assert 0 < ratio.diagnostics["clipped_share"] < 1


def test_features_are_composed_as_for_a_classifier():
    problem = tiny.small().sample(300, np.random.default_rng(1))
    view = tiny.view_of(problem)
    composed = compose(view, "tensor-bias")
    assert composed.logged.shape[1] > compose(view, "concat").logged.shape[1]
    weights = fit(EPWS(ratio="entropy", composition="tensor-bias", clip=None), view).ratio_.weights
    balanced = weights @ composed.logged / weights.sum()
    np.testing.assert_allclose(balanced, composed.target.mean(axis=0), atol=1e-8)
    plain = fit(EPWS(ratio="entropy", clip=None), view).ratio_.weights
    off = plain @ composed.logged / plain.sum() - composed.target.mean(axis=0)
    assert np.abs(off).max() > 1e-3


def test_a_flow_maps_the_features_first():
    pytest.importorskip("zuko")
    from ope_estimators.embedded.learned.fepws import FEPWS

    view = tiny.view_of(tiny.through_embedding().sample(80, np.random.default_rng(0)))
    short = {"flow_params": {"epochs": 2, "hidden": [16], "transforms": 2}}
    estimator = fit(FEPWS(ratio="entropy", clip=None, **short), view)
    mapped = view.fitted(estimator.flow_model()).pooled
    weights = estimator.ratio_.weights
    balanced = weights @ mapped[:80] / weights.sum()
    np.testing.assert_allclose(balanced, mapped[80:].mean(axis=0), atol=1e-7)
    assert estimator.ratio_.diagnostics["flow_epochs"] == 2
    assert estimator.devices == ("cpu", "cuda")


def test_the_doubly_robust_form_weighs_its_residuals_with_them():
    world = tiny.through_embedding()
    problem = world.sample(120, np.random.default_rng(3))
    view = tiny.view_of(problem)
    model: dict[str, Any] = {"regressor": "ridge", "cross_fit": 2, "classifier": "logistic"}
    estimator = fit(EDR(ratio="kliep", **model), view)
    reward = estimator.reward_
    residual = problem.reward - reward.logged(view.context, view.embedding)
    direct = reward.at_target(view.target_context, view.target_embedding).mean()
    weights = np.clip(fit(KLIEP(), view).weights_.logged, 1e-3, 1e3)
    expected = direct + np.average(residual, weights=weights)
    assert estimator.estimate(view).value == pytest.approx(expected)
    # The second ratio is a logistic regression: the estimator's own is none.
    classified = fit(EDR(**model), view)
    assert estimator.second_ratio_.diagnostics != classified.second_ratio_.diagnostics


def test_only_what_is_fitted_is_required():
    classifier: dict[str, Any] = {"classifier": "mlp"}
    assert EPW(**classifier).batched
    assert "cuda" in EPW(**classifier).devices
    assert "torch" in EPW(**classifier).requires
    for name in OWN:
        estimator = EPW(ratio=name, **classifier)
        assert estimator.batched == ()
        assert estimator.devices == ("cpu",)
        assert estimator.requires == ("sklearn.metrics",)


def test_means_outside_of_the_logs_cannot_be_balanced():
    with pytest.raises(PositivityViolation, match="lies outside of what was logged"):
        tiny.run(EPW(ratio="entropy"), normals(50, 20.0))
