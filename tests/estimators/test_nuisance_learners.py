"""Learners by name: what is accepted, what they make, what they need."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

import numpy as np
import pytest

from ope_bench.base.errors import ParameterError, UnavailableError
from ope_bench.contracts.parameters import validated
from ope_bench.plugins.spec import resolve
from ope_estimators.learning import learners
from ope_estimators.learning.learners import CLASSIFIERS, REGRESSORS, classifier, regressor
from ope_estimators.learning.trees import by_columns

FEW = {
    "gbm": {"n_estimators": 5},
    "gbm-exact": {"n_estimators": 5},
    "hist-gbm": {"max_iter": 5},
    "random-forest": {"n_estimators": 5},
    "xgboost": {"n_estimators": 5},
    "mlp": {"epochs": 30},
}


class Chooser:
    def __init__(
        self,
        classifier: learners.ClassifierName = "gbm",
        regressor: learners.RegressorName = "gbm",
    ) -> None: ...


def data(n=80):
    x = np.random.default_rng(0).normal(size=(n, 2))
    return x, x[:, 0] - 0.5 * x[:, 1]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["gbm", "random-forest"])
def test_trees_are_fitted_column_by_column_with_the_same_bits(name, weighted, monkeypatch):
    rows, outcome = data()
    weight = np.random.default_rng(1).exponential(size=len(rows))
    learner = regressor(name, seed=3, params=FEW[name])
    scaled = weight / weight.mean() if weighted else None
    plain = regressor(name, seed=3, params=FEW[name]).fit(rows, outcome, scaled)
    layouts, fit = [], type(learner).fit

    def watched(self, features, *rest, **options):
        layouts.append((features.dtype, features.flags.f_contiguous))
        return fit(self, features, *rest, **options)

    monkeypatch.setattr(type(learner), "fit", watched)
    if weighted:
        # The signature tells whether weights are taken.
        monkeypatch.setattr(watched, "__signature__", inspect.signature(fit), raising=False)
        learners.fit_weighted(learner, rows, outcome, weight)
    else:
        learners.fitted(learner, rows, outcome, None)
    assert layouts == [(np.float32, True)]
    np.testing.assert_array_equal(learner.predict(rows), plain.predict(rows))


def test_classifiers_of_trees_are_fitted_column_by_column_too():
    rows, outcome = data()
    for name in ("gbm", "random-forest"):
        learner = classifier(name, seed=3, params=FEW[name])
        assert by_columns(learner, rows).flags.f_contiguous
        plain = classifier(name, seed=3, params=FEW[name]).fit(rows, outcome > 0)
        learners.fitted(learner, rows, outcome > 0, None)
        np.testing.assert_array_equal(learner.predict_proba(rows), plain.predict_proba(rows))
    assert by_columns(regressor("ridge", seed=0), rows) is rows


@pytest.mark.parametrize("name", [*REGRESSORS, "sklearn.neighbors.KNeighborsRegressor"])
def test_every_regressor_learns_the_same_twice(name):
    if name == "mlp":
        pytest.importorskip("ope_estimators.learning.mlp")
    x, y = data()
    once, twice = (
        regressor(name, seed=3, params=FEW.get(name, ())).fit(x, y).predict(x) for _ in range(2)
    )
    assert (once == twice).all()
    assert np.corrcoef(once, y)[0, 1] > 0.7


@pytest.mark.parametrize("name", [*CLASSIFIERS, "sklearn.naive_bayes.GaussianNB"])
def test_every_classifier_learns_the_same_twice(name):
    if name == "mlp":
        pytest.importorskip("ope_estimators.learning.mlp")
    x, y = data()
    once, twice = (
        classifier(name, seed=3, params=FEW.get(name, ())).fit(x, y > 0).predict_proba(x)
        for _ in range(2)
    )
    assert (once == twice).all()
    assert once.shape == (80, 2)
    assert once.sum(axis=1) == pytest.approx(np.ones(80))
    assert ((once[:, 1] > 0.5) == (y > 0)).mean() > 0.8


@pytest.mark.parametrize("name", ["logistic", "linear", "ridge"])
def test_degree_gives_a_linear_model_polynomial_features(name):
    make = classifier if name == "logistic" else regressor
    x, _ = data()
    y = x[:, 0] * x[:, 1]
    y = y > 0 if name == "logistic" else y
    scores = [make(name, seed=0, params={"degree": k}).fit(x, y).score(x, y) for k in (1, 2)]
    assert scores[0] < 0.75
    assert scores[1] > 0.9


def test_seed_reaches_the_learner_but_parameters_win():
    assert regressor("gbm", seed=5).random_state == 5
    assert regressor("gbm", seed=5, params={"random_state": 7}).random_state == 7
    assert regressor("random-forest", seed=5).n_jobs == 1
    assert regressor("xgboost", seed=5).n_jobs == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"classifier": "gbmm"}, "'gbmm' is no classifier; did you mean 'gbm'"),
        ({"regressor": "logistic"}, "'logistic' is no regressor"),
        ({"classifier": "ridge"}, "'ridge' is no classifier"),
        ({"classifier": "os.system"}, "'os.system' is no classifier"),
        ({"classifier": "sklearn.svm.SCV"}, "'sklearn.svm' has no class 'SCV'"),
        ({"classifier": "sklearn.nowhere.X"}, "'sklearn.nowhere.X' cannot be imported"),
        ({"classifier": "sklearn.base.os;x"}, "is no classifier"),
        ({"classifier": "sklearn"}, "'sklearn' is no classifier"),
        ({"classifier": 3}, "valid string"),
    ],
)
def test_a_wrong_name_is_refused_in_one_line(given, message):
    with pytest.raises(ParameterError) as caught:
        validated(Chooser, given)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_and_scikit_learn_paths_are_accepted_where_parameters_are_validated():
    path = "sklearn.svm.SVC"
    assert validated(Chooser, {"classifier": path})["classifier"] == path
    for name in CLASSIFIERS:
        assert validated(Chooser, {"classifier": name})["classifier"] == name


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("gbm", {"n_estimator": 3}, "no parameter 'n_estimator'; did you mean 'n_estimators'"),
        ("xgboost", {"n_estimator": 3}, "no parameter 'n_estimator'; did you mean 'n_estimators'"),
        ("ridge", {"degre": 2}, "no parameter 'degre'"),
        ("sklearn.decomposition.PCA", {}, "is no regressor: it has no predict"),
    ],
)
def test_a_wrong_parameter_is_one_clear_error(name, params, message):
    with pytest.raises(ParameterError, match=message):
        regressor(name, seed=0, params=params)


@pytest.mark.parametrize("name", {**CLASSIFIERS, **REGRESSORS})
def test_required_modules_exist_and_suffice(name):
    for module in learners.requires(name):
        importlib.import_module(module)


@pytest.mark.parametrize("name", ["logistic", "gbm"])
def test_no_import_is_left_to_the_fit(name):
    code = f"""
