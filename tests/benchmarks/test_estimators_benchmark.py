"""Seconds of each family of estimators on a thousand rows, its fits included."""

from types import SimpleNamespace

import numpy as np
import pytest

from ope_bench import Access, View
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import FitCache
from ope_bench.plugins.spec import resolve
from ope_bench.trials.trial import build
from ope_environments.saito.toy import SaitoToy
from ope_estimators.density_ratio import matching
from ope_estimators.density_ratio.matching import EnergyWeights, KernelMeanWeights
from ope_estimators.learning import learners
from ope_estimators.learning.quadratic import QuadraticRegressor
from ope_estimators.nuisance.policy import PolicyModel
from ope_estimators.nuisance.reward import RewardModel

ROWS = 1_000
FLOW = {"flow_params": {"epochs": 2}}

ESTIMATORS = {
    "logging-average": {},
    "ipw": {},
    "ipws": {},
    "ipw-star": {},
    "dm": {"regressor": "hist-gbm"},
    "dm-star": {"regressor": "hist-gbm"},
    "dr": {"regressor": "ridge"},
    "eipw": {},
    "eipws": {},
    "edm": {"regressor": "hist-gbm"},
    "mips": {},
    "epw": {},
    "epws": {},
    "epws-paper": {},
    "edr": {},
    "fepws": FLOW,
}


@pytest.fixture(scope="module")
def problem():
    streams = map(np.random.default_rng, range(3))
    names = ("world_rng", "logged_rng", "target_rng")
    environment = SaitoToy(n_actions=20, n_samples=ROWS)
    return environment.sample(**dict(zip(names, streams, strict=True)))[0]


def viewed(problem, access):
    return View(problem, access, seed=DataSeed("benchmark", 0, 0), fit_cache=FitCache())


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_one_estimate(estimator, problem, benchmark):
    method = build(resolve("estimator", estimator, ESTIMATORS[estimator]))

    def estimate():
        view = viewed(problem, method.access)
        method.fit(view, rng=np.random.default_rng(0), device="cpu")
        return method.estimate(view)

    found = benchmark.pedantic(estimate, rounds=2, warmup_rounds=1)
    assert np.isfinite(found.value)


@pytest.mark.parametrize("name", ["logistic", "hist-gbm", "random-forest", "xgboost"])
def test_fitting_a_model_of_actions(name, problem, benchmark):
    small = {"hist-gbm": {"max_iter": 10}, "xgboost": {"n_estimators": 10}}
    spec = PolicyModel("logged", name, learners.frozen(small.get(name)))

    def fit():
        view = viewed(problem, Access.SAMPLES)
        model = spec.fit(view, rng=np.random.default_rng(0), device="cpu")
        return model.probability(view.context, view.action)

    assert (benchmark.pedantic(fit, rounds=2, warmup_rounds=1) >= 0).all()


@pytest.mark.parametrize(
    "name", ["ridge", "pooled", "gbm", "gbm-exact", "hist-gbm", "random-forest", "xgboost", "mlp"]
)
def test_fitting_a_model_of_rewards(name, problem, benchmark):
    spec = RewardModel(name, learners.frozen({"epochs": 3} if name == "mlp" else None))

    def fit():
        view = viewed(problem, Access.SAMPLES)
        model = spec.fit(view, rng=np.random.default_rng(0), device="cpu")
        return model.logged(view.context, view.action)

    assert np.isfinite(benchmark.pedantic(fit, rounds=2, warmup_rounds=1)).all()


@pytest.mark.parametrize("name", ["maf", "nsf", "realnvp"])
def test_fitting_a_flow(name, problem, benchmark):
    from ope_estimators.flows.flow import FlowModel

    def fit():
        return viewed(problem, Access.SAMPLES).fitted(FlowModel(name, epochs=2))

    fitted = benchmark.pedantic(fit, rounds=2, warmup_rounds=1)
    assert np.isfinite(fitted.pooled).all()


@pytest.mark.parametrize("by", ["predict", "everywhere"])
def test_a_quadratic_model_at_all_pairs(by, benchmark):
    """What a log of 6,000 rows or more gets, and what a smaller one does."""
    rng = np.random.default_rng(0)
    context, points = rng.normal(size=(200, 10)), rng.normal(size=(300, 20))
    pairs = np.hstack([np.repeat(context, 300, axis=0), np.tile(points, (200, 1))])
    model = QuadraticRegressor().fit(pairs[::29], rng.normal(size=len(pairs[::29])))

    def predict():
        return model.predict(pairs) if by == "predict" else model.everywhere(context, points)

    found = benchmark.pedantic(predict, rounds=2, warmup_rounds=1)
    assert found == pytest.approx(model.predict(pairs), abs=1e-10)


@pytest.mark.parametrize("paired_rows", [4_000, 0], ids=["all pairs", "landmarks"])
@pytest.mark.parametrize(
    "model", [EnergyWeights(), KernelMeanWeights(1000.0)], ids=["energy", "kmm"]
)
def test_weights_of_three_thousand_rows(model, paired_rows, benchmark, monkeypatch):
    monkeypatch.setattr(matching, "PAIRED_ROWS", paired_rows)
    rng = np.random.default_rng(0)
    logged, target = rng.normal(size=(3_000, 20)), rng.normal(0.2, 1.0, size=(3_000, 20))
    view = SimpleNamespace(n=3_000, m=3_000)

    def weigh():
        return model.weigh(view, logged, target, np.random.default_rng(0)).logged

    assert (benchmark.pedantic(weigh, rounds=2, warmup_rounds=1) >= 0).all()
