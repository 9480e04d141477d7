"""Learners by import path: which packages may be imported, and what is said of a wrong path."""

from __future__ import annotations

import importlib.metadata

import pytest

from ope_bench import LearnerName, ParameterError, learner_from_path
from ope_bench.contracts import parameters
from ope_bench.contracts.parameters import import_class, is_import_path


@pytest.mark.parametrize(
    "path", ["os.system", "sklearn", "sklearn.base.os;x", "", ".", "sklearn..x", "no_such.Class"]
)
def test_only_installed_packages_may_be_imported(path: str) -> None:
    assert not is_import_path(path)
    with pytest.raises(ParameterError, match="import path into an installed package"):
        import_class(path)


def test_a_module_of_the_working_directory_is_no_package(tmp_path, monkeypatch) -> None:
    (tmp_path / "beside.py").write_text("class Tree:\n    def fit(self): ...\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend("")
    assert not is_import_path("beside.Tree")


def test_a_class_of_any_package_needs_fit() -> None:
    with pytest.raises(ParameterError, match=r"'numpy.ndarray' has no fit"):
        import_class("numpy.ndarray")
    pytest.importorskip("xgboost")
    assert import_class("xgboost.XGBRegressor").__name__ == "XGBRegressor"


PIPELINE = """
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

def model():
    return make_pipeline(StandardScaler(), GradientBoostingRegressor())

number = 3
"""


def test_a_function_of_a_file_makes_a_seeded_learner(tmp_path) -> None:
    path = tmp_path / "models.py"
    path.write_text(PIPELINE)
    name = LearnerName(("tree",), "regressor")
    assert name.check(f"{path}:model") == f"{path}:model"
    params = {"gradientboostingregressor__n_estimators": 7}
    learner = learner_from_path(f"{path}:model", seed=5, params=params)
    assert (learner[-1].n_estimators, learner[-1].random_state) == (7, 5)
    with pytest.raises(ParameterError, match="did you mean 'memory'"):
        learner_from_path(f"{path}:model", seed=5, params={"memry": 1})


@pytest.mark.parametrize(
    ("ending", "message"),
    [
        ("models.py:nowhere", "models.py has no function 'nowhere'"),
        ("models.py:number", "no function 'number'"),
        ("nowhere.py:model", "cannot be read: FileNotFoundError"),
    ],
)
def test_a_wrong_function_is_told(tmp_path, ending: str, message: str) -> None:
    (tmp_path / "models.py").write_text(PIPELINE)
    with pytest.raises(ParameterError, match=message):
        learner_from_path(f"{tmp_path}/{ending}", seed=5, params={})


def test_files_are_not_run_where_code_is_refused(tmp_path, monkeypatch) -> None:
    (tmp_path / "models.py").write_text("raise SystemExit")
    monkeypatch.setitem(parameters.LEARNER_FILES, "allowed", False)
    with pytest.raises(ParameterError, match="--no-code"):
        learner_from_path(f"{tmp_path}/models.py:model", seed=5, params={})


def test_a_package_that_brings_plugins_may_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_import_path("ope_estimators.learning.mlp.MLPRegressor")
    assert not is_import_path("zzz_ope.models.Tree")
    point = importlib.metadata.EntryPoint("x", "zzz_ope.plugins:X", "ope_bench.estimators")
    found = importlib.metadata.entry_points

    def entry_points(**given: str) -> object:
        own = given.get("group") == point.group
        return [*found(**given), *([point] if own else [])]

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    parameters._packages.cache_clear()
    try:
        assert is_import_path("zzz_ope.models.Tree")
        with pytest.raises(ParameterError, match="cannot be imported: No module named 'zzz_ope'"):
            import_class("zzz_ope.models.Tree")
    finally:
        parameters._packages.cache_clear()


def test_a_learner_is_seeded_and_single_threaded_where_it_can_be() -> None:
    forest = learner_from_path("sklearn.ensemble.RandomForestClassifier", seed=5, params={})
    assert (forest.random_state, forest.n_jobs) == (5, 1)
    own = {"random_state": 2, "max_depth": 3}
    forest = learner_from_path("sklearn.ensemble.RandomForestClassifier", seed=5, params=own)
    assert (forest.random_state, forest.max_depth) == (2, 3)
    neighbors = learner_from_path("sklearn.neighbors.KNeighborsRegressor", seed=5, params={})
    assert neighbors.n_jobs is None


@pytest.mark.parametrize(
    ("path", "params", "message"),
    [
        ("sklearn.svm.SCV", {}, "'sklearn.svm' has no class 'SCV'; did you mean 'SV"),
        ("sklearn.nowhere.X", {}, "'sklearn.nowhere.X' cannot be imported"),
        ("sklearn.base.clone", {}, "'sklearn.base' has no class 'clone'"),
        ("sklearn.svm.SVC", {"gama": 1}, "SVC has no parameter 'gama'; did you mean 'gamma'"),
    ],
)
def test_a_wrong_path_or_parameter_is_told(
    path: str, params: dict[str, int], message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        learner_from_path(path, seed=0, params=params)


def test_a_name_or_a_path_passes() -> None:
    name = LearnerName(("tree",), "classifier")
    assert name.check("tree") == "tree"
    assert name.check("sklearn.tree.DecisionTreeClassifier") == (
        "sklearn.tree.DecisionTreeClassifier"
    )
    with pytest.raises(ParameterError, match=r"'tee' is no classifier; did you mean 'tree'"):
        name.check("tee")
