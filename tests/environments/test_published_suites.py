"""The suites in the environments' README, which express the setups of published tables."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split

from ope_bench.suites.manifest import plan
from ope_bench.suites.suite import read_suite
from ope_bench.trials.status import Status
from ope_bench.trials.trial import Workspace, build, run_trial
from ope_environments.linear_bandit.environment import LinearBandit
from ope_environments.multiclass.environment import Multiclass
from support.paths import ROOT

README = ROOT / "environments" / "README.md"
BLOCKS = re.findall(r"```yaml\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
NAMES = ("multiclass", "linear-bandit")


@pytest.fixture
def iris(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set as KEEL's packages ship it: no header, the label last, a space behind commas."""
    bunch = load_iris()
    rows = [
        ", ".join([*(f"{value:g}" for value in features), bunch.target_names[label]])
        for features, label in zip(bunch.data, bunch.target, strict=True)
    ]
    (tmp_path / "iris.dat").write_text("\n".join(rows), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_there_is_one_of_each_kind() -> None:
    assert len(BLOCKS) == len(NAMES)
    for name, block in zip(NAMES, BLOCKS, strict=True):
        assert f"- {name}:" in block


@pytest.mark.parametrize("block", BLOCKS, ids=NAMES)
def test_every_trial_of_a_published_setup_has_an_estimate(iris: Path, block: str) -> None:
    (iris / "suite.yaml").write_text(block, encoding="utf-8")
    trials = plan(read_suite(iris / "suite.yaml")).trials
    assert len(trials) == (6 if "multiclass" in block else 16)
    workspace = Workspace()
    for trial in trials:
        record = run_trial(trial, workspace)
        assert record.status is Status.OK, (trial.estimator.id, record.error_message)


def test_the_multiclass_setup_is_the_published_one(iris: Path) -> None:
    """Split, policies and value, written out with scikit-learn."""
    (iris / "suite.yaml").write_text(BLOCKS[0], encoding="utf-8")
    trial = plan(read_suite(iris / "suite.yaml")).trials[0]
    environment = build(trial.environment)
    assert isinstance(environment, Multiclass)
    seeds = (np.random.default_rng(k) for k in range(3))
    names = ("world_rng", "logged_rng", "target_rng")
    problem, truth = environment.sample(**dict(zip(names, seeds, strict=True)))
    x, y = load_iris(return_X_y=True)
    evaluated, trained = train_test_split(
        np.arange(len(y)), train_size=0.5, random_state=environment.split_seed
    )
    assert {row.tobytes() for row in problem.context} == {row.tobytes() for row in x[evaluated]}
    assert len(problem.context) == len(evaluated)
    assert len(trained) == 75
    value = 0.0
    for sign, policy in ((1.0, problem.logging_policy), (-10.0, problem.target_policy)):
        model = policy.model  # type: ignore[union-attr, attr-defined]
        assert model.max_iter == 100_000
        table = softmax(sign * model.predict_proba(x[evaluated]), axis=1)
        np.testing.assert_allclose(policy.table(x[evaluated]), table, rtol=1e-9)  # type: ignore[union-attr, attr-defined]
        value = float(table[np.arange(len(evaluated)), y[evaluated]].mean())
    assert truth.expected == pytest.approx(value, abs=1e-12)


def test_the_reward_model_of_the_multiclass_setup_is_a_regression_for_each_action(
    iris: Path,
) -> None:
    """DM and DR by least squares, action by action."""
    (iris / "suite.yaml").write_text(BLOCKS[0], encoding="utf-8")
    trials = plan(read_suite(iris / "suite.yaml")).trials[:3]
    workspace = Workspace()
    found = {one.estimator.id: run_trial(one, workspace).estimate for one in trials}
    seed = trials[0].data_seed
    problem, _ = build(trials[0].environment).sample(
        world_rng=seed.world(), logged_rng=seed.logged(), target_rng=seed.target()
    )
    design = np.column_stack([np.ones(len(problem.reward)), problem.context])
    q = np.empty((len(problem.reward), 3))
    for action in range(3):
        rows = problem.action == action
        q[:, action] = design @ np.linalg.lstsq(design[rows], problem.reward[rows])[0]
    table = problem.target_policy.table(problem.context)
    direct = (table * q).sum(axis=1)
    assert found["dm"] == pytest.approx(direct.mean(), abs=1e-9)
    at = np.arange(len(direct)), problem.action
    weight = table[at] / problem.propensity
    assert found["dr"] == pytest.approx((direct + weight * (problem.reward - q[at])).mean())


def test_the_linear_setup_is_a_uniform_target_over_ten_actions(iris: Path) -> None:
    (iris / "suite.yaml").write_text(BLOCKS[1], encoding="utf-8")
    environment = build(plan(read_suite(iris / "suite.yaml")).trials[0].environment)
    assert isinstance(environment, LinearBandit)
    assert (environment.n_actions, environment.reward, environment.target) == (
        10, "logistic", "uniform",
    )  # fmt: skip