import importlib, sys, warnings
from ope_estimators.learning import learners
for module in learners.requires({name!r}): importlib.import_module(module)
before = set(sys.modules)
import numpy as np
x = np.random.default_rng(0).normal(size=(40, 2))
learners.classifier({name!r}, seed=0).fit(x, x[:, 0] > 0).predict_proba(x)
late = sorted(m for m in set(sys.modules) - before if m.startswith("sklearn"))
print(late)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize(("name", "extra"), [("xgboost", "xgboost"), ("mlp", "flow")])
def test_a_missing_package_makes_the_learner_unavailable(name, extra, monkeypatch):
    blocked = {"xgboost": "xgboost", "mlp": "ope_estimators.learning.mlp"}[name]
    monkeypatch.setitem(sys.modules, blocked, None)
    with pytest.raises(UnavailableError, match=rf"pip install 'ope-bench\[{extra}\]'"):
        classifier(name, seed=0)


def test_only_learners_with_a_gpu_list_cuda():
    assert learners.devices("xgboost") == learners.devices("mlp") == ("cpu", "cuda")
    assert learners.devices("gbm") == learners.devices("sklearn.svm.SVC") == ("cpu",)


def test_frozen_parameters_do_not_depend_on_their_order():
    assert learners.frozen({"a": 1, "b": 2}) == learners.frozen({"b": 2, "a": 1})
    assert learners.frozen(None) == ()


def test_importing_the_module_imports_no_learner():
    code = (
        "import sys, ope_estimators.nuisance.reward_based, ope_estimators.nuisance.policy;"
        "print([m for m in ('sklearn', 'torch', 'xgboost', 'pydantic') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize("estimator", ["mips", "ipw-star", "dm-star-paper"])
def test_a_classifier_of_two_classes_is_refused_where_actions_are_classified(estimator: str):
    with pytest.raises(ParameterError, match="no classifier of many actions"):
        resolve("estimator", estimator, {"classifier": "mlp"})


@pytest.mark.gpu
def test_on_a_gpu_xgboost_grows_the_trees_there():
    pytest.importorskip("xgboost")
    if not pytest.importorskip("torch").cuda.is_available():
        pytest.skip("no CUDA device")
    x, y = data(400)
    model, peer = (
        regressor("xgboost", seed=0, device=device).fit(x, y) for device in ("cuda", "cpu")
    )
    assert model.get_booster().save_config().count("cuda") > 0
    assert np.corrcoef(model.predict(x), peer.predict(x))[0, 1] > 0.99
